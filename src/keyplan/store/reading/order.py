"""Orders over flat rows: sorting, cutting after a position, merging. Missing is last in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from keyplan.model.entity import Entity
from keyplan.model.pattern import Order, Path

Row = dict[str, Any]
Position = Mapping[str, Any]
"""The values of a total order's paths, of the last row that was handed out."""


def by_key(entity: Entity, descending: bool = False) -> tuple[Order, ...]:
    """The order of an entity's key."""
    return tuple(Order(Path((), column), descending) for column in entity.key)


def total(entity: Entity, order: Sequence[Order]) -> tuple[Order, ...]:
    """The order with its ties broken by the key, in the direction of its last term."""
    named = {str(term.path) for term in order}
    down = order[-1].descending if order else False
    return (*order, *(term for term in by_key(entity, down) if term.path.column not in named))


def sort_rows(rows: Iterable[Row], order: Sequence[Order]) -> list[Row]:
    """The rows in order."""
    result = list(rows)
    if len(result) < 2:
        return result
    for term in reversed(order):
        name = str(term.path)
        if term.descending:
            result.sort(key=lambda row, name=name: _first_if_missing(row[name]), reverse=True)  # type: ignore[misc]
        else:
            result.sort(key=lambda row, name=name: _last_if_missing(row[name]))  # type: ignore[misc]
    return result


def _last_if_missing(value: Any) -> tuple[bool, Any]:
    return (True, False) if value is None else (False, value)


def _first_if_missing(value: Any) -> tuple[bool, Any]:
    return (False, False) if value is None else (True, value)


def position_of(order: Sequence[Order], row: Mapping[str, Any]) -> dict[str, Any]:
    """Where a row stands."""
    return {str(term.path): row[str(term.path)] for term in order}


def after(order: Sequence[Order]) -> Callable[[Mapping[str, Any], Position], bool]:
    """A function that says whether a row comes after a position."""
    terms = [(str(term.path), term.descending) for term in order]

    def test(row: Mapping[str, Any], position: Position) -> bool:
        for name, descending in terms:
            here, there = row[name], position[name]
            if here == there:
                continue
            if here is None:
                return True
            if there is None:
                return False
            return bool(here < there) if descending else bool(here > there)
        return False

    return test
