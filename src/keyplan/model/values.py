"""Values: turning what callers give into canonical values, and those into text, JSON, keys and sums.

A value is *canonical* when it has the form the table in `keyplan.model.types` gives it; everything inside keyplan
holds canonical values only, so that equality in Python is equality in the language. `checker` compiles a type into
the one function that lets values in; the rest of this file works on what it let through.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from keyplan.errors import quoted
from keyplan.model.checks import NUMBER, checker, compact_json, most_bytes
from keyplan.model.identifiers import new_ulid, new_uuid
from keyplan.model.json_text import parse_json
from keyplan.model.types import Type

__all__ = [
    "add",
    "average_bytes",
    "average_length",
    "canonical",
    "checker",
    "compact_json",
    "from_json",
    "most_bytes",
    "new_ulid",
    "new_uuid",
    "parse",
    "sort_key",
    "to_json",
    "to_text",
    "truncate",
    "truncated_type",
    "words",
]

_WIDE = Context(prec=60, traps=[InvalidOperation])
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_WORD = re.compile(r"[^\W_]+")  # what str.isalnum accepts: \w without the underscore


def canonical(type: Type, value: object) -> object:
    """Checks a value given from outside and returns its canonical form; raises ValueError with a short reason."""
    return checker(type)(value)


def parse(type: Type, text: str) -> object:
    """The value a text stands for in YAML or on a command line; bytes are base64, collections JSON or `a, b, c`."""
    kind = type.kind
    check = checker(type)
    if kind == "int":
        if not _INTEGER.fullmatch(text):
            raise ValueError(f"expected a whole number, got {quoted(text)}")
        return check(int(text))
    if kind == "float":
        if not NUMBER.fullmatch(text):
            raise ValueError(f"expected a number, got {quoted(text)}")
        return check(float(text))
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise ValueError(f"expected true or false, got {quoted(text)}")
        return text.lower() == "true"
    if kind == "bytes":
        return from_json(type, text)
    if kind == "json":
        return check(parse_json(text, exact=False))
    if type.of is not None:
        stripped = text.strip()
        if stripped.startswith("["):
            return from_json(type, parse_json(stripped, exact=type.of.kind == "decimal"))
        of = type.of
        return check([parse(of, part.strip()) for part in stripped.split(",")] if stripped else [])
    return check(text)


def to_text(type: Type, value: object) -> str:
    """A canonical value as the text that `parse` reads back."""
    plain = to_json(type, value)
    return plain if isinstance(plain, str) and type.kind != "json" else compact_json(plain)


def to_json(type: Type, value: object) -> Any:
    """A canonical value as something `json.dumps` takes: decimals and times as text, sets as sorted lists."""
    kind = type.kind
    if value is None:
        return None
    if type.of is not None:
        assert isinstance(value, tuple | frozenset)
        of = type.of
        items: Iterable[object] = sorted(value, key=sort_key(of)) if isinstance(value, frozenset) else value
        return [to_json(of, item) for item in items]
    if kind == "timestamp":
        assert isinstance(value, datetime)
        return value.isoformat(timespec="milliseconds")[:-6] + "Z"
    if kind == "decimal":
        assert isinstance(value, Decimal)
        return f"{value:f}"
    if kind == "date":
        assert isinstance(value, date)
        return value.isoformat()
    if kind == "uuid":
        return str(value)
    if kind == "bytes":
        assert isinstance(value, bytes)
        return base64.b64encode(value).decode()
    return value


def from_json(type: Type, value: object) -> Any:
    """The inverse of `to_json`, which also takes whatever `canonical` takes; None stays None."""
    if value is None:
        return None
    if type.kind == "bytes" and isinstance(value, str):
        try:
            value = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("expected base64; give text such as AAE=") from None
    if type.of is not None and isinstance(value, list | tuple):
        of, check = type.of, checker(type.of)
        value = [check(item) if item is None else from_json(of, item) for item in value]
    return checker(type)(value)


def sort_key(type: Type) -> Callable[[Any], Any]:
    """A function from canonical values to something that compares as the language orders them."""
    if not type.is_ordered:
        raise TypeError(f"{type} is not ordered")
    if type.kind == "uuid":
        return _uuid_number
    return _same


def _uuid_number(value: UUID) -> int:
    return value.int


def _same(value: Any) -> Any:
    return value


def truncate(value: date, cut: str) -> date:
    """The start of the minute or hour (a timestamp), or the date on which the day, week, month or year begins."""
    if cut in ("minute", "hour"):
        if not isinstance(value, datetime):
            raise ValueError(f"a date has no {cut}")
        return value.replace(second=0, microsecond=0, minute=value.minute if cut == "minute" else 0)
    day = value.date() if isinstance(value, datetime) else value
    if cut == "week":
        return day - timedelta(days=day.weekday())
    if cut == "month":
        return day.replace(day=1)
    if cut == "year":
        return day.replace(month=1, day=1)
    if cut == "day":
        return day
    raise ValueError(f"unknown truncation '{cut}'")


def truncated_type(type: Type, cut: str) -> Type:
    """The type `truncate` gives; raises ValueError where the truncation makes no sense."""
    if type.kind not in ("date", "timestamp"):
        raise ValueError(f"{cut}() needs a date or timestamp, not {type}; name another field")
    if cut in ("minute", "hour"):
        if type.kind == "date":
            raise ValueError(f"a date has no {cut}; use day, week, month or year")
        return Type("timestamp")
    return Type("date")


def add(type: Type, value: object, delta: object) -> object:
    """The sum, canonical; None counts as 0; raises OverflowError where it leaves the range of the type."""
    total: object
    try:
        if type.kind == "int":
            total = (value or 0) + delta  # type: ignore[operator]
        elif type.kind == "decimal":
            total = _WIDE.add(_as_decimal(value or 0), _as_decimal(delta))
        elif type.kind == "float":
            total = float(value or 0.0) + float(delta)  # type: ignore[arg-type]
        else:
            raise TypeError(f"cannot add to a {type}")
        return checker(type)(total)
    except ValueError as error:
        raise OverflowError(f"the sum {str(error).partition(';')[0]}") from None


def _as_decimal(value: object) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(value)  # type: ignore[arg-type]


def words(text: str) -> frozenset[str]:
    """The words `search` sees: casefolded and split at whatever is neither letter nor digit.

    >>> sorted(words("Blue-ish T_Shirt, 100%"))
    ['100', 'blue', 'ish', 'shirt', 't']
    """
    return frozenset(_WORD.findall(text.casefold()))


_FIXED_BYTES = {"int": 8.0, "decimal": 8.0, "float": 8.0, "bool": 1.0, "date": 4.0, "timestamp": 8.0}
_FIXED_BYTES |= {"uuid": 16.0, "ulid": 16.0}
_USUAL_BYTES = {"string": 16.0, "text": 256.0, "bytes": 64.0, "json": 256.0}


def average_bytes(type: Type) -> float:
    """The average payload of a value, in the most compact form an engine could hold it in."""
    if type.of is not None:
        return average_length(type) * average_bytes(type.of)
    if type.kind == "enum":
        weight = sum(share for _, share in type.values)
        return sum(len(name.encode()) * share for name, share in type.values) / weight if weight else 8.0
    if type.kind in _FIXED_BYTES:
        return _FIXED_BYTES[type.kind]
    return type.size or min(_USUAL_BYTES[type.kind], most_bytes(type))


def average_length(type: Type) -> float:
    """The average number of elements of a set or list: as declared, else 3, but never beyond its maximum."""
    return type.size or min(3.0, type.most if type.most is not None else 3.0)
