"""Transactions: writes that succeed or fail together."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import Both
from tests.conformance.pair import Pair

MODEL = """
entities:
  Order:
    fields:
      oid: int, key
      state: enum(open, paid), default open
      lines: count(items)
  Item:
    key: [order, line]
    fields:
      order: Order, as items, max 9
      line: int
      product: Product, as sold
      price: decimal(2), from product.price
  Product:
    fields:
      sku: string(4), key
      price: decimal(2), default 1
      stock: int, default 0
      code: string(4), unique, optional 50%
      sales: count(sold)
patterns:
  order: { find: Order, where: "oid = :oid", with: [items] }
  product: { find: Product, where: "sku = :sku" }
  by_code: { find: Product, where: "code = :code" }
writes:
  place: { create: Order, with: [items] }
  take: { update: Product, add: { stock: "-:n" }, where: "sku = :sku", if: "stock >= :n", return: [stock] }
  reprice: { update: Product, set: [price], where: "sku = :sku" }
  bring: { update: Product, add: { stock: ":n" }, where: "sku = :sku" }
  code: { update: Product, set: [code], where: "sku = :sku" }
  drop: { delete: Order, with: [items], where: "oid = :oid" }
  pay: { update: Order, set: { state: paid }, where: "oid = :oid" }
transactions:
  checkout: [place, take x2 max 3]
  deliver: [reprice, bring x2 max 3]
  swap: [code x2 max 2]
  price_and_place: [reprice, place]
  replace: [drop, place]
  place_and_pay: [place, pay]
"""


@pytest.fixture
def shop(both: Both) -> Pair:
    products = [("p", 5, "a"), ("q", 1, "b"), ("r", 0, None), ("s", 9, None)]
    return both(MODEL, [("Product", {"sku": sku, "stock": n, "code": code}) for sku, n, code in products])


def test_all_of_it_happens(shop: Pair) -> None:
    found = shop.same(
        "checkout",
        place={"oid": 1, "items": [{"line": 1, "product": "p"}]},
        take=[{"sku": "p", "n": 5}, {"sku": "q", "n": 1}],
    )
    assert found["take"] == [{"stock": 0}, {"stock": 0}]
    assert shop.same("order", oid=1)["lines"] == 1
    assert shop.same("product", sku="p")["sales"] == 1


@pytest.mark.parametrize(
    "take", [[{"sku": "p", "n": 5}, {"sku": "r", "n": 1}], [{"sku": "none", "n": 0}], [{"sku": "p", "n": 6}]]
)
def test_or_nothing_does(shop: Pair, take: Any) -> None:
    shop.conflict("checkout", place={"oid": 1, "items": [{"line": 1, "product": "p"}]}, take=take)
    assert shop.same("order", oid=1) is None
    assert shop.same("product", sku="p")["stock"] == 5
    assert shop.same("product", sku="p")["sales"] == 0


def test_a_number_out_of_its_range_is_told_of_the_write_that_takes_it_there(shop: Pair) -> None:
    beyond, within = {"sku": "p", "n": 2**63 - 5}, {"sku": "s", "n": 1}
    said = shop.refused("deliver", reprice={"sku": "q", "price": 2}, bring=[within, beyond])
    assert said.startswith("deliver: bring[1]: ")
    assert shop.refused("deliver", reprice={"sku": "q", "price": 2}, bring=[beyond, within]).startswith(
        "deliver: bring[0]: "
    )
    assert [shop.same("product", sku=sku)["stock"] for sku in "ps"] == [5, 9]


def test_a_refused_create_takes_everything_back(shop: Pair) -> None:
    shop.same("place", oid=1)
    shop.conflict("checkout", place={"oid": 1}, take=[{"sku": "p", "n": 1}])
    assert shop.same("product", sku="p")["stock"] == 5


def test_repeats_may_be_left_out(shop: Pair) -> None:
    assert shop.same("checkout", place={"oid": 1})["take"] == []
    shop.same("checkout", place={"oid": 2}, take=[])


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"place": None},
        {"place": {"oid": 1}, "take": {"sku": "p", "n": 1}},
        {"place": {"oid": 1}, "take": [{"sku": sku, "n": 0} for sku in "pqrs"]},
        {"place": {"oid": 1}, "take": ["p"]},
        {"place": [{"oid": 1}]},
        {"place": {"oid": 1, "x": 1}},
        {"place": {"oid": 1}, "take": [{"sku": "p"}]},
        {"place": {"oid": 1}, "other": []},
    ],
)
def test_wrong_arguments(shop: Pair, arguments: Any) -> None:
    shop.refused("checkout", **arguments)
    assert shop.same("order", oid=1) is None


def test_a_row_may_be_written_once(shop: Pair) -> None:
    assert "twice" in shop.refused("checkout", place={"oid": 1}, take=[{"sku": "p", "n": 1}, {"sku": "p", "n": 1}])
    assert "twice" in shop.refused("replace", drop={"oid": 1}, place={"oid": 1})
    assert "twice" in shop.refused("place_and_pay", place={"oid": 1}, pay={"oid": 1})
    assert shop.same("product", sku="p")["stock"] == 5


def test_a_later_write_sees_an_earlier_one(shop: Pair) -> None:
    shop.same(
        "price_and_place", reprice={"sku": "p", "price": 7}, place={"oid": 1, "items": [{"line": 1, "product": "p"}]}
    )
    assert shop.same("order", oid=1)["items"][0]["price"] == 7


def test_a_unique_value_can_be_handed_over(shop: Pair) -> None:
    shop.same("swap", code=[{"sku": "p", "code": None}, {"sku": "r", "code": "a"}])
    assert shop.same("by_code", code="a")["sku"] == "r"
    shop.conflict("swap", code=[{"sku": "s", "code": "a"}])
    shop.conflict("swap", code=[{"sku": "p", "code": "z"}, {"sku": "s", "code": "z"}])
    assert shop.same("by_code", code="z") is None


def test_delete_and_create_together(shop: Pair) -> None:
    shop.same("place", oid=1, items=[{"line": 1, "product": "p"}, {"line": 2, "product": "q"}])
    shop.same("replace", drop={"oid": 1}, place={"oid": 2, "items": [{"line": 1, "product": "p"}]})
    assert shop.same("order", oid=1) is None
    assert [shop.same("product", sku=sku)["sales"] for sku in "pq"] == [1, 0]


def test_a_transaction_explains_itself(shop: Pair) -> None:
    answer, done = shop.store.checkout(place={"oid": 1}, take=[{"sku": "p", "n": 1}], explain=True)
    assert answer["take"] == [{"stock": 4}]
    assert done.requests >= 1
    assert any(step["op"] == "write" for step in done.steps)
    assert shop.store.swap(explain=True)[0] == {"code": []}  # of nothing, too


SEATS = """
entities:
  Seat: { fields: { sid: "int, key", row: "string(4), distinct 1000", number: "int, unique" } }
patterns:
  seat: { find: Seat, where: "sid = :sid" }
  at: { find: Seat, where: "number = :number" }
  in_row: { find: Seat, where: "row = :row", order: number desc, page: 5 }
writes:
  put: { upsert: Seat }
  make: { create: Seat }
  shift: { update: Seat, set: [row], add: [number], where: "sid = :sid" }
  move: { update: Seat, set: [row, number], where: "sid = :sid" }
  drop: { delete: Seat, where: "sid = :sid" }
  give_up: { delete: Seat, where: "sid = :sid", return: [number] }
transactions:
  drop_make: [drop, make x2 max 3]
  give_up_make: [give_up, make x2 max 3]
  move_make: [move, make x2 max 3]
  shift_some: [shift x2 max 3, make]
  put_shift: [put, shift]
  shift_put: [shift, put]
  put_move: [put, move]
  make_move: [make, move]
"""


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("put_shift", {"sid": 2, "row": "b", "number": 1}, {"sid": 1, "row": "c", "number": 0}),
        ("shift_put", {"sid": 1, "row": "c", "number": 0}, {"sid": 2, "row": "b", "number": 1}),
        ("put_move", {"sid": 3, "row": "b", "number": 1}, {"sid": 1, "row": "c", "number": 1}),
        ("make_move", {"sid": 3, "row": "b", "number": 1}, {"sid": 1, "row": "c", "number": 1}),
        ("put_shift", {"sid": 2, "row": "b", "number": 2}, {"sid": 1, "row": "c", "number": 1}),
    ],
)
def test_a_unique_value_that_a_row_keeps_is_not_taken_by_another(
    both: Both, name: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """Whichever is written first, and though the one that has it changes otherwise."""
    pair = both(SEATS, [("Seat", {"sid": n, "row": "a", "number": n}) for n in (1, 2)])
    one, other = name.split("_")
    pair.conflict(name, **{one: first, other: second})
    pair.agrees([*(("seat", {"sid": n}) for n in (1, 2, 3)), *(("in_row", {"row": row}) for row in "abc")])
    pair.agrees([("at", {"number": 1}), ("at", {"number": 2})])
    pair.verified()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("drop_make", {"drop": {"sid": 1}, "make": [(3, 9), (4, 1)]}),
        ("give_up_make", {"give_up": {"sid": 1}, "make": [(3, 9), (4, 1)]}),
        ("move_make", {"move": {"sid": 1, "row": "c", "number": 7}, "make": [(3, 8), (4, 1)]}),
        ("shift_some", {"shift": [(2, 1), (1, 1)], "make": (4, 1)}),
    ],
)
def test_a_unique_value_that_one_row_gives_up_is_taken_by_any_later_one(
    both: Both, name: str, arguments: dict[str, Any]
) -> None:
    def seat(given: Any) -> Any:
        return dict(zip(("sid", "number", "row"), (*given, "a"), strict=True)) if isinstance(given, tuple) else given

    pair = both(SEATS, [("Seat", {"sid": n, "row": "a", "number": n}) for n in (1, 2)])
    pair.same(
        name, **{one: [*map(seat, some)] if isinstance(some, list) else seat(some) for one, some in arguments.items()}
    )
    assert pair.same("at", number=1)["sid"] == 4
    pair.agrees([("seat", {"sid": n}) for n in range(1, 5)])
    pair.verified()
