"""Minima and maxima of groups, which no update of DynamoDB extends by itself: read, set, and tested by the write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import keyplan
from keyplan.engines.dynamodb.layout import TTL
from keyplan.engines.dynamodb.operations import Request
from keyplan.errors import ConflictError
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.examples_data.rows import Clock
from tests.unit.design.nouns import model_of

ENTITIES = """
Reading:
  count: 100M
  key: [sensor, at]
  ttl: 30d
  fields: { sensor: "int, distinct 1000", at: timestamp, value: int }
"""
PATTERNS = """
by_hour:
  from: Reading
  compute: { low: min(value), high: max(value), n: count() }
  group: { hour: hour(at) }
  where: sensor = :sensor and at between :start and :end
  rows: 10k
  rate: 100/s
reading: { find: Reading, where: "sensor = :sensor and at = :at", rate: 1/s }
"""
WRITES = """
report: { create: Reading, rate: 10/s }
drop: { delete: Reading, where: "sensor = :sensor and at = :at", rate: 1/h }
"""
MODEL = model_of(ENTITIES, PATTERNS, WRITES)
NOON = datetime(2051, 5, 1, 12, tzinfo=UTC)
DAY = {"sensor": 1, "start": NOON - timedelta(hours=12), "end": NOON + timedelta(hours=12)}


def test_writers_that_meet_in_a_group_leave_its_least_and_greatest(dynoxide: Server) -> None:
    design = keyplan.design(MODEL, "dynamodb")
    (groups,) = [view for view in design.views.values() if view.measures]
    assert {measure.how for measure in groups.measures} == {"count", "min", "max"}
    clock, url = Clock(), url_of(dynoxide.url)
    clock.now = NOON
    keyplan.apply(MODEL, url, design=design)
    with keyplan.open(MODEL, url, design=design, clock=clock) as store:

        def report(number: int) -> bool:
            try:
                store.report(sensor=1, at=NOON + timedelta(seconds=number), value=(number * 37) % 101 - 50)
            except ConflictError as error:  # more writers than a group has time for; nothing was written
                if "others keep changing the same rows" not in str(error):
                    raise
                return False
            return True

        with ThreadPoolExecutor(6) as pool:
            done = [number for number, ok in enumerate(pool.map(report, range(60))) if ok]
        values = [(number * 37) % 101 - 50 for number in done]
        assert len(done) > 30
        expected = {"hour": NOON, "low": min(values), "high": max(values), "n": len(values)}
        assert store.by_hour(**DAY) == [expected]
        assert store.verify().ok
        lowest = done[values.index(min(values))]
        store.drop(sensor=1, at=NOON + timedelta(seconds=lowest))
        assert store.by_hour(**DAY) == [{**expected, "low": sorted(values)[1], "n": len(values) - 1}]
        assert store.verify().ok


def test_a_group_goes_with_its_last_row_and_is_doubted_from_its_first(dynoxide: Server) -> None:
    clock, url = Clock(), url_of(dynoxide.url)
    keyplan.apply(MODEL, url)
    with keyplan.open(MODEL, url, clock=clock) as store:
        clock.now = NOON
        store.report(sensor=1, at=NOON, value=5)
        clock.now = NOON + timedelta(days=10)
        store.report(sensor=1, at=NOON + timedelta(minutes=1), value=3)
        (reply,) = store._port.send([Request("Scan", {})])
        (group,) = [item for item in reply["Items"] if "TOTALS" in item["SK"]["S"]]
        assert int(group[TTL]["N"]) == int((NOON + timedelta(days=40)).timestamp())
        assert store.by_hour(**DAY) == [{"hour": NOON, "low": 3, "high": 5, "n": 2}]
        clock.now = NOON + timedelta(days=30)
        assert store.by_hour(**DAY) == [{"hour": NOON, "low": 3, "high": 3, "n": 1}], "the first has expired"
        clock.now = NOON + timedelta(days=40)
        assert store.by_hour(**DAY) == []
        assert store.verify().ok
