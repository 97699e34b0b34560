"""Index keys of several attributes: on DynamoDB Local, the only server here that can query them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.session import Session
from botocore.validate import ParamValidator
from cfnlint.api import lint

import keyplan
from keyplan.engines.codec import Span
from keyplan.engines.dynamodb import ENGINE
from keyplan.engines.dynamodb.emit import emit
from keyplan.errors import UnsupportedError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.edits import Edit
from keyplan.plan.steps import Search
from keyplan.plan.view import View
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import (
    BY_DAY,
    BY_STATUS,
    BY_USER,
    FLAGGED,
    ORDERS,
    apply,
    design_of,
    lab,
    little_model,
    parts,
    url_of,
)
from tests.engines.dynamodb.test_codec import ANN, NOW, order
from tests.unit.design.nouns import model_of

LITTLE = replace(little_model(), targets={"dynamodb": {"multi_attribute_keys": True}})
BY_TOTAL = View("by total", "Order", "gsi", parts("user"), parts("total", "order_id"), ORDERS.holds, base="orders")
BY_NOTE = View(
    "by flag", "Order", "gsi", parts("day"), parts("flagged", "order_id"), ("order_id", "day"), base="orders"
)
VIEWS = (ORDERS, BY_USER, BY_STATUS, FLAGGED, BY_DAY, BY_TOTAL, BY_NOTE)


def test_parts_are_attributes_as_they_are_stored() -> None:
    table = ENGINE.changes(LITTLE, design_of(LITTLE, VIEWS), "lock", no_table())[0]._body  # type: ignore[attr-defined]
    keys = {one["IndexName"]: [(k["AttributeName"], k["KeyType"]) for k in one["KeySchema"]] for one in indexes(table)}
    types = {one["AttributeName"]: one["AttributeType"] for one in table["AttributeDefinitions"]}
    assert keys["GSI1"] == [("GSI1PK", "HASH"), ("GSI1K1", "HASH"), ("created_at", "RANGE"), ("order_id", "RANGE")]
    assert keys["GSI4"] == [("GSI4PK", "HASH"), ("user", "HASH"), ("total", "RANGE"), ("order_id", "RANGE")]
    assert (types["total"], types["order_id"], types["user"], types["GSI1K1"]) == ("N", "N", "S", "S")


def no_table() -> Any:
    from keyplan.engines.changing import Catalog

    return Catalog(found={"table": None})


def indexes(table: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table["GlobalSecondaryIndexes"]
    return found


def test_ranges_pages_and_texts(local: Server) -> None:
    with lab(local.url, VIEWS, LITTLE) as here:
        totals = [Decimal("-1"), Decimal("0"), Decimal("2.5"), Decimal("2.5"), Decimal("10")]
        flags = ["", "a", "ab", "b", None]
        rows = [
            order(n, total=totals[n], flagged=flags[n], gift=n % 2 == 0, created_at=NOW + timedelta(hours=n))
            for n in range(5)
        ]
        # The copy by user has the same attributes, and is not in the indexes.
        here.bulk(*(Edit("orders", "put", (row["order_id"],), (), row) for row in rows))
        here.bulk(*(Edit("by user", "put", (ANN, r["created_at"], r["order_id"]), (), r) for r in rows))

        def ids(view: str, span: Span, limit: int | None = None, **search: Any) -> list[int]:
            (found,) = here.read(Search(view, takes=("order_id",), **search), [span], limit)
            return [row["order_id"] for row in found]

        assert ids("by total", Span((ANN,))) == [0, 1, 2, 3, 4]
        assert ids("by total", Span((ANN,)), descending=True) == [4, 3, 2, 1, 0]
        assert ids("by total", Span((ANN,), (Decimal("2.5"),))) == [2, 3]
        assert ids("by total", Span((ANN,), low=(Decimal("0"),), high=(Decimal("2.5"),))) == [1, 2, 3]
        assert ids("by total", Span((ANN,), low=(Decimal("0"),), low_open=True)) == [2, 3, 4]
        assert ids("by total", Span((ANN,), high=(Decimal("2.5"),), high_open=True)) == [0, 1]
        # Where a page goes on: after (2.5, 2).
        assert ids("by total", Span((ANN,), low=(Decimal("2.5"), 2), low_open=True)) == [3, 4]
        assert ids("by total", Span((ANN,), low=(Decimal("2.5"), 2), low_open=True), limit=1) == [3]
        assert ids("by total", Span((ANN,), high=(Decimal("2.5"), 3), high_open=True), descending=True) == [2, 1, 0]
        assert ids("by total", Span((ANN,), low=(Decimal("5"),), high=(Decimal("1"),))) == []
        assert ids("by status", Span(("pending",), low=(NOW + timedelta(hours=2),))) == [2, 3, 4]
        assert ids("by flag", Span((date(2026, 11, 5),))) == [0, 1, 2, 3]
        assert ids("by flag", Span((date(2026, 11, 5),), starts="a")) == [1, 2]
        assert ids("by flag", Span((date(2026, 11, 5),), ("",))) == [0]
        (found,) = here.read(Search("by day", takes=("order_id", "day", "total")), [Span((date(2026, 11, 5),))])
        assert found == [{"order_id": n, "day": date(2026, 11, 5), "total": totals[n]} for n in range(5)]
        # A column that changes moves the entry, and one that goes takes it out.
        here.write(Edit("orders", "patch", (0,), (), {"total": Decimal("99")}, entry=rows[0]))
        here.write(Edit("orders", "patch", (1,), (), {"flagged": None}, entry=rows[1]))
        assert ids("by total", Span((ANN,))) == [1, 2, 3, 4, 0]
        assert ids("by flag", Span((date(2026, 11, 5),))) == [0, 2, 3]


def test_applying_twice_does_nothing(local: Server) -> None:
    port = ENGINE.connect(url_of(local.url), LITTLE, None)
    try:
        assert apply(LITTLE, design_of(LITTLE, VIEWS), port)
        assert apply(LITTLE, design_of(LITTLE, VIEWS), port) == []
    finally:
        port.close()


SHOP = """
Customer: { count: 10k, fields: { customer_id: "uuid, key", name: string(20), joined: date } }
Order:
  count: 10M
  fields:
    order_id: ulid, key
    customer: Customer, as orders
    status: enum(open 5%, done 95%)
    placed_at: timestamp
    joined: string(10)
    total: int
"""
READS = """
order: { find: Order, where: "order_id = :order_id", rate: 10/s }
of_customer: { find: Order, where: "customer = :customer", order: placed_at desc, page: 20, rate: 10/s }
of_status: { find: Order, where: "status = :status and total >= :least", order: total, page: 20, rate: 10/s }
by_joined: { find: Order, where: "joined = :joined", page: 20, rate: 10/s }
"""


def shop(*, several: bool = True) -> Model:
    model = model_of(SHOP, READS, "place: { create: Order, rate: 1/s }")
    return replace(model, targets={"dynamodb": {"multi_attribute_keys": several, "billing": "on_demand"}})


def designed(model: Model) -> Design:
    return keyplan.design(model, "dynamodb")


def test_the_option_gives_every_view_an_index_of_its_own() -> None:
    native = [one for one in designed(shop()).structures if one.settings.get("native")]
    assert len(native) >= 2
    assert all(len(one.views) == 1 for one in native)
    assert not any(one.settings.get("native") for one in designed(shop(several=False)).structures)


def test_a_name_with_two_types_is_no_key_as_it_is() -> None:
    """'joined' is a date of customers and a text of orders: DynamoDB would refuse the items of one of them."""
    body = json.loads(emit(shop(), designed(shop()), "createtable")["test.create-table.json"])
    assert "joined" not in {one["AttributeName"] for one in body["AttributeDefinitions"]}


def test_a_store_on_native_keys(local: Server) -> None:
    url = url_of(local.url)
    keyplan.apply(shop(), url)
    with keyplan.open(shop(), url) as store:
        rows = [
            {
                "order_id": f"{n:026d}",
                "customer": ANN,
                "status": "open" if n % 2 else "done",
                "total": -n,
                "joined": "x" * n,
            }
            for n in range(30)
        ]
        store.load([("Customer", {"customer_id": ANN, "name": "Ann", "joined": date(2026, 1, 1)})])
        store.load([("Order", {**row, "placed_at": NOW + timedelta(minutes=row["total"] // 3)}) for row in rows])
        store.settle()
        found = [row["order_id"] for row in store.of_customer.all(customer=ANN)]
        assert found == sorted(found, key=lambda one: (-(-int(one) // 3), -int(one)))
        assert [row["total"] for row in store.of_status.all(status="open", least=-9)] == [-9, -7, -5, -3, -1]
        assert [row["order_id"] for row in store.by_joined(joined="").rows] == [f"{0:026d}"]
        assert store.verify().ok


def test_files_of_native_keys() -> None:
    model, design = shop(), designed(shop())
    body = json.loads(emit(model, design, "createtable")["test.create-table.json"])
    shape = Session().get_service_model("dynamodb").operation_model("CreateTable").input_shape
    assert not ParamValidator().validate(body, shape).has_errors()
    (text,) = emit(model, design, "cloudformation").values()
    assert lint(text) == []
    (text,) = emit(model, design, "workbench").values()
    assert "Indexes that Workbench does not show: GSI1 (GSI1PK" in text
    with pytest.raises(UnsupportedError, match="has a key of several attributes"):
        emit(model, design, "terraform")


def test_a_request_in_words_names_every_attribute() -> None:
    model, design = shop(), designed(shop())
    search = design.plans["of_customer"].node
    assert isinstance(search, Search)
    assert "customer = :1" in ENGINE.words(model, design, search)
