"""Pieces of SQL text: names, literals, truncations, conditions. Values of calls never get in here; they are bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keyplan.engines.sqlite.values import Slot, value_encoder
from keyplan.errors import UnsupportedError
from keyplan.model.types import Type

_DAY_MS = 86_400_000
_STEPS_MS = {"minute": 60_000, "hour": 3_600_000}
_LAST_CODE_POINT = 0x10FFFF


def quote(name: str) -> str:
    """An identifier, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def literal(type: Type, value: object) -> str:
    """A value written into the model, as SQL."""
    raw = value_encoder(Slot("", type))(value)
    if raw is None:
        return "NULL"
    if isinstance(raw, bytes):
        return f"x'{raw.hex()}'"
    if isinstance(raw, str):
        return "'" + raw.replace("'", "''") + "'"
    return repr(raw)


def cut_sql(column: str, kind: str, cut: str) -> str:
    """A truncation of a date or timestamp column, equal to `model.values.truncate` for the years 1 to 9999.

    SQLite's `/` and `%` round towards zero, so that moments before 1970 need the remainder made positive.
    """
    if cut in _STEPS_MS:
        return _floor(column, _STEPS_MS[cut])
    day = f"({_floor(column, _DAY_MS)} / {_DAY_MS})" if kind == "timestamp" else column
    if cut == "day":
        return day
    if cut == "week":
        return f"({day} - (({day} + 3) % 7 + 7) % 7)"
    return f"(CAST(strftime('%s', {day} * 86400, 'unixepoch', 'start of {cut}') AS INTEGER) / 86400)"


def _floor(column: str, step: int) -> str:
    return f"({column} - ({column} % {step} + {step}) % {step})"


def successor(prefix: str) -> str | None:
    """The least text above every text that starts so; None if there is none.

    >>> successor("ab")
    'ac'
    """
    while prefix:
        code = ord(prefix[-1]) + 1
        if code <= _LAST_CODE_POINT:
            return prefix[:-1] + chr(0xE000 if code == 0xD800 else code)
        prefix = prefix[:-1]
    return None


def condition(left: str, op: str, count: int, value: Callable[[int], str], upper: str | None = None) -> list[str]:
    """The terms of `left op value...` with a text per operand; false where `left` is missing.

    `upper` is the text of the bound above a begins_with, if it has one.
    """
    if op in ("=", "<", "<=", ">", ">="):
        return [f"{left} {op} {value(0)}"]
    if op == "!=":
        return [f"{left} <> {value(0)}"]
    if op == "between":
        return [f"{left} >= {value(0)}", f"{left} <= {value(1)}"]
    if op == "in":
        return [f"{left} IN ({', '.join(value(n) for n in range(count))})"]
    if op == "begins_with":
        return [f"{left} >= {value(0)}", *([f"{left} < {upper}"] if upper else [])]
    if op == "present":
        return [f"{left} IS NOT NULL"]
    if op == "missing":
        return [f"{left} IS NULL"]
    raise UnsupportedError(f"sqlite: no condition '{op}' here")


def conjunction(terms: Sequence[str]) -> str:
    return " AND ".join(terms)
