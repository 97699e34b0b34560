"""Every model in examples/, run: on the reference, and on every engine against the reference.

A new example is covered by putting its file there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import keyplan
from keyplan.errors import UnsupportedError
from keyplan.model.load import load_model
from keyplan.model.model import Model
from keyplan.reference import Database
from keyplan.store.store import Store
from tests.examples_data.calls import Caller
from tests.examples_data.compare import difference, first_difference, outcome_of, walk
from tests.examples_data.rows import Clock, rows

ROOT = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(path.stem for path in ROOT.glob("*.yaml"))

READS = 12
"""Calls of each pattern; one in ten asks for what is not there."""
WRITES = 4
"""Calls of each write and transaction."""
UNSERVED = 0.2
"""An engine may decline a pattern, such as a rank among millions, but few of them."""


@cache
def model_of(name: str) -> Model:
    return load_model(ROOT / f"{name}.yaml")


def filled(model: Model, seed: int) -> Database:
    """The reference with some rows."""
    database = Database(model, clock=Clock())
    database.load(rows(model, seed))
    return database


@pytest.fixture(params=EXAMPLES)
def model(request: pytest.FixtureRequest) -> Model:
    """Each example in turn."""
    return model_of(request.param)


def test_there_are_examples() -> None:
    assert "shop" in EXAMPLES
    assert len(EXAMPLES) >= 11


def test_loads_without_a_warning(model: Model) -> None:
    assert model.warnings == ()
    assert model.patterns
    assert model.writes


def test_readme_lists_it(model: Model) -> None:
    assert f"[{model.name}]({model.name}.yaml)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_says_how_often_and_how_fast(model: Model) -> None:
    """The point of an example is its figures: each entity has a count, most patterns have a latency."""
    assert all(entity.count > 0 for entity in model.entities.values())
    timed = [
        pattern for pattern in model.patterns.values() if pattern.p99_ms is not None or pattern.stale_ms is not None
    ]
    assert len(timed) >= 0.8 * len(model.patterns)


def test_every_entity_can_be_written(model: Model) -> None:
    """Otherwise its rows could only come from a bulk load, and its writes would cost nothing."""
    written: set[str] = set()
    for write in model.writes.values():
        if write.kind != "delete":
            written.add(write.entity)
            written |= {model.entities[write.entity].roles[role].entity for role in write.children}
    assert written == set(model.entities)


def test_patterns_find_something_on_the_reference(model: Model) -> None:
    """Every pattern answers, and none of them is always empty: that would be a pattern nobody means."""
    database = filled(model, seed=1)
    caller = Caller(database, filled(model, seed=2), seed=3)
    full = {name for name, arguments in caller.reads(READS) if not is_empty(database.read(name, **arguments))}
    assert full == set(model.patterns)


def test_writes_change_something_on_the_reference(model: Model) -> None:
    database = filled(model, seed=1)
    caller = Caller(database, filled(model, seed=2), seed=3)
    effective: set[str] = set()
    for name, arguments in caller.writes(READS):
        before = {entity: dict(found) for entity, found in database.rows.items()}
        outcome_of(partial(database.call, name), arguments)
        if before != database.rows:
            effective.add(name)
    assert effective == {*model.writes, *model.transactions}


def is_empty(answer: Any) -> bool:
    """Nothing found: None, no rows, or an aggregate of no rows."""
    return not (answer.rows if hasattr(answer, "rows") else answer)


Pair = tuple[Store, Database, Clock]


@pytest.fixture
def pair(model: Model, url: str) -> Iterator[Pair]:
    """A store of the example on each engine in turn, and the reference, with the same rows and the same clock."""
    keyplan.apply(model, url)
    clock = Clock()
    database = Database(model, clock=clock)
    with keyplan.open(model, url, clock=clock) as store:
        for opened in (store, database):
            opened.load(rows(model, seed=1))
        yield store, database, clock


def test_engine_answers_as_the_reference(pair: Pair) -> None:
    """Every pattern; then every write and transaction, mixed, each with the same outcome; then every pattern again."""
    store, database, clock = pair
    assert len(store.design.unserved) <= UNSERVED * len(store.model.patterns), store.design.unserved
    same_answers(store, database, Caller(database, filled(store.model, seed=2), seed=4))
    caller = Caller(database, filled(store.model, seed=2), seed=5)
    for name, arguments in caller.writes(WRITES):
        clock.advance()
        found = outcome_of(getattr(store, name), arguments)
        expected = outcome_of(partial(database.call, name), arguments)
        differs = first_difference(expected, found)
        assert differs is None, f"{name}({arguments}): {differs}"
    store.settle()
    same_answers(store, database, caller)
    verification = store.verify()
    assert verification.ok, verification.problems


def same_answers(store: Store, database: Database, caller: Caller) -> None:
    """Every served pattern answers as the reference does; the others say that they cannot."""
    for name, arguments in caller.reads(READS):
        ask = getattr(store, name)
        if name in store.design.unserved:
            with pytest.raises(UnsupportedError):
                ask(**arguments)
            continue
        pattern = store.model.patterns[name]
        expected = walk(pattern, partial(database.read, name), arguments)
        found = walk(pattern, ask, arguments)
        differs = difference(pattern, expected, found)
        assert differs is None, f"{name}({arguments}): {differs}"
