"""The uuids and ulids that a load fills in: remembered while their batch is written, and the same again for a load that
goes on.

A batch is not written at once. One that was cut off is written again by the load that goes on, and its rows have to
come under the same keys, or they would be there twice. Nothing but the rows themselves is there both times. So the keys
are worked out from them: each from the first row of the load, the row itself, and all rows of its entity before it that
were given no key either. So two loads have the same keys only as far as they have the same rows from the first on, and
a row that is put right or taken out, after it stopped a load, does not change the keys of other entities, of which more
rows may be written already.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

from keyplan.model.identifiers import ulid_of, uuid_of
from keyplan.model.model import Model
from keyplan.model.new_row import NewId, row_maker
from keyplan.model.types import Type

_HALF = 2**40 - 1
_BEYOND = ulid_of(2**40, 0, 0)
"""Ulids with a time in them come behind it, those with the number of a row before it."""


class Keys:
    """The generated keys of a load."""

    def __init__(self, model: Model, new_id: NewId, derived: bool) -> None:
        """`derived`: worked out from the rows; else `new_id` makes them."""
        self.model = model
        self.derived = derived
        self.there: dict[str, Sequence[int]] = {}
        """Of entities whose rows were looked through: the hashes of all keys that are there and may have been worked
        out, in order."""
        self._new_id = new_id
        self._chains: dict[str, _Chain] = {}
        self._first: str | None = None
        """The first row of the load."""
        self._made: dict[int, list[Any]] = {}
        """Those of the batch at hand, by the numbers of their rows."""

    def begin(self, batch: Sequence[Any]) -> None:
        """Goes on to another batch."""
        self._made.clear()
        self._seen(batch[0])

    def of(self, number: int, entity: str, fields: Mapping[str, Any]) -> NewId:
        """What makes the ids of a row: those that it had before, if it is looked at once more."""
        known = iter(self._made.get(number, ()))

        def make(type: Type, now: datetime) -> Any:
            found = next(known, None)
            if found is None:
                found = self._derive(type, entity, fields) if self.derived else self._new_id(type, now)
                self._made.setdefault(number, []).append(found)
            return found

        return make

    def is_new(self, entity: str, key: tuple[Any, ...]) -> bool:
        """Whether no row can be there under a key that was generated."""
        there = self.there.get(entity)
        if not self.derived or there is None:
            return not self.derived
        number = hash(key)
        place = bisect_left(there, number)
        return place == len(there) or there[place] != number

    def has_seen(self, entity: str, found: array[int]) -> None:
        """All rows of an entity were looked through; these are the hashes of those of their keys that are derived."""
        self.there[entity] = array("q", sorted(found))

    def passed(self, rows: Iterable[Any]) -> int:
        """Counts rows that are left out since they are written; the keys of those that follow depend on them."""
        count = 0
        for row in rows:
            count += 1
            self._seen(row)
            if self.derived and isinstance(row, tuple | list) and len(row) == 2:
                entity, fields = row
                for type in self.left_out(entity, fields):
                    self._derive(type, entity, fields)
        return count

    def are_chained(self, entity: str) -> bool:
        """Whether the key of a row may depend on the rows of its entity before it."""
        return self.derived and bool(row_maker(self.model, entity).generated)

    def left_out(self, entity: Any, fields: Any) -> list[Type]:
        """The types of the ids that a row has to be given; none if it is no row."""
        if not isinstance(entity, str) or entity not in self.model.entities or not isinstance(fields, Mapping):
            return []
        return [type for name, type in row_maker(self.model, entity).generated if name not in fields]

    def _seen(self, row: Any) -> None:
        if self._first is None:
            is_row = isinstance(row, tuple | list) and len(row) == 2 and isinstance(row[1], Mapping)
            self._first = f"{row[0]!r} {_content(row[1])}" if is_row else ""

    def _derive(self, type: Type, entity: str, fields: Mapping[str, Any]) -> Any:
        chain = self._chains.get(entity)
        if chain is None:
            chain = self._chains[entity] = _Chain(f"{entity}\n{self._first}")
        number = chain.add(_content(fields))
        if type.kind == "uuid":  # version 8: made of whatever its maker likes
            return uuid_of(number & ~(0xF << 76) & ~(0x3 << 62) | 0x8 << 76 | 0x2 << 62)
        # The time would be another one for the load that goes on; the count keeps them in the order of the rows.
        return ulid_of(chain.count, number >> 40 & _HALF, number & _HALF)


def is_derived(key: Sequence[Any]) -> bool:
    """Whether a part of a key is such as loads work out."""
    return any(
        value.version == 8 if isinstance(value, UUID) else isinstance(value, str) and value < _BEYOND for value in key
    )


class _Chain:
    """A digest of rows, one after the other."""

    def __init__(self, before: str) -> None:
        self.count = 0
        self._digest = blake2b(before.encode(errors="surrogatepass"), digest_size=16)

    def add(self, content: str) -> int:
        """The number, of 128 bits, of all rows up to this one."""
        self.count += 1
        self._digest.update(f"\n{content}".encode(errors="surrogatepass"))
        return int.from_bytes(self._digest.digest())


def _content(fields: Mapping[str, Any]) -> str:
    """A row as text, the same in every process: sets have an order in each that is its own, and some things an address
    that they show."""
    return ", ".join(sorted([f"{name!r}: {_text(value)}" for name, value in fields.items()]))


def _text(value: Any) -> str:
    if isinstance(value, str | int):
        return repr(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join([f'{name!r}: {_text(one)}' for name, one in value.items()])}}}"
    if isinstance(value, Set):
        return f"{{{', '.join(sorted(map(_text, value)))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, memoryview):
        return repr(bytes(value))
    return value.isoformat() if isinstance(value, datetime) else repr(value)
