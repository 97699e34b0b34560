"""From the conditions of a Search to spans of its view: which partitions, which range of each, and where to resume.

The values of each key part are worked out once per call and outer row. Parts with several values (`in`, shards,
truncations that a range runs over) multiply the spans. Bounds of a span are in the order of the key: on a part that
is stored descending, `low` holds the greater value.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from itertools import product
from random import randrange
from typing import Any

from keyplan.engines.codec import Span
from keyplan.errors import DesignError, UnsupportedError
from keyplan.model.model import Model
from keyplan.model.pattern import RANGES, Condition, Order
from keyplan.model.types import Type
from keyplan.model.values import truncate
from keyplan.plan.gaps import gap_text
from keyplan.plan.shards import shard_of
from keyplan.plan.steps import Search
from keyplan.plan.view import COPIES
from keyplan.store.reading.filter import Call, Wanted, compile_operands
from keyplan.store.reading.keys import Key, KeyPart
from keyplan.store.reading.order import Position
from keyplan.store.reading.time_buckets import buckets_between, shifted

MOST_BUCKETS = 1_000_000
"""Buckets that one range may run over: hours of a century, minutes of two years. Each is a request, empty or not."""
WINDOW = 1_000
"""So many of them are read at a time."""
TIMES = ("minute", "hour", "day", "week", "month", "year")

Values = Callable[[Call, Mapping[str, Any]], Sequence[Any]]


@dataclass(frozen=True)
class Bound:
    """The end of a range on one part, in the order of its values."""

    value: Any
    open: bool = False


@dataclass(frozen=True)
class Range:
    low: Bound | None = None
    high: Bound | None = None
    starts: str | None = None
    empty: bool = False


@dataclass
class _Given:
    condition: Condition
    type: Type
    wanted: Wanted
    used: bool = False
    """A key part answers it exactly."""


class Spans:
    """Compiled `given` conditions of one Search."""

    def __init__(self, model: Model, search: Search, key: Key) -> None:
        self.search = search
        self.key = key
        self.given = [_compile(model, key.entity, condition) for condition in search.given]
        self.fixed: list[Values] = []
        """Values per part: all partition parts, then the sort parts that are fixed."""
        self.range: Callable[[Call, Mapping[str, Any]], Range] | None = None
        self.bucket: int | None = None
        """The number of the partition part that cuts the rows by the moment that their order begins with."""
        self.ranged: int | None = None
        """The number of the first part whose values are all those that a range runs over."""
        self.scan = False
        """No condition fixes the partition: the whole view is read."""
        for number, part in enumerate(key.parts):
            in_sort = number >= len(key.partition)
            values = None if self.range else self.values_of(part, number if not in_sort else None)
            if values is not None:
                self.fixed.append(values)
                continue
            if in_sort:
                self.range = self.range or self.range_of(part)
                break
            if any(one.used for one in self.given):
                raise DesignError(
                    f"the plan searches view '{search.view}' without a value for '{part.path or 'shard'}'"
                )
            self.scan = True
            self.fixed.clear()
            break
        if search.order and not self.scan:
            first = str(search.order[0].path)
            cuts = [n for n, part in enumerate(key.partition) if part.path == first and part.cut in TIMES]
            self.bucket = cuts[0] if cuts else None
        self.residual = tuple(one.condition for one in self.given if not one.used)
        """Conditions that the key narrows but does not answer exactly."""
        self.single = not self.scan and self.range is None and len(self.fixed) == len(key.parts)
        """Every part of the key is fixed."""
        self.rest = key.parts[len(self.fixed) :] if not self.scan else key.parts

    # Values and ranges of parts

    def on(self, part: KeyPart, *ops: str) -> list[_Given]:
        return [
            one for one in self.given if str(one.condition.path) == part.path and (not ops or one.condition.op in ops)
        ]

    def values_of(self, part: KeyPart, number: int | None) -> Values | None:
        """The values that a part is fixed to, or None; of a partition part with its number, all that a range has."""
        if part.cut == COPIES:
            return lambda call, outer: (randrange(part.ways),)
        if part.ways > 1:
            return self.shards_of(part)
        if part.cut in ("each", "words"):
            return self.elements_of(part)
        for one in self.on(part, "=", "in"):
            cut = one.condition.cut
            if (cut is None and part.cut is None) or cut == part.cut:
                one.used = True
                return _listed(one, None) if part.gaps is None else _as_text(_listed(one, None), part.gaps)
            if cut is None and part.gaps is None:
                return _listed(one, part.cut)
        if part.cut is not None and part.gaps is None and number is not None and self.on(part, *RANGES, "="):
            self.ranged = number if self.ranged is None else self.ranged
            return self.buckets_of(part)
        return None

    def shards_of(self, part: KeyPart) -> Values:
        """All shards, or the one that the key's values lead to."""
        found = [self.on(KeyPart(path), "=") for path in part.hashed]
        exact = [next((one for one in some if one.condition.cut is None), None) for some in found]
        every = range(part.ways)
        if None in exact:
            return lambda call, outer: every

        def one_shard(call: Call, outer: Mapping[str, Any]) -> Sequence[Any]:
            values = [one.wanted(call, outer) for one in exact if one is not None]
            if None in values:
                return ()
            return (shard_of([value[0] for value in values if value is not None], part.ways),)

        return one_shard

    def elements_of(self, part: KeyPart) -> Values | None:
        op = "contains" if part.cut == "each" else "search"
        for one in self.on(part, op):
            if op == "search" and {str(path) for path in one.condition.also} != set(part.also):
                continue
            if op == "contains":
                one.used = True
                return _listed(one, None)
            return _longest_word(one.wanted)
        return None

    def buckets_of(self, part: KeyPart) -> Values:
        """Every truncated value that a range on the same path runs over."""
        cut = part.cut
        assert cut is not None
        bounds = self.range_of(KeyPart(part.path), mark=False)
        assert bounds is not None
        for one in self.given:  # a range of whole buckets needs no second look
            if str(one.condition.path) == part.path and one.condition.cut == cut:
                one.used = True

        def buckets(call: Call, outer: Mapping[str, Any]) -> Sequence[Any]:
            found = bounds(call, outer)
            if found.empty:
                return ()
            if found.low is None or found.high is None:
                raise UnsupportedError(
                    f"view '{self.search.view}' is cut by {cut}({part.path}); a range needs both ends"
                )
            start, end = truncate(found.low.value, cut), truncate(found.high.value, cut)
            result = buckets_between(start, end, cut)
            if found.high.open and start_moment(end, Type("timestamp")) == found.high.value:
                result = result[:-1]  # it ends where the last one begins
            if len(result) > MOST_BUCKETS:
                raise UnsupportedError(
                    f"view '{self.search.view}' is cut by {cut}({part.path}), and the range runs over {len(result):,} "
                    f"of them, more than {MOST_BUCKETS:,}; ask for less at once"
                )
            return result

        return buckets

    def range_of(self, part: KeyPart, mark: bool = True) -> Callable[[Call, Mapping[str, Any]], Range] | None:
        """The range that conditions allow for a part."""
        if part.cut in ("each", "words") or part.ways > 1 or part.gaps is not None:
            return None
        some: list[_Given] = []
        for one in self.on(part, *RANGES, "="):
            cut = one.condition.cut
            if part.cut is None or cut == part.cut or cut is None:
                some.append(one)
                if mark and (part.cut is None or cut == part.cut):
                    one.used = True
        if not some:
            return None

        def find(call: Call, outer: Mapping[str, Any]) -> Range:
            result = Range()
            for one in some:
                wanted = one.wanted(call, outer)
                if wanted is None:
                    return Range(empty=True)
                result = _narrow(result, one, wanted, part.cut)
            return result

        return find

    # Spans

    def windows(self, call: Call, outer: Mapping[str, Any], position: Position | None) -> list[Sequence[Any]]:
        """The buckets that a range runs over, cut into pieces, in the order of the rows if they are by that moment."""
        assert self.ranged is not None
        found = self.fixed[self.ranged](call, outer)
        part = self.key.parts[self.ranged]
        down = self.in_order and self.search.order[0].descending
        there = position.get(part.path) if position and self.in_order else None
        if there is not None and part.cut is not None:
            bucket = truncate(there, part.cut)
            found = found[: bisect_right(found, bucket)] if down else found[bisect_left(found, bucket) :]
        pieces = [found[start : start + WINDOW] for start in range(0, len(found), WINDOW)]
        return pieces[::-1] if down else pieces

    @property
    def in_order(self) -> bool:
        """Whether the rows come bucket after bucket, of those that a range runs over."""
        return self.bucket is not None and self.bucket == self.ranged

    def is_wide(self, call: Call, outer: Mapping[str, Any]) -> bool:
        """Whether a range runs over more buckets than are to be read at a time."""
        return self.ranged is not None and len(self.fixed[self.ranged](call, outer)) > WINDOW

    def spans(self, call: Call, outer: Mapping[str, Any], among: Sequence[Any] | None = None) -> list[Span]:
        """The spans for one outer row, without a position; in `among` of the buckets that a range runs over."""
        if self.scan:
            return [Span(())]
        count = len(self.key.partition)
        lists = [values(call, outer) for values in self.fixed]
        if among is not None and self.ranged is not None:
            lists[self.ranged] = among
        low: tuple[Any, ...] | None = None
        high: tuple[Any, ...] | None = None
        low_open = high_open = False
        starts: str | None = None
        if self.range is not None:
            found = self.range(call, outer)
            if found.empty or _is_void(found):
                return []
            starts = found.starts
            first, last = found.low, found.high
            if self.rest[0].descending:
                first, last = last, first
            if first is not None:
                low, low_open = (first.value,), first.open
            if last is not None:
                high, high_open = (last.value,), last.open
        return [
            Span(values[:count], values[count:], low, low_open, high, high_open, starts) for values in product(*lists)
        ]

    def resume(self, span: Span, order: Sequence[Order], position: Position) -> Span | None:
        """What is left of a span after a position of a total order; None if nothing is."""
        constants: dict[str, Any] = {}
        values = (*span.partition, *span.prefix)
        for part, value in zip(self.key.parts, values, strict=False):
            if part.path and part.cut is None:
                constants[part.path] = value
        bound: list[Any] = []
        rest = list(self.rest)
        exclusive = True
        for number, term in enumerate(order):
            name = str(term.path)
            if name not in position:
                break  # a shorter position stands behind all that agree with it
            there = position[name]
            if there is None:
                return None  # no key holds a gap, so that everything present comes before
            if number == 0:
                side = self.bucket_side(values, name, there, term.descending)
                if side:
                    return span if side > 0 else None
            if name in constants:
                here = constants[name]
                if here == there:
                    continue
                if (here < there) != term.descending:
                    if not bound:
                        return None
                    break
                if not bound:
                    return span
                exclusive = False
                break
            while rest and rest[0].path != name and rest[0].path in constants and rest[0].cut is None:
                bound.append(constants[rest.pop(0).path])
            while rest and rest[0].path == name:
                cut = rest[0].cut
                bound.append(truncate(there, cut) if cut else there)
                rest.pop(0)
                if cut is None:
                    break
            else:
                raise DesignError(f"the plan orders view '{self.search.view}' by '{name}', which its key does not")
        if position and not bound:
            return None  # all of the span agrees with the position, which stands behind it
        return self.narrowed(span, tuple(bound), exclusive)

    def bucket_side(self, values: Sequence[Any], name: str, there: Any, descending: bool) -> int:
        """Whether a partition by time lies before (-1) or after (1) the position; 0 if it may hold it."""
        for part, value in zip(self.key.parts, values, strict=False):
            if part.path == name and part.cut is not None and part.cut not in ("each", "words"):
                bucket = truncate(there, part.cut)
                if bucket != value:
                    return 1 if (value > bucket) != descending else -1
        return 0

    def narrowed(self, span: Span, bound: tuple[Any, ...], exclusive: bool) -> Span:
        if not bound:
            return span
        if self.search.descending:
            if span.high is not None and self.stricter(span.high, span.high_open, bound, exclusive, high=True):
                return span
            return replace(span, high=bound, high_open=exclusive)
        if span.low is not None and self.stricter(span.low, span.low_open, bound, exclusive, high=False):
            return span
        return replace(span, low=bound, low_open=exclusive)

    def stricter(
        self, held: tuple[Any, ...], held_open: bool, bound: tuple[Any, ...], exclusive: bool, *, high: bool
    ) -> bool:
        """Whether a span's own bound already leaves out more than a position does."""
        for part, here, there in zip(self.rest, held, bound, strict=False):
            if here != there:
                return bool(here < there) if high != part.descending else bool(here > there)
        # One may be the beginning of the other: then it leaves out all that begins so, or none of it.
        return held_open if len(held) <= len(bound) else not exclusive


def _compile(model: Model, entity: str, condition: Condition) -> _Given:
    type = model.column(entity, condition.path).type
    if condition.op == "contains" and type.of is not None:
        type = type.of
    return _Given(condition, type, compile_operands(condition, type))


def _listed(one: _Given, cut: str | None) -> Values:
    wanted = one.wanted
    many = one.condition.op == "in"
    if not many and cut is None:
        return lambda call, outer: wanted(call, outer) or ()

    def values(call: Call, outer: Mapping[str, Any]) -> Sequence[Any]:
        found = wanted(call, outer)
        if found is None:
            return ()
        items = found[0] if many else found
        return sorted({truncate(item, cut) for item in items} if cut else items)

    return values


def _as_text(values: Values, type: Type) -> Values:
    """The texts under which values stand that may be missing."""
    return lambda call, outer: [gap_text(type, value) for value in values(call, outer)]


def _longest_word(wanted: Wanted) -> Values:
    """One word narrows, the others are left to the filter; long words are rare ones."""

    def values(call: Call, outer: Mapping[str, Any]) -> Sequence[Any]:
        found = wanted(call, outer)
        return (max(sorted(found[0]), key=len),) if found and found[0] else ()

    return values


def _is_void(found: Range) -> bool:
    if found.low is None or found.high is None:
        return False
    if found.low.value == found.high.value:
        return found.low.open or found.high.open
    return bool(found.low.value > found.high.value)


def _narrow(range: Range, one: _Given, wanted: tuple[Any, ...], part_cut: str | None) -> Range:
    """A range narrowed by one condition, exactly or (where the part is coarser) to the buckets that may match."""
    op, cut = one.condition.op, one.condition.cut
    if op == "begins_with":
        starts = wanted[0]
        if range.starts is not None:
            if range.starts.startswith(starts):
                return range
            if not starts.startswith(range.starts):
                return replace(range, empty=True)
        return replace(range, starts=starts)
    low = high = None
    if op in ("=", "between", ">", ">="):
        low = Bound(wanted[0], op == ">")
    if op in ("=", "between", "<", "<="):
        high = Bound(wanted[-1], op == "<")
    if part_cut is not None and cut is None:
        low = low and Bound(truncate(low.value, part_cut))
        high = high and Bound(truncate(high.value, part_cut))
    elif part_cut is None and cut is not None:
        low = low and _start_of(low, cut, one.type)
        high = high and _end_of(high, cut, one.type)
        if low is None and op in ("=", "between", ">", ">="):
            return replace(range, empty=True)
    return replace(range, low=_higher(range.low, low), high=_lower(range.high, high))


def _higher(a: Bound | None, b: Bound | None) -> Bound | None:
    if a is None or b is None:
        return a or b
    if a.value == b.value:
        return a if a.open else b
    return a if a.value > b.value else b


def _lower(a: Bound | None, b: Bound | None) -> Bound | None:
    if a is None or b is None:
        return a or b
    if a.value == b.value:
        return a if a.open else b
    return a if a.value < b.value else b


def _start_of(bound: Bound, cut: str, type: Type) -> Bound | None:
    """`day(x) >= d` as a bound of x; None if there is no such moment."""
    if not bound.open:
        return Bound(start_moment(bound.value, type))
    try:
        return Bound(start_moment(shifted(bound.value, cut, 1), type))
    except OverflowError:
        return None


def _end_of(bound: Bound, cut: str, type: Type) -> Bound | None:
    """`day(x) <= d` as a bound of x; None if nothing comes after it."""
    if bound.open:
        return Bound(start_moment(bound.value, type), True)
    try:
        return Bound(start_moment(shifted(bound.value, cut, 1), type), True)
    except OverflowError:
        return None


def start_moment(value: date, type: Type) -> date:
    """The first value of a column's type in the time that begins with a truncated value."""
    if type.kind == "timestamp" and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    return value
