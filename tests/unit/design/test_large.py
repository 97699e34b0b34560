"""Models with very many entities, and programs that are too large to be proven."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import event, given

from keyplan.design import design
from keyplan.design.problem.build import build_problem
from keyplan.design.problem.definition import evaluate
from keyplan.design.program import minimize
from keyplan.design.program.solve import solve
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.model import Model
from tests.strategies.design import any_problems, proof
from tests.unit.design.nouns import model_of


def calls_of_a_design(entities: int) -> int:
    """How many functions are called to design so many small entities."""
    text = (f"E{one}: {{ count: 10, fields: {{ id: 'uuid, key', n: int }} }}" for one in range(entities))
    model = model_of("\n".join(text), "", "")
    calls = [0]

    def count(frame: FrameType, event: str, argument: object) -> None:
        calls[0] += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        assert len(design(model, get_engine("sqlite")).views) == entities
    finally:
        sys.setprofile(before)
    return calls[0]


def test_an_entity_takes_as_much_work_however_many_others_there_are() -> None:
    """A thousand took a quarter of a minute where each view was asked what it keeps for each other."""
    calls_of_a_design(10)  # what is worked out once
    assert calls_of_a_design(200) < 2.2 * calls_of_a_design(100)


@pytest.mark.parametrize("engine", BUILTIN)
@proof(15)
@given(model=any_problems(2))
def test_what_is_too_large_to_be_proven_is_as_good_as_is_told(engine: str, model: Model) -> None:
    """As if every program were: choices are looked for among few views at a time, and the bound holds."""
    problem = build_problem(model, get_engine(engine)).problem
    best = solve(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minimize, "LARGE", 0)
        patch.setattr(minimize, "SOME", 5)
        found = solve(problem)
    if best is None:
        assert found is None
        return
    assert found is not None
    assert found.value == pytest.approx(evaluate(problem, set(found.chosen)).cost)
    assert found.bound <= best.value * (1 + 1e-6)
    assert found.value >= best.bound * (1 - 1e-6)
    assert found.value <= best.value * 2


@pytest.mark.parametrize("engine", BUILTIN)
@proof(10)
@given(model=any_problems(2))
def test_where_the_relaxation_uses_too_few_views_for_any_choice_more_are_tried(engine: str, model: Model) -> None:
    """As if it always did: a choice is found among more and more views, and it is as good as is told."""
    problem = build_problem(model, get_engine(engine)).problem
    best = solve(problem)
    many, opened, able = len(problem.views), [], []

    def run(highs: Any, linear: Any, *more: Any) -> Any:
        opened.append(sum(one > 0 for one in list(highs.getLp().col_upper_)[:many]))
        able.append(sum(one > 0 for one in linear.upper[:many]))
        return None if len(opened) <= 2 else solved(highs, linear, *more)

    solved = minimize._solved_whole
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minimize, "LARGE", 0)
        patch.setattr(minimize, "SOME", 2)
        patch.setattr(minimize, "_solved_whole", run)
        found = solve(problem)
    event("the relaxation is a choice" if not opened else "more are tried")
    if best is None or found is None:
        assert best is found
        return
    for number, more in enumerate((2, 4), 1):
        assert number >= len(opened) or opened[number] == min(opened[0] + more, able[0])
    assert found.bound <= best.value * (1 + 1e-6)
    assert best.bound <= found.value * (1 + 1e-6)
    assert found.value == pytest.approx(evaluate(problem, set(found.chosen)).cost, rel=1e-9)
