"""Views of rows that point at nothing: what they are, what they cost, and that designs keep them where it pays."""

from __future__ import annotations

from dataclasses import replace

import pytest

import keyplan
from keyplan.model.model import Model
from keyplan.plan.dangling import absence, dangling_role
from keyplan.plan.view import View
from tests.unit.design.nouns import model_of, upkeep, view
from tests.unit.design.support import example

ENTITIES = """
User:
  count: 2M
  fields: { user_id: "string(8), key", name: "string(20)" }
Seat:
  count: 1000
  key: [row, number]
  fields: { row: int, number: int, label: "string(8)", note: "string(8), optional 5%" }
Visit:
  count: 10M
  ttl: 30d
  fields: { visit_id: "string(8), key", page: "string(20)" }
Order:
  count: 40M
  fields:
    order_id: ulid, key
    user: User, as orders
    seat: Seat, as orders, optional 10%
    visit: Visit, as orders
    total: decimal(2)
"""
WRITES = """
join: { create: User, rate: 1/s }
place: { create: Order, rate: 1/s }
save: { upsert: Order, rate: 1/s }
total: { update: Order, set: [total], where: "order_id = :id", rate: 1/s }
move: { update: Order, set: [user], where: "order_id = :id", rate: 1/s }
drop: { delete: Order, where: "order_id = :id", rate: 1/s }
"""
LEAVES = 'leave: { delete: User, where: "user_id = :id", rate: 1/s }\n'


def made(more: str = "") -> Model:
    return model_of(ENTITIES, "p: { find: Order, limit: 10 }", WRITES + more)


def noted(model: Model) -> View:
    where = absence(model, "Order", "user")
    assert where is not None
    return view(model, "user | order_id", holds=("order_id", "user"), where=(where,))


def test_a_key_that_is_not_there_tells_or_else_a_column_that_nothing_changes() -> None:
    model = made()
    assert str(absence(model, "Order", "user")) == str(noted(model).where[0])
    assert noted(model).where[0].path == (("user",), "user_id")
    seat = absence(model, "Order", "seat")
    assert seat is not None
    assert seat.path == (("seat",), "label"), "the parts of its key are columns of the order as well"
    renamed = made('name: { update: Seat, set: [label], where: "row = :row and number = :number", rate: 1/s }\n')
    assert absence(renamed, "Order", "seat") is None, "who copies a label that changes has to follow it"
    assert absence(model, "Order", "visit") is None, "nobody notes that a row expires"


def test_only_such_views_are_of_rows_that_point_at_nothing() -> None:
    model = made()
    role = dangling_role(model, noted(model))
    assert role is not None
    assert role.name == "user"
    assert dangling_role(model, view(model, "user | order_id")) is None
    by_total = view(model, "total | order_id", holds=("order_id", "total"), where=noted(model).where)
    assert dangling_role(model, by_total) is None, "those that point at a key have to be found"


@pytest.mark.parametrize("write", ["place", "total", "drop"])
def test_rows_that_come_and_go_in_the_ordinary_course_cost_nothing(write: str) -> None:
    model = made()
    assert upkeep(model, write, noted(model)) == []


@pytest.mark.parametrize("write", ["save", "move"])
def test_a_row_that_may_point_elsewhere_is_read(write: str) -> None:
    model = made()
    (part,) = upkeep(model, write, noted(model))
    assert [demand.what for demand in part.demands] == ["old"]
    assert part.cost.cost == 0


def test_a_row_that_goes_puts_all_that_pointed_at_it() -> None:
    model = made(LEAVES)
    parts = upkeep(model, "leave", noted(model))
    assert sum(part.work.puts + part.work.patches for part in parts) == pytest.approx(20)


def test_a_row_that_comes_again_checks_that_its_delete_is_done() -> None:
    for more, checks in (("", 0), (LEAVES, 1)):
        model = made(more)
        parts = upkeep(model, "join", noted(model))
        assert [(demand.what, demand.times) for part in parts for demand in part.demands] == [("fan", 2)]
        assert sum(part.work.checks for part in parts) == checks


@pytest.mark.thorough
def test_the_shop_looks_for_items_of_a_new_product_where_hardly_any_are() -> None:
    """Unless names of products change: then there is a view of all items by their product."""
    shop = example("shop")
    found = keyplan.design(replace(shop, writes={k: v for k, v in shop.writes.items() if k != "describe"}), "dynamodb")
    kinds = [one.kind for one in found.structures]
    assert (kinds.count("table"), kinds.count("gsi")) == (1, 2)
    assert found.dangling.keys() == {"Item.product"}
    (name,) = [name for name, one in found.views.items() if dangling_role(shop, one)]
    assert found.figures[name].rows == 0
    assert found.figures[name].cost == 0
    looked = [step for step in found.writes["list_product"].steps if step.get("view") == name]
    assert [step["op"] for step in looked] == ["query"]
    assert found.writes["list_product"].figures.requests == 3, "before the write, the write, and behind it"
    assert not [one for one in found.findings if one.path == "writes.list_product"]
