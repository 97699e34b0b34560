"""Time buckets by a directory of those that are not empty: its counts say how many have to be read for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from keyplan.engines.codec import Span
from keyplan.engines.rounds import Proc
from keyplan.errors import DesignError
from keyplan.model.entity import Ttl
from keyplan.model.pattern import Order
from keyplan.model.values import truncate
from keyplan.plan.view import COUNT
from keyplan.store.reading.filter import Call, Row
from keyplan.store.reading.order import Position
from keyplan.store.reading.search import MOST_AT_ONCE, MOST_BUCKETS_AT_ONCE, SearchNode

if TYPE_CHECKING:
    from keyplan.store.reading.execute import Runner


@dataclass
class _Walk:
    """How far the walk for one outer row has come."""

    outer: Mapping[str, Any]
    position: Position | None
    span: Span | None
    """What is left of the directory."""
    buckets: list[tuple[Any, int]] = field(default_factory=list)
    """Known and not read yet, with the rows that each is said to have."""
    rows: list[Row] = field(default_factory=list)


class BucketsNode:
    """The rows of `inner` for every bucket that the directory `outer` has, in its order."""

    def __init__(self, outer: SearchNode, inner: Runner, ordered: bool, ttl: Ttl | None = None) -> None:
        self.outer = outer
        self.inner = inner
        last = outer.spans.key.parts[-1]
        if last.cut is None or len(outer.spans.rest) != 1:
            raise DesignError(f"the plan takes buckets from '{outer.search.view}', which is no directory of them")
        self.path, self.cut = last.path, last.cut
        self.name = f"{last.cut}({last.path})"
        self.lives_ms = ttl.ms if ttl is not None and ttl.since == self.path else None
        """How long a row lives after the moment that it is kept by: buckets before that hold none."""
        self.entity = inner.entity
        self.order: tuple[Order, ...] = inner.order if ordered else ()
        self.provides = inner.provides
        self.free = tuple(sorted({*outer.free, *inner.free} - {self.name}))

    def many(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None = None,
        limit: int | None = None,
    ) -> Proc[list[list[Row]]]:
        walks = [
            self.start(call, outer, after[number] if after is not None else None) for number, outer in enumerate(outers)
        ]
        size = limit if self.order else None
        while True:
            yield from self.look_up(call, [one for one in walks if not one.buckets], limit, size)
            unfinished = [one for one in walks if one.buckets and (limit is None or len(one.rows) < limit)]
            if not unfinished:
                break
            yield from self.read(call, unfinished, limit)
            if size is not None:
                size = min(size * 2, max(MOST_AT_ONCE, size))
        return [one.rows if limit is None else one.rows[:limit] for one in walks]

    def start(self, call: Call, outer: Mapping[str, Any], position: Position | None) -> _Walk:
        """A walk that begins with the bucket of a position."""
        spans = self.outer.spans.spans(call, outer)
        if len(spans) > 1:
            raise DesignError(f"the plan takes buckets of several places at once from '{self.outer.search.view}'")
        span = spans[0] if spans else None
        if span is not None and position is not None:
            span = self.outer.spans.narrowed(span, (truncate(position[self.path], self.cut),), exclusive=False)
        if span is not None and self.lives_ms is not None:
            oldest = truncate(call.now - timedelta(milliseconds=self.lives_ms), self.cut)
            if span.low is None or span.low[0] < oldest:
                span = replace(span, low=(oldest,), low_open=False)
        return _Walk(outer, position, span)

    def look_up(self, call: Call, walks: Sequence[_Walk], limit: int | None, size: int | None) -> Proc[None]:
        """Reads the directories on, for those that lack rows and may have more."""
        while True:
            walks = [one for one in walks if one.span is not None and not one.buckets]
            walks = [one for one in walks if limit is None or len(one.rows) < limit]
            if not walks:
                return
            spans = [one.span for one in walks if one.span is not None]
            keeps = [self.outer.keep(call, one.outer) for one in walks]
            # `fetch` moves on spans in its own list where a filter makes it read more.
            found = yield from self.outer.fetch(call, list(spans), keeps, size)
            for one, span, rows in zip(walks, spans, found, strict=True):
                one.buckets = [(row[self.name], row[COUNT]) for row in rows if row[COUNT]]
                one.span = None
                if size is not None and len(rows) >= size:
                    one.span = self.outer.spans.narrowed(span, (rows[-1][self.name],), exclusive=True)

    def read(self, call: Call, walks: Sequence[_Walk], limit: int | None) -> Proc[None]:
        """Reads as many buckets of each walk as should have enough rows."""
        runs: list[Row] = []
        owners: list[_Walk] = []
        for one in walks:
            wanted = None if limit is None else limit - len(one.rows)
            taken = expected = 0
            for _, count in one.buckets[: None if wanted is None else MOST_BUCKETS_AT_ONCE]:
                if wanted is not None and expected >= wanted:
                    break
                taken += 1
                expected += count
            runs += [{**one.outer, self.name: bucket} for bucket, _ in one.buckets[:taken]]
            owners += [one] * taken
            del one.buckets[:taken]
        positions = [one.position for one in owners]
        ordered = bool(self.order)
        found = yield from self.inner.many(
            call, runs, positions if ordered and any(positions) else None, limit if ordered else None
        )
        for one, rows in zip(owners, found, strict=True):
            one.rows += rows
