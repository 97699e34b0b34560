"""Searches through an index over a field of embedded rows: documents that have such an element, and of these the rows.

The index is over that field, perhaps over fields of the documents themselves, and over the `_id` behind them: documents
come in the order of the key, and the elements of each are put in order here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from keyplan.engines.codec import Answer, Ask, Span
from keyplan.engines.mongodb.embedded import EmbeddedReader, ScanAsk
from keyplan.engines.mongodb.filters import FieldFilter, Term, beginning, conjunction, disjunction, lexicographic
from keyplan.engines.mongodb.layout import Index, Place, owner_slot
from keyplan.engines.mongodb.operations import Find, Found, More
from keyplan.engines.mongodb.values import ID, Document, key_decoder
from keyplan.engines.rounds import Row
from keyplan.plan.steps import Search


@dataclass(slots=True)
class ElementsAsk(ScanAsk):
    """Documents that have elements in a span: at most so many of them."""

    documents: int
    strong: int


class ElementReader(EmbeddedReader):
    """A Search for the rows of one value, over all documents of a collection."""

    def __init__(self, place: Place, index: Index, search: Search) -> None:
        owned = [path for path in search.takes if path not in place.slots]
        super().__init__(place, search, [owner_slot(index.place, place, path) for path in owned])
        self._index = index
        heads = index.parts[:-1]
        self._heads = FieldFilter(heads, {})
        self._which = next(number for number, part in enumerate(heads) if part.many)
        """Which part is the elements' own."""
        own = heads[self._which].slot
        self._own = key_decoder((replace(own, field=own.field.removeprefix(f"{place.array}.")),))
        beside = [part.slot for part in heads if not part.many]
        self._above = key_decoder((*beside, *place.root_key))
        """The parts of the key that the document tells, all but the elements' own."""
        self._width = len(beside) + self._roots
        wanted = {**(self._projection or {}), own.field: 1, **{slot.field: 1 for slot in beside}}
        self._projection = {name: 1 for name in wanted if name != place.array}

    def ask(self, spans: Sequence[Span], limit: int | None, *, strong: int) -> list[Ask]:
        return [self._one(span, number, limit, strong) for number, span in enumerate(spans)]

    def _one(self, span: Span, number: int, limit: int | None, strong: int) -> Ask:
        heads = len(self._heads.parts)
        fixed = len(span.partition) + len(span.prefix)
        test = self._heads_filter(span) if fixed < heads else self._roots_filter(span, heads)
        for field, condition in self._index.partial.items():
            for branch in test.get("$or", [test]):
                branch.setdefault(field, condition)
        sort = None
        most = 0
        if fixed < heads + self._roots:
            way = -1 if self._descending else 1
            sort = [(field, way) for field, _ in self._index.keys[fixed:]]
            if limit is not None:
                # The documents at both ends may have none of the rows, where an end is between those of a document.
                ends = [bound for bound in (span.low, span.high) if bound is not None]
                most = limit + sum(fixed + len(bound) > heads + self._roots for bound in ends)
        find = Find(self._place.collection, test, self._projection, sort, most, self._index.name, strong)
        return ElementsAsk(find, (number,), span, limit, most, strong)

    def _roots_filter(self, span: Span, heads: int) -> Document:
        """All parts before the `_id` are fixed: the `_id`, or its bounds, or nothing more."""
        fixed = (*span.partition, *span.prefix)
        found = self._heads.equal(fixed[:heads])
        rest = fixed[heads:]
        if len(rest) >= self._roots:
            return {**found, ID: {"$eq": self._id(rest[: self._roots])}}
        left = self._roots - len(rest)
        below = Span((), rest)
        if span.low is not None:
            below.low, below.low_open = span.low[:left], span.low_open and len(span.low) <= left
        if span.high is not None:
            below.high, below.high_open = span.high[:left], span.high_open and len(span.high) <= left
        below.starts = span.starts
        if not (rest or below.low or below.high or below.starts):
            return found
        bounds = self._filter.span(below)
        return {"$or": [{**found, **branch} for branch in bounds["$or"]]} if "$or" in bounds else {**found, **bounds}

    def _heads_filter(self, span: Span) -> Document:
        """Parts before the `_id` are open: bounds over them and the `_id`, a branch for each at which keys differ."""
        fixed = (*span.partition, *span.prefix)
        width = len(fixed)
        heads = self._heads.parts
        values = self._heads.encode(0, fixed)
        equal: list[Term] = [(p.slot.field, "$eq", value) for p, value in zip(heads, values, strict=False)]
        open_parts = self._index.parts[width:]

        def bound(values: tuple[Any, ...] | None, is_open: bool, up: bool) -> list[list[Term]]:
            if values is None:
                return [[]]
            count = len(heads) - width
            made = self._heads.encode(width, values[:count])
            roots = values[count : count + self._roots]
            if len(roots) == self._roots:  # part of an `_id` is left to what is tested on the rows
                made = (*made, self._id(roots))
                count += self._roots
            return lexicographic(open_parts, made, is_open and len(values) <= count, up=up)

        starts = beginning(open_parts[0].slot.field, span.starts) if span.starts else []
        return disjunction(
            [
                conjunction([*equal, *low, *high, *starts])
                for low in bound(span.low, span.low_open, True)
                for high in bound(span.high, span.high_open, False)
            ]
        )

    def _scanned(self, ask: ScanAsk, reply: Found) -> Answer:
        assert isinstance(ask, ElementsAsk)
        rows: list[Row] = []
        span = ask.span
        wanted = (span.partition[self._which],)  # compared as values: the driver brings others than it takes
        below = self._below(span)
        for document in reply.documents:
            above = self._above(document)
            array = [e for e in document.get(self._place.array, ()) if self._own(e) == wanted]
            found = self._elements({**document, self._place.array: array})
            rows += self._within([((*above, *key), row) for key, row in found], below, None, 0)
        left = None if ask.left is None else ask.left - len(rows)
        if left is not None and left <= 0:
            return Answer((rows[: ask.left],))
        more: Ask | None = None
        if reply.cursor is not None:
            more = ElementsAsk(More(reply.cursor), ask.spans, span, left, ask.documents, ask.strong)
        elif ask.documents and len(reply.documents) == ask.documents:
            more = self._one(self._after(span, above), ask.spans[0], left, ask.strong)
        return Answer((rows,), more)

    def _after(self, span: Span, above: tuple[Any, ...]) -> Span:
        """What is left of a span behind a document."""
        rest = above[len(span.partition) + len(span.prefix) - 1 :]
        if self._descending:
            return Span(span.partition, span.prefix, span.low, span.low_open, rest, True, span.starts)
        return Span(span.partition, span.prefix, rest, True, span.high, span.high_open, span.starts)

    def _below(self, span: Span) -> Span:
        """The span without the value of the elements' own field: over the rest of the key."""
        fixed = (*span.partition, *span.prefix)
        rest = (*fixed[: self._which], *fixed[self._which + 1 :])
        return Span((), rest, span.low, span.low_open, span.high, span.high_open, span.starts)
