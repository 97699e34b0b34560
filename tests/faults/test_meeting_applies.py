"""Two that apply designs at once, in any order of their requests: whoever is overtaken writes nothing more."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import keyplan
from keyplan.engines import engine_for_url
from keyplan.engines.base import Pause
from keyplan.errors import ConflictError, DesignMismatchError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.store.bulk import apply as applying
from tests.conformance.test_changed_designs import MORE, WRITES
from tests.engines.harness import Harness
from tests.faults.test_cut_off_applies import NEWEST, OPEN, SHUT, STATES, of

ORDERS = int(os.environ.get("KEYPLAN_ORDERS", "5")) * 8
MARK = '  mark: { update: Score, set: [points, tags, state], where: "sid = :sid", rate: 0.1/s }\n'
ROWS = 6


class Applying:
    """An `apply` under way, and where it is now."""

    def __init__(self, model: Model, design: Design, url: str) -> None:
        self.model, self.design = model, design
        engine = engine_for_url(url)
        self._port = engine.connect(url, model, design)
        self._proc = applying.apply(model, engine, design)
        self._left: list[Any] = []
        self._replies: list[Any] = []
        self.ended = self.done = False
        self._go_on(None)

    def step(self) -> None:
        """Sends one more of its requests."""
        if self._left:
            self._replies += self._port.send([self._left.pop(0)])
        if not self._left:
            self._go_on(self._replies)

    def _go_on(self, replies: Sequence[Any] | None) -> None:
        try:
            round = self._proc.send(replies)
        except StopIteration:
            self.ended = self.done = True
        except (ConflictError, DesignMismatchError):
            self.ended = True
        else:
            self._left, self._replies = [] if isinstance(round, Pause) else list(round), []
        if self.ended:
            self._port.close()



@pytest.mark.timeout(300)
@pytest.mark.parametrize("ways", [(OPEN + NEWEST, SHUT), (OPEN + MORE, OPEN + MORE), (OPEN + MORE, MORE)])
def test_views_are_those_of_the_design_that_is_recorded(quick_harness: Harness, ways: tuple[str, str]) -> None:
    harness = quick_harness
    models = [of(harness, STATES + more + WRITES + MARK) for more in ("", *ways)]
    designs = [keyplan.design(one, harness.name, advise=False) for one in models]
    refused = 0
    for seed in range(ORDERS):
        source = random.Random(seed)
        url = harness.url()
        keyplan.apply(models[0], url, design=designs[0])
        with keyplan.open(models[0], url) as store:
            change(store, source, make=True)
        appliers = [Applying(models[1], designs[1], url)]
        for _ in range(source.randrange(25)):
            if not appliers[0].ended:
                appliers[0].step()
        appliers.append(Applying(models[2], designs[2], url))
        slow = source.random() ** 2  # now and then, the first is far behind the other
        while going := [one for one in appliers if not one.ended]:
            one = going[0 if source.random() < slow else -1]
            one.step()
            if one.done:
                with keyplan.open(one.model, url, design=one.design) as store:
                    change(store, source)
        done = [one for one in appliers if one.done]
        assert done, seed
        refused += len(done) == 1
        holds = [one for one in done if is_recorded(one, url)]
        assert holds, seed
        with keyplan.open(holds[0].model, url, design=holds[0].design) as store:
            checked = store.verify()
            assert checked.ok, (seed, checked.structures, checked.problems)
    assert (refused > 0) == (ways[0] != ways[1])  # the same design is no reason to refuse one


@pytest.mark.timeout(300)
def test_of_two_that_make_the_same_database_one_has_what_its_design_wants(quick_harness: Harness) -> None:
    harness = quick_harness
    models = [of(harness, STATES + more + WRITES + MARK) for more in (NEWEST, OPEN + MORE)]
    designs = [keyplan.design(one, harness.name, advise=False) for one in models]
    for seed in range(ORDERS):
        source = random.Random(seed)
        url = harness.url()
        appliers = [Applying(model, design, url) for model, design in zip(models, designs, strict=True)]
        while going := [one for one in appliers if not one.ended]:
            source.choice(going).step()
        holds = [one for one in appliers if one.done and is_recorded(one, url)]
        assert len(holds) == 1, seed
        with keyplan.open(holds[0].model, url, design=holds[0].design) as store:
            change(store, source, make=True)
            checked = store.verify()
            assert checked.ok, (seed, checked.structures, checked.problems)


def is_recorded(one: Applying, url: str) -> bool:
    try:
        keyplan.open(one.model, url, design=one.design).close()
    except DesignMismatchError:
        return False
    return True


def change(store: Any, source: random.Random, *, make: bool = False) -> None:
    noon = datetime(2052, 5, 15, 12, tzinfo=UTC)
    for sid in range(ROWS):
        values = {
            "points": source.randrange(99),
            "tags": {source.choice("ab")},
            "state": source.choice(["open", "shut"]),
        }
        if make:
            store.make(sid=sid, game=sid % 2, at=noon + timedelta(hours=sid), **values)
        else:
            store.mark(sid=sid, **values)
