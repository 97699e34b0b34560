"""The parts that stores share with `reference`: composite arguments, filters on flat rows, paths of a select."""

from __future__ import annotations

from typing import Any

import pytest

from keyplan.errors import ArgumentError
from keyplan.model.arguments import Binder, spread
from keyplan.model.predicate import compile_filter
from keyplan.model.shape import shape, shaped_paths
from tests.unit.reference.support import NOON, database

MODEL = """
Shop: { count: 9, key: [city, number], fields: { city: string(4), number: int, tags: 'set(string(4), avg 1)' } }
Sale:
  count: 9
  fields:
    id: int, key
    shop: Shop, as sales, optional 50%
    note: string(9), optional 50%
    tags: set(string(4), avg 1), from shop.tags
Seat: { count: 9, key: [shop, row], fields: { shop: Shop, row: int, price: int } }
"""
PATTERNS = """
sale: { find: Sale, where: "id = :id", with: [shop] }
noted: { find: Sale, where: "begins_with(note, :start) and id >= :least", limit: 9 }
seat_rank: { rank: Seat, of: [shop, row], order: price }
"""
WRITES = """
move: { update: Sale, set: [shop, note], where: "id = :id" }
sell: { create: Sale }
"""


def test_a_composite_reference_is_one_argument_of_set() -> None:
    found, _ = database(MODEL, PATTERNS, WRITES)
    found.load([("Sale", {"id": 1})])
    found.write("move", id=1, shop=("a", 1), note=None)
    assert found.read("sale", id=1)["shop"] == {"city": "a", "number": 1, "tags": frozenset()}
    found.write("move", id=1, shop={"city": "b", "number": 2}, note="x")
    assert found.read("sale", id=1)["shop"]["city"] == "b"
    found.write("move", id=1, shop=None, note=None)
    assert found.read("sale", id=1)["shop"] is None
    with pytest.raises(ArgumentError, match="move: argument 'shop'"):
        found.write("move", id=1, shop=("a", None), note=None)


def test_a_composite_reference_is_one_argument_of_rank() -> None:
    found, _ = database(MODEL, PATTERNS, WRITES)
    found.load([("Seat", {"shop": ("a", 1), "row": row, "price": -row}) for row in (1, 2, 3)])
    assert found.read("seat_rank", shop=("a", 1), row=1) == 3


def test_a_set_copied_through_a_dangling_reference_is_empty() -> None:
    found, _ = database(MODEL, PATTERNS, WRITES)
    assert found.write("sell", id=1, shop=("a", 1))["tags"] == frozenset()
    assert found.write("sell", id=2)["tags"] == frozenset()


@pytest.mark.parametrize("value", [("a",), ("a", 1, 2), "a", {"city": "a"}, {"city": "a", "number": 1, "x": 2}])
def test_spread_wants_all_parts(value: Any) -> None:
    with pytest.raises(ArgumentError, match="call: argument 'shop'"):
        spread("call", "shop", ["city", "number"], value)


def test_a_binder_can_be_called_again() -> None:
    found, _ = database(MODEL, PATTERNS, WRITES)
    bind = Binder(found.model, found.model.patterns["noted"])
    assert bind({"start": "a", "least": 1}) == {"start": "a", "least": 1}
    assert bind({"start": "b", "least": 2}) == {"start": "b", "least": 2}
    with pytest.raises(ArgumentError, match="checkout: missing arguments 'start', 'least'"):
        bind({}, "checkout")


def test_a_filter_is_bound_once_and_asked_per_row() -> None:
    found, _ = database(MODEL, PATTERNS, WRITES)
    where = found.model.patterns["noted"].where
    bind = compile_filter([(condition, found.model.column("Sale", condition.path).type) for condition in where])
    holds = bind({"start": "a", "least": 2}, NOON)
    rows = [{"note": "ab", "id": 2}, {"note": "ab", "id": 1}, {"note": None, "id": 3}]
    assert [holds(lambda path, row=row: row[str(path)]) for row in rows] == [True, False, False]  # type: ignore[misc]


def test_a_shape_reads_exactly_the_paths_it_says() -> None:
    found, _ = database(MODEL, PATTERNS, WRITES)
    select = found.model.patterns["sale"].select
    paths = shaped_paths(found.model, "Sale", select)
    assert set(paths) == {"id", "note", "tags", "shop.city", "shop.number", "shop.tags"}
    flat: dict[str, Any] = {
        "id": 1,
        "note": None,
        "tags": frozenset(),
        "shop.city": "a",
        "shop.number": 1,
        "shop.tags": None,
    }
    shop = {"city": "a", "number": 1, "tags": frozenset()}
    assert shape(found.model, "Sale", select, flat) == {"id": 1, "note": None, "tags": frozenset(), "shop": shop}
