"""Writers whose requests come in any order, and that may be cut off between any two: every view ends true."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from keyplan.store.store import Store
from tests.faults import market
from tests.faults.interleaved import interleave
from tests.naive import Extras, naive_design
from tests.unit.store.memory import MemoryPort
from tests.unit.store.support import store_over

ORDERS = int(os.environ.get("KEYPLAN_ORDERS", "15"))
WRITERS, EACH = 3, 10
MODEL = market.model()
pytestmark = pytest.mark.thorough
DESIGNS = {
    "copies": Extras(copies=True, copied_keys=True, dangling=True),
    "counters": Extras(counters=True, computed=True),
    "all": Extras(
        copies=True, copied_keys=True, moves=True, elements=True, counters=True, computed=True, dangling=True
    ),
    "embeds": Extras(copies=True, counters=True, embeds=True),
    "subsets": Extras(copies=True, copied_keys=True, subsets=2),
}


def market_store(extras: str, most: int | None = None) -> Store:
    model, design = MODEL, naive_design(MODEL, DESIGNS.get(extras) or DESIGNS["copies"])
    if extras == "far copies":
        # Nothing else that belongs to an order would say whose it is when its items are changed.
        model = replace(MODEL, patterns={})
        design = naive_design(model, DESIGNS["copies"])
        kept = {name: view for name, view in design.views.items() if view.entity != "Order" or name == "Order"}
        design = replace(design, views=kept)
    store = store_over(MemoryPort(model, design), most=most)
    market.fill(store)
    return store


@pytest.mark.parametrize("extras", [*DESIGNS, "far copies"])
def test_every_view_ends_true(extras: str) -> None:
    for seed in range(ORDERS):
        store = market_store(extras)
        interleave(store, [market.steps(store, 100 * seed + number) for number in range(WRITERS)], EACH, seed)
        found = store.verify()
        assert found.ok, (seed, found.problems)


@pytest.mark.parametrize(("extras", "most"), [("copies", None), ("copies", 20), ("counters", None), ("counters", 36)])
def test_writers_that_are_cut_off_leave_what_can_be_finished(extras: str, most: int | None) -> None:
    """Where a request has a limit, intents say what is left to do, and `settle` does it; `verify` does it anywhere."""
    for seed in range(ORDERS):
        store = market_store(extras, most)
        interleave(store, [market.steps(store, 100 * seed + number) for number in range(4)], EACH, seed, kills=0.01)
        store.settle()
        found = store.verify(repair=most is None)
        if most is None:
            found = store.verify()
        assert found.ok, (seed, found.problems)
