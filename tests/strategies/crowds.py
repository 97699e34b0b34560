"""Models in which one shop has most of the traffic: what several calls read or write there together is too much for
one place, though each of them alone is not."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.model.pattern import Traffic
from tests.strategies.domains import among

CROWD = """
keyplan: 1
name: crowd
entities:
  Shop:
    count: 10k
    fields:
      shop: string(10), key
      name: string(20)
      rating: int
      sold: int
  Order:
    count: 5M
    key: [{key}]
    fields:
      number: int
      shop: Shop, as orders, top {top}%
      at: timestamp
      state: enum(open 10%, done 90%)
      total: int
      note: text({note})
  Payment:
    count: 5M
    fields:
      payment: int, key
      shop: Shop, as payments, top {top}%
      at: timestamp
      amount: int
  Seat:
    count: 100k
    key: [shop, seat]
    fields:
      shop: Shop, as seats, max 20
      seat: int
      taken: int
patterns:
{patterns}
writes:
{writes}
"""
OF_SHOPS = (
    'shop: { find: Shop, where: "shop = :shop" }',
    'named: { find: Shop, where: "shop = :shop", select: [shop, name] }',
    'rated: { find: Shop, where: "shop = :shop", select: [shop, rating] }',
    'seller: { find: Shop, where: "shop = :shop", select: [shop, sold] }',
)
OF_SEATS = (
    'hall: { find: Shop, where: "shop = :shop", with: [seats] }',
    'seats: { find: Seat, where: "shop = :shop" }',
    'seat: { find: Seat, where: "shop = :shop and seat = :seat" }',
)
OF_ORDERS = (
    'orders: { find: Order, where: "shop = :shop", order: at desc, page: 5 }',
    'totals: { find: Order, where: "shop = :shop", order: at desc, page: 10, select: [at, total] }',
    'newest: { find: Order, where: "shop = :shop", order: at desc, limit: 1 }',
    'largest: { find: Order, where: "shop = :shop", order: total desc, limit: 5, select: [total] }',
    "waiting: { find: Order, where: \"shop = :shop and state = 'open'\", order: at, limit: 5, select: [at, total] }",
    'ordered: { from: Order, compute: { n: count() }, where: "shop = :shop" }',
    'order: { find: Order, where: "{by}" }',
)
OF_PAYMENTS = (
    'payments: { find: Payment, where: "shop = :shop", order: at desc, page: 5 }',
    'paid: { from: Payment, compute: { sum: sum(amount) }, where: "shop = :shop" }',
)
WRITES = (
    'sell: { update: Shop, where: "shop = :shop", add: [sold] }',
    "order_it: { create: Order }",
    'finish: { update: Order, where: "{by}", set: [state] }',
    "pay: { create: Payment }",
    'take: { update: Seat, where: "shop = :shop and seat = :seat", add: [taken] }',
)
READS = (10.0, 700.0, 1500.0, 2500.0, 3500.0, 4500.0, 5500.0)
"""Of half a unit each, and of 3,000 units that one partition has."""
WRITTEN = (1.0, 150.0, 300.0, 450.0, 700.0, 2500.0)
"""Of 1,000 units that one partition has, and half of that in transactions."""


@st.composite
def crowded_problems(draw: st.DrawFn, most: int = 5) -> Model:
    """Shops with seats, orders and payments, most of which are one shop's, read by several patterns at one key."""
    top = draw(among(40, 90))
    asked = draw(
        st.one_of(
            st.lists(among(*some), min_size=2, max_size=most, unique=True)
            for some in (OF_SHOPS, OF_ORDERS, (*OF_SHOPS, *OF_SEATS), (*OF_SHOPS, *OF_SEATS, *OF_ORDERS, *OF_PAYMENTS))
        )
    )
    key = draw(among(("number",), ("shop", "number")))
    by = " and ".join(f"{name} = :{name}" for name in key)
    text = CROWD.format(
        top=top,
        key=", ".join(key),
        note=draw(among(50, 1500)),
        patterns="\n".join(f"  {one}" for one in asked).replace("{by}", by),
        writes="\n".join(f"  {one}" for one in WRITES).replace("{by}", by),
    )
    model = parse_model(text)
    share = top / 100
    consistencies = draw(among(("eventual", "eventual", "eventual", "strong"), ("strong",)))
    patterns = {
        name: replace(
            one,
            traffic=Traffic(draw(among(*READS)), top=share if name != "order" else None),
            consistency=draw(among(*consistencies)),
        )
        for name, one in model.patterns.items()
    }
    writes = {
        name: replace(
            one, traffic=Traffic(draw(among(*WRITTEN)), top=share if one.entity in ("Shop", "Seat") else None)
        )
        for name, one in model.writes.items()
    }
    return replace(model, patterns=patterns, writes=writes)
