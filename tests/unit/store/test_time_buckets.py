"""Buckets that a range runs over are those that one gets to step by step."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyplan.model.values import truncate
from keyplan.store.reading.time_buckets import buckets_between, shifted

MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(1993, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))


@pytest.mark.parametrize("cut", ["hour", "day", "week", "month", "year"])
@given(start=MOMENTS, end=MOMENTS, at=st.integers(0, 40), more=st.integers(0, 40))
def test_all_of_them_and_pieces(cut: str, start: datetime, end: datetime, at: int, more: int) -> None:
    first, last = truncate(start, cut), truncate(end, cut)
    found = buckets_between(first, last, cut)
    stepped = []
    while first <= last:
        stepped.append(first)
        first = shifted(first, cut, 1)
    assert list(found) == stepped
    assert len(found) == len(stepped)
    assert list(found[at : at + more]) == stepped[at : at + more]
    assert list(found[:-1]) == stepped[:-1]


def test_the_last_year() -> None:
    found = buckets_between(date(9998, 1, 1), date(9999, 1, 1), "year")
    assert [one.year for one in found] == [9998, 9999]
    with pytest.raises(OverflowError):
        shifted(date(9999, 12, 1), "month", 1)
    with pytest.raises(OverflowError):
        shifted(date(9999, 12, 31), "day", 1)


def test_ten_thousand_years_of_minutes_take_no_memory() -> None:
    found = buckets_between(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), "minute")
    assert len(found) == 3_652_058 * 1440 + 1
