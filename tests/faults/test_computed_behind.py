"""Writers of messages, of members and of talks whose requests come in any order, on the chat as it is designed."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache

import pytest

import keyplan
from keyplan.design.needs.computed import computed_behind
from keyplan.model.model import Model
from keyplan.plan.design import Design
from tests.engines.harness import Harness
from tests.faults import chat
from tests.faults.interleaved import interleave

ORDERS = int(os.environ.get("KEYPLAN_ORDERS", "4"))
WRITERS, EACH = 3, 10
KNOWN = (34,)
"""Orders in which something was wrong once: a talk was deleted while its last message went elsewhere."""


@cache
def made(harness: Harness) -> tuple[Model, Design]:
    model = replace(chat.model(), targets=harness.targets)
    return model, keyplan.design(model, harness.name, advise=False)


def opened(harness: Harness) -> keyplan.Store:
    model, design = made(harness)
    url = harness.replicated.url()
    keyplan.apply(model, url, design=design)
    store = keyplan.open(model, url)
    assert any(computed_behind(model, view) for view in store.design.views.values())
    store.load(chat.rows())
    return store


@pytest.mark.timeout(180)
def test_every_view_ends_true(harness: Harness) -> None:
    for seed in (*range(ORDERS), *KNOWN):
        with opened(harness) as store:
            interleave(store, [chat.steps(100 * seed + number) for number in range(WRITERS)], EACH, seed)
            store.settle()
            found = store.verify()
            assert found.ok, (seed, found.problems)


@pytest.mark.timeout(180)
def test_what_writers_that_are_cut_off_leave_is_mended(harness: Harness) -> None:
    for seed in range(ORDERS):
        with opened(harness) as store:
            interleave(
                store, [chat.steps(100 * seed + number) for number in range(WRITERS + 1)], EACH, seed, kills=0.01
            )
            store.settle()
            store.verify(repair=True)
            found = store.verify()
            assert found.ok, (seed, found.problems)
