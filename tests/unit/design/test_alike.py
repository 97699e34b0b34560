"""Views that are alike for a goal have their options' variables and one row in common."""

from __future__ import annotations

from keyplan.design.options.goals import Option, goals_below
from keyplan.design.problem.build import build_problem
from keyplan.design.program.alike import Alike
from keyplan.design.program.rows import build
from keyplan.engines import get_engine
from keyplan.engines.work import Cost
from keyplan.plan.view import View
from tests.unit.design.support import example


def option(name: str, beside: str = "") -> Option:
    view = View(name=name, entity="Order", kind="table", partition=(), sort=(), holds=())
    return Option("search", view, Cost(1.0), 1.0, 1.0, beside=beside)


def test_views_with_the_same_options_share_them() -> None:
    first, second, other = option("v1"), option("v2"), option("v3")
    alike = Alike([(first, "cheap"), (second, "cheap"), (other, "dear")])
    assert list(alike.options()) == [[first, second], [other]]
    assert list(alike.views()) == [["v1", "v2"], ["v3"]]


def test_a_view_with_another_option_is_not_alike() -> None:
    first, second, otherwise = option("v1"), option("v2"), option("v2")
    alike = Alike([(first, "cheap"), (second, "cheap"), (otherwise, "dear")])
    assert list(alike.options()) == [[first], [second], [otherwise]]
    assert list(alike.views()) == [["v1"], ["v2"]]


def test_of_options_with_several_views_each_is_needed() -> None:
    both, again = option("v1", beside="v2"), option("v3", beside="v4")
    alike = Alike([(both, "cheap"), (again, "cheap")])
    assert list(alike.options()) == [[both], [again]]
    assert list(alike.views()) == [["v1"], ["v2"], ["v3"], ["v4"]]


def test_programs_are_smaller_than_what_they_choose_from() -> None:
    problem = build_problem(example("shop"), get_engine("dynamodb")).problem
    linear = build(problem)
    options = sum(name.startswith("y") for name in linear.names)
    assert options < 0.5 * sum(len(goal.options) for goal in goals_below(root.goal for root in problem.roots))
