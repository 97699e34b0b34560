"""Whether a condition holds: the meaning of each operator on canonical values, compiled once and used per row.

A condition has two sides. `operands` works out the right one once per call: parameters, literals and `ago` become
canonical values, truncated as the left side is. `compile_condition` gives the test that is then run per row.
Any comparison with a missing value is false; only `missing` holds for it.

    test = compile_condition(column.type, condition.op, condition.cut)
    wanted = operands(condition, column.type, values, now)
    found = [row for row in rows if test(row[column.name], wanted)]
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from keyplan.model.pattern import Ago, Condition, Literal, Now, Operand, Outer, Param, Path
from keyplan.model.types import Type
from keyplan.model.values import truncate, words

Operands = tuple[Any, ...]
Test = Callable[[Any, Operands], bool]
Lookup = Callable[[Path], Any]
"""The value of a path, for one row."""

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compile_condition(type: Type, op: str, cut: str | None = None) -> Test:
    """The test for a value of this type and the operands that `operands` gives.

    `search` is the exception: its value is the sequence of the texts it looks into.
    """
    if cut is not None:
        inner = compile_condition(Type("date"), op)
        return lambda value, wanted: value is not None and inner(truncate(value, cut), wanted)
    if op == "present":
        return lambda value, wanted: value is not None
    if op == "missing":
        return lambda value, wanted: value is None
    if op in _COMPARISONS:
        compare = _COMPARISONS[op]
        return lambda value, wanted: value is not None and compare(value, wanted[0])
    if op == "between":
        return lambda value, wanted: value is not None and wanted[0] <= value <= wanted[1]
    if op == "in":
        return lambda value, wanted: value is not None and value in wanted[0]
    if op == "begins_with":
        return lambda value, wanted: value is not None and value.startswith(wanted[0])
    if op == "contains":
        return lambda value, wanted: value is not None and wanted[0] in value
    if op == "search":
        return lambda value, wanted: found_in(wanted[0], value)
    raise ValueError(f"unknown operator '{op}'")


def found_in(wanted: frozenset[str], texts: Iterable[str | None]) -> bool:
    """Whether every wanted word occurs in some of the texts; without a word to look for, nothing is found."""
    present: set[str] = set()
    for text in texts:
        if text is not None:
            present |= words(text)
    return bool(wanted) and wanted <= present


def operands(condition: Condition, type: Type, values: Mapping[str, Any], now: datetime) -> Operands:
    """The right side of a condition on a column of this type, for one call.

    `values` holds the bound parameters. `in` gives one frozenset, `search` one frozenset of words.
    """
    if condition.op == "in":
        return (frozenset(_cut(value, condition.cut) for value in _listed(condition, type, values, now)),)
    found = tuple(operand_value(operand, type, values, now) for operand in condition.operands)
    if condition.op == "search":
        return (words(found[0]),)
    return tuple(_cut(value, condition.cut) for value in found)


def operand_value(operand: Operand, type: Type, values: Mapping[str, Any], now: datetime) -> Any:
    """One operand as a canonical value; times of the clock become dates where the column is a date."""
    if isinstance(operand, Literal):
        return operand.value
    if isinstance(operand, Param):
        value = values[operand.name]
        return -value if operand.negative else value
    if isinstance(operand, Outer):
        return values[operand.path]
    assert isinstance(operand, Ago | Now)
    moment = _before(now, operand.ms) if isinstance(operand, Ago) else now
    return moment.date() if type.kind == "date" else moment


def compile_filter(
    conditions: Sequence[tuple[Condition, Type]],
) -> Callable[[Mapping[str, Any], datetime], Callable[[Lookup], bool]]:
    """A conjunction in two steps: bind it once per call, then ask it per row.

    The types are those of the columns at the ends of the conditions' paths.
    """
    tests = [(condition, type, compile_condition(type, condition.op, condition.cut)) for condition, type in conditions]

    def bind(values: Mapping[str, Any], now: datetime) -> Callable[[Lookup], bool]:
        bound = [(condition, test, operands(condition, type, values, now)) for condition, type, test in tests]

        def holds(lookup: Lookup) -> bool:
            return all(test(left_side(condition, lookup), wanted) for condition, test, wanted in bound)

        return holds

    return bind


def left_side(condition: Condition, lookup: Lookup) -> Any:
    """What a condition tests: the value of its path, or for `search` those of all its paths."""
    if condition.op == "search":
        return [lookup(path) for path in (condition.path, *condition.also)]
    return lookup(condition.path)


def _listed(condition: Condition, type: Type, values: Mapping[str, Any], now: datetime) -> Iterable[Any]:
    """The values of an `in`: those of a list parameter, or the operands written out."""
    for operand in condition.operands:
        value = operand_value(operand, type, values, now)
        if isinstance(value, tuple):
            yield from value
        else:
            yield value


def _before(now: datetime, ms: int) -> datetime:
    try:
        return now - timedelta(milliseconds=ms)
    except OverflowError:  # before the year 1: earlier than every value
        return datetime.min.replace(tzinfo=UTC)


def _cut(value: Any, cut: str | None) -> Any:
    if cut is None:
        return value
    assert isinstance(value, date)
    return truncate(value, cut)
