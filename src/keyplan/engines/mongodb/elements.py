"""Searches through an index over a field of embedded rows: documents that have such an element, and of these the rows.

The index is over the field and the parent's `_id`, so that documents come in the order of the key.
"""

from __future__ import annotations

from collections.abc import Sequence

from keyplan.engines.base import Answer, Ask, Row, Span
from keyplan.engines.mongodb.embedded import EmbeddedReader, ScanAsk
from keyplan.engines.mongodb.layout import Index, Place
from keyplan.engines.mongodb.operations import Find, Found, More
from keyplan.engines.mongodb.values import ID, Document, encoder
from keyplan.plan.steps import Search


class ElementReader(EmbeddedReader):
    """A Search for the rows of one value, over all documents of a collection."""

    def __init__(self, place: Place, index: Index, search: Search) -> None:
        super().__init__(place, search)
        self._index = index
        self._field = index.parts[0].slot.field
        self._inside = self._field.removeprefix(f"{place.array}.")
        self._encode = encoder(index.parts[0].slot)
        self._projection[self._field] = 1
        self._projection.pop(place.array, None)

    def ask(self, spans: Sequence[Span], limit: int | None, *, strong: int) -> list[Ask]:
        way = -1 if self._descending else 1
        asks: list[Ask] = []
        for number, span in enumerate(spans):
            test: Document = {self._field: {"$eq": self._encode(span.partition[0])}, **self._above(_below(span))}
            find = Find(self._place.collection, test, self._projection, [(ID, way)], 0, self._index.name, strong)
            asks.append(ScanAsk(find, (number,), span, limit))
        return asks

    def _above(self, span: Span) -> Document:
        """The filter for the parents: by the whole of their key, or by its bounds."""
        if len(span.prefix) >= self._roots:
            return {ID: {"$eq": self._id(span.prefix[: self._roots])}}
        return self._parents(span)

    def _scanned(self, ask: ScanAsk, reply: Found) -> Answer:
        rows: list[Row] = []
        span = ask.span
        wanted = self._encode(span.partition[0])
        below = _below(span)
        for document in reply.documents:
            above = self._id_of(document)
            array = [e for e in document.get(self._place.array, ()) if e.get(self._inside) == wanted]
            found = self._elements({**document, self._place.array: array})
            rows += self._within([((*above, *key), row) for key, row in found], below, None, 0)
        left = None if ask.left is None else ask.left - len(rows)
        if left is not None and left <= 0:
            return Answer((rows[: ask.left],))
        more = ScanAsk(More(reply.cursor), ask.spans, span, left) if reply.cursor is not None else None
        return Answer((rows,), more)


def _below(span: Span) -> Span:
    """The span without the value of the field: over the key of the rows."""
    return Span((), span.prefix, span.low, span.low_open, span.high, span.high_open, span.starts)
