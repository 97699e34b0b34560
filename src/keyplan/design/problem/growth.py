"""Entries that are larger because of other views: homes have the keys of what the engine keeps over them.

What that costs depends on several views at once. `evaluate` prices it as it is; the program has rows for it that bound
it from below, as far as an answer does not meet them (`program/larger.py`). All of it rests on one thing: a larger
entry never costs less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace

from keyplan.design.candidates.homes import Home, Homes
from keyplan.design.options.goals import Option
from keyplan.design.options.ways import timed
from keyplan.design.upkeep.effects import Upkeep
from keyplan.engines.work import Cost, CostModel, TouchWork, ViewFacts
from keyplan.plan.view import Embed, View

LITTLE = 0.5
"""Bytes per row: what adds less is not looked at."""

Chain = tuple[str, ...]
Place = tuple[str, Chain]
"""A view, and the roles that lead to rows inside it."""
Value = tuple[str, str]
"""An entity, and a path from it."""


@dataclass(frozen=True)
class Adding:
    """Views that make the rows of an entity larger where they live: those of one key, each by its own, or all that want
    the same value there."""

    entity: str
    bytes: Mapping[str, float]
    """Per view: by how much, on average over all rows."""
    value: str = ""
    """The path of the value, which is there once for all of them."""
    held_by: Set[str] = frozenset()
    """Views that have it anyway."""

    @property
    def least(self) -> float:
        return min(self.bytes.values())


@dataclass(frozen=True)
class Growth:
    """What may become larger in a problem, and by what."""

    adding: tuple[Adding, ...] = ()
    homes: Mapping[str, tuple[Place, ...]] = field(default_factory=dict)
    """Per entity: where its rows may live, that first which is the home if there are several."""
    wholes: Mapping[str, str] = field(default_factory=dict)
    """Views that have all that homes have, and the entity: they are as much larger, but for what they add."""
    entities: Mapping[Place, str] = field(init=False, repr=False)
    """Per place: the entity whose rows are larger there, if others make them so."""
    growing: Set[str] = field(init=False, repr=False)
    """The views that have such places."""
    added: Mapping[str, Mapping[str, float]] = field(init=False, repr=False)
    """What each view adds, by the path of the value, or none for its key."""
    _costs: dict[tuple[int, tuple[tuple[str, float], ...]], tuple[Option, Cost]] = field(
        default_factory=dict, repr=False
    )
    """By the address of an option, which therefore stays."""
    _read: dict[int, tuple[Option, tuple[tuple[str, Place], ...]]] = field(default_factory=dict, repr=False)
    """By the same: those of the places that it reads which others may make larger."""

    def __post_init__(self) -> None:
        places = {place: entity for entity, homes in self.homes.items() for place in homes}
        places |= {(name, ()): entity for name, entity in self.wholes.items()}
        object.__setattr__(self, "entities", places)
        object.__setattr__(self, "growing", {name for name, _ in places})
        added: dict[str, dict[str, float]] = {}
        for one in self.adding:
            for name, many in one.bytes.items():
                added.setdefault(name, {})[one.value] = many
        object.__setattr__(self, "added", added)

    def under(self, chosen: Set[str]) -> Grown:
        """What a choice of views makes of it."""
        homes = (next((place for place in some if place[0] in chosen), None) for some in self.homes.values())
        wholes = ((name, ()) for name in self.wholes if name in chosen)
        sizes = {place: self.larger_at(place, chosen) for place in (*homes, *wholes) if place is not None}
        return Grown(self, {place: size for place, size in sizes.items() if size})

    def larger_at(self, place: Place, chosen: Set[str]) -> float:
        """By how much entries are larger there, if rows live there, beside a choice of views."""
        entity, found = self.entities.get(place), 0.0
        for one in self.adding:
            if one.entity == entity and place[0] not in one.held_by:
                each = [many for name, many in one.bytes.items() if name in chosen and name != place[0]]
                found += max(each, default=0.0) if one.value else sum(each)
        return found

    def among(self, names: Set[str]) -> Growth:
        """The same with these views alone."""
        adding = (
            replace(one, bytes={name: many for name, many in one.bytes.items() if name in names}) for one in self.adding
        )
        return Growth(
            tuple(one for one in adding if one.bytes),
            {entity: tuple(place for place in some if place[0] in names) for entity, some in self.homes.items()},
            {name: entity for name, entity in self.wholes.items() if name in names},
        )

    def least_at(self, place: Place, some: Set[int | str]) -> float:
        """By how much they are so at least beside some views, or beside one view at least of each of some that are
        adding, given by number."""
        numbers = {one for one in some if isinstance(one, int)}
        if not numbers:
            return self.larger_at(place, {str(name) for name in some})
        these = (self.adding[number] for number in numbers)
        able = (one for one in these if one.entity == self.entities.get(place) and place[0] not in one.held_by)
        return sum(one.least for one in able if place[0] not in one.bytes)

    def before(self, place: Place) -> list[str]:
        """The views where the rows live rather than in a place, if one of them is chosen."""
        if place[0] in self.wholes:
            return []
        homes = self.homes.get(self.entities.get(place, ""), ())
        return [name for name, _ in homes[: homes.index(place)] if name != place[0]] if place in homes else []

    def places_of(self, option: Option) -> Iterator[tuple[str, Place]]:
        """The places that an option reads, each under the name that its work has for it."""
        if option.work is not None and option.view is not None:
            yield "", (option.view.name, option.work.at)
            for chain in option.work.along:
                yield chain, (option.view.name, tuple(chain.split(".")))

    def may_grow(self, option: Option) -> tuple[tuple[str, Place], ...]:
        """Those of the places of an option that others may make larger: for most options none. It is asked again for
        every choice that is priced."""
        found = self._read.get(id(option))
        if found is None:
            places = tuple((name, at) for name, at in self.places_of(option) if at in self.entities)
            found = self._read[id(option)] = option, places
        return found[1]

    def grown_cost(self, costs: CostModel, option: Option, larger: Mapping[str, float]) -> Cost:
        """What an option costs where entries are larger by so much, by the names that its work has for them."""
        assert option.work is not None
        key = id(option), tuple(larger.items())
        if key not in self._costs:
            cost = timed(costs, replace(option.work, larger=larger), option.times).times(option.times)
            # A few bytes more are not seen in a p99, which has been weighed without them.
            self._costs[key] = option, replace(cost, p99_ms=option.cost.p99_ms)
        return self._costs[key][1]


NO_GROWTH = Growth()


@dataclass(frozen=True)
class Grown:
    """By how many bytes the entries of each place are larger under one choice of views."""

    growth: Growth
    places: Mapping[Place, float]

    def cost(self, costs: CostModel, option: Option) -> Cost:
        """What an option costs by itself."""
        if not self.places or option.work is None:
            return option.cost
        larger = {name: self.places[at] for name, at in self.growth.may_grow(option) if at in self.places}
        return self.growth.grown_cost(costs, option, larger) if larger else option.cost

    def option(self, costs: CostModel, option: Option) -> Option:
        """The option with what it costs and reads."""
        cost = self.cost(costs, option)
        if cost is option.cost:
            return option
        more = 0.0
        for chain, at in self.growth.places_of(option):
            assert option.work is not None
            each = option.work.facts.embeds[chain].per_parent if chain else 1.0
            if chain and option.work.along_first is not None:
                each = min(each, option.work.along_first)
            more += self.places.get(at, 0.0) * option.entries * each
        return replace(option, cost=cost, bytes=option.bytes + more)

    def upkeep(self, costs: CostModel, name: str, part: Upkeep) -> Cost:
        """What a part of a write costs."""
        larger = self.places.get((name, part.work.at), 0.0)
        return larger_upkeep(costs, part, larger)

    def work(self, name: str, work: TouchWork) -> TouchWork:
        """The work with the size that entries have."""
        larger = self.places.get((name, work.at), 0.0)
        return replace(work, entry_bytes=work.entry_bytes + larger) if larger else work

    def stored(self, costs: CostModel, name: str, facts: ViewFacts) -> float:
        """What storing a view costs more than by itself. What homes have for others is paid for by these."""
        larger = self.places.get((name, ()), 0.0) if name in self.growth.wholes else 0.0
        return costs.keep_more(larger * facts.rows) if larger else 0.0


def larger_upkeep(costs: CostModel, part: Upkeep, larger: float) -> Cost:
    """What a part of a write costs where each entry is larger by so much."""
    if not larger or not part.cost.cost:
        return part.cost
    before = costs.touch(part.work)
    after = costs.touch(replace(part.work, entry_bytes=part.work.entry_bytes + larger))
    if after.cost == before.cost:
        return part.cost
    units = {
        unit: many + after.units.get(unit, 0.0) - before.units.get(unit, 0.0) for unit, many in part.cost.units.items()
    }
    return replace(part.cost, cost=part.cost.cost + after.cost - before.cost, units=units)


def growth_of(homes: Homes, costs: CostModel, facts: Mapping[str, ViewFacts], rows: Mapping[str, float]) -> Growth:
    """What may become larger; `rows` are those of each entity."""
    keys: dict[tuple[object, ...], dict[str, float]] = {}
    values: dict[Value, dict[str, float]] = {}
    for view in homes.views:
        each = costs.adds(view, facts[view.name]) / max(1.0, rows[view.entity])
        if each >= LITTLE:
            key = view.entity, view.kind, view.partition, view.sort, view.where
            keys.setdefault(key, {})[view.name] = each
        for path, size in facts[view.name].carried.items() if costs.carries else ():
            values.setdefault((view.entity, path), {})[view.name] = size
    adding = [Adding(str(key[0]), names) for key, names in keys.items()]
    held = _holding(homes.views, values)
    adding += [Adding(value[0], names, value[1], held[value]) for value, names in values.items()]
    if not adding:
        return NO_GROWTH
    grows = {one.entity for one in adding}
    wholes = {view.name: view.entity for view in homes.views if view.entity in grows and costs.holds_added(view)}
    return Growth(tuple(adding), {entity: _places(homes, entity) for entity in grows}, wholes)


def _holding(views: Iterable[View], values: Iterable[Value]) -> dict[Value, set[str]]:
    """The views that have each of these values, in their entries or inside these."""
    found: dict[Value, set[str]] = {value: set() for value in values}
    for view in views if found else ():
        entries: tuple[View | Embed, ...] = (view, *view.embeds)
        for there in entries:
            for path in there.holds:
                if (there.entity, path) in found:
                    found[there.entity, path].add(view.name)
    return found


def _places(homes: Homes, entity: str) -> tuple[Place, ...]:
    """Where rows of an entity may live: under its own key first, where there is a choice."""
    key = set(homes.model.entities[entity].key)

    def order(home: Home) -> tuple[bool, int, Place]:
        is_under_key = home.embed is None and {part.path for part in home.view.parts} == key
        return not is_under_key, int(home.view.name[1:]), home.base

    return tuple(home.base for home in sorted(homes.of(entity), key=order))
