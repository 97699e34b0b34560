"""Ranges of an index whose key is made of several attributes.

DynamoDB takes all partition attributes and a beginning of the sort attributes by equality, and a range on the next one
only. A bound over several attributes, as where a page goes on, is asked for by its first one; the few entries that are
equal in that and outside of the rest are left out here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keyplan.engines.codec import Span
from keyplan.engines.dynamodb.conditions import Expression
from keyplan.engines.dynamodb.layout import Item, Place
from keyplan.model.values import sort_key

Keep = Callable[[Item], bool]


def native_range(place: Place, span: Span, *, descending: bool) -> tuple[dict[str, Any] | None, Keep | None]:
    """The body of a Query, or of a Scan where no partition is given, and what has to be left out of its answer; no
    body where nothing can match."""
    native = place.native
    assert native is not None
    use = Expression()
    body: dict[str, Any] = {"IndexName": place.index}
    terms = [f"{use.name(native.attributes[0].name)} = {use.value({'S': native.tag})}"]
    if len(span.partition) < place.width:
        body["FilterExpression"] = terms[0]
        use.into(body)
        return body, None
    fixed = (*span.partition, *span.prefix)
    for number, value in enumerate(fixed):
        name = use.name(native.attributes[number + 1].name)
        terms.append(f"{name} = {use.value(native.encode(number, value))}")
    keep = None
    if span.low is not None or span.high is not None or span.starts is not None:
        term = _bounded(place, span, len(fixed), use)
        if term is None:
            return None, None
        terms.append(term)
        keep = _within(place, span, len(fixed))
    body["KeyConditionExpression"] = " AND ".join(terms)
    if descending:
        body["ScanIndexForward"] = False
    use.into(body)
    return body, keep


def _bounded(place: Place, span: Span, number: int, use: Expression) -> str | None:
    """The condition on the attribute after those that are fixed; None where nothing can meet it."""
    native = place.native
    assert native is not None
    name = use.name(native.attributes[number + 1].name)
    low, high = (bound[:1] if bound else None for bound in (span.low, span.high))
    codec = native.codecs[number]
    if codec is not None:
        bounds = codec.bounds((), low=low, high=high, low_open=False, high_open=False, starts=span.starts)
        if bounds is None:
            return None
        return f"{name} BETWEEN {use.value({'S': bounds.low})} AND {use.value({'S': bounds.high})}"
    if low and high:
        order = sort_key(native.slots[number].type)
        if order(low[0]) > order(high[0]):
            return None
        ends = (native.encode(number, bound[0]) for bound in (low, high))
        return f"{name} BETWEEN {' AND '.join(map(use.value, ends))}"
    sign, bound = (">=", low) if low else ("<=", high)
    assert bound
    return f"{name} {sign} {use.value(native.encode(number, bound[0]))}"


def _within(place: Place, span: Span, number: int) -> Keep | None:
    """Whether an item is within both bounds; None where the request says all of it."""
    bounds = [(span.low, span.low_open, 1), (span.high, span.high_open, -1)]
    left = [(bound, is_open, sign) for bound, is_open, sign in bounds if bound and (len(bound) > 1 or is_open)]
    if not left:
        return None
    native = place.native
    assert native is not None
    slots = native.slots[number:]
    orders = [sort_key(slot.type) for slot in slots]

    def values(some: Sequence[Any]) -> list[Any]:
        return [order(value) for order, value in zip(orders, some, strict=False)]

    wanted = [(values(bound), is_open, sign, len(bound)) for bound, is_open, sign in left]

    def keep(item: Item) -> bool:
        found = values([slot.decode(item.get(slot.attribute)) for slot in slots])
        for bound, is_open, sign, many in wanted:
            first = found[:many]
            if first == bound:
                if is_open:
                    return False
            elif (first < bound) == (sign > 0):
                return False
        return True

    return keep
