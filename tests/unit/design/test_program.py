"""The program is exact: on generated models it finds the cheapest of all 2^n choices of views, for every engine.

Engine rows, couplings and transaction premiums are included. A problem with more views than that is restricted to a
random set of them that still serves everything.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from keyplan.design.problem.build import build_problem
from keyplan.design.problem.definition import INFEASIBLE, evaluate
from keyplan.design.program.rows import build
from keyplan.design.program.solve import solve
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.model import Model
from tests.strategies.design import any_problems, proof
from tests.unit.design.exhaustive import chosen_by, cost_table, restricted, some_views
from tests.unit.design.relaxed import value_at

MOST_VIEWS = 12
EXACT = 1e-6


@pytest.mark.parametrize("engine", BUILTIN)
@proof(120)
@given(model=any_problems(), seed=st.integers(0, 2**16))
def test_program_finds_the_cheapest_of_all_choices(engine: str, model: Model, seed: int) -> None:
    problem = build_problem(model, get_engine(engine)).problem
    names = some_views(problem, MOST_VIEWS, seed)
    if names is None:
        event("more views needed than a table holds")
        return
    problem = restricted(problem, names)
    table = cost_table(problem)
    cheapest = float(table.min())
    solution = solve(problem)
    if cheapest == INFEASIBLE:
        event("no choice serves everything")
        assert solution is None
        return
    assert solution is not None
    assert solution.value == pytest.approx(cheapest, rel=EXACT)
    assert solution.bound <= solution.value
    assert solution.gap <= EXACT
    # The designer's own price of any choice is the table's, so that both mean the same by a cost.
    for choice in {int(table.argmin()), seed % len(table), len(table) - 1}:
        assert evaluate(problem, chosen_by(problem, choice)).cost == pytest.approx(float(table[choice]), rel=1e-9)


@pytest.mark.parametrize("engine", BUILTIN)
@proof(50)
@given(model=any_problems(2), seed=st.integers(0, 2**16))
def test_linear_program_at_a_choice_costs_what_dynamic_programming_says(engine: str, model: Model, seed: int) -> None:
    """(iv) With the views fixed, the relaxed rest of the program is the dynamic program, and no row that is said to
    follow from others makes it dearer."""
    problem = build_problem(model, get_engine(engine)).problem
    solution = solve(problem)
    if solution is None:
        return
    linear = build(problem)
    some = random.Random(seed).sample(sorted(problem.views), len(problem.views) // 2)
    for chosen in (set(solution.chosen), set(problem.views), {*solution.chosen, *some}):
        expected = evaluate(problem, chosen).cost
        found = value_at(problem, linear, chosen)
        if expected == INFEASIBLE:
            assert found is None
        else:
            assert found == pytest.approx(expected, rel=1e-6)
