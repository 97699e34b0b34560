"""Packed entries mean what rows mean: generated programs on naive designs, and on those of a server that packs for
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import keyplan
from keyplan.engines.mongodb import cost
from keyplan.engines.work import Cost
from keyplan.errors import UnsupportedError
from tests.conformance.test_generated import PHASES, difference, plan_of, run, statistics
from tests.engines.harness import Harness
from tests.engines.mongodb.packing import DESIGNS, packed_design
from tests.strategies.designs import Designs
from tests.strategies.programs import Clock, on_reference, play, programs

EXAMPLES = max(10, int(os.environ.get("KEYPLAN_PROGRAMS", "300")) // 10)


@pytest.mark.parametrize("extras", list(DESIGNS))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(program=programs())
def test_packed_rows_answer_as_the_reference(mongodb: Harness, extras: str, program: Any) -> None:
    model = program.model
    design = packed_design(model, DESIGNS[extras])
    if not any(view.packed for view in design.views.values()):
        return
    PACKED.append(extras)
    url, clock = mongodb.url(), Clock()
    keyplan.apply(model, url, design=design)
    with keyplan.open(model, url, design=design, clock=clock, new_id=clock.new_id) as store:

        def call(name: str, arguments: Mapping[str, Any], cursor: Any) -> Any:
            try:
                return getattr(store, name)(**arguments, **({} if cursor is None else {"cursor": cursor}))
            except UnsupportedError as error:
                if "ask for less at once" not in str(error):
                    raise
                reject()  # a range of centuries over a view in small time buckets

        expected = on_reference(program)
        found = play(program, call, store.load, clock)
        for operation, one, other in zip(program.operations, expected, found, strict=True):
            differs = difference(model, operation, one, other)
            assert differs is None, f"{operation}: {differs}\nplan: {plan_of(store, operation)}"
        checked = store.verify()
        assert checked.ok, checked.problems


PACKED: list[str] = []


@pytest.fixture(autouse=True)
def some_have_packed_something(request: pytest.FixtureRequest) -> Iterator[None]:
    """Otherwise the programs would say nothing."""
    packed, chosen = len(PACKED), len(CHOSEN)
    yield
    if request.node.originalname == "test_packed_rows_answer_as_the_reference":
        assert len(PACKED) - packed > EXAMPLES / 10
    if request.node.originalname == "test_designs_with_packed_views_answer_as_the_reference":
        assert len(CHOSEN) - chosen > EXAMPLES / 10


@pytest.fixture
def everything_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed documents are worth it with any number of entries, bounded or not, and cost next to nothing."""
    priced = cost.cost_model

    def cheap(model: Any) -> Any:
        costs = priced(model)
        for name in ("read", "touch"):
            usual = getattr(costs, name)
            setattr(costs, name, lambda work, usual=usual: Cost(1e-9) if work.view.packed else usual(work))
        keep = costs.keep
        costs.keep = lambda view, facts: 0.0 if view.packed else keep(view, facts)
        return costs

    monkeypatch.setattr(cost, "cost_model", cheap)
    monkeypatch.setattr("keyplan.engines.mongodb.fit.FEWEST_PACKED", 0)
    monkeypatch.setattr("keyplan.engines.mongodb.fit._is_bounded", lambda model, view: True)


CHOSEN: list[str] = []


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_designs_with_packed_views_answer_as_the_reference(
    mongodb: Harness, everything_packed: None, designs: Designs, data: st.DataObject
) -> None:
    for _ in range(3):  # few programs have anything to pack
        program = data.draw(programs())
        model = replace(data.draw(statistics(program.model)), targets=mongodb.targets)
        design = designs.of(model, "mongodb", advise=True)
        packed = {name for name, view in design.views.items() if view.packed}
        if packed:
            break
    else:
        return
    homes = packed & {name for name, _ in design.homes.values()}
    CHOSEN.append("home" if homes else "copy")
    run(program, model, mongodb.url(), design)
