"""The rows themselves: who lives, where references lead, what computed fields are worth."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from keyplan.model.entity import EXPIRES, Role
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from keyplan.reference.arithmetic import summary

Row = dict[str, Any]
"""Column to canonical value; computed columns are not stored, `$expires` is."""
Key = tuple[Any, ...]

GONE = "$gone"
"""Marks the row that stands for the target of a reference that leads nowhere: its key is all there is of it."""
BEYOND = "$beyond"
"""Marks one that such a row leads to by a part of its key: nothing is computed of it, because the path has ended."""


class Tables:
    """All rows of a model. Rows are replaced, never changed in place."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.rows: dict[str, dict[Key, Row]] = {name: {} for name in model.entities}
        self._by: dict[tuple[str, tuple[str, ...]], dict[Key, dict[Key, Row]]] = {}
        self._undo: list[tuple[str, Key, Row | None]] = []

    def put(self, entity: str, row: Row) -> None:
        """Adds a row, in the place of the one with the same key."""
        key = self.key(entity, row)
        self.remove(entity, key)
        self._undo.append((entity, key, None))
        self._set(entity, key, row)

    def remove(self, entity: str, key: Key) -> None:
        """Takes a row away, if it is there."""
        if key in self.rows[entity]:
            self._undo.append((entity, key, self.rows[entity][key]))
            self._set(entity, key, None)

    def commit(self) -> None:
        """Makes everything since the last commit permanent."""
        self._undo.clear()

    def roll_back(self) -> None:
        """Takes back everything since the last commit."""
        while self._undo:
            self._set(*self._undo.pop())

    def _set(self, entity: str, key: Key, row: Row | None) -> None:
        old = self.rows[entity].pop(key, None)
        if row is not None:
            self.rows[entity][key] = row
        for (name, columns), found in self._by.items():
            if name == entity:
                if old is not None:
                    del found[tuple(old[column] for column in columns)][key]
                if row is not None:
                    found.setdefault(tuple(row[column] for column in columns), {})[key] = row

    def having(self, entity: str, columns: tuple[str, ...], values: Key) -> list[Row]:
        """The rows with these values in these columns; a dict per set of columns asked for spares the search."""
        if (entity, columns) not in self._by:
            found: dict[Key, dict[Key, Row]] = {}
            for key, row in self.rows[entity].items():
                found.setdefault(tuple(row[column] for column in columns), {})[key] = row
            self._by[entity, columns] = found
        return list(self._by[entity, columns].get(values, {}).values())

    def forget_expired(self, now: datetime) -> None:
        """Drops what is expired at this moment, so that nothing else need think of it."""
        for name, entity in self.model.entities.items():
            if entity.ttl is not None:
                gone = [key for key, row in self.rows[name].items() if row[EXPIRES] is not None and row[EXPIRES] <= now]
                for key in gone:
                    self.remove(name, key)

    def key(self, entity: str, row: Row) -> Key:
        return tuple(row[column] for column in self.model.entities[entity].key)

    def role(self, entity: str, name: str) -> Role:
        return self.model.entities[entity].roles[name]

    def target(self, role: Role, row: Row | None) -> Row | None:
        """The row that a to-one role leads to, or None if the reference is missing.

        Where no such row is, or `row` is itself not there, a row that has nothing but its key stands for it.
        """
        if row is None:
            return None
        key = tuple(row[column] for column in role.columns)
        if None in key:
            return None
        if GONE in row:
            return {**self.nothing_but(role.entity, key), BEYOND: True}
        return self.rows[role.entity].get(key) or self.nothing_but(role.entity, key)

    def nothing_but(self, entity: str, key: Key) -> Row:
        about = self.model.entities[entity]
        row: Row = {column: empty(about.columns[column].type.kind) for column in about.stored}
        return {**row, **dict(zip(about.key, key, strict=True)), GONE: True}

    def children(self, entity: str, role: Role, row: Row | None) -> list[Row]:
        """The rows that a to-many role leads to, in the order of their keys."""
        if row is None or GONE in row:
            return []
        return self.pointing_at(role, self.key(entity, row))

    def pointing_at(self, role: Role, key: Key) -> list[Row]:
        found = self.having(role.entity, role.columns, key)
        return sorted(found, key=lambda row: self.key(role.entity, row))

    def value(self, entity: str, row: Row | None, column: str) -> Any:
        """A column's value; a computed one is worked out anew, from the key alone."""
        about = self.model.entities[entity].columns[column]
        if row is None or (about.computed is not None and BEYOND in row):
            return empty(about.type.kind)
        if about.computed is None:
            return row[column]
        rows = self.pointing_at(self.role(entity, about.computed.role), self.key(entity, row))
        if about.computed.column is None:
            return len(rows)
        values = [child[about.computed.column] for child in rows]
        return summary(about.computed.how, [value for value in values if value is not None], about.type)

    def values(self, entity: str, row: Row | None, path: Path) -> Iterator[Any]:
        """The values at the end of a path: one, unless it passes to-many roles."""
        if not path.roles:
            yield self.value(entity, row, path.column)
            return
        role = self.role(entity, path.roles[0])
        for target in self.children(entity, role, row) if role.many else [self.target(role, row)]:
            yield from self.values(role.entity, target, Path(path.roles[1:], path.column))

    def single(self, entity: str, row: Row, path: Path) -> Any:
        """The value of a path that passes no to-many role."""
        (value,) = self.values(entity, row, path)
        return value


def empty(kind: str) -> Any:
    """What a column of a row that is not there has: nothing, but sets and lists are never missing."""
    return frozenset() if kind == "set" else () if kind == "list" else None
