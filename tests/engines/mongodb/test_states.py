"""Partial indexes of rows in some states: which they are, and what is read of them."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient

import keyplan
from keyplan.engines.codec import Span
from keyplan.engines.mongodb.filters import FieldFilter
from keyplan.engines.mongodb.layout import KeyPart
from keyplan.engines.mongodb.states import is_empty, values_of
from keyplan.engines.mongodb.values import Slot
from keyplan.errors import DesignMismatchError
from keyplan.model.model import Model
from keyplan.model.types import Type
from tests.engines.harness import Harness
from tests.unit.design.nouns import model_of


@pytest.mark.parametrize(
    ("where", "values"),
    [
        ("status in ('shipped', 'pending', 'shipped')", ["pending", "shipped"]),
        ("status != 'delivered'", ["pending", "shipped"]),
        ("status != 'delivered' and status != 'pending'", ["shipped"]),
        ("status in ('delivered', 'pending') and status != 'pending'", ["delivered"]),
        ("total in (2.50, 1.50)", ["1.50", "2.50"]),
        ("status = 'shipped' and status = 'pending'", []),
        ("present(flagged)", None),
    ],
)
def test_values_that_are_left(where: str, values: list[str] | None) -> None:
    """The same rows are the same index, however the model says it: the server would refuse a second one."""
    model = model_of(patterns=f'p: {{ find: Order, where: "{where}" }}')
    conditions = model.patterns["p"].where
    type = model.column("Order", conditions[0].path).type
    found = values_of(type, conditions)
    assert (None if found is None else [str(value) for value in found]) == values
    assert is_empty(type, conditions) == (values == [])


STATES = ("a", "b", "c")


@pytest.mark.parametrize(
    ("span", "returned"),
    [
        (Span((), (), low=("b", 500), low_open=True), 2),
        (Span((), (), high=("b", 500)), 2),
        (Span((), ("b",)), 2),
        (Span((), ("d",)), 0),
    ],
)
def test_bounds_within_a_partial_index(mongodb: Harness, span: Span, returned: int) -> None:
    """The server uses them only if it is told that the rows between them are those of the index."""
    parts = (KeyPart(Slot("s", "s", Type("string"), nullable=False)), KeyPart(Slot("f", "f", Type("int"), False)))
    only: dict[str, Any] = {"s": {"$in": list(STATES)}}
    wanted = FieldFilter(parts, only).span(span)
    with MongoClient[dict[str, Any]](mongodb.url()) as client:
        things = client.get_default_database()["things"]
        things.insert_many([{"_id": number, "s": "abcde"[number % 5], "f": number} for number in range(1000)])
        things.create_index([("s", 1), ("f", 1)], name="some", partialFilterExpression=only)
        found = things.find(wanted).sort([("s", 1), ("f", 1)]).limit(2).hint("some").explain()["executionStats"]
    assert found["nReturned"] == returned
    assert found["totalKeysExamined"] <= 4


def test_an_enum_that_loses_a_value_is_refused_where_there_are_rows(mongodb: Harness) -> None:
    """The validator would refuse every further change of a document that has it."""

    def model(states: str) -> Model:
        text = f"A: {{ count: 10, fields: {{ k: 'int, key', s: 'enum({states})' }} }}"
        return model_of(text, "p: { find: A, where: 'k = :k' }", "make: { create: A }")

    url = mongodb.url()
    keyplan.apply(model("x, y"), url)
    assert keyplan.apply(model("x"), url, dry=True)  # there is no row yet
    with keyplan.open(model("x, y"), url) as store:
        store.make(k=1, s="y")
    with pytest.raises(DesignMismatchError, match="may have 'y' in 's', which the model no longer knows"):
        keyplan.apply(model("x"), url)
    assert keyplan.apply(model("y, z, x"), url) != []
