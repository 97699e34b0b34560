"""Arguments, rows and answers in the forms that files and command lines have: texts and JSON.

Calls take Python values, and text for most types besides. What is left is done here: numbers, truth values, bytes
(base64), collections (`a, b, c` or JSON), references of several parts, and nested rows. Nothing is checked that the
call checks itself, so that each mistake has one message.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from keyplan.errors import ArgumentError, nearest, quoted
from keyplan.model.entity import Entity
from keyplan.model.json_text import parse_json
from keyplan.model.model import Model
from keyplan.model.pattern import Pattern
from keyplan.model.types import Type, such_as
from keyplan.model.values import parse
from keyplan.model.write import Children, Transaction, Write

_PARSED = ("int", "float", "bool", "bytes", "json")
"""The kinds whose values cannot be given as text to a call."""


@dataclass(frozen=True)
class _Reference:
    """A reference of several parts."""

    parts: tuple[Type, ...]


@dataclass(frozen=True)
class _Row:
    """A nested row, or a list of them."""

    shapes: Mapping[str, _Shape]


_Shape = Type | _Reference | _Row


def arguments_from_text(
    model: Model, name: str, texts: Mapping[str, str], documents: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """The arguments for the pattern, write or transaction `name`, from `name=value` texts and parsed JSON.

    JSON should be parsed with `parse_json`, which keeps decimals exact.
    """
    call = model.calls.get(name)
    if call is None:
        known = ", ".join(model.calls)
        hint = nearest(name, list(model.calls)) or (f"; it has {known}" if known else "")
        raise ArgumentError(f"{model.file or model.name}: no pattern, write or transaction '{name}'{hint}")
    shapes = _call_shapes(model, call)
    result: dict[str, Any] = {}
    for argument, value in {**texts, **(documents or {})}.items():
        shape = shapes.get(argument)
        try:
            if shape is None:
                result[argument] = value
            elif argument in texts:
                result[argument] = _from_text(shape, texts[argument])
            else:
                result[argument] = _converted(shape, value)
        except ValueError as error:
            hint = such_as(shape, error, "give") if isinstance(shape, Type) else ""
            raise ArgumentError(f"{name}: argument '{argument}': {error}{hint}") from None
    return result


def row_from_json(model: Model, entity: str, row: Mapping[str, object]) -> dict[str, Any]:
    """A row of an entity as `load` takes it, from a JSON object."""
    about = model.entities.get(entity)
    if about is None:
        raise ArgumentError(no_entity(model, entity))
    shapes = _field_shapes(about)
    converted = dict(row)
    for name in row.keys() & shapes.keys():
        try:
            converted[name] = _converted(shapes[name], row[name])
        except ValueError as error:
            raise ArgumentError(f"{entity}: argument '{name}': {error}") from None
    return converted


def no_entity(model: Model, name: str) -> str:
    """What is said of a name that no entity has."""
    hint = nearest(name, list(model.entities)) or f"; there are {', '.join(model.entities)}"
    return f"no entity {quoted(name)}{hint}"


def to_plain(value: object) -> Any:
    """An answer, or any value in it, as something `json.dumps` takes: times and decimals as text, sets sorted."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return [to_plain(item) for item in sorted(value, key=_sort_key)]
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"no JSON for a {value.__class__.__name__}")


def _sort_key(value: Any) -> Any:
    return value.int if isinstance(value, UUID) else value


def _call_shapes(model: Model, call: Pattern | Write | Transaction) -> dict[str, _Shape]:
    """What each argument of a call looks like."""
    if isinstance(call, Transaction):
        return {part.write: _Row(_call_shapes(model, model.writes[part.write])) for part in call.parts}
    if isinstance(call, Write) and call.kind in ("create", "upsert"):
        return _tree_shapes(model, call.entity, call.children)
    params = dict(call.params)
    if isinstance(call, Write) and call.kind == "change" and not call.where:
        entity = model.entities[call.entity]
        params = {**{column: entity.columns[column].type for column in entity.key}, **params}
    grouped: dict[str, list[Type]] = {}
    for name, type in params.items():
        grouped.setdefault(name.partition(".")[0], []).append(type)
    return {name: _shape(types, composite=name not in params) for name, types in grouped.items()}


def _tree_shapes(model: Model, entity: str, children: Children) -> dict[str, _Shape]:
    about = model.entities[entity]
    shapes = _field_shapes(about)
    for role, below in children.items():
        shapes[role] = _Row(_tree_shapes(model, about.roles[role].entity, below))
    return shapes


def _field_shapes(entity: Entity) -> dict[str, _Shape]:
    shapes: dict[str, _Shape] = {}
    for name, field in entity.fields.items():
        types = [column.type for column in entity.columns.values() if column.field == name and not column.hidden]
        if field.computed is None:
            shapes[name] = _shape(types, composite=len(types) > 1)
    return shapes


def _shape(types: list[Type], *, composite: bool) -> _Shape:
    return _Reference(tuple(types)) if composite else types[0]


def _from_text(shape: _Shape, text: str) -> Any:
    if isinstance(shape, Type):
        stripped = text.strip()
        if shape.of is not None:
            if stripped.startswith("["):
                return _converted(shape, parse_json(stripped))
            return [_from_text(shape.of, item.strip()) for item in stripped.split(",")] if stripped else []
        return parse(shape, text) if shape.kind in _PARSED else text
    if isinstance(shape, _Reference) and not text.lstrip().startswith(("[", "{")):
        parts = [part.strip() for part in text.split(",")]
        if len(parts) != len(shape.parts):
            raise ValueError(
                f"expected {len(shape.parts)} values with commas, got {len(parts)}; give every part of the key"
            )
        return tuple(_from_text(type, part) for type, part in zip(shape.parts, parts, strict=True))
    return _converted(shape, parse_json(text))


def _converted(shape: _Shape, value: Any) -> Any:
    """What `_from_json` makes of a value from outside; the parser takes what is nested a little deeper than it does."""
    try:
        return _from_json(shape, value)
    except RecursionError:
        raise ValueError("is nested too deep; make it simpler") from None


def _from_json(shape: _Shape, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(shape, _Row):
        if isinstance(value, list):
            return [_from_json(shape, item) for item in value]
        if not isinstance(value, Mapping):
            raise ValueError(f"expected a JSON object, got {json.dumps(value, default=str)[:40]}; give fields by name")
        return {
            key: _from_json(shape.shapes[key], item) if key in shape.shapes else item for key, item in value.items()
        }
    if isinstance(shape, _Reference):
        if isinstance(value, list) and len(value) == len(shape.parts):
            return tuple(_from_json(type, item) for type, item in zip(shape.parts, value, strict=True))
        return value
    if shape.of is not None and isinstance(value, list):
        return [_from_json(shape.of, item) for item in value]
    if shape.kind == "bytes" and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("expected base64; give text such as AAE=") from None
    if shape.kind == "float" and isinstance(value, Decimal):
        return float(value)
    return _inexact(value) if shape.kind == "json" else value


def _inexact(value: Any) -> Any:
    """JSON as `json.loads` gives it: numbers with a point are floats."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_inexact(item) for item in value]
    if isinstance(value, dict):
        return {key: _inexact(item) for key, item in value.items()}
    return value
