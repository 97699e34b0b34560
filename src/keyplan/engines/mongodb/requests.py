"""Searches as finds, each bound to the index that the plan means, and documents back as rows.

A request is one of `operations.py` or `writes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from keyplan.engines.codec import Answer, Ask, Codec, Direct, Reader, Sighting, Span
from keyplan.engines.mongodb.elements import ElementReader
from keyplan.engines.mongodb.embedded import EmbeddedReader
from keyplan.engines.mongodb.family_reads import FamilyReader
from keyplan.engines.mongodb.filters import FieldFilter, IdFilter, SharedFilter
from keyplan.engines.mongodb.layout import ID_INDEX, Index, Layout, Place, layout
from keyplan.engines.mongodb.limits import BATCH
from keyplan.engines.mongodb.operations import Command, Find, Found, More
from keyplan.engines.mongodb.packed_reads import PackedReader
from keyplan.engines.mongodb.totals import Totals
from keyplan.engines.mongodb.values import (
    ID,
    Document,
    Slot,
    elements_decoder,
    id_encoder,
    key_decoder,
    rows_decoder,
)
from keyplan.engines.mongodb.writes import Writer
from keyplan.engines.rounds import Key, Proc, Reply, Request, Row, Then
from keyplan.engines.unreadable import UnreadableError, readable
from keyplan.errors import UnsupportedError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.edits import Edit
from keyplan.plan.steps import Search


@dataclass(slots=True)
class RangeAsk(Ask):
    """A find over a range, which may come in chunks."""

    left: int | None
    """Rows still wanted; None: all."""


@dataclass(slots=True)
class BatchAsk(Ask):
    """A find for several spans; each is told by the first values of the key, and may be wanted several times."""

    wanted: dict[tuple[Any, ...], list[int]]
    width: int


def projection_of(slots: Sequence[Slot], more: Sequence[str] = ()) -> dict[str, int]:
    """The fields that are wanted; the `_id` only if it is, so that an index can cover the rest."""
    high = [slot.high for slot in slots if slot.high]
    fields = dict.fromkeys([*(slot.field for slot in slots), *high, *more], 1)
    if not any(field.partition(".")[0] == ID for field in fields):
        return {ID: 0, **fields} if fields else {ID: 1}
    return fields


class MongoReader(Reader):
    """A Search over the documents of one view, by their `_id` or by an index."""

    def __init__(self, place: Place, index: Index | None, search: Search) -> None:
        self._place = place
        by_fields = index or place.order
        self._parts = by_fields.parts if by_fields else place.parts
        self._width = len(self._parts)
        self._descending = search.descending
        self._collection = place.collection
        for role in search.along:
            if role not in place.children:
                raise UnsupportedError(f"view '{search.view}' does not embed '{role}'")
        for path in search.takes:
            if path not in place.slots:
                raise UnsupportedError(f"view '{search.view}' does not hold '{path}'")
        takes = [place.slots[path] for path in search.takes]
        children = {role: place.children[role] for role in search.along}
        along = {
            role: elements_decoder(child.array, tuple(child.slots.values()), child.own_key, child.own_ways)
            for role, child in children.items()
        }
        self._rows = rows_decoder(place.where, takes, along)
        key = tuple(part.slot for part in self._parts)
        self._key = key_decoder(key) if not any(part.many for part in self._parts) else None
        self._many = any(part.many for part in self._parts)
        always: Document = dict(index.partial) if index else {}
        if place.presence:
            always.setdefault(place.presence, {"$exists": True})
        fields = [child.array for child in children.values()]
        # By `_id` alone a document is found directly; whether it has a row is then seen in the document.
        self._presence = place.presence if index is None else ""
        if self._presence:
            fields.append(self._presence)
        self._projection: dict[str, int] | None = projection_of(takes, fields)
        self._keyed = projection_of([*takes, *key], fields)
        if by_fields is None and all(field.partition(".")[0] == ID for field in self._projection):
            self._projection = {ID: 1}  # whole, so that the index of it is all that is read
        if index is None and not (place.children or place.partial) and len(search.takes) == len(place.slots):
            self._projection = None
        self._filter: FieldFilter
        if by_fields:
            self._filter = FieldFilter(self._parts, always)
            self._hint = by_fields.name
            self._order = by_fields.keys
        else:
            if place.tag:
                self._filter = SharedFilter(place)
            else:
                self._filter = (IdFilter if self._width > 1 else FieldFilter)(self._parts, always)
            self._hint = ID_INDEX
            self._order = [(ID, 1)]
        if search.descending != (place.backwards and index is None):
            self._order = [(field, -way) for field, way in self._order]
        self._gets = index is None
        self._id = id_encoder(place.key, place.id_tag)
        self._by_id = by_fields is None

    # Asking

    def ask(self, spans: Sequence[Span], limit: int | None, *, strong: int) -> list[Ask]:
        if len(spans) == 1:
            return [self._single(spans[0], 0, limit, strong)]
        widths = {len(span.partition) + len(span.prefix) for span in spans}
        width = widths.pop() if spans else 0
        plain = not widths and all(span.low is None and span.high is None and span.starts is None for span in spans)
        is_get = width == self._width
        if plain and width > 0 and not self._many and (is_get or (limit is None and width == 1)):
            listed: dict[tuple[Any, ...], list[int]] = {}
            for number, span in enumerate(spans):
                listed.setdefault((*span.partition, *span.prefix), []).append(number)
            keys = list(listed)
            return [
                self._batch({key: listed[key] for key in keys[start : start + BATCH]}, width, strong)
                for start in range(0, len(keys), BATCH)
            ]
        return [self._single(span, number, limit, strong) for number, span in enumerate(spans)]

    def direct(self, width: int, limit: int | None, *, strong: int) -> Direct | None:
        if width == self._width and self._gets:
            collection, projection, make = self._collection, self._projection, self._id
            rows = self._present_rows

            def get(key: tuple[Any, ...]) -> Request:
                return Find(collection, {ID: make(key)}, projection, limit=1, strong=strong)

            return get, lambda reply: rows(reply.documents)
        if limit is None or width == self._width:
            return None
        equal = self._filter.equal
        sort, hint, projection = self._sort(width), self._hint, self._projection
        collection, decode = self._collection, self._rows
        most = limit

        def page(key: tuple[Any, ...]) -> Request:
            return Find(collection, equal(key), projection, sort, most, hint, strong)

        return page, lambda reply: decode(reply.documents)

    def _sort(self, width: int) -> list[tuple[str, int]] | None:
        """The order of what is not fixed."""
        return self._order if self._by_id else self._order[width:] or None

    def _single(self, span: Span, number: int, limit: int | None, strong: int) -> Ask:
        fixed = (*span.partition, *span.prefix)
        width = len(fixed)
        if width == self._width and self._gets:
            return Ask(
                Find(self._collection, {ID: self._id(fixed)}, self._projection, limit=1, strong=strong), (number,)
            )
        found = self._filter.span(span)
        sort = self._sort(width)
        find = Find(self._collection, found, self._projection, sort, limit or 0, self._hint, strong)
        return RangeAsk(find, (number,), limit)

    def _batch(self, wanted: dict[tuple[Any, ...], list[int]], width: int, strong: int) -> Ask:
        spans = [number for numbers in wanted.values() for number in numbers]
        if width == self._width and self._gets:
            find = Find(self._collection, {ID: {"$in": [self._id(key) for key in wanted]}}, self._keyed, strong=strong)
            find.hint = ID_INDEX
            return BatchAsk(find, spans, wanted, width)
        if width == 1:
            found = self._filter.any_of([key[0] for key in wanted])
        else:
            branches = [self._filter.equal(key) for key in wanted]
            found = branches[0] if len(branches) == 1 else {"$or": branches}
        find = Find(self._collection, found, self._keyed, self._order, 0, self._hint, strong)
        return BatchAsk(find, spans, wanted, width)

    # Answering

    def _present_rows(self, documents: list[Document]) -> list[Row]:
        if self._presence:
            documents = [one for one in documents if self._presence in one]
        return self._rows(documents)

    def answer(self, ask: Ask, reply: Reply) -> Answer:
        if not isinstance(reply, Found):
            raise reply
        if ask.__class__ is Ask:
            return Answer((self._present_rows(reply.documents),))
        if isinstance(ask, RangeAsk):
            rows = self._rows(reply.documents)
            left = None if ask.left is None else ask.left - len(rows)
            more = RangeAsk(More(reply.cursor), ask.spans, left) if reply.cursor is not None and left != 0 else None
            return Answer((rows,), more)
        assert isinstance(ask, BatchAsk)
        return self._gathered(ask, reply)

    def sift(self, ask: Ask, reply: Reply, note: Callable[[UnreadableError], None]) -> Answer:
        good = readable(reply.documents, lambda one: self.answer(ask, Found([one])), note)
        return self.answer(ask, Found(good, reply.cursor))

    def _gathered(self, ask: BatchAsk, reply: Found) -> Answer:
        found: dict[int, list[Row]] = {number: [] for number in ask.spans}
        key, width, wanted = self._key, ask.width, ask.wanted
        assert key is not None
        documents = reply.documents
        if self._presence:
            documents = [one for one in documents if self._presence in one]
        for document, row in zip(documents, self._rows(documents), strict=True):
            for number, mine in enumerate(wanted[key(document)[:width]]):
                found[mine].append(row if number == 0 else dict(row))
        more = BatchAsk(More(reply.cursor), ask.spans, wanted, width) if reply.cursor is not None else None
        return Answer([found[number] for number in ask.spans], more)


class MongoCodec(Codec):
    """Turns searches and edits into requests, for one design."""

    atomic_edits = None
    goes_on = True

    def __init__(self, model: Model, design: Design, token: str | None = None) -> None:
        self._model, self._design = model, design
        self.layout: Layout = layout(model, design)
        self._writer = Writer(self.layout)
        self._token = token

    def fenced(self, token: str) -> MongoCodec:
        """The same, but whatever it writes is written only as long as this token is on record (`fence.py`)."""
        return MongoCodec(self._model, self._design, token)

    def reader(self, search: Search) -> Reader:
        if search.at:
            inner = self.layout.places[search.view, search.at]
            return EmbeddedReader(inner, search) if inner.array else MongoReader(inner, None, search)
        totals = self.layout.totals.get(search.view)
        if totals is not None:
            return MongoReader(totals, None, search)
        index = self.layout.indexes.get(search.view)
        if index is not None and index.inner is not None:
            return ElementReader(index.inner, index, search)
        place = index.place if index is not None else self.layout.places[search.view, ()]
        if index is None and place.packed:
            return PackedReader(place, search)
        if index is None and place.beside and search.along:
            return FamilyReader(self._model, place, search)
        return MongoReader(place, index, search)

    def check(self, note: Callable[[Sighting], None], *, repair: bool) -> Proc[None]:
        """Totals against the entries that they are of."""
        for name, groups in self.layout.totals.items():
            place = self.layout.places[groups.view.base, ()]
            totals = Totals(place, groups.slots)
            find: Request = Find(place.collection, totals.are_wrong(), {ID: 1}, strong=True)
            key = key_decoder(groups.key)
            while find is not None:
                (reply,) = yield [find]
                if not isinstance(reply, Found):
                    raise reply
                for document in reply.documents:
                    note(Sighting(name, "wrong", key(document), is_entry=False))
                if repair and reply.documents:
                    updates = [{"q": {ID: one[ID]}, "u": [Totals(place).stage()]} for one in reply.documents]
                    body = {"update": place.collection, "updates": updates, "writeConcern": {"w": "majority"}}
                    (done,) = yield [Command(body)]
                    if isinstance(done, Exception):
                        raise done
                find = More(reply.cursor) if reply.cursor is not None else None

    def write(self, edits: Sequence[Edit]) -> Request:
        request = self._writer.write(edits)
        request.token = self._token
        return request

    def go_on(self, request: Request, then: Then, apart: Sequence[tuple[str, Key]] = ()) -> Request:
        request.then = then
        request.apart = [self._writer.apart(*name) for name in apart]
        return request

    def wrote(self, request: Request, reply: Reply) -> list[Row | None]:
        return self._writer.wrote(request, reply)

    def bulk(self, edits: Sequence[Edit]) -> list[Request]:
        requests = self._writer.bulk(edits)
        for request in requests:
            request.token = self._token
        return requests

    def putter(self, view: str) -> Callable[[Sequence[Row]], list[Request]] | None:
        return self._writer.putter(view) if self._token is None else None
