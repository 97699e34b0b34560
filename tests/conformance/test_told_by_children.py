"""What is computed of children that come with their row anyway is told by these, and nothing else is read for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from keyplan.plan.design import Design
from keyplan.plan.steps import Drive, Extend, Fold, Node, Tell, Then
from tests.conformance.conftest import Both
from tests.conformance.pair import at, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  User: { fields: { uid: "int, key", name: "string(8), default x", held: count(holds), most: max(holds.size) } }
  Order:
    count: 10M
    fields:
      oid: int, key
      user: User, as orders
      made: timestamp
      status: "string(8), default x"
      item_count: count(items)
      total: sum(items.price)
      weight: sum(items.weight)
      lightest: min(items.weight)
      dearest: max(items.price)
      parcel_count: count(parcels)
      last_sent: max(parcels.sent)
      bill_count: count(bill)
  Item:
    count: 50M
    key: [order, line]
    fields:
      order: Order, as items, max 30
      line: int
      name: "string(8), default x"
      price: decimal(2)
      weight: float, optional 60%
  Parcel:
    count: 20M
    key: [order, n]
    fields:
      order: Order, as parcels, max 20
      n: int
      sent: timestamp, optional 50%
      piece_count: count(pieces)
      value: sum(pieces.value)
  Piece:
    count: 60M
    key: [parcel, m]
    fields: { parcel: "Parcel, as pieces, max 20", m: int, value: "int, default 1" }
  Bill: { fields: { bid: "int, key", order: "Order, as bill, max 1, optional 90%" } }
  Hold:
    ttl: 1d
    fields: { hid: "int, key", user: "User, as holds, max 20", size: int }
  Payment: { fields: { payid: "int, key", order: "Order, as payments, optional 90%" } }
patterns:
  user: { find: User, where: "uid = :uid", with: [holds] }
  sizes: { find: User, where: "uid = :uid", select: [held, most, holds.hid] }
  page: { find: Order, where: "oid = :oid", with: [items] }
  names: { find: Order, where: "oid = :oid", select: [status, item_count, total, lightest, items.name] }
  of_user: { find: Order, where: "user = :uid", order: made desc, page: 2, with: [items, bill] }
  large: { find: Order, where: "user = :uid and item_count >= :n", with: [items.name] }
  by_total: { find: Order, where: "user = :uid", order: total desc, limit: 3, select: [total, items.line] }
  first: { find: Order, where: "oid = :oid", select: [item_count, total], with: [{ items: { order: line, limit: 1 } }] }
  parcels:
    find: Order
    where: oid = :oid
    rate: 300/s
    select: [parcel_count, last_sent, bill_count, parcels.piece_count, parcels.value, parcels.pieces.m, bill.bid]
  paid: { find: Payment, where: "payid = :p", with: [order.items.price, order.total, order.item_count, order.dearest] }
writes:
  put: { upsert: Order }
  place: { create: Order, with: [items, parcels], rate: 20/s }
  drop: { delete: Order, where: "oid = :oid" }
  add: { create: Item }
  reprice: { update: Item, set: [price, weight], where: "order = :oid and line = :line" }
  take: { delete: Item, where: "order = :oid and line = :line" }
  pack: { upsert: Parcel }
  fill: { create: Piece }
  empty: { delete: Piece, where: "parcel.order = :oid and parcel.n = :n and m = :m" }
  bill_it: { upsert: Bill }
  pay: { upsert: Payment }
  hold: { create: Hold }
"""

ROWS: list[tuple[str, dict[str, Any]]] = [
    *(("User", {"uid": n}) for n in range(3)),
    *(("Order", {"oid": n, "user": n % 2, "made": at(f"2052-05-0{1 + n}")}) for n in range(6)),
    *(
        ("Item", {"order": n % 5, "line": n, "price": f"{n}.5{n % 7}", **({"weight": n / 4} if n % 3 else {})})
        for n in range(18)
    ),
    ("Item", {"order": 8, "line": 1, "price": "3.10"}),
    *(("Parcel", {"order": n % 4, "n": n, "sent": at(f"2052-05-1{n}")}) for n in range(7)),
    *(("Piece", {"parcel": (n % 4, n % 8), "m": n, "value": n * 3 % 5}) for n in range(16)),
    ("Bill", {"bid": 1, "order": 0}),
    *(("Payment", {"payid": n, "order": n * 2}) for n in range(6)),
    ("Payment", {"payid": 7}),
    *(("Hold", {"hid": n, "user": n % 2, "size": n}) for n in range(4)),
]

READS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"oid": oid}) for name in ("page", "names", "first", "parcels") for oid in (0, 1, 4, 5, 8, 77)),
    *((name, {"uid": uid}) for name in ("of_user", "by_total", "user", "sizes") for uid in range(3)),
    *(("large", {"uid": uid, "n": n}) for uid in range(2) for n in (0, 3, 4)),
    *(("paid", {"p": p}) for p in (0, 2, 4, 5, 7)),
]

WRITES: list[tuple[str, dict[str, Any]]] = [
    ("add", {"order": 5, "line": 1, "price": "99.99", "weight": -1.25}),
    ("add", {"order": 77, "line": 1, "price": "-5.00"}),
    ("put", {"oid": 8, "user": 1, "made": at("2052-06-01")}),
    ("reprice", {"oid": 0, "line": 0, "price": "7.77", "weight": None}),
    ("take", {"oid": 5, "line": 1}),
    ("drop", {"oid": 4}),
    ("pack", {"order": 3, "n": 9}),
    ("pack", {"order": 0, "n": 0}),
    ("fill", {"parcel": (3, 9), "m": 40, "value": 100}),
    ("empty", {"oid": 0, "n": 4, "m": 4}),
    ("bill_it", {"bid": 1, "order": 5}),
    ("pay", {"payid": 7, "order": 4}),
    ("pay", {"payid": 0}),
]


def test_what_children_tell_is_what_the_reference_computes(both: Both) -> None:
    both(MODEL, ROWS).stays_right(WRITES, READS)


def test_children_that_have_expired_tell_nothing(both: Both) -> None:
    pair = both(MODEL, ROWS)
    pair.clock.advance(hours=20)
    pair.same("hold", hid=9, user=1, size=-3)
    pair.agrees(READS)
    pair.clock.advance(hours=5)
    pair.agrees(READS)
    pair.clock.advance(hours=20)
    pair.agrees(READS)


def test_they_tell_what_is_read_with_them(harness: Harness) -> None:
    """Whatever is not kept with the orders, none of their children are read a second time."""
    model = replace(parsed(MODEL), targets=harness.targets)
    with opened(model, harness.url(), ROWS) as pair:
        told = {(name, *found) for name, found in tellings(pair.store.design)}
        assert {name for name, _, _ in told} >= {"page", "of_user", "large", "user", "sizes", "paid", "parcels"}
        assert "first" not in {name for name, _, _ in told}  # one item does not tell of all
        embedded = "parcels" in {one.role for view in pair.store.design.views.values() for one in view.embeds}
        assert ("parcels", ("parcels",) if embedded else (), ("piece_count", "value")) in told
        for name in ("names", "by_total", "parcels", "paid", "user", "sizes"):
            assert "Fold(" not in repr(pair.store.design.plans[name].node), name
        for name, arguments in (
            ("page", {"oid": 0}),
            ("names", {"oid": 0}),
            ("parcels", {"oid": 1}),
            ("paid", {"p": 1}),
        ):
            _, done = getattr(pair.store, name)(**arguments, explain=True)
            assert done.rounds == pair.store.design.plans[name].figures.trips, name
        pair.stays_right(WRITES, READS)


def tellings(design: Design) -> Iterator[tuple[str, tuple[tuple[str, ...], tuple[str, ...]]]]:
    """The patterns, and where in them, in which children tell what is computed."""
    for name, plan in design.plans.items():
        for tell in tells(plan.node):
            yield name, (tell.under, tell.paths)


def tells(node: Node) -> Iterator[Tell]:
    """Everything that is told in a plan."""
    if isinstance(node, Extend):
        yield from node.tells
        yield from tells(node.rows)
        for add in node.adds:
            yield from tells(add.plan)
    elif isinstance(node, Fold):
        yield from tells(node.rows)
    elif isinstance(node, Drive | Then):
        for part in (node.outer, node.inner) if isinstance(node, Drive) else (node.first, node.second):
            yield from tells(part)
