"""Aggregates: rows put into groups, and what is counted and summed in each."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

from keyplan.model.pattern import Compute, Group, Pattern, Term
from keyplan.model.types import Type
from keyplan.model.values import truncate
from keyplan.reference.arithmetic import combine, summary
from keyplan.reference.tables import Row, Tables

Line = dict[str, Any]
"""A row of the answer: group and compute names to values."""


def aggregate(tables: Tables, pattern: Pattern, rows: list[Row]) -> Any:
    """A value, a row of values, or with `group` a list of rows."""
    if not pattern.group:
        line = _computed(tables, pattern, rows)
        return line[pattern.compute[0].name] if pattern.scalar else line
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = tuple(_group_value(tables, pattern.entity, row, group) for group in pattern.group)
        groups.setdefault(key, []).append(row)
    names = [group.name for group in pattern.group]
    lines = [
        {**dict(zip(names, key, strict=True)), **_computed(tables, pattern, members)} for key, members in groups.items()
    ]
    return _in_order(pattern, lines)[: pattern.limit]


def _group_value(tables: Tables, entity: str, row: Row, group: Group) -> Any:
    value = tables.single(entity, row, group.path)
    return truncate(value, group.cut) if group.cut is not None and value is not None else value


def _computed(tables: Tables, pattern: Pattern, rows: list[Row]) -> Line:
    return {compute.name: _value(tables, pattern.entity, compute, rows) for compute in pattern.compute}


def _value(tables: Tables, entity: str, compute: Compute, rows: list[Row]) -> Any:
    """Rows whose expression is missing are skipped, except by `count()`."""
    if compute.term is None:
        return len(rows)
    values = [term_value(tables, entity, compute.term, row) for row in rows]
    present = [value for value in values if value is not None]
    if compute.how == "count":
        return len(present)
    return summary(compute.how, present, compute.type or Type("int"))


def term_value(tables: Tables, entity: str, term: Term, row: Row) -> Any:
    """The value of an expression for one row; missing if any part of it is."""
    if term.path is not None:
        return tables.single(entity, row, term.path)
    if term.left is None or term.right is None:
        return term.number
    left = term_value(tables, entity, term.left, row)
    right = term_value(tables, entity, term.right, row)
    return None if left is None or right is None else combine(term.op, left, right)


def _in_order(pattern: Pattern, lines: list[Line]) -> list[Line]:
    """By `order`, then by the group keys ascending; missing last."""
    terms = [(order.path.column, order.descending) for order in pattern.order]
    terms += [(group.name, False) for group in pattern.group]

    def compare(left: Line, right: Line) -> int:
        for name, descending in terms:
            a, b = left[name], right[name]
            if a is None or b is None:
                if a is not b:
                    return 1 if a is None else -1
            elif a != b:
                return (1 if a > b else -1) * (-1 if descending else 1)
        return 0

    return sorted(lines, key=cmp_to_key(compare))
