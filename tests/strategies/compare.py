"""Whether two outcomes of an operation are the same, as far as the language says what they have to be."""

from __future__ import annotations

import math
from typing import Any

from keyplan.model.model import Model
from tests.strategies.programs import Call, Operation, Outcome, Walk


def difference(model: Model, operation: Operation, expected: Outcome, found: Outcome) -> str | None:
    """What differs, or None. Rows without an order are a set; sums of floats agree to nine digits."""
    if expected[0] != found[0] or expected[0] != "answer":
        return None if expected == found else f"expected {expected}, found {found}"
    left, right = expected[1], found[1]
    pattern = model.patterns.get(operation.name) if isinstance(operation, Call | Walk) else None
    if pattern is not None and isinstance(operation, Call) and pattern.kind == "find" and pattern.page is not None:
        if (left.cursor is None) != (right.cursor is None):
            return f"expected cursor {left.cursor}, found {right.cursor}"
        left, right = left.rows, right.rows
    if pattern is not None and pattern.kind == "find" and not pattern.one and not pattern.order:
        left, right = sorted(left, key=_sortable), sorted(right, key=_sortable)
    return _first(left, right, "answer")


def _sortable(value: Any) -> str:
    """A text that is equal for equal values; the text of a set depends on its history."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_sortable(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(_sortable, value))) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_sortable, value)) + "]"
    return repr(value)


def _first(left: Any, right: Any, place: str) -> str | None:
    """The first place where two values differ in type or value."""
    if type(left) is not type(right):
        return f"{place}: expected {left!r}, found {right!r}"
    if isinstance(left, float):
        return None if math.isclose(left, right, rel_tol=1e-9) else f"{place}: expected {left!r}, found {right!r}"
    if isinstance(left, dict):
        if left.keys() != right.keys():
            return f"{place}: expected {sorted(left)}, found {sorted(right)}"
        return next((found for key in left if (found := _first(left[key], right[key], f"{place}.{key}"))), None)
    if isinstance(left, list | tuple):
        if len(left) != len(right):
            return f"{place}: expected {left!r}, found {right!r}"
        pairs = enumerate(zip(left, right, strict=True))
        return next((found for number, (a, b) in pairs if (found := _first(a, b, f"{place}[{number}]"))), None)
    return None if left == right else f"{place}: expected {left!r}, found {right!r}"
