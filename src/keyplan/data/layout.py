"""Layouts: how the rows of an entity are numbered so that keys and unique fields really are unique.

Every value of a row follows from the row's number alone; nothing is remembered about other rows. So uniqueness has
to come from arithmetic. For each set of columns that is unique together (the key first of all) some fields are
*assigned*: they take their value from a number that differs between rows.

- A part with room for all rows (an int, a uuid, a long string) takes the row's number.
- A key with a whole reference in it is laid out in runs, one per parent (see `fanout`); the other parts need to
  differ only within the run, and take the place in it. So `[order, line]` has lines that count from 1. Where it is
  stated how many values a part has, each run begins with another one, so that all of them are there as often.
- Parts with little room (enums, further references) share a number, as the digits of a clock share the time.

Where even that has too little room for the rows wanted, there are fewer rows, or, if a part is optional, rows
without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from keyplan.data.domain import Domain, Span, domain, moments
from keyplan.data.fanout import Fanout, Located
from keyplan.data.numbers import MOST_ROWS, Numbers, as_bits, as_numbers, evenly, mixed, permutation, salt
from keyplan.model.entity import Entity, Field

IN_RUN = ("string", "text", "int", "decimal", "date", "timestamp")
"""Types that look natural as a place within a run (labels, line numbers); the others take the row's number."""

Number = Callable[[Numbers], Numbers]
"""From rows to numbers or indexes; -1 stands for none."""


class Layout:
    """The numbering of one entity's rows; `rows` is how many there are."""

    def __init__(
        self, entity: Entity, wanted: int, sizes: Mapping[str, int], span: Span, since: Span, seed: object
    ) -> None:
        self.entity = entity
        self.rows = min(wanted, MOST_ROWS)
        self.sizes = sizes
        self.span = span
        self.since = since
        self.key_fields = {entity.columns[name].field for name in entity.key}
        self.seed = seed
        self.leading: Field | None = None
        self.run_most: int | None = None
        self.fanout: Fanout | None = None
        self.numbers: dict[str, Number] = {}
        """Assigned fields of a value type: the number in their domain."""
        self.domains: dict[str, Domain] = {}
        self.indexes: dict[str, Number] = {}
        """Assigned references: the number of the target's row."""
        self._last: tuple[Numbers, Located] | None = None
        self.apart: set[str] = set()
        """Assigned fields that differ between any two rows."""
        self._solve()

    def _solve(self) -> None:
        sets = [self.entity.key, *self.entity.unique]
        done: list[set[str]] = []
        for columns in sorted(sets, key=lambda columns: (len(self._fields(columns)), columns != self.entity.key)):
            mine = set(columns)
            if not any(other <= mine for other in done):
                self._assign(columns)
            done.append(mine)
        self._cap_references()
        if self.leading is not None:
            field = self.leading
            parents = self._capacity(field)
            if self.run_most is not None:
                self.rows = min(self.rows, parents * self.run_most)
            self.fanout = Fanout(self.rows, parents, self.run_most, field.skew, field.top, self._salt(field, "run"))

    def _fields(self, columns: tuple[str, ...]) -> list[Field]:
        names = dict.fromkeys(self.entity.columns[column].field for column in columns)
        return [self.entity.fields[name] for name in names]

    def _whole(self, field: Field, columns: tuple[str, ...]) -> bool:
        """Whether all columns of a reference are there; `customer.district` alone does not tell customers apart."""
        if field.target is None:
            return True
        return set(self.entity.roles[field.name].columns) <= set(columns)

    def _assign(self, columns: tuple[str, ...]) -> None:
        fields = [field for field in self._fields(columns) if self._whole(field, columns)]
        if any(field.name in self.apart for field in fields):
            return
        open_ = [field for field in fields if not self.is_assigned(field)]
        # Snapshots follow their source, so they tell rows apart only where nothing else can.
        open_ = [field for field in open_ if field.source is None] or open_
        ample = [field for field in open_ if field.target is None and self._capacity(field) >= self.rows]
        is_key = columns == self.entity.key
        if self.leading is None and len(self._fields(columns)) > 1 and (is_key or not ample):
            self._lead([field for field in open_ if field.target is not None])
            open_ = [field for field in open_ if field is not self.leading]
        in_run = self.leading is not None and self.leading in fields
        if ample:
            last = ample[-1]
            assert last.type is not None
            if in_run and last.type.kind == "timestamp":
                self.numbers[last.name] = by_row
                self.domains[last.name] = Domain(self.rows, self._times(last))
            else:
                natural = in_run and last.type.kind in IN_RUN and last.distinct is None
                self._number(last, self._place if natural else by_row)
        else:
            optional = not is_key and any(field.optional is not None for field in fields)
            self._digits(open_, in_run, optional)

    def is_assigned(self, field: Field) -> bool:
        """Whether the layout decides the field's values."""
        return field is self.leading or field.name in self.numbers or field.name in self.indexes

    def _lead(self, references: list[Field]) -> None:
        """Chooses the reference whose parents the rows are grouped by: a skewed one can only be honoured so."""
        references = [field for field in references if field.target != self.entity.name and field.source is None]
        if not references:
            return
        skewed = [field for field in references if field.skew is not None or field.top is not None]
        self.leading = (skewed or references)[0]
        self.run_most = self.leading.most
        self.indexes[self.leading.name] = self._parent

    def _digits(self, fields: list[Field], in_run: bool, optional: bool) -> None:
        """Lets fields of little room share a number, the last one changing fastest."""
        rooms = [self._capacity(field) for field in fields]
        room = prod(rooms)
        if in_run:
            self.run_most = room if self.run_most is None else min(self.run_most, room)
        elif not optional:
            self.rows = min(self.rows, room)
        below = 1
        for field, size in zip(reversed(fields), reversed(rooms), strict=True):
            digit = _digit(self._place if in_run else by_row, below, size)
            limit = None if in_run else room
            if field.target is None:
                if in_run and _is_even(field):
                    digit = self._turned(field, digit, size)
                self._number(field, digit if limit is None else _limited(digit, limit))
            else:
                self._refer(field, digit, size, in_run, limit)
            below *= size
        if len(fields) == 1 and not in_run:
            self.apart.add(fields[0].name)

    def _number(self, field: Field, number: Number) -> None:
        self.numbers[field.name] = number
        if number is by_row:
            self.apart.add(field.name)
        self.domains[field.name] = self._domain(field)

    def _refer(self, field: Field, digit: Number, size: int, in_run: bool, limit: int | None) -> None:
        shuffle = permutation(size, self._salt(field, "shuffle"))
        turned = self._turned(field, digit, size) if in_run else digit

        def index(rows: Numbers) -> Numbers:
            found = shuffle(turned(rows))
            return found if limit is None else np.where(rows < min(limit, 2**62), found, -1)

        self.indexes[field.name] = index

    def _turned(self, field: Field, digit: Number, size: int) -> Number:
        """A digit that begins elsewhere in each run."""
        seed = 0 if field.target is not None else self._salt(field, "turn")

        def number(rows: Numbers) -> Numbers:
            return (digit(rows) + as_numbers(mixed(as_bits(self._parent(rows)) ^ seed) % size)) % size

        return number

    def _capacity(self, field: Field) -> int:
        distinct = self.distinct(field)
        if field.target is not None:
            size = self.rows if field.target == self.entity.name else self.sizes[field.target]
            return max(1, size if distinct is None else min(size, distinct))
        size = self._domain(field).size
        return size if distinct is None else min(size, distinct)

    def _domain(self, field: Field) -> Domain:
        assert field.type is not None
        wanted = self.distinct(field) or self.rows
        if self.leading is not None and field.type.kind in IN_RUN and field.distinct is None:
            parents = max(1, self._capacity(self.leading))
            wanted = min(wanted, self.run_most or 4 * (self.rows // parents + 1))
        return domain(field.type, wanted, self.span_of(field), self._salt(field), field.name)

    def distinct(self, field: Field) -> int | None:
        """How many values the field has. Large numbers shrink with the rows, so that as many rows share a value."""
        if field.distinct is None:
            return None
        stated = max(1, round(field.distinct))
        if stated <= 1000 or self.entity.count <= 0:
            return stated
        return max(1000, min(stated, round(stated * self.rows / self.entity.count)))

    def span_of(self, field: Field) -> Span:
        """The time a field's values come from."""
        ttl = self.entity.ttl
        return self.since if ttl is not None and ttl.since == field.name else self.span

    def _cap_references(self) -> None:
        """A required reference with a `max` leaves room for so many rows only."""
        for field in self.entity.fields.values():
            if field.target in (None, self.entity.name) or field.most is None or field is self.leading:
                continue
            if field.optional is None and field.source is None:
                self.rows = min(self.rows, field.most * self._capacity(field))

    def _salt(self, field: Field, what: str = "") -> int:
        return salt(self.seed, self.entity.name, field.name, what)

    def _times(self, field: Field) -> Callable[[Numbers], Sequence[object]]:
        """Times by row that ascend within each run and spread over the whole span."""
        span, seed = self.span_of(field), self._salt(field)

        def at(rows: Numbers) -> Sequence[object]:
            found = self.located(rows)
            steps = span.ms // found.sizes
            unrest = evenly(mixed(as_bits(rows) ^ seed), as_bits(steps))
            even = span.start + found.places * steps + unrest
            return moments(np.where(steps == 0, span.end - (found.sizes - 1 - found.places), even))

        return at

    def located(self, rows: Numbers) -> Located:
        """The parents of rows that are laid out in runs; asked for several times in a row, it is worked out once."""
        if self._last is None or self._last[0] is not rows:
            assert self.fanout is not None
            self._last = rows, self.fanout.locate(rows)
        return self._last[1]

    def _parent(self, rows: Numbers) -> Numbers:
        return self.located(rows).parents

    def _place(self, rows: Numbers) -> Numbers:
        return self.located(rows).places


def _is_even(field: Field) -> bool:
    """Whether it is stated how many values there are, and not that some of them are more frequent."""
    return field.distinct is not None and field.skew is None and field.top is None


def by_row(rows: Numbers) -> Numbers:
    """The row's own number."""
    return rows


def _digit(number: Number, below: int, size: int) -> Number:
    if below >= 2**62:
        return lambda rows: np.zeros_like(rows)
    most = min(size, 2**62)
    return lambda rows: number(rows) // below % most


def _limited(number: Number, limit: int) -> Number:
    return lambda rows: np.where(rows < min(limit, 2**62), number(rows), -1)
