"""Designs that change over the rows of a table: what is filled, what is taken away, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import keyplan
from keyplan.engines import engine_for_url
from keyplan.engines.rounds import Pause
from keyplan.errors import ConflictError, DesignMismatchError
from keyplan.model.model import Model
from keyplan.store.bulk import apply as applying
from keyplan.store.core import Core
from keyplan.store.writing.changes import RowChange
from tests.engines.dynamodb.meter import Metered
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import drive, url_of
from tests.unit.design.nouns import model_of

USER = 'User: { count: 10k, fields: { uid: "int, key", name: string(20), email: string(30)%s } }'
NOTE = """
Note:
  count: 1M
  fields:
    nid: int, key
    owner: User, as notes
    made: timestamp
    tags: set(string, avg 2, max 5)
"""
NOTE_OF = 'note: { find: Note, where: "nid = :nid", rate: 50/s }'
OF_OWNER = """
of_owner: { find: Note, where: "owner = :uid", select: [nid, owner.name], order: made desc, page: 5, rate: 500/s }
"""
TAGGED = 'tagged: { find: Note, where: "contains(tags, :tag)", select: [nid], order: nid, page: 5, rate: 50/s }'
WRITES = """
sign_up: { create: User, rate: 0.1/s }
rename: { update: User, set: [name], where: "uid = :uid", rate: 0.001/s }
jot: { create: Note, rate: 0.1/s }
"""


def model(entities: str = USER % "" + NOTE, patterns: str = NOTE_OF, writes: str = WRITES) -> Model:
    return model_of(entities, patterns, writes)


BEFORE = model()
AFTER = model(patterns=NOTE_OF + OF_OWNER + TAGGED)


@pytest.fixture
def url(dynoxide: Server) -> str:
    """A table with rows under the first design."""
    url = url_of(dynoxide.url)
    keyplan.apply(BEFORE, url)
    with keyplan.open(BEFORE, url) as store:
        store.load(("User", {"uid": n, "name": f"n{n}", "email": f"e{n % 3}@x"}) for n in range(4))
        made = "2030-01-01T00:00:0{}Z"
        store.load(
            ("Note", {"nid": n, "owner": n % 2, "made": made.format(n), "tags": {"a", f"t{n % 3}"}}) for n in range(8)
        )
    return url


def items(url: str) -> list[Any]:
    """The items of the table as they are, but for the record."""
    from keyplan.engines.dynamodb.operations import Request

    port = engine_for_url(url).connect(url, BEFORE, None)
    (reply,) = port.send([Request("Scan", {"ConsistentRead": True})])
    port.close()
    found = [item for item in reply["Items"] if item["PK"]["S"] != "KEYPLAN"]
    return sorted(found, key=lambda item: (item["PK"]["S"], item["SK"]["S"]))


def right(store: Any) -> None:
    assert [(row["nid"], row["owner"]["name"]) for row in store.of_owner(uid=1)] == [
        (7, "n1"),
        (5, "n1"),
        (3, "n1"),
        (1, "n1"),
    ]
    assert [row["nid"] for row in store.tagged(tag="t1")] == [1, 4, 7]
    assert store.verify().ok


def test_items_copies_and_index_keys_are_made_from_the_rows(url: str) -> None:
    before = items(url)
    planned = keyplan.apply(AFTER, url, dry=True)
    assert items(url) == before
    progress: list[str] = []
    assert keyplan.apply(AFTER, url, progress=progress.append) == planned
    fill = next(step for step in planned if step.startswith("fill "))
    assert planned.index(fill) == len(planned) - 2
    assert planned[-1].startswith("record the design")
    assert f"{fill}: 8 rows" in progress
    assert keyplan.apply(AFTER, url) == []
    with keyplan.open(AFTER, url) as store:
        right(store)
        store.rename(uid=1, name="new")
        assert store.of_owner(uid=1).rows[0]["owner"]["name"] == "new"
        store.rename(uid=1, name="n1")
    done = keyplan.apply(BEFORE, url)
    assert any(step.startswith("delete the items of ") for step in done)
    assert items(url) == before


def test_the_table_is_read_once_for_all_entities(url: str) -> None:
    """And what is new there is not looked up before it is written; each item costs what a transaction takes."""
    nicknamed = TAGGED.replace("tagged", "named").replace("Note", "User").replace("tags", "nicks").replace("nid", "uid")
    entities = (USER % ', nicks: "set(string, avg 2, max 5)"') + NOTE
    after = model(entities, "\n".join((NOTE_OF, TAGGED, nicknamed)))
    design = keyplan.design(after, "dynamodb", advise=False)
    engine = engine_for_url(url)
    port = engine.connect(url, after, design)
    meter = Metered(port, after, design)
    drive(applying.apply(after, engine, design), port)
    taken = meter.reset()
    port.close()
    entries = [item for item in items(url) if "EACH" in item["PK"]["S"]]
    assert len(entries) == 16
    looks = [body for operation, body in zip(taken.operations, taken.bodies, strict=True) if operation == "Scan"]
    # Whether there are rows at all, before the table is claimed and then; and all of them.
    assert [body.get("Limit") for body in looks] == [50, 50, None]
    assert "BatchGetItem" not in taken.operations
    assert taken.read[""] < 18  # the second look reads the record once more, and a few items
    writes = [body for operation, body in zip(taken.operations, taken.bodies, strict=True) if "Write" in operation]
    assert [len(body["TransactItems"]) for body in writes if "ConditionCheck" in str(body)] == [16 + 1]
    with keyplan.open(after, url) as store:
        assert [row["nid"] for row in store.tagged(tag="t1")] == [1, 4, 7]
        assert store.verify().ok


WORKER = """
Worker:
  count: 1M
  fields:
    wid: int, key
    boss: Worker, as team, optional 90%
    pay: int
    size: count(team)
    most: max(team.pay)
"""
LARGEST = """
largest: { find: Worker, order: size desc, limit: 5, select: [wid, size], rate: 500/s }
dearest: { find: Worker, where: "boss = :boss", order: most desc, page: 5, select: [wid, most], rate: 500/s }
"""
HIRE = (
    'hire: { create: Worker, rate: 0.01/s }\nmove: { update: Worker, set: [boss], where: "wid = :wid", rate: 0.01/s }'
)


def test_values_computed_of_rows_that_are_found_by_what_is_new(dynoxide: Server) -> None:
    """Here of the same entity: the entries that say who is in a team come first."""
    url = url_of(dynoxide.url)
    before, after = (
        model(WORKER, 'one: { find: Worker, where: "wid = :wid", rate: 1/s }' + more, HIRE) for more in ("", LARGEST)
    )
    keyplan.apply(before, url)
    with keyplan.open(before, url) as store:
        for wid in range(9):
            store.hire(wid=wid, pay=wid, boss=None if wid == 0 else wid // 3)
    keyplan.apply(after, url)
    with keyplan.open(after, url) as store:
        assert any(place.home and "size" in place.holds for place in store._core.places.of["Worker"])
        assert [(row["wid"], row["size"]) for row in store.largest()] == [(2, 3), (1, 3), (0, 2), (8, 0), (7, 0)]
        assert [(row["wid"], row["most"]) for row in store.dearest(boss=0)] == [(2, 8), (1, 5)]
        assert store.verify().ok


def cut_off(model: Model, url: str, rounds: int, *, destroy: bool = False) -> bool:
    """Applies the design of a model up to so many rounds of requests; whether it came to the end."""
    engine = engine_for_url(url)
    design = keyplan.design(model, engine.name, advise=False)
    port = engine.connect(url, model, design)
    attempt = applying.apply(model, engine, design, destroy=destroy)
    try:
        attempt.send(some_rounds(attempt, port, rounds))
        attempt.close()
        return False
    except StopIteration:
        return True
    finally:
        port.close()


def some_rounds(attempt: Any, port: Any, rounds: int, replies: Any = None) -> Any:
    """Goes on with an apply; the replies that it waits for."""
    for _ in range(rounds):
        round = attempt.send(replies)
        replies = () if isinstance(round, Pause) else port.send(round)
    return replies


def test_an_apply_that_is_cut_off_anywhere_is_finished_by_the_next_or_taken_back(url: str) -> None:
    before = items(url)
    rounds, begun = 0, False
    while not cut_off(AFTER, url, rounds):
        begun = begun or items(url) != before
        if begun:
            for model in (BEFORE, AFTER):
                with pytest.raises(DesignMismatchError, match="an 'apply' has not come to its end here"):
                    keyplan.open(model, url)
        if rounds % 2:
            keyplan.apply(BEFORE, url)
            assert items(url) == before
            begun = False
        rounds += 1
    assert rounds > 7
    with keyplan.open(AFTER, url) as store:
        right(store)


def test_what_was_about_to_go_is_made_again_where_an_apply_was_cut_off(url: str) -> None:
    keyplan.apply(AFTER, url)
    rounds = 0
    while not cut_off(BEFORE, url, rounds):
        keyplan.apply(AFTER, url)
        with keyplan.open(AFTER, url) as store:
            right(store)
        rounds += 1
    assert rounds > 5


def test_of_two_that_apply_at_once_one_is_refused(url: str) -> None:
    engine = engine_for_url(url)
    design = keyplan.design(AFTER, engine.name, advise=False)
    port = engine.connect(url, AFTER, design)
    attempt = applying.apply(AFTER, engine, design)
    replies = some_rounds(attempt, port, 6)
    keyplan.apply(BEFORE, url)
    with pytest.raises(ConflictError, match="another process is applying a design to this table as well"):
        some_rounds(attempt, port, 100, replies)
    port.close()
    with keyplan.open(BEFORE, url) as store:
        assert store.note(nid=1)["nid"] == 1
    keyplan.apply(AFTER, url)
    with keyplan.open(AFTER, url) as store:
        right(store)


def test_values_that_were_being_given_up_are_not_taken_to_be_there(url: str) -> None:
    """Nor those that were about to come."""
    less = model((USER % "").replace(", email: string(30)", "") + NOTE)
    rounds = 0
    while "email" in str(items(url)) and not cut_off(less, url, rounds, destroy=True):
        rounds += 1
    with pytest.raises(DesignMismatchError, match="have no 'email', which every row has in this design"):
        keyplan.apply(BEFORE, url)
    keyplan.apply(less, url)
    more, must = (
        model(USER.replace(", email: string(30)%s", f', nick: "string(9){way}"') + NOTE, NOTE_OF + added)
        for way, added in ((", optional", OF_OWNER), ("", ""))
    )
    assert not cut_off(more, url, 6)
    with pytest.raises(DesignMismatchError, match="have no 'nick', which every row has in this design"):
        keyplan.apply(must, url)


def test_a_write_that_was_not_finished_for_an_entity_that_is_gone(url: str) -> None:
    keyplan.apply(AFTER, url)
    engine = engine_for_url(url)
    design = keyplan.design(AFTER, engine.name, advise=False)
    core = Core(AFTER, design, engine)
    old = {"uid": 1, "name": "n1", "email": "e1@x"}
    intent = core.writer.intents.record(RowChange("User", (1,), old, {**old, "name": "x"}, "rename"))
    port = engine.connect(url, AFTER, design)
    port.send([core.codec.write([intent])])
    port.close()
    alone = model('Tag: { count: 10, fields: { tid: "int, key" } }\n', 'tag: { find: Tag, where: "tid = :tid" }', "")
    keyplan.apply(alone, url, destroy=True)
    with keyplan.open(alone, url) as store:
        assert store.verify().ok
    keyplan.apply(BEFORE, url, destroy=True)
    with keyplan.open(BEFORE, url) as store:
        store.sign_up(uid=1, name="n", email="e")
        store.rename(uid=1, name="m")
        assert store.verify().ok


def test_fields_that_rows_may_lack_and_new_entities_come(url: str) -> None:
    more = model(
        USER % ', nick: "string(9), optional"' + NOTE + 'Tag: { count: 10, fields: { tid: "int, key" } }\n',
        NOTE_OF + '\nuser: { find: User, where: "uid = :uid", rate: 1/s }',
        WRITES + "\ncoin: { create: Tag, rate: 0.1/s }",
    )
    keyplan.apply(more, url)
    with keyplan.open(more, url) as store:
        assert store.user(uid=1)["nick"] is None
        store.coin(tid=1)
        store.sign_up(uid=9, name="x", email="y", nick="z")
    with pytest.raises(DesignMismatchError, match=r"destroy data: .*User.nick.*--destroy"):
        keyplan.apply(BEFORE, url)
    steps = keyplan.apply(BEFORE, url, destroy=True)
    assert [step.partition(",")[0] for step in steps if step.startswith("destroys: ")] == [
        "destroys: delete all rows of 'Tag'",
        "destroys: take User.nick out of the rows that are there",
    ]
    assert not [item for item in items(url) if "nick" in item or item["PK"]["S"].startswith("TAG#")]
    with keyplan.open(BEFORE, url) as store:
        assert store.verify().ok


@pytest.mark.parametrize(
    ("user", "told"),
    [
        (', age: "int"', "have no 'age', which every row has in this design; make it optional"),
        ("", "have string in 'email', and this design wants int"),
    ],
)
def test_values_that_rows_do_not_have_are_refused(url: str, user: str, told: str) -> None:
    entities = USER % user if user else (USER % "").replace("email: string(30)", "email: int")
    with pytest.raises(DesignMismatchError, match=told):
        keyplan.apply(model(entities + NOTE), url)
    keyplan.open(BEFORE, url).close()


def test_a_value_that_is_to_be_unique_and_is_not(url: str) -> None:
    once = model((USER % "").replace("string(30)", '"string(30), unique"') + NOTE)
    with pytest.raises(DesignMismatchError, match=r"rows of 'User' have the same email \('e0@x'\)"):
        keyplan.apply(once, url)
    keyplan.apply(BEFORE, url)
    with keyplan.open(BEFORE, url) as store:
        assert store.verify().ok
