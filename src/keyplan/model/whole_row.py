"""Rows that are given whole, for loading many of them: the checks of an entity's fields, written out and compiled.

What a field's checker would let through at once, which is most of all values, is let through by an expression of a few
operations; for everything else the expression calls the checker. Only field names (as `repr`) get into the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any
from uuid import UUID

from keyplan.model.checks import DIGITS, most_bytes
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.types import Type
from keyplan.model.values import checker

Fields = Mapping[str, Any]
WholeRows = Callable[[Sequence[Fields]], "list[dict[str, Any]] | None"]

_EXACT = Context(prec=DIGITS, traps=[InvalidOperation, Inexact])


def whole_rows(model: Model, entity: str) -> WholeRows:
    """A function from the fields of rows to their columns.

    It returns None unless every row is ordinary: it leaves out nothing but optional fields that have nothing to be
    filled in with, and its values pass. The others are for `row_from_arguments`, which fills in what is missing and
    says what is wrong.
    """
    about = model.entities[entity]
    env: dict[str, Any] = {"UUID": UUID, "Decimal": Decimal, "datetime": datetime, "UTC": UTC, "parts": _parts}
    codes: list[str] = []
    names: list[str] = []
    number = 0
    for field in (one for one in about.fields.values() if one.computed is None):
        columns = [column for column in about.columns.values() if column.field == field.name]
        name = repr(field.name)
        names.append(field.name)
        fills = field.default is not None or field.now or field.source is not None
        may_lack = all(column.optional for column in columns)
        given = f"a[{name}]" if fills or not may_lack else f"a.get({name})"
        for place, column in enumerate(columns):
            number += 1
            env[f"c{number}"] = checker(column.type)
            checked = _checked(column.type, number, env)
            if len(columns) > 1:  # `p` are the parts of the reference, all there or all missing
                part = f"(p := parts({given}, {len(columns)}))[0]" if place == 0 else f"p[{place}]"
                code = f"None if (x := {part}) is None else {checked.format(v='x')}"
                codes.append(f"{column.name!r}: {code if may_lack else checked.format(v=f'(x := {part})')}")
            elif not may_lack or column.type.is_collection:
                codes.append(f"{name}: {checked.format(v=f'(x := a[{name}])')}")
            else:
                codes.append(f"{name}: None if (x := {given}) is None else {checked.format(v='x')}")
    if about.ttl is not None:
        codes.append(f"{EXPIRES!r}: None")
    env["names"] = frozenset(names)
    take = eval(f"lambda rows: [{{{', '.join(codes)}}} for a in rows if a.keys() <= names]", env)

    def make(rows: Sequence[Fields]) -> list[dict[str, Any]] | None:
        try:
            found: list[dict[str, Any]] = take(rows)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
            return None
        return found if len(found) == len(rows) else None

    return make


def _parts(given: Any, count: int) -> tuple[Any, ...]:
    """The parts of a reference in several columns, given as a tuple, or None for each."""
    if given is None:
        return (None,) * count
    if given.__class__ is not tuple or len(given) != count or None in given:
        raise ValueError
    parts: tuple[Any, ...] = given
    return parts


def _checked(type: Type, number: int, env: dict[str, Any]) -> str:
    """An expression that is the canonical value of `{v}`, which is also known as x."""
    check = f"c{number}(x)"
    if type.kind == "uuid":
        return f"(x if {{v}}.__class__ is UUID else {check})"
    if type.kind in ("string", "text"):
        fits = f"x.isascii() and len(x) <= {most_bytes(type)} and '\\0' not in x"
        return f"(x if {{v}}.__class__ is str and {fits} else {check})"
    if type.kind == "int":
        return f"(x if {{v}}.__class__ is int and {-(2**63)} <= x < {2**63} else {check})"
    if type.kind == "bool":
        return f"(x if {{v}} is True or x is False else {check})"
    if type.kind == "enum":
        env[f"e{number}"] = {name: name for name, _ in type.values}
        return f"(e{number}.get({{v}}) or {check})"
    if type.kind == "timestamp":
        plain = "x.tzinfo is UTC and not x.microsecond % 1000 and not x.fold"
        return f"(x if {{v}}.__class__ is datetime and {plain} else {check})"
    if type.kind == "decimal":
        env["quantize"] = _EXACT.quantize
        env[f"u{number}"] = Decimal((0, (1,), -type.scale))
        env[f"z{number}"] = Decimal((0, (0,), -type.scale))
        fits = f"quantize(x, u{number}) or z{number}"
        return f"(({fits}) if {{v}}.__class__ is Decimal and x.is_finite() else {check})"
    return f"(c{number}({{v}}))"
