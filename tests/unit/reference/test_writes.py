"""Creates, upserts, updates and deletes by key; conditions, sums, uniqueness."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from keyplan.errors import ArgumentError, ConflictError, RangeError
from keyplan.reference import Database
from tests.unit.reference.support import NOON, database

SHOP = """
User:
  count: 9
  fields:
    id: uuid, key
    email: string(20), unique, optional 50%
    name: string(20)
    joined: timestamp, now
    level: enum(new 50%, old 50%), default new
    tags: set(string(4), avg 1)
Product:
  count: 9
  fields:
    sku: string(8), key
    price: decimal(2)
    stock: int, optional 50%
    maker: string(8), optional 50%, immutable
Order:
  count: 9
  fields:
    id: ulid, key
    user: User, as orders, max 99
    note: string(8), optional 50%
Item:
  count: 9
  key: [order, line]
  fields:
    order: Order, as items, max 3
    line: int
    product: Product
    price: decimal(2), from product.price
    copied: string(8), optional 50%, from product.maker
Mark:
  count: 9
  key: [item]
  fields:
    item: Item, as marks, max 1
"""
WRITES = """
add_user: { create: User }
put_user: { upsert: User }
rename: { update: User, set: [name], where: "id = :id" }
set_email: { update: User, set: [email], where: "id = :id" }
drop_user: { delete: User, where: "id = :id", return: [name, level] }
add_product: { create: Product }
put_product: { upsert: Product }
take: { update: Product, add: {stock: -:n}, where: "sku = :sku", if: "stock >= :n", return: [stock] }
give: { update: Product, add: [stock], where: "sku = :sku" }
free: { update: Product, set: {price: 0}, where: "sku = :sku", return: [price] }
drop_cheap: { delete: Product, where: "price <= :price", rows: 3 }
place: { create: Order, with: [items] }
place_bare: { create: Order }
add_item: { create: Item }
drop: { delete: Order, where: "id = :id", with: [items.marks] }
drop_unmarked: { delete: Order, where: "id = :id", if: "missing(note)" }
add_mark: { create: Mark }
"""
PATTERNS = """
user: { find: User, where: "id = :id" }
product: { find: Product, where: "sku = :sku" }
"""
ANN, BOB = UUID(int=1), UUID(int=2)
ORDER = "01HZZZZZZZZZZZZZZZZZZZZZZZ"


@pytest.fixture
def shop() -> Database:
    return database(SHOP, PATTERNS, WRITES)[0]


def test_create_returns_the_key_and_what_was_filled_in(shop: Database) -> None:
    answer = shop.write("add_user", id=ANN, name="ann")
    assert answer == {"id": ANN, "joined": NOON, "level": "new"}
    assert shop.read("user", id=ANN) == {
        **answer, "name": "ann", "email": None, "tags": frozenset(),
    }  # fmt: skip


def test_an_explicit_value_is_taken_as_given(shop: Database) -> None:
    earlier = NOON.replace(year=2020)
    assert shop.write("add_user", id=ANN, name="ann", joined=earlier, level="old") == {"id": ANN}
    assert shop.read("user", id=ANN)["joined"] == earlier


def test_a_key_that_is_left_out_is_generated(shop: Database) -> None:
    first = shop.write("add_user", name="ann")["id"]
    second = shop.write("add_user", name="bob")["id"]
    assert isinstance(first, UUID)
    assert first != second
    assert shop.read("user", id=first)["name"] == "ann"


def test_create_wants_a_new_key(shop: Database) -> None:
    shop.write("add_user", id=ANN, name="ann")
    with pytest.raises(ConflictError, match=r"add_user: User .* exists already"):
        shop.write("add_user", id=ANN, name="other")
    assert shop.read("user", id=ANN)["name"] == "ann"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "add_user: missing argument 'name'"),
        ({"name": None}, "add_user: argument 'name' is None"),
        ({"name": 7}, "add_user: argument 'name': expected a string, got int"),
        ({"name": "a", "level": None}, "add_user: argument 'level' is None"),
        ({"name": "a", "tags": None}, "add_user: argument 'tags' is None"),
        ({"name": "a", "nam": "b"}, "add_user: unknown argument 'nam'; did you mean 'name'?"),
        ({"name": "a" * 513}, "add_user: argument 'name': is longer than 512 bytes"),
    ],
)
def test_wrong_arguments_change_nothing(shop: Database, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        shop.write("add_user", **arguments)
    assert shop.rows["User"] == {}


def test_upsert_replaces_the_whole_row(shop: Database) -> None:
    shop.write("put_product", sku="a", price=1, stock=5)
    shop.write("put_product", sku="a", price=2)
    assert shop.read("product", sku="a") == {"sku": "a", "price": Decimal("2.00"), "stock": None, "maker": None}


def test_unique_binds_rows_that_have_it(shop: Database) -> None:
    shop.write("add_user", id=ANN, name="ann", email="x")
    shop.write("add_user", name="eve")
    shop.write("add_user", id=BOB, name="bob")
    with pytest.raises(ConflictError, match="'email'"):
        shop.write("add_user", name="sue", email="x")
    with pytest.raises(ConflictError, match="'email'"):
        shop.write("set_email", id=BOB, email="x")
    with pytest.raises(ConflictError, match="'email'"):
        shop.write("put_user", id=BOB, name="bob", email="x")


def test_unique_is_released_by_change_and_delete(shop: Database) -> None:
    shop.write("add_user", id=ANN, name="ann", email="x")
    shop.write("set_email", id=ANN, email="y")
    shop.write("add_user", id=BOB, name="bob", email="x")
    shop.write("drop_user", id=BOB)
    shop.write("set_email", id=ANN, email="x")
    shop.write("put_user", id=ANN, name="ann", email="x")


def test_update_changes_only_what_is_set(shop: Database) -> None:
    shop.write("add_user", id=ANN, name="ann", email="x")
    before = shop.read("user", id=ANN)
    assert shop.write("rename", id=ANN, name="anna") is None
    assert shop.read("user", id=ANN) == {**before, "name": "anna"}


def test_none_clears_an_optional_and_only_an_optional(shop: Database) -> None:
    shop.write("add_user", id=ANN, name="ann", email="x")
    shop.write("set_email", id=ANN, email=None)
    assert shop.read("user", id=ANN)["email"] is None
    with pytest.raises(ArgumentError, match="rename: argument 'name' is None"):
        shop.write("rename", id=ANN, name=None)
    with pytest.raises(ArgumentError, match="set_email: missing argument 'email'"):
        shop.write("set_email", id=ANN)


def test_update_and_delete_of_a_missing_row_do_nothing(shop: Database) -> None:
    assert shop.write("rename", id=ANN, name="ann") is None
    assert shop.write("drop_user", id=ANN) is None
    assert shop.write("free", sku="a") is None
    assert shop.rows["User"] == {}


def test_return_is_after_an_update_and_before_a_delete(shop: Database) -> None:
    shop.write("add_product", sku="a", price=5)
    assert shop.write("free", sku="a") == {"price": Decimal("0.00")}
    shop.write("add_user", id=ANN, name="ann")
    assert shop.write("drop_user", id=ANN) == {"name": "ann", "level": "new"}
    assert shop.read("user", id=ANN) is None


def test_if_looks_at_the_row_before_the_write(shop: Database) -> None:
    shop.write("add_product", sku="a", price=1, stock=3)
    assert shop.write("take", sku="a", n=2) == {"stock": 1}
    with pytest.raises(ConflictError, match="take: its condition does not hold"):
        shop.write("take", sku="a", n=2)
    with pytest.raises(ConflictError, match="take: there is no such Product"):
        shop.write("take", sku="b", n=1)
    assert shop.read("product", sku="a")["stock"] == 1


def test_add_counts_missing_as_zero(shop: Database) -> None:
    shop.write("add_product", sku="a", price=1)
    shop.write("give", sku="a", stock=4)
    assert shop.read("product", sku="a")["stock"] == 4


def test_add_that_leaves_the_range_writes_nothing(shop: Database) -> None:
    shop.write("add_product", sku="a", price=1, stock=2**63 - 1)
    with pytest.raises(RangeError, match="give: 'stock'"):
        shop.write("give", sku="a", stock=1)
    assert shop.read("product", sku="a")["stock"] == 2**63 - 1


def test_a_wider_where_returns_the_number_of_rows(shop: Database) -> None:
    for number in range(4):
        shop.write("add_product", sku=str(number), price=number)
    assert shop.write("drop_cheap", price=2) == 3
    assert list(shop.rows["Product"]) == [("3",)]


def test_children_are_created_along_and_snapshots_are_filled_in(shop: Database) -> None:
    shop.write("add_product", sku="a", price=5, maker="m")
    answer = shop.write(
        "place", id=ORDER, user=ANN, items=[{"line": 1, "product": "a"}, {"line": 2, "product": "a", "price": 1}]
    )
    assert answer == {
        "id": ORDER,
        "items": [
            {"order": ORDER, "line": 1, "price": Decimal("5.00"), "copied": "m"},
            {"order": ORDER, "line": 2, "copied": "m"},
        ],
    }
    shop.write("put_product", sku="a", price=7)
    assert shop.rows["Item"][ORDER, 1]["price"] == Decimal("5.00")
    assert shop.rows["Item"][ORDER, 2]["price"] == Decimal("1.00")


def test_a_snapshot_of_nothing_is_refused_unless_optional(shop: Database) -> None:
    with pytest.raises(ArgumentError, match=r"'price' has nothing to copy, as 'product.price' is missing"):
        shop.write("place", user=ANN, items=[{"line": 1, "product": "gone"}])
    assert shop.rows["Order"] == {}
    shop.write("add_item", order=ORDER, line=1, product="gone", price=1)
    assert shop.rows["Item"][ORDER, 1]["copied"] is None


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([{"line": 1, "product": "a", "price": 1, "order": ORDER}], r"place: items\[0\]: unknown argument 'order'"),
        ([{"line": "1", "product": "a"}], r"place: argument 'items\[0\].line': expected an int"),
        ([{"product": "a"}], r"place: missing argument 'items\[0\].line'"),
        ({"line": 1}, "place: argument 'items': expected a list"),
        ([7], r"place: argument 'items\[0\]': expected a mapping"),
        (None, "place: argument 'items' is None; give a list of rows, or leave it out"),
        ([{"line": number, "product": "a", "price": 1} for number in range(4)], "place: argument 'items' has 4 rows"),
        ([{"line": 1, "product": "a", "price": 1}] * 2, "written twice"),
    ],
)
def test_wrong_children_change_nothing(shop: Database, items: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        shop.write("place", id=ORDER, user=ANN, items=items)
    assert shop.rows["Order"] == {}


def test_a_child_that_exists_already_is_a_conflict_and_nothing_is_written(shop: Database) -> None:
    shop.write("add_item", order=ORDER, line=1, product="a", price=1)
    with pytest.raises(ConflictError, match="Item"):
        shop.write("place", id=ORDER, user=ANN, items=[{"line": 1, "product": "a", "price": 1}])
    assert shop.rows["Order"] == {}


def test_delete_cascades_over_the_named_roles_only(shop: Database) -> None:
    shop.write("place", id=ORDER, user=ANN, items=[{"line": 1, "product": "a", "price": 1}])
    shop.write("add_item", order="01" + "A" * 24, line=1, product="a", price=1)
    shop.write("add_mark", item=(ORDER, 1))
    shop.write("drop", id=ORDER)
    assert shop.rows["Order"] == {}
    assert list(shop.rows["Item"]) == [("01" + "A" * 24, 1)]
    assert shop.rows["Mark"] == {}


def test_delete_without_with_leaves_the_children(shop: Database) -> None:
    shop.write("place", id=ORDER, user=ANN, note="x", items=[{"line": 1, "product": "a", "price": 1}])
    with pytest.raises(ConflictError):
        shop.write("drop_unmarked", id=ORDER)
    shop.load([("Order", {"id": ORDER, "user": ANN})])
    shop.write("drop_unmarked", id=ORDER)
    assert len(shop.rows["Item"]) == 1


def test_load_upserts_and_counts(shop: Database) -> None:
    assert shop.load([("Product", {"sku": "a", "price": 1}), ("Product", {"sku": "a", "price": 2})]) == 2
    assert shop.read("product", sku="a")["price"] == 2
    with pytest.raises(ArgumentError, match=r"no entity 'Produkt'; did you mean 'Product'"):
        shop.load([("Product", {"sku": "b", "price": 1}), ("Produkt", {})])
    assert shop.read("product", sku="b") is None


def test_unknown_names_are_helped_with(shop: Database) -> None:
    with pytest.raises(ArgumentError, match=r"no write 'add_usr'; did you mean 'add_user'"):
        shop.write("add_usr")
