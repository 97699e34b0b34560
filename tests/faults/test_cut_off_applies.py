"""An `apply` that was cut off: until the next one the design before it answers as it did, or is not opened at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import keyplan
from keyplan.errors import DesignMismatchError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from tests.conformance.test_changed_designs import MODEL, WRITES, cut_off
from tests.engines.harness import Harness

STATES = MODEL.replace("points: int", 'points: int, tags: "set(string(8), avg 2)", state: "enum(open 50%, shut 50%)"')
OPEN = """
  opened:
    find: Score
    where: contains(tags, :tag) and state = 'open'
    select: [sid]
    order: sid
    page: 9
    rate: 300/s
"""
SHUT = OPEN.replace("opened:", "shut:").replace("'open'", "'shut'")
NEWEST = """
  newest: { find: Score, where: "game = :game", order: at desc, page: 5, rate: 300/s }
"""


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """Every round is tried."""
    return quick_harness


def of(harness: Harness, text: str) -> Model:
    return replace(parse_model(text), targets=harness.targets)


def test_the_design_before_is_as_it_was_or_is_not_opened(harness: Harness) -> None:
    """What is kept of rows in other states has the same name and the same columns."""
    before, after = (of(harness, STATES + more + WRITES) for more in (OPEN + NEWEST, SHUT))
    designs = [keyplan.design(one, harness.name, advise=False) for one in (before, after)]
    url, noon = harness.url(), datetime(2052, 5, 15, 12, tzinfo=UTC)
    keyplan.apply(before, url, design=designs[0])
    with keyplan.open(before, url) as store:
        for sid in range(5):
            at = noon + timedelta(hours=sid)
            store.make(sid=sid, game=sid % 2, at=at, points=sid * 10, tags={"a"}, state="open")
    for rounds in range(200):
        cut_off(after, designs[1], url, rounds)
        try:
            store = keyplan.open(before, url)
        except DesignMismatchError as error:
            if "an 'apply' has not come to its end here" not in str(error):
                break  # the other design is on record
            keyplan.apply(before, url, design=designs[0])
            store = keyplan.open(before, url)
        with store:
            assert [row["sid"] for row in store.opened(tag="a")] == [0, 1, 2, 3, 4]
            assert [row["sid"] for row in store.newest(game=0)] == [4, 2, 0]
            checked = store.verify()
            assert checked.ok, (rounds, checked.structures, checked.problems)
    keyplan.apply(after, url, design=designs[1])
    with keyplan.open(after, url) as store:
        assert store.shut(tag="a").rows == []
        assert store.verify().ok
