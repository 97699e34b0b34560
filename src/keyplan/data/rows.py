"""Rows of one entity: its columns compiled into functions that are called with many rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from keyplan.data.chunk import Chunk, Compiled, Index, Make
from keyplan.data.columns import REMEMBERED, free, remember
from keyplan.data.domain import LAST, moments
from keyplan.data.layout import Layout
from keyplan.data.numbers import Mask, Numbers, evenly, mix, ratio, salt
from keyplan.data.references import drawn, within
from keyplan.data.snapshots import Snapshots, whole_reference
from keyplan.model.entity import EXPIRES, Column, Entity, Field
from keyplan.model.model import Model
from keyplan.model.pattern import Path

Row = dict[str, Any]

_CHUNK = 2048
_SELDOM = 0.5
"""Columns that fewer rows have are made for those alone."""


class Rows:
    """The rows of one entity. `row(number)` and `key(number)` need no other row."""

    def __init__(
        self, model: Model, layout: Layout, others: Mapping[str, Rows], snapshots: Snapshots, seed: object
    ) -> None:
        self.model = model
        self.layout = layout
        self.entity: Entity = layout.entity
        self.count = layout.rows
        self.others = others
        self.snapshots = {name: path for (entity, name), path in snapshots.items() if entity == self.entity.name}
        self.seed = seed
        self.makes: dict[str, Make] = {}
        self.indexes: dict[str, Index] = {}
        self.targets: dict[str, Compiled] = {}
        self.remembered: dict[str, Callable[[Numbers], Sequence[Any]]] = {}
        self.compiled = Compiled(salt(seed, self.entity.name), self.makes, self.indexes, self.targets, self.remembered)

    def compile_references(self) -> None:
        """Works out which row each reference points at; needs the counts of all entities."""
        for field in self.entity.fields.values():
            if field.target is not None:
                self.targets[field.name] = self.others[field.target].compiled
                self.indexes[field.name] = self._index(field, field.target)

    def compile_columns(self) -> None:
        """Makes a function of each stored column."""
        for name in self.entity.stored:
            if name != EXPIRES:
                self.makes[name] = self._column(self.entity.columns[name])
        if EXPIRES in self.entity.columns:
            self.makes[EXPIRES] = self._expires()
        if self.count <= REMEMBERED:
            for name in self.makes:
                if self.entity.columns[name].type.kind != "json":
                    self.remembered[name] = remember(self._by_number(name), max(1, self.count))

    def _by_number(self, name: str) -> Callable[[Numbers], Sequence[Any]]:
        return lambda numbers: Chunk(self.compiled, numbers).column(name)

    def key(self, number: int) -> tuple[Any, ...]:
        chunk = Chunk(self.compiled, np.array([number], dtype=np.int64))
        return tuple([chunk.column(name)[0] for name in self.entity.key])

    def row(self, number: int) -> Row:
        chunk = Chunk(self.compiled, np.array([number], dtype=np.int64))
        return {name: chunk.column(name)[0] for name in self.entity.stored}

    def rows(self, start: int = 0, stop: int | None = None, *, as_arguments: bool = False) -> Iterator[Row]:
        """Rows by number, a chunk at a time."""
        build = builder(self.entity, as_arguments)
        names = self.entity.stored
        end = self.count if stop is None else min(stop, self.count)
        for first in range(start, end, _CHUNK):
            chunk = Chunk(self.compiled, np.arange(first, min(first + _CHUNK, end), dtype=np.int64))
            yield from build(*[chunk.column(name) for name in names])

    def _salt(self, field: str, what: str = "") -> int:
        return salt(self.seed, self.entity.name, field, what)

    def _index(self, field: Field, target: str) -> Index:
        assigned = self.layout.indexes.get(field.name)
        index: Index
        if assigned is not None:
            by_number = assigned
            index = lambda chunk: by_number(chunk.numbers)  # noqa: E731
        else:
            if target == self.entity.name:
                draw = within(field, self.count, self._salt(field.name))
            else:
                rows = self.others[target]
                distinct = self.layout.distinct(field)
                targets = rows.count if distinct is None else min(rows.count, distinct)
                draw = drawn(field, rows.entity, self.count, targets, self._salt(field.name))
            index = lambda chunk: draw(chunk.numbers, chunk.bits)  # noqa: E731
        column = self.entity.columns[self.entity.roles[field.name].columns[0]]
        path = self.snapshots.get(column.name)
        role = whole_reference(self.model, self.entity.name, column, path) if path is not None else None
        if path is not None and role is not None and assigned is None:
            index = _copied_index(path, role, index, field.optional is None)
        if field.optional is None or field.name in self.layout.key_fields:
            return index
        return _sometimes_index(index, field.optional, self._salt(field.name, "optional"))

    def _column(self, column: Column) -> Make:
        field = self.entity.fields[column.field]
        path = self.snapshots.get(column.name)
        copies = path is not None and not self.layout.is_assigned(field)
        make: Make
        if field.target is not None:
            make = self._reference(column, field)
            # A reference that copies a whole reference does so by its index; a bare value is copied as it is.
            if path is None or not copies or whole_reference(self.model, self.entity.name, column, path) is not None:
                return make
        elif field.name in self.layout.numbers:
            make = self._numbered(field)
        elif field.now and column.type.kind == "timestamp" and self.layout.span_of(field) is self.layout.span:
            make = self._created()
        else:
            span = self.layout.span_of(field)
            values = free(column.type, field, self.layout.distinct(field), span, self._salt(field.name))
            make = lambda chunk: values(chunk.bits)  # noqa: E731
        if path is not None and copies:
            make = _copied(path, make, not column.optional)
        if not column.optional or field.optional is None:
            return make
        return _sometimes(make, field.optional, self._salt(field.name, "optional"))

    def _numbered(self, field: Field) -> Make:
        """A field whose values the layout chose."""
        number, at = self.layout.numbers[field.name], self.layout.domains[field.name].at

        def make(chunk: Chunk) -> Sequence[Any]:
            numbers = number(chunk.numbers)
            present = numbers >= 0
            if present.all():
                return at(numbers)
            return _scattered(at(numbers[present]), present)

        return make

    def _reference(self, column: Column, field: Field) -> Make:
        """One column of a reference: that part of the key of the row it points at."""
        assert field.target is not None
        role = field.name
        place = self.entity.roles[role].columns.index(column.name)
        part = self.others[field.target].entity.key[place]
        return lambda chunk: chunk.along((role,), part)

    def _created(self) -> Make:
        """When the row was created: later for later rows, unless they are grouped by parent."""
        span = self.layout.span
        start, length, count = span.start, span.ms, max(1, self.count)
        factor = self._salt("$created") | 1
        if self.layout.fanout is not None:
            return lambda chunk: moments(start + evenly(chunk.bits * factor, length))
        step = length // count
        passed = ratio(length, count)
        return lambda chunk: moments(start + passed(chunk.numbers) + evenly(chunk.bits * factor, step))

    def _expires(self) -> Make:
        ttl = self.entity.ttl
        assert ttl is not None
        lives = timedelta(milliseconds=min(ttl.ms, 2**50))
        # A key that is `now` holds the moment of creation, although the layout chose it.
        assigned = [name for name in self.layout.numbers if self.entity.fields[name].now]
        column = ttl.since if ttl.since is not None else assigned[0] if assigned else None
        created = self._created()

        def expires(chunk: Chunk) -> Sequence[Any]:
            since = created(chunk) if column is None else chunk.column(column)
            try:
                return [None if value is None else value + lives for value in since]
            except OverflowError:
                return [None if value is None else _later(value, lives) for value in since]

        return expires


def _later(value: datetime, by: timedelta) -> datetime:
    try:
        return value + by
    except OverflowError:
        return LAST


def _copied_index(path: Path, role: str, otherwise: Index, required: bool) -> Index:
    """The index of another reference at the end of a path."""

    def index(chunk: Chunk) -> Numbers:
        found = chunk.indexes_along(path.roles, role)
        return np.where(found < 0, otherwise(chunk), found) if required else found

    return index


def _copied(path: Path, otherwise: Make, required: bool) -> Make:
    """The value at the end of a path; where it breaks off, None if that is allowed, else a drawn value."""

    def values(chunk: Chunk) -> Sequence[Any]:
        found = chunk.along(path.roles, path.column)
        if not required or None not in found:
            return found
        return [other if value is None else value for value, other in zip(found, otherwise(chunk), strict=True)]

    return values


def _sometimes(make: Make, share: float, seed: int) -> Make:
    """The values of `make` in that share of rows, else None."""
    if share >= 1:
        return make
    has = _having(share, seed)

    def values(chunk: Chunk) -> Sequence[Any]:
        present = has(chunk)
        if share < _SELDOM:
            return _scattered(make(Chunk(chunk.compiled, chunk.numbers[present])), present)
        return [value if is_present else None for value, is_present in zip(make(chunk), present.tolist(), strict=True)]

    return values


def _sometimes_index(index: Index, share: float, seed: int) -> Index:
    if share >= 1:
        return index
    has = _having(share, seed)
    return lambda chunk: np.where(has(chunk), index(chunk), -1)


def _having(share: float, seed: int) -> Callable[[Chunk], Mask]:
    bound = int(max(share, 0.0) * 2**64)
    factor = mix(seed) | 1
    return lambda chunk: chunk.bits * factor < bound


def _scattered(values: Sequence[Any], present: Mask) -> Sequence[Any]:
    """One value after the other where there is one, else None."""
    each = iter(values)
    return [next(each) if is_present else None for is_present in present.tolist()]


def builder(entity: Entity, as_arguments: bool) -> Callable[..., list[Row]]:
    """A function from the stored columns to rows, compiled for their names.

    As arguments of calls, references that several columns hold are one tuple, after all else.
    """
    variables = {name: f"v{place}" for place, name in enumerate(entity.stored)}
    several = composite(entity) if as_arguments else {}
    inside = {column for columns in several.values() for column in columns}
    if as_arguments:
        inside |= {name for name in entity.stored if entity.columns[name].hidden}
    items = [f"{name!r}: {variable}" for name, variable in variables.items() if name not in inside]
    for field, columns in several.items():
        missing = " or ".join(f"{variables[name]} is None" for name in columns)
        items.append(f"{field!r}: None if {missing} else ({', '.join(variables[name] for name in columns)},)")
    values = "".join(f"{variable}, " for variable in variables.values())
    names = {"zip": zip, "__builtins__": {}}
    exec(f"def build(*columns): return [{{{', '.join(items)}}} for {values}in zip(*columns, strict=True)]", names)
    build: Callable[..., list[Row]] = names["build"]  # type: ignore[assignment]
    return build


def composite(entity: Entity) -> dict[str, list[str]]:
    """The references of an entity that are held in several columns, which are given as one argument."""
    found: dict[str, list[str]] = {}
    for column in entity.columns.values():
        if column.name != column.field and not column.hidden:
            found.setdefault(column.field, []).append(column.name)
    return found
