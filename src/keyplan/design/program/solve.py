"""Solves the binary program, and takes only the choice of views from its answer.

The cost is then derived by dynamic programming over the options, and must equal what the solver says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from keyplan.design.problem.crowds import NO_CROWDS
from keyplan.design.problem.definition import INFEASIBLE, Problem, evaluate, goals_by_view, small_reads
from keyplan.design.problem.prune import replaceable
from keyplan.design.program.minimize import minimize
from keyplan.design.program.rows import INF, Linear, beyond_limit, build
from keyplan.errors import KeyplanError

NODE_LIMIT = 20_000
SAME = 1e-12
"""The share by which costs may differ that are the same."""
BEYOND = 1e4
"""The scale of what is beyond limits, of which a place takes one."""
LEEWAY = 1e-6
"""Of a place: less is what the solver takes for nothing."""


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


def solve(
    problem: Problem, node_limit: int = NODE_LIMIT, below: float = INF, *, proven: bool = True
) -> Solution | None:
    """The cheapest choice of views, or a good one where nothing has to be `proven`; None if no choice serves
    everything, or if none can cost less than `below`, where that is found far sooner.

    Limits on what patterns read together seldom matter: what is cheapest without them is so with them, if it is within
    them at the same cost.
    """
    if problem.crowds.places:
        found = _solve(problem.crowded_by(NO_CROWDS), node_limit, below, proven)
        if found is None or evaluate(problem, set(found.chosen)).cost <= found.value * (1 + SAME):
            return found
    return _solve(problem, node_limit, below, proven)


def least_crowded(problem: Problem) -> Problem | None:
    """The problem with limits that some choice meets: what patterns read together beyond what places take is as little
    in all as it can be. None if there is no choice for other reasons."""
    linear = build(problem, soft=True)
    beyond = [linear.columns[beyond_limit(place)] for place in problem.crowds.places]
    linear.costs = [1.0 if column in beyond else 0.0 for column in range(len(linear.costs))]
    answer = minimize(linear, len(problem.views), BEYOND, NODE_LIMIT)
    if answer is None:
        return None
    more = [answer[0][column] for column in beyond]
    places = tuple(
        replace(place, most=place.most + one + LEEWAY) if one > LEEWAY else place
        for place, one in zip(problem.crowds.places, more, strict=True)
    )
    return problem.crowded_by(replace(problem.crowds, places=places))


def _solve(problem: Problem, node_limit: int, below: float, proven: bool) -> Solution | None:
    linear = build(problem, replaceable(problem))
    scale = _scale(problem, linear)
    answer = minimize(linear, len(problem.views), scale, node_limit, below * scale, proven=proven)
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
    alone = _alone(problem, chosen)
    for name in sorted(chosen, key=lambda name: int(name[1:]), reverse=True):
        if name in alone:
            continue  # without it, the choice is none
        fewer = chosen - {name}
        concerned = users.get(name, set())
        known = {number: price for number, price in current.best.items() if number not in concerned}
        known = {} if problem.crowds.places or problem.growth.adding else known
        if evaluate(problem, fewer, known).cost <= current.cost:
            chosen, current = fewer, evaluate(problem, fewer)
            users = goals_by_view(problem, current)
            alone = _alone(problem, chosen)
    return chosen


def _alone(problem: Problem, chosen: set[str]) -> set[str]:
    """The chosen views that are the only ones for something that has to be."""
    able = (chosen.intersection(names) for _, names in problem.required)
    return {name for names in able if len(names) == 1 for name in names}


def _scale(problem: Problem, linear: Linear) -> float:
    """Brings the objective to a size at which the solver's absolute tolerances are far below a difference."""
    # Only the size matters, and to price every option once more beside all views takes long.
    reads = small_reads(problem)
    cheapest = min((cost for cost in linear.costs[: len(problem.views)] if cost > 0), default=1.0)
    return 1e5 / max(reads, cheapest, 1e-12)
