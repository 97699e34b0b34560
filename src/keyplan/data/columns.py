"""Columns whose values are drawn freely: each compiled into a function of the rows' 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from keyplan.data.domain import DAY_MS, Span, Values, days, domain, moments, noise, ordinal
from keyplan.data.numbers import MASK, Bits, Numbers, as_bits, draw, evenly, mixed, permutation
from keyplan.data.text import Sizes, counts, phrases, sizes
from keyplan.model.entity import Field
from keyplan.model.types import Type
from keyplan.model.values import average_bytes, average_length, most_bytes

Drawn = Callable[[Bits], Sequence[Any]]
"""From 64 random bits per row to a value per row."""

REMEMBERED = 16_384
"""So many values of a small domain are kept instead of being made again; what bounds the memory."""
_REMEMBERED_BYTES = 8_000_000
_WORTH = 4
"""All values are made once so many of them have been asked for as this part of the domain has."""

_USUAL = {"int": 1_000, "float": 1_000_000, "uuid": 2**62, "ulid": 2**40, "json": 2**30}
_USUAL_STRINGS = 1_000
_USUAL_ELEMENTS = 200


def remember(at: Values, size: int, each: float = 8) -> Values:
    """Keeps all values of a domain that is small enough, once so many are asked for that it pays."""
    if size > REMEMBERED or size * each > _REMEMBERED_BYTES:
        return at
    known: list[Any] = []
    asked = 0

    def get(numbers: Numbers) -> Sequence[Any]:
        nonlocal asked
        if not known:
            asked += len(numbers)
            if asked * _WORTH < size:
                return at(numbers)
            known.extend(at(np.arange(size, dtype=np.int64)))
        return list(map(known.__getitem__, numbers.tolist()))

    return get


def free(type: Type, field: Field, distinct: int | None, span: Span, seed: int) -> Drawn:
    """Values with the field's statistics, without regard to `optional`."""
    factor = seed | 1
    if type.of is not None:
        return _collection(type, type.of, field, distinct, span, seed)
    if type.kind in ("bool", "enum"):
        return _weighted(type, factor)
    plain = distinct is None and field.skew is None and field.top is None
    if plain and type.kind in ("string", "text"):
        text = phrases(average_bytes(type), most_bytes(type))
        return lambda bits: text(bits * factor)
    if plain and type.kind == "bytes":
        size = sizes(average_bytes(type), most_bytes(type))
        return lambda bits: noise(mine := bits * factor, size(mine))
    if plain and type.kind == "timestamp":
        start, length = span.start, span.ms
        return lambda bits: moments(start + evenly(bits * factor, length))
    if plain and type.kind == "date":
        today, reach = ordinal(span.end), max(1, span.ms // DAY_MS)
        return lambda bits: days(today - evenly(bits * factor, reach))
    wanted = distinct or _usual(type, span)
    values = domain(type, wanted, span, seed, field.name)
    count = min(wanted, values.size)
    # JSON values can be changed by who gets them, so each row has its own.
    at = values.at if type.kind == "json" else remember(values.at, count, average_bytes(type))
    pick = draw(count, field.skew, field.top)
    return lambda bits: at(pick(bits * factor))


def _usual(type: Type, span: Span) -> int:
    """How many values a field may have if the model does not say."""
    if type.kind == "decimal":
        return int(5 * 10 ** min(17, type.scale + 2))
    if type.kind == "date":
        return max(1, span.ms // DAY_MS)
    if type.kind == "timestamp":
        return max(1, span.ms)
    return _USUAL.get(type.kind, _USUAL_STRINGS)


def _weighted(type: Type, factor: int) -> Drawn:
    """Booleans and enums with the shares the model states."""
    values: list[object]
    if type.kind == "bool":
        share = type.values[0][1] if type.values else 0.5
        values, weights = [True, False], [share, 1.0 - share]
    else:
        values, weights = [name for name, _ in type.values], [share for _, share in type.values]
    total = sum(weights)
    if total <= 0:
        weights, total = [1.0] * len(values), float(len(values))
    steps = [min(int(sofar / total * 2**64), MASK) for sofar in accumulate(weights)][:-1]
    bounds = np.array(steps, dtype=np.uint64)
    return lambda bits: list(map(values.__getitem__, np.searchsorted(bounds, bits * factor, side="right").tolist()))


def _collection(type: Type, of: Type, field: Field, distinct: int | None, span: Span, seed: int) -> Drawn:
    factor = seed | 1
    length = counts(average_length(type), type.most)
    if type.kind == "list":
        one = free(of, field, distinct, span, seed)

        def listed(bits: Bits) -> Sequence[Any]:
            mine = bits * factor
            lengths = length(mine)
            return _cut(one(_elements(mine, lengths)), lengths, tuple)

        return listed
    if of.kind in ("bool", "enum") or field.skew is not None or field.top is not None:
        return _sets_by_trial(free(of, field, distinct, span, seed), length, factor)
    wanted = distinct or min(_usual(of, span), _USUAL_ELEMENTS)
    values = domain(of, wanted, span, seed, field.name)
    count = min(wanted, values.size)
    at = remember(values.at, count, average_bytes(of))
    shuffle = permutation(count, seed)

    def chosen(bits: Bits) -> Sequence[Any]:
        mine = bits * factor
        lengths = np.minimum(length(mine), count)
        firsts = np.repeat(evenly(mixed(mine), count), lengths)
        return _cut(at(shuffle((firsts + _places(lengths)) % count)), lengths, frozenset)

    return chosen


def _sets_by_trial(one: Drawn, length: Sizes, factor: int) -> Drawn:
    """Sets whose elements have unequal shares: drawn again where an element repeats, but not for ever."""

    def chosen(bits: Bits) -> Sequence[Any]:
        mine = bits * factor
        wanted = length(mine)
        found = _cut(one(_elements(mine, wanted)), wanted, frozenset)
        got = np.fromiter(map(len, found), dtype=np.int64, count=len(found))
        short = np.flatnonzero(got < wanted)
        lengths = 4 * wanted[short]
        more = _cut(one(_elements(mine[short], lengths)), lengths, dict.fromkeys)
        for row, size, drawn in zip(short.tolist(), wanted[short].tolist(), more, strict=True):
            found[row] = frozenset(list(drawn)[:size])
        return found

    return chosen


def _places(lengths: Numbers) -> Numbers:
    """0, 1, 2, … for each length, one after the other."""
    ends = np.cumsum(lengths)
    return np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(ends - lengths, lengths)


def _elements(bits: Bits, lengths: Numbers) -> Bits:
    """64 bits for every element of every row."""
    return mixed(np.repeat(bits, lengths) + as_bits(_places(lengths)))


def _cut(flat: Sequence[Any], lengths: Numbers, kind: Callable[[Sequence[Any]], Any]) -> list[Any]:
    """The elements of all rows as a collection for each."""
    return [kind(flat[start:end]) for start, end in pairwise([0, *np.cumsum(lengths).tolist()])]
