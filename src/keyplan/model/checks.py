"""Letting values in: each type compiled into one function that returns the canonical value or says why not.

Reasons in a ValueError leave out the name of the field; whoever knows it puts it in front.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from uuid import UUID

from keyplan.errors import quoted
from keyplan.model.types import Type

Check = Callable[[object], object]

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
DIGITS = 18
FLOAT_LEAST, FLOAT_BOUND = 1e-130, 1e125
STRING_MOST, LARGE_MOST = 512, 100_000
JSON_DEPTH = 100
_FLOATS = "is outside the range of floats; give 0, or one with 1e-130 <= |x| < 1e125"
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,6})?")

_EXACT = Context(prec=DIGITS, traps=[InvalidOperation, Inexact])
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32}")
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}")


@lru_cache(maxsize=4096)
def checker(type: Type) -> Check:
    """The function that `canonical` applies for this type; hold on to it where many values are checked."""
    return _MAKERS[type.kind](type)


def most_bytes(type: Type) -> int:
    """The greatest size of a string, text, bytes or json value: as declared, else the language's default."""
    if type.most is not None:
        return type.most
    return STRING_MOST if type.kind == "string" else LARGE_MOST


def _got(wanted: str, value: object) -> ValueError:
    return ValueError(f"expected {wanted}, got {'None' if value is None else value.__class__.__name__}")


def _string(type: Type) -> Check:
    most = most_bytes(type)

    def check(value: object) -> object:
        if value.__class__ is not str:
            if not isinstance(value, str):
                raise _got("a string", value)
            value = str.__str__(value)
        assert isinstance(value, str)
        if "\0" in value:
            raise ValueError("must not contain NUL; leave it out")
        if (len(value) if value.isascii() else _utf8_length(value)) > most:
            raise ValueError(f"is longer than {most} bytes; shorten it, or raise 'max' in the model")
        return value

    return check


def _utf8_length(text: str) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("must not contain lone surrogates; leave them out") from None


def _bytes(type: Type) -> Check:
    most = most_bytes(type)

    def check(value: object) -> object:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise _got("bytes", value)
        result = bytes(value)
        if len(result) > most:
            raise ValueError(f"is longer than {most} bytes; shorten it, or raise 'max' in the model")
        return result

    return check


def _json(type: Type) -> Check:
    most = most_bytes(type)

    def check(value: object) -> object:
        if value is None:
            raise _got("a JSON value", value)
        result = _plain(value, 0)
        try:
            size = len(compact_json(result).encode())
        except ValueError:  # an integer with too many digits for Python to print
            raise ValueError("has a number that is too long; give it as text") from None
        if size > most:
            raise ValueError(f"is longer than {most} bytes as JSON; shorten it, or raise 'max' in the model")
        return result

    return check


def _plain(value: object, depth: int) -> object:
    """A deep copy made of exactly the types that `json.loads` makes."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _plain_text(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("must hold finite numbers only; leave out the others")
        return float(value)
    if depth >= JSON_DEPTH:
        raise ValueError(f"is nested more than {JSON_DEPTH} deep; make it simpler")
    if isinstance(value, Mapping):
        copy: dict[str, object] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"has a key that is not a string, {quoted(key)}; give it as text")
            copy[_plain_text(key)] = _plain(item, depth + 1)
        return copy
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    raise _got("a JSON value", value)


def _plain_text(value: str) -> str:
    text = str.__str__(value)
    if "\0" in text:
        raise ValueError("must not contain NUL; leave it out")
    _utf8_length(text)
    return text


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
"""Made once: `json.dumps` with these options makes an encoder for every value."""


def compact_json(value: object) -> str:
    """JSON without spaces and with every character as itself: the form in which sizes are measured."""
    return _COMPACT(value)


def _int(type: Type) -> Check:
    def check(value: object) -> object:
        if value.__class__ is not int:
            if not isinstance(value, int) or isinstance(value, bool):
                raise _got("an int", value)
            value = int(value)
        assert isinstance(value, int)
        if INT_MIN <= value <= INT_MAX:
            return value
        raise ValueError("is outside the range of 64 bits; give one between -2^63 and 2^63 - 1")

    return check


def _decimal(type: Type) -> Check:
    unit = Decimal((0, (1,), -type.scale))
    zero = Decimal((0, (0,), -type.scale))
    bound = 10 ** (DIGITS - type.scale)
    quantize = _EXACT.quantize
    misfit = f"does not fit decimal({type.scale}): {DIGITS} digits, {type.scale} of them after the point"

    def check(value: object) -> object:
        if not isinstance(value, Decimal):
            if isinstance(value, str):
                if not NUMBER.fullmatch(value):
                    raise ValueError("expected a decimal number")
                value = Decimal(value)
            elif isinstance(value, int) and not isinstance(value, bool):
                if not -bound < value < bound:
                    raise ValueError(misfit)
                value = Decimal(int(value))
            else:
                raise _got("a Decimal, int or str", value)
        elif not value.is_finite():
            raise ValueError("expected a finite number; give one")
        try:
            result = quantize(value, unit)
        except (InvalidOperation, Inexact):
            raise ValueError(misfit) from None
        return result if result else zero

    return check


def _float(type: Type) -> Check:
    def check(value: object) -> object:
        if value.__class__ is not float:
            if isinstance(value, bool) or not isinstance(value, float | int):
                raise _got("a float", value)
            try:
                value = float(value)
            except OverflowError:
                raise ValueError(_FLOATS) from None
        assert isinstance(value, float)
        if FLOAT_LEAST <= value < FLOAT_BOUND or FLOAT_LEAST <= -value < FLOAT_BOUND:
            return value
        if value == 0:
            return 0.0
        raise ValueError(_FLOATS)

    return check


def _bool(type: Type) -> Check:
    def check(value: object) -> object:
        if value is True or value is False:
            return value
        raise _got("a bool", value)

    return check


def _enum(type: Type) -> Check:
    names = {name: name for name, _ in type.values}
    listed = ", ".join(f"'{name}'" for name in names)

    def check(value: object) -> object:
        if not isinstance(value, str):
            raise _got(f"one of {listed}", value)
        found = names.get(str.__str__(value))
        if found is None:
            raise ValueError(f"expected one of {listed}, got {quoted(value)}")
        return found

    return check


def _date(type: Type) -> Check:
    def check(value: object) -> object:
        if value.__class__ is date:
            return value
        if isinstance(value, str):
            if not _DATE.fullmatch(value):
                raise ValueError("expected a date such as 2024-02-29")
            try:
                return date.fromisoformat(value)
            except ValueError:
                raise ValueError(f"'{value}' is not a date; give one that is in the calendar") from None
        if isinstance(value, date) and not isinstance(value, datetime):
            return date(value.year, value.month, value.day)
        raise _got("a date", value)

    return check


def _timestamp(type: Type) -> Check:
    def check(value: object) -> object:
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                raise ValueError("expected a timestamp such as 2024-02-29T12:30:00Z") from None
        elif not isinstance(value, datetime):
            raise _got("a datetime", value)
        micro = value.microsecond
        if value.tzinfo is UTC and micro % 1000 == 0 and value.__class__ is datetime and not value.fold:
            return value
        if value.utcoffset() is None:
            raise ValueError("expected a timestamp with a time zone, such as 2024-02-29T12:30:00Z, got a naive one")
        try:
            there = value.astimezone(UTC)
        except OverflowError:
            raise ValueError("is outside the years 1 to 9999 in UTC; give one within them") from None
        micro = there.microsecond // 1000 * 1000
        return datetime(there.year, there.month, there.day, there.hour, there.minute, there.second, micro, UTC)

    return check


def _uuid(type: Type) -> Check:
    def check(value: object) -> object:
        if value.__class__ is UUID:
            return value
        if isinstance(value, str):
            if not _UUID.fullmatch(value):
                raise ValueError("expected a UUID of 32 hexadecimal digits")
            return UUID(value)
        if isinstance(value, UUID):
            return UUID(int=value.int)
        raise _got("a UUID", value)

    return check


def _ulid(type: Type) -> Check:
    def check(value: object) -> object:
        if not isinstance(value, str):
            raise _got("a ULID", value)
        if not _ULID.fullmatch(value):
            raise ValueError("expected a ULID of 26 characters")
        return value.upper()

    return check


def _collection(type: Type) -> Check:
    assert type.of is not None
    element = checker(type.of)
    most = type.most
    is_set = type.kind == "set"
    make: Callable[[Iterable[object]], object] = frozenset if is_set else tuple
    if is_set and type.of.kind == "json":
        raise ValueError("a set cannot hold json")

    def check(value: object) -> object:
        if not isinstance(value, list | tuple | set | frozenset) or (not is_set and isinstance(value, set | frozenset)):
            raise _got(f"a {type.kind}", value)
        result = make(map(element, value))
        assert isinstance(result, tuple | frozenset)
        if most is not None and len(result) > most:
            raise ValueError(f"has more than {most} elements; leave some out, or raise 'max' in the model")
        return result

    return check


_MAKERS: dict[str, Callable[[Type], Check]] = {
    "string": _string,
    "text": _string,
    "bytes": _bytes,
    "json": _json,
    "int": _int,
    "decimal": _decimal,
    "float": _float,
    "bool": _bool,
    "enum": _enum,
    "date": _date,
    "timestamp": _timestamp,
    "uuid": _uuid,
    "ulid": _ulid,
    "set": _collection,
    "list": _collection,
}
