"""An entry that moves is written whole: what somebody else changes of its row meanwhile must not be lost in it."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import pytest

from keyplan.model.load import parse_model
from keyplan.reference import Database
from tests.faults.test_dangling import HeldUp
from tests.naive import Extras, naive_design
from tests.unit.store.memory import MemoryPort
from tests.unit.store.support import store_over

MODEL = parse_model("""
keyplan: 1
name: shelf
entities:
  Box:
    count: 1k
    fields:
      bid: int, key
      state: "enum(open, shut)"
      label: string(8)
      hits: int, default 0
      weight: sum(things.weight)
  Thing:
    count: 1k
    fields: { tid: "int, key", box: "Box, as things", weight: int }
patterns:
  box: { find: Box, where: "bid = :bid" }
  of_state: { find: Box, where: "state = :state", order: label }
  heavy: { find: Box, where: "weight >= :weight", order: weight }
writes:
  shut: { update: Box, set: { state: shut }, where: "bid = :bid" }
  name: { update: Box, set: [label], where: "bid = :bid" }
  hit: { update: Box, add: { hits: 1 }, where: "bid = :bid" }
  mark: { update: Box, set: { state: shut }, add: { hits: 10 }, where: "bid = :bid" }
  fill: { create: Thing }
""")
WRITES: dict[str, dict[str, Any]] = {
    "shut": {"bid": 1},
    "name": {"bid": 1, "label": "new"},
    "hit": {"bid": 1},
    "mark": {"bid": 1},
    "fill": {"tid": 1, "box": 1, "weight": 3},
}
ROUNDS = range(5)


@pytest.mark.parametrize(
    "extras",
    [
        pytest.param(Extras(moves=True), marks=pytest.mark.thorough),
        Extras(moves=True, computed=True),
        pytest.param(Extras(computed=True), marks=pytest.mark.thorough),
    ],
    ids=str,
)
@pytest.mark.parametrize(("one", "two"), [pair for pair in product(WRITES, repeat=2) if pair != ("fill", "fill")])
def test_two_writes_of_a_row_are_both_in_every_view(extras: Extras, one: str, two: str) -> None:
    for at in ROUNDS:
        port = MemoryPort(MODEL, naive_design(MODEL, extras))
        store, other = store_over(port), store_over(port)
        store.load([("Box", {"bid": 1, "state": "open", "label": "old"})])
        held: Any = HeldUp(port, {at: partial(getattr(other, two), **WRITES[two])})
        store._port = held
        getattr(store, one)(**WRITES[one])
        met = not held.between
        reference = Database(MODEL)
        reference.load([("Box", {"bid": 1, "state": "open", "label": "old"})])
        for name in (one, *([two] if met else [])):
            reference.call(name, **WRITES[name])
        assert other.box(bid=1) == reference.call("box", bid=1)
        found = other.verify()
        assert found.ok, (at, found.problems)
