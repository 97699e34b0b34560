"""Places that patterns may read too often together, though each of them alone does not.

What a plan costs does not depend on other plans, but whether it is possible does: the heat of all searches of a place
is at most what the place takes. That is a row of the program over options, which are whole numbers there. A choice of
views is priced under the same limits: each pattern has a few ways that differ in where they read, and the cheapest
combination within all limits is searched for by branch and bound, for those patterns alone that meet somewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from keyplan.design.options.goals import Goal, Option, goals_below

ROOM = 1e-5
"""By so much sums may be above a limit, so that whatever the solver takes for possible is so here."""


@dataclass(frozen=True)
class Crowd:
    """A place, and what all searches there may take of it together."""

    name: str
    """The view that the place is known by."""
    views: frozenset[str]
    """The views whose searches come to it."""
    most: float = 1.0
    """More than what a place takes only where nothing else serves everything."""


@dataclass(frozen=True)
class Crowds:
    """The places of a problem at which there may be a crowd, and the goals of patterns that may come to them."""

    places: tuple[Crowd, ...] = ()
    goals: frozenset[int] = frozenset()

    @property
    def views(self) -> frozenset[str]:
        return frozenset(name for place in self.places for name in place.views)

    def heats(self, option: Option) -> dict[int, float]:
        """What an option itself takes of each place, by number."""
        if option.view is None or not option.heat:
            return {}
        return {n: option.heat for n, place in enumerate(self.places) if option.view.name in place.views}


NO_CROWDS = Crowds()


def crowds_at(tops: Iterable[Goal], places: Iterable[tuple[str, frozenset[str]]]) -> Crowds:
    """The places that the goals at the top, one per pattern, may read too often if all of them come there."""
    each = list(tops)
    sums: dict[str, float] = {}
    for top in each:
        for goal in goals_below([top]):
            most: dict[str, float] = {}
            for option in goal.options:
                if option.heat and option.view is not None:
                    name = option.view.name
                    most[name] = max(most.get(name, 0.0), option.heat)
            for name, heat in most.items():
                sums[name] = sums.get(name, 0.0) + heat
    if not sums:
        return NO_CROWDS
    found = [Crowd(name, views) for name, views in places if sum(sums.get(one, 0.0) for one in views) > 1.0 + ROOM]
    crowds = Crowds(tuple(found))
    hot: dict[int, bool] = {}
    for top in each:
        _is_hot(top, crowds, hot)
    return Crowds(crowds.places, frozenset(number for number, is_hot in hot.items() if is_hot))


def _is_hot(goal: Goal, crowds: Crowds, known: dict[int, bool]) -> bool:
    """Whether a goal, or one below it, may come to a crowd."""
    if goal.number not in known:
        known[goal.number] = False
        below = [_is_hot(sub.goal, crowds, known) for option in goal.options for sub in option.subs]
        known[goal.number] = any(below) or any(crowds.heats(option) for option in goal.options)
    return known[goal.number]


class Way(NamedTuple):
    """One way to reach a goal: its price, what it takes of each place, and the options that it consists of."""

    price: float
    heats: Mapping[int, float]
    options: Mapping[int, Option]


@dataclass
class Arrangement:
    """Finds the cheapest ways of several goals that leave every place within its limit."""

    crowds: Crowds
    chosen: Set[str]
    best: Mapping[int, float]
    """The price of each goal by itself."""
    cost: Callable[[Option], float]
    """What an option costs by itself."""
    _ways: dict[int, list[Way]] = field(default_factory=dict)

    def of(self, tops: Sequence[tuple[Goal, float]]) -> list[Way] | None:
        """A way for each goal, at so much per unit of its price; None if there is no such arrangement."""
        ways = [self._of(goal) for goal, _ in tops]
        if not all(ways):
            return None
        found = [some[0] for some in ways]
        if self._is_within(found):
            return found
        for members in self._meeting(ways):
            best = self._cheapest([ways[n] for n in members], [tops[n][1] for n in members])
            if best is None:
                return None
            for number, way in zip(members, best, strict=True):
                found[number] = way
        return found

    def _of(self, goal: Goal) -> list[Way]:
        """The ways to a goal of which none is as cheap as another and as cool everywhere, the cheapest first."""
        if goal.number not in self.crowds.goals:
            price = self.best[goal.number]
            return [Way(price, {}, {})] if price < inf else []
        if goal.number not in self._ways:
            self._ways[goal.number] = []
            found = [
                way._replace(options={**way.options, goal.number: option})
                for option in goal.options
                if option.takes <= self.chosen
                for way in self._through(option)
            ]
            self._ways[goal.number] = _undominated(found)
        return self._ways[goal.number]

    def _through(self, option: Option) -> list[Way]:
        found = [Way(self.cost(option), self.crowds.heats(option), {})]
        for sub in option.subs:
            both = (_both(way, below) for way in found for below in self._of(sub.goal))
            found = _undominated(way for way in both if way is not None)
        return found

    def _is_within(self, ways: Iterable[Way]) -> bool:
        sums: dict[int, float] = {}
        for way in ways:
            for place, heat in way.heats.items():
                sums[place] = sums.get(place, 0.0) + heat
        return all(heat <= self.crowds.places[place].most + ROOM for place, heat in sums.items())

    def _meeting(self, ways: Sequence[Sequence[Way]]) -> list[list[int]]:
        """The numbers of those that have to be looked at together: they may meet where that is too much."""
        most: dict[int, float] = {}
        comers: dict[int, list[int]] = {}
        for number, some in enumerate(ways):
            for place in {place for way in some for place in way.heats}:
                most[place] = most.get(place, 0.0) + max(way.heats.get(place, 0.0) for way in some)
                comers.setdefault(place, []).append(number)
        groups: list[set[int]] = []
        for place, numbers in comers.items():
            if most[place] > self.crowds.places[place].most + ROOM:
                mine = set(numbers)
                apart = [group for group in groups if group.isdisjoint(mine)]
                groups = [*apart, mine.union(*(group for group in groups if not group.isdisjoint(mine)))]
        return [sorted(group) for group in groups]

    def _cheapest(self, ways: Sequence[Sequence[Way]], weights: Sequence[float]) -> list[Way] | None:
        """The cheapest combination within the limits, by depth first; the hottest come first and have the choice."""
        heat = [max(sum(way.heats.values()) for way in some) for some in ways]
        order = sorted(range(len(ways)), key=lambda number: (-heat[number], number))
        least = [0.0]
        for number in reversed(order):
            least.append(least[-1] + ways[number][0].price * weights[number])
        least.reverse()  # of all from a position on
        best: tuple[float, list[Way]] | None = None
        taken: dict[int, float] = {}
        picked: list[Way] = []

        def place(at: int, cost: float) -> None:
            nonlocal best
            if best is not None and cost + least[at] >= best[0] - 1e-12 * abs(best[0]):
                return
            if at == len(order):
                best = cost, list(picked)
                return
            number = order[at]
            for way in ways[number]:
                if all(
                    taken.get(one, 0.0) + heat <= self.crowds.places[one].most + ROOM for one, heat in way.heats.items()
                ):
                    for one, heat in way.heats.items():
                        taken[one] = taken.get(one, 0.0) + heat
                    picked.append(way)
                    place(at + 1, cost + way.price * weights[number])
                    picked.pop()
                    for one, heat in way.heats.items():
                        taken[one] -= heat

        place(0, 0.0)
        if best is None:
            return None
        found = dict(zip(order, best[1], strict=True))
        return [found[number] for number in range(len(ways))]


def _both(one: Way, other: Way) -> Way | None:
    """Both ways together; None if they come to the same goal, and reach it by different options."""
    if any(one.options.get(goal, option) is not option for goal, option in other.options.items()):
        return None
    heats = dict(one.heats)
    for place, heat in other.heats.items():
        heats[place] = heats.get(place, 0.0) + heat
    return Way(one.price + other.price, heats, {**one.options, **other.options})


def _undominated(ways: Iterable[Way]) -> list[Way]:
    found: list[Way] = []
    for way in sorted(ways, key=lambda way: way.price):
        if not any(all(way.heats.get(place, 0.0) >= heat for place, heat in other.heats.items()) for other in found):
            found.append(way)
    return found
