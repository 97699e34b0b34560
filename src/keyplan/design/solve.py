"""Solves the binary program with HiGHS, and takes only the choice of views from it.

The cost is then derived by dynamic programming over the options, and must equal what the solver says. Limits are
nodes, never seconds, so that the same model gives the same design on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keyplan.design.problem import INFEASIBLE, Problem, evaluate, goals_by_view
from keyplan.design.program import Linear, build
from keyplan.design.prune import replaceable
from keyplan.errors import KeyplanError

NODE_LIMIT = 20_000
GAP = 1e-6


@dataclass(frozen=True)
class Solution:
    """A choice of views, its cost, and the proven lower bound."""

    chosen: frozenset[str]
    value: float
    bound: float

    @property
    def gap(self) -> float:
        """How far the value may be from the best possible, as a share of it."""
        if self.value <= self.bound or self.value == 0:
            return 0.0
        return (self.value - self.bound) / abs(self.value)


def solve(problem: Problem, node_limit: int = NODE_LIMIT) -> Solution | None:
    """The cheapest choice of views; None if no choice serves everything."""
    linear = build(problem, replaceable(problem))
    scale = _scale(problem, linear)
    answer = _run(linear, scale, node_limit)
    if answer is None:
        return None
    values, bound = answer
    chosen = {name for name in problem.views if values[linear.columns[name]] > 0.5}
    chosen = _trim(problem, chosen)
    value = evaluate(problem, chosen).cost
    if value == INFEASIBLE:
        raise KeyplanError("design: the solver's choice serves less than it claims; please report this model")
    bound = min(bound / scale, value)
    if value - bound < 1e-5 * max(1e-12, abs(value)):
        bound = value
    return Solution(frozenset(chosen), value, bound)


def _trim(problem: Problem, chosen: set[str]) -> set[str]:
    """Drops what the solver's tolerances left in without use."""
    current = evaluate(problem, chosen)
    users = goals_by_view(problem, current)
    for name in sorted(chosen, key=lambda name: int(name[1:]), reverse=True):
        fewer = chosen - {name}
        concerned = users.get(name, set())
        known = {number: price for number, price in current.best.items() if number not in concerned}
        if evaluate(problem, fewer, known).cost <= current.cost:
            chosen, current = fewer, evaluate(problem, fewer)
            users = goals_by_view(problem, current)
    return chosen


def _scale(problem: Problem, linear: Linear) -> float:
    """Brings the objective to a size at which the solver's absolute tolerances are far below a difference."""
    everything = evaluate(problem, set(problem.views))
    reads = sum(cost for cost in everything.read_cost.values() if cost != INFEASIBLE)
    cheapest = min((cost for cost in linear.costs[: len(problem.views)] if cost > 0), default=1.0)
    return 1e5 / max(reads, cheapest, 1e-12)


def _run(linear: Linear, scale: float, node_limit: int) -> tuple[list[float], float] | None:
    import highspy
    import numpy

    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("random_seed", 1)
    highs.setOptionValue("mip_rel_gap", GAP)
    highs.setOptionValue("mip_abs_gap", 1e-6)
    highs.setOptionValue("mip_max_nodes", node_limit)
    model = highspy.HighsLp()
    model.num_col_ = len(linear.costs)
    model.num_row_ = len(linear.rows)
    model.col_cost_ = numpy.array(linear.costs) * scale
    model.col_lower_ = numpy.zeros(len(linear.costs))
    model.col_upper_ = numpy.array([min(value, highspy.kHighsInf) for value in linear.upper])
    model.row_lower_ = numpy.array([max(value, -highspy.kHighsInf) for value in linear.low])
    model.row_upper_ = numpy.array([min(value, highspy.kHighsInf) for value in linear.high])
    starts, index, value = [0], [], []
    for row in linear.rows:
        for column in sorted(row):
            index.append(column)
            value.append(row[column])
        starts.append(len(index))
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = numpy.array(starts)
    model.a_matrix_.index_ = numpy.array(index)
    model.a_matrix_.value_ = numpy.array(value)
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    model.integrality_ = [kinds[integer] for integer in linear.integer]
    highs.passModel(model)
    highs.run()
    status = highs.getModelStatus()
    if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
        return None
    info = highs.getInfo()
    if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kSolutionLimit):
        raise KeyplanError(f"design: the solver stopped with '{highs.modelStatusToString(status)}'")
    return list(highs.getSolution().col_value), info.mip_dual_bound
