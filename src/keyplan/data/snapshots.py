"""Snapshots: which columns copy (`from product.price`), and from where."""

from __future__ import annotations

from collections.abc import Iterator

from keyplan.model.entity import Column, Entity, Field
from keyplan.model.model import Model, UnknownPathError
from keyplan.model.pattern import Path

Snapshots = dict[tuple[str, str], Path]
"""From (entity, column) to the path it copies."""


def snapshots(model: Model) -> Snapshots:
    """The columns that copy. Those that would copy each other in a circle are left out: they hold drawn values."""
    found: Snapshots = {}
    for entity in model.entities.values():
        for field in entity.fields.values():
            if field.source is None or field.computed is not None:
                continue
            for column in entity.columns.values():
                path = _path(model, entity, field, column) if column.field == field.name else None
                if path is not None:
                    found[entity.name, column.name] = path
    circular = [start for start in found if _reaches(model, found, start)]
    return {start: path for start, path in found.items() if start not in circular}


def whole_reference(model: Model, entity: str, column: Column, path: Path) -> str | None:
    """The role at the end of the path, if the column belongs to a reference that copies another as a whole."""
    field = model.entities[entity].fields[column.field]
    end = model.entities[model.entity_at(entity, path.roles)]
    copied = end.fields[end.columns[path.column].field]
    if field.target is None or copied.target != field.target:
        return None
    return copied.name


def _path(model: Model, entity: Entity, field: Field, column: Column) -> Path | None:
    """The path of one column: a composite reference copies part by part."""
    part = column.name.removeprefix(field.name)
    try:
        path = model.resolve(entity.name, f"{field.source}{part}")
    except UnknownPathError:
        return None
    if model.is_many(entity.name, path.roles) or model.column(entity.name, path).computed is not None:
        return None
    return path


def _reaches(model: Model, found: Snapshots, start: tuple[str, str]) -> bool:
    """Whether a column needs itself."""
    seen: set[tuple[str, str]] = set()
    todo = list(_needs(model, start[0], found[start]))
    while todo:
        at = todo.pop()
        if at == start:
            return True
        if at in found and at not in seen:
            seen.add(at)
            todo.extend(_needs(model, at[0], found[at]))
    return False


def _needs(model: Model, entity: str, path: Path) -> Iterator[tuple[str, str]]:
    """The columns that have to be known to follow a path: the references on the way, and its end."""
    for role in path.roles:
        here = model.entities[entity].roles[role]
        for column in here.columns:
            yield entity, column
        entity = here.entity
    yield entity, path.column
