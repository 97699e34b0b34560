"""JSON that people write, in files, command lines and models: one parser, so that each mistake has one message."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any

from keyplan.errors import quoted


def parse_json(text: str, *, exact: bool = True) -> Any:
    """JSON with decimals exact, or else as floats; raises ValueError with a short reason."""
    number = _decimal if exact else None
    try:
        return json.loads(text, parse_float=number, parse_constant=_no_constant, object_pairs_hook=_each_once)
    except RecursionError:
        raise ValueError("is nested too deep; make it simpler") from None
    except _UnfitError:
        raise
    except json.JSONDecodeError as error:
        where = f"{error.msg.removesuffix(' at')} at character {error.pos + 1}"
        raise ValueError(f"is not JSON: {where}; check quotes, commas and brackets there") from None
    except ValueError:  # Python reads no whole numbers of thousands of digits
        raise ValueError("has a number with too many digits; shorten it") from None


class _UnfitError(ValueError):
    """JSON that could be read, but not as what somebody meant."""


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits
        raise _UnfitError(f"has the number {quoted(text)}, which is out of all ranges; give another") from None


def _no_constant(name: str) -> None:
    raise _UnfitError(f"'{name}' is not JSON; give a finite number")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of two values with one name, either could be the one that was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _UnfitError(f"has {quoted(twice)} twice; leave one out")
    return found
