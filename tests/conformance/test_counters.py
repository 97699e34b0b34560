"""Counters by and of values behind references: kept true when the row, its references, or the rows behind change."""

from __future__ import annotations

from typing import Any

import pytest

from keyplan.errors import ConflictError
from tests.conformance.conftest import Both
from tests.conformance.pair import Pair, at, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  Order:
    fields:
      oid: int, key
      at: timestamp
      buyer: Buyer, optional 50%
  Buyer: { fields: { bid: "int, key", land: "string(4), optional 90%, distinct 20" } }
  Product:
    fields:
      sku: string(4), key
      category: string(8), distinct 20
      price: decimal(2)
  Item:
    key: [order, line]
    fields:
      order: Order, as items, max 9
      line: int, distinct 9
      product: Product, as sold, optional 90%
      quantity: int
      paid: decimal(2), optional 80%
patterns:
  revenue:
    from: Item
    compute: { revenue: sum(quantity * paid), lines: count(), mean: avg(paid) }
    group: { day: day(order.at), category: product.category }
    where: day(order.at) >= :low
    order: revenue desc
  worth: { sum: Item.product.price, group: { product: product } }
  of_category: { count: Item, where: "product.category = :category" }
  of_land: { sum: Item.quantity, where: "order.buyer.land = :land" }
  by_land: { count: Item, group: { land: order.buyer.land, line: line } }
  there: { count: Item, group: [product], where: "present(product)" }
writes:
  place: { create: Order, with: [items] }
  move: { update: Order, set: [at], where: "oid = :oid" }
  give: { update: Order, set: [buyer], where: "oid = :oid" }
  forget: { delete: Order, where: "oid = :oid" }
  drop: { delete: Order, with: [items], where: "oid = :oid" }
  settle_in: { upsert: Buyer }
  stock: { create: Product }
  shelve: { update: Product, set: [category, price], where: "sku = :sku" }
  discard: { delete: Product, where: "sku = :sku" }
  put: { upsert: Item }
  alter: { update: Item, set: [quantity, product], where: "order = :order and line = :line" }
  more: { update: Item, add: [quantity], where: "order = :order and line = :line" }
  remove: { delete: Item, where: "order = :order and line = :line" }
"""

ROWS: list[tuple[str, dict[str, Any]]] = [
    *(("Buyer", {"bid": n, "land": land}) for n, land in enumerate(("fr", "it", None))),
    *(("Product", {"sku": f"p{n}", "category": "ab"[n % 2], "price": f"{n}.50"}) for n in range(4)),
    *(("Order", {"oid": n, "at": at(f"2052-05-0{1 + n}"), "buyer": n if n < 3 else None}) for n in range(4)),
    *(
        ("Item", {"order": n % 5, "line": n // 5, "product": f"p{n % 5}", "quantity": n, "paid": f"{n}.10"})
        for n in range(15)
    ),
    ("Item", {"order": 0, "line": 9, "quantity": 3}),
]

READS: list[tuple[str, dict[str, Any]]] = [
    ("revenue", {"low": at("2052-05-02").date()}),
    ("worth", {}),
    ("of_category", {"category": "a"}),
    ("of_category", {"category": "new"}),
    ("of_land", {"land": "fr"}),
    ("by_land", {}),
    ("there", {}),
]

WRITES: list[tuple[str, dict[str, Any]]] = [
    ("place", {"oid": 7, "at": at("2052-05-03"), "items": [{"line": 1, "product": "p1", "quantity": 2, "paid": "1"}]}),
    ("move", {"oid": 1, "at": at("2052-05-09 10:00")}),
    ("move", {"oid": 1, "at": at("2052-05-09 11:00")}),
    ("give", {"oid": 0, "buyer": 1}),
    ("give", {"oid": 1, "buyer": None}),
    ("settle_in", {"bid": 1, "land": "fr"}),
    ("settle_in", {"bid": 2}),
    ("forget", {"oid": 2}),
    ("drop", {"oid": 3}),
    ("place", {"oid": 4, "at": at("2052-05-04"), "buyer": 0, "items": []}),
    ("shelve", {"sku": "p0", "category": "new", "price": "7.25"}),
    ("discard", {"sku": "p1"}),
    ("stock", {"sku": "p4", "category": "new", "price": "0.01"}),
    ("put", {"order": 0, "line": 0, "product": "p2", "quantity": 11}),
    ("put", {"order": 8, "line": 0, "product": "p3", "quantity": 1, "paid": "2"}),
    ("alter", {"order": 4, "line": 1, "quantity": 100, "product": "p9"}),
    ("alter", {"order": 4, "line": 2, "quantity": 100, "product": None}),
    ("more", {"order": 0, "line": 1, "quantity": 5}),
    ("remove", {"order": 0, "line": 9}),
    ("remove", {"order": 2, "line": 0}),
]


def test_every_change_moves_what_counts(both: Both) -> None:
    both(MODEL, ROWS).stays_right(WRITES, READS)


def test_rows_behind_a_reference_come_and_go(both: Both) -> None:
    """An order that is deleted leaves its items behind; a new one with the same key takes them up again."""
    pair = both(MODEL, ROWS)
    for oid in (0, 1):
        pair.same("forget", oid=oid)
        pair.agrees(READS)
    for oid in (0, 1):
        pair.same("place", oid=oid, at=at("2052-06-01"), buyer=1, items=[])
        pair.agrees(READS)
    with pytest.raises(ConflictError):
        pair.same("place", oid=0, at=at("2052-06-02"), items=[])
    pair.agrees(READS)


def test_counters_are_kept_where_rows_are_many(reads: Pair, size: str) -> None:
    """Otherwise the tests above would say little."""
    measured = [view for view in reads.store.design.views.values() if view.measures]
    if size == "read":
        served = {"of_category", "of_land", "by_land"}
        there = reads.store.design.unserved.get("there")
        if there is None or "the hottest key" not in there.reason:  # so many groups are not read 500 times a second
            served |= {"revenue", "worth"}
        assert served.isdisjoint(reads.store.design.unserved)
        parts = [part for view in measured for part in view.parts]
        if reads.store.design.engine == "sqlite":  # elsewhere so many days are too hot to be read so often
            assert any("." in part.path and part.cut == "day" for part in parts)
        assert any(part.or_missing for part in parts)
        assert any(part.path == "order.buyer.land" and not part.or_missing for part in parts)


def test_a_maximum_by_the_parts_of_a_reference_in_another_order(both: Both) -> None:
    """A range over the first part of a composite reference: its groups are not those of the reference."""
    model = """
entities:
  Cat:
    count: 30M
    key: [k, l]
    fields: { k: int, l: int }
  Dog:
    count: 30M
    key: [cat.k, n]
    fields: { cat: "Cat, as dogs", n: int }
patterns:
  most: { from: Dog, compute: { n: count(), most: max(n) }, where: "cat.k <= 2 and cat.l = :l", rate: 300/s }
writes:
  make: { create: Dog, rate: 0.01/s }
  drop: { delete: Dog, where: "cat.k = :k and n = :n", rate: 0.01/s }
"""
    pair = both(model)
    for k, n in ((1, 5), (2, 7), (3, 9)):
        pair.same("make", cat=(k, 1), n=n)
    if pair.serves("most"):
        assert pair.same("most", l=1) == {"n": 2, "most": 7}
        pair.same("drop", k=2, n=7)
        assert pair.same("most", l=1) == {"n": 1, "most": 5}
    pair.verified()


TOPS = """
entities:
  Score:
    count: 30M
    {ttl}
    fields: {{ sid: "int, key", game: "int, distinct 1000", at: timestamp, seen: timestamp, points: int }}
patterns:
  top:
    from: Score
    compute: {{ low: min(points), high: max(points), n: count() }}
    {asked}
    rows: 20k
    rate: 300/s
  score: {{ find: Score, where: "sid = :sid", rate: 1/s }}
writes:
  make: {{ create: Score, rate: 0.1/s }}
  take: {{ delete: Score, where: "sid = :sid", rate: 0.01/s }}
  drop: {{ delete: Score, where: "sid = :sid", rate: 0.01/s }}
  see: {{ update: Score, set: [points, seen], where: "sid = :sid", rate: 0.01/s }}
  wipe: {{ delete: Score, where: "game = :game", rows: 30, rate: 0.01/s }}
transactions:
  swap: [take, make, drop]
  age: [see, drop]
"""


def score(sid: int, points: int) -> dict[str, Any]:
    noon = at("2052-05-15 12:00")
    return {"sid": sid, "game": 1, "at": noon, "seen": noon, "points": points}


def test_one_call_that_takes_the_least_and_brings_the_greatest(both: Both) -> None:
    pair = both(TOPS.format(ttl="", asked='where: "game = :game"'))
    for sid, points in ((1, 5), (2, 6), (3, 7)):
        pair.same("make", **score(sid, points))
    pair.same("swap", take={"sid": 1}, make=score(9, 100), drop={"sid": 2})
    assert pair.same("top", game=1) == {"low": 7, "high": 100, "n": 2}
    pair.verified()


def test_a_group_is_doubted_from_the_first_that_expires_whatever_else_its_call_does(both: Both) -> None:
    asked = 'where: "game = :game and at between :start and :end"\n    group: { hour: hour(at) }'
    pair = both(TOPS.format(ttl="ttl: 10d since seen", asked=asked))
    for sid, points in ((1, 5), (2, 6), (3, 7)):
        pair.same("make", **score(sid, points))
    pair.same("age", see={"sid": 3, "points": 6, "seen": at("2052-05-07 12:00")}, drop={"sid": 2})
    day = {"game": 1, "start": at("2052-05-15"), "end": at("2052-05-16")}
    assert [row["n"] for row in pair.same("top", **day)] == [2]
    pair.verified()
    pair.clock.advance(days=3)
    assert [row["n"] for row in pair.same("top", **day)] == [1]
    pair.verified()


def test_rows_of_one_group_that_all_go_do_not_meet_each_other(both: Both) -> None:
    pair = both(TOPS.format(ttl="", asked='where: "game = :game"'))
    for sid in range(30):
        pair.same("make", **score(sid, sid % 7))
    sent: list[Any] = []
    port, send = pair.store._port, pair.store._port.send
    port.send = lambda round: sent.extend(round) or send(round)  # type: ignore[func-returns-value, method-assign]
    assert pair.same("wipe", game=1) == 30
    assert len(sent) <= 30 * 6 + 3, "of each row, the old one, its group and the rows of that; and no second attempt"
    pair.verified()


TWICE = """
entities:
  Task:
    count: 10M
    fields:
      tid: int, key
      done: bool(true 50%)
      level: int, distinct 50
      state: enum(x 20%, y 30%, z 50%), optional 90%
patterns:
  open_twice: { count: Task, where: "done != true and done = false", group: { state: state }, rate: 300/s }
  fixed_and_bounded: { count: Task, where: "level = :level and level >= :least", rate: 300/s }
  bounded_and_fixed: { count: Task, where: "level < :most and level in :levels", group: [level], rate: 300/s }
  both_lists: { sum: Task.level, where: "state in :some and state in :others", rate: 300/s }
  never: { count: Task, where: "state = 'x' and state = 'y'", rate: 300/s }
writes:
  put: { upsert: Task, rate: 0.01/s }
  drop: { delete: Task, where: "tid = :tid", rate: 0.01/s }
"""


def test_several_conditions_on_what_is_counted_by(harness: Harness) -> None:
    rows = [
        ("Task", {"tid": n, "done": n % 2 == 0, "level": n % 5, "state": ("x", "y", "z", None)[n % 4]})
        for n in range(20)
    ]
    reads: list[tuple[str, dict[str, Any]]] = [
        ("open_twice", {}),
        ("never", {}),
        *(("fixed_and_bounded", {"level": level, "least": 2}) for level in (1, 2, 3)),
        ("bounded_and_fixed", {"most": 3, "levels": [0, 2, 3, 4]}),
        ("both_lists", {"some": ["x", "y"], "others": ["y", "z", "y"]}),
        ("both_lists", {"some": ["x"], "others": []}),
    ]
    writes: list[tuple[str, dict[str, Any]]] = [
        ("put", {"tid": 1, "done": True, "level": 2, "state": "y"}),
        ("put", {"tid": 30, "done": False, "level": 2}),
        ("drop", {"tid": 3}),
    ]
    with opened(parsed(TWICE), harness.url(), rows) as pair:
        pair.stays_right(writes, reads)
