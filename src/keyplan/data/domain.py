"""Domains: the distinct values of a type by number, so that the same number gives the same value everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from uuid import UUID

from keyplan.data.numbers import GOLDEN, MASK, mix
from keyplan.data.text import numbered, phrases, sizes
from keyplan.model.identifiers import ulid_of, uuid_of
from keyplan.model.types import Type
from keyplan.model.values import average_bytes, most_bytes

DAY_MS = 86_400_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONTEXT = Context(prec=40)
_NOISE = b"".join(mix(number).to_bytes(8) for number in range(4096))

Value = Callable[[int], object]


@dataclass(frozen=True)
class Span:
    """The stretch of time an entity's rows come from, in Unix milliseconds."""

    start: int
    end: int

    @property
    def ms(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Domain:
    """`size` distinct values; `at(number)` is one of them for 0 <= number < size."""

    size: int
    at: Value


def moment(ms: int) -> datetime:
    """The timestamp of a Unix time in milliseconds, kept within the years a datetime can hold."""
    if _FIRST_MS <= ms <= _LAST_MS:
        return EPOCH + timedelta(0, 0, 0, ms)
    return EPOCH + timedelta(0, 0, 0, _FIRST_MS if ms < 0 else _LAST_MS)


LAST = datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)
_FIRST_MS = -(date(1970, 1, 1).toordinal() - 1) * DAY_MS
_LAST_MS = (date(9999, 12, 31).toordinal() - date(1970, 1, 1).toordinal() + 1) * DAY_MS - 1


def domain(type: Type, wanted: int, span: Span, seed: int, name: str = "") -> Domain:
    """The domain of a type, laid out for about that many values (`size` may be smaller, or much larger)."""
    wanted = max(1, wanted)
    kind = type.kind
    if kind == "int":
        return Domain(2**62, lambda number: number + 1)
    if kind == "decimal":
        return Domain(10**18 - 1, partial(_decimal, -type.scale))
    if kind == "float":
        return Domain(2**50, lambda number: number / 1000)
    if kind == "bool":
        return Domain(2, bool)
    if kind == "enum":
        names = tuple(value for value, _ in type.values)
        return Domain(len(names), names.__getitem__)
    if kind == "date":
        today = moment(span.end).toordinal()
        return Domain(today, lambda number: date.fromordinal(today - number))
    if kind == "timestamp":
        return _timestamps(wanted, span, seed)
    if kind == "uuid":
        return Domain(2**62, lambda number: hashed_uuid(number ^ seed))
    if kind == "ulid":
        return Domain(2**40, _ulids(wanted, span, seed))
    if kind == "bytes":
        return _blobs(type, wanted, seed)
    if kind == "json":
        return _documents(type)
    suffix = "@example.com" if "email" in name else ""
    return Domain(*numbered(average_bytes(type), most_bytes(type), wanted, seed, suffix))


def _decimal(exponent: int, number: int) -> Decimal:
    return _CONTEXT.scaleb(Decimal(number), exponent)


def _timestamps(wanted: int, span: Span, seed: int) -> Domain:
    """Latest first, evenly spaced with some unrest; they reach back beyond the span if there are more than fit."""
    step = max(1, span.ms // wanted)
    end = span.end

    def at(number: int) -> object:
        return moment(end - number * step - (mix(number ^ seed) * step >> 64))

    return Domain(max(1, (end - _FIRST_MS) // step - 1), at)


def hashed_uuid(number: int) -> UUID:
    """A UUID of version 4 whose bits are a hash of the number."""
    high = mix(number & MASK)
    low = high * 0xD6E8FEB86659FD93 & MASK
    value = (high & 0xFFFFFFFFFFFF0FFF | 0x4000) << 64 | low & 0x3FFFFFFFFFFFFFFF | 0x8000000000000000
    return uuid_of(value)


def _ulids(wanted: int, span: Span, seed: int) -> Value:
    """Ascending through the span. The number itself is the end of the text, which keeps them distinct."""
    start, length, shift = max(0, span.start), max(0, span.end) - max(0, span.start), seed | 1

    def at(number: int) -> object:
        return ulid_of(start + length * number // wanted, (number * GOLDEN ^ shift) >> 7 & 2**40 - 1, number)

    return at


def _blobs(type: Type, wanted: int, seed: int) -> Domain:
    most = most_bytes(type)
    width = min(max(1, ((wanted - 1).bit_length() + 7) // 8), max(1, most))
    space = 256**width
    factor = seed % space | 1
    size = sizes(average_bytes(type), most)

    def at(number: int) -> object:
        bits = mix(number)
        return (number * factor % space).to_bytes(width) + noise(bits, max(0, size(bits) - width))

    return Domain(space, at)


def noise(bits: int, size: int) -> bytes:
    """That many bytes that look random."""
    start = bits >> 8 & 8191
    if start + size <= len(_NOISE):
        return _NOISE[start : start + size]
    return (_NOISE * (size // len(_NOISE) + 2))[start : start + size]


def _documents(type: Type) -> Domain:
    """Small objects with a number and a text; bare numbers where an object would be too large."""
    average, most = average_bytes(type), most_bytes(type)
    if average < 40 or most < 80:
        size = 10 ** min(most, int(average) or 1, 15)
        return Domain(size, lambda number: number % size)
    text = phrases(average - 32, most - 40)

    def at(number: int) -> object:
        return {"n": number, "text": text(mix(number))}

    return Domain(2**50, at)
