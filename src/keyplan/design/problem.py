"""The design problem of one model on one engine: candidate views, roots with their goals, upkeep, requirements.

Everything here is data. `program.py` turns it into a binary program, `evaluate` prices any choice of views by dynamic
programming, and both must agree.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from keyplan.design.goals import Goal, Option
from keyplan.design.upkeep import Upkeep
from keyplan.engines.work import CostModel, Couplings, LinearRow, ViewFacts
from keyplan.plan.view import View

INFEASIBLE = float("inf")
CARRY = "carry"
"""Roots that stand for what a home has along for other views."""


@dataclass
class Root:
    """A goal at the top: a pattern, or a lookup of a write."""

    name: str
    kind: str
    """pattern, target (the row of a rank), find, children, old, fan, copy, refill; CARRY looks up nothing."""
    goal: Goal
    rate: float
    always: bool = True
    demanded_by: set[str] = field(default_factory=set)
    """Names of the views that make a write need this lookup."""
    label: str = ""

    def applies(self, chosen: Iterable[str]) -> bool:
        """Whether it has to be reached under this choice of views."""
        return self.always or not self.demanded_by.isdisjoint(chosen)


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
    carrying: Mapping[str, float] = field(default_factory=dict)
    """A small cost per view, so that nothing useless is kept and ties are broken for keys that people expect."""
    _fixed: dict[str, float] = field(default_factory=dict, init=False, repr=False)
    _touches: dict[str, dict[str, Touched]] = field(default_factory=dict, init=False, repr=False)

    def under(self, couplings: Couplings) -> Problem:
        """The same problem with other rows of the engine, and all that is known of it."""
        found = replace(self, couplings=couplings)
        found._fixed, found._touches = self._fixed, self._touches
        return found

    def fixed_cost(self, name: str) -> float:
        """What a chosen view costs by itself: storage and its part of every write, without transactions."""
        if name in self._fixed:
            return self._fixed[name]
        view = self.views[name]
        total = self.costs.keep(view, self.facts[name]) + self.carrying.get(name, 0.0)
        for write, rate in self.rates.items():
            for part in self.upkeep.get((write, name), ()):
                total += part.cost.cost * rate * self.costs.per_second
        self._fixed[name] = total
        return total

    def touch_cost(self, write: str, name: str) -> float:
        """The cost that a transaction adds for this view, per unit of the objective."""
        touch = self.touches(write).get(name)
        return touch.cost if touch is not None else 0.0

    def own_touched(self, write: str) -> list[str]:
        """The self-kept views that a write touches."""
        return [name for name, touch in self.touches(write).items() if touch.is_own]

    def is_transaction(self, write: str, chosen: Container[str]) -> bool:
        """Whether one call touches more than one self-kept entry under this choice."""
        if self.several_rows[write]:
            return True
        return sum(touch.entries for name, touch in self.touches(write).items() if name in chosen) > 1

    def touches(self, write: str) -> Mapping[str, Touched]:
        """What a write does to each view that it has to do with, in the order of the views."""
        if not self._touches:
            order = {name: number for number, name in enumerate(self.views)}
            self._touches.update({name: {} for name in self.rates})
            for (name, view), parts in sorted(self.upkeep.items(), key=lambda item: order[item[0][1]]):
                if name in self.rates:
                    # What a home has along is priced by a root of its own.
                    paid = [part for part in parts if part.entries and not part.carries]
                    cost = sum(self.costs.premium(part.work, part.cost).cost for part in paid)
                    own = [part for part in parts if part.entries > 0]
                    several = [part.entries > 1.0 + 1e-9 or part.work.moves > 0 for part in own]
                    entries = sum(2 if many else 1 for many in several)
                    self._touches[name][view] = Touched(cost * self.rates[name] * self.costs.per_second, entries)
        return self._touches[write]


@dataclass(frozen=True)
class Touched:
    """What one write does to one view, as far as transactions are concerned."""

    cost: float
    """Per unit of the objective."""
    entries: int
    """Self-kept entries that it touches: none, one, or more than one."""

    @property
    def is_own(self) -> bool:
        return self.entries > 0


@dataclass
class Evaluation:
    """The price of a choice of views."""

    cost: float
    choice: dict[int, Option]
    """Per goal number: the option taken."""
    best: dict[int, float]
    """Per goal number: its price."""
    read_cost: dict[str, float]
    unserved: list[str]


def coupling_cost(couplings: Couplings, chosen: set[str]) -> float:
    """The least cost of the engine's own variables under a choice of views; infinite if a row cannot hold.

    Each variable counts something: it stands with a negative coefficient in rows of the form `views - variable <= 0`
    and is as small as these allow. All other rows, those that limit views where a variable is large included, are
    checked afterwards.
    """
    least = dict.fromkeys(couplings.variables, 0.0)
    sums: list[tuple[LinearRow, float, list[str]]] = []
    for row in couplings.rows:
        views = 0.0
        counted = []
        for name, weight in row.coefficients.items():
            if name in chosen:
                views += weight
            elif name in least:
                counted.append(name)
        sums.append((row, views, counted))
        if len(counted) == 1 and len(row.coefficients) > 1 and row.coefficients[counted[0]] < 0:
            (name,) = counted
            least[name] = max(least[name], (views - row.high) / -row.coefficients[name])
    for row, views, counted in sums:
        value = views + sum(row.coefficients[name] * least[name] for name in counted)
        if value < row.low - 1e-9 or value > row.high + 1e-9:
            return INFEASIBLE
    return sum(couplings.variables[name][0] * amount for name, amount in least.items())


def evaluate(problem: Problem, chosen: set[str], known: Mapping[int, float] = MappingProxyType({})) -> Evaluation:
    """Prices a choice of views exactly, by dynamic programming over the options.

    `known` are prices of goals that hold under this choice, too; their options are not in the answer.
    """
    best: dict[int, float] = dict(known)
    choice: dict[int, Option] = {}

    def price(goal: Goal) -> float:
        if goal.number in best:
            return best[goal.number]
        lowest = INFEASIBLE
        best[goal.number] = INFEASIBLE
        for option in goal.options:
            if not option.takes <= chosen:
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
        if not root.applies(chosen):
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
                total += sum(touch.cost for name, touch in problem.touches(write).items() if name in chosen)
    return Evaluation(total, choice, best, reads, unserved)


def goals_by_view(problem: Problem, found: Evaluation) -> dict[str, set[int]]:
    """Per view: the goals whose plan comes to it, so that no others change their price if it is dropped."""
    used: dict[int, frozenset[str]] = {}

    def views_of(goal: Goal) -> frozenset[str]:
        if goal.number not in used:
            used[goal.number] = frozenset()
            option = found.choice.get(goal.number)
            if option is not None:
                used[goal.number] = option.takes.union(*(views_of(sub.goal) for sub in option.subs))
        return used[goal.number]

    seen: set[int] = set()

    def visit(goal: Goal) -> None:
        if goal.number not in seen:
            seen.add(goal.number)
            views_of(goal)
            for option in goal.options:
                for sub in option.subs:
                    visit(sub.goal)

    for root in problem.roots:
        visit(root.goal)
    users: dict[str, set[int]] = {}
    for number, names in used.items():
        for name in names:
            users.setdefault(name, set()).add(number)
    return users


def carried(problem: Problem, chosen: set[str]) -> float:
    """The part of a choice's value that structures are thought to cost by being there, which nobody is billed for."""
    return sum(problem.carrying.get(name, 0.0) for name in sorted(chosen)) + coupling_cost(problem.couplings, chosen)
