"""Rows in time buckets: where partitions have a size, designs cut them by time, and answer as before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from keyplan.plan.steps import Drive, Search
from keyplan.plan.view import View
from keyplan.store.reading import spans
from keyplan.store.store import Store
from tests.conformance.pair import NOON, Pair, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  Sensor:
    count: 100
    fields:
      sensor_id: int, key
      name: string(8)
  Reading:
    count: 400k
    key: [sensor, at]
    fields:
      sensor: Sensor, as readings
      at: timestamp
      value: int
      note: string(8), optional 10%
  Alarm:
    count: 40k
    ttl: 40d since raised_at
    fields:
      alarm_id: int, key
      sensor: Sensor, as alarms
      raised_at: timestamp
      level: int, distinct 5
patterns:
  latest: { find: Reading, where: "sensor = :sensor", order: at desc, limit: 4, rate: 50/s }
  history: { find: Reading, where: "sensor = :sensor", order: at, page: 3, rate: 5/s }
  between:
    find: Reading
    where: sensor = :sensor and at between :start and :end
    order: at desc
    page: 3
    rate: 5/s
  since: { find: Reading, where: "sensor = :sensor and at >= :start", order: at, page: 3, rate: 5/s }
  high: { find: Reading, where: "sensor = :sensor and value > 50", order: at desc, page: 2, rate: 1/s }
  all_of: { find: Reading, where: "sensor = :sensor", page: 5, rate: 1/s }
  on_day: { find: Reading, where: "sensor = :sensor and day(at) = :day", order: at, page: 3, rate: 5/s }
  one: { find: Reading, where: "sensor = :sensor and at = :at", rate: 5/s }
  sensors: { find: Sensor, where: "sensor_id in :ids", with: { readings: { order: at desc, limit: 2 } }, rate: 1/s }
  alarms: { find: Alarm, where: "sensor = :sensor", order: raised_at desc, page: 3, rate: 20/s }
  first_alarms: { find: Alarm, where: "sensor = :sensor", order: raised_at, limit: 3, rate: 1/s }
  alarm: { find: Alarm, where: "alarm_id = :id", rate: 1/s }
writes:
  install: { create: Sensor, rate: 1/day }
  report: { create: Reading, rate: 25/h }
  correct: { update: Reading, where: "sensor = :sensor and at = :at", set: [value], rate: 1/h }
  forget: { delete: Reading, where: "sensor = :sensor and at = :at", rate: 1/h }
  raise_alarm: { create: Alarm, rate: 40/h }
  again: { update: Alarm, where: "alarm_id = :alarm_id", set: [raised_at], rate: 1/h }
  clear: { delete: Alarm, where: "alarm_id = :alarm_id", rate: 1/h }
"""
CUTS = ("hour", "day", "week", "month", "year")


def bucketed(store: Store) -> list[View]:
    return [view for view in store.design.views.values() if any(part.cut in CUTS for part in view.partition)]


@pytest.fixture
def pairs(harness: Harness) -> Iterator[list[Pair]]:
    """The model under every target of an engine, one after the other."""
    with ExitStack() as stack:
        found = []
        for targets in (harness.targets, *harness.other_targets):
            model = replace(parsed(MODEL), targets=targets)
            found.append(stack.enter_context(opened(model, harness.url())))
        yield found


def test_every_size_of_partitions_answers_the_same(pairs: list[Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges over many buckets are read some of these at a time."""
    monkeypatch.setattr(spans, "WINDOW", 5)
    for number, pair in enumerate(pairs):
        assert pair.store.design.unserved == {}
        play(pair, random.Random(number))
        pair.verified()


def test_partitions_with_a_size_are_cut_by_time(pairs: list[Pair]) -> None:
    assert not [view for view in bucketed(pairs[0].store) if not view.packed]
    cuts = {part.cut for pair in pairs[1:] for view in bucketed(pair.store) for part in view.partition if part.cut}
    nodes = [plan.node for pair in pairs[1:] for plan in pair.store.design.plans.values()]
    by_directory = [node for node in nodes if isinstance(node, Drive) and isinstance(node.outer, Search)]
    if len(pairs) > 1:
        assert len(cuts) > 1
        assert by_directory


def test_an_engine_that_packs_does_so_here(pairs: list[Pair]) -> None:
    """So that the first test above runs on packed readings, too."""
    for pair in pairs:
        packs = any(kind.packs for kind in pair.store._core.engine.kinds.values())
        assert packs == any(view.packed for view in pair.store.design.views.values())


def play(pair: Pair, chance: random.Random) -> None:
    """Rows over two years, more of them lately; changes in between; every pattern."""
    moments = [NOON - timedelta(hours=chance.choice((1, 30, 800, 18_000)) * chance.random()) for _ in range(60)]
    moments = list({moment.replace(microsecond=0): None for moment in moments})
    pair.load(("Sensor", {"sensor_id": number, "name": f"s{number}"}) for number in range(3))
    kept: list[tuple[int, Any]] = []
    for moment in moments[:45]:
        sensor = chance.randrange(2)
        pair.same("report", sensor=sensor, at=moment, value=chance.randrange(100))
        kept.append((sensor, moment))
    for number, moment in enumerate(moments[:30]):
        pair.same("raise_alarm", alarm_id=number, sensor=chance.randrange(2), raised_at=moment, level=1)
    for _ in range(2):
        check(pair, chance, moments)
        for sensor, moment in chance.sample(kept, 8):
            if chance.random() < 0.5:
                pair.same("correct", sensor=sensor, at=moment, value=chance.randrange(100))
            else:
                pair.same("forget", sensor=sensor, at=moment)
        for number in range(0, 30, 4):
            pair.same("again", alarm_id=number, raised_at=chance.choice(moments))
        for number in range(1, 30, 7):
            pair.same("clear", alarm_id=number)
        pair.clock.advance(days=20)
    check(pair, chance, moments)


def check(pair: Pair, chance: random.Random, moments: list[Any]) -> None:
    for sensor in range(3):
        start, end = sorted(chance.sample(moments, 2))
        for name in ("latest", "history", "high", "all_of", "alarms", "first_alarms"):
            pair.same(name, sensor=sensor)
        pair.same("between", sensor=sensor, start=start, end=end)
        pair.same("since", sensor=sensor, start=start)
        pair.same("on_day", sensor=sensor, day=start.date())
        pair.same("one", sensor=sensor, at=start)
    pair.same("sensors", ids=[0, 1, 2])
    pair.same("alarm", id=chance.randrange(30))
