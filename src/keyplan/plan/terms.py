"""Expressions over the paths of a row (`quantity * price`), compiled; exact but for floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any

from keyplan.model.pattern import Term

EXACT = Context(prec=400)
"""Wide enough that sums and products of 18-digit decimals are never rounded."""

Value = Callable[[Mapping[str, Any]], Any]


def compile_term(term: Term) -> Value:
    """An expression over a row; missing if any of its paths is."""
    if term.path is not None:
        name = str(term.path)
        return lambda row: row.get(name)
    if term.left is None or term.right is None:
        number = term.number
        return lambda row: number
    left, right, calculate = compile_term(term.left), compile_term(term.right), _OPERATIONS[term.op]

    def value(row: Mapping[str, Any]) -> Any:
        a, b = left(row), right(row)
        return None if a is None or b is None else calculate(a, b)

    return value


def _multiply(a: Any, b: Any) -> Any:
    if isinstance(a, float) or isinstance(b, float):
        return float(a) * float(b)
    return EXACT.multiply(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else a * b


def plus(a: Any, b: Any) -> Any:
    """The exact sum; floats as floats."""
    if isinstance(a, float) or isinstance(b, float):
        return float(a) + float(b)
    return EXACT.add(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else a + b


def minus(a: Any) -> Any:
    """The number with the other sign, unrounded."""
    return EXACT.minus(a) if isinstance(a, Decimal) else -a


_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": plus,
    "-": lambda a, b: plus(a, minus(b)),
    "*": _multiply,
}
