"""Rows of one entity: its columns compiled into functions, and called one row after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import cast

from keyplan.data.columns import REMEMBERED, Make, free, remember, sometimes
from keyplan.data.domain import LAST, moment
from keyplan.data.layout import Layout, by_row
from keyplan.data.numbers import FIRST, GOLDEN, MASK, SECOND, mix, salt
from keyplan.data.references import Index, drawn, within
from keyplan.data.snapshots import Snapshots, whole_reference
from keyplan.model.entity import EXPIRES, Column, Entity, Field
from keyplan.model.model import Model
from keyplan.model.pattern import Path

Row = dict[str, object]

_CHUNK = 1024


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
        self.salt = salt(seed, self.entity.name)
        self.indexes: dict[str, Index] = {}
        self.keys: dict[str, Callable[[int], tuple[object, ...]]] = {}
        self.makes: dict[str, Make] = {}
        self.key_makes: list[Make] = []
        self.key_needs_bits = not self.layout.key_fields <= self.layout.numbers.keys()

    def compile_references(self) -> None:
        """Works out which row each reference points at; needs the counts of all entities."""
        for field in self.entity.fields.values():
            if field.target is not None:
                self.indexes[field.name] = _latest(self._index(field, field.target))

    def compile_columns(self) -> None:
        """Makes a function of each stored column."""
        for name in self.entity.stored:
            if name != EXPIRES:
                self.makes[name] = self._column(self.entity.columns[name])
        if EXPIRES in self.entity.columns:
            self.makes[EXPIRES] = self._expires()
        self.key_makes = [self.makes[name] for name in self.entity.key]

    def bits(self, number: int) -> int:
        """The row's own 64 bits, from which every column takes its share."""
        return mix(number + self.salt & MASK)

    def key(self, number: int) -> tuple[object, ...]:
        bits = self.bits(number) if self.key_needs_bits else 0
        return tuple([make(number, bits) for make in self.key_makes])

    def row(self, number: int) -> Row:
        bits = self.bits(number)
        return {name: self.makes[name](number, bits) for name in self.entity.stored}

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[Row]:
        """Rows by number, a chunk at a time. `bits` is written out here, since a call would cost as much again."""
        names = self.entity.stored
        makes = [self.makes[name] for name in names]
        end = self.count if stop is None else min(stop, self.count)
        for first in range(start, end, _CHUNK):
            numbers = range(first, min(first + _CHUNK, end))
            hashes = []
            for number in numbers:
                z = (number + self.salt & MASK) * GOLDEN & MASK
                z = (z ^ z >> 30) * FIRST & MASK
                z = (z ^ z >> 27) * SECOND & MASK
                hashes.append(z ^ z >> 31)
            for values in zip(*[map(make, numbers, hashes) for make in makes], strict=True):
                yield dict(zip(names, values, strict=True))

    def _salt(self, field: str, what: str = "") -> int:
        return salt(self.seed, self.entity.name, field, what)

    def _index(self, field: Field, target: str) -> Index:
        assigned = self.layout.indexes.get(field.name)
        index: Index
        if assigned is not None:
            index = _by_number(assigned)
        elif target == self.entity.name:
            index = within(field, self.count, self._salt(field.name))
        else:
            rows = self.others[target]
            distinct = self.layout.distinct(field)
            targets = rows.count if distinct is None else min(rows.count, distinct)
            index = drawn(field, rows.entity, self.count, targets, self._salt(field.name))
        column = self.entity.columns[self.entity.roles[field.name].columns[0]]
        path = self.snapshots.get(column.name)
        role = whole_reference(self.model, self.entity.name, column, path) if path is not None else None
        if path is not None and role is not None and assigned is None:
            index = self._copied_index(path, role, index, field.optional is None)
        if field.optional is None or field.name in self.layout.key_fields:
            return index
        return cast(Index, sometimes(index, field.optional, self._salt(field.name, "optional")))

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
            make = _numbered(self.layout.numbers[field.name], self.layout.domains[field.name].at)
        elif field.now and column.type.kind == "timestamp" and self.layout.span_of(field) is self.layout.span:
            make = self._created()
        else:
            span = self.layout.span_of(field)
            make = free(column.type, field, self.layout.distinct(field), span, self._salt(field.name))
        if path is not None and copies:
            make = self._copied(path, make, not column.optional)
        if not column.optional or field.optional is None:
            return make
        return sometimes(make, field.optional, self._salt(field.name, "optional"))

    def _reference(self, column: Column, field: Field) -> Make:
        """One column of a reference: that part of the key of the row it points at."""
        assert field.target is not None
        place = self.entity.roles[field.name].columns.index(column.name)
        index = self.indexes[field.name]
        if field.name not in self.keys:
            self.keys[field.name] = _remembered_key(self.others[field.target])
        key = self.keys[field.name]
        if field is self.layout.leading and self.layout.fanout is not None and field.optional is None:
            locate = self.layout.fanout.locate
            return lambda number, bits: key(locate(number)[0])[place]

        def part(number: int, bits: int) -> object:
            at = index(number, bits)
            return None if at is None else key(at)[place]

        return part

    def _created(self) -> Make:
        """When the row was created: later for later rows, unless they are grouped by parent."""
        span = self.layout.span
        start, length, count = span.start, span.ms, max(1, self.count)
        factor = self._salt("$created") | 1
        if self.layout.fanout is not None:
            return lambda number, bits: moment(start + ((bits * factor & MASK) * length >> 64))
        step = length // count
        return lambda number, bits: moment(start + number * length // count + ((bits * factor & MASK) * step >> 64))

    def _expires(self) -> Make:
        ttl = self.entity.ttl
        assert ttl is not None
        lives = timedelta(milliseconds=min(ttl.ms, 2**50))
        since = self._created()
        if ttl.since is not None:
            since = self.makes[ttl.since]
        else:
            # A key that is `now` holds the moment of creation, although the layout chose it.
            assigned = [name for name in self.layout.numbers if self.entity.fields[name].now]
            if assigned:
                since = self.makes[assigned[0]]

        def expires(number: int, bits: int) -> object:
            value = since(number, bits)
            if value is None:
                return None
            assert isinstance(value, datetime)
            try:
                return value + lives
            except OverflowError:
                return LAST

        return expires

    def _steps(self, roles: tuple[str, ...]) -> tuple[list[tuple[Rows, str, Rows]], Rows]:
        """The way along a path: from where, by which role, to where; and where it ends."""
        steps = []
        here = self
        for role in roles:
            target = self.others[here.entity.roles[role].entity]
            steps.append((here, role, target))
            here = target
        return steps, here

    def _copied_index(self, path: Path, role: str, otherwise: Index, required: bool) -> Index:
        """The index of another reference at the end of a path."""
        steps, end = self._steps(path.roles)

        def index(number: int, bits: int) -> int | None:
            at: int | None = number
            its = bits
            for here, name, target in steps:
                at = here.indexes[name](at or 0, its)
                if at is None:
                    return otherwise(number, bits) if required else None
                its = target.bits(at)
            found = end.indexes[role](at or 0, its)
            return otherwise(number, bits) if found is None and required else found

        return index

    def _copied(self, path: Path, otherwise: Make, required: bool) -> Make:
        """The value at the end of a path; where it breaks off, None if that is allowed, else a drawn value."""
        steps, end = self._steps(path.roles)
        column = path.column

        def value(number: int, bits: int) -> object:
            at: int | None = number
            its = bits
            for here, name, target in steps:
                at = here.indexes[name](at or 0, its)
                if at is None:
                    return otherwise(number, bits) if required else None
                its = target.bits(at)
            found = end.makes[column](at or 0, its)
            return otherwise(number, bits) if found is None and required else found

        return value


def _remembered_key(target: Rows) -> Callable[[int], tuple[object, ...]]:
    """Keys of a target's rows: of few rows all are kept, of many the last one (neighbours often share a parent)."""
    known: dict[int, tuple[object, ...]] = {}
    most = REMEMBERED if target.count <= REMEMBERED else 1

    def key(number: int) -> tuple[object, ...]:
        found = known.get(number)
        if found is None:
            if len(known) >= most:
                known.clear()
            found = known[number] = target.key(number)
        return found

    return key


def _latest(index: Index) -> Index:
    """Remembers the last row's answer, since all columns of a reference and its snapshots ask for the same one."""
    known: tuple[int, int | None] = (-1, None)

    def latest(number: int, bits: int) -> int | None:
        nonlocal known
        last = known
        if last[0] == number:
            return last[1]
        found = index(number, bits)
        known = (number, found)
        return found

    return latest


def _by_number(index: Callable[[int], int | None]) -> Index:
    return lambda number, bits: index(number)


def _numbered(number: Callable[[int], int], at: Callable[[int], object]) -> Make:
    if number is by_row:
        return lambda row, bits: at(row)
    known = remember(at, REMEMBERED)

    def make(row: int, bits: int) -> object:
        place = number(row)
        return known(place) if place >= 0 else None

    return make
