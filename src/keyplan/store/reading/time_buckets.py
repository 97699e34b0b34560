"""Truncated moments one after the other: those that a range runs over, worked out as they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, overload

_STEPS = {cut: timedelta(**{f"{cut}s": 1}) for cut in ("minute", "hour", "day", "week")}


class TimeBuckets(Sequence[Any]):
    """So many buckets from the first one on, however many: none of them is kept."""

    def __init__(self, first: date, cut: str, count: int) -> None:
        self._first = first
        self._cut = cut
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> TimeBuckets: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._count)
            if step != 1:
                raise ValueError("every bucket in its turn")
            return TimeBuckets(shifted(self._first, self._cut, start), self._cut, stop - start) if start < stop else ()
        if not 0 <= index < self._count:
            raise IndexError(index)
        return shifted(self._first, self._cut, index)


def buckets_between(first: date, last: date, cut: str) -> Sequence[Any]:
    """All buckets from one to another, both included.

    >>> [str(one) for one in buckets_between(date(2024, 12, 1), date(2025, 2, 1), "month")]
    ['2024-12-01', '2025-01-01', '2025-02-01']
    """
    if last < first:
        return ()
    if cut in _STEPS:
        return TimeBuckets(first, cut, (last - first) // _STEPS[cut] + 1)
    months = (last.year - first.year) * 12 + last.month - first.month
    return TimeBuckets(first, cut, (months // 12 if cut == "year" else months) + 1)


def shifted(value: date, cut: str, by: int) -> date:
    """The truncated value so many later; raises OverflowError after the year 9999."""
    if cut in _STEPS:
        return value + by * _STEPS[cut]
    months = value.year * 12 + value.month - 1 + by * (12 if cut == "year" else 1)
    try:
        return value.replace(year=months // 12, month=months % 12 + 1)
    except ValueError:
        raise OverflowError("after the year 9999") from None
