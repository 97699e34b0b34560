"""An entry that moves is written whole: what somebody else changes of its row meanwhile must not be lost in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from keyplan.model.load import parse_model
from keyplan.reference import Database
from keyplan.store.core import Core
from keyplan.store.store import Store
from tests.naive import Extras, naive_design
from tests.strategies.programs import Clock
from tests.unit.store.memory import MemoryEngine, MemoryPort

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


class HeldUp:
    """A port that lets somebody else write before its round of some number."""

    def __init__(self, port: MemoryPort, other: Store, at: int, name: str) -> None:
        self.port, self.other, self.at, self.name = port, other, at, name
        self.sent = 0

    def send(self, round: Sequence[Any]) -> Sequence[Any]:
        if self.sent == self.at:
            getattr(self.other, self.name)(**WRITES[self.name])
        self.sent += 1
        return self.port.send(round)

    def close(self) -> None:
        self.port.close()


@pytest.mark.parametrize(
    "extras", [Extras(moves=True), Extras(moves=True, computed=True), Extras(computed=True)], ids=str
)
@pytest.mark.parametrize(("one", "two"), [pair for pair in product(WRITES, repeat=2) if pair != ("fill", "fill")])
def test_two_writes_of_a_row_are_both_in_every_view(extras: Extras, one: str, two: str) -> None:
    for at in ROUNDS:
        design = naive_design(MODEL, extras)
        port = MemoryPort(MODEL, design)
        store, other = (Store(Core(MODEL, design, MemoryEngine(), Clock()), port) for _ in range(2))  # type: ignore[arg-type]
        store.load([("Box", {"bid": 1, "state": "open", "label": "old"})])
        store._port = HeldUp(port, other, at, two)  # type: ignore[assignment]
        getattr(store, one)(**WRITES[one])
        met = store._port.sent > at  # type: ignore[attr-defined]
        reference = Database(MODEL)
        reference.load([("Box", {"bid": 1, "state": "open", "label": "old"})])
        for name in (one, *([two] if met else [])):
            reference.call(name, **WRITES[name])
        assert other.box(bid=1) == reference.call("box", bid=1)
        found = other.verify()
        assert found.ok, (at, found.problems)
