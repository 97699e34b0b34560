"""What writers left behind and nobody can finish: `settle` says so, `verify` runs all the same and repairs it."""

from __future__ import annotations

from typing import Any

import pytest

from keyplan.errors import ConflictError, KeyplanError, StorageError, UnavailableError, UncertainError, UnsupportedError
from keyplan.plan.intents import INTENTS
from keyplan.store.pump import run
from keyplan.store.store import Store
from tests.faults.chains import MODEL, ROWS
from tests.naive import Extras, naive_design
from tests.unit.store.memory import MemoryPort, Written
from tests.unit.store.support import store_over

EXTRAS = Extras(copies=True, copied_keys=True, deep_keys=True, counters=True)


def cut_off(port: MemoryPort, name: str, **arguments: Any) -> None:
    """Sends a call until the rows are written that others have yet to follow, and something is owed."""
    store = store_over(port, most=24)
    proc = store._core.write(MODEL.writes[name], arguments)
    step: Any = next(proc)
    while not (pending(store) and isinstance(step, list)):
        step = proc.send(store._port.send(step) if isinstance(step, list) else [])
    proc.close()


def pending(store: Store) -> list[Any]:
    return run(store._core.writer.intents.pending(), store._port)


@pytest.fixture
def port() -> MemoryPort:
    """A product has been sorted in elsewhere, and six items have yet to follow."""
    found = MemoryPort(MODEL, naive_design(MODEL, EXTRAS))
    store_over(found).load(ROWS)
    for line in range(6):
        store_over(found).exchange(basket="k0", line=f"{line}", product="s0")
    cut_off(found, "sort_in", sku="s0", category="c7")
    assert not any("c7" in key for key in found.entries["Item by product.category", ()])
    return found


def refusing(port: MemoryPort, error: KeyplanError) -> None:
    """Refuses whatever follows the product: others are always faster, or something is wrong with it."""

    def fault(request: Any) -> Any:
        if isinstance(request, Written) and any(edit.view == "Product" for edit in request.edits):
            return error
        return None

    port.faults.append(fault)


@pytest.mark.parametrize("error", [ConflictError, StorageError, UncertainError, UnsupportedError])
def test_verify_runs_and_repairs_what_cannot_be_finished(port: MemoryPort, error: type[KeyplanError]) -> None:
    refusing(port, error("the test: refused"))
    store = store_over(port, most=24)
    with pytest.raises(error):
        store.settle()
    found = store.verify()
    assert found.views["Item by product.category"].missing == 6
    assert found.views["Item by product.category"].extra == 6
    assert store.verify(repair=True).repaired
    assert pending(store) == []
    assert store.verify().problems == []


def test_an_engine_that_cannot_be_reached_is_not_passed_over(port: MemoryPort) -> None:
    refusing(port, UnavailableError("the test: nobody there"))
    with pytest.raises(UnavailableError):
        store_over(port, most=24).verify()


def test_rows_with_more_entries_than_one_request_can_change_are_repaired(port: MemoryPort) -> None:
    """As by a store of a version whose requests were larger."""
    store = store_over(port, most=3)
    with pytest.raises(UnsupportedError):
        store.settle()
    assert store.verify().problems
    store.verify(repair=True)
    assert pending(store) == []
    assert store.verify().problems == []


def test_sums_that_nobody_can_add_are_counted_anew(port: MemoryPort) -> None:
    """Once: what was owed is not added behind that."""
    store = store_over(port, most=24)
    store.verify(repair=True)
    items = [{"line": f"{number}", "product": f"s{number % 2}", "qty": number} for number in range(2)]
    small = store_over(port, most=22)
    proc = small._core.write(MODEL.writes["replace"], {"basket_id": "k9", "shop": "z", "items": items})
    step: Any = next(proc)
    while not any("sums" in key[0] for key in port.entries.get((INTENTS, ()), {})):
        step = proc.send(small._port.send(step) if isinstance(step, list) else [])
    proc.close()
    port.faults.append(
        lambda request: (
            ConflictError("the test: refused")
            if isinstance(request, Written) and any(edit.do == "add" for edit in request.edits)
            else None
        )
    )
    assert not store.verify().ok
    store.verify(repair=True)
    port.faults.clear()
    assert pending(store) == []
    store.settle()
    assert store.verify().problems == []
