"""`explain=True` tells every request of a call, those by which a write reads what it has to know among them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import test_computed_values, test_counters, test_wide_sums
from tests.conformance.conftest import Both

MODULES: dict[str, Any] = {
    "counters": test_counters,
    "computed values": test_computed_values,
    "wide sums": test_wide_sums,
}


@pytest.mark.parametrize("name", MODULES)
def test_steps_are_all_that_was_done(both: Both, name: str) -> None:
    of = MODULES[name]
    store = both(of.MODEL, of.ROWS).store
    for call, arguments in (*of.READS, *of.WRITES, *of.READS):
        if call in store.design.unserved:
            continue
        _, done = getattr(store, call)(**arguments, explain=True)
        told = sum(step["requests"] for step in done.steps)
        assert told == done.requests, f"{call}({arguments}): {done}"
        assert done.rows == sum(step["rows"] for step in done.steps)
