"""What changes: writes and transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keyplan.model.entity import Entity, Role
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


def is_told_by_others(entity: Entity, condition: Condition) -> bool:
    """Whether other rows tell if a condition holds for a row: it is about what is behind roles, or computed of them."""
    paths = (condition.path, *condition.also)
    return any(path.roles or entity.columns[path.column].computed is not None for path in paths)


def has_to_be_found(entity: Entity, write: Write) -> bool:
    """Whether the key does not say all that is to be known of which rows an update or delete means."""
    return not write.by_key or any(is_told_by_others(entity, condition) for condition in write.where)


def written_entities(entities: Mapping[str, Entity], write: Write) -> set[str]:
    """The entities whose rows a write makes, changes or takes away."""
    return {write.entity, *written_along(entities, write)}


def written_along(entities: Mapping[str, Entity], write: Write) -> set[str]:
    """The entities of the children that a write makes or takes away along."""
    return {along.role.entity for along in rows_along(entities, write)}


@dataclass(frozen=True)
class Along:
    """Children that a write makes or takes away along with their parents."""

    above: int
    """Which of the rows of one call the parents are: the first are those of the write itself, then come these, in their
    order."""
    parent: str
    role: Role
    """Of the parents, which leads to them."""


def rows_along(entities: Mapping[str, Entity], write: Write) -> list[Along]:
    """All of them, parents before their children."""
    found: list[Along] = []
    _add_along(found, entities, 0, write.entity, write.children)
    return found


def _add_along(found: list[Along], entities: Mapping[str, Entity], above: int, entity: str, children: Children) -> None:
    for name, deeper in children.items():
        role = entities[entity].roles[name]
        found.append(Along(above, entity, role))
        _add_along(found, entities, len(found), role.entity, deeper)
