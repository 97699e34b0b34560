"""Searches as SQL: one prepared text per shape of span, parameters per call, and rows back.

A request is a tuple `(text, parameters)` for a read, and a `WriteRequest` or `BulkRequest` (writes.py) else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from keyplan.engines.codec import Answer, Ask, Codec, Direct, Reader, Span
from keyplan.engines.rounds import Key, Reply, Request, Row, Then
from keyplan.engines.sqlite import sql
from keyplan.engines.sqlite.layout import Index, KeyPart, Table, layout, select_list
from keyplan.engines.sqlite.limits import BATCH, BULK_ROWS, CHUNK, PARAMETERS
from keyplan.engines.sqlite.values import Spoiled, SpoiledError, encoder, row_decoder
from keyplan.engines.sqlite.words import words
from keyplan.engines.sqlite.writes import Writer
from keyplan.engines.unreadable import UnreadableError, readable
from keyplan.errors import StorageError, UnsupportedError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.edits import Edit, Puts
from keyplan.plan.steps import Search

__all__ = ["SqliteCodec", "SqliteReader", "words"]

Raw = tuple[Any, ...]
Decoder = Callable[[list[Raw]], list[Row]]


@dataclass(slots=True)
class Bounds:
    """A span in SQLite's own values, as far as it is not fixed."""

    fixed: Raw
    low: Raw | None = None
    low_open: bool = False
    high: Raw | None = None
    high_open: bool = False
    starts: str | None = None
    left: int | None = None
    """Rows still wanted; None: all."""


@dataclass(slots=True)
class RangeAsk(Ask):
    """An Ask that may have to be continued, because it brings at most CHUNK rows."""

    bounds: Bounds


@dataclass(slots=True)
class BatchAsk(Ask):
    """An Ask whose rows begin with the number of their span."""


class SqliteReader(Reader):
    """A Search over one table or index."""

    def __init__(self, place: Table | Index, search: Search) -> None:
        if search.at or search.along:
            raise UnsupportedError(f"view '{search.view}': sqlite has no embedded rows")
        table = place.table if isinstance(place, Index) else place
        self._source = f"{table.quoted} {place.hint}"
        self._parts = place.parts
        self._width = len(place.parts)
        self._terms = list(place.terms) if isinstance(place, Index) else []
        self._descending = search.descending
        slots = [table.slots[path] for path in search.takes]
        self._takes = select_list(table, search.takes) or "1"
        self._table, self._slots = table.name, slots
        self._rows = row_decoder(table.name, slots)
        # A range without a limit also brings the key of each row, as it is stored, to go on from.
        behind = [part for part in place.parts if part.column not in search.takes]
        self._ranged = "".join(f", {part.expression}" for part in behind)
        self._behind = len(behind)
        offset = len(slots) or 1
        places = {part.path: offset + n for n, part in enumerate(behind)}
        self._key_places = [
            places[part.path] if part.path in places else search.takes.index(part.column or "") for part in place.parts
        ]
        self._encoders: dict[tuple[int, int], Callable[[Raw], Raw]] = {}
        self._texts: dict[tuple[Any, ...], str] = {}
        self._get = f"SELECT {self._takes} FROM {self._source} WHERE " + sql.conjunction(
            [*self._terms, *(f"{part.expression} = ?" for part in place.parts)] or ["1"]
        )
        self._encode_key = self._encoder(0, self._width)

    @cached_property
    def _wary(self) -> SqliteReader:
        """The same for rows that hold what is not UTF-8."""
        made = copy(self)
        made._rows = row_decoder(self._table, self._slots, wary=True)
        made.__dict__["_numbered"] = row_decoder(self._table, self._slots, before=1, wary=True)
        made.__dict__["_ranged_rows"] = row_decoder(self._table, self._slots, after=self._behind, wary=True)
        return made

    @cached_property
    def _numbered(self) -> Decoder:
        """For rows that begin with the number of the span that they answer."""
        return row_decoder(self._table, self._slots, before=1)

    @cached_property
    def _ranged_rows(self) -> Decoder:
        """For rows that end in what `_ranged` adds to them."""
        return row_decoder(self._table, self._slots, after=self._behind)

    def ask(self, spans: Sequence[Span], limit: int | None, *, strong: int) -> list[Ask]:
        if len(spans) == 1:
            return [self._single(spans[0], 0, limit)]
        widths = {len(span.partition) + len(span.prefix) for span in spans}
        width = widths.pop() if spans else 0
        plain = not widths and all(span.low is None and span.high is None and span.starts is None for span in spans)
        if plain and width > 0 and (limit is None or width == self._width):
            size = min(BATCH, PARAMETERS // width)
            return [self._batch(spans[start : start + size], start, width) for start in range(0, len(spans), size)]
        return [self._single(span, number, limit) for number, span in enumerate(spans)]

    def direct(self, width: int, limit: int | None, *, strong: int) -> Direct | None:
        encode = self._encoder(0, width)
        if width == self._width:
            text = self._get
            return lambda key: (text, encode(key)), self._rows
        if limit is None or limit > CHUNK:
            return None
        text = self._range_text(width, False, 0, False, 0, False, False, False)
        tail = (limit,)
        return lambda key: (text, encode(key) + tail), self._rows

    def _single(self, span: Span, number: int, limit: int | None) -> Ask:
        fixed = span.partition + span.prefix
        width = len(fixed)
        if width == self._width:
            return Ask((self._get, self._encode_key(fixed)), (number,))
        bounds = Bounds(self._encoder(0, width)(fixed), left=limit)
        if span.low is not None:
            bounds.low = self._encoder(width, width + len(span.low))(span.low)
            bounds.low_open = span.low_open
        if span.high is not None:
            bounds.high = self._encoder(width, width + len(span.high))(span.high)
            bounds.high_open = span.high_open
        bounds.starts = span.starts
        return self._range(bounds, (number,))

    def _range(self, bounds: Bounds, spans: Sequence[int]) -> Ask:
        left = bounds.left
        whole = left is None or left > CHUNK
        low, high, starts = bounds.low, bounds.high, bounds.starts
        above = sql.successor(starts) if starts else None
        shape = (
            len(bounds.fixed),
            whole,
            0 if low is None else len(low),
            bounds.low_open,
            0 if high is None else len(high),
            bounds.high_open,
            bool(starts),
            above is not None,
        )
        text = self._texts.get(shape)
        if text is None:
            text = self._texts[shape] = self._range_text(*shape)
        values = bounds.fixed
        if low:
            values += self._bound_values(low, len(bounds.fixed))
        if high:
            values += self._bound_values(high, len(bounds.fixed))
        if starts:
            values += (starts,) if above is None else (starts, above)
        if whole:
            return RangeAsk((text, (*values, CHUNK)), spans, bounds)
        return Ask((text, (*values, left)), spans)

    def _encoder(self, start: int, end: int) -> Callable[[Raw], Raw]:
        made = self._encoders.get((start, end))
        if made is None:
            made = self._encoders[start, end] = encoder([part.slot for part in self._parts[start:end]])
        return made

    def _range_text(
        self, fixed: int, whole: bool, low: int, low_open: bool, high: int, high_open: bool, starts: bool, above: bool
    ) -> str:
        terms = [*self._terms, *(f"{part.expression} = ?" for part in self._parts[:fixed])]
        rest = self._parts[fixed:]
        if low:
            terms.append(_bound(rest[:low], ">", low_open))
        if high:
            terms.append(_bound(rest[:high], "<", high_open))
        if starts:
            terms.append(f"{rest[0].expression} >= ?")
        if above:
            terms.append(f"{rest[0].expression} < ?")
        takes = self._takes + self._ranged if whole else self._takes
        where = f" WHERE {sql.conjunction(terms)}" if terms else ""
        order = ", ".join(part.expression + (" DESC" if part.descending != self._descending else "") for part in rest)
        return f"SELECT {takes} FROM {self._source}{where} ORDER BY {order} LIMIT ?"

    def _bound_values(self, values: Raw, fixed: int) -> Raw:
        parts = self._parts[fixed : fixed + len(values)]
        return values if _uniform(parts) else _spread(values)

    def _batch(self, spans: Sequence[Span], start: int, width: int) -> Ask:
        """Several spans by one statement: a join with their numbers and values, in blocks of 2, 4, 8 ... of them."""
        size = 1 << (len(spans) - 1).bit_length()
        key = (size, width)
        text = self._texts.get(key)
        if text is None:
            names = ", ".join(f"k{n}" for n in range(width))
            marks = ", ?" * width
            listed = ", ".join(f"({number}{marks})" for number in range(size))
            match = [f"{part.expression} = k{n}" for n, part in enumerate(self._parts[:width])]
            text = self._texts[key] = (
                f"WITH wanted(span, {names}) AS (VALUES {listed}) SELECT span, {self._takes} "
                f"FROM wanted CROSS JOIN {self._source} WHERE {sql.conjunction([*self._terms, *match])}"
            )
        encode = self._encoder(0, width)
        values = [value for span in spans for value in encode(span.partition + span.prefix)]
        values += [None] * (width * (size - len(spans)))
        return BatchAsk((text, values), range(start, start + len(spans)))

    def answer(self, ask: Ask, reply: Reply) -> Answer:
        if reply.__class__ is not list:
            if isinstance(reply, SpoiledError):
                return self._wary.answer(ask, reply.rows)
            raise reply
        if ask.__class__ is Ask:
            return Answer((self._rows(reply),))
        if ask.__class__ is RangeAsk:
            assert isinstance(ask, RangeAsk)
            return Answer((self._ranged_rows(reply),), self._more(ask, reply))
        found: list[list[Row]] = [[] for _ in ask.spans]
        for raw, row in zip(reply, self._numbered(reply), strict=True):
            found[raw[0]].append(row)
        if self._descending:
            for rows in found:
                rows.reverse()
        return Answer(found)

    def sift(self, ask: Ask, reply: Reply, note: Callable[[UnreadableError], None]) -> Answer:
        if isinstance(reply, SpoiledError):
            return self._wary.sift(ask, reply.rows, note)
        answer = self.answer(ask, readable(reply, lambda raw: self.answer(ask, [raw]), note))
        if isinstance(ask, RangeAsk):
            answer.more = self._more(ask, reply)
        return answer

    def _more(self, ask: RangeAsk, reply: list[Raw]) -> Ask | None:
        bounds = ask.bounds
        left = None if bounds.left is None else bounds.left - len(reply)
        if len(reply) < CHUNK or left == 0:
            return None
        last = reply[-1]
        key = tuple(last[place] for place in self._key_places[len(bounds.fixed) :])
        if any(isinstance(value, Spoiled) for value in key):  # nothing can be asked for behind it
            raise StorageError(
                f"table '{self._table}': a text in a key is not UTF-8; something else wrote it, or it is damaged: "
                "put it right or restore a backup"
            )
        if self._descending:
            after = Bounds(bounds.fixed, bounds.low, bounds.low_open, key, True, bounds.starts, left)
        else:
            after = Bounds(bounds.fixed, key, True, bounds.high, bounds.high_open, bounds.starts, left)
        return self._range(after, ask.spans)


def _uniform(parts: Sequence[KeyPart]) -> bool:
    return not any(part.descending for part in parts) or len(parts) == 1


def _bound(parts: Sequence[KeyPart], sign: str, is_open: bool) -> str:
    """A bound on the parts in the order of the key, in which an inverted part counts as inverted.

    Row values compare upwards only; where a part is inverted, the comparison is spelt out.
    """
    last = "" if is_open else "="
    other = {">": "<", "<": ">"}
    if _uniform(parts):
        if parts[0].descending:
            sign = other[sign]
        if len(parts) == 1:
            return f"{parts[0].expression} {sign}{last} ?"
        names = ", ".join(part.expression for part in parts)
        return f"({names}) {sign}{last} ({', '.join('?' * len(parts))})"
    signs = [other[sign] if part.descending else sign for part in parts]
    tail = f"{parts[-1].expression} {signs[-1]}{last} ?"
    for part, here in zip(reversed(parts[:-1]), reversed(signs[:-1]), strict=True):
        tail = f"({part.expression} {here} ? OR ({part.expression} = ? AND {tail}))"
    return f"{parts[0].expression} {signs[0]}= ? AND {tail}"


def _spread(values: Raw) -> Raw:
    """The values of a spelt-out bound, in the order of its question marks."""
    spread: list[Any] = [values[0]]
    for value in values[:-1]:
        spread += [value, value]
    return (*spread, values[-1])


class SqliteCodec(Codec):
    """Turns searches and edits into SQL, for one design."""

    atomic_edits = None
    goes_on = True
    rows_at_once = BULK_ROWS

    def __init__(self, model: Model, design: Design) -> None:
        self._layout = layout(model, design)
        self._writer = Writer(self._layout)

    def reader(self, search: Search) -> Reader:
        return SqliteReader(self._layout.of(search.view), search)

    def write(self, edits: Sequence[Edit]) -> Request:
        return self._writer.write(edits)

    def write_many(self, puts: Sequence[Puts], edits: Sequence[Edit]) -> Request:
        return self._writer.write_many(puts, edits)

    def go_on(self, request: Request, then: Then, apart: Sequence[tuple[str, Key]] = ()) -> Request:
        request.then = then  # there is one writer at a time
        return request

    def wrote(self, request: Request, reply: Reply) -> list[Row | None]:
        return self._writer.wrote(request, reply)

    def bulk(self, edits: Sequence[Edit]) -> list[Request]:
        return self._writer.bulk(edits)

    def putter(self, view: str) -> Callable[[Sequence[Row]], list[Request]] | None:
        return self._writer.putter(view)
