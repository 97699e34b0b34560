"""Orders, ranges and copies by computed fields behind a reference: rows move when what they refer to is computed anew.

The row behind need not be there: what is computed depends on its key alone.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from keyplan.design.needs.computed import computed_behind
from keyplan.errors import ConflictError, RangeError
from tests.conformance.conftest import Both
from tests.conformance.pair import Pair, opened, parsed
from tests.engines.harness import Harness
from tests.faults import chat

MODEL = chat.MODEL.partition("entities:")[1] + chat.MODEL.partition("entities:")[2]
ROWS = chat.rows()

WRITES: list[tuple[str, dict[str, Any]]] = [
    ("say", {"mid": 20, "talk": 0, "sent_at": chat.moment(30)}),
    ("say", {"mid": 21, "talk": 2, "sent_at": chat.moment(31), "weight": 5}),
    ("join", {"talk": 7, "person": 1}),
    ("say", {"mid": 22, "talk": 7, "sent_at": chat.moment(32)}),
    ("join", {"talk": 7, "person": 2}),
    ("begin", {"tid": 7, "title": "y"}),
    ("begin", {"tid": 2}),
    ("move", {"mid": 22, "talk": 0}),
    ("move", {"mid": 21, "talk": None}),
    ("mend", {"mid": 20, "sent_at": None, "weight": 3}),
    ("retract", {"mid": 22}),
    ("split", {"tid": 7, "origin": 7}),
    ("say", {"mid": 23, "talk": 7}),
    ("abandon", {"tid": 0}),
    ("say", {"mid": 24, "talk": 0, "sent_at": chat.moment(40)}),
    ("retract", {"mid": 0}),
    ("promote", {"talk": 0, "person": 1, "role": "host"}),
    ("announce", {"start": {"tid": 0, "members": [{"person": 2}]}, "say": [{"mid": 25, "talk": 0}]}),
    ("leave", {"talk": 0, "person": 2}),
    ("clear", {"tid": 0}),
    ("clear", {"tid": 7}),
]
READS = [*chat.reads(), ("member", {"talk": 7, "person": 1}), ("split_off", {"title": "y"})]


def test_rows_move_with_what_is_computed_behind_them(both: Both) -> None:
    both(MODEL, ROWS).stays_right(WRITES, READS)


def test_rows_that_are_loaded_again_count_once(both: Both) -> None:
    pair = both(MODEL, ROWS)
    pair.load(ROWS)
    pair.agrees(READS)
    pair.load([("Message", {"mid": 0, "talk": 2, "weight": 1000}), ("Talk", {"tid": 2}), ("Member", ROWS[5][1])])
    pair.agrees(READS)


@pytest.mark.parametrize("seed", range(3))
def test_any_writes_leave_the_answers_of_the_reference(both: Both, seed: int) -> None:
    pair = both(MODEL, ROWS)
    for number, (name, arguments) in enumerate(islice(chat.steps(seed), 40)):
        try:
            pair.same(name, **arguments)
        except ConflictError:
            continue
        if number % 10 == 9:
            pair.agrees(READS)


def test_views_are_keyed_by_it_where_rows_are_many(reads: Pair, size: str) -> None:
    """Otherwise the tests above would say little."""
    if size == "read":
        views = reads.store.design.views.values()
        assert {"last_at", "said"} <= {
            text for view in views for some in computed_behind(reads.model, view).values() for text in some
        }
        keyed = {part.path for view in views for part in view.parts}
        assert {"talk.last_at", "talk.said", "talk.weight"} <= keyed
        assert not {"talks_of", "quiet", "heaviest"} & set(reads.store.design.unserved)


GENERATED = """
entities:
  Person: { count: 1M, fields: { person_id: "int, key", name: string(20) } }
  Talk: { count: 3M, fields: { talk_id: "uuid, key", title: string(20), last_at: max(messages.sent_at) } }
  Member:
    count: 8M
    key: [talk, person]
    fields: { talk: "Talk, as members, max 50", person: "Person, as talks" }
  Message:
    count: 300M
    key: [talk, message_id]
    fields:
      talk: Talk, as messages
      message_id: ulid
      sent_at: timestamp, now, immutable
      sender: Person
patterns:
  talks_of:
    find: Member
    where: person = :person
    order: talk.last_at desc
    page: 20
    with: [talk.title, talk.last_at]
    rate: 200/s
  messages_of: { find: Message, where: "talk = :talk", order: sent_at desc, page: 5, with: [sender.name], rate: 300/s }
writes:
  start: { create: Talk, with: [members], rate: 1/s }
  say: { create: Message, rate: 100/s }
  join: { create: Member, rate: 1/s }
  rename: { update: Person, set: [name], where: "person_id = :p", rate: 10/day }
"""


def test_a_message_takes_the_requests_that_the_design_says(harness: Harness) -> None:
    """None of them looks for a row whose key was generated just now."""
    model = replace(parsed(GENERATED), targets=harness.targets)
    with opened(model, harness.url(), [("Person", {"person_id": n, "name": "x"}) for n in range(3)]) as pair:
        store = pair.store
        assert any(computed_behind(model, view) for view in store.design.views.values())
        talk = pair.same("start", title="t", members=[{"person": n} for n in range(3)])["talk_id"]
        pair.same("say", talk=talk, sender=1)
        pair.clock.advance(minutes=1)
        for name, arguments in (("say", {"talk": talk, "sender": 1}), ("join", {"talk": talk, "person": 7})):
            _, done = getattr(store, name)(**arguments, explain=True)
            figures = store.design.writes[name].figures
            assert (done.requests, done.rounds) == (figures.requests, figures.trips), name
        assert store.verify().ok


TOGETHER = """
entities:
  Owl:
    count: 1M
    fields: { o: "int, key", name: string(4), boss: "Owl, as staff, optional 50%", n: count(kids), top: max(kids.v) }
  Kid:
    count: 3M
    key: [owl, k]
    fields: { k: int, owl: "Owl, as kids", v: "int, default 1" }
patterns:
  staff: { find: Owl, where: "name = :name", order: boss.n, page: 2, with: [boss.top], rate: 2k/s }
  valued: { find: Kid, where: "v = :v", page: 2, with: [owl.name], rate: 2k/s }
  kid: { find: Kid, where: "owl = :owl and k = :k", with: [owl.name], rate: 1/s }
  owl: { find: Owl, where: "o = :o", rate: 2k/s }
writes:
  put_kid: { upsert: Kid, rate: 1/min }
  drop_kid: { delete: Kid, where: "owl = :owl and k = :k", rate: 1/min }
  mend_kid: { update: Kid, set: [v], where: "owl = :owl and k = :k", rate: 1/min }
  put_owl: { upsert: Owl, rate: 1/min }
  name_owl: { update: Owl, set: [name], where: "o = :o", rate: 1/min }
transactions:
  settle_in: [put_kid x1 max 2, put_owl]
  move_in: [drop_kid, put_kid, put_owl]
  both: [name_owl, mend_kid]
"""


def test_what_one_write_does_to_a_row_and_to_what_is_computed_for_it(both: Both) -> None:
    """A row comes in the transaction in which others begin or cease to count for it; one that copies changes too."""
    rows: list[tuple[str, dict[str, Any]]] = [
        ("Owl", {"o": 0, "name": "a", "boss": 1}),
        ("Owl", {"o": 3, "name": "a", "boss": 2}),
        ("Kid", {"owl": 1, "k": 0, "v": 1}),
        ("Kid", {"owl": 0, "k": 0, "v": 2}),
    ]
    writes: list[tuple[str, dict[str, Any]]] = [
        ("settle_in", {"put_kid": [{"owl": 2, "k": 5, "v": 7}], "put_owl": {"o": 2, "name": "a"}}),
        (
            "move_in",
            {
                "drop_kid": {"owl": 1, "k": 0},
                "put_kid": {"owl": 0, "k": 9, "v": 9},
                "put_owl": {"o": 1, "name": "b", "boss": 2},
            },
        ),
        ("both", {"name_owl": {"o": 0, "name": "b"}, "mend_kid": {"owl": 0, "k": 0, "v": 3}}),
    ]
    reads: list[tuple[str, dict[str, Any]]] = [("staff", {"name": name}) for name in "ab"]
    reads += [("valued", {"v": v}) for v in (1, 2, 3, 7)] + [("owl", {"o": o}) for o in range(4)]
    both(TOGETHER, rows).stays_right(writes, reads)


HEAVY = """
entities:
  Box: { fields: { b: "int, key", weight: sum(things.grams) } }
  Thing:
    key: [box, t]
    fields: { box: "Box, as things, max 50", t: int, kind: "string(4), distinct 100000", grams: int }
patterns:
  of_kind: { find: Thing, where: "kind = :kind", order: "box.weight desc, grams", page: 2 }
writes:
  put: { create: Thing }
  mend: { update: Thing, add: [grams], where: "box = :box and t = :t" }
  place: { upsert: Box }
"""


@pytest.mark.parametrize("is_there", [True, False])
def test_a_copied_sum_beyond_its_range_is_refused_and_nothing_is_written(both: Both, is_there: bool) -> None:
    """Whether the row that it is computed for is there or not."""
    pair = both(HEAVY, [("Box", {"b": 1})] if is_there else [])
    pair.same("put", box=1, t=1, kind="a", grams=9)
    pair.same("put", box=1, t=2, kind="a", grams=2)
    beyond = {"box": 1, "t": 3, "kind": "a", "grams": 2**63 - 1}
    if any(computed_behind(pair.model, view) for view in pair.store.design.views.values()):
        for name, call in (
            ("put", lambda: pair.store.put(**beyond)),
            ("load: Thing", lambda: pair.store.load([("Thing", beyond)])),
            ("mend", lambda: pair.store.mend(box=1, t=2, grams=2**63 - 10)),
        ):
            with pytest.raises(
                RangeError, match=rf"^{name}: 'Box\.weight' would leave the range of a key; nothing was"
            ):
                call()
    else:
        pair.same("put", **beyond)
    pair.agrees([("of_kind", {"kind": "a"})])
    pair.verified()


KEYED_BY_ITS_OWNER = """
entities:
  Ant: { fields: { k: "int, key", m: count(bees) } }
  Bee: { key: [k, l], fields: { k: "Ant, as bees, max 50", l: int, n: count(cats) } }
  Cat: { fields: { c: "int, key", bee: "Bee, as cats", ant: Ant } }
patterns:
  one: { find: Cat, where: "c = :c", with: [ant.m, bee.n] }
  counted: { find: Cat, where: "ant = :a", order: [bee.n, c], with: [ant.m, bee.n], page: 5 }
writes:
  make_cat: { create: Cat }
  make_bee: { create: Bee }
"""


def test_a_row_that_is_not_there_is_none_of_those_that_are_counted(both: Both) -> None:
    pair = both(KEYED_BY_ITS_OWNER)
    for number in (1, 2):
        pair.same("make_cat", c=number, bee=(7, 0), ant=7)
        pair.same("one", c=number)
    pair.same("counted", a=7)
    pair.same("make_bee", k=7, l=0)
    pair.agrees([("one", {"c": 1}), ("counted", {"a": 7})])
