"""Patterns that read the same place too often together: the program keeps them apart in the cheapest way there is."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from keyplan.design.problem.build import build_problem
from keyplan.design.problem.crowds import NO_CROWDS
from keyplan.design.problem.definition import INFEASIBLE, evaluate
from keyplan.design.program.rows import build
from keyplan.design.program.solve import least_crowded, solve
from keyplan.engines import get_engine
from keyplan.engines.work import Couplings
from keyplan.model.model import Model
from tests.strategies.crowds import crowded_problems
from tests.strategies.design import proof
from tests.unit.design.exhaustive import chosen_by, cost_table, least_excess, restricted, some_views
from tests.unit.design.relaxed import value_at

ENGINE = get_engine("dynamodb")
MOST_VIEWS = 11
EXACT = 1e-6


@proof(60)
@given(model=crowded_problems(4), seed=st.integers(0, 2**16))
def test_no_arrangement_within_the_limits_is_cheaper(model: Model, seed: int) -> None:
    problem = build_problem(model, ENGINE).problem
    # Of most problems, views by which nothing is too hot.
    free = problem.under(Couplings())
    names = some_views(free if seed % 4 else free.crowded_by(NO_CROWDS), MOST_VIEWS, seed)
    if names is None:
        event("more views needed than a table holds")
        return
    problem = restricted(problem, names)
    anyhow = cost_table(problem.crowded_by(NO_CROWDS))
    table = cost_table(problem)
    solution = solve(problem)
    if table.min() == INFEASIBLE:
        assert solution is None
        softer = least_crowded(problem)
        if anyhow.min() == INFEASIBLE:
            event("no choice serves everything")
            assert softer is None
            return
        event("all choices are too hot")
        assert softer is not None
        beyond = sum(place.most - 1 for place in softer.crowds.places)
        assert beyond == pytest.approx(least_excess(problem), abs=1e-4)
        assert solve(softer) is not None
        return
    event("what is cheapest would be too hot" if table.min() > anyhow.min() * (1 + EXACT) else "nothing is too hot")
    assert solution is not None
    assert solution.value == pytest.approx(float(table.min()), rel=EXACT)
    assert solution.gap <= EXACT
    for choice in {int(table.argmin()), int(anyhow.argmin()), seed % len(table), len(table) - 1}:
        chosen = chosen_by(problem, choice)
        expected = float(table[choice])
        assert evaluate(problem, chosen).cost == pytest.approx(expected, rel=1e-9)
        found = value_at(problem, build(problem), chosen)
        assert (INFEASIBLE if found is None else found) == pytest.approx(expected, rel=EXACT)
