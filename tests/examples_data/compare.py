"""Whether a store answers what the reference answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from keyplan.errors import ArgumentError, ConflictError
from keyplan.model.pattern import Pattern

Ask = Callable[..., Any]
Outcome = tuple[str, Any]


def outcome_of(call: Ask, arguments: dict[str, Any]) -> Outcome:
    """What a call answered, or how it was refused; the words of a refusal are an engine's own."""
    try:
        return "answered", call(**arguments)
    except ConflictError:
        return "conflict", None
    except ArgumentError:
        return "refused", None


def walk(pattern: Pattern, ask: Ask, arguments: dict[str, Any]) -> Any:
    """The whole answer of a pattern: all of its pages, each as a list, or the answer itself."""
    if not is_paged(pattern):
        return ask(**arguments)
    pages: list[list[dict[str, Any]]] = []
    cursor = None
    while True:
        page = ask(cursor=cursor, **arguments)
        pages.append(page.rows)
        cursor = page.cursor
        if cursor is None:
            return pages


def is_paged(pattern: Pattern) -> bool:
    return pattern.kind == "find" and not pattern.one and pattern.limit is None


def difference(pattern: Pattern, expected: Any, found: Any) -> str | None:
    """Where two answers differ. Without an order the rows are a set, and only the lengths of pages are compared."""
    if is_paged(pattern) and not pattern.order:
        lengths = [[len(page) for page in pages] for pages in (expected, found)]
        if lengths[0] != lengths[1]:
            return f"pages of {lengths[0]} rows expected, found {lengths[1]}"
        expected, found = (sorted((row for page in pages for row in page), key=_text) for pages in (expected, found))
    return first_difference(expected, found)


def _text(row: dict[str, Any]) -> str:
    """A row as text, whatever the order of its columns and of the elements of its sets: equal for equal rows."""
    return repr(_in_order(row))


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, _in_order(value[name])) for name in sorted(value)]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    return [_in_order(one) for one in value] if isinstance(value, list | tuple) else value


def first_difference(expected: Any, found: Any, place: str = "") -> str | None:
    """The first place where two values differ in type or value; floats, which are rounded sums, in nine digits."""
    if isinstance(expected, float) and isinstance(found, float):
        return None if math.isclose(expected, found, rel_tol=1e-9) else _both(expected, found, place)
    if type(expected) is not type(found) or not isinstance(expected, dict | list | tuple):
        return None if type(expected) is type(found) and expected == found else _both(expected, found, place)
    if isinstance(expected, dict):
        keys = list(expected)
        if expected.keys() != found.keys():
            return _both(keys, list(found), place)
    else:
        keys = list(range(min(len(expected), len(found))))
    for key in keys:
        inner = first_difference(expected[key], found[key], f"{place}[{key!r}]")
        if inner is not None:
            return inner
    return None if len(expected) == len(found) else _both(len(expected), len(found), f"{place} length")


def _both(expected: Any, found: Any, place: str) -> str:
    return f"{place or 'answer'}: expected {expected!r}, found {found!r}"
