"""Rows that count in more groups than one request can add to: the sums follow, each once, whoever is cut off or in the
way."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from keyplan.errors import UnsupportedError
from keyplan.store.bulk.verify import fill
from keyplan.store.pump import run
from keyplan.store.store import Store
from keyplan.store.writing.sums import Owed, Sums
from tests.faults.baskets import MODEL, PRODUCTS, items, steps
from tests.faults.interleaved import interleave
from tests.naive import Extras, naive_design
from tests.unit.store.memory import MemoryPort
from tests.unit.store.support import store_over

ORDERS = int(os.environ.get("KEYPLAN_ORDERS", "15"))
MOST = 16


def shop(most: int | None = MOST, extras: Extras | None = None) -> Store:
    store = store_over(MemoryPort(MODEL, naive_design(MODEL, extras or Extras(counters=True))), most=most)
    store.load(PRODUCTS)
    return store


def owed(store: Store) -> list[Owed]:
    found = run(store._core.writer.intents.pending(), store._port)
    return [one for one in found if isinstance(one, Owed)]


def cut_off(store: Store, rounds: int, name: str, **arguments: Any) -> None:
    """Sends so many rounds of a call, and no more."""
    proc = store._core.write(MODEL.writes[name], arguments)
    replies = None
    for _ in range(rounds):
        replies = store._port.send(proc.send(replies))
    proc.send(replies)
    proc.close()


def test_a_call_that_counts_in_too_many_groups_is_done() -> None:
    store = shop()
    store.place(basket_id="b", shop="x", items=items(random.Random(1), 9))
    assert len(store.basket(basket="b")["items"]) == 9
    assert not owed(store)
    assert store.verify().ok


def test_rows_alone_that_are_too_many_are_refused() -> None:
    store = shop(most=8)
    with pytest.raises(UnsupportedError, match="write fewer rows at once"):
        store.place(basket_id="b", shop="x", items=items(random.Random(1), 9))
    assert store.basket(basket="b") is None
    assert store.verify().ok


@pytest.mark.parametrize("finish", ["settle", "verify", "the next large write"])
def test_what_is_owed_is_added_by_others(finish: str) -> None:
    """The rounds before the write read the products; the next one is the write itself."""
    rounds = 0
    while True:
        store = shop()
        try:
            cut_off(store, rounds, "place", basket_id="b", shop="x", items=items(random.Random(1), 9))
        except StopIteration:
            break
        rounds += 1
        if not owed(store):
            continue
        if finish == "settle":
            store.settle()
        elif finish == "the next large write":
            store.place(basket_id="c", shop="x", items=items(random.Random(2), 9))
        assert finish == "verify" or not owed(store)
        assert store.verify().ok
    assert rounds > 2


def test_what_is_filled_anew_is_not_owed_any_more() -> None:
    """A view that `fill` makes from the rows has them already."""
    store = shop()
    rounds = 1
    while not owed(store):
        store = shop()
        cut_off(store, rounds, "place", basket_id="b", shop="x", items=items(random.Random(1), 9))
        rounds += 1
    views = {edit.view for one in owed(store) for edit in one.sums}
    assert len(views) > 2
    run(fill(store._core, sorted(views)[:2]), store._port)
    assert not owed(store)
    assert store.verify().ok


DESIGNS = {
    "counters": (Extras(counters=True), MOST),
    "counters and copies": (Extras(counters=True, copies=True, copied_keys=True), 60),
    "copies": (Extras(copies=True, copied_keys=True), 45),
    "copies of what is missing": (Extras(copies=True, copied_keys=True, dangling=True), 60),
    "all": (Extras(copies=True, copied_keys=True, counters=True, computed=True, dangling=True), 60),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kills", [0.0, 0.01])
@pytest.mark.parametrize("extras", DESIGNS)
def test_every_view_ends_true(extras: str, kills: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three writers whose requests come in any order, and that may be cut off between any two."""
    late = []
    left_out = Sums.left_out

    def noted(self: Sums, *arguments: Any) -> Any:
        found = left_out(self, *arguments)
        late.append(found is not None)
        return found

    monkeypatch.setattr(Sums, "left_out", noted)
    design, most = DESIGNS[extras]
    for seed in range(ORDERS):
        store = shop(most, design)
        interleave(store, [steps(100 * seed + number) for number in range(3)], 8, seed, kills)
        store.settle()
        found = store.verify()
        assert found.ok, (seed, found.problems)
    assert sum(late) >= ORDERS // 3 or not design.counters


@pytest.mark.parametrize(("extras", "seed"), [("copies", 7), ("copies", 31), ("copies of what is missing", 1001)])
def test_orders_that_left_entries_behind(extras: str, seed: int) -> None:
    """Rows that were pointed elsewhere before whoever took their product away had told them; a basket that came again
    before its going was told; and a product that came while too much was written to be checked."""
    design, most = DESIGNS[extras]
    for room in (most, 40):
        store = shop(room, design)
        interleave(store, [steps(100 * seed + number) for number in range(3)], 8, seed)
        store.settle()
        found = store.verify()
        assert found.ok, found.problems
