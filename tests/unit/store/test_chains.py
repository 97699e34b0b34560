"""Rows that copy along chains of references end under the keys that these say, whoever takes one of them away."""

from __future__ import annotations

import os

import pytest

from tests.faults.chains import MODEL, ROWS, steps
from tests.faults.interleaved import interleave
from tests.naive import Extras, naive_design
from tests.unit.store.memory import MemoryPort
from tests.unit.store.support import store_over

ORDERS = int(os.environ.get("KEYPLAN_ORDERS", "12"))
DESIGNS = {
    "copies": Extras(copies=True, copied_keys=True),
    "counters": Extras(copies=True, copied_keys=True, counters=True),
    "missing": Extras(copies=True, copied_keys=True, dangling=True),
    "computed": Extras(copies=True, copied_keys=True, counters=True, computed=True, computed_copies=True),
    "inside": Extras(copies=True, copied_keys=True, counters=True, embeds=True),
}


@pytest.mark.thorough
@pytest.mark.parametrize("most", [14, 24, 60])
@pytest.mark.parametrize("extras", DESIGNS)
def test_every_entry_ends_where_it_belongs(extras: str, most: int) -> None:
    """Of four writers whose requests come in any order; in every other order one is cut off here and there."""
    for seed in range(ORDERS):
        port = MemoryPort(MODEL, naive_design(MODEL, DESIGNS[extras]))
        store_over(port).load(ROWS)  # without a limit
        store = store_over(port, most=most)
        writers = [steps(100 * seed + number, seed) for number in range(4)]
        interleave(store, writers, 7, seed, 0.01 * (seed // len(DESIGNS) % 2))
        store.settle()
        found = store.verify()
        assert found.ok, (seed, found.problems)
