"""Rows that may be inside others: whom they belong to, and what can be said of them by their owner's columns."""

from __future__ import annotations

from keyplan.model.model import Model, path_of


def owners(model: Model, entity: str) -> tuple[str, ...]:
    """The references that are part of the key: a row may be kept inside the one that such a reference leads to."""
    here = model.entities[entity]
    found = (role for role in here.roles.values() if not role.many and set(role.columns) <= set(here.key))
    return tuple(role.name for role in found)


def owner_of(model: Model, entity: str, text: str) -> str:
    """The owner whose own stored column a path leads to; empty if it leads elsewhere."""
    path = path_of(text, model, entity)
    if len(path.roles) != 1 or path.roles[0] not in owners(model, entity):
        return ""
    behind = model.entities[model.entity_at(entity, path.roles)]
    return path.roles[0] if path.column in behind.stored else ""
