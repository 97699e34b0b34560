"""Chunks: some rows of one entity, whose columns and references are worked out together, and at most once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keyplan.data.numbers import Bits, Numbers, as_bits, mixed

Make = Callable[["Chunk"], Sequence[Any]]
Index = Callable[["Chunk"], Numbers]


@dataclass
class Compiled:
    """What makes the rows of an entity. A chunk of any rows of it can be made from this alone."""

    salt: int
    makes: Mapping[str, Make]
    """By column."""
    indexes: Mapping[str, Index]
    """By reference: which rows of the target it points at, -1 for none."""
    targets: Mapping[str, Compiled]
    """By reference."""
    remembered: Mapping[str, Callable[[Numbers], Sequence[Any]]]
    """Columns by the numbers of rows, for an entity of few rows: made once and kept."""


class Chunk:
    """Rows by their numbers."""

    def __init__(self, compiled: Compiled, numbers: Numbers) -> None:
        self.compiled = compiled
        self.numbers = numbers
        self._bits: Bits | None = None
        self._columns: dict[str, Sequence[Any]] = {}
        self._indexes: dict[str, Numbers] = {}
        self._links: dict[str, Link] = {}

    @property
    def bits(self) -> Bits:
        """Each row's own 64 bits, from which every column takes its share."""
        if self._bits is None:
            self._bits = mixed(as_bits(self.numbers) + self.compiled.salt)
        return self._bits

    def column(self, name: str) -> Sequence[Any]:
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self.compiled.makes[name](self)
        return found

    def looked_up(self, name: str) -> Sequence[Any]:
        """A column, from among the values of all rows if they are few."""
        remembered = self.compiled.remembered.get(name)
        return self.column(name) if remembered is None else remembered(self.numbers)

    def index(self, role: str) -> Numbers:
        found = self._indexes.get(role)
        if found is None:
            found = self._indexes[role] = self.compiled.indexes[role](self)
        return found

    def link(self, role: str) -> Link:
        """The rows that a reference leads to."""
        found = self._links.get(role)
        if found is None:
            found = self._links[role] = _link(self.index(role), self.compiled.targets[role])
        return found

    def along(self, roles: Sequence[str], column: str) -> Sequence[Any]:
        """The values at the end of a path, None where it breaks off."""
        if not roles:
            return self.looked_up(column)
        link = self.link(roles[0])
        return link.spread(link.chunk.along(roles[1:], column))

    def indexes_along(self, roles: Sequence[str], role: str) -> Numbers:
        """Where the reference at the end of a path leads, -1 where it breaks off."""
        if not roles:
            return self.index(role)
        link = self.link(roles[0])
        return link.spread_numbers(link.chunk.indexes_along(roles[1:], role))


@dataclass(frozen=True)
class Link:
    """The rows that those of a chunk point at."""

    chunk: Chunk
    places: Numbers | None
    """For each pointing row its target's place in the chunk, -1 if it points at none; None: they stand row by row."""

    def spread(self, values: Sequence[Any]) -> Sequence[Any]:
        """Values of the targets as values of those that point at them."""
        if self.places is None:
            return values
        padded = [*values, None]
        return list(map(padded.__getitem__, self.places.tolist()))

    def spread_numbers(self, numbers: Numbers) -> Numbers:
        return numbers if self.places is None else np.append(numbers, -1)[self.places]


def _link(index: Numbers, target: Compiled) -> Link:
    """Only those that are there are made; neighbours that share a target, as the rows of a run do, share its making."""
    present = index >= 0
    fresh = np.empty(len(index), dtype=np.bool_)
    fresh[:1] = True
    fresh[1:] = index[1:] != index[:-1]
    made = present & fresh
    count = int(made.sum())
    if 4 * count > 3 * len(index) and present.all():
        return Link(Chunk(target, index), None)
    return Link(Chunk(target, index[made]), np.where(present, np.cumsum(made) - 1, -1))
