"""The shape of answers: nesting, expanded references, children, dangling references, `select` and `with`."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from tests.conformance.conftest import Both
from tests.conformance.pair import Pair, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  User:
    fields:
      uid: int, key
      email: string(8), unique
      name: string(8), optional 50%
      boss: User, as staff, optional 50%
      tags: set(string(4), avg 1)
      orders_made: count(orders)
      spent: sum(orders.total)
      last: max(orders.total)
      first: min(orders.total)
  Order:
    fields:
      oid: int, key
      user: User, as orders, optional 80%
      total: decimal(2), optional 90%
  Item:
    key: [order, line]
    fields:
      order: Order, as items, max 10
      line: int
      product: Product, as sold, optional 90%
      part: Part, optional 50%
  Product:
    fields:
      sku: string(4), key
      name: string(8)
  Part:
    key: [product, number]
    fields:
      product: Product
      number: int
      weight: int, optional 50%
  Card:
    fields:
      cid: int, key
      holder: User, as card, max 1
patterns:
  user: { find: User, where: "uid = :uid" }
  user_by_email: { find: User, where: "email = :email" }
  user_named: { find: User, where: "uid = :uid and name = :name" }
  user_card: { find: User, where: "uid = :uid", with: [card] }
  user_tree: { find: User, where: "uid = :uid", select: [name, boss.name, boss.boss.name, boss.boss.boss] }
  user_boss: { find: User, where: "uid = :uid", with: [boss] }
  user_orders: { find: User, where: "uid = :uid", with: { orders: { order: total desc, limit: 2 } } }
  user_latest: { find: User, where: "uid = :uid", with: { orders: { order: oid desc, limit: 1, select: [total] } } }
  order: { find: Order, where: "oid = :oid" }
  order_page: { find: Order, where: "oid = :oid", with: [user.name, items, items.product.name, items.part] }
  order_keys: { find: Order, where: "oid = :oid", select: [user, user.boss, user.spent, user.tags] }
  orders_of: { find: Order, where: "user = :uid", order: oid, with: [user.email, items] }
  item: { find: Item, where: "order = :oid and line = :line", with: [part] }
  item_beside: { find: Item, where: "order = :oid and line = :line", with: [order.items, order.user.tags] }
  items_of: { find: Item, where: "order.user = :uid", select: [line, part, product] }
  only_counts: { find: User, where: "uid = :uid", select: [orders_made, spent, last, first] }
  filtered_parent: { find: Order, where: "oid = :oid and items.line = 1", with: [items] }
writes:
  drop_user: { delete: User, where: "uid = :uid" }
  drop_product: { delete: Product, where: "sku = :sku" }
"""

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("User", {"uid": 1, "email": "a", "name": "Ann", "tags": ["x"]}),
    ("User", {"uid": 2, "email": "b", "name": "Bob", "boss": 1}),
    ("User", {"uid": 3, "email": "c", "boss": 2}),
    ("User", {"uid": 4, "email": "d", "name": "Dan", "boss": 99}),
    ("Card", {"cid": 7, "holder": 1}),
    ("Product", {"sku": "p", "name": "Lamp"}),
    ("Product", {"sku": "q", "name": "Desk"}),
    ("Part", {"product": "p", "number": 1, "weight": 5}),
    ("Part", {"product": "p", "number": 2}),
    ("Order", {"oid": 1, "user": 1, "total": "9.50"}),
    ("Order", {"oid": 2, "user": 1, "total": "0.50"}),
    ("Order", {"oid": 3, "user": 1}),
    ("Order", {"oid": 4, "user": 99, "total": "1"}),
    ("Order", {"oid": 5}),
    ("Order", {"oid": 6, "user": 2, "total": "-3"}),
    ("Item", {"order": 1, "line": 2, "product": "p", "part": ("p", 1)}),
    ("Item", {"order": 1, "line": 1, "product": "zz", "part": ("p", 9)}),
    ("Item", {"order": 1, "line": -1}),
    ("Item", {"order": 2, "line": 1, "product": "q"}),
    ("Item", {"order": 77, "line": 1, "product": "q"}),
]


def test_a_where_that_fixes_the_key_gives_a_row_or_none(reads: Pair) -> None:
    assert reads.same("user", uid=1)["name"] == "Ann"
    assert reads.same("user", uid=5) is None


def test_a_where_that_fixes_a_unique_field_gives_a_row_or_none(reads: Pair) -> None:
    assert reads.same("user_by_email", email="b")["uid"] == 2
    assert reads.same("user_by_email", email="B") is None


def test_further_conditions_are_tested_too(reads: Pair) -> None:
    assert reads.same("user_named", uid=1, name="Ann") is not None
    assert reads.same("user_named", uid=1, name="Bob") is None
    assert reads.same("user_named", uid=3, name="") is None


def test_rows_behind_a_reference_are_those_that_point_at_its_key(reads: Pair) -> None:
    assert len(reads.same("item_beside", oid=1, line=2)["order"]["items"]) == 3
    # The order is gone, and what points at it is not.
    found = reads.same("item_beside", oid=77, line=1)["order"]
    assert found["user"] is None
    assert [item["line"] for item in found["items"]] == [1]


def test_a_reference_not_expanded_is_its_key(reads: Pair) -> None:
    assert reads.same("order", oid=1)["user"] == 1
    assert reads.same("order", oid=4)["user"] == 99
    assert reads.same("order", oid=5)["user"] is None


def test_a_composite_reference_not_expanded_is_a_tuple(reads: Pair) -> None:
    rows = reads.same("items_of", uid=1)
    assert sorted(str(row["part"]) for row in rows) == ["('p', 1)", "('p', 9)", "None", "None"]


def test_paths_nest(reads: Pair) -> None:
    assert reads.same("user_tree", uid=3) == {
        "name": None,
        "boss": {"name": "Bob", "boss": {"name": "Ann", "boss": None}},
    }
    assert reads.same("user_tree", uid=1) == {"name": "Ann", "boss": None}


def test_an_expanded_reference_is_a_row(reads: Pair) -> None:
    assert reads.same("user_boss", uid=2)["boss"]["email"] == "a"
    assert reads.same("user_boss", uid=1)["boss"] is None


def test_behind_a_gone_target_paths_are_missing_and_the_key_is_kept(reads: Pair) -> None:
    boss = reads.same("user_boss", uid=4)["boss"]
    assert (boss["uid"], boss["email"], boss["tags"]) == (99, None, frozenset())
    assert reads.same("user_tree", uid=4)["boss"] == {"name": None, "boss": None}


def test_computed_fields_keep_their_value_behind_a_gone_target(reads: Pair) -> None:
    assert str(reads.same("order_keys", oid=4)["user"]["spent"]) == "1.00"
    assert reads.same("order_keys", oid=5)["user"] is None


def test_with_adds_children_in_key_order_and_does_not_filter_them(reads: Pair) -> None:
    page = reads.same("order_page", oid=1)
    assert [item["line"] for item in page["items"]] == [-1, 1, 2]
    assert page["items"][0]["product"] is None
    assert page["items"][1]["product"] == {"name": None}
    assert page["items"][2]["product"] == {"name": "Lamp"}
    assert page["items"][2]["part"]["weight"] == 5
    assert len(reads.same("filtered_parent", oid=1)["items"]) == 3
    assert reads.same("filtered_parent", oid=3) is None


def test_a_row_without_children_has_an_empty_list(reads: Pair) -> None:
    assert reads.same("order_page", oid=4)["items"] == []


def test_children_take_an_order_and_a_limit(reads: Pair) -> None:
    assert [order["oid"] for order in reads.same("user_orders", uid=1)["orders"]] == [1, 2]
    assert reads.same("user_latest", uid=1)["orders"] == [{"total": None}]
    assert reads.same("user_latest", uid=3)["orders"] == []


def test_a_role_of_at_most_one_is_a_row_or_none(reads: Pair) -> None:
    assert reads.same("user_card", uid=1)["card"]["cid"] == 7
    assert reads.same("user_card", uid=2)["card"] is None


def test_children_of_many_rows(reads: Pair) -> None:
    assert [len(row["items"]) for row in reads.same("orders_of", uid=1)] == [3, 1, 0]


def test_computed_fields_equal_their_query(reads: Pair) -> None:
    assert [str(value) for value in reads.same("only_counts", uid=1).values()] == ["3", "10.00", "9.50", "0.50"]
    assert list(reads.same("only_counts", uid=3).values())[2:] == [None, None]
    assert reads.same("user", uid=2)["orders_made"] == 1


def test_rows_that_dangle_after_a_delete(both: Both) -> None:
    pair = both(MODEL, ROWS)
    pair.same("drop_user", uid=1)
    pair.same("drop_product", sku="p")
    for oid in (1, 2, 4):
        pair.same("order_page", oid=oid)
        pair.same("order_keys", oid=oid)
    pair.same("user_boss", uid=2)
    pair.same("orders_of", uid=1)
    pair.same("items_of", uid=1)
    assert pair.same("user", uid=1) is None


ORDERED_BY_THE_PARENT = """
entities:
  Shelf: { count: 3, fields: { sid: "enum(x, y, z), key", title: text(20) } }
  Book: { count: 9, key: [shelf, side], fields: { shelf: "Shelf, as books, max 50", side: "Shelf, as sides, max 50" } }
  Loan: { count: 27, key: [shelf, book], fields: { shelf: "Shelf, as loans, max 50", book: "Book, as loans, max 50" } }
patterns:
  shelf:
    find: Shelf
    where: sid = :sid
    with: { loans: { order: "book.shelf, shelf desc", limit: 2 } }
    consistency: strong
    rate: 300/s
writes:
  build: { create: Shelf, rate: 300/s }
  lend: { create: Loan, rate: 300/s }
  buy: { create: Book, with: [loans], rate: 300/s }
"""


def test_children_may_be_ordered_by_their_parent_too(harness: Harness) -> None:
    """It is the same for all of them: only the other terms tell."""
    reads: list[tuple[str, dict[str, Any]]] = [("shelf", {"sid": sid}) for sid in "xy"]
    writes: list[tuple[str, dict[str, Any]]] = [
        *(("lend", {"shelf": shelf, "book": book}) for shelf in "xy" for book in product("xy", "yx")),
        ("build", {"sid": "x", "title": "b"}),
        ("buy", {"shelf": "z", "side": "z", "loans": [{"shelf": "x"}, {"shelf": "y"}]}),
    ]
    model = parsed(ORDERED_BY_THE_PARENT)
    # More than can be: so that no engine keeps them inside their shelf, but beside it.
    more = {"Shelf": 30, "Book": 30, "Loan": 30e3}
    model = replace(model, entities={name: replace(one, count=more[name]) for name, one in model.entities.items()})
    with opened(model, harness.url(), [("Shelf", {"sid": "y", "title": "a"})]) as pair:
        pair.stays_right(writes, reads)
