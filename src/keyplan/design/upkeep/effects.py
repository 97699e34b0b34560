"""The nouns of keeping views true: what a write does to rows, what that does to entries, and what it has to read."""

from __future__ import annotations

from dataclasses import dataclass

from keyplan.design.needs.need import Need
from keyplan.engines.work import Cost, TouchWork


@dataclass(unsafe_hash=True)
class Demand:
    """A need that a write has because of a view: the old row, rows to fan out to, or values to copy in."""

    write: str
    what: str
    """old, fan, copy, refill or group."""
    label: str
    need: Need
    times: float = 1.0


@dataclass(frozen=True)
class Carry:
    """Computed values that the home of an entity has along for a view: a write that changes them changes rows there,
    unless a home under exactly the entity's key holds them anyway."""

    entity: str
    label: str
    paths: frozenset[str]
    work: TouchWork
    cost: Cost
    """Of the patches in the home, together with other rows."""


@dataclass(frozen=True)
class Check:
    """Something that is done with a write once, whichever views ask for it: that a row which values are copied from is
    checked to be as it was read, or that an intent is noted."""

    entity: str
    label: str
    times: float
    cost: Cost
    """Of all of them, in a transaction."""
    most: float = 0.0
    """The most rows of one call that are checked."""


@dataclass(unsafe_hash=True)
class Upkeep:
    """One view's part of one write."""

    work: TouchWork
    cost: Cost
    entries: float
    """Self-kept entries touched (0 for views kept by the engine)."""
    most: float = 0.0
    """The most self-kept entries that a call touches directly, without fanning out; inf if nothing bounds it."""
    demands: tuple[Demand, ...] = ()
    most_checks: float = 0.0
    """The most rows that are checked along, because values are copied from them."""
    most_following: float = 0.0
    """The most entries of rows that repeat a value of what a call changes; inf if nothing bounds them."""
    carries: tuple[Carry, ...] = ()
    checks: tuple[Check, ...] = ()
    looks: float = 0.0
    """How often others are looked for within the write, which makes a transaction of it; its price is elsewhere."""


@dataclass(frozen=True)
class Effect:
    """What one call of a write does to rows of one entity."""

    entity: str
    kind: str
    """create, replace, update or delete."""
    times: float
    columns: frozenset[str] = frozenset()
    """update: the columns that change."""
    old_known: bool = False
    """The old row is in hand anyway."""
    parents_known: frozenset[str] = frozenset()
    """To-one roles whose target is written by the same call."""
    most: float = 1.0
    """The most rows of it that one call changes together."""
    siblings: bool = False
    """All of them have the same parent."""
    above: Effect | None = None
    """That of their parents, where these are written by the same call."""


@dataclass(unsafe_hash=True, slots=True)
class Change:
    """What the change of one row does to its entry, or to the group that it counts in."""

    puts: float = 0.0
    patches: float = 0.0
    moves: float = 0.0
    deletes: float = 0.0
    adds: float = 0.0
    needs_old: bool = False
    """The row as it was has to be known."""
    copies: bool = False
    """Values that the entry copies may have to be read."""
