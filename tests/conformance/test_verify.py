"""Verify: what was tampered with, behind the store's back, is found, named and mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from keyplan.engines.codec import Span
from keyplan.plan.edits import Edit
from keyplan.plan.steps import Search
from keyplan.plan.view import COUNT
from keyplan.store.writing.places import Place
from tests.conformance.conftest import Both
from tests.conformance.pair import Pair

MODEL = """
entities:
  User:
    fields:
      uid: int, key
      email: string(8), unique, optional 90%
      name: string(8), optional 90%
      spent: sum(orders.total)
      best: max(orders.total)
      orders_made: count(orders)
  Order:
    fields:
      oid: int, key
      user: User, as orders, optional 90%
      status: enum(open, done), default open
      total: int, default 1
      title: string(20), default ''
      tags: set(string(4), avg 2)
patterns:
  user: { find: User, where: "uid = :uid" }
  by_email: { find: User, where: "email = :email" }
  of_user: { find: Order, where: "user = :uid", order: total desc, select: [oid, user.name] }
  of_name: { find: Order, where: "user.name = :name", order: oid, select: [oid, total, user.email] }
  open_orders: { find: Order, where: "status = 'open'", order: total, select: [oid, user.name] }
  tagged: { find: Order, where: "contains(tags, :tag)", order: total, select: [oid, total, user.name] }
  found: { find: Order, where: "search(title, :words)", order: oid, select: [oid, total, user.name] }
  counts: { count: Order, group: [status] }
  sums: { sum: Order.total, where: "user = :uid" }
writes:
  join: { create: User }
  order: { create: Order }
  rename: { update: User, set: [name], where: "uid = :uid" }
"""

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("User", {"uid": 1, "email": "a", "name": "Ann"}),
    ("User", {"uid": 2, "name": "Bob"}),
    ("Order", {"oid": 1, "user": 1, "total": 5, "title": "blue lamp", "tags": ["x", "y"]}),
    ("Order", {"oid": 2, "user": 1, "total": 7, "title": "red", "status": "done"}),
    ("Order", {"oid": 3, "user": 2, "title": "blue", "tags": ["y"]}),
    ("Order", {"oid": 4, "total": 4}),
]


def kept(pair: Pair) -> list[Place]:
    """Where the store itself keeps entries besides the homes."""
    places = pair.store._core.places
    return [place for some in places.of.values() for place in some if not place.home]


def entries(pair: Pair, place: Place) -> list[dict[str, Any]]:
    core = pair.store._core
    takes = place.holds
    if place.measures:
        takes = (*names(place), *dict.fromkeys((COUNT, *(measure.name for measure, _ in place.measures))))
    reader = core.codec.reader(Search(place.view.name, place.at, takes=takes))
    asks = reader.ask([Span(())], None, strong=True)
    found: list[dict[str, Any]] = []
    while asks:
        ask = asks.pop()
        (reply,) = pair.store._port.send([ask.request])
        answer = reader.answer(ask, reply)
        asks += [answer.more] if answer.more is not None else []
        found += [row for rows in answer.rows for row in rows]
    return found


def names(place: Place) -> list[str]:
    return [str(part).removesuffix(" desc") for part in place.view.parts]


def key_of(place: Place, entry: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(entry[name] for name in names(place)) if place.measures else place.key.of(entry)[0]


def send(pair: Pair, edit: Edit) -> None:
    for request in pair.store._core.codec.bulk([edit]):
        (reply,) = pair.store._port.send([request])
        assert not isinstance(reply, Exception), reply


def remove(place: Place, entry: dict[str, Any]) -> Edit | None:
    return Edit(place.view.name, "delete", key_of(place, entry), place.at)


def spoil(place: Place, entry: dict[str, Any]) -> Edit | None:
    """The same entry with a value that is not in its key changed."""
    fixed = {path for part in place.key.parts for path in part.paths} | {"uid", "oid"}
    values = {name: value for name, value in entry.items() if name not in fixed and name not in names(place)}
    for name, value in values.items():
        if isinstance(value, int):
            return Edit(place.view.name, "put", key_of(place, entry), place.at, {**entry, name: value + 7})
        if isinstance(value, str) and name.endswith("name"):
            return Edit(place.view.name, "put", key_of(place, entry), place.at, {**entry, name: "wrong"})
    return None


def invent(place: Place, entry: dict[str, Any]) -> Edit | None:
    """An entry of a row that is not there."""
    if place.measures:
        return None
    own = "uid" if place.entity == "User" else "oid"
    other = {**entry, own: 77}
    if place.view.unique:
        other |= {part.path: "zz" for part in place.view.parts}
    return Edit(place.view.name, "put", place.key.of(other)[0], place.at, other)


def all_answers(pair: Pair) -> None:
    for name in pair.model.patterns:
        arguments = {"uid": 1, "email": "a", "name": "Ann", "tag": "y", "words": "blue"}
        wanted = pair.model.patterns[name].params
        if pair.serves(name):
            pair.same(name, **{key: value for key, value in arguments.items() if key in wanted})


@pytest.mark.parametrize(("tamper", "what"), [(remove, "missing"), (spoil, "wrong"), (invent, "extra")])
def test_verify_finds_what_was_tampered_with_and_repair_mends_it(
    both: Both, tamper: Callable[[Place, dict[str, Any]], Edit | None], what: str
) -> None:
    pair = both(MODEL, ROWS)
    for place in kept(pair):
        edits = [edit for entry in entries(pair, place) if (edit := tamper(place, entry)) is not None]
        if not edits:
            continue
        send(pair, edits[0])
        found = pair.store.verify()
        report = found.views[place.view.name]
        assert not found.ok, (place.view.name, edits[0])
        assert getattr(report, what) == 1, (place.view.name, report, found.problems)
        assert any(place.view.name in problem and what in problem for problem in found.problems)
        assert pair.store.verify(repair=True).repaired == 1
        again = pair.store.verify()
        assert again.ok, again.problems
        all_answers(pair)


def test_verify_counts_rows_and_reports_progress(both: Both) -> None:
    pair = both(MODEL, ROWS)
    told: list[int] = []
    found = pair.store.verify(progress=told.append)
    assert found.ok
    assert found.rows == 6
    assert told[-1] == 6
    assert found.repaired == 0
    assert pair.store.verify(repair=True).repaired == 0


def test_an_empty_database_verifies(both: Both) -> None:
    assert both(MODEL).store.verify().rows == 0


def test_a_stale_element_of_a_set_is_found(both: Both) -> None:
    """An entry under an element that its row does not have any more."""
    pair = both(MODEL, ROWS)
    for place in kept(pair):
        if not any(part.cut in ("each", "words") for part in place.key.parts):
            continue
        entry = next(entry for entry in entries(pair, place) if entry["oid"] == 1)
        stale = {**entry, "tags": frozenset(["old"]), "title": "old"}
        send(pair, replace(Edit(place.view.name, "put", place.key.of(stale)[0], place.at), values=stale))
        found = pair.store.verify(repair=True)
        assert found.views[place.view.name].extra == 1, place.view.name
        assert pair.store.verify().ok
        all_answers(pair)


def spread(pair: Pair) -> list[Place]:
    """Where a row has an entry for each element of a set, or each word of a text."""
    return [place for place in kept(pair) if any(part.cut in ("each", "words") for part in place.key.parts)]


def planted(place: Place, rows: list[dict[str, Any]]) -> Iterator[tuple[str, Edit]]:
    """Every kind of damage to such entries: what it is called, and how it is done."""
    for entry in rows:
        keys = place.key.of(entry)
        for key in keys:
            yield "missing", Edit(place.view.name, "delete", key, place.at)
            for name in ("user.name", "total"):
                # What decides where an entry stands cannot be wrong in it: it would stand elsewhere.
                if name in place.holds and not any(name in part.paths for part in place.key.parts):
                    other = {**entry, name: "wrong" if name == "user.name" else 99}
                    yield "wrong", Edit(place.view.name, "put", key, place.at, other)
        # Of a row that is not there, and of this row under the elements or words of another one.
        for other in ({**entry, "oid": 77}, *({**one, "oid": entry["oid"]} for one in rows)):
            for key in place.key.of(other):
                if key not in keys:
                    yield "extra", Edit(place.view.name, "put", key, place.at, other)


def test_every_damage_to_entries_of_elements_and_words_is_found_and_mended(both: Both) -> None:
    pair = both(MODEL, ROWS)
    seen: set[tuple[str, str]] = set()
    for place in spread(pair):
        for what, edit in planted(place, entries(pair, place)):
            send(pair, edit)
            found = pair.store.verify()
            assert not found.ok, (what, edit)
            assert getattr(found.views[place.view.name], what) == 1, (what, edit, found.problems)
            assert pair.store.verify(repair=True).repaired == 1
            assert pair.store.verify().ok
            all_answers(pair)
            seen.add((place.view.name, what))
    # Whatever the figures, some design has such a view; a small table is read from end to end instead.
    if spread(pair):
        assert {what for _, what in seen} >= {"missing", "extra"}


LITERALS = {
    "bool(true 1%)": "true",
    "date, distinct 1k": "'2024-02-29'",
    "decimal(2), distinct 1k": "1",
    "enum(x 1%, y 99%)": "'x'",
    "float, distinct 1k": "1.5",
    "int, distinct 1k": "3",
    "string(5), distinct 1k": "'x'",
    "timestamp, distinct 1k": "'2024-02-29T00:00:00Z'",
    "ulid, distinct 1k": "'01ARZ3NDEKTSV4RRFFQ69G5FAV'",
    "uuid, distinct 1k": "'6f1c0c1e-0000-4000-8000-000000000001'",
}


def test_indexes_of_some_rows_are_found_as_they_were_made(both: Both) -> None:
    """Servers give back the conditions of an index in words and classes of their own."""
    fields = "\n".join(f"      f{number}: {type}" for number, type in enumerate(LITERALS))
    patterns = "\n".join(
        f'  p{number}: {{ find: Ant, where: "f{number} = {literal}", order: t, limit: 5, rate: 100/s }}'
        for number, literal in enumerate(LITERALS.values())
    )
    model = f"""
entities:
  Ant:
    count: 10M
    fields:
      k: int, key
      t: int
{fields}
patterns:
{patterns}
writes:
  make: {{ create: Ant, rate: 10/s }}
"""
    pair = both(model, [])
    found = pair.store.verify()
    assert found.ok, found.structures
