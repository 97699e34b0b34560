"""Prices all 2^n choices of views of a problem at once, written apart from the designer's own dynamic program.

A table has one number per choice: choice number c contains the view in place i if bit i of c is set. Problems with
more views than a table can hold are restricted to some of them first.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy

from keyplan.design.options.goals import Goal, Option, Sub
from keyplan.design.problem.crowds import NO_CROWDS
from keyplan.design.problem.definition import INFEASIBLE, MET, Problem, Root, coupling_cost, evaluate
from keyplan.design.upkeep.effects import Upkeep
from keyplan.engines.work import Couplings, LinearRow

Table = Any
"""A numpy array with a number per choice."""
Place = tuple[str, tuple[str, ...]]
"""A view, and the roles that lead to rows inside it."""


def restricted(problem: Problem, names: Iterable[str]) -> Problem:
    """The problem with these views only; everything that needs another one is gone from it."""
    kept = set(names)
    copies: dict[int, Goal] = {}

    def copy(goal: Goal) -> Goal:
        if goal.number not in copies:
            copies[goal.number] = replace(goal, options=[])
            copies[goal.number].options = [
                _with_subs(option, [replace(sub, goal=copy(sub.goal)) for sub in option.subs])
                for option in goal.options
                if option.takes <= kept
            ]
        return copies[goal.number]

    roots = [replace(root, goal=copy(root.goal), demanded_by=root.demanded_by & kept) for root in problem.roots]
    rows = []
    for row in problem.couplings.rows:
        coefficients = {
            name: weight
            for name, weight in row.coefficients.items()
            if name in kept or name in problem.couplings.variables
        }
        rows.append(LinearRow(coefficients, row.low, row.high))
    several = {name: [one for one in some if one in kept] for name, some in problem.couplings.several.items()}
    return replace(
        problem,
        views={name: view for name, view in problem.views.items() if name in kept},
        facts={name: facts for name, facts in problem.facts.items() if name in kept},
        roots=[root for root in roots if root.always or root.demanded_by],
        upkeep={place: parts for place, parts in problem.upkeep.items() if place[1] in kept},
        required=[(text, [name for name in some if name in kept]) for text, some in problem.required],
        couplings=Couplings(problem.couplings.variables, rows, several=several),
        growth=problem.growth.among(kept),
    )


def _with_subs(option: Option, subs: list[Sub]) -> Option:
    return replace(option, subs=tuple(subs))


def some_views(problem: Problem, most: int, seed: int) -> list[str] | None:
    """At most so many views, chosen at random among those choices that serve everything; None if that takes more."""
    chance = random.Random(seed)
    kept = list(problem.views)
    if len(kept) <= most:
        return kept
    chance.shuffle(kept)
    tail: list[str] = []
    possible = Possible(problem)
    # Halves first, then single views: most views can go, and each trial walks through the whole problem.
    size = max(1, len(kept) // 2)
    while len(kept) + len(tail) > most and kept:
        if len(tail) > most:
            return None  # without any of these, something is not served
        dropped, rest = kept[:size], kept[size:]
        if possible.is_served_by({*rest, *tail}):
            kept = rest
        elif size > 1:
            size //= 2
        else:
            tail.append(dropped[0])
            kept = rest
    return [*kept, *tail] if len(kept) + len(tail) <= most else None


class Possible:
    """Tells which choices serve everything, without their prices: goals as bits of the views that options take.

    Where patterns may be too many at one place, whether they can be arranged is asked of the designer itself.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.bits = {name: 1 << place for place, name in enumerate(problem.views)}
        self.required = [self._together(names) for _, names in problem.required]
        self.places: dict[int, int] = {}
        self.goals: list[list[tuple[int, list[int]]]] = []
        """The options of each goal, behind all that are below it: the views that they take, and the goals."""
        for root in problem.roots:
            self._add(root.goal)
        self.roots = [
            (None if root.always else self._together(root.demanded_by), self.places[root.goal.number])
            for root in problem.roots
        ]

    def _together(self, names: Iterable[str]) -> int:
        return sum({self.bits[name] for name in names})

    def _add(self, goal: Goal) -> int:
        if goal.number not in self.places:
            options = [
                (self._together(option.takes), [self._add(sub.goal) for sub in option.subs]) for option in goal.options
            ]
            # The fewer goals are below an option, the sooner it is told that one can be reached.
            options.sort(key=lambda option: len(option[1]))
            self.places[goal.number] = len(self.goals)
            self.goals.append(options)
        return self.places[goal.number]

    def is_served_by(self, names: set[str]) -> bool:
        """Whether a choice costs less than infinitely much."""
        chosen = self._together(names)
        lacking = ~chosen
        if not all(some & chosen for some in self.required):
            return False
        reached: list[bool] = []
        for options in self.goals:
            reached.append(
                any(not takes & lacking and all(reached[place] for place in below) for takes, below in options)
            )
        if not all(reached[place] for demanded, place in self.roots if demanded is None or demanded & chosen):
            return False
        if self.problem.crowds.places:
            return evaluate(self.problem, names).cost < INFEASIBLE
        return coupling_cost(self.problem.couplings, names) < INFEASIBLE


def cost_table(problem: Problem) -> Table:
    """The cost of every choice; infinite where something required is not there or a root has no plan."""
    names = list(problem.views)
    choices = numpy.arange(2 ** len(names))
    has = {name: (choices >> place & 1).astype(bool) for place, name in enumerate(names)}
    per_second = problem.costs.per_second
    total = numpy.zeros(len(choices))
    sizes = Sizes(problem, has, len(choices))
    for name in names:
        total += has[name] * (_fixed(problem, name) + sizes.kept_more(name))
    for _, some in problem.required:
        total[~_any(has, some, len(choices))] = INFEASIBLE
    total += _couplings(problem, has, len(choices))
    prices: dict[int, Table] = {}
    meeting = [root for root in problem.roots if root.kind == "pattern"] if problem.crowds.places else []
    for root in problem.roots:
        if root not in meeting:
            price = _price(problem, root.goal, has, sizes, prices) * root.rate * per_second
            total += price if root.always else numpy.where(_any(has, root.demanded_by, len(choices)), price, 0.0)
    if meeting:
        total += _arranged(problem, meeting, has, sizes)
    if problem.costs.transactional:
        total += _premiums(problem, has, sizes)
    return total


class Sizes:
    """By how much entries are larger under every choice, and what that costs: worked out for each size by itself."""

    def __init__(self, problem: Problem, has: dict[str, Table], many: int) -> None:
        self.problem = problem
        self.many = many
        self.larger: dict[Place, Table] = {}
        self._parted: dict[tuple[Place, ...], list[tuple[tuple[float, ...], Table]]] = {}
        for entity, homes in problem.growth.homes.items():
            elsewhere = numpy.zeros(many, dtype=bool)
            for name, at in homes:
                self.larger[name, at] = numpy.where(elsewhere, 0.0, self._added(entity, name, has))
                elsewhere = elsewhere | has[name]
            for name, whole in problem.growth.wholes.items():
                if whole == entity:
                    self.larger[name, ()] = self._added(entity, name, has)

    def _added(self, entity: str, place: str, has: dict[str, Table]) -> Table:
        """What all views of an entity but one add to its rows there: their keys, and each value once."""
        found = numpy.zeros(self.many)
        for one in self.problem.growth.adding:
            if one.entity != entity or place in one.held_by:
                continue
            value = numpy.zeros(self.many)
            for name, more in one.bytes.items():
                if name != place:
                    value = numpy.maximum(value, has[name] * more) if one.value else value + has[name] * more
            found += value
        return found

    def option_cost(self, option: Option) -> Table:
        found = numpy.full(self.many, option.cost.cost)
        if option.work is None or option.view is None:
            return found
        chains = {"": option.work.at, **{chain: tuple(chain.split(".")) for chain in option.work.along}}
        places = {chain: (option.view.name, at) for chain, at in chains.items()}
        places = {chain: at for chain, at in places.items() if at in self.larger and self.larger[at].any()}
        for sizes, there in self._together(tuple(places.values())):
            larger = dict(zip(places, sizes, strict=True))
            requests = option.work.requests * max(1.0, option.times)
            work = replace(option.work, requests=requests, larger=larger)
            found[there] = self.problem.costs.read(work).cost * min(1.0, option.times)
        return found

    def _together(self, places: tuple[Place, ...]) -> list[tuple[tuple[float, ...], Table]]:
        """By how much entries of some places are larger, all sizes that come together under some choice, and which
        choices these are. Many options read the same places."""
        if places and places not in self._parted:
            sizes, which = numpy.unique(numpy.stack([self.larger[at] for at in places]), axis=1, return_inverse=True)
            each = ((tuple(map(float, some)), which.ravel() == number) for number, some in enumerate(sizes.T))
            self._parted[places] = [(some, there) for some, there in each if any(some)]
        return self._parted.get(places, [])

    def kept_more(self, name: str) -> Table:
        """What storing and writing a view costs more, without transactions."""
        problem, found = self.problem, numpy.zeros(self.many)
        if name in problem.growth.wholes and (name, ()) in self.larger:
            found += problem.costs.keep_more(1.0) * self.larger[name, ()] * problem.facts[name].rows
        for (write, view), parts in problem.upkeep.items():
            if view == name and write in problem.rates:
                for part in parts:
                    found += self._touched_more(name, part) * problem.rates[write] * problem.costs.per_second
        return found

    def premium_more(self, name: str, parts: Sequence[Upkeep]) -> Table:
        """What transactions add to that, per call; as much again, where nothing else is said."""
        return sum((self._touched_more(name, part) for part in parts), numpy.zeros(self.many))

    def _touched_more(self, name: str, part: Upkeep) -> Table:
        found = numpy.zeros(self.many)
        table = self.larger.get((name, part.work.at))
        if table is not None and part.cost.cost:
            plain = self.problem.costs.touch(part.work).cost
            for size in numpy.unique(table):
                work = replace(part.work, entry_bytes=part.work.entry_bytes + float(size))
                found[table == size] = self.problem.costs.touch(work).cost - plain
        return found


def _any(has: dict[str, Table], names: Iterable[str], many: int) -> Table:
    found = numpy.zeros(many, dtype=bool)
    for name in names:
        found |= has[name]
    return found


def _fixed(problem: Problem, name: str) -> float:
    cost = problem.costs.keep(problem.views[name], problem.facts[name]) + problem.carrying[name]
    for (write, view), parts in problem.upkeep.items():
        if view == name and write in problem.rates:  # what cannot be served is not paid for
            cost += sum(part.cost.cost for part in parts) * problem.rates[write] * problem.costs.per_second
    return cost


def _price(problem: Problem, goal: Goal, has: dict[str, Table], sizes: Sizes, prices: dict[int, Table]) -> Table:
    """The price of one goal under every choice."""
    if goal.number in prices:
        found = prices[goal.number]
        assert found is not None, "a plan that needs itself"
        return found
    prices[goal.number] = None
    best = numpy.full(sizes.many, INFEASIBLE)
    for option in goal.options:
        cost = sizes.option_cost(option) + option.waits * problem.wait_cost
        for sub in option.subs:
            cost = cost + _price(problem, sub.goal, has, sizes, prices)
        for name in option.takes:
            cost = numpy.where(has[name], cost, INFEASIBLE)
        best = numpy.minimum(best, cost)
    prices[goal.number] = best
    return best


Plan = tuple[frozenset[str], Table, dict[str, float]]
"""The views that a plan takes, what it costs per call under every choice, and what it takes of the hottest place of
each view."""


def _plans(problem: Problem, goal: Goal, sizes: Sizes) -> list[Plan]:
    """Every plan of a goal, whatever views there are; of those that take the same views and read the same places, the
    cheapest."""
    found: dict[tuple[object, ...], Plan] = {}
    for option in goal.options:
        cost = sizes.option_cost(option) + option.waits * problem.wait_cost
        heat = {option.view.name: option.heat} if option.view is not None and option.heat else {}
        some: list[Plan] = [(option.takes, cost, heat)]
        for sub in option.subs:
            below = _plans(problem, sub.goal, sizes)
            some = [
                (
                    takes | more,
                    cost + further,
                    {name: heat.get(name, 0.0) + hot.get(name, 0.0) for name in {*heat, *hot}},
                )
                for takes, cost, heat in some
                for more, further, hot in below
            ]
        for plan in some:
            key = (plan[0], tuple(sorted(plan[2].items())))
            known = found.get(key, plan)
            found[key] = (plan[0], numpy.minimum(plan[1], known[1]), plan[2])
    return list(found.values())


def _arranged(problem: Problem, roots: Sequence[Root], has: dict[str, Table], sizes: Sizes) -> Table:
    """What patterns cost under every choice, if they are answered in the cheapest of all combinations of their plans in
    which no place is read too often."""
    per_second = problem.costs.per_second
    limits = [(place.views, place.most + 1e-5) for place in problem.crowds.places]
    best = numpy.full(sizes.many, INFEASIBLE)

    def go_on(number: int, cost: Table, sums: list[float]) -> None:
        if number == len(roots):
            numpy.minimum(best, cost, out=best)
            return
        for takes, price, heat in plans[number]:
            more = [
                one + sum(heat.get(name, 0.0) for name in views) for one, (views, _) in zip(sums, limits, strict=True)
            ]
            if any(one > most for one, (_, most) in zip(more, limits, strict=True)):
                continue
            here = cost + price * roots[number].rate * per_second
            for name in takes:
                here = numpy.where(has[name], here, INFEASIBLE)
            if (here < best).any():
                go_on(number + 1, here, more)

    plans = [sorted(_plans(problem, root.goal, sizes), key=lambda plan: float(plan[1].min())) for root in roots]
    go_on(0, numpy.zeros(sizes.many), [0.0] * len(limits))
    return best


def least_excess(problem: Problem) -> float:
    """By how much places are read too often, all together, where they are so least: of all combinations of plans under
    choices that are possible otherwise."""
    possible = cost_table(problem.crowded_by(NO_CROWDS)) < INFEASIBLE
    choices = numpy.arange(len(possible))
    has = {name: (choices >> place & 1).astype(bool) for place, name in enumerate(problem.views)}
    places = problem.crowds.places
    sizes = Sizes(problem, has, len(possible))
    plans = [_plans(problem, root.goal, sizes) for root in problem.roots if root.kind == "pattern"]
    best = INFEASIBLE

    def go_on(number: int, left: Table, sums: list[float]) -> None:
        nonlocal best
        excess = sum(max(0.0, one - place.most) for one, place in zip(sums, places, strict=True))
        if excess >= best - 1e-9 or not left.any():
            return
        if number == len(plans):
            best = excess
            return
        for takes, _, heat in plans[number]:
            there = left
            for name in takes:
                there = there & has[name]
            more = [
                one + sum(heat.get(name, 0.0) for name in place.views) for one, place in zip(sums, places, strict=True)
            ]
            go_on(number + 1, there, more)

    go_on(0, possible, [0.0] * len(places))
    return best


def _couplings(problem: Problem, has: dict[str, Table], many: int) -> Table:
    """The engine's own variables are counts: each is the largest of the numbers of views that it counts, or of sums in
    which others stand that rows before have counted."""
    variables = problem.couplings.variables
    values = {name: numpy.zeros(many) for name in variables}
    for name, some in problem.couplings.several.items():
        values[name] = (sum((has[one].astype(int) for one in some), numpy.zeros(many)) > 1).astype(float)
    total = numpy.zeros(many)
    for row in problem.couplings.rows:
        counted = [name for name in row.coefficients if name in variables]
        views = {name: weight for name, weight in row.coefficients.items() if name not in variables}
        if views and not counted:
            amount = sum((has[name] * weight for name, weight in views.items()), numpy.zeros(many))
            total[(amount < row.low - MET) | (amount > row.high + MET)] = INFEASIBLE
        elif any(row.coefficients[name] < 0 for name in counted):
            (by,) = (name for name in counted if row.coefficients[name] < 0)
            assert row.coefficients[by] == -1.0
            count = sum((has[name] * weight for name, weight in views.items()), numpy.zeros(many)) - row.high
            for name in counted:
                count += values[name] * row.coefficients[name] if name != by else 0.0
            values[by] = numpy.maximum(values[by], count)
    known = {**has, **values}
    for row in problem.couplings.rows:
        if all(row.coefficients[name] > 0 for name in row.coefficients if name in variables):
            value = sum((known[name] * weight for name, weight in row.coefficients.items()), numpy.zeros(many))
            total[(value < row.low - MET) | (value > row.high + MET)] = INFEASIBLE
    for name, (cost, upper, _) in variables.items():
        total += cost * values[name]
        total[values[name] > upper] = INFEASIBLE
    return total


def _premiums(problem: Problem, has: dict[str, Table], sizes: Sizes) -> Table:
    """Entries that we keep cost a premium in a transaction: where a call touches several of them, or is one of those
    that the model makes together with others.

    What only some calls touch comes together with what each call touches, if there is such a thing; otherwise it is
    taken for touched by each.
    """
    many = sizes.many
    total = numpy.zeros(many)
    for write, rate in problem.rates.items():
        calls = problem.calls[write]
        parts = [
            (view, part.entries / calls.rows, part.work.moves / calls.rows)
            for (name, view), some in problem.upkeep.items()
            if name == write
            for part in some
            if part.entries
        ]
        # A look at what others have begun to copy is part of the write, as one more entry would be.
        parts += [
            (view, min(1.0, part.looks / calls.rows), 0.0)
            for (name, view), some in problem.upkeep.items()
            if name == write
            for part in some
            if part.looks
        ]
        always = {view for view, entries, _ in parts if entries >= 1.0 - 1e-9}
        if not any(set(names) <= always for _, names in problem.required):
            parts = [(view, max(1.0, entries), float(moves > 0)) for view, entries, moves in parts]
        by_view: dict[str, list[tuple[float, float]]] = {}
        for view, entries, moves in parts:
            by_view.setdefault(view, []).append((min(1.0, entries), 1.0 if entries > 1.0 + 1e-9 else min(1.0, moves)))
        for view, touches in by_view.items():
            first, *rest = sorted((share for share, _ in touches), reverse=True)
            with_another = numpy.full(many, max([*rest, *(several for _, several in touches)]))
            for other, others in by_view.items():
                if other != view:
                    both = min(first, max(share for share, _ in others))
                    with_another = numpy.maximum(with_another, has[other] * both)
            apart = 1.0 - calls.together
            share = numpy.ones(many) if calls.several_rows else calls.together + apart * with_another / first
            # Rows that are only checked, once for all that copy them, are priced by a root of their own, as part of a
            # transaction.
            some = problem.upkeep[write, view]
            paid = [part for part in some if part.entries and part.cost.cost and not part.carries]
            premium = sum(problem.costs.premium(part.work, part.cost).cost for part in paid)
            premium = premium + sizes.premium_more(view, paid)
            total += has[view] * share * premium * rate * problem.costs.per_second
    return total


def chosen_by(problem: Problem, choice: int) -> set[str]:
    """The views of a choice by its number."""
    return {name for place, name in enumerate(problem.views) if choice >> place & 1}
