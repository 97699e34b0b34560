"""Rows in time buckets: pages in both directions, with and without a directory, read no more buckets than they need."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyplan.errors import UnsupportedError
from keyplan.model.load import parse_model
from keyplan.store.reading import spans
from keyplan.store.store import Store
from tests.naive import Extras
from tests.unit.store.memory import MemoryPort, Read
from tests.unit.store.support import memory_store

MODEL = parse_model("""
keyplan: 1
name: log
entities:
  Entry:
    fields:
      number: int, key
      at: timestamp
      level: int
patterns:
  newest: { find: Entry, order: at desc, page: 4 }
  oldest: { find: Entry, order: at, page: 4 }
  grave: { find: Entry, where: "level > 2", order: at desc, page: 3 }
  since: { find: Entry, where: "at >= :start", order: at, page: 3 }
  between: { find: Entry, where: "at between :start and :end", order: at desc, page: 3 }
  grave_between: { find: Entry, where: "at between :start and :end and level > 2", order: at, page: 3 }
writes:
  log: { create: Entry }
  shift: { update: Entry, where: "number = :number", set: { at: ":at" } }
  drop: { delete: Entry, where: "number = :number" }
""")
RANGES = parse_model("""
keyplan: 1
name: ranges
entities:
  Entry: { fields: { number: "int, key", at: timestamp, level: int } }
patterns:
  between: { find: Entry, where: "at between :start and :end", order: at desc, page: 3 }
  grave_between: { find: Entry, where: "at between :start and :end and level > 2", order: at, page: 3 }
  worst: { find: Entry, where: "at between :start and :end", order: [level desc, at desc], limit: 4 }
  how_many: { count: Entry, where: "at between :start and :end" }
""")
START = datetime(2020, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(0, 40 * 365).map(lambda days: START + timedelta(days=days, hours=days % 24))
ENTRIES = st.lists(st.tuples(MOMENTS, st.integers(0, 5)), max_size=25)
BUCKETS = [
    ("hour", False),
    ("month", True),
    *(
        pytest.param(cut, packed, marks=pytest.mark.thorough)
        for cut, packed in (
            ("hour", True),
            ("day", False),
            ("day", True),
            ("month", False),
            ("year", False),
            ("year", True),
        )
    ),
]
"""How long a bucket is, and whether its rows are packed; two of them stand for the others in `make check`."""


def pages(store: Store, name: str, **arguments: Any) -> list[dict[str, Any]]:
    """All rows of a pattern, page by page."""
    rows: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = getattr(store, name)(**arguments, **({"cursor": cursor} if cursor else {}))
        rows += page.rows
        cursor = page.cursor
        if cursor is None:
            return rows


@pytest.mark.parametrize(("cut", "packed"), BUCKETS)
@settings(max_examples=40, deadline=None)
@given(entries=ENTRIES, start=MOMENTS, end=MOMENTS, moved=st.lists(st.tuples(st.integers(0, 24), MOMENTS), max_size=4))
def test_pages_in_both_directions(
    cut: str,
    packed: bool,
    entries: list[tuple[datetime, int]],
    start: datetime,
    end: datetime,
    moved: list[tuple[int, datetime]],
) -> None:
    store = memory_store(MODEL, Extras(buckets=cut, packed=packed))
    rows = {}
    for number, (at, level) in enumerate(entries):
        store.log(number=number, at=at, level=level)
        rows[number] = {"number": number, "at": at, "level": level}
    for number, at in moved:
        if number in rows and number % 3:
            store.shift(number=number, at=at)
            rows[number]["at"] = at
        elif number in rows:
            store.drop(number=number)
            del rows[number]
    up = sorted(rows.values(), key=lambda row: (row["at"], row["number"]))
    down = up[::-1]
    assert pages(store, "newest") == down
    assert pages(store, "oldest") == up
    assert pages(store, "grave") == [row for row in down if row["level"] > 2]
    assert pages(store, "since", start=start) == [row for row in up if row["at"] >= start]
    inside = [row for row in down if start <= row["at"] <= end]
    assert pages(store, "between", start=start, end=end) == inside
    grave = [row for row in inside[::-1] if row["level"] > 2]
    assert pages(store, "grave_between", start=start, end=end) == grave
    report = store.verify()
    assert report.ok, report


def counted(store: Store) -> list[Any]:
    """The reads that a store sends from now on."""
    port = store._port
    assert isinstance(port, MemoryPort)
    seen: list[Any] = []

    def note(request: Any) -> None:
        if isinstance(request, Read):
            seen.extend(request.spans)

    port.faults.append(note)
    return seen


def test_a_directory_leads_to_the_few_buckets_that_are_not_empty() -> None:
    store = memory_store(MODEL, Extras(buckets="hour"))
    for number in range(10):
        store.log(number=number, at=START + timedelta(days=400 * number), level=number)
    seen = counted(store)
    assert [row["number"] for row in store.newest().rows] == [9, 8, 7, 6]
    # The directory, then four buckets of three shards each; ten years of hours in between are not looked at.
    assert len(seen) <= 2 + 4 * 3


def test_a_walk_stops_when_the_page_is_full() -> None:
    store = memory_store(MODEL, Extras(buckets="year"))
    for number in range(40):
        store.log(number=number, at=START + timedelta(days=365 * number + 100), level=0)
    seen = counted(store)
    page = store.between(start=START, end=START + timedelta(days=365 * 40))
    assert [row["number"] for row in page.rows] == [39, 38, 37]
    assert len(seen) <= 6 * 3  # a few years of three shards each, not all forty


@pytest.mark.parametrize("packed", [False, True])
@settings(max_examples=40, deadline=None)
@given(entries=ENTRIES, start=MOMENTS, end=MOMENTS, window=st.integers(1, 20))
def test_ranges_over_many_buckets_are_read_in_pieces(
    packed: bool, entries: list[tuple[datetime, int]], start: datetime, end: datetime, window: int
) -> None:
    """Without a directory, every bucket of a range is looked into, some of them at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spans, "WINDOW", window)
        store = memory_store(RANGES, Extras(buckets="year", packed=packed))
        store.load(
            ("Entry", {"number": number, "at": at, "level": level}) for number, (at, level) in enumerate(entries)
        )
        rows = [{"number": number, "at": at, "level": level} for number, (at, level) in enumerate(entries)]
        up = sorted((row for row in rows if start <= row["at"] <= end), key=lambda row: (row["at"], row["number"]))
        most = counted_rounds(store)
        assert pages(store, "between", start=start, end=end) == up[::-1]
        assert pages(store, "grave_between", start=start, end=end) == [row for row in up if row["level"] > 2]
        worst = sorted(up, key=lambda row: (row["level"], row["at"], row["number"]), reverse=True)
        assert store.worst(start=start, end=end) == worst[:4]
        assert store.how_many(start=start, end=end) == len(up)
        assert max(most, default=0) <= 3 * window


def counted_rounds(store: Store) -> list[int]:
    """How many spans each round of a store asks for, from now on."""
    port = store._port
    send, seen = port.send, []

    def noted(round: Any) -> Any:
        seen.append(sum(len(request.spans) for request in round if isinstance(request, Read)))
        return send(round)

    store._port.send = noted  # type: ignore[method-assign]
    return seen


def test_a_range_over_too_many_buckets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store = memory_store(MODEL, Extras(buckets="year"))
    wide = {"start": datetime(1, 1, 1, tzinfo=UTC), "end": datetime(9999, 1, 1, tzinfo=UTC)}
    assert store.between(**wide).rows == []
    monkeypatch.setattr(spans, "MOST_BUCKETS", 50)
    with pytest.raises(UnsupportedError, match=r"ask for less at once"):
        store.between(**wide)
