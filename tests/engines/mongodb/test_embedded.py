"""Embedded rows mean what rows mean: generated programs on designs in which whatever can be embedded is."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import keyplan
from keyplan.engines.mongodb import cost
from keyplan.engines.work import Cost
from tests.conformance.test_generated import PHASES, run, statistics
from tests.engines.harness import Harness
from tests.strategies.programs import programs

EXAMPLES = max(10, int(os.environ.get("KEYPLAN_PROGRAMS", "300")) // 5)


@pytest.fixture
def everything_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents with children are always possible, and cost next to nothing."""
    priced = cost.cost_model

    def cheap(model: Any) -> Any:
        costs = priced(model)
        for name in ("read", "touch"):
            usual = getattr(costs, name)
            setattr(costs, name, lambda work, usual=usual: Cost(1e-9) if work.view.embeds else usual(work))
        fit, keep = costs.fit, costs.keep
        costs.fit = lambda view, facts: view if view.embeds else fit(view, facts)
        costs.keep = lambda view, facts: 0.0 if view.embeds else keep(view, facts)
        return costs

    monkeypatch.setattr(cost, "cost_model", cheap)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_embedded_rows_answer_as_the_reference(
    mongodb: Harness, everything_embedded: None, data: st.DataObject
) -> None:
    program = data.draw(programs())
    model = replace(data.draw(statistics(program.model)), targets=mongodb.targets)
    if not any(view.embeds for view in keyplan.design(model, "mongodb").views.values()):
        return
    COUNTED.append(1)
    run(program, model, mongodb.url())


COUNTED: list[int] = []


def test_some_programs_embed(mongodb: Harness) -> None:
    """Otherwise the test above would say nothing; it runs first."""
    print(len(COUNTED))
    assert len(COUNTED) > EXAMPLES / 40
