"""Rows that copy along chains of optional references, and calls that take away what is copied from while others point
elsewhere."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from keyplan.model.load import parse_model
from tests.strategies.programs import Clock

_TEXT = """
keyplan: 1
name: chains
entities:
  Basket: { count: 1M, fields: { basket_id: "string(4), key", shop: "string(4)", size: count(items) } }
  Item:
    count: 8M
    key: [basket, line]
    fields: { basket: "Basket, as items, max 12", line: string(2), product: "Product, as sold, optional 80%", qty: int }
  Product:
    count: 1k
    fields:
      sku: string(4), key
      category: string(4), optional 80%
      brand: Brand, as products, optional 80%
      units: sum(sold.qty)
  Brand:
    count: 100
    fields: { brand_id: "string(4), key", country: "string(4), optional 80%", owner: "Owner, as brands, optional 50%" }
  Owner: { count: 100, fields: { owner_id: "string(4), key", town: "string(4), optional 80%" } }
patterns:
  basket: { find: Basket, where: "basket_id = :basket", with: [items], rate: 1/s }
writes:
  replace: { upsert: Basket, with: [items], rate: 1/s }
  drop: { delete: Basket, with: [items], where: "basket_id = :basket", rate: 1/s }
  exchange: { update: Item, set: [product], where: "basket = :basket and line = :line", rate: 1/s }
  take_out: { delete: Item, where: "basket = :basket and line = :line", rate: 1/s }
  offer: { upsert: Product, rate: 1/s }
  sort_in: { update: Product, set: [category], where: "sku = :sku", rate: 1/s }
  rename: { update: Product, set: [brand], where: "sku = :sku", rate: 1/s }
  withdraw: { delete: Product, where: "sku = :sku", rate: 1/s }
  found: { upsert: Brand, rate: 1/s }
  sell: { update: Brand, set: [owner], where: "brand_id = :brand", rate: 1/s }
  shut: { delete: Brand, where: "brand_id = :brand", rate: 1/s }
  own: { upsert: Owner, rate: 1/s }
  quit: { delete: Owner, where: "owner_id = :owner", rate: 1/s }
transactions:
  both: [exchange, withdraw]
  rebrand: [shut, rename]
"""
MODEL = parse_model(_TEXT)
LASTING = parse_model(
    _TEXT.replace(
        "  Product:\n    count: 1k\n    fields:\n", "  Product:\n    count: 1k\n    ttl: 2m since seen\n    fields:\n"
    )
    .replace("      units: sum(sold.qty)\n", "      units: sum(sold.qty)\n      seen: timestamp, optional 50%\n")
    .replace(
        "  Brand:\n    count: 100\n    fields: { ",
        '  Brand:\n    count: 100\n    ttl: 5m since seen\n    fields: { seen: "timestamp, optional 50%", ',
    )
)
"""The same, where products and brands expire."""
NOTED = parse_model(
    _TEXT.replace(
        "patterns:\n",
        """  Note:
    count: 1M
    fields: { note_id: "string(4), key", item: "Item, as notes, optional 80%", text: "string(4)" }
patterns:
""",
    ).replace(
        "transactions:\n",
        """  remark: { upsert: Note, rate: 1/s }
  erase: { delete: Note, where: "note_id = :note", rate: 1/s }
  recount: { update: Item, set: [qty], where: "basket = :basket and line = :line", rate: 1/s }
transactions:
""",
    )
)
"""The same, where others copy from items, which go and come with their baskets."""
ROWS: list[tuple[str, dict[str, Any]]] = [
    *(("Owner", {"owner_id": name, "town": "z"}) for name in ("o0", "o1")),
    *(("Brand", {"brand_id": name, "country": "x", "owner": "o0"}) for name in ("b0", "b1")),
    *(("Product", {"sku": f"s{number}", "category": f"c{number}", "brand": f"b{number}"}) for number in range(2)),
    ("Basket", {"basket_id": "k0", "shop": "x"}),
    *(("Item", {"basket": "k0", "line": f"{line}", "product": f"s{line % 2}", "qty": 1}) for line in range(6)),
]
NOTED_CALLS = ("remark", "erase", "recount")
NOTES = ("n0", "n1", "n2")
ITEMS = [(f"k{basket}", f"{line}") for basket in range(2) for line in range(6)]
THEMES = (
    ("replace", "exchange", "exchange", "withdraw", "withdraw", "offer", "drop", "take_out"),
    ("replace", "exchange", "shut", "found", "rename", "rebrand", "withdraw", "offer", "take_out"),
    ("replace", "exchange", "sort_in", "withdraw", "offer", "both", "drop"),
    ("rename", "offer", "withdraw", "shut", "found", "sell", "quit", "own", "exchange", "replace"),
)
"""Few sorts of calls at a time: these meet."""
NOTED_THEMES = (
    ("remark", "remark", "drop", "replace"),
    ("remark", "remark", "drop", "replace", "recount", "take_out", "erase"),
    ("remark", "drop", "replace", "exchange", "withdraw", "offer"),
)
"""Those of the model with notes."""


def steps(
    seed: int, theme: int, clock: Clock | None = None, themes: Sequence[Sequence[str]] = THEMES
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls that have to do with the same few rows; with a clock, time passes and rows expire."""
    source = random.Random(seed)
    while True:
        if clock is not None and source.random() < 0.1:
            clock.advance(source.choice([10, 60, 100]))
        name = source.choice(themes[theme % len(themes)])
        arguments = (_noted_arguments if name in NOTED_CALLS else _arguments)(source)[name]
        if clock is not None and name in ("offer", "found"):
            arguments = {**arguments, "seen": source.choice([None, clock()])}
        yield name, arguments


def _arguments(source: random.Random) -> dict[str, dict[str, Any]]:
    pick = source.choice
    basket, line = {"basket": f"k{source.randrange(2)}"}, {"line": f"{source.randrange(3)}"}
    sku, brand = {"sku": pick(["s0", "s1"])}, {"brand": pick(["b0", "b1"])}
    many = pick([1, 3, 3, 6])
    items = [{"line": f"{n}", "product": pick(["s0", "s1", None]), "qty": pick([1, -2, 3])} for n in range(many)]
    exchange = {**basket, **line, "product": pick(["s0", "s1", None])}
    rename = {**sku, "brand": pick(["b0", "b1", None])}
    return {
        "replace": {"basket_id": basket["basket"], "shop": pick(["x", "y"]), "items": items},
        "drop": basket,
        "exchange": exchange,
        "take_out": {**basket, **line},
        "offer": {**rename, "category": pick(["c3", None])},
        "sort_in": {**sku, "category": pick(["c1", "c2", None])},
        "rename": rename,
        "withdraw": sku,
        "found": {"brand_id": brand["brand"], "country": pick(["x", None]), "owner": pick(["o0", "o1", None])},
        "sell": {**brand, "owner": pick(["o0", "o1", None])},
        "shut": brand,
        "own": {"owner_id": pick(["o0", "o1"]), "town": pick(["x", "y", None])},
        "quit": {"owner": pick(["o0", "o1"])},
        "both": {"exchange": exchange, "withdraw": sku},
        "rebrand": {"shut": brand, "rename": rename},
    }


def _noted_arguments(source: random.Random) -> dict[str, dict[str, Any]]:
    pick = source.choice
    basket, line = pick(ITEMS)
    return {
        "remark": {"note_id": pick(NOTES), "item": pick([None, *ITEMS, *ITEMS]), "text": pick(["x", "y"])},
        "erase": {"note": pick(NOTES)},
        "recount": {"basket": basket, "line": line, "qty": pick([1, 2, 5])},
    }
