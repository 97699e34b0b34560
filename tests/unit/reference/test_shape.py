"""What an answer looks like: nesting, references, `with`, computed fields."""

from __future__ import annotations

from typing import Any

import pytest

from keyplan.errors import ArgumentError
from keyplan.reference import Database
from tests.unit.reference.support import database, filled

SHOP = """
User:
  count: 2
  fields:
    id: int, key
    name: string(8)
    tags: set(string(4), avg 1)
    spent: sum(orders.total)
    orders_made: count(orders)
    largest: max(orders.total)
Order:
  count: 4
  fields:
    id: int, key
    user: User, as orders, optional 90%
    total: decimal(2)
Item:
  count: 8
  key: [order, line]
  fields:
    order: Order, as items, max 9
    line: int
    note: string(9), optional 50%
Complaint:
  count: 2
  fields:
    id: int, key
    item: Item, as complaints, optional 50%
Receipt:
  count: 2
  key: [order]
  fields:
    order: Order, as receipts, max 1
    paid: bool
"""
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("User", {"id": 1, "name": "ann", "tags": ["x"]}),
    ("Order", {"id": 10, "user": 1, "total": "5.50"}),
    ("Order", {"id": 11, "user": 1, "total": "2"}),
    ("Order", {"id": 12, "user": 7, "total": "1"}),
    ("Order", {"id": 13, "total": "1"}),
    ("Item", {"order": 10, "line": 2, "note": "b"}),
    ("Item", {"order": 10, "line": 1}),
    ("Complaint", {"id": 1, "item": (10, 2)}),
    ("Complaint", {"id": 2, "item": {"order": 10, "line": 9}}),
    ("Complaint", {"id": 3}),
    ("Receipt", {"order": 10, "paid": True}),
]


def shop(pattern: str) -> Database:
    return filled(SHOP, f"found: {pattern}", ROWS)


def one(pattern: str, **arguments: Any) -> Any:
    return shop(pattern).read("found", **arguments)


def test_a_fixed_key_gives_a_row_or_none() -> None:
    database = shop("{ find: Order, where: 'id = :id' }")
    row = database.read("found", id=10)
    assert row == {"id": 10, "user": 1, "total": row["total"]}
    assert str(row["total"]) == "5.50"
    assert database.read("found", id=99) is None


def test_a_composite_reference_is_a_tuple_in_key_order() -> None:
    assert one("{ find: Complaint, where: 'id = :id' }", id=1) == {"id": 1, "item": (10, 2)}
    assert one("{ find: Complaint, where: 'id = :id' }", id=3) == {"id": 3, "item": None}


def test_selected_paths_nest() -> None:
    found = one("{ find: Complaint, where: 'id = :id', select: [item.note, item.order.total] }", id=1)
    assert found == {"item": {"note": "b", "order": {"total": found["item"]["order"]["total"]}}}


def test_a_key_part_of_a_reference_can_be_selected() -> None:
    assert one("{ find: Complaint, where: 'id = :id', select: [item.line] }", id=1) == {"item": {"line": 2}}
    assert one("{ find: Order, where: 'id = :id', select: [user.id] }", id=10) == {"user": {"id": 1}}


def test_a_dangling_reference_keeps_its_key_and_the_rest_is_missing() -> None:
    found = one("{ find: Complaint, where: 'id = :id', with: [item] }", id=2)
    assert found == {"id": 2, "item": {"order": 10, "line": 9, "note": None}}
    beyond = one("{ find: Complaint, where: 'id = :id', select: [item.order.total, item.order.id] }", id=2)
    assert beyond == {"item": {"order": {"id": 10, "total": None}}}


def test_an_expanded_reference_is_none_if_the_reference_is_missing() -> None:
    assert one("{ find: Order, where: 'id = :id', select: [id], with: [user] }", id=13) == {"id": 13, "user": None}


def test_sets_behind_a_dangling_reference_are_empty_and_computed_fields_keep_their_value() -> None:
    found = one("{ find: Order, where: 'id = :id', select: [id], with: [user] }", id=12)
    user = found["user"]
    assert (user["id"], user["name"], user["tags"], user["orders_made"]) == (7, None, frozenset(), 1)


def test_rows_behind_a_dangling_reference_are_those_that_point_at_its_key() -> None:
    pattern = "{ find: Order, where: 'id = :id', select: [id], with: {user.orders: {order: id, limit: 9}} }"
    assert [order["id"] for order in one(pattern, id=12)["user"]["orders"]] == [12]
    assert one(pattern, id=13)["user"] is None


def test_computed_fields_equal_their_query() -> None:
    database = shop("{ find: User, where: 'id = :id', select: [spent, orders_made, largest] }")
    found = database.read("found", id=1)
    assert [str(value) for value in found.values()] == ["7.50", "2", "5.50"]
    database.load([("User", {"id": 2, "name": "bob"})])
    assert database.read("found", id=2) == {"spent": 0, "orders_made": 0, "largest": None}


def test_computed_fields_can_be_conditions_and_orders() -> None:
    database = shop("{ find: User, where: 'orders_made >= 1', order: spent desc, select: [id], limit: 9 }")
    database.load([("User", {"id": 7, "name": "eve"}), ("User", {"id": 8, "name": "sue"})])
    assert database.read("found") == [{"id": 1}, {"id": 7}]


def test_children_come_in_key_order_and_whole() -> None:
    found = one("{ find: Order, where: 'id = :id', select: [id], with: [items] }", id=10)
    assert found["items"] == [{"order": 10, "line": 1, "note": None}, {"order": 10, "line": 2, "note": "b"}]


def test_children_can_be_ordered_and_cut() -> None:
    found = one("{ find: User, where: 'id = :id', select: [id], with: {orders: {order: total, limit: 1}} }", id=1)
    assert [order["id"] for order in found["orders"]] == [11]


def test_children_are_not_filtered_by_where() -> None:
    (found,) = one("{ find: Order, where: 'items.line = 2', select: [id], with: [items], limit: 9 }")
    assert len(found["items"]) == 2


def test_a_role_of_at_most_one_row_gives_a_row_or_none() -> None:
    pattern = "{ find: Order, where: 'id = :id', select: [id], with: [receipts.paid] }"
    assert one(pattern, id=10) == {"id": 10, "receipts": {"paid": True}}
    assert one(pattern, id=11) == {"id": 11, "receipts": None}


def test_with_goes_on_behind_children() -> None:
    found = one("{ find: Item, where: 'order = :o and line = :l', select: [line], with: [order.user.name] }", o=10, l=2)
    assert found == {"line": 2, "order": {"user": {"name": "ann"}}}


@pytest.mark.parametrize("item", [(10, 2), [10, 2], {"order": 10, "line": 2}])
def test_a_composite_reference_is_given_as_tuple_or_mapping(item: object) -> None:
    found, _ = database(SHOP, "complaint: { find: Complaint, where: 'id = :id' }")
    found.load([("Complaint", {"id": 1, "item": item})])
    assert found.read("complaint", id=1) == {"id": 1, "item": (10, 2)}


@pytest.mark.parametrize("item", [10, (10,), (10, 2, 3), {"order": 10}, {"order": 10, "lin": 2}, (10, None)])
def test_a_composite_reference_needs_every_part(item: object) -> None:
    found, _ = database(SHOP)
    with pytest.raises(ArgumentError, match="load: Complaint: argument 'item'"):
        found.load([("Complaint", {"id": 1, "item": item})])


NESTED = """
Shop: { count: 1, key: [city, number], fields: { city: string(4), number: int } }
Till: { count: 1, key: [shop, number], fields: { shop: 'Shop, as tills, max 9', number: int } }
Sale: { count: 1, fields: { id: 'int, key', till: 'Till, as sales' } }
"""


@pytest.mark.parametrize(
    "till",
    [("a", 1, 2), (("a", 1), 2), {"shop": ("a", 1), "number": 2}, {"shop": {"city": "a", "number": 1}, "number": 2}],
)
def test_references_inside_references(till: object) -> None:
    found, _ = database(
        NESTED,
        """
        sale: { find: Sale, where: 'id = :id' }
        parts: { find: Sale, where: 'id = :id', select: [till.shop.city, till.number] }
        by_shop: { find: Sale, where: 'till.shop.city = :city and till.shop.number = :number', select: [id], limit: 5 }
        """,
    )
    found.load([("Sale", {"id": 1, "till": till})])
    assert found.read("sale", id=1) == {"id": 1, "till": ("a", 1, 2)}
    assert found.read("parts", id=1) == {"till": {"shop": {"city": "a"}, "number": 2}}
    assert found.read("by_shop", city="a", number=1) == [{"id": 1}]


def test_a_reference_keeps_its_key_where_the_row_is_gone() -> None:
    """Of the key of the book, its shelf has a part, which is there; the rest of the shelf is gone with the book."""
    entities = """
    Shelf: { count: 9, key: [room, row], fields: { room: int, row: int } }
    Book: { count: 9, key: [shelf.room, no], fields: { shelf: "Shelf, as books", no: int } }
    Loan: { count: 9, fields: { lid: "int, key", book: "Book, as loans, optional 50%" } }
    """
    rows: list[tuple[str, dict[str, Any]]] = [
        ("Book", {"shelf": (1, 2), "no": 3}),
        ("Loan", {"lid": 1, "book": (1, 3)}),
        ("Loan", {"lid": 2, "book": (1, 4)}),
        ("Loan", {"lid": 3}),
    ]
    found = filled(entities, "found: { find: Loan, order: lid, limit: 9, with: [book.shelf] }", rows)
    assert [row["book"] for row in found.read("found")] == [{"shelf": {"room": 1, "row": 2}}, {"shelf": None}, None]
