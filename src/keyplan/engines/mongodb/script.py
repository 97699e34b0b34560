"""Documents as JavaScript for mongosh: JSON, with mongosh's own constructors where JSON has no such value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from keyplan.engines.mongodb.values import TOP

WIDTH = 110
EXACT = 2**53
"""Whole numbers below it are the same in JavaScript."""


@dataclass(frozen=True)
class Parameter:
    """A value that whoever runs the script gives."""

    name: str


@dataclass(frozen=True)
class Before:
    """So many milliseconds before now."""

    ms: int


def script(value: object, indent: int = 0) -> str:
    """A value as JavaScript, on one line where it fits."""
    flat = plain(value)
    if len(flat) + indent <= WIDTH or not isinstance(value, (Mapping, list, tuple)) or not value:
        return flat
    inner = " " * (indent + 2)
    if isinstance(value, Mapping):
        lines = [f"{inner}{json.dumps(name)}: {script(each, indent + 2)}" for name, each in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    lines = [inner + script(each, indent + 2) for each in value]
    return "[\n" + ",\n".join(lines) + "\n" + " " * indent + "]"


def plain(value: object, *, bare: bool = False) -> str:
    """A value on one line; `bare`: names without quotes where JavaScript needs none."""
    if isinstance(value, Mapping):
        named = ((name if bare and name.replace("$", "_").isidentifier() else json.dumps(name)) for name in value)
        listed = ", ".join(
            f"{name}: {plain(each, bare=bare)}" for name, each in zip(named, value.values(), strict=True)
        )
        return "{ " + listed + " }" if listed else "{}"
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return "[" + ", ".join(plain(each, bare=bare) for each in value) + "]"
    return _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, Parameter):
        return value.name
    if isinstance(value, Before):
        return f"new Date(Date.now() - {value.ms})"
    if value is TOP:
        return "MaxKey()"
    if isinstance(value, Decimal):
        return f'NumberDecimal("{value}")'
    if isinstance(value, datetime):
        return f'ISODate("{value.isoformat(timespec="milliseconds").replace("+00:00", "Z")}")'
    if isinstance(value, date):
        return f'ISODate("{value.isoformat()}T00:00:00.000Z")'
    if isinstance(value, UUID):
        return f'UUID("{value}")'
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= EXACT:
        return f'NumberLong("{value}")'
    return json.dumps(value, ensure_ascii=False)
