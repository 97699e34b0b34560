"""Writers whose requests come in any order, on the market as it is designed: every view ends true."""

from __future__ import annotations

import os

import pytest

import keyplan
from tests.engines.harness import Harness
from tests.faults import market
from tests.faults.interleaved import interleave

ORDERS = int(os.environ.get("KEYPLAN_ORDERS", "5"))
WRITERS, EACH = 3, 12


@pytest.mark.timeout(120)
def test_every_view_ends_true(harness: Harness) -> None:
    for seed in range(ORDERS):
        url = harness.replicated.url()
        with keyplan.open(market.prepare(url), url) as store:
            interleave(store, [market.steps(store, 100 * seed + number) for number in range(WRITERS)], EACH, seed)
            store.settle()
            found = store.verify()
            assert found.ok, (seed, found.problems)


@pytest.mark.timeout(120)
def test_writers_that_are_cut_off_leave_what_can_be_finished(harness: Harness) -> None:
    for seed in range(ORDERS):
        url = harness.replicated.url()
        with keyplan.open(market.prepare(url), url) as store:
            writers = [market.steps(store, 100 * seed + number) for number in range(WRITERS + 1)]
            interleave(store, writers, EACH, seed, kills=0.01)
            store.settle()
            found = store.verify()
            assert found.ok, (seed, found.problems)
