"""How often calls are made together with others, and what that and rare entries make of the price of a write."""

from __future__ import annotations

import pytest

import keyplan
from keyplan.design.statistics.together import more_than_said, shares_in_transactions
from keyplan.model.model import Model
from tests.unit.design.nouns import model_of

ENTITIES = """
Account: { count: 1M, fields: { account_id: "int, key", branch: int, balance: int } }
"""
PATTERNS = """
account: { find: Account, where: "account_id = :account_id", rate: 10/s }
"""
WRITES = """
pay: { update: Account, add: [balance], where: "account_id = :account_id", rate: 100/s }
note: { create: Account, rate: 10/s }
"""


def model(transactions: str, writes: str = WRITES) -> Model:
    return model_of(ENTITIES, PATTERNS, writes, transactions)


def units(found: Model, write: str) -> float:
    return keyplan.design(found, "dynamodb").writes[write].figures.units["write units"]


@pytest.mark.parametrize(
    ("transactions", "shares"),
    [
        ("", {}),
        ("both: [note, pay]", {"note": 1.0, "pay": 0.1}),
        ("both: [note, pay x5 max 9]", {"note": 1.0, "pay": 0.5}),
        ("both: { writes: [note, pay], rate: 1/s }", {"note": 0.1, "pay": 0.01}),
        ("both: { writes: [note, pay], rate: 1/s }\nagain: [note, pay]", {"note": 1.0, "pay": 0.11}),
        ("alone: [pay]", {}),
        ("some: [pay x2 max 9]", {"pay": 1.0}),
    ],
)
def test_the_share_of_calls_in_transactions(transactions: str, shares: dict[str, float]) -> None:
    assert shares_in_transactions(model(transactions)) == pytest.approx(shares)


def test_each_item_costs_twice_in_a_transaction() -> None:
    assert units(model(""), "pay") == pytest.approx(1.0)
    assert units(model("both: [note, pay x5 max 9]"), "pay") == pytest.approx(1.5)
    assert units(model("some: [pay x2 max 9]"), "pay") == pytest.approx(2.0)


def test_a_transaction_that_calls_more_often_than_its_write_says_is_told() -> None:
    assert list(more_than_said(model("both: [note, pay x10 max 99]"))) == []
    (found,) = more_than_said(model("both: [note, pay x20 max 99]"))
    assert found.path == "writes.pay"
    assert "rate 100/s, but transactions call it 200/s" in found.message


def test_rows_that_are_changed_one_by_one_are_no_transaction() -> None:
    wide = 'leave: { delete: Account, where: "branch = :branch", rows: 10, rate: 1/s }'
    assert units(model("", wide), "leave") == pytest.approx(20.0), "ten items, and ten entries of an index"


def test_what_is_returned_in_transactions_is_read_once_though_a_view_wants_it_too() -> None:
    """Each call is in a transaction, and each moves an item by what it has read: one read serves both."""
    patterns = f"""{PATTERNS.strip()}
of_branch: {{ find: Account, where: "branch = :branch", order: balance, page: 5, rate: 500/s, consistency: strong }}
"""
    move = 'move: { update: Account, set: [branch], where: "account_id = :account_id", return: [balance], rate: 10/s }'
    found = model_of(ENTITIES, patterns, move, "both: [move x2 max 9]")
    design = keyplan.design(found, "dynamodb")
    assert design.objective.value > 0, "a number"
    assert len([view for view in design.views.values() if view.kind == "table"]) == 2
    figures = design.writes["move"].figures
    assert (figures.requests, figures.units["read units"]) == (pytest.approx(2.0), pytest.approx(1.0))
