"""Rows that copy along chains of references end under the keys that these say, whoever takes one of them away."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from typing import Any

import pytest

from keyplan.engines.rounds import Pause
from keyplan.errors import ConflictError, RangeError, UncertainError
from tests.faults.chains import LASTING, MODEL, NOTED, NOTED_THEMES, ROWS, THEMES, steps
from tests.faults.interleaved import interleave
from tests.naive import Extras, naive_design
from tests.strategies.programs import Clock
from tests.unit.store.memory import MemoryPort, Written
from tests.unit.store.support import store_over

ORDERS = int(os.environ.get("KEYPLAN_ORDERS", "8"))
DESIGNS = {
    "copies": Extras(copies=True, copied_keys=True),
    "counters": Extras(copies=True, copied_keys=True, counters=True),
    "missing": Extras(copies=True, copied_keys=True, dangling=True),
    "computed": Extras(copies=True, copied_keys=True, counters=True, computed=True, computed_copies=True),
    "inside": Extras(copies=True, copied_keys=True, counters=True, embeds=True),
    "behind two": Extras(copies=True, copied_keys=True, deep_keys=True),
    "behind two, missing": Extras(copies=True, copied_keys=True, deep_keys=True, dangling=True),
}
LOST = 0.03
"""Of the replies to writes, where some are."""


def ends_true(
    extras: str, most: int, seed: int, *, lasting: bool = False, noted: bool = False, kills: float, lost: float
) -> list[str]:
    """What `verify` finds after four writers whose requests came in one order, and may have been cut off."""
    model, clock = NOTED if noted else LASTING if lasting else MODEL, Clock()
    port = MemoryPort(model, naive_design(model, DESIGNS[extras]))
    store_over(port, clock).load(ROWS)  # without a limit
    store = store_over(port, clock, most=most)
    if lost:
        port.faults.append(_losing(port, random.Random(seed), lost))
    themes = NOTED_THEMES if noted else THEMES
    writers = [steps(100 * seed + number, seed, clock if lasting else None, themes) for number in range(4)]
    interleave(store, writers, 7, seed, kills)
    port.faults.clear()
    store.settle()
    return store.verify().problems


def _losing(port: MemoryPort, source: random.Random, lost: float) -> Any:
    """A fault by which some replies to writes do not arrive, whether these were done or not."""

    def fault(request: Any) -> Any:
        if not isinstance(request, Written) or source.random() >= lost:
            return None
        if source.random() < 0.6:
            try:
                port.write(request)
            except (ConflictError, RangeError) as error:
                return error
        return UncertainError("the test: no reply")

    return fault


@pytest.mark.thorough
@pytest.mark.parametrize("lasting", [False, True], ids=["", "expiring"])
@pytest.mark.parametrize("most", [14, 24, 60])
@pytest.mark.parametrize("extras", DESIGNS)
def test_every_entry_ends_where_it_belongs(extras: str, most: int, lasting: bool) -> None:
    """In every other order of a theme a writer is cut off here and there, or some replies are lost."""
    for seed in range(ORDERS):
        kills, lost = 0.01 * (seed // 4 % 2), LOST * ((seed + seed // 4) % 2)
        problems = ends_true(extras, most, seed, lasting=lasting, kills=kills, lost=lost)
        assert not problems, (seed, problems)


@pytest.mark.thorough
@pytest.mark.parametrize("most", [14, 24, 60])
@pytest.mark.parametrize("extras", DESIGNS)
def test_those_that_copy_from_rows_of_a_cascade_end_true(extras: str, most: int) -> None:
    for seed in range(ORDERS):
        kills, lost = 0.01 * (seed % 2), LOST * (seed // 2 % 2)
        problems = ends_true(extras, most, seed, noted=True, kills=kills, lost=lost)
        assert not problems, (seed, problems)


@pytest.mark.parametrize(("extras", "most"), [("copies", 24), ("counters", 30), ("behind two, missing", 40)])
def test_those_that_began_to_copy_from_a_row_of_a_large_cascade_follow(extras: str, most: int) -> None:
    """The children go in several requests; before each of them, a note is pointed at each child. Whoever deletes
    them is cut off behind any of these, or not at all."""
    design = naive_design(NOTED, DESIGNS[extras])
    for cut_off in range(12):
        port = MemoryPort(NOTED, design)
        store_over(port).load(ROWS)
        store = store_over(port, most=most)
        drop = store._core.write(NOTED.writes["drop"], {"basket": "k0"})
        written = 0
        with suppress(StopIteration):
            step = next(drop)
            while written <= cut_off:
                if any(isinstance(request, Written) for request in step):
                    for line in range(6):
                        store.remark(note_id=f"n{line}", item=("k0", f"{line}"), text="x")
                    written += 1
                step = drop.send([] if isinstance(step, Pause) else store._port.send(step))
        drop.close()
        store.settle()
        assert store.verify().problems == [], cut_off


@pytest.mark.parametrize("extras", ["copies", "missing", "computed"])
def test_those_that_came_to_point_at_a_new_row_meanwhile_follow_in_chunks(extras: str) -> None:
    """More of them than one request can change: nobody knew of them when the row was made."""
    port = MemoryPort(MODEL, naive_design(MODEL, DESIGNS[extras]))
    store_over(port).load(ROWS)
    store = store_over(port, most=14)
    offer = store._core.write(MODEL.writes["offer"], {"sku": "s9", "category": "c9", "brand": None})
    step = next(offer)
    while not any(isinstance(request, Written) for request in step):  # it has looked for who points at it
        step = offer.send(store._port.send(step))
    for line in range(6):
        store.exchange(basket="k0", line=f"{line}", product="s9")
    with suppress(StopIteration):
        while True:
            step = offer.send([] if isinstance(step, Pause) else store._port.send(step))
    assert store.verify().problems == []
