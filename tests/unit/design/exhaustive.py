"""Prices all 2^n choices of views of a problem at once, written apart from the designer's own dynamic program.

A table has one number per choice: choice number c contains the view in place i if bit i of c is set. Problems with
more views than a table can hold are restricted to some of them first.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy

from keyplan.design.options.goals import Goal, Option, Sub
from keyplan.design.problem.definition import INFEASIBLE, Problem, evaluate
from keyplan.engines.work import Couplings, LinearRow

Table = Any
"""A numpy array with a number per choice."""


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
    return replace(
        problem,
        views={name: view for name, view in problem.views.items() if name in kept},
        facts={name: facts for name, facts in problem.facts.items() if name in kept},
        roots=[root for root in roots if root.always or root.demanded_by],
        upkeep={place: parts for place, parts in problem.upkeep.items() if place[1] in kept},
        required=[(text, [name for name in some if name in kept]) for text, some in problem.required],
        couplings=Couplings(problem.couplings.variables, rows),
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
    # Halves first, then single views: most views can go, and each trial prices the whole problem.
    size = max(1, len(kept) // 2)
    while len(kept) + len(tail) > most and kept:
        dropped, rest = kept[:size], kept[size:]
        if evaluate(problem, {*rest, *tail}).cost < INFEASIBLE:
            kept = rest
        elif size > 1:
            size //= 2
        else:
            tail.append(dropped[0])
            kept = rest
    return [*kept, *tail] if len(kept) + len(tail) <= most else None


def cost_table(problem: Problem) -> Table:
    """The cost of every choice; infinite where something required is not there or a root has no plan."""
    names = list(problem.views)
    choices = numpy.arange(2 ** len(names))
    has = {name: (choices >> place & 1).astype(bool) for place, name in enumerate(names)}
    per_second = problem.costs.per_second
    total = numpy.zeros(len(choices))
    for name in names:
        total += has[name] * _fixed(problem, name)
    for _, some in problem.required:
        total[~_any(has, some, len(choices))] = INFEASIBLE
    total += _couplings(problem, has, len(choices))
    prices: dict[int, Table] = {}
    for root in problem.roots:
        price = _price(problem, root.goal, has, prices, len(choices)) * root.rate * per_second
        total += price if root.always else numpy.where(_any(has, root.demanded_by, len(choices)), price, 0.0)
    if problem.costs.transactional:
        total += _premiums(problem, has, len(choices))
    return total


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


def _price(problem: Problem, goal: Goal, has: dict[str, Table], prices: dict[int, Table], many: int) -> Table:
    """The price of one goal under every choice."""
    if goal.number in prices:
        found = prices[goal.number]
        assert found is not None, "a plan that needs itself"
        return found
    prices[goal.number] = None
    best = numpy.full(many, INFEASIBLE)
    for option in goal.options:
        cost = numpy.full(many, option.cost.cost + option.waits * problem.wait_cost)
        for sub in option.subs:
            cost = cost + _price(problem, sub.goal, has, prices, many)
        for name in option.takes:
            cost = numpy.where(has[name], cost, INFEASIBLE)
        best = numpy.minimum(best, cost)
    prices[goal.number] = best
    return best


def _couplings(problem: Problem, has: dict[str, Table], many: int) -> Table:
    """The engine's own variables are counts: each is the largest of the numbers of views that it counts, or of sums in
    which others stand that rows before have counted."""
    variables = problem.couplings.variables
    values = {name: numpy.zeros(many) for name in variables}
    total = numpy.zeros(many)
    for row in problem.couplings.rows:
        counted = [name for name in row.coefficients if name in variables]
        views = {name: weight for name, weight in row.coefficients.items() if name not in variables}
        if views and not counted:
            amount = sum((has[name] * weight for name, weight in views.items()), numpy.zeros(many))
            total[(amount < row.low - 1e-9) | (amount > row.high + 1e-9)] = INFEASIBLE
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
            total[(value < row.low - 1e-9) | (value > row.high + 1e-9)] = INFEASIBLE
    for name, (cost, upper, _) in variables.items():
        total += cost * values[name]
        total[values[name] > upper] = INFEASIBLE
    return total


def _premiums(problem: Problem, has: dict[str, Table], many: int) -> Table:
    """Entries that we keep cost a premium in a transaction: where a call touches several of them, or is one of those
    that the model makes together with others.

    What only some calls touch comes together with what each call touches, if there is such a thing; otherwise it is
    taken for touched by each.
    """
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
            paid = [part for part in problem.upkeep[write, view] if part.entries and not part.carries]
            premium = sum(problem.costs.premium(part.work, part.cost).cost for part in paid)
            total += has[view] * share * premium * rate * problem.costs.per_second
    return total


def chosen_by(problem: Problem, choice: int) -> set[str]:
    """The views of a choice by its number."""
    return {name for place, name in enumerate(problem.views) if choice >> place & 1}
