"""Domains: the distinct values of a type by number, so that the same number gives the same value everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from itertools import repeat
from typing import Any

import numpy as np

from keyplan.data.numbers import GOLDEN, Bits, Numbers, as_bits, evenly, mix, mixed, ratio
from keyplan.data.text import numbered, phrases, sizes
from keyplan.model.identifiers import uuids_of
from keyplan.model.types import Type
from keyplan.model.values import average_bytes, most_bytes

DAY_MS = 86_400_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONTEXT = Context(prec=40)
_NOISE = b"".join(mix(number).to_bytes(8) for number in range(4096))
_ULID_DIGITS = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", dtype=np.uint8)

Values = Callable[[Numbers], Sequence[Any]]


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
    """`size` distinct values; `at(numbers)` are those of numbers from 0 up to the size."""

    size: int
    at: Values


def moments(ms: Numbers) -> list[datetime]:
    """The timestamps of Unix times in milliseconds, kept within the years a datetime can hold."""
    return list(map(EPOCH.__add__, np.clip(ms, _FIRST_MS, _LAST_MS).view("timedelta64[ms]").tolist()))


def days(ordinals: Numbers) -> list[date]:
    """The days of numbers that count from the first of the year 1, before which there is none."""
    return list(map(date.fromordinal, np.maximum(ordinals, 1).tolist()))


LAST = datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)
_FIRST_MS = -(date(1970, 1, 1).toordinal() - 1) * DAY_MS
_LAST_MS = (date(9999, 12, 31).toordinal() - date(1970, 1, 1).toordinal() + 1) * DAY_MS - 1


def ordinal(ms: int) -> int:
    """The day of a Unix time, counted from the first of the year 1."""
    return min(max(ms, _FIRST_MS), _LAST_MS) // DAY_MS + date(1970, 1, 1).toordinal()


def domain(type: Type, wanted: int, span: Span, seed: int, name: str = "") -> Domain:
    """The domain of a type, laid out for about that many values (`size` may be smaller, or much larger)."""
    wanted = max(1, wanted)
    kind = type.kind
    if kind == "int":
        return Domain(2**62, lambda numbers: (numbers + 1).tolist())
    if kind == "decimal":
        return Domain(10**18 - 1, _decimals(type.scale))
    if kind == "float":
        return Domain(2**50, lambda numbers: (numbers / 1000).tolist())
    if kind == "bool":
        return Domain(2, lambda numbers: (numbers != 0).tolist())
    if kind == "enum":
        names = tuple(value for value, _ in type.values)
        return Domain(len(names), lambda numbers: [names[number] for number in numbers.tolist()])
    if kind == "date":
        today = ordinal(span.end)
        return Domain(today, lambda numbers: days(today - numbers))
    if kind == "timestamp":
        return _timestamps(wanted, span, seed)
    if kind == "uuid":
        return Domain(2**62, lambda numbers: hashed_uuids(as_bits(numbers) ^ seed))
    if kind == "ulid":
        return Domain(2**40, _ulids(wanted, span, seed))
    if kind == "bytes":
        return _blobs(type, wanted, seed)
    if kind == "json":
        return _documents(type)
    suffix = "@example.com" if "email" in name else ""
    return Domain(*numbered(average_bytes(type), most_bytes(type), wanted, seed, suffix))


def _decimals(scale: int) -> Values:
    return lambda numbers: list(map(_CONTEXT.scaleb, map(Decimal, numbers.tolist()), repeat(-scale)))


def _timestamps(wanted: int, span: Span, seed: int) -> Domain:
    """Latest first, evenly spaced with some unrest; they reach back beyond the span if there are more than fit."""
    step = max(1, span.ms // wanted)
    end = span.end

    def at(numbers: Numbers) -> list[datetime]:
        unrest = evenly(mixed(as_bits(numbers) ^ seed), step)
        return moments(end - numbers * step - unrest)

    return Domain(max(1, (end - _FIRST_MS) // step - 1), at)


def hashed_uuids(numbers: Bits) -> list[Any]:
    """UUIDs of version 4 whose bits are hashes of the numbers."""
    high = mixed(numbers)
    low = high * 0xD6E8FEB86659FD93 & 0x3FFFFFFFFFFFFFFF | 0x8000000000000000
    high = high & 0xFFFFFFFFFFFF0FFF | 0x4000
    return uuids_of([first << 64 | second for first, second in zip(high.tolist(), low.tolist(), strict=True)])


def _ulids(wanted: int, span: Span, seed: int) -> Values:
    """Ascending through the span. The number itself is the end of the text, which keeps them distinct."""
    start, length, shift = max(0, span.start), max(0, span.end) - max(0, span.start), seed | 1
    passed = ratio(length, wanted)
    ten, eight = (np.arange(5 * (digits - 1), -1, -5, dtype=np.uint64) for digits in (10, 8))

    def at(numbers: Numbers) -> list[str]:
        bits = as_bits(numbers)
        digits = np.empty((len(numbers), 26), dtype=np.intp)
        digits[:, :10] = as_bits(start + passed(numbers))[:, None] >> ten & 31
        digits[:, 10:18] = ((bits * GOLDEN ^ shift) >> 7)[:, None] >> eight & 31
        digits[:, 18:] = bits[:, None] >> eight & 31
        text = _ULID_DIGITS[digits].tobytes().decode()
        return [text[at : at + 26] for at in range(0, len(text), 26)]

    return at


def _blobs(type: Type, wanted: int, seed: int) -> Domain:
    most = most_bytes(type)
    width = min(max(1, ((wanted - 1).bit_length() + 7) // 8), max(1, most), 8)
    space = 256**width
    factor = seed % space | 1
    size = sizes(average_bytes(type), most)

    def at(numbers: Numbers) -> list[bytes]:
        bits = as_bits(numbers)
        heads = (bits * factor & (space - 1)).tolist()
        mine = mixed(bits)
        tails = noise(mine, np.maximum(size(mine) - width, 0))
        return [head.to_bytes(width) + tail for head, tail in zip(heads, tails, strict=True)]

    return Domain(space, at)


def noise(bits: Bits, size: Numbers) -> list[bytes]:
    """So many bytes each, that look random."""
    longest = int(size.max(initial=0))
    # A start in the first 8192 bytes leaves that much for every length.
    source = _NOISE if longest + 8192 <= len(_NOISE) else _NOISE * (longest // len(_NOISE) + 2)
    starts = (bits >> 8 & 8191).tolist()
    return [source[start : start + length] for start, length in zip(starts, size.tolist(), strict=True)]


def _documents(type: Type) -> Domain:
    """Small objects with a number and a text; bare numbers where an object would be too large."""
    average, most = average_bytes(type), most_bytes(type)
    if average < 40 or most < 80:
        size = 10 ** min(most, int(average) or 1, 15)
        return Domain(size, lambda numbers: (numbers % size).tolist())
    text = phrases(average - 32, most - 40)

    def at(numbers: Numbers) -> list[dict[str, Any]]:
        texts = text(mixed(as_bits(numbers)))
        return [{"n": number, "text": one} for number, one in zip(numbers.tolist(), texts, strict=True)]

    return Domain(2**50, at)
