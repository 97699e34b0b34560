"""Rows to be created: the caller's fields, and all that is filled in where the caller left something out.

What is left out of a create or upsert is, in this order: generated (a uuid or ulid that is a key part), its `default`,
the clock (`now`), copied (`from`), missing (`optional`), empty (a set or list); else the call is refused.

A copy needs another row, which only a store or `reference` can read. So a `NewRow` lists its `sources`; whoever reads
them calls `copy_in` for each, and then `expiry`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from keyplan.errors import ArgumentError
from keyplan.model.arguments import check_names, field_values, missing_arguments
from keyplan.model.entity import EXPIRES, Entity, Field, Role
from keyplan.model.identifiers import new_ulid, new_uuid
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from keyplan.model.types import Type
from keyplan.model.values import canonical

NewId = Callable[[Type, datetime], Any]
"""Makes a new uuid or ulid at a moment."""

_LAST = datetime.max.replace(microsecond=999_000, tzinfo=UTC)


@dataclass
class NewRow:
    """A row as it will be, with all its stored columns, and the rows that are created along with it."""

    entity: str
    label: str
    """Where it comes from, for messages: the call, and the place inside its arguments."""
    values: dict[str, Any]
    filled: list[str] = field(default_factory=list)
    """The columns that the caller left out and the store fills in."""
    sources: dict[str, Path] = field(default_factory=dict)
    """Column to the path whose value is still to be copied in."""
    is_new: bool = False
    """A part of the key was generated, so that no such row can exist."""
    children: dict[str, list[NewRow]] = field(default_factory=dict)

    def key(self, entity: Entity) -> tuple[Any, ...]:
        return tuple(self.values[column] for column in entity.key)


def generate(type: Type, now: datetime) -> Any:
    """A uuid or ulid that nobody has seen before."""
    return new_uuid() if type.kind == "uuid" else new_ulid(int(now.timestamp() * 1000))


def row_from_arguments(
    model: Model,
    label: str,
    entity: str,
    arguments: Mapping[str, Any],
    *,
    now: datetime,
    children: Mapping[str, Mapping[str, Any]] | None = None,
    new_id: NewId = generate,
) -> NewRow:
    """The row that the arguments of a create or upsert describe, with its children."""
    return _Maker(model, label, now, new_id).row(entity, arguments, children or {}, "", None)


def row_from_columns(
    model: Model,
    label: str,
    entity: str,
    given: Mapping[str, Any],
    *,
    now: datetime,
    later: frozenset[str] = frozenset(),
    new_id: NewId = generate,
) -> NewRow:
    """The row that an upsert with `set` and `add` starts from: some columns, defaults for the others.

    Columns in `later` get their value afterwards, and are missing for now if they have no default.
    """
    new = NewRow(entity, label, dict(given))
    _Maker(model, label, now, new_id).fill(new, "", later)
    return new


def copy_in(model: Model, new: NewRow, column: str, value: Any) -> None:
    """Gives a `from` column the value of its source, or refuses the call if there is none and one is needed."""
    about = model.entities[new.entity].columns[column]
    source = new.sources.pop(column)
    if value is None and not about.optional:
        raise ArgumentError(f"{new.label}: '{column}' has nothing to copy, as '{source}' is missing; give a value")
    try:
        new.values[column] = None if value is None else canonical(about.type, value)
    except ValueError as error:
        raise ArgumentError(f"{new.label}: '{column}', copied from '{source}': {error}") from None


def expiry(entity: Entity, values: Mapping[str, Any], created: datetime) -> datetime | None:
    """When a row is gone: so long after its creation, or after the value of the `since` field; None for never."""
    if entity.ttl is None:
        return None
    start = values[entity.ttl.since] if entity.ttl.since is not None else created
    if start is None:
        return None
    assert isinstance(start, datetime)
    try:
        return start + timedelta(milliseconds=entity.ttl.ms)
    except OverflowError:
        return _LAST


class _Maker:
    """Makes the rows of one call, all at the same moment."""

    def __init__(self, model: Model, label: str, now: datetime, new_id: NewId) -> None:
        self.model = model
        self.label = label
        self.now = now
        self.new_id = new_id

    def row(
        self,
        name: str,
        arguments: Mapping[str, Any],
        children: Mapping[str, Mapping[str, Any]],
        place: str,
        parent: tuple[Role, tuple[Any, ...]] | None,
    ) -> NewRow:
        """One row; `place` is where its arguments stand, such as `items[2].`."""
        entity = self.model.entities[name]
        label = f"{self.label}: {place[:-1]}" if place else self.label
        fields = [
            one.name
            for one in entity.fields.values()
            if one.computed is None and (parent is None or one.name != parent[0].field)
        ]
        check_names(label, (*fields, *children), arguments)
        new = NewRow(name, label, {})
        if parent is not None:
            new.values |= zip(parent[0].columns, parent[1], strict=True)
        for one in fields:
            if one in arguments:
                new.values |= field_values(entity, self.label, f"{place}{one}", one, arguments[one])
        self.fill(new, place)
        for role_name, inner in children.items():
            role = entity.roles[role_name]
            given = self.child_arguments(role, f"{place}{role_name}", arguments.get(role_name))
            new.children[role_name] = [
                self.row(role.entity, one, inner, f"{place}{role_name}[{index}].", (role, new.key(entity)))
                for index, one in enumerate(given)
            ]
        return new

    def child_arguments(self, role: Role, name: str, given: Any) -> list[Mapping[str, Any]]:
        if given is None:
            return []
        rows = [given] if role.most == 1 and isinstance(given, Mapping) else given
        if not isinstance(rows, list | tuple):
            raise ArgumentError(f"{self.label}: argument '{name}': expected a list, got {given.__class__.__name__}")
        if role.most is not None and len(rows) > role.most:
            raise ArgumentError(f"{self.label}: argument '{name}' has {len(rows)} rows; at most {role.most}")
        for index, one in enumerate(rows):
            if not isinstance(one, Mapping):
                raise ArgumentError(
                    f"{self.label}: argument '{name}[{index}]': expected a mapping, got {one.__class__.__name__}"
                )
        return list(rows)

    def fill(self, new: NewRow, place: str, later: frozenset[str] = frozenset()) -> None:
        """Fills in every stored column that has no value yet."""
        entity = self.model.entities[new.entity]
        missing: list[str] = []
        for one in entity.fields.values():
            columns = [column for column in entity.columns.values() if column.field == one.name]
            if one.computed is not None or all(column.name in new.values for column in columns):
                continue
            if any(column.name in new.values for column in columns):
                missing.append(f"{place}{one.name}")  # a reference of which only a part was given
            elif not self.fill_field(entity, one, new):
                if not later >= {column.name for column in columns}:
                    missing.append(f"{place}{one.name}")
                new.values |= {column.name: None for column in columns}
        if missing:
            raise missing_arguments(self.label, missing)
        if entity.ttl is not None:
            new.values[EXPIRES] = None

    def fill_field(self, entity: Entity, one: Field, new: NewRow) -> bool:
        """Fills in the columns of a field that was left out; False if there is nothing to fill in."""
        columns = [column for column in entity.columns.values() if column.field == one.name]
        kind = one.type.kind if one.type is not None else ""
        value: Any = None
        if kind in ("uuid", "ulid") and one.name in entity.key and one.default is None and one.source is None:
            assert one.type is not None
            value = self.new_id(one.type, self.now)
            new.is_new = True
        elif one.default is not None:
            value = one.default
        elif one.now:
            value = self.now.date() if kind == "date" else self.now
        elif one.source is not None:
            new.sources[one.name] = self.model.resolve(new.entity, one.source)
        elif kind in ("set", "list"):
            new.values[one.name] = frozenset() if kind == "set" else ()
            return True
        elif all(column.optional for column in columns):
            new.values |= {column.name: None for column in columns}
            return True
        else:
            return False
        parts = value if len(columns) > 1 and isinstance(value, tuple) else [value]
        new.values |= zip([column.name for column in columns], parts, strict=True)
        new.filled += [column.name for column in columns]
        return True
