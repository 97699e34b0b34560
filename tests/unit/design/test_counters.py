"""Revenue by the day of the order and the category of the product is added up as it is earned."""

from __future__ import annotations

import pytest

from keyplan.design import design
from keyplan.engines import get_engine
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.steps import Fold, Search, Windows
from tests.unit.design.nouns import model_of

SHOP = """
Order:
  count: 40M
  fields:
    order_id: ulid, key
    created_at: timestamp, now
Item:
  count: 120M
  key: [order, line]
  fields:
    order: Order, as items, max 50
    line: int
    product: Product
    quantity: int
    price: decimal(2), from product.price
Product:
  count: 50k
  fields:
    sku: string(12), key
    category: string(12), distinct 40
    price: decimal(2)
"""
WRITES = """
place: { create: Order, with: [items], rate: 400k/day, peak: 10x }
drop: { delete: Order, with: [items], where: "order_id = :order_id", rate: 1k/day }
"""


def revenue(where: str) -> Model:
    pattern = f"""
    revenue:
      from: Item
      compute: {{ revenue: sum(quantity * price), lines: count() }}
      group: {{ day: day(order.created_at), category: product.category }}
      where: {where}
      order: revenue desc
      rate: 100/day
    """
    return model_of(SHOP, pattern, WRITES)


@pytest.mark.parametrize("engine", ["sqlite", "dynamodb"])
def test_revenue_by_whole_days_is_read_from_a_counter(engine: str) -> None:
    found = design(revenue("day(order.created_at) >= ago('30d')"), get_engine(engine))
    plan = found.plans["revenue"].node
    assert isinstance(plan, Fold)
    assert plan.merged
    assert isinstance(plan.rows, Search)
    view = found.views[plan.rows.view]
    assert [str(part) for part in view.parts] == ["day(order.created_at)", "product.category or missing"]
    name, at = found.homes["Item"]
    home = found.views[name].embed_at(at) or found.views[name]
    assert {"order.created_at", "product.category"} <= set(home.holds)  # what each row counts under
    dearer = design(revenue("order.created_at >= ago('30d')"), get_engine(engine))
    assert found.objective.value < dearer.objective.value


@pytest.mark.parametrize("engine", ["sqlite", "dynamodb"])
def test_revenue_since_a_moment_is_read_from_whole_days_and_the_rows_of_the_first(engine: str) -> None:
    found = design(revenue("order.created_at >= ago('30d')"), get_engine(engine))
    plan = found.plans["revenue"].node
    assert isinstance(plan, Fold)
    assert isinstance(plan.rows, Windows)
    assert (plan.rows.path, plan.rows.cut) in [("order.created_at", "day"), ("order.created_at", "hour")]
    assert found.views[plan.rows.whole.view].measures
    wholes, edges = found.plans["revenue"].steps[0], found.plans["revenue"].steps[1]
    assert "the first whole one" in str(wholes["where"])
    assert "one that it begins or ends in" in str(edges["where"])


AGGREGATES = """
keyplan: 1
name: sums
entities:
  User: { count: 1M, fields: { uid: "int, key" } }
  Order:
    count: 50M
    fields: { oid: "uuid, key", user: "User, as orders", total: int, parts: int, status: "enum(a, b)" }
patterns:
  total: { sum: Order.total, where: "user = :user", rate: 5k/s }
  parts: { sum: Order.parts, where: "user = :user", rate: 5k/s }
  largest: { max: Order.total, where: "user = :user", rate: 5k/s }
  by_status: { count: Order, where: "user = :user and status = :status", rate: 5k/s }
writes:
  place: { create: Order, rate: 10/s }
  drop: { delete: Order, where: "oid = :oid", rate: 1/s }
"""


@pytest.mark.parametrize("engine", ["sqlite", "mongodb"])
def test_aggregates_of_the_same_groups_share_them(engine: str) -> None:
    """But a greatest value stands by its reference alone, where the next one can be looked for."""
    found = design(parse_model(AGGREGATES), get_engine(engine))
    kept = [view for view in found.views.values() if view.measures]
    with_largest = [view for view in kept if any(measure.how == "max" for measure in view.measures)]
    assert [[part.path for part in view.parts] for view in with_largest] == [["user"]]
    names = {measure.name for measure in with_largest[0].measures}
    assert {"max(total)", "sum(total)", "sum(parts)"} <= names
    assert len(kept) == 2
