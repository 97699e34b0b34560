"""Conditions of edits: as filters, so that the server tests them in the moment of the write, and on entries as found.

A filter that finds nothing does not say why; then the document is read, and the same conditions are looked at one by
one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from keyplan.engines.mongodb.filters import successor
from keyplan.engines.mongodb.layout import EXPIRES_FIELD, Place
from keyplan.engines.mongodb.values import Document, Slot, element_encoder, encoder
from keyplan.errors import ConflictError, KeyplanError, RangeError, UnsupportedError, row_named
from keyplan.model.entity import EXPIRES
from keyplan.model.predicate import compile_condition
from keyplan.model.types import Type
from keyplan.model.values import add
from keyplan.plan.edits import Edit, Test
from keyplan.plan.view import VERSION

MOST_INT = 2**63 - 1
_MOST_DIGITS = Decimal(10**18 - 1)
_LEAST_FLOAT, _MOST_FLOAT = 1e-130, 1e125
_NEVER: Document = {"$in": []}


def conflict(edit: int, message: str) -> ConflictError:
    """A ConflictError that knows the number of its edit."""
    error = ConflictError(message)
    error.edit = edit  # type: ignore[attr-defined]
    return error


def alive(moment: datetime) -> Document:
    """The row has not expired."""
    return {EXPIRES_FIELD: {"$not": {"$lte": moment}}}


def test_terms(slot: Slot, test: Test) -> list[Document]:
    """A test as conditions on the slot's field, which have to hold together."""
    field, value = slot.field, test.value
    if test.op == "present" or (test.op == "!=" and value is None):
        return [{field: {"$exists": True}}]
    if test.op == "missing" or (test.op == "=" and value is None):
        return [{field: {"$exists": False}}]
    if test.cut:
        return [_cut_term(slot.type, field, test)]
    if test.op == "contains":
        return [{field: {"$elemMatch": {"$eq": element_encoder(slot.type)(value)}}}]
    return [{field: _comparison(test, encoder(slot))}]


def _comparison(test: Test, encode: Callable[[Any], Any]) -> Document:
    value: Any = test.value
    if test.op == "=":
        return {"$eq": encode(value)}
    if test.op == "!=":
        return {"$exists": True, "$ne": encode(value)}
    if test.op == "between":
        return {"$gte": encode(value[0]), "$lte": encode(value[1])}
    if test.op == "in":
        return {"$in": [encode(one) for one in value]}
    if test.op == "begins_with":
        above = successor(value)
        return {"$gte": value} if above is None else {"$gte": value, "$lt": above}
    operators = {"<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}
    if test.op not in operators:
        raise UnsupportedError(f"mongodb: no condition '{test.op}' in a write")
    return {operators[test.op]: encode(value)}


def _cut_term(type: Type, field: str, test: Test) -> Document:
    """A test of a truncated value, as a range of the value itself."""
    cut = test.cut
    assert cut is not None
    value: Any = test.value

    def start(moment: date) -> datetime:
        return moment if isinstance(moment, datetime) else datetime.combine(moment, time(), UTC)

    def end(moment: date) -> datetime | None:
        after = following(moment, cut)
        return None if after is None else start(after)

    def within(moment: date) -> Document:
        until = end(moment)
        return {"$gte": start(moment)} if until is None else {"$gte": start(moment), "$lt": until}

    if test.op == "=":
        return {field: within(value)}
    if test.op == "in":
        return {"$or": [{field: within(one)} for one in value]} if value else {field: _NEVER}
    if test.op == "<":
        return {field: {"$lt": start(value)}}
    if test.op == ">=":
        return {field: {"$gte": start(value)}}
    last = value[1] if test.op == "between" else value
    until = end(last)
    if test.op == "between":
        return {field: {"$gte": start(value[0]), **({} if until is None else {"$lt": until})}}
    if test.op == "<=":
        return {field: {"$exists": True} if until is None else {"$lt": until}}
    if test.op == ">":
        return {field: _NEVER if until is None else {"$gte": until}}
    if test.op == "!=":
        before = {field: {"$lt": start(value)}}
        return before if until is None else {"$or": [before, {field: {"$gte": until}}]}
    raise UnsupportedError(f"mongodb: '{test.op}' of a truncated column cannot be tested by a write")


def following(value: date, cut: str) -> date | None:
    """The truncated value after this one; None after the year 9999."""
    try:
        if cut in ("minute", "hour", "day", "week"):
            return value + timedelta(**{f"{cut}s": 1})
        if cut == "year":
            return value.replace(year=value.year + 1)
        return value.replace(year=value.year + value.month // 12, month=value.month % 12 + 1)
    except (OverflowError, ValueError):
        return None


def guard_terms(slot: Slot, amount: Any) -> list[Document]:
    """Conditions under which a sum stays within the range of its type; missing counts as 0."""
    if slot.sum or amount == 0:
        return []
    kind = slot.type.kind
    if kind == "float":
        return []  # by an expression, see `float_guard`
    limit: Any
    if kind == "int":
        limit = MOST_INT - amount if amount > 0 else -MOST_INT - 1 - amount
        if limit < -MOST_INT - 1 or limit > MOST_INT:
            limit = Decimal(limit)
    else:
        most = _MOST_DIGITS.scaleb(-slot.type.scale)
        limit = most - amount if amount > 0 else -most - amount
    beyond = {slot.field: {"$not": {"$gt" if amount > 0 else "$lt": limit}}}
    # What is missing counts as 0, which may be too much already.
    return [beyond] if (limit >= 0 if amount > 0 else limit <= 0) else [beyond, {slot.field: {"$exists": True}}]


def float_guard(slot: Slot, amount: float, inside: str) -> Document:
    """An expression that is true where a sum of floats stays within the language's range."""
    total = {"$add": [{"$ifNull": [f"{inside}{slot.field}", 0.0]}, amount]}
    size = {"$abs": total}
    least = {"$or": [{"$eq": [total, 0]}, {"$gte": [size, _LEAST_FLOAT]}]}
    return {"$and": [{"$lt": [size, _MOST_FLOAT]}, least]}


def needs_presence(edit: Edit) -> bool:
    """Whether an edit is refused where there is no entry."""
    return edit.expect == "present" or (bool(edit.tests) and edit.expect != "absent")


def is_gone(edit: Edit, entry: dict[str, Any] | None) -> bool:
    if entry is None:
        return True
    expires = entry.get(EXPIRES)
    return edit.alive_at is not None and expires is not None and bool(expires <= edit.alive_at)


def test_holds(place: Place, test: Test, entry: dict[str, Any]) -> bool:
    """Whether a test holds for an entry as it was found."""
    value: Any = test.value
    found = entry[test.path]
    if test.path == VERSION:
        return bool(found == value)
    if value is None and test.op not in ("present", "missing"):
        return (found is None) == (test.op == "=")
    wanted = (frozenset(value),) if test.op == "in" else tuple(value) if test.op == "between" else (value,)
    return compile_condition(place.slots[test.path].type, test.op, test.cut)(found, wanted)


def verdict(place: Place, edit: Edit, number: int, entry: dict[str, Any] | None) -> KeyplanError | None:
    """Why an edit cannot be done to the entry as it is; None if it can."""
    row = row_named(place.entity, edit.key)
    gone = is_gone(edit, entry)
    if edit.expect == "absent":
        return None if gone else conflict(number, f"{row} exists already; give another key")
    if needs_presence(edit) and gone:
        what = (
            "is missing, or the condition of the write does not hold; read it again"
            if edit.tests
            else "does not exist; check its key"
        )
        return conflict(number, f"{row} {what}")
    if entry is None:
        return None
    if edit.fresh is not None and gone:
        return conflict(number, f"{row} has expired; make another one")
    if not all(test_holds(place, test, entry) for test in edit.tests):
        return conflict(number, f"{row} is missing, or the condition of the write does not hold; read it again")
    for path, amount in edit.adds.items():
        slot = place.slots[path]
        if slot.sum or path in place.extends or edit.do == "add":
            continue
        try:
            add(slot.type, entry[path], amount)
        except OverflowError:
            return RangeError(f"{row}: '{path}' would leave the range of its type; nothing was written", edit=number)
    return None
