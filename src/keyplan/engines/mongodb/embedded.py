"""Searches over rows that are embedded in their parent's document.

A document is found by the parent's key; its array is sorted and cut here, where it arrives whole anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from keyplan.engines.codec import Answer, Ask, Reader, Span
from keyplan.engines.mongodb.filters import FieldFilter, IdFilter
from keyplan.engines.mongodb.layout import ID_INDEX, Place
from keyplan.engines.mongodb.limits import BATCH
from keyplan.engines.mongodb.operations import Find, Found, More
from keyplan.engines.mongodb.values import ID, Document, Names, Slot, id_encoder, key_decoder, row_code, source_of
from keyplan.engines.rounds import Reply, Row
from keyplan.engines.unreadable import UnreadableError, guarded, readable
from keyplan.errors import UnsupportedError
from keyplan.plan.steps import Search
from keyplan.plan.view import VERSION

Keyed = list[tuple[tuple[Any, ...], Row]]


@dataclass(slots=True)
class DocumentsAsk(Ask):
    """Parents' documents, each with the spans that look into it."""

    wanted: dict[tuple[Any, ...], list[tuple[int, Span]]]
    limit: int | None


@dataclass(slots=True)
class ScanAsk(Ask):
    """All documents of a range of parents."""

    span: Span
    left: int | None


class EmbeddedReader(Reader):
    """A Search over one array of a collection's documents."""

    def __init__(self, place: Place, search: Search, beside: Sequence[Slot] = ()) -> None:
        if search.along:
            raise UnsupportedError(f"view '{search.view}': rows are embedded one level deep")
        owned = {slot.path for slot in beside}
        versioned = place.limit is not None and VERSION in search.takes
        given = [path for path in search.takes if not (versioned and path == VERSION)]
        for path in given:
            if path not in place.slots and path not in owned:
                raise UnsupportedError(f"view '{search.view}' does not hold '{path}'")
        self._place = place
        self._descending = search.descending
        takes = [place.slots[path] for path in given if path not in owned]
        names = Names()
        key = "".join(names.decode(slot, source_of(slot, "e")) + ", " for slot in place.own_key)
        version = f"{VERSION!r}: d.get({place.version!r})" if versioned else ""
        row = ", ".join(filter(None, (row_code(names, takes, "e"), row_code(names, beside, "d"), version)))
        elements: Callable[[Document], Keyed] = names.compile(
            f"lambda d: sorted([(({key}), {{{row}}}) for e in d.get({place.array!r}, ())], key=lambda pair: pair[0])"
        )
        self._elements = guarded(elements, place.where)
        wanted = {slot.field for slot in (*takes, *place.own_key) if slot.field.partition(".")[0] != ID}
        projection = {f"{place.array}.{field}": 1 for field in sorted(wanted)} or {place.array: 1}
        self._projection: dict[str, int] | None = projection | {slot.field: 1 for slot in beside}
        self._projection |= {place.version: 1} if versioned else {}
        roots = place.parts[: len(place.parts) - place.own]
        self._roots = len(roots)
        self._id = id_encoder(place.root_key)
        self._id_of = key_decoder(place.root_key)
        self._filter = (IdFilter if self._roots > 1 else FieldFilter)(roots, {})

    def ask(self, spans: Sequence[Span], limit: int | None, *, strong: int) -> list[Ask]:
        wanted: dict[tuple[Any, ...], list[tuple[int, Span]]] = {}
        asks: list[Ask] = []
        collection = self._place.collection
        for number, span in enumerate(spans):
            fixed = (*span.partition, *span.prefix)
            if len(fixed) < self._roots:
                way = -1 if self._descending else 1
                find = Find(collection, self._parents(span), self._projection, [(ID, way)], 0, ID_INDEX, strong)
                asks.append(ScanAsk(find, (number,), span, limit))
            else:
                wanted.setdefault(fixed[: self._roots], []).append((number, span))
        keys = list(wanted)
        for start in range(0, len(keys), BATCH):
            some = {key: wanted[key] for key in keys[start : start + BATCH]}
            ids = [self._id(key) for key in some]
            find = Find(collection, {ID: ids[0] if len(ids) == 1 else {"$in": ids}}, self._projection, strong=strong)
            if len(ids) == 1:
                find.limit = 1
            else:
                find.hint = ID_INDEX
            numbers = [number for pairs in some.values() for number, _ in pairs]
            asks.append(DocumentsAsk(find, numbers, some, limit))
        return asks

    def answer(self, ask: Ask, reply: Reply) -> Answer:
        if not isinstance(reply, Found):
            raise reply
        if isinstance(ask, ScanAsk):
            return self._scanned(ask, reply)
        assert isinstance(ask, DocumentsAsk)
        found: dict[int, list[Row]] = {number: [] for number in ask.spans}
        for document in reply.documents:
            elements = self._elements(document)
            for number, span in ask.wanted[self._id_of(document)]:
                found[number] = self._within(elements, span, ask.limit)
        more_ask = None
        if reply.cursor is not None:
            more_ask = DocumentsAsk(More(reply.cursor), ask.spans, ask.wanted, ask.limit)
        return Answer([found[number] for number in ask.spans], more_ask)

    def sift(self, ask: Ask, reply: Reply, note: Callable[[UnreadableError], None]) -> Answer:
        good = readable(reply.documents, lambda one: self.answer(ask, Found([one])), note)
        return self.answer(ask, Found(good, reply.cursor))

    def _parents(self, span: Span) -> Document:
        """The filter for the parents that rows of a span may have."""
        left = self._roots - len(span.partition) - len(span.prefix)
        low = None if span.low is None else span.low[:left]
        high = None if span.high is None else span.high[:left]
        wide = Span(span.partition, span.prefix, low, False, high, False)
        return self._filter.span(wide) if wide.partition or wide.prefix or low or high else {}

    def _scanned(self, ask: ScanAsk, reply: Found) -> Answer:
        rows: list[Row] = []
        span = ask.span
        whole = Span(
            (), (*span.partition, *span.prefix), span.low, span.low_open, span.high, span.high_open, span.starts
        )
        for document in reply.documents:
            above = self._id_of(document)
            rows += self._within([((*above, *key), row) for key, row in self._elements(document)], whole, None, 0)
        left = None if ask.left is None else ask.left - len(rows)
        if left is not None and left <= 0:
            return Answer((rows[: ask.left],))
        more = ScanAsk(More(reply.cursor), ask.spans, span, left) if reply.cursor is not None else None
        return Answer((rows,), more)

    def _within(self, elements: Keyed, span: Span, limit: int | None, skip: int | None = None) -> list[Row]:
        """The rows of a span, in the search's direction; `skip` parts of the span are not in the elements' keys."""
        prefix = (*span.partition, *span.prefix)[self._roots if skip is None else skip :]
        width = len(prefix)
        low, high, starts = span.low, span.high, span.starts
        rows = []
        for key, row in elements:
            rest = key[width:]
            if key[:width] != prefix:
                continue
            if low is not None and (rest[: len(low)] < low or (span.low_open and rest[: len(low)] == low)):
                continue
            if high is not None and (rest[: len(high)] > high or (span.high_open and rest[: len(high)] == high)):
                continue
            if starts is not None and not rest[0].startswith(starts):
                continue
            rows.append(dict(row))
        if self._descending:
            rows.reverse()
        return rows if limit is None else rows[:limit]
