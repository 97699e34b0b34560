"""Orders by a value behind a reference: rows whose reference is empty, or leads nowhere, or to no value, come last."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.conformance.conftest import Both
from tests.conformance.pair import Pair

MODEL = """
entities:
  Maker:
    fields:
      id: int, key
      city: string(8), optional 50%
  Product:
    fields:
      sku: int, key
      name: string(8), optional 80%
      maker: Maker, as products, optional 70%
  Line:
    key: [cart, line]
    fields:
      cart: int
      line: int
      product: Product, as lines, optional 90%
      paid: bool, default false
patterns:
  up: { find: Line, where: "cart = :cart", order: product.name, page: 3 }
  down: { find: Line, where: "cart = :cart", order: product.name desc, page: 3 }
  first: { find: Line, where: "cart = :cart", order: product.name, limit: 2 }
  then_line: { find: Line, where: "cart = :cart", order: "product.name, line desc", page: 2 }
  unpaid: { find: Line, where: "cart = :cart and paid = false", order: product.name desc, page: 2 }
  of_all: { find: Line, order: product.name, page: 4, select: [cart, line] }
  by_city: { find: Line, where: "cart = :cart", order: product.maker.city, page: 2, select: [line] }
  nameless: { find: Line, where: "cart = :cart and missing(product.name)", order: line, page: 2 }
  products: { find: Product, order: maker.city desc, page: 2 }
writes:
  make: { create: Maker }
  move: { update: Maker, where: "id = :id", set: [city] }
  shut: { delete: Maker, where: "id = :id" }
  offer: { upsert: Product }
  rename: { update: Product, where: "sku = :sku", set: [name] }
  remake: { update: Product, where: "sku = :sku", set: [maker] }
  withdraw: { delete: Product, where: "sku = :sku" }
  put: { create: Line }
  swap: { update: Line, where: "cart = :cart and line = :line", set: [product] }
  pay: { update: Line, where: "cart = :cart and line = :line", set: { paid: true } }
  take: { delete: Line, where: "cart = :cart and line = :line" }
"""


WRITES = ("offer", "rename", "remake", "withdraw", "put", "put", "put", "swap", "pay", "take", "move", "shut")


@pytest.mark.parametrize("seed", range(3))
def test_orders_stay_true_through_every_change(both: Both, seed: int) -> None:
    pair = both(MODEL)
    chance = random.Random(seed)
    lines: set[tuple[int, int]] = set()
    for number in range(4):
        pair.same("make", id=number, city=chance.choice(("ulm", "bonn", None)))
    for _ in range(3):
        for _ in range(14):
            change(pair, chance, lines)
        for name in pair.model.patterns:
            if pair.serves(name):
                for cart in range(2) if "cart" in name_parameters(pair, name) else (None,):
                    pair.same(name, **({} if cart is None else {"cart": cart}))


def name_parameters(pair: Pair, name: str) -> set[str]:
    return {str(condition.path) for condition in pair.model.patterns[name].where}


def change(pair: Pair, chance: random.Random, lines: set[tuple[int, int]]) -> None:
    """One write at random, on both sides."""
    what = chance.choice(WRITES)
    sku, maker = chance.randrange(6), chance.choice((0, 1, 2, 3, 9, None))
    name = chance.choice(("nut", "bolt", "cog", None))
    arguments: dict[str, Any]
    if what in ("move", "shut"):
        arguments = {"id": chance.randrange(4)} | (
            {"city": chance.choice(("ulm", "kiel", None))} if what == "move" else {}
        )
    elif what in ("offer", "rename", "remake", "withdraw"):
        more = {"offer": {"name": name, "maker": maker}, "rename": {"name": name}, "remake": {"maker": maker}}
        arguments = {"sku": sku} | more.get(what, {})
    elif what == "put":
        place = (chance.randrange(2), chance.randrange(30))
        if place in lines:
            return
        lines.add(place)
        arguments = {"cart": place[0], "line": place[1], "product": chance.choice((sku, 99, None))}
    elif lines:
        place = chance.choice(sorted(lines))
        arguments = {"cart": place[0], "line": place[1]} | (
            {"product": chance.choice((sku, 99, None))} if what == "swap" else {}
        )
        if what == "take":
            lines.discard(place)
    else:
        return
    pair.same(what, **arguments)


def test_an_order_behind_a_reference_is_read_page_by_page(both: Both) -> None:
    """Where many rows are read often, no plan reads all of them to sort them."""
    pair = both(MODEL)
    if pair.model.patterns["up"].traffic.rate > 1:
        assert pair.store.design.plans["up"].sorted
        assert pair.store.design.plans["down"].sorted
