"""The design problem of one model on one engine: candidate views, roots with their goals, upkeep, requirements.

Everything here is data. `program.py` turns it into a binary program, `evaluate` prices any choice of views by dynamic
programming, and both must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from keyplan.design.maintain import Upkeep
from keyplan.design.options import Goal, Option
from keyplan.engines.work import CostModel, Couplings, ViewFacts
from keyplan.plan.view import View

INFEASIBLE = float("inf")


@dataclass
class Root:
    """A goal at the top: a pattern, or a lookup of a write."""

    name: str
    kind: str
    """pattern, target (the row of a rank), find, children, old, fan, copy."""
    goal: Goal
    rate: float
    always: bool = True
    demanded_by: set[str] = field(default_factory=set)
    """Names of the views that make a write need this lookup."""
    label: str = ""


@dataclass
class Problem:
    """See the module."""

    views: dict[str, View]
    facts: Mapping[str, ViewFacts]
    roots: list[Root]
    upkeep: dict[tuple[str, str], list[Upkeep]]
    """Per (write, view)."""
    rates: Mapping[str, float]
    """Calls per second of each write."""
    costs: CostModel
    required: list[tuple[str, list[str]]]
    """At least one view of each list has to be chosen; the text says what for."""
    couplings: Couplings
    several_rows: Mapping[str, bool]
    """Per write: whether one call writes several rows anyway."""
    structure_cost: float = 0.0
    """A small carrying cost per structure, so that nothing useless is kept."""

    def fixed_cost(self, name: str) -> float:
        """What a chosen view costs by itself: storage and its part of every write, without transactions."""
        view = self.views[name]
        total = self.costs.keep(view, self.facts[name]) + self.structure_cost
        for write, rate in self.rates.items():
            for part in self.upkeep.get((write, name), ()):
                total += part.cost.cost * rate * self.costs.per_second
        return total

    def touch_cost(self, write: str, name: str) -> float:
        """The cost that a transaction adds for this view, per unit of the objective."""
        rate = self.rates[write]
        parts = self.upkeep.get((write, name), ())
        return sum(part.cost.cost for part in parts if part.entries) * rate * self.costs.per_second

    def own_touched(self, write: str) -> list[str]:
        """The self-kept views that a write touches."""
        return [name for name in self.views if any(part.entries > 0 for part in self.upkeep.get((write, name), ()))]

    def is_transaction(self, write: str, chosen: Iterable[str]) -> bool:
        """Whether one call touches more than one self-kept entry under this choice."""
        if self.several_rows[write]:
            return True
        touched = 0.0
        for name in chosen:
            for part in self.upkeep.get((write, name), ()):
                if part.entries > 0:
                    touched += 1 if part.entries <= 1.0 + 1e-9 and not part.work.moves else 2
        return touched > 1


@dataclass
class Evaluation:
    """The price of a choice of views."""

    cost: float
    choice: dict[int, Option]
    """Per goal number: the option taken."""
    read_cost: dict[str, float]
    unserved: list[str]


def coupling_cost(couplings: Couplings, chosen: set[str]) -> float:
    """The least cost of the engine's own variables under a choice of views; infinite if a row cannot hold.

    Each variable counts something: it stands with a negative coefficient in rows of the form `views - variable <= 0`
    and is as small as these allow. Rows over variables alone are checked afterwards.
    """
    least = dict.fromkeys(couplings.variables, 0.0)
    for row in couplings.rows:
        counted = [name for name in row.coefficients if name in least]
        if len(counted) == 1 and len(row.coefficients) > 1:
            views = sum(weight for name, weight in row.coefficients.items() if name in chosen)
            least[counted[0]] = max(least[counted[0]], (views - row.high) / -row.coefficients[counted[0]])
    for row in couplings.rows:
        value = sum(weight * least.get(name, float(name in chosen)) for name, weight in row.coefficients.items())
        if value < row.low - 1e-9 or value > row.high + 1e-9:
            return INFEASIBLE
    return sum(couplings.variables[name][0] * amount for name, amount in least.items())


def evaluate(problem: Problem, chosen: set[str]) -> Evaluation:
    """Prices a choice of views exactly, by dynamic programming over the options."""
    best: dict[int, float] = {}
    choice: dict[int, Option] = {}

    def price(goal: Goal) -> float:
        if goal.number in best:
            return best[goal.number]
        lowest = INFEASIBLE
        best[goal.number] = INFEASIBLE
        for option in goal.options:
            if option.view is not None and option.view.name not in chosen:
                continue
            cost = option.cost.cost
            for sub in option.subs:
                cost += price(sub.goal)
                if cost == INFEASIBLE:
                    break
            if cost < lowest - 1e-15 * max(1.0, abs(lowest) if lowest != INFEASIBLE else 1.0):
                lowest = cost
                choice[goal.number] = option
        best[goal.number] = lowest
        return lowest

    total = 0.0
    unserved = []
    reads: dict[str, float] = {}
    for _, names in problem.required:
        if not chosen & set(names):
            total = INFEASIBLE
    total += coupling_cost(problem.couplings, chosen)
    for root in problem.roots:
        if not root.always and not root.demanded_by & chosen:
            continue
        cost = price(root.goal)
        if cost == INFEASIBLE:
            unserved.append(root.name)
        share = cost * root.rate * problem.costs.per_second
        reads[root.name] = reads.get(root.name, 0.0) + share
        total += share
    # In the order of the views: sums of floats depend on it, and a set has none of its own.
    ordered = [name for name in problem.views if name in chosen]
    for name in ordered:
        total += problem.fixed_cost(name)
    if problem.costs.transactional:
        for write in problem.rates:
            if problem.is_transaction(write, chosen):
                total += sum(problem.touch_cost(write, name) for name in ordered)
    return Evaluation(total, choice, reads, unserved)
