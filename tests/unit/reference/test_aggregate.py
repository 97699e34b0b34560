"""Counting, summing and grouping."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from keyplan.reference import Database
from tests.unit.reference.support import at, filled

SALES = """
Product: { count: 2, fields: { id: 'int, key', kind: 'string(4), optional 50%', price: decimal(2) } }
Sale:
  count: 9
  fields:
    id: int, key
    product: Product, as sales
    amount: int, optional 90%
    price: decimal(2), optional 90%
    weight: float, optional 50%
    day: date, optional 50%
    made: timestamp, optional 90%
"""
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("Product", {"id": 1, "kind": "a", "price": 1}),
    ("Product", {"id": 2, "price": 1}),
    ("Sale", {"id": 1, "product": 1, "amount": 2, "price": "1.10", "weight": 0.5, "made": at("2024-05-13 10:59")}),
    ("Sale", {"id": 2, "product": 1, "amount": 3, "price": "2.00", "weight": 0.25, "made": at("2024-05-14 09:00")}),
    ("Sale", {"id": 3, "product": 2, "amount": None, "price": "9.00", "made": at("2024-05-20 00:00")}),
    ("Sale", {"id": 4, "product": 9, "amount": 5, "price": "0.01"}),
]


def sales(pattern: str, rows: list[tuple[str, dict[str, Any]]] = ROWS) -> Database:
    return filled(SALES, f"found: {pattern}", rows)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("{ count: Sale }", 4),
        ("{ sum: Sale.amount }", 10),
        ("{ min: Sale.amount }", 2),
        ("{ max: Sale.price }", Decimal("9.00")),
        ("{ avg: Sale.amount }", 10 / 3),
        ("{ sum: Sale.price }", Decimal("12.11")),
        ("{ sum: Sale.weight }", 0.75),
        ("{ max: Sale.made }", at("2024-05-20 00:00")),
        ("{ min: Sale.product.kind }", "a"),
    ],
)
def test_without_group_the_answer_is_a_value(pattern: str, expected: object) -> None:
    found = sales(pattern).read("found")
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("{ count: Sale }", 0), ("{ sum: Sale.price }", 0), ("{ min: Sale.price }", None), ("{ avg: Sale.price }", None)],
)
def test_of_nothing(pattern: str, expected: object) -> None:
    assert sales(pattern, []).read("found") == expected


def test_several_values_without_group_are_one_row() -> None:
    found = sales("{ from: Sale, compute: { revenue: sum(amount * price), lines: count() } }").read("found")
    assert found == {"revenue": Decimal("8.25"), "lines": 4}


def test_rows_whose_expression_is_missing_are_skipped_except_by_count() -> None:
    found = sales(
        "{ from: Sale, where: 'id >= 3', compute: { total: sum(amount + price), mean: avg(amount), lines: count() } }"
    ).read("found")
    assert found == {"total": Decimal("5.01"), "mean": 5.0, "lines": 2}


def test_missing_forms_its_own_group_last() -> None:
    found = sales("{ from: Sale, compute: { lines: count() }, group: { kind: product.kind } }").read("found")
    assert found == [{"kind": "a", "lines": 2}, {"kind": None, "lines": 2}]


def test_groups_can_be_truncations() -> None:
    found = sales("{ count: Sale, group: { week: week(made) } }").read("found")
    assert [line["week"] for line in found] == [date(2024, 5, 13), date(2024, 5, 20), None]
    hours = sales("{ count: Sale, group: { hour: hour(made) }, where: 'id = 1' }").read("found")
    assert [line["hour"] for line in hours] == [at("2024-05-13 10:00")]


def test_groups_are_ordered_then_cut() -> None:
    database = sales(
        "{ from: Sale, compute: { total: sum(amount) }, group: [product], order: total desc, limit: 2 }",
        [*ROWS, ("Sale", {"id": 5, "product": 7, "amount": 5, "price": 0})],
    )
    assert [(line["product"], line["total"]) for line in database.read("found")] == [(1, 5), (7, 5)]


def test_a_row_counts_once_however_many_children_match() -> None:
    assert sales("{ count: Product, where: 'sales.amount >= 1' }").read("found") == 1


def test_sums_are_exact_beyond_a_float_and_beyond_28_digits() -> None:
    rows: list[tuple[str, dict[str, Any]]] = [
        ("Sale", {"id": number, "product": 1, "amount": 2**62, "price": "9999999999999999.99"}) for number in range(5)
    ]
    assert sales("{ sum: Sale.amount }", rows).read("found") == 5 * 2**62
    found = sales("{ from: Sale, compute: { total: sum(amount * price * price) } }", rows).read("found")["total"]
    assert found.as_tuple().exponent == -4
    assert Fraction(found) * 10_000 == 5 * 2**62 * 999999999999999999**2


def test_an_average_is_rounded_once() -> None:
    rows: list[tuple[str, dict[str, Any]]] = [
        ("Sale", {"id": number, "product": 1, "amount": amount})
        for number, amount in enumerate([2**53, 1, 1, 2**53 + 2])
    ]
    assert sales("{ avg: Sale.amount }", rows).read("found") == float((2**54 + 4) / 4)
