"""Columns whose values are drawn freely: each compiled into a function of the row's number and its 64 bits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from datetime import date
from itertools import accumulate

from keyplan.data.domain import DAY_MS, Span, domain, moment, noise
from keyplan.data.numbers import MASK, draw, mix, permutation
from keyplan.data.text import counts, phrases, sizes
from keyplan.model.entity import Field
from keyplan.model.types import Type
from keyplan.model.values import average_bytes, average_length, most_bytes

Make = Callable[[int, int], object]
"""From a row's number and its 64 random bits to a value."""

REMEMBERED = 65_536
"""So many values of a small domain are kept instead of being made again; what bounds the memory."""

_USUAL = {"int": 1_000, "float": 1_000_000, "uuid": 2**62, "ulid": 2**40, "json": 2**30}
_USUAL_STRINGS = 1_000
_USUAL_ELEMENTS = 200


def remember(at: Callable[[int], object], size: int) -> Callable[[int], object]:
    """Keeps what `at` gave, for domains that are small enough."""
    if size > REMEMBERED:
        return at
    known: dict[int, object] = {}

    def get(number: int) -> object:
        value = known.get(number)
        if value is None:
            if len(known) >= REMEMBERED:
                known.clear()
            value = known[number] = at(number)
        return value

    return get


def free(type: Type, field: Field, distinct: int | None, span: Span, seed: int) -> Make:
    """Values with the field's statistics, without regard to `optional`."""
    factor = seed | 1
    if type.of is not None:
        return _collection(type, type.of, field, distinct, span, seed)
    if type.kind in ("bool", "enum"):
        return _weighted(type, factor)
    plain = distinct is None and field.skew is None and field.top is None
    if plain and type.kind in ("string", "text"):
        text = phrases(average_bytes(type), most_bytes(type))
        return lambda row, bits: text(bits * factor & MASK)
    if plain and type.kind == "bytes":
        size = sizes(average_bytes(type), most_bytes(type))
        return lambda row, bits: noise(mine := bits * factor & MASK, size(mine))
    if plain and type.kind == "timestamp":
        start, length = span.start, span.ms
        return lambda row, bits: moment(start + ((bits * factor & MASK) * length >> 64))
    if plain and type.kind == "date":
        today, days = moment(span.end).toordinal(), max(1, span.ms // DAY_MS)
        return lambda row, bits: date.fromordinal(today - ((bits * factor & MASK) * days >> 64))
    wanted = distinct or _usual(type, span)
    values = domain(type, wanted, span, seed, field.name)
    count = min(wanted, values.size)
    at = values.at if type.kind == "json" else remember(values.at, count)
    if field.skew is None and field.top is None:
        return lambda row, bits: at((bits * factor & MASK) * count >> 64)
    pick = draw(count, field.skew, field.top)
    return lambda row, bits: at(pick(bits * factor & MASK))


def _usual(type: Type, span: Span) -> int:
    """How many values a field may have if the model does not say."""
    if type.kind == "decimal":
        return int(5 * 10 ** min(17, type.scale + 2))
    if type.kind == "date":
        return max(1, span.ms // DAY_MS)
    if type.kind == "timestamp":
        return max(1, span.ms)
    return _USUAL.get(type.kind, _USUAL_STRINGS)


def _weighted(type: Type, factor: int) -> Make:
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
    bounds = [int(sofar / total * 2**64) for sofar in accumulate(weights)][:-1]
    return lambda row, bits: values[bisect_right(bounds, bits * factor & MASK)]


def _collection(type: Type, of: Type, field: Field, distinct: int | None, span: Span, seed: int) -> Make:
    factor = seed | 1
    length = counts(average_length(type), type.most)
    if type.kind == "list":
        one = free(of, field, distinct, span, seed)

        def listed(row: int, bits: int) -> object:
            mine = bits * factor & MASK
            return tuple(one(row, mix(mine + place)) for place in range(length(mine)))

        return listed
    if of.kind in ("bool", "enum") or field.skew is not None or field.top is not None:
        return _sets_by_trial(free(of, field, distinct, span, seed), length, factor)
    wanted = distinct or min(_usual(of, span), _USUAL_ELEMENTS)
    values = domain(of, wanted, span, seed, field.name)
    count = min(wanted, values.size)
    at = remember(values.at, count)
    shuffle = permutation(count, seed)

    def chosen(row: int, bits: int) -> object:
        mine = bits * factor & MASK
        first = mix(mine) * count >> 64
        return frozenset([at(shuffle((first + place) % count)) for place in range(min(length(mine), count))])

    return chosen


def _sets_by_trial(one: Make, length: Callable[[int], int], factor: int) -> Make:
    """Sets whose elements have unequal shares: drawn again where an element repeats, but not for ever."""

    def chosen(row: int, bits: int) -> object:
        mine = bits * factor & MASK
        wanted = length(mine)
        found: set[object] = set()
        for place in range(4 * wanted):
            if len(found) == wanted:
                break
            found.add(one(row, mix(mine + place)))
        return frozenset(found)

    return chosen


def sometimes(make: Make, share: float, seed: int) -> Make:
    """The values of `make` in that share of rows, else None."""
    if share >= 1:
        return make
    bound = int(max(share, 0.0) * 2**64)
    factor = mix(seed) | 1
    return lambda row, bits: make(row, bits) if bits * factor & MASK < bound else None
