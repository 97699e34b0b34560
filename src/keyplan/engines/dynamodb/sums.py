"""Sums that may have more digits than a number of DynamoDB: their leading digits have an attribute of their own.

Both are added to by the same request, each by its part of the amount. Most amounts have no leading digits, and most
sums never get the second attribute.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.model.model import Model
from keyplan.model.types import Type
from keyplan.plan.types import SUMMED_DIGITS, most_digits
from keyplan.plan.view import Measure, View

LOW_DIGITS = 22
"""Digits of an amount that are added to a sum's own attribute; 38 hold the sum of 10,000 million million of these."""
_EXACT = Context(prec=200)


def is_wide(model: Model, view: View, measure: Measure) -> bool:
    """Whether a kept aggregate may have more digits than a number."""
    return _digits(model, view, measure) > LIMITS.digits


def is_too_wide(model: Model, view: View, measure: Measure) -> bool:
    """Whether it may have more than both attributes."""
    return _digits(model, view, measure) > LIMITS.digits + LOW_DIGITS


def _digits(model: Model, view: View, measure: Measure) -> int:
    return most_digits(model, view.entity, measure.term) + SUMMED_DIGITS if measure.how == "sum" else 0


def split(type: Type, value: Any) -> tuple[int, Any]:
    """The leading digits of a value, as a number of their own, and the rest of it.

    >>> split(Type("int"), -(10**23) - 7)
    (-10, -7)
    """
    unit = _unit(type)
    high = int(_EXACT.divide_int(Decimal(value), unit))
    return high, joined(type, -high, value)


def joined(type: Type, high: int, low: Any) -> Any:
    """The value of which these are the leading digits and the rest.

    >>> joined(Type("int"), -10, -7)
    -100000000000000000000007
    """
    value = _EXACT.add(_EXACT.multiply(Decimal(high), _unit(type)), Decimal(low))
    return int(value) if type.kind == "int" else _EXACT.quantize(value, Decimal((0, (1,), -type.scale)))


def _unit(type: Type) -> Decimal:
    return Decimal((0, (1,), LOW_DIGITS - type.scale))
