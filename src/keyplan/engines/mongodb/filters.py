"""Spans as filters: bounds of a compound key in the form from which MongoDB makes exact index bounds.

A bound over several fields is a disjunction, one branch per field at which keys may differ. Each branch repeats what
is fixed, so that the server scans the same index once per branch and merges the scans in order (SORT_MERGE): it
examines nothing but what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from keyplan.engines.codec import Span
from keyplan.engines.mongodb.layout import KeyPart, Place
from keyplan.engines.mongodb.values import ID, TOP, Document, tuple_encoder

Term = tuple[str, str, Any]
"""Field, operator, value."""

_LAST_CODE_POINT = 0x10FFFF


def successor(prefix: str) -> str | None:
    """The least text above every text that starts so; None if there is none.

    >>> successor("ab")
    'ac'
    """
    while prefix:
        code = ord(prefix[-1]) + 1
        if code <= _LAST_CODE_POINT:
            return prefix[:-1] + chr(0xE000 if code == 0xD800 else code)
        prefix = prefix[:-1]
    return None


def conjunction(terms: Iterable[Term]) -> Document:
    """Terms as a filter; several terms on one field share a document unless they repeat an operator."""
    found: Document = {}
    more: list[Document] = []
    for field, operator, value in terms:
        here = found.setdefault(field, {})
        if operator in here:
            if here[operator] != value:
                more.append({field: {operator: value}})
        else:
            here[operator] = value
    if more:
        found["$and"] = more
    return found


def disjunction(branches: Sequence[Document]) -> Document:
    return branches[0] if len(branches) == 1 else {"$or": list(branches)}


@dataclass
class Bounds:
    """Values of a span in BSON, as far as it is not fixed."""

    low: tuple[Any, ...] | None
    low_open: bool
    high: tuple[Any, ...] | None
    high_open: bool
    starts: str | None


class FieldFilter:
    """Spans over the fields of an index."""

    def __init__(self, parts: Sequence[KeyPart], always: Document) -> None:
        self.parts = parts
        self.always = always
        """Conditions of every query; that a field is there is left out where the span bounds it anyway."""
        self._encoders: dict[tuple[int, int], Callable[[Sequence[Any]], tuple[Any, ...]]] = {}

    def encode(self, start: int, values: Sequence[Any]) -> tuple[Any, ...]:
        end = start + len(values)
        made = self._encoders.get((start, end))
        if made is None:
            made = self._encoders[start, end] = tuple_encoder([part.slot for part in self.parts[start:end]])
        return made(values)

    def equal(self, fixed: Sequence[Any]) -> Document:
        """The filter for entries whose first parts have these values."""
        values = self.encode(0, fixed)
        found: Document = {part.slot.field: {"$eq": value} for part, value in zip(self.parts, values, strict=False)}
        return self.completed(found)

    def any_of(self, firsts: Sequence[Any]) -> Document:
        """The filter for entries whose first part has one of these values."""
        encode = self.encode
        return self.completed({self.parts[0].slot.field: {"$in": [encode(0, (value,))[0] for value in firsts]}})

    def completed(self, found: Document) -> Document:
        for field, condition in self.always.items():
            here = found.get(field)
            if here is None:
                found[field] = condition
            elif "$exists" in condition or here == condition:
                continue
            elif here.keys() & condition.keys():
                found.setdefault("$and", []).append({field: condition})
            else:
                # Values between bounds may be others than those of a partial index, which has to be told them all.
                found[field] = {**here, **condition}
        return found

    def span(self, span: Span) -> Document:
        """The filter for a span's entries."""
        fixed = (*span.partition, *span.prefix)
        width = len(fixed)
        values = self.encode(0, fixed)
        equal = [(part.slot.field, "$eq", value) for part, value in zip(self.parts, values, strict=False)]
        low = None if span.low is None else self.encode(width, span.low)
        high = None if span.high is None else self.encode(width, span.high)
        rest = self.parts[width:]
        lows = lexicographic(rest, low, span.low_open, up=True)
        highs = lexicographic(rest, high, span.high_open, up=False)
        starts = beginning(rest[0].slot.field, span.starts) if span.starts else []
        branches = []
        for one in lows:
            for other in highs:
                branches.append(self.completed(conjunction([*equal, *one, *other, *starts])))
        return disjunction(branches)


def beginning(field: str, starts: str) -> list[Term]:
    above = successor(starts)
    terms: list[Term] = [(field, "$gte", starts)]
    return terms if above is None else [*terms, (field, "$lt", above)]


def lexicographic(
    parts: Sequence[KeyPart], values: tuple[Any, ...] | None, is_open: bool, *, up: bool
) -> list[list[Term]]:
    """The branches of a bound over several fields; a descending one counts the other way."""
    if values is None:
        return [[]]
    branches: list[list[Term]] = []
    for number in reversed(range(len(values))):
        equal: list[Term] = [
            (part.slot.field, "$eq", value) for part, value in zip(parts[:number], values[:number], strict=True)
        ]
        operator = "$gt" if up != parts[number].descending else "$lt"
        if number == len(values) - 1 and not is_open:
            operator += "e"
        branches.append([*equal, (parts[number].slot.field, operator, values[number])])
    return branches


class IdFilter(FieldFilter):
    """Spans over an `_id` that is a document: its parts are bounded together, as BSON compares them."""

    def __init__(self, parts: Sequence[KeyPart], always: Document) -> None:
        super().__init__(parts, always)
        self.names = [part.slot.field.partition(".")[2] for part in parts]

    def equal(self, fixed: Sequence[Any]) -> Document:
        return self.span(Span((), tuple(fixed)))

    def any_of(self, firsts: Sequence[Any]) -> Document:
        return disjunction([self.equal((value,)) for value in firsts])

    def _document(self, values: Sequence[Any]) -> Document:
        return dict(zip(self.names, values, strict=False))

    def _above(self, values: Sequence[Any]) -> Document:
        """Greater than every key that begins with these values."""
        return self._document((*values, TOP))

    def span(self, span: Span) -> Document:
        width = len(span.partition) + len(span.prefix)
        values = self.encode(0, (*span.partition, *span.prefix))
        count = len(self.parts)
        if width == count:
            return self.completed({ID: {"$eq": self._document(values)}})
        terms: list[Term] = []
        if span.low is not None:
            low = (*values, *self.encode(width, span.low))
            if not span.low_open:
                terms.append((ID, "$gte", self._document(low)))
            else:
                terms.append((ID, "$gt", self._document(low) if len(low) == count else self._above(low)))
        elif values and not span.starts:
            terms.append((ID, "$gte", self._document(values)))
        if span.starts:
            terms.append((ID, "$gte", self._document((*values, span.starts))))
            above = successor(span.starts)
            if above is not None:
                terms.append((ID, "$lt", self._document((*values, above))))
            elif values:
                terms.append((ID, "$lt", self._above(values)))
        if span.high is not None:
            high = (*values, *self.encode(width, span.high))
            if span.high_open:
                terms.append((ID, "$lt", self._document(high)))
            elif len(high) == count:
                terms.append((ID, "$lte", self._document(high)))
            else:
                terms.append((ID, "$lt", self._above(high)))
        elif values and not span.starts:
            terms.append((ID, "$lt", self._above(values)))
        return self.completed(conjunction(terms))


class SharedFilter(IdFilter):
    """Spans over the `_id`s of one sort of documents in a shared collection; they begin with the parent's whole key."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.parts, {})
        assert place.id_tag is not None
        self._first, self._of, self._tag = place.id_tag
        self._only = place.only_these
        self._backwards = place.backwards

    def _document(self, values: Sequence[Any]) -> Document:
        first, rest = values[: self._first], values[self._first :]
        found = dict(zip(self.names, first, strict=False))
        return {**found, self._of: self._tag, **dict(zip(self.names[self._first :], rest, strict=False))}

    def span(self, span: Span) -> Document:
        if not span.partition and not span.prefix:
            return dict(self._only)  # all of them
        if self._backwards:
            low, low_open, high, high_open = span.high, span.high_open, span.low, span.low_open
            span = Span(span.partition, span.prefix, low, low_open, high, high_open, span.starts)
        return super().span(span)
