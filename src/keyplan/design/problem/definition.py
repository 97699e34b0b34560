"""The design problem of one model on one engine: candidate views, roots with their goals, upkeep, requirements.

Everything here is data. `program.py` turns it into a binary program, `evaluate` prices any choice of views by dynamic
programming, and both must agree.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType

from keyplan.design.options.goals import Goal, Option, goals_below
from keyplan.design.problem.crowds import NO_CROWDS, Arrangement, Crowds
from keyplan.design.problem.growth import NO_GROWTH, Grown, Growth
from keyplan.design.upkeep.effects import Upkeep
from keyplan.engines.work import CostModel, Couplings, ViewFacts
from keyplan.plan.view import View

INFEASIBLE = float("inf")
MET = 2e-6
"""By how much a row may be missed and still be met: what the solver takes for met, and as much again."""
CARRY, CHECK = "carry", "check"
"""Roots that stand for what a home has along for other views, and for checks of rows that these copy from: both are
paid for once, whoever asks for them, and look up nothing."""


@dataclass
class Root:
    """A goal at the top: a pattern, or a lookup of a write."""

    name: str
    kind: str
    """pattern, target (the row of a rank), find, children, old, fan, copy, refill, group; CARRY, CHECK."""
    goal: Goal
    rate: float
    always: bool = True
    demanded_by: set[str] = field(default_factory=set)
    """Names of the views that make a write need this lookup."""
    label: str = ""

    @property
    def looks_up(self) -> bool:
        """Whether something is read for it."""
        return self.kind not in (CARRY, CHECK)

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
    calls: Mapping[str, Calls]
    """Per write: how it is called."""
    carrying: Mapping[str, float] = field(default_factory=dict)
    """A small cost per view, so that nothing useless is kept and ties are broken for keys that people expect."""
    wait_cost: float = 0.0
    """What a further round trip is thought to cost the caller of a pattern, in what a call costs."""
    crowds: Crowds = NO_CROWDS
    """Where patterns may read too often together."""
    growth: Growth = NO_GROWTH
    """What becomes larger by what is chosen beside it."""
    _fixed: dict[str, float] = field(default_factory=dict, init=False, repr=False)
    _touches: dict[str, dict[str, Touched]] = field(default_factory=dict, init=False, repr=False)

    def under(self, couplings: Couplings) -> Problem:
        """The same problem with other rows of the engine, and all that is known of it."""
        found = replace(self, couplings=couplings)
        found._fixed, found._touches = self._fixed, self._touches
        return found

    def option_cost(self, option: Option, grown: Grown | None = None) -> float:
        """What an option costs by itself, with what waiting for it is thought to cost; where entries are `grown`, or
        else as small as they can be."""
        cost = option.cost if grown is None else grown.cost(self.costs, option)
        return cost.cost + option.waits * self.wait_cost

    def crowded_by(self, crowds: Crowds) -> Problem:
        """The same problem with other limits on what patterns read together."""
        found = replace(self, crowds=crowds)
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

    def growing_cost(self, name: str, grown: Grown) -> float:
        """What a chosen view costs besides, because its entries are larger beside others; without transactions."""
        total = grown.stored(self.costs, name, self.facts[name])
        for write, rate in self.rates.items():
            for part in self.upkeep.get((write, name), ()):
                total += (grown.upkeep(self.costs, name, part).cost - part.cost.cost) * rate * self.costs.per_second
        return total

    def growing_premium(self, write: str, name: str, grown: Grown) -> float:
        """The same of what transactions add to one write."""
        total = 0.0
        for part in self.upkeep.get((write, name), ()):
            if part.entries and not part.carries:
                larger = grown.upkeep(self.costs, name, part)
                if larger is not part.cost:
                    more = self.costs.premium(grown.work(name, part.work), larger).cost
                    total += more - self.costs.premium(part.work, part.cost).cost
        return total * self.rates[write] * self.costs.per_second

    def premiums(self, write: str, chosen: Container[str]) -> dict[str, float]:
        """Per view that a write touches under this choice: the share of its work there that is done in transactions."""
        calls = self.calls[write]
        touched = {name: touch for name, touch in self.touches(write).items() if name in chosen}
        largest = sorted((touch.share for touch in touched.values()), reverse=True)
        found = {}
        for name, touch in touched.items():
            others = largest[1:] if touch.share == largest[0] else largest
            with_others = min(touch.share, others[0]) if others else 0.0
            alone = max(touch.several, with_others) / touch.share if touch.share else 0.0
            found[name] = 1.0 if calls.several_rows else calls.together + (1.0 - calls.together) * alone
        return found

    def touches(self, write: str) -> Mapping[str, Touched]:
        """What a write does to each view that it has to do with, in the order of the views."""
        if not self._touches:
            order = {name: number for number, name in enumerate(self.views)}
            self._touches.update({name: {} for name in self.rates})
            for (name, view), parts in sorted(self.upkeep.items(), key=lambda item: order[item[0][1]]):
                if name in self.rates:
                    self._touches[name][view] = self._touched(name, parts)
            for name, touched in self._touches.items():
                if not any(self.is_certain(name, names) for _, names in self.required):
                    self._touches[name] = {view: touch.rounded_up() for view, touch in touched.items()}
        return self._touches[write]

    def is_certain(self, write: str, names: Iterable[str]) -> bool:
        """Whether each call touches whichever of these views there is."""
        touched = self._touches[write]
        return all(name in touched and touched[name].share >= 1.0 for name in names)

    def _touched(self, write: str, parts: Sequence[Upkeep]) -> Touched:
        # What a home has along, and what is checked, is priced by a root of its own.
        paid = [part for part in parts if part.entries and part.cost.cost]
        cost = sum(self.costs.premium(part.work, part.cost).cost for part in paid)
        rows = self.calls[write].rows
        shares, several = [0.0, 0.0], 0.0
        for part in parts:
            if part.entries > 0:
                shares.append(_share(part.entries / rows))
                several = max(several, 1.0 if part.entries / rows > 1.0 + 1e-9 else _share(part.work.moves / rows))
            if part.looks > 0:  # as if one more entry were touched, wherever the row itself is
                shares.append(_share(part.looks / rows))
        shares.sort(reverse=True)
        return Touched(cost * self.rates[write] * self.costs.per_second, shares[0], max(several, shares[1]))


def _share(entries: float) -> float:
    """The share of calls that touch so many entries on average, at most."""
    return 1.0 if entries >= 1.0 - 1e-9 else entries


@dataclass(frozen=True)
class Calls:
    """How a write is called."""

    several_rows: bool = False
    """Each call writes several rows, and nothing can make them one entry."""
    rows: float = 1.0
    """The rows that a call changes one after the other, each by itself."""
    together: float = 0.0
    """The share of the calls that are made together with others, by the transactions of the model."""


@dataclass(unsafe_hash=True)
class Touched:
    """What one write does to one view, as far as transactions are concerned."""

    cost: float
    """What it costs more if all of it is done in transactions, per unit of the objective."""
    share: float
    """The share of the rows written that touch self-kept entries of it; 0: they are the engine's."""
    several: float
    """The share of them that touch more than one, and are a transaction by that alone."""

    @property
    def is_own(self) -> bool:
        return self.share > 0

    def rounded_up(self) -> Touched:
        """As if each call did what some do: where no entry is touched by each, nobody knows which come together."""
        return Touched(self.cost, float(ceil(self.share)), float(ceil(self.several)))


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
    and is as small as these allow. Others may stand beside the views, which rows before have counted. All other rows,
    those that limit views where a variable is large included, are checked afterwards.
    """
    least = dict.fromkeys(couplings.variables, 0.0)
    least |= {name: 1.0 for name, views in couplings.several.items() if len(chosen.intersection(views)) > 1}
    sums = dict.fromkeys(couplings.rows_of_none, 0.0)
    for name, places in couplings.rows_of_views.items():
        if name in chosen:
            for number, weight in places:
                sums[number] = sums.get(number, 0.0) + weight
    rows = [(couplings.rows[number], sums[number], couplings.variables_of_rows[number]) for number in sorted(sums)]
    for row, views, counted in rows:
        counts = [name for name in counted if row.coefficients[name] < 0]
        if len(counts) == 1 and len(row.coefficients) > 1:
            (name,) = counts
            views += sum(row.coefficients[other] * least[other] for other in counted if other != name)
            least[name] = max(least[name], (views - row.high) / -row.coefficients[name])
    for row, views, counted in rows:
        value = views + sum(row.coefficients[name] * least[name] for name in counted)
        if value < row.low - MET or value > row.high + MET:
            return INFEASIBLE
    return sum(couplings.variables[name][0] * amount for name, amount in least.items())


def _price(
    problem: Problem, goal: Goal, chosen: Set[str], grown: Grown, best: dict[int, float], choice: dict[int, Option]
) -> float:
    """The price of a goal, which with those of all below it is noted in `best`, and the options in `choice`."""
    known = best.get(goal.number)
    if known is not None:
        return known
    lowest = INFEASIBLE
    best[goal.number] = INFEASIBLE
    for option in goal.options:
        if not option.takes <= chosen:
            continue
        cost = problem.option_cost(option, grown)
        for sub in option.subs:
            cost += _price(problem, sub.goal, chosen, grown, best, choice)
            if cost == INFEASIBLE:
                break
        if cost < lowest - 1e-15 * max(1.0, abs(lowest) if lowest != INFEASIBLE else 1.0):
            lowest = cost
            choice[goal.number] = option
    best[goal.number] = lowest
    return lowest


def evaluate(problem: Problem, chosen: set[str], known: Mapping[int, float] = MappingProxyType({})) -> Evaluation:
    """Prices a choice of views exactly, by dynamic programming over the options.

    `known` are prices of goals that hold under this choice, too; their options are not in the answer. None are known
    where patterns may be too many at one place.
    """
    best: dict[int, float] = dict(known)
    choice: dict[int, Option] = {}
    total = 0.0
    reads: dict[str, float] = {}
    for _, names in problem.required:
        if not chosen & set(names):
            total = INFEASIBLE
    total += coupling_cost(problem.couplings, chosen)
    grown = problem.growth.under(chosen)
    shares, unserved, is_arranged = _read(problem, chosen, grown, best, choice)
    if not is_arranged:
        total = INFEASIBLE
    for name, share in shares:
        reads[name] = reads.get(name, 0.0) + share
        total += share
    # In the order of the views: sums of floats depend on it, and a set has none of its own.
    ordered = [name for name in problem.views if name in chosen]
    for name in ordered:
        total += problem.fixed_cost(name)
    larger = dict.fromkeys(name for name, _ in grown.places)
    for name in larger:
        total += problem.growing_cost(name, grown)
    if problem.costs.transactional:
        for write in problem.rates:
            touches = problem.touches(write)
            premiums = problem.premiums(write, chosen)
            total += sum(touches[name].cost * share for name, share in premiums.items())
            for name in larger:
                if premiums.get(name):
                    total += problem.growing_premium(write, name, grown) * premiums[name]
    return Evaluation(total, choice, best, reads, unserved)


def best_options(problem: Problem, chosen: Set[str], grown: Grown) -> dict[int, Option]:
    """The options that the roots take under a choice of views, without a price for all that is chosen; none where
    they cannot be arranged."""
    choice: dict[int, Option] = {}
    _, _, is_arranged = _read(problem, chosen, grown, {}, choice)
    return choice if is_arranged else {}


def _read(
    problem: Problem, chosen: Set[str], grown: Grown, best: dict[int, float], choice: dict[int, Option]
) -> tuple[list[tuple[str, float]], list[str], bool]:
    """What each root that has to be reached costs, by name; those that cannot be; and whether no place is read too
    often. Prices and options are noted in `best` and `choice`."""
    roots = [root for root in problem.roots if root.applies(chosen)]
    unserved = [root.name for root in roots if _price(problem, root.goal, chosen, grown, best, choice) == INFEASIBLE]
    is_arranged = not problem.crowds.places or bool(unserved) or _arrange(problem, chosen, grown, best, choice)
    shares = [(root.name, best[root.goal.number] * root.rate * problem.costs.per_second) for root in roots]
    return shares, unserved, is_arranged


def small_reads(problem: Problem) -> float:
    """What all roots together that can be reached cost if every view is there and no entry is larger for that."""
    shares, _, _ = _read(problem, set(problem.views), NO_GROWTH.under(frozenset()), {}, {})
    reads: dict[str, float] = {}
    for name, share in shares:
        reads[name] = reads.get(name, 0.0) + share
    return sum(cost for cost in reads.values() if cost != INFEASIBLE)


def _arrange(
    problem: Problem, chosen: Set[str], grown: Grown, best: dict[int, float], choice: dict[int, Option]
) -> bool:
    """Has patterns read elsewhere where they would be too many at one place; whether that is possible."""
    hot = [root for root in problem.roots if root.goal.number in problem.crowds.goals and root.applies(chosen)]

    def cost(option: Option) -> float:
        return problem.option_cost(option, grown)

    found = Arrangement(problem.crowds, chosen, best, cost).of([(root.goal, root.rate) for root in hot])
    if found is None:
        return False
    for root, way in zip(hot, found, strict=True):
        best[root.goal.number] = way.price
        choice.update(way.options)
    return True


def goals_by_view(problem: Problem, found: Evaluation) -> dict[str, set[int]]:
    """Per view: the goals whose plan comes to it, so that no others change their price if it is dropped."""
    used: dict[int, frozenset[str]] = {}
    for goal in goals_below(root.goal for root in reversed(problem.roots)):
        _views_of(goal, found, used)
    users: dict[str, set[int]] = {}
    for number, names in used.items():
        for name in names:
            users.setdefault(name, set()).add(number)
    return users


def _views_of(goal: Goal, found: Evaluation, used: dict[int, frozenset[str]]) -> frozenset[str]:
    """The views that the plan of a goal comes to, noted in `used` with those of all below it."""
    if goal.number not in used:
        used[goal.number] = frozenset()
        option = found.choice.get(goal.number)
        if option is not None:
            used[goal.number] = option.takes.union(*(_views_of(sub.goal, found, used) for sub in option.subs))
    return used[goal.number]


def carried(problem: Problem, chosen: set[str]) -> float:
    """The part of a choice's value that structures are thought to cost by being there, and waiting, which nobody is
    billed for."""
    kept = sum(problem.carrying.get(name, 0.0) for name in sorted(chosen))
    return kept + coupling_cost(problem.couplings, chosen) + _waited(problem, chosen)


def _waited(problem: Problem, chosen: set[str]) -> float:
    """What the further round trips of all calls of patterns are thought to cost."""
    choice = evaluate(problem, chosen).choice
    known: dict[int, float] = {}
    calls = sum(root.rate * _waits(root.goal, choice, known) for root in problem.roots if root.applies(chosen))
    return calls * problem.wait_cost * problem.costs.per_second


def _waits(goal: Goal, choice: Mapping[int, Option], known: dict[int, float]) -> float:
    """The further round trips of one goal; `known` are those of others by now."""
    if goal.number not in known:
        option = choice.get(goal.number)
        below = sum(_waits(sub.goal, choice, known) for sub in option.subs) if option else 0.0
        known[goal.number] = option.waits + below if option else 0.0
    return known[goal.number]
