"""What there is: entities, their fields, and the columns and roles that follow from them.

Fields are what the user wrote. **Columns** are the scalar leaves behind them: a field of a scalar or
collection type is one column of the same name; a reference is one column per part of its target's key,
named after the field alone if there is one part, else `field.part`. So a reference to an entity with the
key `[order, line]` through the field `item` has the columns `item.order` and `item.line`.

A **role** leads from a row to other rows: a reference field leads to one row (to-one), its `as` name leads
back to many (to-many).

A **path** is a chain of roles and a column at its end. `Model.resolve` gives each path one form only: key
parts inside a reference are its columns (`user.user_id` on Order is the column `user`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from keyplan.model.types import Type

EXPIRES = "$expires"
"""The hidden column of an entity with a `ttl`: the moment at which the row is gone, or None for never."""


@dataclass(frozen=True)
class Computed:
    """A field that always equals an aggregate over a to-many role: `count(orders)`, `max(messages.sent_at)`."""

    how: str
    role: str
    column: str | None = None


@dataclass(frozen=True)
class Field:
    """A field as the user wrote it; either `type` (a value), `target` (a reference) or `computed` is set."""

    name: str
    type: Type | None = None
    target: str | None = None
    computed: Computed | None = None
    role: str | None = None
    """The name of the other side of a reference (`as orders`), on the target."""
    most: int | None = None
    """The most rows that may point at one target (`max 50`)."""
    optional: float | None = None
    """The share of rows that have a value, or None if every row has."""
    default: object = None
    distinct: float | None = None
    skew: float | None = None
    """Exponent of a Zipf distribution over the field's values."""
    top: float | None = None
    """Share of rows or traffic of the hottest value."""
    now: bool = False
    source: str | None = None
    """`from product.price`: the path whose value is copied in at create."""
    unique: bool = False
    immutable: bool = False
    note: str = ""
    line: int = 0


@dataclass(frozen=True)
class Column:
    """A scalar or collection value that each row of an entity has, or may be missing."""

    name: str
    type: Type
    field: str
    """The field it belongs to."""
    optional: bool
    immutable: bool
    """True for key parts too: they cannot be set."""
    computed: Computed | None = None
    hidden: bool = False


@dataclass(frozen=True)
class Role:
    """A way from a row to other rows."""

    name: str
    entity: str
    """The entity it leads to."""
    many: bool
    columns: tuple[str, ...]
    """To-one: the columns here that hold the target's key, in its key's order.
    To-many: the columns *there* that hold our key, in our key's order."""
    most: int | None = None
    """To-many: the most rows it leads to; 1 makes it a single row or None."""
    field: str = ""
    """The reference field it comes from, here (to-one) or there (to-many)."""


@dataclass(frozen=True)
class Ttl:
    """How long a row lives: from its creation, or since the value of a timestamp field."""

    ms: int
    since: str | None = None


@dataclass(frozen=True)
class Entity:
    """A set of rows. `columns`, `roles` and `key` are filled in by `Model`."""

    name: str
    fields: Mapping[str, Field]
    key_fields: tuple[str, ...]
    """The key as written: field names, or paths inside a reference's key."""
    count: float = 0.0
    unique: tuple[tuple[str, ...], ...] = ()
    """Sets of columns that are unique together, those of `unique` fields included."""
    ttl: Ttl | None = None
    skew: float | None = None
    top: float | None = None
    note: str = ""
    line: int = 0
    key: tuple[str, ...] = ()
    """The columns of the key, in order."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """Stored columns first, in the order written, then computed ones; `$expires` last."""
    roles: Mapping[str, Role] = field(default_factory=dict)

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """The columns a home has to hold: all but the computed ones."""
        return tuple(name for name, column in self.columns.items() if column.computed is None)
