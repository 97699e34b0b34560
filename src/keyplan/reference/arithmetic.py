"""Exact sums and products: ints and decimals never round, floats only as floats do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from keyplan.model.types import Type

_EXACT = Context(prec=100_000)
"""More digits than any sum or product of 18-digit decimals that a model can write has."""


def combine(op: str, left: Any, right: Any) -> Any:
    """`left op right` for + - *: a float if one of them is, else a decimal if one of them is, else an int."""
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    elif isinstance(left, Decimal) or isinstance(right, Decimal):
        if op == "*":
            return _EXACT.multiply(Decimal(left), Decimal(right))
        return (
            _EXACT.add(Decimal(left), Decimal(right)) if op == "+" else _EXACT.subtract(Decimal(left), Decimal(right))
        )
    if op == "*":
        return left * right
    return left + right if op == "+" else left - right


def summary(how: str, values: Sequence[Any], type: Type) -> Any:
    """The sum, min, max or avg of values of which none is missing; `type` is that of the result."""
    if how == "sum":
        return _sum(values, type)
    if not values:
        return None
    if how == "avg":
        if isinstance(values[0], float):
            return math.fsum(values) / len(values)
        return float(Fraction(_sum(values, type)) / len(values))
    return min(values) if how == "min" else max(values)


def _sum(values: Sequence[Any], type: Type) -> Any:
    if values and isinstance(values[0], float):
        return math.fsum(values) + 0.0  # never -0.0
    if values and isinstance(values[0], int):
        return sum(values)
    if not values:
        return {"float": 0.0, "decimal": Decimal((0, (0,), -type.scale))}.get(type.kind, 0)
    result = Decimal(0)
    for value in values:
        result = _EXACT.add(result, value)
    return result if result else abs(result)
