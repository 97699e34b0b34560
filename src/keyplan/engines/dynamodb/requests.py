"""Searches as GetItem, BatchGetItem, Query and Scan, and rows back.

A request is a `Request` without the table's name, which the port fills in, or one of those in `writes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from keyplan.engines.codec import Answer, Ask, Codec, Reader, Sighting, Span
from keyplan.engines.dynamodb.conditions import Expression
from keyplan.engines.dynamodb.derived import Derived
from keyplan.engines.dynamodb.family_reads import Family
from keyplan.engines.dynamodb.fence import Fence, FencedRequest
from keyplan.engines.dynamodb.layout import PK, SK, Item, Layout, Place, intents_place, layout
from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.engines.dynamodb.native_range import native_range
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.dynamodb.settle import settle
from keyplan.engines.dynamodb.writes import BulkRequest, Writer, WriteRequest
from keyplan.engines.rounds import Proc, Reply, Row
from keyplan.engines.unreadable import UnreadableError, readable
from keyplan.errors import UnsupportedError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.edits import Edit
from keyplan.plan.intents import INTENTS
from keyplan.plan.steps import Search

MOST_TESTS = 40
"""Places that a Scan is filtered by; an expression may have 4 KB."""


@dataclass(slots=True)
class RangeAsk(Ask):
    """A Query or Scan, which may come in pages."""

    left: int | None
    """Entries still wanted; None: all."""
    keep: Callable[[Item], bool] | None = None
    """Native keys only: whether an item is within bounds that the request could not express."""
    items: list[Item] = field(default_factory=list)
    """Families only: what the pages before brought, as a page may end between a parent and its children."""
    most: int | None = None
    """Families only: how many items are wanted, the parent's included; None: all."""


@dataclass(slots=True)
class BatchAsk(Ask):
    """A BatchGetItem; each key with the places, in `spans`, that want it."""

    wanted: dict[tuple[str, str], list[int]]


class DynamoDBReader(Reader):
    """A Search over one view or embed."""

    def __init__(self, model: Model, place: Place, search: Search) -> None:
        self._place = place
        self._parts = len(place.parts)
        self._descending = search.descending != place.backwards
        self._row = place.decoder(search.takes)
        self._family = Family(model, place, search) if search.along else None
        self._gets = place.index is None and self._family is None
        self._query: dict[str, Any] = {}
        if place.index is not None:
            self._query["IndexName"] = place.index

    # Asking

    def ask(self, spans: Sequence[Span], limit: int | None, *, strong: int) -> list[Ask]:
        if strong and self._place.index is not None and not self._place.local:
            raise UnsupportedError(
                f"view '{self._place.view.name}': a global index of dynamodb cannot be read strongly"
            )
        asks: list[Ask] = []
        keys: list[tuple[int, Span]] = []
        for number, span in enumerate(spans):
            if self._gets and len(span.partition) + len(span.prefix) == self._parts:
                keys.append((number, span))
                continue
            keep = None
            if self._place.native is not None:
                body, keep = native_range(self._place, span, descending=self._descending)
            else:
                body = self._range(span)
            if body is None:
                continue
            if strong:
                body["ConsistentRead"] = True
            operation = "Query" if "KeyConditionExpression" in body else "Scan"
            most = limit if self._family is None else self._family.range.limit
            if most is not None and operation == "Query":
                body["Limit"] = most
            else:
                most = None
            asks.append(RangeAsk(Request(operation, body), (number,), limit, keep, most=most))
        if len(keys) == 1:
            number, span = keys[0]
            body = {"Key": self._place.key((*span.partition, *span.prefix))}
            if strong:
                body["ConsistentRead"] = True
            asks.append(Ask(Request("GetItem", body), (number,)))
        elif keys:
            asks += self._batches(keys, strong)
        return asks

    def _batches(self, keys: list[tuple[int, Span]], strong: int) -> list[Ask]:
        """BatchGetItems, each key asked for once."""
        place, width = self._place, self._place.width
        wanted: dict[tuple[str, str], list[int]] = {}
        for number, span in keys:
            values = (*span.partition, *span.prefix)
            key = (place.partition.encode(values[:width]), place.sort.encode(values[width:]))
            wanted.setdefault(key, []).append(number)
        listed = list(wanted.items())
        size = LIMITS.batch_get_items
        return [_batch(dict(listed[start : start + size]), strong) for start in range(0, len(listed), size)]

    def _range(self, span: Span) -> dict[str, Any] | None:
        """The body of a Query, or of a Scan where no partition is given; None where nothing can match."""
        place = self._place
        if len(span.partition) < place.width:
            return self._scan()
        values: dict[str, Any] = {":pk": {"S": place.partition.encode(span.partition)}}
        body = {**self._query, "ExpressionAttributeValues": values}
        if self._family is not None:
            within = self._family.range
            body["KeyConditionExpression"] = f"{place.pk} = :pk AND {within.condition(place, values)}"
            if within.backwards:
                body["ScanIndexForward"] = False
            return body
        low, low_open, high, high_open = span.low, span.low_open, span.high, span.high_open
        if place.backwards:
            low, low_open, high, high_open = high, high_open, low, low_open
        bounds = place.sort.bounds(
            span.prefix, low=low, high=high, low_open=low_open, high_open=high_open, starts=span.starts
        )
        if bounds is None:
            return None
        values[":low"] = {"S": bounds.low}
        if bounds.low == bounds.high:
            body["KeyConditionExpression"] = f"{place.pk} = :pk AND {place.sk} = :low"
        else:
            values[":high"] = {"S": bounds.high}
            body["KeyConditionExpression"] = f"{place.pk} = :pk AND {place.sk} BETWEEN :low AND :high"
        if self._descending:
            body["ScanIndexForward"] = False
        return body

    def _scan(self) -> dict[str, Any]:
        """A Scan, with a filter on the view's own tags."""
        place = self._place
        values: dict[str, Any] = {":pk": {"S": place.partition.prefix}}
        if self._family is not None:
            test = self._family.range.condition(place, values)
        else:
            test = f"begins_with({place.sk}, :sk)" if place.sort.parts else f"{place.sk} = :sk"
            values[":sk"] = {"S": place.sort.prefix}
        return {
            **self._query,
            "FilterExpression": f"begins_with({place.pk}, :pk) AND {test}",
            "ExpressionAttributeValues": values,
        }

    # Answering

    def answer(self, ask: Ask, reply: Reply) -> Answer:
        if isinstance(reply, Exception):
            raise reply
        if ask.__class__ is Ask:
            item = reply.get("Item")
            return Answer(([self._row(item)] if item else [],))
        if isinstance(ask, RangeAsk):
            return self._ranged(ask, reply)
        assert isinstance(ask, BatchAsk)
        return self._gathered(ask, reply)

    def sift(self, ask: Ask, reply: Reply, note: Callable[[UnreadableError], None]) -> Answer:
        if self._family is not None:
            return super().sift(ask, reply, note)
        if isinstance(ask, BatchAsk):
            tables = {
                name: readable(items, lambda item: self.answer(ask, {"Responses": {name: [item]}}), note)  # noqa: B023
                for name, items in reply["Responses"].items()
            }
            return self.answer(ask, {**reply, "Responses": tables})
        if isinstance(ask, RangeAsk):
            items = readable(reply["Items"], lambda item: self.answer(ask, {"Items": [item]}), note)
            return self.answer(ask, {**reply, "Items": items})
        items = readable([reply["Item"]], lambda item: self.answer(ask, {"Item": item}), note)
        return self.answer(ask, {"Item": items[0]} if items else {})

    def _ranged(self, ask: RangeAsk, reply: dict[str, Any]) -> Answer:
        items: list[Item] = reply["Items"]
        last = reply.get("LastEvaluatedKey")
        if self._family is not None:
            return self._of_families(self._family, ask, ask.items + items, last)
        row = self._row
        if ask.keep is not None:
            items = [item for item in items if ask.keep(item)]
        rows = [row(item) for item in items]
        if ask.left is not None and len(rows) >= ask.left:
            return Answer((rows[: ask.left],))
        if last is None:
            return Answer((rows,))
        left = None if ask.left is None else ask.left - len(rows)
        return Answer((rows,), RangeAsk(_following(ask.request, last, left), ask.spans, left, ask.keep))

    def _of_families(self, family: Family, ask: RangeAsk, items: list[Item], last: Any) -> Answer:
        """The rows with their children, as soon as all items are there that are wanted. Children may have expired: then
        whoever asks may go on, with as many again."""
        most = ask.most
        if last is not None and (most is None or family.goes_on(items, most)):
            left = None if most is None else most - len(items)
            return Answer(([],), RangeAsk(_following(ask.request, last, left), ask.spans, ask.left, None, items, most))
        rows = family.rows(items, backwards=ask.request.operation == "Query" and family.range.backwards)
        more = None
        if last is not None and most is not None and family.expires and rows:
            following = _following(ask.request, last, most - 1)
            more = RangeAsk(following, ask.spans, ask.left, None, items, 2 * most - 1)
        return Answer((rows if ask.left is None else rows[: ask.left],), more)

    def _gathered(self, ask: BatchAsk, reply: dict[str, Any]) -> Answer:
        found: dict[int, list[Row]] = {number: [] for number in ask.spans}
        row = self._row
        for items in reply.get("Responses", {}).values():
            for item in items:
                for number in ask.wanted[item[PK]["S"], item[SK]["S"]]:
                    found[number].append(row(item))
        more = None
        for unread in reply.get("UnprocessedKeys", {}).values():
            keys = [(key[PK]["S"], key[SK]["S"]) for key in unread["Keys"]]
            more = _batch({key: ask.wanted[key] for key in keys}, bool(ask.request.body.get("ConsistentRead")))
        return Answer([found[number] for number in ask.spans], more)


def _batch(wanted: dict[tuple[str, str], list[int]], strong: int) -> BatchAsk:
    body: dict[str, Any] = {"Keys": [{PK: {"S": pk}, SK: {"S": sk}} for pk, sk in wanted]}
    if strong:
        body["ConsistentRead"] = True
    spans = [number for numbers in wanted.values() for number in numbers]
    return BatchAsk(Request("BatchGetItem", body), spans, wanted)


def _following(request: Request, last: Any, left: int | None) -> Request:
    body = {**request.body, "ExclusiveStartKey": last}
    if left is not None and "Limit" in body:
        body["Limit"] = left
    return Request(request.operation, body)


def _of_any(places: Sequence[Place]) -> dict[str, Any]:
    """A filter for the items of some places, as long as it does not become too long."""
    use = Expression()
    tests = []
    for keys in dict.fromkeys(
        tuple((codec.prefix, bool(codec.parts)) for codec in (one.partition, one.sort)) for one in places
    ):
        terms = [
            f"begins_with({name}, {use.value({'S': prefix})})" if parts else f"{name} = {use.value({'S': prefix})}"
            for name, (prefix, parts) in zip((PK, SK), keys, strict=True)
        ]
        tests.append(f"({' AND '.join(terms)})")
    if len(tests) > MOST_TESTS:
        return {}
    body: dict[str, Any] = {"FilterExpression": " OR ".join(tests)}
    use.into(body)
    return body


class DynamoDBCodec(Codec):
    """Turns searches and edits into requests, for one design."""

    extends = False
    returns_together = False
    atomic_edits = LIMITS.transaction_items

    def __init__(self, model: Model, design: Design, fence: Fence | None = None) -> None:
        self._about = (model, design)
        self.layout: Layout = layout(model, design)
        self._homes = {(view, tuple(at)) for view, at in design.homes.values()}
        self._others = self.layout.places.keys() - self._homes
        self.layout.places[INTENTS, ()] = intents_place()
        self._fence = fence
        self._writer = Writer(self.layout, fence)
        if fence is not None:
            self.atomic_edits = LIMITS.transaction_items - 1

    def reader(self, search: Search) -> DynamoDBReader:
        return DynamoDBReader(self._about[0], self.layout.places[search.view, search.at], search)

    def write(self, edits: Sequence[Edit]) -> WriteRequest:
        return self._writer.write(edits)

    def wrote(self, request: WriteRequest, reply: Reply) -> list[Row | None]:
        return self._writer.wrote(request, reply)

    def fenced(self, fence: Fence) -> DynamoDBCodec:
        """The same, but whatever it writes checks that whoever does so is still the one to change the table."""
        return DynamoDBCodec(*self._about, fence)

    def bulk(self, edits: Sequence[Edit]) -> list[BulkRequest] | list[FencedRequest]:
        return self._writer.bulk(edits) if self._fence is None else self._writer.bulk_behind(self._fence, edits)

    def sweep(
        self,
        searches: Sequence[Search],
        each: Callable[[int, list[Row]], Proc[None]],
        unread: Callable[[Search, UnreadableError], None] | None = None,
    ) -> Proc[None]:
        """One Scan of the table, whose items say by their keys which of the places they are in; or a Query for each
        place where all have a partition of their own."""
        places = [self.layout.places[search.view, search.at] for search in searches]
        if all(place.width == 0 for place in places):
            yield from super().sweep(searches, each, unread)
            return
        rows = [place.decoder(search.takes) for place, search in zip(places, searches, strict=True)]
        body = {"ConsistentRead": True, **_of_any(places)}
        while True:
            (page,) = yield [Request("Scan", body)]
            if isinstance(page, Exception):
                raise page
            for number, (place, row, search) in enumerate(zip(places, rows, searches, strict=True)):
                items = [item for item in page["Items"] if place.has(item)]
                if unread is not None:
                    items = readable(items, row, partial(unread, search))
                if items:
                    yield from each(number, [row(item) for item in items])
            if "LastEvaluatedKey" not in page:
                return
            body = {**body, "ExclusiveStartKey": page["LastEvaluatedKey"]}

    def check(self, note: Callable[[Sighting], None], *, repair: bool) -> Proc[None]:
        """The keys of index entries that items have, their own, and the second after which they may be deleted."""
        if self._others or self.layout.expires:
            yield from Derived(self.layout, homes=self._homes).check(note, repair=repair)

    def settle(self) -> Proc[None]:
        """Waits until the indexes show what was written before; they follow the table within moments."""
        return settle(self.layout)
