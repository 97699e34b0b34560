"""Aggregates over a range of time from what is kept of whole windows, and from the rows of those that the range cuts.

What is kept of a window (`Windows.whole`) speaks for all its rows, so it is taken only where the range has all of them.
The windows that it begins and ends in are read row by row (`Windows.edges`), in the same round; each of their rows in
the range becomes an entry of its own, as if its group had no other row. So both are merged as groups are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from keyplan.engines.rounds import Proc
from keyplan.errors import DesignError
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Order, Outer
from keyplan.model.types import Type
from keyplan.model.values import truncate
from keyplan.plan.steps import FIRST, UNTIL, WINDOW, Search, Windows
from keyplan.plan.terms import compile_term
from keyplan.plan.view import COUNT, FIRST_EXPIRES, Measure
from keyplan.store.pump import gather
from keyplan.store.reading.filter import Call, Row
from keyplan.store.reading.keys import Key, KeyPart
from keyplan.store.reading.order import Position
from keyplan.store.reading.search import SearchNode
from keyplan.store.reading.spans import Range, Spans, start_moment
from keyplan.store.reading.time_buckets import shifted

if TYPE_CHECKING:
    from keyplan.store.reading.execute import Runner


@dataclass
class Split:
    """A range of time as windows: those that lie wholly in it, and those that it begins or ends in."""

    first: date | None = None
    """The first whole window; None: there is no beginning."""
    until: date | None = None
    """The first window behind the last whole one; None: there is no end."""
    edges: list[date] = field(default_factory=list)
    none_whole: bool = False


def split(range: Range, cut: str, type: Type) -> Split:
    """The windows of a range of a column's values."""
    found = Split(none_whole=range.empty)
    low, high = range.low, range.high
    if range.empty or (low is not None and high is not None and low.value > high.value):
        return Split(none_whole=True)
    if low is not None:
        window = truncate(low.value, cut)
        found.first = window
        if low.open or start_moment(window, type) != low.value:
            found.edges.append(window)
            try:
                found.first = shifted(window, cut, 1)
            except OverflowError:  # the last window that there is
                found.none_whole = True
    if high is not None:
        window = truncate(high.value, cut)
        found.until = window
        if not high.open and _is_last(high.value, window, cut, type):
            found.until = shifted(window, cut, 1)
        elif (not high.open or start_moment(window, type) != high.value) and window not in found.edges:
            found.edges.append(window)
    if found.first is not None and found.until is not None and found.first >= found.until:
        found.none_whole = True
    return found


def _is_last(value: date, window: date, cut: str, type: Type) -> bool:
    """Whether no value of a window comes after this one."""
    step = timedelta(days=1) if type.kind == "date" else timedelta(milliseconds=1)
    try:
        return value + step >= start_moment(shifted(window, cut, 1), type)
    except OverflowError:
        return False


class WindowsNode:
    """A compiled Windows."""

    def __init__(
        self, model: Model, node: Windows, whole: SearchNode, edges: Runner, measures: Sequence[Measure]
    ) -> None:
        self.whole, self.edges = whole, edges
        self.path, self.cut = node.path, node.cut
        self.name = f"{node.cut}({node.path})"
        self.entity = whole.entity
        self.type = model.column(self.entity, path_of(node.path, model, self.entity)).type
        bounds = Spans(
            model, Search(node.whole.view, given=node.range), Key(self.entity, (), (KeyPart(node.path),))
        ).range
        if bounds is None or self.name not in whole.provides or node.path not in edges.provides:
            raise DesignError(f"the plan takes windows by {self.name} from '{node.whole.view}', which tells none")
        self.bounds = bounds
        self.amounts = [(one.name, one.how, compile_term(one.term)) for one in measures if one.term is not None]
        self.has_end = UNTIL in whole.free
        self.order: tuple[Order, ...] = ()
        self.provides = whole.provides
        outers = {o.path for one in node.range for o in one.operands if isinstance(o, Outer)}
        self.free = tuple(sorted({*whole.free, *edges.free, *outers} - {FIRST, UNTIL, WINDOW}))

    def many(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None = None,
        limit: int | None = None,
    ) -> Proc[list[list[Row]]]:
        ranges = [self.bounds(call, outer) for outer in outers]
        splits = [self.split(range) for range in ranges]
        inside = [number for number, one in enumerate(splits) if not one.none_whole]
        told = [{**outers[number], FIRST: splits[number].first, UNTIL: splits[number].until} for number in inside]
        cut = [(number, window) for number, one in enumerate(splits) for window in one.edges]
        procs = [self.rows_of(call, outers, cut)]
        if inside:
            procs.append(self.whole.many(call, told))
        edges, *kept = yield from gather(procs)
        result: list[list[Row]] = [[] for _ in outers]
        stale: list[tuple[int, date]] = []
        for number, entries in zip(inside, kept[0] if kept else (), strict=True):
            gone = {row[self.name] for row in entries if _has_expired(row, call)}
            stale += [(number, window) for window in sorted(gone)]
            result[number] += [row for row in entries if row[self.name] not in gone]
        if stale:
            edges = [*edges, *(yield from self.rows_of(call, outers, stale))]
        for (number, _), rows in zip((*cut, *stale), edges, strict=True):
            result[number] += [self.entry(row) for row in rows if _lies_in(row[self.path], ranges[number])]
        return result

    def split(self, range: Range) -> Split:
        """The windows of a range; of one that ends behind all there is, the last one is an edge."""
        found = split(range, self.cut, self.type)
        if self.has_end and found.until is None and not found.none_whole:
            last = date.max if self.type.kind == "date" else datetime.max.replace(tzinfo=UTC)
            found.until = truncate(last, self.cut)
            found.edges.append(found.until)
        return found

    def rows_of(
        self, call: Call, outers: Sequence[Mapping[str, Any]], windows: Sequence[tuple[int, date]]
    ) -> Proc[list[list[Row]]]:
        """The rows of windows, each for one outer row."""
        if not windows:
            return []
        return (yield from self.edges.many(call, [{**outers[number], WINDOW: window} for number, window in windows]))

    def entry(self, row: Row) -> Row:
        """A row as a group of one."""
        found = {**row, COUNT: 1}
        for name, how, value in self.amounts:
            amount = value(row)
            found[name] = amount if how != "count" else int(amount is not None)
        return found


def _has_expired(row: Row, call: Call) -> bool:
    """Whether a window has lost rows since it was added up."""
    first = row.get(FIRST_EXPIRES)
    return first is not None and bool(first <= call.now)


def _lies_in(value: Any, range: Range) -> bool:
    low, high = range.low, range.high
    if value is None or range.empty:
        return False
    if low is not None and (value < low.value or (low.open and value == low.value)):
        return False
    return high is None or value < high.value or (not high.open and bool(value == high.value))
