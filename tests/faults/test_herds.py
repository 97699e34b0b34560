"""Writers whose requests come in any order, on models that are drawn: views and answers end true."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import keyplan
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.reference import Database
from keyplan.store.store import Store
from tests.conformance.pair import Clock, Pair
from tests.engines.harness import Harness
from tests.faults import herds
from tests.faults.interleaved import interleave

HERDS = int(os.environ.get("KEYPLAN_HERDS", "3"))
WRITERS, EACH = 3, 10


def rows_of(store: Store, herd: herds.Herd) -> list[tuple[str, dict[str, Any]]]:
    """All rows that there are, found by their keys."""
    source = random.Random(1)
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for name in ("Kid", "Mate", "Owl"):
        fields = [field for field, about in store.model.entities[name].fields.items() if about.computed is None]
        for _ in range(200):
            arguments = herd.arguments(source, f"one_{name.lower()}")
            if f"{name} {arguments}" not in found:
                row = getattr(store, f"one_{name.lower()}")(**arguments)
                if row is not None:
                    found[f"{name} {arguments}"] = (name, {field: row[field] for field in fields})
    return list(found.values())


@cache
def made(harness: Harness, seed: int) -> tuple[Model, Design]:
    model = replace(parse_model(herds.model_text(seed)), targets=harness.targets)
    return model, keyplan.design(model, harness.name, advise=False)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [0.0, 0.01])
def test_every_view_and_answer_ends_true(quick_harness: Harness, kills: float) -> None:
    for seed in range(HERDS):
        model, design = made(quick_harness, seed)
        herd = herds.Herd(model)
        url = quick_harness.url()
        keyplan.apply(model, url, design=design)
        clock = Clock()
        with keyplan.open(model, url, clock=clock) as store:
            store.load(herd.rows(seed))
            interleave(store, [herd.steps(100 * seed + number) for number in range(WRITERS)], EACH, seed, kills=kills)
            store.settle()
            if kills:
                store.verify(repair=True)
            found = store.verify()
            assert found.ok, (seed, found.problems)
            database = Database(model, clock)
            database.load(rows_of(store, herd))
            Pair(store, database, clock, url).agrees(herd.reads())
