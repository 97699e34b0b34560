"""Bulk load: any entities, meaning upsert, with progress, resumed after an interruption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import keyplan
from keyplan.engines.rounds import Pause
from keyplan.errors import ArgumentError, ConflictError
from keyplan.store.bulk import load
from keyplan.store.writing.commit import Commit
from keyplan.store.writing.rows import RowReader
from tests.conformance.conftest import Both
from tests.conformance.pair import NOON, Pair

MODEL = """
entities:
  User:
    fields:
      uid: int, key
      email: string(8), unique, optional 90%
      name: string(8), optional 90%
      made: timestamp, now
      spent: sum(orders.total)
  Order:
    fields:
      oid: int, key
      user: User, as orders, optional 90%
      total: int, default 1
      buyer: string(8), optional 50%, from user.name
      tags: set(string(4), avg 1)
patterns:
  user: { find: User, where: "uid = :uid" }
  by_email: { find: User, where: "email = :email" }
  orders: { find: Order, where: "user = :uid", order: total desc, page: 100 }
  named: { find: Order, where: "user.name = :name", select: [oid] }
  tagged: { find: Order, where: "contains(tags, :tag)", select: [oid] }
writes:
  join: { create: User }
  rename: { update: User, set: [name], where: "uid = :uid" }
"""


def rows(count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for number in range(count):
        yield "User", {"uid": number, "email": f"u{number}", "name": f"n{number % 5}"}
        yield "Order", {"oid": number, "user": number // 2, "total": number % 9, "tags": [f"t{number % 3}"]}


def asked(pair: Pair) -> None:
    for uid in (0, 1, 7):
        pair.same("user", uid=uid)
        pair.same("orders", uid=uid)
    pair.same("by_email", email="u3")
    for name in ("n0", "n4"):
        pair.same("named", name=name)
    pair.same("tagged", tag="t1")


def test_rows_of_any_entities_in_any_order(both: Both) -> None:
    pair = both(MODEL)
    pair.load(reversed(list(rows(30))))
    asked(pair)


def test_loading_again_changes_nothing(both: Both) -> None:
    pair = both(MODEL, rows(20))
    pair.load(rows(20))
    asked(pair)


def test_loading_replaces(both: Both) -> None:
    pair = both(MODEL, rows(20))
    pair.load(
        [("User", {"uid": 3}), ("Order", {"oid": 3, "user": 1, "total": 100}), ("User", {"uid": 50, "email": "u3"})]
    )
    asked(pair)
    assert pair.same("user", uid=1)["spent"] == 102


def test_defaults_and_snapshots_are_filled_in(both: Both) -> None:
    pair = both(MODEL, [("User", {"uid": 1, "name": "x"}), ("Order", {"oid": 1, "user": 1})])
    (order,) = pair.same("orders", uid=1)
    assert (order["total"], order["buyer"]) == (1, "x")
    assert pair.same("user", uid=1)["made"] == NOON


def test_progress_counts_rows_that_are_safe(both: Both) -> None:
    pair = both(MODEL)
    told: list[int] = []
    assert pair.store.load(rows(10), progress=told.append) == 20
    assert told[-1] == 20
    assert told == sorted(told)


def test_no_rows(both: Both) -> None:
    assert both(MODEL).store.load([]) == 0


def test_an_interrupted_load_goes_on(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a small batch; batches of the usual size are interrupted on the command line."""
    batch = 500
    monkeypatch.setattr(load, "BULK", batch)
    pair = both(MODEL)
    told = [0]

    def interrupted() -> Iterator[tuple[str, dict[str, Any]]]:
        for number, row in enumerate(rows(batch)):
            if number == batch + 200:
                raise KeyboardInterrupt
            yield row

    with pytest.raises(KeyboardInterrupt):
        pair.store.load(interrupted(), progress=told.append)
    assert 0 < told[-1] <= batch + 200
    most = batch // 2 + 200
    assert pair.store.load(rows(most), done=told[-1]) == 2 * most - told[-1]
    pair.database.load(rows(most))
    asked(pair)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("Usr", {}), "no entity 'Usr'; did you mean 'User'"),
        (("User", {}), "load: row 3: User: missing argument 'uid'"),
        (("User", {"uid": "x"}), "load: row 3: User: argument 'uid'"),
        (("User", {"uid": 1, "nam": "x"}), "unknown argument 'nam'"),
        (("User", {"uid": 1, "spent": 1}), "'spent'"),
        (("User", 5), "load: row 3: User: expected a mapping of fields, got int"),
        (("User", [("uid", 1)]), "expected a mapping of fields, got list"),
        (("User", {"uid": 1, 5: "x"}), "unknown argument '5'"),
        (5, "load: row 3: expected (entity, fields), got 5"),
        (None, "expected (entity, fields), got None"),
        ("ab", "expected (entity, fields), got 'ab'"),
        ((), "expected (entity, fields), got ()"),
        (("User", {"uid": 1}, 1), "expected (entity, fields), got ('User', {'uid': 1}, 1)"),
        ({"uid": 1}, "expected (entity, fields), got {'uid': 1}"),
        ((["User"], {"uid": 1}), "no entity '['User']'"),
        ((None, {"uid": 1}), "no entity 'None'"),
    ],
)
def test_a_wrong_row_is_named(both: Both, row: Any, said: str) -> None:
    pair = both(MODEL)
    with pytest.raises(ArgumentError, match="load: row 3: ") as caught:
        pair.store.load([*rows(1), row])
    assert said in str(caught.value)
    assert caught.value.row == 3


@pytest.mark.parametrize("given", [5, None, "User", b"", {"User": {"uid": 1}}])
def test_what_is_no_list_of_rows_is_refused(both: Both, given: Any) -> None:
    pair = both(MODEL)
    with pytest.raises(ArgumentError, match=r"load: expected rows, each as \(entity, fields\), got "):
        pair.store.load(given)
    for done in (-1, "5", 1.5):
        with pytest.raises(ArgumentError, match="load: 'done' is a number of rows"):
            pair.store.load([], done=done)  # type: ignore[arg-type]


def test_a_row_with_a_taken_value_is_named(both: Both) -> None:
    pair = both(MODEL, [("User", {"uid": 1, "email": "a"})])
    with pytest.raises(ConflictError, match="load: row 3: User") as caught:
        pair.store.load([*rows(1), ("User", {"uid": 2, "email": "a"})])
    assert caught.value.row == 3


@pytest.mark.parametrize("wrong", [{"email": "a"}, {"email": "u2", "name": "y"}])
def test_of_several_versions_of_a_row_the_wrong_one_is_named(both: Both, wrong: dict[str, str]) -> None:
    pair = both(MODEL, [("User", {"uid": 1, "email": "a"})])
    versions = [{"email": "b"}, {"email": "u2"}, {}, {"email": "c", "name": "y"}, {"name": "z"}]
    some = [("User", {"uid": 2, **fields}) for fields in versions]
    with pytest.raises(ConflictError, match="load: row 7: User") as caught:
        pair.store.load([*some, ("User", {"uid": 3, "email": "u2"}), ("User", {"uid": 2, **wrong}), *some])
    assert caught.value.row == 7


GENERATED = """
entities:
  Event: { fields: { eid: "ulid, key", n: int } }
  User: { fields: { uid: "uuid, key", email: "string(8), unique", name: "string(8), optional 50%" } }
patterns:
  events: { find: Event, where: "n = :n", order: eid, page: 100 }
  user: { find: User, where: "uid = :uid" }
  by_email: { find: User, where: "email = :email" }
  named: { find: User, where: "name = :name", order: email, page: 9, rate: 1000/s }
writes:
  join: { create: User }
  log: { create: Event }
"""


def test_a_row_with_a_taken_value_is_named_if_its_key_is_generated(both: Both) -> None:
    pair = both(GENERATED, [("User", {"email": "a"})])
    given = [("Event", {"n": 1}), ("User", {"email": "b"}), ("User", {"email": "a", "name": "x"}), ("Event", {"n": 1})]
    with pytest.raises(ConflictError, match="load: row 3: User") as caught:
        pair.store.load(given)
    assert caught.value.row == 3


def test_a_row_that_stopped_a_load_is_put_right_or_taken_out(both: Both) -> None:
    """The others have the keys that they had, and are there once."""
    pair = both(GENERATED)
    with keyplan.open(pair.store.model, pair.url, design=pair.store.design, clock=pair.clock) as store:
        for number, right in enumerate([[("User", {"email": "c"})], []]):
            before = [("Event", {"n": number}), ("User", {"email": f"{number}"})]
            after = [("Event", {"n": number})] * 5
            with pytest.raises(ConflictError, match="load: row 3: User") as caught:
                store.load([*before, ("User", {"email": f"{number}"}), *after], done=0)
            assert caught.value.row == 3
            store.load([*before, *right, *after], done=0)
            assert len(list(store.events.all(n=number))) == 6
            assert store.verify().ok


def test_rows_without_keys_are_there_once_though_some_are_gone(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones: nothing follows from that for the others."""
    monkeypatch.setattr(load, "BULK", 4)
    pair = both(PASSED, [("Topic", {"tid": 1, "name": "a"})])
    rows = [("Event", {"topic": 1, "n": n}) for n in range(12)]
    with keyplan.open(pair.store.model, pair.url, design=pair.store.design, clock=pair.clock) as store:
        for _ in range(2):
            assert store.load(rows, done=0) == 12
            assert [row["n"] for row in store.events.all(topic=1)] == [*range(12)]
            assert store.topic(tid=1)["many"] == 12
            assert store.drop(topic=1, most=3) == 4
            assert store.move(topic=1, n=6, to=20) == store.move(topic=1, n=10, to=21) == 1
        assert store.verify().ok


def test_rows_that_are_new_are_not_looked_for_one_after_the_other(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only a scan finds them, all rows would be read for a few of them, and again for the next few."""
    monkeypatch.setattr(load, "BULK", 20)
    monkeypatch.setattr(load, "TOGETHER", 5)
    pair = both(PASSED, [("Topic", {"tid": 1, "name": "a"})])
    sought: list[object] = []
    by_key = RowReader.by_key

    def counted(reader: RowReader, rows: Iterable[Any], *given: Any, **named: Any) -> Any:
        some = list(rows)
        sought.extend(key for entity, key in some if entity == "Event")
        return by_key(reader, some, *given, **named)

    monkeypatch.setattr(RowReader, "by_key", counted)
    with keyplan.open(pair.store.model, pair.url, design=pair.store.design, clock=pair.clock) as store:
        for number, done in enumerate((None, 0), 1):
            store.load([("Event", {"topic": 1, "n": n}) for n in range(60)], done=done)
            assert store.topic(tid=1)["many"] == 60 * number
        if pair.store.design.engine == "dynamodb":
            assert not sought


PASSED = """
entities:
  Topic: { fields: { tid: "int, key", name: string(4), many: count(events) } }
  Event:
    fields: { eid: "ulid, key", topic: "Topic, as events", n: int }
patterns:
  topic: { find: Topic, where: "tid = :tid" }
  events: { find: Event, where: "topic = :topic", order: n, page: 100 }
writes:
  move: { update: Event, set: { n: ":to" }, where: "topic = :topic and n = :n", rows: 1 }
  drop: { delete: Event, where: "topic = :topic and n <= :most", rows: 4 }
"""

COPIED = """
entities:
  Event: { fields: { eid: "ulid, key", n: int } }
  Talk: { fields: { tid: "int, key", title: "string(8), optional" } }
  Message: { fields: { mid: "ulid, key", talk: Talk, title: "string(8), from talk.title", n: int } }
patterns:
  events: { find: Event, where: "n = :n", order: eid, page: 100 }
  talk: { find: Talk, where: "tid = :tid" }
  messages: { find: Message, where: "n = :n", order: mid, page: 100 }
"""


def test_a_row_that_has_to_wait_is_put_right(both: Both) -> None:
    """What comes behind it has other keys then, and was not written before it."""
    pair = both(COPIED, [("Talk", {"tid": 1, "title": "a"}), ("Talk", {"tid": 2})])
    with keyplan.open(pair.store.model, pair.url, design=pair.store.design, clock=pair.clock) as store:
        for number, before in enumerate([[], [("Talk", {"tid": 1, "title": "a"})]]):
            after = [("Message", {"talk": 1, "title": "b", "n": number}), ("Event", {"n": number})]
            with pytest.raises(ArgumentError, match=f"load: row {len(before) + 1}: Message: 'title' has nothing"):
                store.load([*before, ("Message", {"talk": 2, "n": number}), *after], done=0)
            store.load([*before, ("Message", {"talk": 1, "n": number}), *after], done=0)
            assert len(list(store.messages.all(n=number))) == 2
            assert len(list(store.events.all(n=number))) == 1
        assert store.verify().ok


def test_a_row_with_nothing_to_copy_is_named(both: Both) -> None:
    """Of an order that comes in several versions, the one that it is."""
    needed = MODEL.replace("buyer: string(8), optional 50%, from", "buyer: string(8), from")
    pair = both(needed, [("User", {"uid": 1, "name": "x"}), ("User", {"uid": 2})])
    orders: list[tuple[str, dict[str, Any]]] = [("Order", {"oid": 1, "user": 1}), ("Order", {"oid": 2, "user": 1})]
    with pytest.raises(ArgumentError, match="load: row 3: Order: 'buyer' has nothing to copy") as caught:
        pair.store.load([*orders, ("Order", {"oid": 2, "user": 2}), *orders])
    assert caught.value.row == 3


def test_a_unique_value_of_another_row_is_a_conflict(both: Both) -> None:
    pair = both(MODEL, rows(5))
    with pytest.raises(ConflictError):
        pair.store.load([("User", {"uid": 99, "email": "u1"})])
    with pytest.raises(ConflictError):
        pair.store.load([("User", {"uid": 98, "email": "z"}), ("User", {"uid": 99, "email": "z"})])


def test_a_taken_value_is_a_conflict_whatever_comes_later(both: Both) -> None:
    pair = both(MODEL)
    load = [("User", {"uid": 1, "email": "a"}), ("User", {"uid": 2, "email": "a"}), ("User", {"uid": 1, "email": "b"})]
    with pytest.raises(ConflictError, match="load: row 2: User"):
        pair.store.load(load)
    pair.store.load([load[0], load[2], load[1]])


def test_a_value_that_a_later_row_gives_up_is_taken_until_then(both: Both) -> None:
    """SQLite wrote them by key, so that the row which gave it up came first."""
    pair = both(MODEL)
    pair.load([("User", {"uid": 1, "email": "a"})])
    passed = [("User", {"uid": 2, "email": "a"}), ("User", {"uid": 1, "email": "b"})]
    with pytest.raises(ConflictError, match="load: row 1: User"):
        pair.store.load(passed)
    pair.load(passed[::-1])


PASSING = """
entities:
  Seat:
    fields:
      sid: int, key
      holder: string(8), unique
      until: timestamp
      old: "Seat, optional 50%"
      label: string(8), optional 50%, from old.holder
    ttl: 1h since until
patterns:
  seat: { find: Seat, where: "sid = :sid" }
  of: { find: Seat, where: "holder = :holder" }
  labelled: { find: Seat, where: "label = :label", order: until, page: 9, rate: 1000/s }
writes:
  take: { create: Seat }
"""


@pytest.mark.parametrize("old", [None, 7])
def test_unique_values_go_from_row_to_row_in_the_order_of_the_load(
    both: Both, old: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that has expired before it comes has no value for long, but would find that of a live one taken. Those that
    are in each other's way are not tried together over and over."""
    pauses = 0
    pause = Commit.pause

    def counted(commit: Commit) -> Pause:
        nonlocal pauses
        pauses += 1
        return pause(commit)

    monkeypatch.setattr(Commit, "pause", counted)
    pair = both(PASSING, [("Seat", {"sid": 5, "holder": "e", "until": NOON})])
    long_ago = NOON - timedelta(hours=2)
    pair.load(
        [
            ("Seat", {"sid": 1, "holder": "a", "until": NOON}),
            ("Seat", {"sid": 2, "holder": "b", "until": long_ago, "old": old}),
            ("Seat", {"sid": 1, "holder": "b", "until": NOON}),
            ("Seat", {"sid": 3, "holder": "c", "until": long_ago}),
            ("Seat", {"sid": 5, "holder": "c", "until": NOON}),
            ("Seat", {"sid": 4, "holder": "a", "until": long_ago, "old": 1}),
            ("Seat", {"sid": 6, "holder": "a", "until": NOON, "label": "x"}),
        ]
    )
    assert pauses < 20
    for sid in range(1, 7):
        pair.same("seat", sid=sid)
    for holder in "abce":
        pair.same("of", holder=holder)
    pair.verified()


def test_new_and_old_rows_in_one_load(both: Both) -> None:
    pair = both(MODEL, rows(20))
    mixed = [
        ("Order", {"oid": number, "user": number % 4, "total": number, "buyer": "x", "tags": [f"t{number % 2}"]})
        for number in range(10, 40)
    ]
    pair.load([*mixed, ("User", {"uid": 1, "email": "new", "name": "n4"}), ("User", {"uid": 30, "email": "u1"})])
    asked(pair)
    pair.same("by_email", email="new")
    pair.verified()


def test_the_last_version_of_a_row_stays(both: Both) -> None:
    pair = both(MODEL)
    pair.load(
        [
            ("User", {"uid": 1, "email": "a", "name": "n0", "made": NOON}),
            ("Order", {"oid": 1, "user": 1, "total": 5, "buyer": "x", "tags": ["t1"]}),
            ("User", {"uid": 1, "email": "b", "name": "n4", "made": NOON}),
            ("Order", {"oid": 1, "user": 0, "total": 7, "buyer": "x", "tags": []}),
            ("Order", {"oid": 1, "user": 1, "total": 8}),
        ]
    )
    asked(pair)
    pair.same("by_email", email="a")
    pair.same("by_email", email="b")
    assert pair.same("user", uid=1)["spent"] == 8
    pair.verified()


TREE = """
entities:
  Node:
    fields:
      nid: int, key
      up: Node, as below, optional 90%
      label: string(8)
      below_count: count(below)
patterns:
  node: { find: Node, where: "nid = :nid" }
  under: { find: Node, where: "up.label = :label", order: nid, select: [nid], page: 100, rate: 1000/s }
  second: { find: Node, where: "up.up.label = :label", order: nid, select: [nid], page: 100, rate: 1000/s }
writes:
  label: { update: Node, set: [label], where: "nid = :nid" }
"""


@pytest.mark.parametrize("step", [1, -1])
def test_rows_that_copy_from_rows_of_the_same_load(both: Both, step: int) -> None:
    pair = both(TREE)
    nodes = [("Node", {"nid": n, "up": n // 3 if n else None, "label": f"l{n % 4}"}) for n in range(40)]
    pair.load(nodes[::step])
    pair.same("label", nid=2, label="l9")
    for label in ("l0", "l1", "l3", "l9"):
        pair.same("under", label=label)
        pair.same("second", label=label)
    for nid in (0, 1, 12, 39):
        pair.same("node", nid=nid)
    pair.verified()
