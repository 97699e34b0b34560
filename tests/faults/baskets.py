"""Baskets of many items that copy from and count by the same products, and calls that are too large for one request."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from keyplan.model.load import parse_model

MODEL = parse_model("""
keyplan: 1
name: baskets
entities:
  Basket: { count: 1M, fields: { basket_id: "string(4), key", shop: "string(4)" } }
  Item:
    count: 8M
    key: [basket, line]
    fields: { basket: "Basket, as items, max 12", line: "string(2)", product: "Product, as sold" }
  Product:
    count: 1k
    fields: { sku: "string(4), key", category: "string(4), optional 80%", price: "decimal(2)" }
patterns:
  basket: { find: Basket, where: "basket_id = :basket", with: [items], rate: 1/s }
writes:
  place: { create: Basket, with: [items], rate: 1/s }
  replace: { upsert: Basket, with: [items], rate: 1/s }
  drop: { delete: Basket, with: [items], where: "basket_id = :basket", rate: 1/s }
  exchange: { update: Item, set: [product], where: "basket = :basket and line = :line", rate: 1/s }
  offer: { upsert: Product, rate: 1/s }
  sort_in: { update: Product, set: [category], where: "sku = :sku", rate: 1/s }
  withdraw: { delete: Product, where: "sku = :sku", rate: 1/s }
""")
SKUS = [f"s{number}" for number in range(9)]

PRODUCTS = [("Product", {"sku": sku, "category": f"c{number % 5}", "price": number}) for number, sku in enumerate(SKUS)]


def items(source: random.Random, many: int) -> list[dict[str, Any]]:
    return [{"line": f"{number}", "product": source.choice(SKUS)} for number in range(many)]


def steps(seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls that are too large, and others that change what these count."""
    source = random.Random(seed)
    while True:
        name = f"b{source.randrange(3)}"
        some = items(source, source.choice([1, 7, 8, 9]))
        yield source.choice(
            [
                ("place", {"basket_id": name, "shop": "x", "items": some}),
                ("replace", {"basket_id": name, "shop": "y", "items": some}),
                ("exchange", {"basket": name, "line": f"{source.randrange(9)}", "product": source.choice(SKUS)}),
                ("sort_in", {"sku": source.choice(SKUS), "category": source.choice(["c1", "c2", None])}),
                ("offer", {"sku": source.choice(SKUS), "category": source.choice(["c3", None]), "price": "0.5"}),
                ("withdraw", {"sku": source.choice(SKUS)}),
                ("drop", {"basket": name}),
            ]
        )
