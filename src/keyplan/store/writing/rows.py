"""Reading whole rows for writes: by key, by what they point at, and the values behind their references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from itertools import islice, product
from typing import Any

from keyplan.engines.codec import Codec, Span
from keyplan.engines.rounds import Proc
from keyplan.errors import DesignError
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from keyplan.plan.design import Design
from keyplan.plan.steps import Node, Search
from keyplan.store.pump import gather
from keyplan.store.reading.execute import Executor, Runner
from keyplan.store.reading.expiry import is_gone
from keyplan.store.reading.filter import Call
from keyplan.store.steps import answered
from keyplan.store.writing.folding import folded, with_changes
from keyplan.store.writing.places import Kept, Place, Places

Row = dict[str, Any]
Key = tuple[Any, ...]


class RowReader:
    """Strong reads of whole rows, with what their homes hold besides (`Places.carried`)."""

    def __init__(self, model: Model, design: Design, executor: Executor, places: Places) -> None:
        self.model = model
        self.design = design
        self.executor = executor
        self.places = places
        self._by_key: dict[str, Runner] = {}
        self._pointing: dict[tuple[str, bool], Runner] = {}
        self._first: dict[str, Runner] = {}
        self._groups: dict[str, Runner] = {}

    def by_key(self, wanted: Iterable[tuple[str, Key]], now: datetime) -> Proc[dict[tuple[str, Key], Row | None]]:
        """Rows of any entities by their keys, in one round where the plans allow; None for those that are not there."""
        keys: dict[str, dict[Key, None]] = {}
        for entity, key in wanted:
            keys.setdefault(entity, {})[key] = None
        procs = [self._rows(entity, list(some), now) for entity, some in keys.items()]
        found = yield from gather(procs)
        return {
            (entity, key): row
            for (entity, some), rows in zip(keys.items(), found, strict=True)
            for key, row in zip(some, rows, strict=True)
        }

    def _rows(self, entity: str, keys: Sequence[Key], now: datetime) -> Proc[list[Row | None]]:
        runner, lists = yield from self._found(entity, keys, now)
        found = yield from self._whole(entity, runner, [rows[:1] for rows in lists])
        return [rows[0] if rows else None for rows in found]

    def has_several(self, entity: str, key: Key, now: datetime) -> Proc[bool]:
        """Whether more than one row stands under a key, which a home under more than that key does not refuse."""
        _, (rows,) = yield from self._found(entity, [key], now)
        return len(rows) > 1

    def _found(self, entity: str, keys: Sequence[Key], now: datetime) -> Proc[tuple[Runner, list[list[Row]]]]:
        runner = self._by_key.get(entity)
        if runner is None:
            runner = self._by_key[entity] = self.executor.compile(self._marking(entity, self.design.rows[entity]))
        columns = self.model.entities[entity].key
        outers = [dict(zip(columns, key, strict=True)) for key in keys]
        lists = yield from runner.many(Call({}, now, strong=True), outers)
        return runner, lists

    def _marking(self, entity: str, node: Node) -> Node:
        """The plan, taking along what rows are counted under where it reads the home anyway."""
        home = self.places.home(entity)
        if isinstance(node, Search) and (node.view, node.at) == (home.view.name, home.at):
            return replace(node, takes=tuple(dict.fromkeys((*node.takes, *self.places.carried(entity)))))
        return node

    def _whole(self, entity: str, runner: Runner, lists: list[list[Row]]) -> Proc[list[list[Row]]]:
        """Rows as writes take them: the stored columns, and the marks, which only the home has."""
        marks = self.places.carried(entity)
        columns = self.model.entities[entity].stored
        if not marks:
            return [[{column: row[column] for column in columns} for row in rows] for rows in lists]
        home = self.places.home(entity)
        if set(marks) <= set(runner.provides):
            return [[{column: row[column] for column in (*columns, *marks)} for row in rows] for rows in lists]
        flat = [{column: row[column] for column in columns} for rows in lists for row in rows]
        keys = [home.keys(row)[0] for row in flat]
        entries = yield from entries_at(self.executor.codec, home, keys, marks)
        left = iter(zip(flat, entries, strict=True))
        # A row that is not in its home has gone since it was found.
        return [
            [
                {**row, **{path: entry[path] for path in marks}}
                for row, entry in islice(left, len(rows))
                if entry is not None
            ]
            for rows in lists
        ]

    def pointing_at(
        self, entity: str, role: str, keys: Sequence[Key], now: datetime, *, new: bool = False
    ) -> Proc[list[list[Row]]]:
        """The rows of an entity whose reference holds each of these keys; `new` ones were those of no row until now."""
        name = f"{entity}.{role}"
        plans = self.design.dangling if new and name in self.design.dangling else self.design.dependents
        runner = self._pointing.get((name, plans is self.design.dangling))
        if runner is None:
            node = plans.get(name)
            if node is None:
                raise DesignError(f"the design does not say how to find rows of '{entity}' by '{role}'")
            runner = self.executor.compile(self._marking(entity, node))
            self._pointing[name, plans is self.design.dangling] = runner
        target = self.model.entities[self.model.entities[entity].roles[role].entity]
        outers = [dict(zip(target.key, key, strict=True)) for key in keys]
        found = yield from runner.many(Call({}, now, strong=True), outers)
        lists = yield from self._whole(entity, runner, found)
        # What is read in two steps may have been pointed elsewhere between them.
        columns = self.model.entities[entity].roles[role].columns
        return [
            [row for row in rows if all(row[column] == part for column, part in zip(columns, key, strict=True))]
            for key, rows in zip(keys, lists, strict=True)
        ]

    def entries(self, place: Place, keys: Sequence[Key], takes: Sequence[str]) -> Proc[list[Row | None]]:
        """The entries of a place under these keys, read strongly."""
        return (yield from entries_at(self.executor.codec, place, keys, takes))

    def of_group(self, place: Place, key: Key, now: datetime) -> Proc[list[Row]]:
        """The rows that may count in a group of a view with measures: whoever asks sees which do."""
        name = place.view.name
        runner = self._groups.get(name)
        if runner is None:
            node = self.design.groups.get(name)
            if node is None:
                raise DesignError(f"the design does not say how to find the rows of a group of '{name}'")
            runner = self._groups[name] = self.executor.compile(self._marking(place.entity, node))
        outer = {str(part): value for part, value in zip(place.view.parts, key, strict=True)}
        lists = yield from runner.many(Call({}, now, strong=True), [outer])
        (rows,) = yield from self._whole(place.entity, runner, lists)
        return rows

    def first(
        self, entity: str, role: str, key: Key, order: Sequence[tuple[str, bool]], limit: int, now: datetime
    ) -> Proc[list[Row]]:
        """At least the first rows of a to-many role, in this order; all of them where they are not found in it."""
        name = f"{entity}.{role}"
        about = self.model.entities[entity]
        child = about.roles[role].entity
        runner = self._first.get(name)
        if runner is None:
            node = self.design.refills.get(name)
            if node is None:
                raise DesignError(f"the design does not say how to find the first '{role}' of '{entity}'")
            runner = self._first[name] = self.executor.compile(self._marking(child, node))
        ordered = [(str(term.path), term.descending) for term in runner.order] == list(order)
        outers = [dict(zip(about.key, key, strict=True))]
        lists = yield from runner.many(Call({}, now, strong=True), outers, None, limit if ordered else None)
        (rows,) = yield from self._whole(child, runner, lists)
        return rows


def entries_at(codec: Codec, place: Place, keys: Sequence[Key], takes: Sequence[str]) -> Proc[list[Row | None]]:
    """The entries of a place under these keys, read strongly."""
    if not keys:
        return []
    reader = codec.reader(Search(place.view.name, place.at, takes=tuple(takes)))
    width = len(place.key.partition)
    found: list[list[Row]] = [[] for _ in keys]
    asks = reader.ask([Span(key[:width], key[width:]) for key in keys], None, strong=True)
    for ask, answer in (yield from answered(reader, asks, place.view.name)):
        for number, rows in zip(ask.spans, answer.rows, strict=True):
            found[number] += rows
    return [rows[0] if rows else None for rows in found]


@dataclass
class World:
    """The rows that a write reads and changes: as they are, and as they will be."""

    model: Model
    reader: RowReader
    now: datetime
    seen: dict[tuple[str, Key], Row | None] = field(default_factory=dict)
    """Rows read, and not changed by this write."""
    changed: dict[tuple[str, Key], tuple[Row | None, Row | None]] = field(default_factory=dict)
    ghosts: dict[tuple[str, Key], tuple[Row, Row]] = field(default_factory=dict)
    """What is computed for rows that are not there before the changes, or after them: what others copy of it."""
    past: dict[tuple[str, Key], list[Row | None]] = field(default_factory=dict)
    """What rows were that entries may still stand under, since somebody has yet to move these."""
    picked: dict[tuple[str, Key], Row | None] = field(default_factory=dict)
    """Of these, the ones that are looked at instead of what the rows are now."""
    used: set[tuple[str, Key]] = field(default_factory=set)
    """Rows that were looked at."""

    def row(self, name: tuple[str, Key], new: bool) -> Row | None:
        """A row that can be copied from: one that is written when it has expired already is there for nobody."""
        self.used.add(name)
        if name in self.picked:
            return self.picked[name]
        pair = self.changed.get(name)
        if pair is None:
            return self.seen[name]
        row = pair[new]
        return None if row is not None and is_gone(row, self.now) else row

    def value(self, entity: str, row: Mapping[str, Any], path: Path, new: bool = True) -> Any:
        """The value at the end of a to-one path, of rows that were fetched."""
        end = self.end(entity, row, path.roles, new)
        return end.get(path.column) if end is not None else None

    def end(self, entity: str, row: Mapping[str, Any], roles: Sequence[str], new: bool) -> Row | None:
        """The row that a chain of references leads to, or what is computed for it where it is not there."""
        found = self.behind(entity, row, roles, new)
        if found is None:
            return None
        gone = self.row(found, new)
        if gone is None and len(roles) == 1 and self.has_ghosts(found[0]):
            # The path has not ended before: what is computed is there.
            gone = self.ghosts[found][new and found not in self.picked]
        return gone

    def has_ghosts(self, entity: str) -> bool:
        """Whether something that is computed for rows of an entity is copied, even for those that are not there."""
        return bool(self.reader.places.copied[entity])

    def behind(self, entity: str, row: Mapping[str, Any], roles: Sequence[str], new: bool) -> tuple[str, Key] | None:
        """The entity and key that a chain of references leads to; None where it breaks."""
        # Asked for every path of every row that a write touches: nothing is made here that is not needed.
        here: Mapping[str, Any] | None = row
        entities = self.model.entities
        found: tuple[str, Key] = entity, ()
        for name in roles:
            if here is None:
                return None
            role = entities[found[0]].roles[name]
            key = tuple([here.get(column) for column in role.columns])
            if None in key:
                return None
            found = role.entity, key
            if found not in self.seen and found not in self.changed and found not in self.picked:
                return found
            here = self.row(found, new)
        return found

    def touched(
        self, entity: str, old: Mapping[str, Any], new: Mapping[str, Any], copies: tuple[Path, ...]
    ) -> tuple[Path, ...]:
        """The paths whose value comes from another row after the changes, or is another one, or whose row comes or
        goes."""
        found: list[Path] = []
        for roles, paths in by_roles(copies):
            moved = self._is_moved(entity, old, new, roles)
            if moved is False:
                was, will = self.end(entity, old, roles, False) or {}, self.end(entity, new, roles, True) or {}
                found += [path for path in paths if was.get(path.column) != will.get(path.column)]
            elif moved:
                found += paths
        return tuple([path for path in copies if path in found]) if found else ()

    def _is_moved(
        self, entity: str, old: Mapping[str, Any], new: Mapping[str, Any], roles: tuple[str, ...]
    ) -> bool | None:
        """Whether a chain of references leads elsewhere after the changes, or one of its rows comes or goes; None if it
        breaks before and after."""
        for depth in range(1, len(roles) + 1):
            before = self.behind(entity, old, roles[:depth], False)
            after = self.behind(entity, new, roles[:depth], True)
            if before != after:
                return True
            if before is None:
                return None
            was, will = self.changed.get(before, (None, None))
            if (was is None) != (will is None):
                return True
        return False

    def fetch(self, wanted: Iterable[tuple[str, Mapping[str, Any], tuple[str, ...], bool]]) -> Proc[None]:
        """Reads what stands behind chains of references of rows (entity, row, roles, new side), level by level."""
        # Several paths, and several places, want the same row: each chain is followed once.
        chains = list({(id(chain[1]), *chain[2:]): chain for chain in wanted}.values())
        depth = 1
        while True:
            missing: dict[tuple[str, Key], None] = {}
            deeper = False
            for entity, row, roles, new in chains:
                if len(roles) < depth:
                    continue
                deeper = True
                found = self.behind(entity, row, roles[:depth], new)
                if found is not None and found not in self.changed and found not in self.seen:
                    missing[found] = None
            if not deeper:
                return
            if missing:
                self.seen |= yield from self.reader.by_key(missing, self.now)
            if depth == 1:
                yield from self.fetch_ghosts(chains)
            depth += 1

    def reached(self, entity: str, row: Row, copies: Iterable[Path]) -> dict[tuple[str, Key], None]:
        """The rows behind references of a row, by whatever each of them is or was."""
        found: dict[tuple[str, Key], None] = {}
        for path in copies:
            at, rows = entity, [row]
            for name in path.roles:
                role = self.model.entities[at].roles[name]
                keys = [tuple(one.get(column) for column in role.columns) for one in rows]
                names = dict.fromkeys((role.entity, key) for key in keys if None not in key)
                found |= names
                at = role.entity
                rows = [one for some in names for one in self.ever(some) if one is not None]
        return found

    def ever(self, name: tuple[str, Key]) -> list[Row | None]:
        """What a row may have been, and what it is."""
        return [*self.past.get(name, ()), self.changed[name][True] if name in self.changed else self.seen.get(name)]

    def fetch_past(self, wanted: Iterable[tuple[str, Row, Sequence[Path]]]) -> Proc[None]:
        """Reads what stands behind references of rows by whatever each row on the way is or was."""
        rows = list(wanted)
        while True:
            names = [name for entity, row, copies in rows for name in self.reached(entity, row, copies)]
            missing = dict.fromkeys(name for name in names if name not in self.changed and name not in self.seen)
            if not missing:
                return
            self.seen |= yield from self.reader.by_key(missing, self.now)

    def variants(self, entity: str, row: Row, copies: tuple[Path, ...]) -> list[Row]:
        """A row with the values behind its references, each of these taken as it is or as it may have been."""
        names = [name for name in self.reached(entity, row, copies) if name in self.past]
        found = []
        for picks in product(*([(one,) for one in self.past[name]] + [()] for name in names)):
            self.picked = {name: pick[0] for name, pick in zip(names, picks, strict=True) if pick}
            found.append(self.full(entity, row, copies, True))
        self.picked = {}
        return found

    def fetch_ghosts(self, chains: Iterable[tuple[str, Mapping[str, Any], tuple[str, ...], bool]]) -> Proc[None]:
        """Works out what is computed for rows that are not there, by the rows that point at them."""
        wanted: dict[str, dict[Key, None]] = {}
        for entity, row, roles, new in chains:
            found = self.behind(entity, row, roles, new) if len(roles) == 1 else None
            if found is None or not self.has_ghosts(found[0]) or found in self.ghosts:
                continue
            if self.row(found, new) is None:
                wanted.setdefault(found[0], {})[found[1]] = None
        for entity, keys in wanted.items():
            for key in keys:
                self.ghosts[entity, key] = ({}, {})
            for kept in self.reader.places.copied[entity]:
                lists = yield from self.reader.pointing_at(kept.child, kept.role, list(keys), self.now)
                for key, children in zip(keys, lists, strict=True):
                    before, after = self.ghosts[entity, key]
                    before[kept.column] = folded(kept, children)
                    after[kept.column] = self.folded_after(kept, key, children)

    def folded_after(self, kept: Kept, key: Key, children: Sequence[Row]) -> Any:
        """A computed value by the rows that will point at a row."""
        changed = [(name[1], pair[1]) for name, pair in self.changed.items() if name[0] == kept.child]
        return folded(kept, with_changes(kept, key, self.model.entities[kept.child].key, children, changed))

    def full(self, entity: str, row: Row, copies: tuple[Path, ...], new: bool) -> Row:
        """A row with the values behind its references."""
        result = dict(row)
        for roles, paths in by_roles(copies):
            end = self.end(entity, row, roles, new)
            for path in paths:
                result[str(path)] = end.get(path.column) if end is not None else None
        return result


@lru_cache(maxsize=1024)
def by_roles(copies: tuple[Path, ...]) -> list[tuple[tuple[str, ...], list[Path]]]:
    """Paths by the references that they begin with: what stands behind these is looked for once."""
    found: dict[tuple[str, ...], list[Path]] = {}
    for path in copies:
        found.setdefault(path.roles, []).append(path)
    return list(found.items())


@lru_cache(maxsize=1024)
def chains(copies: tuple[Path, ...]) -> list[tuple[tuple[str, ...], list[tuple[str, bool]]]]:
    """The references that paths lead through, each chain after those that it goes on from, and what is taken of the row
    behind it: columns, and references that lead on (True)."""
    found: dict[tuple[str, ...], dict[tuple[str, bool], None]] = {}
    for path in copies:
        for depth in range(1, len(path.roles)):
            found.setdefault(path.roles[:depth], {})[path.roles[depth], True] = None
        if path.roles:
            found.setdefault(path.roles, {})[path.column, False] = None
    return [(roles, list(taken)) for roles, taken in found.items()]


def differs(actual: Any, wanted: Any) -> bool:
    """Whether a stored value is not the one that the rows imply.

    A set or list behind a reference that leads nowhere is nothing, which some engines give back as an empty one."""
    return bool(actual != wanted) and not (_is_nothing(actual) and _is_nothing(wanted))


def _is_nothing(value: Any) -> bool:
    return value is None or value in ((), frozenset())
