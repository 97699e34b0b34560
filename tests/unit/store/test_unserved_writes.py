"""Writes that a design does not serve are refused as such, whatever rows there are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from keyplan.errors import ArgumentError, UnsupportedError
from keyplan.model.load import parse_model
from keyplan.plan.design import Unserved
from keyplan.store.store import Store
from tests.naive import naive_design
from tests.unit.store.memory import MemoryPort
from tests.unit.store.support import store_over

MODEL = """
keyplan: 1
name: nests
entities:
  Owl: { count: 100, fields: { o: "int, key", name: string(4) } }
  Egg: { count: 100, fields: { e: "int, key", owl: "Owl, as eggs", size: int } }
patterns:
  egg: { find: Egg, where: "e = :e" }
writes:
  lay: { create: Egg }
  settle_in: { create: Owl }
  grow: { update: Egg, add: [size], where: "e = :e and owl.name = :name" }
  leave: { delete: Owl, with: [eggs], where: "o = :o" }
  sell: { delete: Egg, where: "size > :size", rows: 3 }
transactions:
  lay_and_grow: [lay, grow]
"""


@pytest.fixture
def store() -> Store:
    """A design in which neither `grow`, `leave` nor `sell` is served."""
    model = parse_model(MODEL)
    design = naive_design(model)
    unserved = {name: Unserved("no view can find its rows") for name in ("grow", "leave", "sell")}
    writes = {name: plan for name, plan in design.writes.items() if name not in unserved}
    found = store_over(MemoryPort(model, replace(design, unserved=unserved, writes=writes)))
    found.lay(e=1, owl=1, size=1)
    return found


@pytest.mark.parametrize(
    ("name", "arguments"), [("grow", {"e": 1, "size": 1, "name": "x"}), ("leave", {"o": 9}), ("sell", {"size": 0})]
)
def test_it_is_refused_with_its_reason(store: Store, name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match=f"^{name}: this design does not serve it: no view can find its rows$"):
        getattr(store, name)(**arguments)
    assert store.egg(e=1)["size"] == 1


def test_a_transaction_with_it_is_refused_and_nothing_is_written(store: Store) -> None:
    with pytest.raises(UnsupportedError, match=r"^lay_and_grow: grow: this design does not serve it"):
        store.lay_and_grow(lay={"e": 2, "owl": 1, "size": 1}, grow={"e": 1, "size": 1, "name": "x"})
    assert store.egg(e=2) is None


def test_wrong_arguments_are_told_first(store: Store) -> None:
    with pytest.raises(ArgumentError, match="argument 'o'"):
        store.leave(o="one")
