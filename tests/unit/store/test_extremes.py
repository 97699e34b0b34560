"""Minima and maxima of groups that several rows of one call leave or change."""

from __future__ import annotations

from typing import Any

import pytest

from keyplan.model.load import parse_model
from keyplan.store.store import Store
from tests.naive import Extras
from tests.unit.store.support import memory_store

MODEL = parse_model("""
keyplan: 1
name: sales
entities:
  Product: { fields: { sku: "int, key" } }
  Order: { fields: { oid: "int, key" } }
  Item:
    key: [order, line]
    fields: { order: "Order, as items", line: int, product: "Product, as sold", price: int, size: int }
patterns:
  prices: { from: Item, compute: { dearest: max(price) }, where: "product = :sku" }
  up: { find: Item, order: price, page: 2 }
writes:
  place: { create: Order, with: [items] }
  drop: { delete: Order, with: [items], where: "oid = :oid" }
  put: { upsert: Item }
""")


@pytest.fixture
def store() -> Store:
    return memory_store(MODEL, Extras(counters=True))


def item(line: int, price: int, size: int) -> dict[str, Any]:
    return {"line": line, "product": 1, "price": price, "size": size}


def test_all_rows_of_a_group_go_at_once(store: Store) -> None:
    store.place(oid=1, items=[item(1, 10, 1), item(2, 20, 2), item(3, 15, 3)])
    assert store.verify().ok
    store.drop(oid=1)
    assert store.verify().ok
    store.place(oid=2, items=[item(1, 5, 1)])
    assert store.verify().ok


def test_some_go_and_others_stay(store: Store) -> None:
    store.place(oid=1, items=[item(1, 10, 1), item(2, 20, 2)])
    store.place(oid=2, items=[item(1, 7, 9), item(2, 30, 8)])
    store.drop(oid=2)
    assert store.verify().ok
    store.put(order=1, line=2, product=1, price=1, size=50)
    assert store.verify().ok
    store.drop(oid=1)
    assert store.verify().ok


def test_all_rows_go_on_from_a_cursor(store: Store) -> None:
    store.place(oid=1, items=[item(line, line, 1) for line in range(5)])
    first = store.up()
    assert [row["line"] for row in (*first.rows, *store.up.all(cursor=first.cursor))] == [0, 1, 2, 3, 4]
