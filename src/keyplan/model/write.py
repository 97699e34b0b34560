"""What changes: writes and transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keyplan.model.pattern import Condition, Operand, Traffic
from keyplan.model.types import Type

Children = Mapping[str, "Children"]
"""A tree of to-many roles."""


@dataclass(frozen=True)
class Write:
    """A named write.

    kind: create, upsert (whole row), change (upsert with set/add: created from defaults if missing), update, delete.
    """

    name: str
    kind: str
    entity: str
    where: tuple[Condition, ...] = ()
    by_key: bool = True
    """The `where` fixes the key: at most one row. Creates and upserts take the key as arguments."""
    rows: float | None = None
    sets: Mapping[str, Operand] = field(default_factory=dict)
    """Column to operand; a field listed in `set: [name]` is Param(name)."""
    adds: Mapping[str, Operand] = field(default_factory=dict)
    condition: tuple[Condition, ...] = ()
    """`if`."""
    children: Children = field(default_factory=dict)
    """`with`: what is created or cascaded along."""
    returns: tuple[str, ...] = ()
    """Columns."""
    traffic: Traffic = field(default_factory=lambda: Traffic(1.0))
    p99_ms: float | None = None
    params: Mapping[str, Type] = field(default_factory=dict)
    """Parameters of where, set, add and if. The fields of a created row are not among them."""
    note: str = ""
    line: int = 0


@dataclass(frozen=True)
class Repeat:
    """One write of a transaction, usually `usual` times and at most `most` times; called with a list if `many`."""

    write: str
    usual: float = 1.0
    most: int = 1
    many: bool = False


@dataclass(frozen=True)
class Transaction:
    """Writes that succeed or fail together."""

    name: str
    parts: tuple[Repeat, ...]
    traffic: Traffic | None = None
    """None: as often as its first write, whose own rate then counts these calls."""
    line: int = 0
