"""Few values per type, simple ones first, so that collisions, ties and misses happen; and those that break things."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from keyplan.model.types import Type
from keyplan.model.values import to_text

START = datetime(2124, 5, 15, 12, 0, tzinfo=UTC)
"""When every program begins: in the future, because servers delete by their own clocks what has expired."""

STRINGS = ["a", "b", "", "ab", "B", "a b", "é", "a#b", "\U0001f600", "\ufffd", "it's", "$gt", "~"]
TEXTS = ["red fox", "Red", "", "fox-trot", "blue_fox RED", "straße", "STRASSE fox"]
NUMBERS = [0, 1, 2, -1, 10, 9, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, 0.5, -0.5, 2.0, 1e-130, -1e100]
DATES = [date(2124, 5, 15), date(2124, 5, 14), date(2124, 5, 12), date(2124, 2, 29), date(2123, 12, 31), date(1, 1, 1)]
TIMES = [
    START,
    datetime(2124, 5, 15, 11, 59, 59, 999_000, UTC),
    datetime(2124, 5, 15, 11, 30, tzinfo=UTC),
    datetime(2124, 5, 12, 23, 59, tzinfo=UTC),
    datetime(2124, 5, 13, tzinfo=UTC),
    datetime(2124, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC),
    datetime(2200, 1, 1, tzinfo=UTC),
]
UUIDS = [UUID(int=1), UUID(int=2), UUID(int=2**127), UUID(int=2**128 - 1), UUID(int=256)]
ULIDS = ["0" * 25 + "1", "0" * 25 + "2", "01" + "Z" * 24, "7" + "Z" * 25]
BYTES = [b"a", b"", b"\x00", b"a\x00", b"\xff", b"\x7f"]
JSON: list[Any] = [{"a": 1}, [], "x", 0, {"a": {"b": [None, True, 1.5]}}]


def domain(type: Type) -> Sequence[Any]:
    """The values that a scalar of this type takes."""
    if type.kind == "enum":
        return [name for name, _ in type.values]
    if type.kind == "decimal":
        unit = Decimal((0, (1,), -type.scale))
        most = Decimal((0, (9,) * 18, -type.scale))
        return [Decimal(number) for number in (0, 1, 2, -1)] + [unit, -unit, Decimal("1.5").quantize(unit), most, -most]
    known: dict[str, Sequence[Any]] = {
        "string": STRINGS,
        "text": TEXTS,
        "bytes": BYTES,
        "json": JSON,
        "int": NUMBERS,
        "float": FLOATS,
        "bool": [False, True],
        "date": DATES,
        "timestamp": TIMES,
        "uuid": UUIDS,
        "ulid": ULIDS,
    }
    return known[type.kind]


@cache
def values(type: Type) -> st.SearchStrategy[Any]:
    """Values that can be given for a column of this type."""
    if type.of is None:
        return st.sampled_from(domain(type))
    elements = st.sampled_from(domain(type.of))
    if type.kind == "set":
        return st.lists(elements, max_size=3, unique=True).map(frozenset)
    return st.lists(elements, max_size=3).map(tuple)


@cache
def small(type: Type) -> st.SearchStrategy[Any]:
    """Numbers to be added, of which few leave the range."""
    if type.kind == "int":
        return st.sampled_from([1, 2, -1, 0, 2**62])
    if type.kind == "decimal":
        return st.sampled_from([Decimal(1), Decimal(-1), Decimal((0, (1,), -type.scale))])
    return st.sampled_from([0.5, 1.0, -0.5])


def literal(type: Type, value: Any) -> str:
    """A value as it is written in a `where`."""
    text = to_text(type, value)
    if type.kind in ("int", "decimal", "float", "bool"):
        return text
    return "'" + text.replace("'", "''") + "'"


@lru_cache(maxsize=None, typed=True)
def among(*choices: Any) -> st.SearchStrategy[Any]:
    """One of a few words or numbers, by a strategy that is made once: to look into a new one, as Hypothesis does, takes
    longer than to draw from it.

    Not for values of rows, some of which are equal and not the same: 1.5 and 1.50.
    """
    return st.sampled_from(choices)


def chance(draw: st.DrawFn, odds: int) -> bool:
    """True once in `odds` + 1 times; shrinks to False."""
    return draw(_up_to(odds)) == odds


@cache
def _up_to(most: int) -> st.SearchStrategy[int]:
    return st.integers(0, most)
