"""Writes and transactions that a model's entities allow."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from keyplan.model.entity import Column, Entity
from keyplan.model.model import Model
from keyplan.model.values import canonical, to_text
from tests.strategies.conditions import Names, by_columns, conditions, reaches
from tests.strategies.domains import among, chance, values

NUMERIC = ("int", "decimal", "float")
LITERALS = ("int", "bool", "enum", "decimal", "date", "uuid", "float")
"""What is written without quotes."""


@st.composite
def writes(draw: st.DrawFn, model: Model, most: int = 5) -> dict[str, Any]:
    """The `writes` section; every entity can be created."""
    found: dict[str, Any] = {}
    entities = st.sampled_from(list(model.entities.values()))
    for name, entity in model.entities.items():
        found[f"make_{name.lower()}"] = {"create": name, **_children(draw, model, entity)}
    for number in range(1, draw(st.integers(1, most)) + 1):
        entity = draw(entities)
        kind = draw(among("update", "delete", "upsert", "update", "change", "change", "update rows", "delete rows"))
        write = _write(draw, model, entity, kind)
        found[f"write{number}"] = write if write is not None else {"upsert": entity.name}
    return found


def _children(draw: st.DrawFn, model: Model, entity: Entity) -> dict[str, Any]:
    """`with`: one or two to-many roles, or two of them in a row."""
    roles = [role.name for role in entity.roles.values() if role.many]
    if not roles or not chance(draw, 2):
        return {}
    found: list[str] = []
    for name in draw(st.lists(st.sampled_from(roles), min_size=1, max_size=2, unique=True)):
        below = [role.name for role in model.entities[entity.roles[name].entity].roles.values() if role.many]
        deep = below and chance(draw, 1)
        found.append(f"{name}.{draw(st.sampled_from(below))}" if deep else name)
    return {"with": found}


def _write(draw: st.DrawFn, model: Model, entity: Entity, kind: str) -> dict[str, Any] | None:
    """A write of that kind, or None if the entity has nothing that could be changed that way."""
    names = Names(draw)
    if kind == "upsert":
        return {"upsert": entity.name}
    stored = [reach for reach in reaches(model, entity.name) if reach.column.computed is None]
    if kind == "delete rows":
        where = _which(draw, model, entity, names)
        found = {"delete": entity.name, "where": " and ".join(where), "rows": min(3, round(entity.count))}
        return found | _children(draw, model, entity) if where else None
    keyed = {entity.columns[column].field for column in entity.key}
    free = [
        column
        for column in entity.columns.values()
        if not column.immutable and not column.hidden and column.field not in keyed
    ]
    free += [column for column in free if column.name in _sought(model, entity)]
    if kind == "update rows":
        unbound = [column for column in free if not any(column.name in columns for columns in entity.unique)]
        where = _which(draw, model, entity, names)
        if not unbound or not where:
            return None
        numbers = _numbers(unbound)
        if numbers and chance(draw, 2):
            changes = _adds(draw, [draw(st.sampled_from(numbers))], names)
        else:
            changes = _sets(draw, unbound, names, most=1)
        return {"update": entity.name, "where": " and ".join(where), "rows": min(3, round(entity.count)), **changes}
    where = by_columns(entity.key, names)
    if kind != "change" and chance(draw, 7):
        where += _which(draw, model, entity, names)[:1]
    found = {"where": " and ".join(where)}
    if kind == "delete":
        found = {"delete": entity.name, **found, **_children(draw, model, entity)}
    else:
        changes = _changes(draw, entity, free, names, is_upsert=kind == "change")
        if changes is None:
            return None
        found = {"upsert" if kind == "change" else "update": entity.name, **found, **changes}
        if kind == "change" and chance(draw, 3) and all("." not in column for column in entity.key):
            del found["where"]  # the key is then given by its own names
    taken = _taken(found.get("add"))
    if kind != "change" and chance(draw, 0 if taken else 2):
        tests = [f"{column} >= {name}" for column, name in taken] or conditions(draw, stored, 2, names)
        found |= {"if": " and ".join(tests)} if tests else {}
    if chance(draw, 2):
        fields = list(dict.fromkeys(reach.column.field for reach in stored))
        found["return"] = draw(st.lists(st.sampled_from(fields), min_size=1, max_size=3, unique=True))
    return found


def _which(draw: st.DrawFn, model: Model, entity: Entity, names: Names) -> list[str]:
    """Conditions that several rows may meet: on their own values, or on what is computed, or behind any roles."""
    if draw(st.booleans()):
        return conditions(draw, [one for one in reaches(model, entity.name) if one.column.computed is None], 2, names)
    deep = draw(among(0, 1, 1, 2))
    choices = reaches(model, entity.name, deep=deep, many=draw(st.booleans()))
    special = [one for one in choices if one.path.roles or one.column.computed is not None]
    found = conditions(draw, special, 1, names)
    return [*found, *conditions(draw, choices, 1, names)]


def _numbers(columns: list[Column]) -> list[Column]:
    return [column for column in columns if column.type.kind in NUMERIC and column.name == column.field]


def _taken(added: Any) -> list[tuple[str, str]]:
    """The columns from which an `add` takes, and how much: it is taken only if there is so much."""
    return [(column, text[1:]) for column, text in added.items() if text[:1] == "-"] if isinstance(added, dict) else []


def _sought(model: Model, entity: Entity) -> set[str]:
    """The own columns by which patterns find and order rows: those that, when they change, move rows in views."""
    of_entity = [pattern for pattern in model.patterns.values() if pattern.entity == entity.name]
    paths = [condition.path for pattern in of_entity for condition in pattern.where]
    paths += [term.path for pattern in of_entity for term in pattern.order]
    return {path.column for path in paths if not path.roles}


def _changes(
    draw: st.DrawFn, entity: Entity, free: list[Column], names: Names, *, is_upsert: bool
) -> dict[str, Any] | None:
    """`set` and `add`; an upsert has to give whatever has no default."""
    if not free:
        return None
    numbers = _numbers(free)
    needed = [column for column in free if is_upsert and _needed(entity, column)]
    if is_upsert and any(_needed(entity, column) and column not in free for column in entity.columns.values()):
        return None
    added: list[Column] = []
    if numbers and not chance(draw, 2):
        added = draw(st.lists(st.sampled_from(numbers), min_size=1, max_size=2, unique_by=lambda one: one.name))
    others = [column for column in free if column not in added]
    sets: dict[str, Any] = {}
    needed = [column for column in needed if column not in added]
    if needed:
        sets = {"set": list(dict.fromkeys(column.field for column in needed))}
    elif others and (not added or chance(draw, 1)):
        sets = _sets(draw, others, names, most=2)
    if not added and not sets:
        return None
    return sets | (_adds(draw, added, names) if added else {})


def _needed(entity: Entity, column: Column) -> bool:
    item = entity.fields[column.field] if not column.hidden else None
    return (
        item is not None
        and column.computed is None
        and column.name not in entity.key
        and not column.optional
        and not column.type.is_collection
        and item.default is None
        and not item.now
        and item.source is None
    )


def _sets(draw: st.DrawFn, columns: list[Column], names: Names, most: int) -> dict[str, Any]:
    picked = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=most, unique_by=lambda column: column.field))
    if draw(st.booleans()) or any(column.name != column.field for column in picked):
        return {"set": [column.field for column in picked]}
    return {"set": {column.name: _set_value(draw, column, names) for column in picked}}


def _set_value(draw: st.DrawFn, column: Column, names: Names) -> str | list[str] | None:
    choices = ["param", "literal"] + (["now", "now"] if column.type.kind in ("timestamp", "date") else [])
    choices += ["null"] if column.optional else []
    choice = draw(among(*choices))
    if choice == "now":
        return "now"
    if choice == "null":
        return None
    if choice == "literal" and column.type.kind in LITERALS:
        return to_text(column.type, canonical(column.type, draw(values(column.type))))
    if choice == "literal" and column.type.of is not None and column.type.of.kind in LITERALS:
        of = column.type.of
        return [to_text(of, canonical(of, one)) for one in draw(values(column.type))]
    return f":{names(column.type)}"


def _adds(draw: st.DrawFn, columns: list[Column], names: Names) -> dict[str, Any]:
    """`add` as a list, or as a map; what is taken away may be what a condition asks for: `stock >= :n`."""
    if chance(draw, 3):
        return {"add": [column.name for column in columns]}
    found: dict[str, str] = {}
    for column in columns:
        choice = draw(among("literal", "param", "negative"))
        sign = "-" if choice == "negative" else ""
        found[column.name] = "1" if choice == "literal" else f"{sign}:{names(column.type)}"
    return {"add": found}


@st.composite
def transactions(draw: st.DrawFn, model: Model) -> dict[str, Any]:
    """The `transactions` section, of at most one."""
    names = [write.name for write in model.writes.values() if write.by_key]
    if not chance(draw, 1):
        return {}
    picked = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    return {"together": [name + draw(among("", " x2 max 3")) for name in picked]}
