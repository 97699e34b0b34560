"""Verifying what is kept of windows of rows that expire: from the first of them on, nobody believes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import keyplan
from keyplan.model.entity import EXPIRES
from keyplan.model.load import parse_model
from keyplan.plan.edits import Edit
from keyplan.plan.view import COUNT, FIRST_EXPIRES
from keyplan.store.store import Store
from tests.conftest import Lend
from tests.engines.harness import Harness

MODEL = """
keyplan: 1
name: heat
entities:
  Reading:
    count: 1G
    key: [sensor, at]
    ttl: 90d
    fields: { sensor: "int, distinct 10k", at: timestamp, degrees: "int, immutable" }
patterns:
  hourly:
    from: Reading
    compute: { all: sum(degrees), readings: count() }
    group: { hour: hour(at) }
    where: "sensor = :sensor and at between :start and :end"
    rows: 1440
    rate: 2000/s
writes:
  report: { upsert: Reading, rate: 1/s }
  forget: { delete: Reading, where: "sensor = :sensor and at = :at", rate: 1/day }
"""
BEGIN = datetime(2100, 1, 1, tzinfo=UTC)


class Clock:
    now = BEGIN

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def timed(harness: Harness, lend: Lend) -> Iterator[tuple[Store, Clock]]:
    model = replace(parse_model(MODEL), targets=harness.targets)
    url, clock = lend(MODEL), Clock()
    design = keyplan.design(model, harness.name, advise=False)
    keyplan.apply(model, url, design=design)
    with keyplan.open(model, url, design=design, clock=clock) as store:
        for minute in range(3):
            clock.now = BEGIN + timedelta(minutes=minute)
            store.report(sensor=1, at=clock.now, degrees=20 + minute)
        yield store, clock


def damage(store: Store, **values: Any) -> bool:
    """Changes what is kept of the hour; False where the engine itself works it out of the rows."""
    found = [
        place
        for place in store._core.places.of["Reading"]
        if any(measure.name == FIRST_EXPIRES for measure, _ in place.measures)
    ]
    for place in found:
        edit = Edit(place.view.name, "patch", (1, BEGIN), place.at, values)
        (reply,) = store._port.send([store._core.codec.write([edit])])
        assert not isinstance(reply, Exception), reply
    return bool(found)


def test_sums_and_moments_that_are_wrong_are_found_however_early_they_are_doubted(
    timed: tuple[Store, Clock],
) -> None:
    store, _ = timed
    assert store.verify().ok
    for values in ({"sum(degrees)": 1}, {COUNT: 1}, {EXPIRES: BEGIN}):
        if not damage(store, **{FIRST_EXPIRES: BEGIN - timedelta(days=1)}, **values):
            return
        assert not store.verify().ok, values
        assert store.verify(repair=True).repaired == 1
        assert store.verify().ok


def test_what_is_doubted_without_a_reason_is_believed_again_when_repaired(timed: tuple[Store, Clock]) -> None:
    """The row that would have expired first was deleted, or somebody damaged the moment: it looks the same."""
    store, clock = timed
    store.forget(sensor=1, at=BEGIN)
    clock.now = BEGIN + timedelta(days=90, seconds=1)
    before = kept(store)
    if before is None:
        return
    assert before <= clock.now
    assert store.verify(repair=True).ok
    after = kept(store)
    assert after is not None
    assert after > clock.now
    assert store.verify().ok
    clock.now = BEGIN + timedelta(days=90, minutes=1, seconds=30)  # now one of two has expired, and still counts
    store.verify(repair=True)
    assert kept(store) == after
    wanted = {"hour": BEGIN, "all": 22, "readings": 1}
    assert list(store.hourly(sensor=1, start=BEGIN, end=BEGIN + timedelta(days=1))) == [wanted]


def kept(store: Store) -> datetime | None:
    """The moment at which the hour is doubted, where one is kept."""
    for place in store._core.places.of["Reading"]:
        if any(measure.name == FIRST_EXPIRES for measure, _ in place.measures):
            proc = store._core.reader.entries(place, [(1, BEGIN)], [FIRST_EXPIRES])
            (entry,) = store._run(proc)
            assert entry is not None
            found: datetime = entry[FIRST_EXPIRES]
            return found
    return None
