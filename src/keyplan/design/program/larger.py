"""What it costs that entries are larger beside other views, as rows of the program.

Several views at once make an entry larger, and what that costs may be any function that does not fall: no single row
says all of it. But for each set of them there is one that is true: where all of the set are chosen, whatever reads or
keeps the entries that they make larger costs at least so much more. Of these rows only those are made that an answer
does not meet. At a choice of views, the row of all that it has says just what `evaluate` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from keyplan.design.options.goals import Option
from keyplan.design.problem.definition import Problem
from keyplan.design.problem.growth import Grown, Place

Some = int | str
"""A view, or the number of what is adding: one at least of the views with the same key."""
Row = dict[int, float]
"""Coefficients by variable; the lower bound stands apart."""
VIOLATED = 2e-6
"""Of what is read or kept by itself: less is met."""
USED = 1e-6
"""Values up to this are none."""


@dataclass(frozen=True)
class Kept:
    """A view that is stored and written; or only what transactions add to what one write does there."""

    view: str
    write: str | None = None


Member = Option | Kept


class Used(NamedTuple):
    """What is used, and where that reads or keeps what others may make larger."""

    member: Member
    column: int
    """Its variable; options of views that are alike have one."""
    view: int
    """The variable of its view."""
    places: tuple[tuple[Place, tuple[int, ...]], ...]
    """Each with the views where the rows live rather than there, if one of them is chosen."""


@dataclass(frozen=True)
class Reader:
    """What costs more where entries are larger: the options of a goal, or a view by itself."""

    column: int
    """The variable that says how much more, in `unit`."""
    unit: float
    members: Sequence[Used]
    entities: frozenset[str]
    """Whose rows are read."""
    rate: float = 1.0
    times: float = 1.0
    """How often a plan may come to the goal."""

    @cached_property
    def alike(self) -> Mapping[int, Sequence[int]]:
        """The views of each variable that several have in common."""
        views = {
            column: list(dict.fromkeys(used.view for used in some)) for column, some in _by_column(self.members).items()
        }
        return {column: some for column, some in views.items() if len(some) > 1}


@dataclass
class LargerEntries:
    """All that may become larger in a program."""

    problem: Problem
    views: Mapping[str, int]
    """Their variables."""
    sums: list[int] = field(default_factory=list)
    """Per number of what is adding: the variable that is one where one of its views is chosen."""
    readers: list[Reader] = field(default_factory=list)
    _read_by: dict[int, list[int]] = field(default_factory=dict)
    """Per variable of a member: the numbers of its readers."""
    _before: dict[Place, tuple[int, ...]] = field(default_factory=dict)
    _larger: dict[tuple[Place, frozenset[Some]], float] = field(default_factory=dict)
    _known: dict[tuple[int | Kept, tuple[Place, ...], frozenset[Some]], float] = field(default_factory=dict)

    def used(self, member: Member, column: int) -> Used | None:
        """A member with its variable; None if nothing makes larger what it reads or keeps."""
        places = list(places_of(self.problem, member))
        if not places:
            return None
        for place in places:
            if place not in self._before:
                self._before[place] = tuple(self.views[name] for name in self.problem.growth.before(place))
        known = tuple((place, self._before[place]) for place in places)
        return Used(member, column, self.views[places[0][0]], known)

    def add(self, reader: Reader) -> None:
        for column in {used.column: None for used in reader.members}:
            self._read_by.setdefault(column, []).append(len(self.readers))
        self.readers.append(reader)

    def violated(self, values: Sequence[float]) -> Iterator[tuple[Row, float]]:
        """The rows that an answer does not meet, each with its lower bound."""
        adding = self.problem.growth.adding
        each: dict[Some, float] = {name: values[self.views[name]] for one in adding for name in one.bytes}
        shares: dict[Some, float] = {n: max(each[name] for name in one.bytes) for n, one in enumerate(adding)}
        there = sorted((one for one, share in shares.items() if share > USED), key=lambda one: -shares[one])
        shares |= each
        used = [number for column, some in self._read_by.items() if values[column] > USED for number in some]
        known: dict[frozenset[str], list[frozenset[Some]]] = {}
        for reader in (self.readers[number] for number in sorted(set(used))) if there else ():
            if reader.entities not in known:
                mine = [number for number in there if adding[int(number)].entity in reader.entities]
                sets = known[reader.entities] = [frozenset(mine[:many]) for many in range(1, len(mine) + 1)]
                # Beside several views with one key, each of them adds its own.
                names = [name for number in mine for name in adding[int(number)].bytes if each[name] > 0.5]
                sets += [frozenset(names)] if names else []
            living = [one for used in reader.members if (one := _living(used, values)).places]
            read = _by_column(one for one in living if min(values[one.column], values[one.view]) > USED)
            if not read:
                continue
            elsewhere = sum(values[column] for column in _before(living))
            most, row = values[reader.column] + VIOLATED, None
            for some in known[reader.entities]:
                levels = {column: self._level(reader, members, some, values) for column, members in read.items()}
                height = max(level for level, _ in levels.values())
                least = sum(
                    level * (values[column] - reader.times * sum(values[view] for view in less))
                    for column, (level, less) in levels.items()
                )
                least -= (elsewhere + sum(1.0 - shares[one] for one in some)) * height * reader.times
                if least > most:
                    most, row = least, (some, height)
            if row is not None:
                yield self._row(reader, living, values, *row)

    def _row(
        self, reader: Reader, living: Sequence[Used], values: Sequence[float], some: frozenset[Some], height: float
    ) -> tuple[Row, float]:
        """The row of a set; of what is not used it asks no more than of what is."""
        most = height * reader.times
        row = {reader.column: 1.0}

        def add(column: int, weight: float) -> None:
            row[column] = row.get(column, 0.0) + weight

        for column, members in _by_column(living).items():
            level, less = self._level(reader, members, some, values)
            if level:
                add(column, -min(height, level))
                for view in less:
                    add(view, min(height, level) * reader.times)
        for column in sorted(self.sums[one] if isinstance(one, int) else self.views[one] for one in some):
            add(column, -most)
        for column in _before(living):
            add(column, most)
        return row, -most * len(some)

    def _level(
        self, reader: Reader, members: Sequence[Used], some: frozenset[Some], values: Sequence[float]
    ) -> tuple[float, list[int]]:
        """What a variable costs more beside a set, in the reader's unit, if none of some views gives it that cost less:
        of all that may be said so, what says most of an answer. The members are those of its own that live there."""
        rate = reader.rate / reader.unit
        more: dict[int, float] = {}
        for used in members:
            each = self._more(used.member, tuple(place for place, _ in used.places), some) * rate
            more[used.view] = min(each, more.get(used.view, each))
        column = members[0].column
        if column not in reader.alike:
            return max(more.values()), []
        best, told, without = -USED, 0.0, []
        for level in sorted(set(more.values()) - {0.0}):
            less = [view for view in reader.alike[column] if more.get(view, 0.0) < level]
            says = level * (values[column] - reader.times * sum(values[view] for view in less))
            if says > best:
                best, told, without = says, level, less
        return told, without

    def _more(self, member: Member, places: tuple[Place, ...], some: frozenset[Some]) -> float:
        """What an option, or a view, costs more beside a set where it reads some places."""
        key = (member if isinstance(member, Kept) else id(member)), places, some
        if key not in self._known:
            growth, costs = self.problem.growth, self.problem.costs
            larger = {place: self._larger_at(place, some) for place in places}
            grown = Grown(growth, {place: many for place, many in larger.items() if many})
            if not isinstance(member, Kept):
                self._known[key] = grown.cost(costs, member).cost - member.cost.cost
            elif member.write is None:
                self._known[key] = self.problem.growing_cost(member.view, grown)
            else:
                self._known[key] = self.problem.growing_premium(member.write, member.view, grown)
        return self._known[key]

    def _larger_at(self, place: Place, some: frozenset[Some]) -> float:
        if (place, some) not in self._larger:
            self._larger[place, some] = self.problem.growth.least_at(place, some)
        return self._larger[place, some]


def _living(used: Used, values: Sequence[float]) -> Used:
    """With those of its places alone where rows live in an answer."""
    here = tuple(one for one in used.places if sum(values[before] for before in one[1]) < 0.5)
    return used if len(here) == len(used.places) else used._replace(places=here)


def _before(living: Iterable[Used]) -> list[int]:
    """The views where rows would live rather than in the places that some have."""
    return sorted({column for used in living for _, before in used.places for column in before})


def _by_column(members: Iterable[Used]) -> dict[int, list[Used]]:
    found: dict[int, list[Used]] = {}
    for used in members:
        found.setdefault(used.column, []).append(used)
    return found


def places_of(problem: Problem, member: Member) -> Iterator[Place]:
    """Where an option reads, or a view keeps rows, that others may make larger."""
    known = problem.growth.entities
    if not isinstance(member, Kept):
        for _, place in problem.growth.places_of(member):
            if place in known:
                yield place
        return
    for chain in ((), *(chain for chain, _ in problem.views[member.view].nested())):
        if (member.view, chain) in known:
            yield member.view, chain
