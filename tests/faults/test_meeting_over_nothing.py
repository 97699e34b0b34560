"""Two that apply different designs at once where there are no rows yet, so that places may be taken over by both."""

from __future__ import annotations

import random

import pytest

import keyplan
from tests.conformance.test_open_and_empty import NOON, design_of, models, why_not_opened
from tests.engines.harness import Harness
from tests.faults.test_meeting_applies import ORDERS, Applying

WAYS = ("another view", "another field", "another type", "another optional field")


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """As for other tests of applies that meet."""
    return quick_harness


@pytest.mark.timeout(300)
def test_one_design_is_there_in_the_end_and_takes_rows(harness: Harness) -> None:
    changes = {way: models(harness, way) for way in WAYS}
    before = changes[WAYS[0]][0]
    for seed in range(ORDERS * 2):
        source = random.Random(seed)
        url = harness.url()
        keyplan.apply(before, url, design=design_of(before, url))
        chosen = [changes[way][1] for way in source.sample(WAYS, 2)]
        designs = [design_of(model, url) for model in chosen]
        appliers = [Applying(chosen[0], designs[0], url)]
        for _ in range(source.randrange(25)):
            if not appliers[0].ended:
                appliers[0].step()
        appliers.append(Applying(chosen[1], designs[1], url))
        slow = source.random() ** 2  # now and then, the first is far behind the other
        while going := [one for one in appliers if not one.ended]:
            going[0 if source.random() < slow else -1].step()
        done = [one.model for one in appliers if one.done] or [before]  # or both take over no place of another design
        (model,) = [one for one in done if not why_not_opened(one, url)]
        more = {"level": 3} if "level" in model.entities["Score"].fields else {}
        with keyplan.open(model, url) as store:
            store.make(sid=1, game=0, at=NOON, points=1, **more)
            assert store.score(sid=1) == {"sid": 1, "game": 0, "at": NOON, "points": 1, **more}, seed
            assert store.verify().ok, seed
        assert keyplan.apply(model, url, design=design_of(model, url)) == [], seed
