"""Searches over packed views: documents by their partitions, and of each the entries between two ends of its order.

A document comes whole, whatever is wanted of it; its entries are put in order and cut here, and only those that are
wanted become rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import total_ordering
from operator import itemgetter
from typing import Any

from keyplan.engines.codec import Answer, Ask, Span
from keyplan.engines.mongodb.embedded import DocumentsAsk, EmbeddedReader, ScanAsk
from keyplan.engines.mongodb.layout import Place
from keyplan.engines.mongodb.limits import PACKED_CHUNK
from keyplan.engines.mongodb.operations import Find, Found, More
from keyplan.engines.mongodb.values import Document, Names, row_code, source_of
from keyplan.engines.rounds import Row
from keyplan.engines.unreadable import guarded
from keyplan.plan.steps import Search

Key = tuple[Any, ...]


@total_ordering
class Down:
    """A value of a part whose order is inverted."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Down) and bool(self.value == other.value)

    def __lt__(self, other: Down) -> bool:
        return bool(other.value < self.value)

    __hash__ = None  # type: ignore[assignment]


class PackedReader(EmbeddedReader):
    """A Search over the entries of a packed view."""

    def __init__(self, place: Place, search: Search) -> None:
        super().__init__(place, search)
        names = Names()
        takes = [place.slots[path] for path in search.takes]
        key = "".join(names.decode(slot, source_of(slot, "e")) + ", " for slot in place.own_key)
        keyed: Callable[[Document], list[tuple[Key, Document]]] = names.compile(
            f"lambda d: [(({key}), e) for e in d.get({place.array!r}, ())]"
        )
        self._keyed = guarded(keyed, place.where)
        rows: Callable[[tuple[Document, list[Document]]], list[Row]] = names.compile(
            f"lambda found: [{{{row_code(names, takes, 'e')}}} for d in found[:1] for e in found[1]]"
        )
        self._rows = guarded(rows, place.where)
        downs = [part.descending for part in place.parts[self._roots :]]
        self._downs = downs if any(downs) else None
        if {slot.field for slot in (*takes, *place.own_key)} >= {slot.field for slot in place.stored}:
            self._projection = None  # the document as it is: to pick fields out of elements takes the server longer

    def ask(self, spans: Sequence[Span], limit: int | None, *, strong: int) -> list[Ask]:
        asks = super().ask(spans, limit, strong=strong)
        for ask in asks:
            if isinstance(ask.request, Find):
                ask.request.chunk = PACKED_CHUNK
        return asks

    def answer(self, ask: Ask, reply: Any) -> Answer:
        if not isinstance(reply, Found):
            raise reply
        if isinstance(ask, ScanAsk):
            return self._scanned(ask, reply)
        assert isinstance(ask, DocumentsAsk)
        found: dict[int, list[Row]] = {number: [] for number in ask.spans}
        for document in reply.documents:
            pairs = self._ordered(document)
            for number, span in ask.wanted[self._id_of(document)]:
                found[number] = self._cut(document, pairs, span, ask.limit)
        more = None
        if reply.cursor is not None:
            more = DocumentsAsk(More(reply.cursor, PACKED_CHUNK), ask.spans, ask.wanted, ask.limit)
        return Answer([found[number] for number in ask.spans], more)

    def _scanned(self, ask: ScanAsk, reply: Found) -> Answer:
        rows: list[Row] = []
        inside = replace(ask.span, partition=(), prefix=(), low=None, high=None, starts=None)
        for document in reply.documents:
            rows += self._cut(document, self._ordered(document), inside, None)
        left = None if ask.left is None else ask.left - len(rows)
        if left is not None and left <= 0:
            return Answer((rows[: ask.left],))
        if reply.cursor is None:
            return Answer((rows,))
        return Answer((rows,), ScanAsk(More(reply.cursor, PACKED_CHUNK), ask.spans, ask.span, left))

    def _ordered(self, document: Document) -> list[tuple[Key, Document]]:
        """The elements of a document in the order of the view's key."""
        pairs = self._keyed(document)
        if self._downs is not None:
            pairs = [(self._turned(key), element) for key, element in pairs]
        pairs.sort(key=itemgetter(0))
        return pairs

    def _turned(self, key: Key) -> Key:
        """Values of the first own parts, to be compared in the order that they are kept in."""
        if self._downs is None:
            return key
        return tuple([Down(value) if down else value for value, down in zip(key, self._downs, strict=False)])

    def _cut(self, document: Document, pairs: list[tuple[Key, Document]], span: Span, limit: int | None) -> list[Row]:
        """The rows of a span, in the search's direction."""
        prefix = (*span.partition, *span.prefix)[self._roots :]
        low = self._turned((*prefix, *(span.low or ())))
        high = self._turned((*prefix, *(span.high or ())))
        start = (bisect_right if span.low is not None and span.low_open else bisect_left)(
            pairs, low, key=lambda pair: pair[0][: len(low)]
        )
        end = (bisect_left if span.high is not None and span.high_open else bisect_right)(
            pairs, high, key=lambda pair: pair[0][: len(high)]
        )
        found = [element for _, element in pairs[start:end]]
        if span.starts is not None:
            field = self._place.own_key[len(prefix)].field
            found = [element for element in found if element[field].startswith(span.starts)]
        if self._descending:
            found.reverse()
        return self._rows((document, found if limit is None else found[:limit]))
