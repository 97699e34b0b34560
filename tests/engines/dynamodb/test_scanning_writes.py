"""Writes that have to read everything, because a view that would find what follows does not fit into a transaction."""

from __future__ import annotations

import pytest

import keyplan
from keyplan.design.report.explain import explain
from keyplan.engines.dynamodb import ENGINE
from keyplan.engines.dynamodb.limits import LIMITS, PRICES
from keyplan.model.load import parse_model
from keyplan.plan.design import Design
from tests.examples_data.designs import designed

ORDERS = """
keyplan: 1
name: orders
targets: { dynamodb: { billing: on_demand } }
entities:
  Order:
    count: 10M
    fields: { order_id: "ulid, key", note: string(100) }
  Item:
    count: 30M
    key: [order, line]
    fields: { order: "Order, as items, max MOST", line: int, product: Product, quantity: int }
  Product:
    count: 50k
    fields: { sku: "string(12), key", name: string(40) }
patterns:
  order_page:
    find: Order
    where: order_id = :id
    with: [items, items.product.name]
    consistency: strong
    rate: 100/s
    p99: 10ms
writes:
  place: { create: Order, with: [items], rate: 10/s }
  rename: { update: Product, set: [name], where: "sku = :sku", rate: 100/day }
"""


def design_of(most: int) -> Design:
    return keyplan.design(parse_model(ORDERS.replace("MOST", str(most))), "dynamodb")


def test_what_is_read_is_paid_for_and_said() -> None:
    """The names of products are repeated in 30M items, and with 60 items per order nothing finds them by product."""
    design = design_of(60)
    assert not design.unserved
    rename = design.writes["rename"].figures
    rows = sum(view.rows for view in design.figures.values() if view.rows >= 10e6)
    least = 2 * rows * 100 / LIMITS.read_unit_bytes  # strongly, before the write and behind it
    assert rename.units["read units"] > least
    assert rename.cost > least * PRICES.on_demand_per_read_unit
    assert rename.requests > 2 * rows * 100 / LIMITS.page_bytes
    assert rename.p99_ms > 60_000
    assert design.objective.value > rename.cost * 100 * 30, "it is part of what the whole costs"
    warned = [one for one in design.findings if "it reads every 'Item'" in one.message]
    assert [one.path for one in warned] == ["writes.rename"]
    (hint,) = [one for one in design.findings if "cheaper views" in one.message and one.path == "writes.place"]
    fitting = design_of(45)
    assert hint.evidence["would_cost"] == pytest.approx(fitting.objective.value, rel=0.01)
    assert fitting.objective.value < design.objective.value / 3
    assert not [one for one in fitting.findings if "it reads every" in one.message]


def test_the_scan_is_explained() -> None:
    model = parse_model(ORDERS.replace("MOST", "60"))
    told = explain(model, ENGINE, keyplan.design(model, "dynamodb"), "rename")
    (scan,) = [step for step in told["steps"] if step["op"] == "scan"]
    assert scan["words"].startswith("Scan")
    assert "product = :sku" in scan["words"]


@pytest.mark.parametrize("name", ["shop", "online_shop"])
def test_the_shops_scan_nothing(name: str) -> None:
    design = designed(name, "dynamodb")
    steps = [step for plan in (*design.plans.values(), *design.writes.values()) for step in plan.steps]
    assert not [step for step in steps if step["op"] == "scan"]
    assert not [one for one in design.findings if "it reads every" in one.message]
