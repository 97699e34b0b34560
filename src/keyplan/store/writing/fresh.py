"""Fresh rows: the edits of many rows of one entity that are taken to be new, worked out together.

What `mutate` does row by row, for any change, is done here for a whole batch of creates: what counters gain is added up
per group, and every row that values are copied from is read once and checked once. The edits are the same, and so are
their conditions. A row that is not new after all makes the engine refuse the request, and nothing has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from keyplan.engines.codec import Codec, Span
from keyplan.engines.rounds import Proc, Request
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from keyplan.plan.edits import Edit, Puts, Test
from keyplan.plan.steps import Search
from keyplan.plan.terms import plus
from keyplan.plan.view import COUNT
from keyplan.store.writing.changes import Batch, Name, RowChange, Work, merged
from keyplan.store.writing.mutate import Mutator
from keyplan.store.writing.places import Place
from keyplan.store.writing.rows import Key, Row, World

Keys = Callable[[Mapping[str, Any]], Sequence[Key]]


class FreshRows:
    """Makes the edits of new rows of one entity."""

    def __init__(self, model: Model, mutator: Mutator, codec: Codec, entity: str) -> None:
        self.mutator = mutator
        self.codec = codec
        self.entity = model.entities[entity]
        self.key = key_of(self.entity.key)
        self.watches = mutator.places.watches[entity]
        self.places = [_Compiled(mutator, place) for place in mutator.places.of[entity]]
        self.copies: dict[tuple[str, ...], list[Path]] = {}
        """What any place copies of other rows, by the references that lead there."""
        for one in self.places:
            for path in one.place.copies:
                some = self.copies.setdefault(path.roles, [])
                some += [] if path in some else [path]
        self.copies_itself = any(
            model.entity_at(entity, roles[: depth + 1]) == entity
            for roles in self.copies
            for depth in range(len(roles))
        )

    def request(self, rows: Sequence[Row], world: World) -> Proc[tuple[Request, list[Name]]]:
        """The request that puts these rows, all of which have to be new; and the rows that were seen not to be there,
        which it cannot test."""
        sources = [self.sources(roles, paths, rows) for roles, paths in self.copies.items()]
        if self.copies_itself:
            for row in rows:
                world.changed[self.entity.name, self.key(row)] = (None, row)
        if sources:
            first = {pair: None for some in sources for pair in some.targets() if pair not in world.changed}
            world.seen |= yield from self.mutator.reader.by_key(first, world.now)
            yield from world.fetch(chain for some in sources for chain in some.chains())
        known: Sequence[Row] = rows
        for some in sources:
            known = some.copied_into(known, world)
        puts = [one.puts(known, world) for one in self.places if not one.place.measures]
        work = Work(world)
        for one in self.places:
            if one.place.measures:
                work.edits += one.totals(known)
        checks = Work(world)
        for some in sources:
            some.check(checks)
        request = self.codec.write_many(puts, [*work.edits, *merged(checks.edits, {})])
        return request, list(dict.fromkeys(checks.unchecked))

    def clash(self, rows: Sequence[Row]) -> bool:
        """Whether two of the rows want the same unique values, be it that the first has expired already."""
        for one in self.places:
            keys = [key for row in rows for key in one.keys(row)] if one.guard else []
            if len(set(keys)) < len(keys):
                return True
        return False

    def sources(self, roles: tuple[str, ...], paths: Sequence[Path], rows: Sequence[Row]) -> Sources:
        """The rows behind some references, one for each key that the first of them has."""
        of = Sources(self.mutator, self.entity.name, roles, paths)
        key = of.key
        for row in rows:
            of.firsts.setdefault(key(row), row)
        return of

    def followers(self, rows: Sequence[Row], label: str, world: World) -> Proc[list[RowChange]]:
        """The rows that copy from these already, having referred to them before they were there."""
        watching = []
        for watch in self.watches:
            empty = yield from is_empty(self.mutator, self.codec, watch.entity)
            watching += [] if empty else [watch]
        if not watching:
            return []
        return (yield from self.mutator.followers(world, self.changes(rows, label)))

    def catch_up(
        self, rows: Sequence[Row], label: str, now: datetime, copy: Callable[[Batch, datetime], Proc[None]]
    ) -> Proc[None]:
        """Has rows brought up to date that have come to refer to these while they were being written."""
        found = yield from self.followers(rows, label, World(self.mutator.model, self.mutator.reader, now))
        if found:
            yield from copy(Batch([], self.changes(rows, label), {}), now)

    def changes(self, rows: Sequence[Row], label: str) -> list[RowChange]:
        """The same as the changes of single rows."""
        return [RowChange(self.entity.name, self.key(row), None, row, label, expect="absent") for row in rows]


class _Compiled:
    """A place, with what is asked of it for every row worked out once."""

    def __init__(self, mutator: Mutator, place: Place) -> None:
        self.place = place
        self.plain = _is_plain(place)
        self.keys = _plain_keys(place) if self.plain else place.keys
        own = mutator.model.entities[place.entity].columns
        self.sparse = place.where is not None or any(
            part.path not in own or own[part.path].optional for part in place.key.parts
        )
        exact = place is mutator.places.exact(place.entity)
        self.guard = place.view.unique and not place.home
        self.expect = "absent" if exact or self.guard else "any"
        self.hows = {name: mutator.groups.how(place, name) for name in _measure_names(place)}
        self.parts = tuple(part.path for part in place.key.parts) if self.plain else ()

    def puts(self, rows: Sequence[Row], world: World) -> Puts:
        """The entries of the rows, all under one condition."""
        place, keys = self.place, self.keys
        alive_at = world.now if self.expect == "absent" else None
        found: list[Key] | None = None
        if not self.plain:
            pairs = [(key, row) for row in rows for key in keys(row)]
            found, rows = [key for key, _ in pairs], [row for _, row in pairs]
        elif self.sparse:
            rows = [row for row in rows if keys(row)]
        return Puts(place.view.name, place.holds, rows, found, self.parts, place.at, self.expect, alive_at)

    def totals(self, rows: Sequence[Mapping[str, Any]]) -> list[Edit]:
        """What the rows add to the groups that they join."""
        place, hows = self.place, self.hows
        groups: dict[Key, dict[str, Any]] = {}
        firsts: dict[Key, int] = {}
        for number, row in enumerate(rows):
            for key in self.keys(row):
                amounts = place.amounts(row)
                sums = groups.get(key)
                if sums is None:
                    groups[key], firsts[key] = amounts, number
                    continue
                for name, value in amounts.items():
                    before = sums.get(name)
                    if before is None:
                        sums[name] = value
                    elif hows[name] == "min":
                        sums[name] = min(before, value)
                    elif hows[name] == "max":
                        sums[name] = max(before, value)
                    elif value.__class__ is int and before.__class__ is int:
                        sums[name] = before + value
                    else:
                        sums[name] = plus(before, value)
        edits = []
        for key, sums in groups.items():
            adds = {name: value for name, value in sums.items() if value != 0 or hows[name] in ("min", "max")}
            edits.append(Edit(place.view.name, "add", key, place.at, adds=adds, row=firsts[key]))
        return edits


class Sources:
    """The rows that a chain of references leads to from rows of an entity: each is looked up once, and checked once."""

    def __init__(self, mutator: Mutator, entity: str, roles: tuple[str, ...], paths: Sequence[Path]) -> None:
        self.mutator = mutator
        self.entity = entity
        self.roles = roles
        self.paths = paths
        """What is copied of them."""
        role = mutator.model.entities[entity].roles[roles[0]]
        self.target = role.entity
        self.key = key_of(role.columns)
        """Of a row, the key that the first reference holds."""
        self.firsts: dict[Key, Row] = {}

    def targets(self) -> Iterable[tuple[str, Key]]:
        """What the first reference leads to."""
        return [(self.target, at) for at in self.firsts if None not in at]

    def chains(self) -> Iterable[tuple[str, Row, tuple[str, ...], bool]]:
        """What has to be followed further."""
        return [(self.entity, row, self.roles, True) for row in self.firsts.values()] if len(self.roles) > 1 else []

    def copied_into(self, rows: Sequence[Row], world: World) -> Sequence[Row]:
        """The rows with the values of those at the end of the chain."""
        copies: dict[Key, Row] = {}
        names = [(str(path), path.column) for path in self.paths]
        for at, row in self.firsts.items():
            behind = world.behind(self.entity, row, self.roles, True)
            found = None if behind is None else world.row(behind, True)
            copies[at] = {name: None if found is None else found.get(column) for name, column in names}
        key = self.key
        return [{**row, **copies[key(row)]} for row in rows]

    def check(self, work: Work) -> None:
        """Checks that what was copied is still so, and that the references on the way lead where they led."""
        places, world = self.mutator.places, work.world
        home = places.home(self.target)
        keys = _plain_keys(home) if _is_plain(home) else home.keys
        own = self.mutator.model.entities[self.target].key
        columns = [path.column for path in self.paths if path.column in home.holds and path.column not in own]
        view, at_home = home.view.name, home.at
        changing = not places.changing[self.target].isdisjoint(path.column for path in self.paths)
        for at, row in self.firsts.items():
            source = world.seen.get((self.target, at)) if len(self.roles) == 1 else None
            if source is None:  # a longer way, or nothing to be seen at the end of it
                work.check_sources(places, self.paths, self.entity, row, True, 0)
                continue
            if not changing:
                continue  # what no write of the model changes needs no check, once it is there
            tests = tuple([Test(column, "=", source[column]) for column in columns])
            work.edits.append(Edit(view, "check", keys(source)[0], at_home, expect="present", tests=tests))


def is_empty(mutator: Mutator, codec: Codec, entity: str) -> Proc[bool]:
    """Whether an entity has no row at all, expired ones included; False where that is not easily known."""
    home = mutator.places.home(entity)
    if home.at:
        return False
    reader = codec.reader(Search(home.view.name, takes=mutator.model.entities[entity].key))
    asks = reader.ask([Span(())], 1, strong=True)
    while asks:
        replies = yield [ask.request for ask in asks]
        more = []
        for ask, reply in zip(asks, replies, strict=True):
            if isinstance(reply, Exception):
                raise reply
            answer = reader.answer(ask, reply)
            if any(answer.rows):
                return False
            if answer.more is not None:
                more.append(answer.more)
        asks = more
    return True


def _measure_names(place: Place) -> list[str]:
    return [COUNT, *(measure.name for measure, _ in place.measures)]


def _is_plain(place: Place) -> bool:
    """Whether its keys are plain values of a row."""
    return bool(place.key.parts) and all(part.is_plain for part in place.key.parts)


def _plain_keys(place: Place) -> Keys:
    """`place.keys`, shorter since every part of the key is a plain value."""
    take = key_of([part.path for part in place.key.parts])
    where = place.where

    def keys(row: Mapping[str, Any]) -> Sequence[Key]:
        if where is not None and not where(row):
            return ()
        key = take(row)
        return () if None in key else (key,)

    return keys


def key_of(columns: Sequence[str]) -> Callable[[Mapping[str, Any]], Key]:
    """A function from a row to some of its columns."""
    if len(columns) == 1:
        (only,) = columns
        return lambda row: (row[only],)
    return itemgetter(*columns)
