"""Aggregates: count, sum, min, max, avg, expressions, groups, and what each says of nothing."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tests.conformance.conftest import Both
from tests.conformance.pair import NOON, Pair, at

MODEL = """
entities:
  Sale:
    fields:
      id: int, key
      shop: Shop, as sales, optional 90%
      qty: int, optional 90%
      price: decimal(2), optional 90%
      weight: float, optional 50%
      at: timestamp, optional 90%
      day: date, optional 50%
      state: enum(open, paid), default open
      tags: set(string(4), avg 1)
  Shop:
    fields:
      sid: int, key
      city: string(8), optional 90%
      takings: sum(sales.price)
patterns:
  how_many: { count: Sale }
  how_many_of: { count: Sale, where: "shop = :shop" }
  how_many_in: { count: Sale, where: "shop.city = :city" }
  tagged: { count: Sale, where: "contains(tags, :tag)" }
  total: { sum: Sale.price, where: "state = :state" }
  total_of: { sum: Sale.qty, where: "shop = :shop" }
  weight: { sum: Sale.weight, where: "state = :state" }
  least: { min: Sale.price, where: "shop = :shop" }
  most: { max: Sale.qty, where: "shop = :shop" }
  earliest: { min: Sale.at, where: "state = :state" }
  latest_day: { max: Sale.day, where: "shop = :shop" }
  mean: { avg: Sale.price, where: "shop = :shop" }
  mean_qty: { avg: Sale.qty, where: "state = :state" }
  takings_of: { sum: Sale.price, where: "shop.city = :city" }
  of_shops: { sum: Shop.takings }
  several:
    from: Sale
    where: state = :state
    compute: { n: count(), all: sum(qty), cents: "sum(qty * price)", net: "sum(qty * price - qty)", top: max(qty + 1) }
  by_state: { count: Sale, group: [state] }
  by_shop: { sum: Sale.price, group: [shop] }
  by_city: { sum: Sale.qty, group: { place: shop.city }, order: sum desc }
  by_day: { count: Sale, group: { d: day(at), s: state }, order: "d desc, count" }
  by_week: { count: Sale, group: [week(at)] }
  by_hour: { count: Sale, group: { h: hour(at) } }
  by_month_of_day: { max: Sale.qty, group: [month(day)] }
  best_shops:
    from: Sale
    compute: { money: "sum(qty * price)", n: count() }
    group: [shop]
    order: money desc
    limit: 2
  recent: { count: Sale, group: [state], where: "at >= ago('1d')" }
  grouped_mean: { avg: Sale.weight, group: [state] }
"""

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("Shop", {"sid": 1, "city": "Rome"}),
    ("Shop", {"sid": 2}),
    ("Shop", {"sid": 3, "city": "Rome"}),
    ("Sale", {"id": 1, "shop": 1, "qty": 2, "price": "1.10", "weight": 0.1, "at": NOON, "day": date(2052, 1, 31)}),
    (
        "Sale",
        {"id": 2, "shop": 1, "qty": 3, "price": "2.20", "weight": 0.2, "at": at("2052-05-12"), "tags": ["a"]},
    ),
    ("Sale", {"id": 3, "shop": 1, "price": "3.30", "state": "paid", "at": at("2052-05-13 00:00"), "tags": ["a", "b"]}),
    ("Sale", {"id": 4, "shop": 2, "qty": 7, "state": "paid", "day": date(2052, 2, 1)}),
    ("Sale", {"id": 5, "shop": 3, "qty": -1, "price": "-0.01", "weight": 1e3, "at": at("2052-05-14 12:00")}),
    ("Sale", {"id": 6, "qty": 2**62, "price": "9999999999999999.99", "at": at("2052-05-14 11:59:59.999")}),
    ("Sale", {"id": 7, "shop": 9, "qty": 2**62, "price": "9999999999999999.99", "weight": -5.5}),
    ("Sale", {"id": 8, "shop": 9, "state": "paid"}),
]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("how_many", {}),
        ("how_many_of", {"shop": 1}),
        ("how_many_in", {"city": "Rome"}),
        ("tagged", {"tag": "a"}),
        ("total_of", {"shop": 1}),
        ("least", {"shop": 3}),
        ("most", {"shop": 1}),
        ("earliest", {"state": "paid"}),
        ("latest_day", {"shop": 1}),
        ("takings_of", {"city": "Rome"}),
        ("by_state", {}),
        ("by_shop", {}),
        ("by_city", {}),
        ("by_day", {}),
        ("by_week", {}),
        ("by_hour", {}),
        ("by_month_of_day", {}),
        ("best_shops", {}),
        ("recent", {}),
        ("grouped_mean", {}),
        ("of_shops", {}),
        ("several", {"state": "paid"}),
        ("weight", {"state": "open"}),
    ],
)
def test_aggregates(reads: Pair, name: str, arguments: dict[str, Any]) -> None:
    assert reads.same(name, **arguments) is not None


def test_sums_are_exact_beyond_64_bits(reads: Pair) -> None:
    assert reads.same("total", state="open") == Decimal("20000000000000003.27")
    assert reads.same("several", state="open")["all"] == 2**63 + 4


def test_an_average_is_the_exact_sum_over_the_count_rounded_once(reads: Pair) -> None:
    assert reads.same("mean", shop=1) == 2.2
    assert reads.same("mean_qty", state="paid") == 7.0


def test_rows_whose_expression_is_missing_are_skipped_except_by_count(reads: Pair) -> None:
    assert reads.same("several", state="paid") == {"n": 3, "all": 7, "cents": 0, "net": 0, "top": 8}


@pytest.mark.parametrize(
    ("name", "arguments", "nothing"),
    [
        ("how_many_of", {"shop": 77}, 0),
        ("total_of", {"shop": 77}, 0),
        ("least", {"shop": 77}, None),
        ("most", {"shop": 77}, None),
        ("mean", {"shop": 77}, None),
        ("mean", {"shop": 2}, None),
        ("takings_of", {"city": "Oslo"}, 0),
    ],
)
def test_of_no_rows(reads: Pair, name: str, arguments: dict[str, Any], nothing: Any) -> None:
    assert reads.same(name, **arguments) == nothing


def test_missing_forms_its_own_group_last(reads: Pair) -> None:
    assert [row["shop"] for row in reads.same("by_shop")] == [1, 2, 3, 9, None]


def test_a_dangling_path_is_in_the_group_of_the_missing(reads: Pair) -> None:
    assert sorted(str(row["place"]) for row in reads.same("by_city")) == ["None", "Rome"]


def test_the_limit_comes_after_the_order(reads: Pair) -> None:
    assert len(reads.same("best_shops")) == 2


def test_sums_by_day_over_ranges_of_days(both: Both) -> None:
    pair = both(
        """
        entities:
          Sale: { fields: { sid: "int, key", shop: "enum(a 50%, b 50%)", amount: int, at: timestamp } }
        patterns:
          daily: { count: Sale, group: [day(at)], where: "day(at) between :low and :high" }
          later: { count: Sale, group: [day(at)], where: "day(at) > :low and day(at) < :high" }
          earned: { sum: Sale.amount, where: "shop = :shop and day(at) >= :low" }
        writes:
          sell: { upsert: Sale }
          move: { update: Sale, set: [at], where: "sid = :sid" }
        """,
        [
            (
                "Sale",
                {"sid": n, "shop": "ab"[n % 2], "amount": n, "at": at(f"2052-05-{1 + n // 4:02} {6 * (n % 4):02}:00")},
            )
            for n in range(20)
        ],
    )
    for sid, moment in ((0, "2052-05-05 23:59"), (19, "2052-05-01 00:00")):
        for low, high in (("2052-05-02", "2052-05-04"), ("2052-05-01", "2052-05-05"), ("2052-05-04", "2052-05-02")):
            for name in ("daily", "later"):
                if pair.serves(name):
                    pair.same(name, low=at(low).date(), high=at(high).date())
            if pair.serves("earned"):
                pair.same("earned", shop="a", low=at(low).date())
        pair.same("move", sid=sid, at=at(moment))


EVENTS = """
entities:
  Room:
    fields:
      room: int, key
      name: string(8), default 'x'
      heard: count(events)
      loudness: sum(events.loud)
      last: max(events.at)
  Event:
    count: 500k
    fields:
      event: int, key
      room: Room, as events, optional 90%
      kind: enum(a 50%, b 50%)
      loud: int, optional 90%
      at: timestamp, optional 90%
patterns:
  room: { find: Room, where: "room = :room" }
  event: { find: Event, where: "event = :event", with: [room.heard, room.last] }
  ends: { from: Event, where: "kind = :kind", compute: { first: min(at), last: max(at) } }
writes:
  note: { upsert: Event }
  forget: { delete: Event, where: "event = :event" }
"""


def test_several_aggregates_of_the_same_rows_agree_however_they_are_had(both: Both) -> None:
    rows: list[tuple[str, dict[str, Any]]] = [("Room", {"room": n, "name": "xy"[n % 2]}) for n in range(4)]
    for n in range(16):
        given: dict[str, Any] = {"event": n, "kind": "ab"[n % 2], "room": n % 3 if n % 7 else None}
        given |= {"loud": n * 5 % 11} if n % 5 else {}
        given |= {"at": at(f"2052-05-{1 + n * 7 % 16:02}")} if n % 4 else {}
        rows.append(("Event", given))
    asked: list[tuple[str, dict[str, Any]]] = [
        *(("room", {"room": n}) for n in (0, 1, 3, 9)),
        *(("event", {"event": n}) for n in (0, 1, 2)),
        *(("ends", {"kind": kind}) for kind in "ab"),
    ]
    changes: list[tuple[str, dict[str, Any]]] = [
        ("note", {"event": 90, "room": 0, "kind": "a", "loud": 99, "at": at("2052-06-01")}),
        ("note", {"event": 3, "room": 2, "kind": "b", "at": at("2052-04-01")}),
        ("forget", {"event": 90}),
    ]
    both(EVENTS, rows).stays_right(changes, asked)
