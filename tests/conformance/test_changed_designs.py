"""A design that is applied over rows that are there: what it keeps besides is right at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import keyplan
from keyplan.errors import DesignMismatchError
from keyplan.model.load import parse_model
from tests.engines.harness import Harness

MODEL = """
keyplan: 1
name: changed
entities:
  Score:
    count: 30M
    fields: { sid: "int, key", game: "int, distinct 1000", at: timestamp, points: int }
patterns:
  score: { find: Score, where: "sid = :sid", rate: 1/s }
"""
MORE = """
  top:
    from: Score
    compute: { low: min(points), high: max(points), n: count() }
    where: game = :game
    rows: 20k
    rate: 300/s
"""
WRITES = """
writes:
  make: { create: Score, rate: 0.1/s }
  drop: { delete: Score, where: "sid = :sid", rate: 0.01/s }
"""


def test_sums_that_come_later_count_the_rows_that_were_there(harness: Harness) -> None:
    before, after = (
        replace(parse_model(text), targets=harness.targets) for text in (MODEL + WRITES, MODEL + MORE + WRITES)
    )
    url, noon = harness.url(), datetime(2052, 5, 15, 12, tzinfo=UTC)
    keyplan.apply(before, url)
    with keyplan.open(before, url) as store:
        for sid in range(5):
            store.make(sid=sid, game=sid % 2, at=noon + timedelta(hours=sid), points=sid * 10)
    try:
        steps = keyplan.apply(after, url)
    except DesignMismatchError as error:  # an engine that moves no rows says so, and answers nothing wrong
        told: Any = str(error)
        assert harness.name == "dynamodb", told
        return
    with keyplan.open(after, url) as store:
        kept = [view for view in store.design.views.values() if view.measures]
        assert bool(kept) == any(step.startswith("fill ") for step in steps)
        assert store.top(game=0) == {"low": 0, "high": 40, "n": 3}
        store.drop(sid=4)
        assert store.top(game=0) == {"low": 0, "high": 20, "n": 2}
        assert store.verify().ok
