"""Rows that follow from others: halves of two views imply all of what each of them implies."""

from __future__ import annotations

import pytest

from keyplan.design.problem.build import build_problem
from keyplan.design.program.implied import Implied
from keyplan.design.program.rows import build
from keyplan.design.program.solve import solve
from keyplan.engines import get_engine
from tests.unit.design.support import example

FIRST, SECOND, OTHER, LOOKUP, BY_FIRST, BY_SECOND, BY_OTHER = range(7)


def implied() -> Implied:
    """A goal with an option for each of three views, of which the first two make a lookup necessary."""
    goal = [((frozenset({view}),), option) for view, option in zip((0, 1, 2), (4, 5, 6), strict=True)]
    found = Implied([goal], [frozenset({FIRST, SECOND, OTHER})])
    found.add({LOOKUP}, {FIRST, SECOND})
    return found


def test_halves_of_two_views_need_a_whole_lookup() -> None:
    rows = list(implied().violated([0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.0]))
    assert rows == [
        ({OTHER: 1.0, LOOKUP: 1.0}, 1.0),
        ({LOOKUP: 1.0, BY_FIRST: -1.0, BY_SECOND: -1.0}, 0.0),
    ]


def test_views_that_are_alike_give_what_the_others_have_not_given() -> None:
    found = Implied([[((frozenset({FIRST}), frozenset({SECOND}), frozenset({OTHER})), BY_FIRST)]])
    found.add({LOOKUP}, {FIRST, SECOND})
    rows = list(found.violated([0.5, 0.3, 0.2, 0.5, 1.0]))
    assert rows == [({BY_FIRST: -1.0, OTHER: 1.0, LOOKUP: 1.0}, 0.0)]
    assert not list(found.violated([0.5, 0.3, 0.5, 0.5, 1.0]))
    assert not list(found.violated([0.5, 0.3, 1.0, 0.5, 1.0]))


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        [0.5, 0.0, 0.5, 0.5, 0.5, 0.0, 0.5],  # as far as the third view serves, no lookup is needed
    ],
)
def test_what_designs_do_is_within_the_rows(values: list[float]) -> None:
    assert not list(implied().violated(values))


def test_one_view_is_told_by_the_program_itself() -> None:
    found = Implied()
    found.add({LOOKUP}, {FIRST})
    assert not found.implications


def test_only_so_many_heavy_views_fit() -> None:
    found = Implied()
    found.limit({FIRST: 41.0, SECOND: 41.0, OTHER: 40.0, LOOKUP: 1.0}, 98.0)
    assert found.limits == [(frozenset({FIRST, SECOND, OTHER}), 2)]
    rows = list(found.violated([0.8, 0.8, 0.8, 1.0]))
    assert rows == [({FIRST: -1.0, SECOND: -1.0, OTHER: -1.0}, -2.0)]
    assert not list(found.violated([1.0, 0.0, 1.0, 1.0]))


@pytest.mark.parametrize("name", ["online_shop", "hotel"])
def test_relaxed_program_is_nearer_to_the_answer(name: str) -> None:
    problem = build_problem(example(name), get_engine("dynamodb")).problem
    solution = solve(problem)
    assert solution is not None
    assert build(problem).implied.implications
    assert solve(problem, below=0.97 * solution.value) is None
    assert solve(problem, below=solution.value * (1 + 1e-6)) == solution
