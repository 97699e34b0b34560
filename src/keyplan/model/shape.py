"""From flat rows to answers: paths nest, references are keys until they are expanded, roles hold their rows.

Before shaping, a row is a flat dict from path to canonical value, each path in the form `Model.resolve` gives it:

    own columns                    total, user, item.order
    columns behind to-one roles    user.name, user.address.city
    rows behind to-many roles      items, user.orders: a list of flat dicts, whose paths start anew at their entity

A path that is not in the dict is missing. `shaped_paths` lists what a `Select` needs to find there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from keyplan.model.entity import Role
from keyplan.model.model import Model
from keyplan.model.new_row import NewRow
from keyplan.model.pattern import Select

Flat = Mapping[str, Any]
Shaper = Callable[[Flat], dict[str, Any]]


_shapers: WeakKeyDictionary[Model, dict[tuple[str, tuple[str, ...]], Shaper]] = WeakKeyDictionary()
"""Those without roles, which writes ask for call after call."""
_created: WeakKeyDictionary[Model, dict[tuple[str, ...], Shaper]] = WeakKeyDictionary()
"""Of new rows: by their entity and what was filled in."""


def shape(model: Model, entity: str, select: Select, flat: Flat) -> dict[str, Any]:
    """The answer that one flat row gives. Those with many rows make a `shaper` once."""
    if select.roles:
        return shaper(model, entity, select)(flat)
    known = _shapers.setdefault(model, {})
    place = (entity, select.columns)
    if place not in known:
        known[place] = shaper(model, entity, select)
    return known[place](flat)


def shaper(model: Model, entity: str, select: Select) -> Shaper:
    """Compiles a select tree into the function that shapes a row of this entity."""
    return _shaper(model, entity, (), select)


def shaped_paths(model: Model, entity: str, select: Select) -> list[str]:
    """Every path that the shaper of a select reads of a row; to-many roles are one path each."""
    return list(dict.fromkeys(_paths(model, entity, (), select)))


def plain_columns(model: Model, entity: str, select: Select) -> tuple[str, ...] | None:
    """The columns of a select whose answer is the flat row itself, with these columns and no other; else None."""
    columns = [model.entities[entity].columns[name] for name in select.columns]
    if select.roles or any(column.name != column.field or column.type.is_collection for column in columns):
        return None
    return select.columns


def shape_created(model: Model, new: NewRow) -> dict[str, Any]:
    """What a create or upsert returns: the key, whatever the store filled in, and the same of the children."""
    entity = model.entities[new.entity]
    known = _created.setdefault(model, {})
    place = (new.entity, *new.filled)
    if place not in known:
        columns = tuple(column for column in entity.columns if column in entity.key or column in new.filled)
        known[place] = shaper(model, new.entity, Select(columns))
    answer = known[place](new.values)
    for name, rows in new.children.items():
        answer[name] = _one_or_all(entity.roles[name], [shape_created(model, row) for row in rows])
    return answer


def _paths(model: Model, root: str, roles: tuple[str, ...], select: Select) -> Iterator[str]:
    here = model.entities[model.entity_at(root, roles)]
    for column in select.columns:
        yield _path(model, root, roles, column)
    for name, inner in select.roles.items():
        role = here.roles[name]
        if role.many:
            yield ".".join((*roles, name))
        else:
            yield from (_path(model, root, roles, column) for column in role.columns)
            yield from _paths(model, root, (*roles, name), inner)


def _path(model: Model, root: str, roles: tuple[str, ...], column: str) -> str:
    return str(model.resolve(root, ".".join((*roles, column))))


def _shaper(model: Model, root: str, roles: tuple[str, ...], select: Select) -> Shaper:
    """The shaper of what stands behind a chain of to-one roles."""
    here = model.entities[model.entity_at(root, roles)]
    plain: dict[str, str] = {}
    """Answer key to path, for values that are taken as they are."""
    parts: dict[str, list[str]] = {}
    """Composite references that are not expanded, with the selected ones of their columns."""
    special: list[tuple[str, Callable[[Flat], Any]]] = []
    for name in select.columns:
        column = here.columns[name]
        if column.field in select.roles:
            continue
        if column.name != column.field:
            parts.setdefault(column.field, []).append(name)
        elif column.type.is_collection:
            special.append((name, _collection(_path(model, root, roles, name), column.type.kind)))
        else:
            plain[name] = _path(model, root, roles, name)
    for field, columns in parts.items():
        role = here.roles[field]
        paths = [_path(model, root, roles, column) for column in columns]
        if set(columns) == set(role.columns):
            paths = [_path(model, root, roles, column) for column in role.columns]
            special.append((field, _key(paths)))
        else:
            inner = Select(tuple(column[len(field) + 1 :] for column in columns))
            special.append((field, _expanded(model, root, roles, role, inner)))
    for name, inner in select.roles.items():
        role = here.roles[name]
        make = _children(model, roles, role, inner) if role.many else _expanded(model, root, roles, role, inner)
        special.append((name, make))
    # Written out and compiled, with nothing but names in it: several times faster than a loop.
    pairs = ", ".join(f"{name!r}: get({path!r})" for name, path in plain.items())
    take: Callable[[Callable[[str], Any]], dict[str, Any]] = eval(f"lambda get: {{{pairs}}}")

    def build(flat: Flat) -> dict[str, Any]:
        answer = take(flat.get)
        for name, make in special:
            answer[name] = make(flat)
        return answer

    return build


def _collection(path: str, kind: str) -> Callable[[Flat], Any]:
    """Sets and lists are never missing, not even behind a reference that leads nowhere."""
    empty: Any = frozenset() if kind == "set" else ()

    def make(flat: Flat) -> Any:
        value = flat.get(path)
        return empty if value is None else value

    return make


def _key(paths: list[str]) -> Callable[[Flat], Any]:
    def make(flat: Flat) -> Any:
        key = tuple(map(flat.get, paths))
        return None if None in key else key

    return make


def _expanded(
    model: Model, root: str, roles: tuple[str, ...], role: Role, select: Select
) -> Callable[[Flat], dict[str, Any] | None]:
    """A reference as a row: None if the reference itself is missing, whether or not the row is there."""
    key = [_path(model, root, roles, column) for column in role.columns]
    build = _shaper(model, root, (*roles, role.name), select)

    def make(flat: Flat) -> dict[str, Any] | None:
        for path in key:
            if flat.get(path) is None:
                return None
        return build(flat)

    return make


def _children(model: Model, roles: tuple[str, ...], role: Role, select: Select) -> Callable[[Flat], Any]:
    path = ".".join((*roles, role.name))
    build = _shaper(model, role.entity, (), select)

    def make(flat: Flat) -> Any:
        rows: Iterable[Flat] = flat.get(path) or ()
        return _one_or_all(role, [build(row) for row in rows])

    return make


def _one_or_all(role: Role, rows: list[dict[str, Any]]) -> Any:
    if role.most != 1:
        return rows
    return rows[0] if rows else None
