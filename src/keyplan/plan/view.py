"""Views: what a design keeps, and under which keys.

A view holds **entries**. Each row of its entity gives one entry, under the key formed by the view's parts:
the values of `partition`, then those of `sort`. Two rules hold for every view of every engine:

- A row has an entry exactly if every part of the key is present and the view's `where` holds. A part over an
  optional column, or across a reference that may dangle, makes the view *sparse*; no key ever holds a gap.
  Only groups of measures may be `or_missing`.
- Unless it is `unique` or has `measures`, a view's key ends with (or contains) the entity's key, so that two rows
  never share an entry.

An entry is a flat dict from path (`total`, `user.name`) to value. A path through a to-one role is a *copy*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from keyplan.model.entity import EXPIRES
from keyplan.model.pattern import Condition, Term

COPIES = "copies"
"""The cut of a part that spreads the reads of a hot entry: the entry is kept under every number below `ways`."""
COUNT = "$count"
"""The measure that every view with measures keeps: a group exists while it is above 0."""
VERSION = "$version"
"""Of a subset (`Embed.limit`): how often its parent's children have been written, those included that it does not keep.
It is read with the rows of the subset, and tested by the writes that take one of them away.
Of a group that keeps a minimum or maximum, the measure of this name counts the changes of its rows, to the same end."""
FIRST_EXPIRES = "$first_expires"
"""The measure of groups whose rows expire: when the first of them does. Until then the other measures are right.
Groups that we keep also have the measure `$expires`, when the last of them does: then the group goes as its rows did.
Both are only ever extended, since a row that is taken off may not have been the only one with its moment."""


@dataclass(frozen=True)
class Part:
    """One part of a key: a value, a truncated value, each element of a set, each word of a text, or a shard."""

    path: str
    """The path from the view's entity; empty for a shard."""
    cut: str | None = None
    """A truncation (`day`), or `each` (one entry per element of the set), or `words` (one per word)."""
    ways: int = 1
    """More than 1: a shard number below it, from the hash of the entity's key; with the cut `copies`, one entry for
    every number below it, of which a read takes any."""
    descending: bool = False
    """Stored in inverted order, for orders of mixed directions."""
    also: tuple[str, ...] = ()
    """words: the further fields whose words count."""
    or_missing: bool = False
    """With measures: rows without the value have a group of their own, so that none is left out. The part is the
    value's text then (`plan/gaps.py`), because no key holds a gap."""

    def __str__(self) -> str:
        if self.cut == COPIES:
            return f"copy of {self.ways}"
        if self.ways > 1:
            return f"shard of {self.ways}"
        text = f"{self.cut}({', '.join((self.path, *self.also))})" if self.cut else self.path
        text += " or missing" if self.or_missing else ""
        return f"{text} desc" if self.descending else text


@dataclass(frozen=True)
class Measure:
    """An aggregate kept per group: `count()`, `sum(quantity * price)`, `max(sent_at)`."""

    how: str
    term: Term | None
    name: str
    """Its canonical text, which is its path in the entries."""


@dataclass(frozen=True)
class Embed:
    """Child rows stored with their parent's entry, in the order of `sort` (which ends with the child's key)."""

    role: str
    entity: str
    sort: tuple[Part, ...]
    holds: tuple[str, ...]
    embeds: tuple[Embed, ...] = ()
    limit: int | None = None
    """Only the first so many by `sort` are kept here (a subset); the child's home is elsewhere then. Fewer mean that
    there are no more children."""

    def __str__(self) -> str:
        return self.role if self.limit is None else f"first {self.limit} {self.role}"


@dataclass(frozen=True)
class View:
    """A structure as the designer sees it."""

    name: str
    entity: str
    kind: str
    """One of the engine's kinds: table, gsi, index, collection ..."""
    partition: tuple[Part, ...]
    sort: tuple[Part, ...]
    holds: tuple[str, ...]
    """The paths in each entry, sorted as the entity's columns, copies last; the key's own paths included.
    Empty with measures."""
    embeds: tuple[Embed, ...] = ()
    where: tuple[Condition, ...] = ()
    """Literal conditions on own columns: only these rows have an entry."""
    measures: tuple[Measure, ...] = ()
    """One entry per group of rows with equal key parts; `$count` is always among the values kept."""
    unique: bool = False
    """The key is the parts alone, without the entity's key: a second row with the same values is refused."""
    packed: bool = False
    """One partition is one stored value, such as the document of a time bucket; see `Kind.packs`."""
    base: str = ""
    """Kept by the engine over the entries of this other view; empty if we keep it ourselves."""

    def __hash__(self) -> int:
        """Worked out once: much is remembered per view."""
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            key = (self.name, self.entity, self.kind, self.partition, self.sort, self.holds, self.embeds, self.where)
            known = self.__dict__["_hash"] = hash((key, self.measures, self.unique, self.packed, self.base))
        return known

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (*self.partition, *self.sort)

    @property
    def extended(self) -> tuple[Measure, ...]:
        """The minima and maxima among its measures."""
        return tuple(measure for measure in self.measures if measure.how in ("min", "max"))

    @property
    def recomputed(self) -> tuple[Measure, ...]:
        """Those of them that are worked out anew from the rows of the group when one goes that may have been it."""
        return tuple(measure for measure in self.extended if measure.name not in (FIRST_EXPIRES, EXPIRES))

    def embed_at(self, roles: tuple[str, ...]) -> Embed | None:
        """The embed that a chain of to-many roles leads to; None for the view itself."""
        here: View | Embed = self
        for role in roles:
            here = next(embed for embed in here.embeds if embed.role == role)
        return here if isinstance(here, Embed) else None

    def nested(self) -> Iterator[tuple[tuple[str, ...], Embed]]:
        """Every embed of the view, at any depth, with the chain of roles that leads to it."""
        return _nested(self.embeds, ())


def _nested(embeds: Iterable[Embed], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Embed]]:
    for embed in embeds:
        at = (*above, embed.role)
        yield at, embed
        yield from _nested(embed.embeds, at)
