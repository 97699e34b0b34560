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
from weakref import WeakKeyDictionary

from keyplan.errors import ArgumentError
from keyplan.model.arguments import check_names, field_values, missing_arguments, unfit
from keyplan.model.entity import EXPIRES, Entity, Field, Role
from keyplan.model.identifiers import new_ulid, new_uuid
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from keyplan.model.types import Type, to_give
from keyplan.model.values import canonical, checker
from keyplan.model.write import Children

NewId = Callable[[Type, datetime], Any]
"""Makes a new uuid or ulid at a moment."""

_LAST = datetime.max.replace(microsecond=999_000, tzinfo=UTC)


@dataclass(slots=True)
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
        return tuple([self.values[column] for column in entity.key])


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
    children: Children | None = None,
    new_id: NewId = generate,
) -> NewRow:
    """The row that the arguments of a create or upsert describe, with its children."""
    return row_maker(model, entity, children).row(label, arguments, now, new_id)


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
    return row_maker(model, entity).completed(label, given, now, new_id, later)


def copy_in(model: Model, new: NewRow, column: str, value: Any) -> None:
    """Gives a `from` column the value of its source, or refuses the call if there is none and one is needed."""
    entity = model.entities[new.entity]
    about = entity.columns[column]
    source = new.sources.pop(column)
    if value is None and about.type.is_collection:
        value = ()  # never missing, not even behind a reference that leads nowhere
    if value is None and not about.optional:
        what = f"'{column}' has nothing to copy, as '{source}' is missing; give a value"
    else:
        try:
            new.values[column] = None if value is None else canonical(about.type, value)
            return
        except ValueError as error:
            what = f"'{column}', copied from '{source}': {error}{to_give(about.type, error)}"
    refused = ArgumentError(f"{new.label}: {what}")
    refused.place = (new.entity, new.key(entity))
    raise refused


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


_makers: WeakKeyDictionary[Model, dict[tuple[str, str], RowMaker]] = WeakKeyDictionary()


def row_maker(model: Model, entity: str, children: Children | None = None) -> RowMaker:
    """The maker of an entity's rows, made once per model."""
    known = _makers.setdefault(model, {})
    name = (entity, repr(children or {}))
    if name not in known:
        known[name] = RowMaker(model, entity, children or {})
    return known[name]


class _Part:
    """One field of a new row: how its value gets in, and what it is if it is left out."""

    def __init__(self, model: Model, entity: Entity, item: Field) -> None:
        columns = [column for column in entity.columns.values() if column.field == item.name]
        self.name = item.name
        self.columns = tuple(column.name for column in columns)
        self.check = checker(columns[0].type) if len(columns) == 1 else None
        """Of a field with one column."""
        self.optional = all(column.optional for column in columns)
        kind = item.type.kind if item.type is not None else ""
        self.default = item.default
        self.now = "" if not item.now else "date" if kind == "date" else "timestamp"
        self.source = None if item.source is None else model.resolve(entity.name, item.source)
        self.empty: Any = {"set": frozenset(), "list": ()}.get(kind)
        is_id = kind in ("uuid", "ulid") and item.name in entity.key
        self.generated = item.type if is_id and item.default is None and item.source is None else None

    def fill(self, new: NewRow, now: datetime, new_id: NewId) -> bool:
        """Fills in the columns of a field that was left out; False if there is nothing to fill in."""
        value: Any
        if self.generated is not None:
            value = new_id(self.generated, now)
            new.is_new = True
        elif self.default is not None:
            value = self.default
        elif self.now:
            value = now.date() if self.now == "date" else now
        elif self.source is not None:
            new.sources[self.name] = self.source
            value = None
        else:
            for column in self.columns:
                new.values[column] = self.empty
            return self.optional or self.empty is not None
        new.values[self.columns[0]] = value
        new.filled.append(self.columns[0])
        return True


class RowMaker:
    """Makes new rows of one entity from arguments; everything that does not depend on them is worked out once."""

    def __init__(self, model: Model, entity: str, children: Children, parent: Role | None = None) -> None:
        self.entity = model.entities[entity]
        self.parent = parent
        self.parts = tuple(
            _Part(model, self.entity, item)
            for item in self.entity.fields.values()
            if item.computed is None and (parent is None or item.name != parent.field)
        )
        self.generated = tuple((part.name, part.generated) for part in self.parts if part.generated is not None)
        self.roles = {name: self.entity.roles[name] for name in children}
        self.makers = {name: RowMaker(model, role.entity, children[name], role) for name, role in self.roles.items()}

    def row(
        self,
        label: str,
        arguments: Mapping[str, Any],
        now: datetime,
        new_id: NewId = generate,
        place: str = "",
        parent_key: tuple[Any, ...] = (),
    ) -> NewRow:
        """One row with its children; `place` is where its arguments stand, such as `items[2].`."""
        new = NewRow(self.entity.name, f"{label}: {place[:-1]}" if place else label, {})
        values = new.values
        if self.parent is not None:
            values.update(zip(self.parent.columns, parent_key, strict=True))
        missing: list[str] = []
        used = 0
        for part in self.parts:
            name = part.name
            if name not in arguments:
                if not part.fill(new, now, new_id):
                    missing.append(place + name)
                continue
            used += 1
            given = arguments[name]
            if given is None or part.check is None:
                values.update(field_values(self.entity, label, place + name, name, given))
                continue
            try:
                values[name] = part.check(given)
            except ValueError as error:
                raise unfit(label, place + name, self.entity.columns[name].type, error) from None
        if used != len(arguments):
            check_names(new.label, (*(part.name for part in self.parts), *self.roles), arguments)
        if missing:
            raise missing_arguments(label, missing)
        if self.entity.ttl is not None:
            values[EXPIRES] = None
        for name, role in self.roles.items():
            key = new.key(self.entity)
            given = child_arguments(label, role, place + name, arguments[name]) if name in arguments else ()
            new.children[name] = [
                self.makers[name].row(label, one, now, new_id, f"{place}{name}[{index}].", key)
                for index, one in enumerate(given)
            ]
        return new

    def completed(
        self, label: str, given: Mapping[str, Any], now: datetime, new_id: NewId, later: frozenset[str]
    ) -> NewRow:
        """A row of which some columns are known; see `row_from_columns`."""
        new = NewRow(self.entity.name, label, dict(given))
        missing: list[str] = []
        for part in self.parts:
            lacking = [column for column in part.columns if column not in given]
            if len(lacking) < len(part.columns):
                missing += [part.name] if lacking else []  # a reference of which only a part is given
            elif not part.fill(new, now, new_id) and not later.issuperset(part.columns):
                missing.append(part.name)
        if missing:
            raise missing_arguments(label, missing)
        if self.entity.ttl is not None:
            new.values[EXPIRES] = None
        return new


def child_arguments(label: str, role: Role, name: str, given: Any) -> list[Mapping[str, Any]]:
    """The rows given for a role of a create: a list of mappings, or where at most one row may be, one or None."""
    if given is None:
        if role.most == 1:
            return []
        raise ArgumentError(f"{label}: argument '{name}' is None; give a list of rows, or leave it out")
    rows = [given] if role.most == 1 and isinstance(given, Mapping) else given
    if not isinstance(rows, list | tuple):
        raise ArgumentError(f"{label}: argument '{name}': expected a list, got {given.__class__.__name__}; give rows")
    if role.most is not None and len(rows) > role.most:
        raise ArgumentError(f"{label}: argument '{name}' has {len(rows)} rows; give at most {role.most}")
    for index, one in enumerate(rows):
        if not isinstance(one, Mapping):
            what = f"expected a mapping, got {one.__class__.__name__}; give its fields"
            raise ArgumentError(f"{label}: argument '{name}[{index}]': {what}")
    return list(rows)
