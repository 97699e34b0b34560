"""Structures have to be worth their being there."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyplan.design import design
from keyplan.design.problem import worth
from keyplan.engines import get_engine
from keyplan.model.load import load_model, parse_model
from keyplan.plan.view import Embed, Part, View

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_an_index_that_saves_next_to_nothing_is_not_made() -> None:
    """Scores that live under (player, board) are found by their player there; by their board an index finds them."""
    found = design(load_model(EXAMPLES / "leaderboard.yaml"), get_engine("mongodb"))
    keys = [[str(part) for part in view.parts] for view in found.views.values() if view.entity == "Score"]
    assert sum(key[:1] == ["player"] for key in keys) == 1


def test_what_is_written_counts_among_what_an_index_has_to_save_a_share_of() -> None:
    """A second order of the few entries that are escalated saves three of some seven hundred dollars a month."""
    model = parse_model("""
keyplan: 1
name: devices
entities:
  Device: { count: 50k, fields: { device_id: "string(8), key", kind: string(10) } }
  Log:
    count: 500M
    key: [device, at]
    fields:
      device: Device, as logs
      at: timestamp
      state: enum(normal 96%, warning1 1%, warning2 1%, warning3 1%, warning4 1%)
      operator: string(10), distinct 500
      escalated_to: string(10), distinct 50, optional 0.5%
      message: string(60)
patterns:
  logs: { find: Log, where: "device = :d", order: at desc, page: 20, rate: 50/s }
  logs_of_operator: { find: Log, where: "operator = :o and at between :a and :b", order: at, page: 50, rate: 5/s }
  escalated: { find: Log, where: "escalated_to = :s", order: at desc, page: 20, rate: 5/s }
  escalated_in_state: { find: Log, where: "escalated_to = :s and state = :st", order: at desc, page: 20, rate: 5/s }
writes:
  log: { create: Log, rate: 200/s }
  escalate: { update: Log, set: [escalated_to], where: "device = :d and at = :at", rate: 1/s }
""")
    found = design(model, get_engine("dynamodb"))
    assert sum(one.kind == "gsi" for one in found.structures) == 2


SEATS = """
keyplan: 1
name: seats
entities:
  User: { count: 1M, fields: { username: "string(12), key", avatar: string(40) } }
  Seat:
    count: 100M
    key: [hall, number]
    fields:
      hall: string(12), distinct 1M
      number: int
      user: User, as seats
      taken_at: timestamp, now
      kills: int, default 0
      note: string(60)
patterns:
  seats: { find: Seat, where: "hall = :hall", page: 50, rate: 100/s }
  seats_of_user: { find: Seat, where: "user = :user", order: taken_at desc, limit: 5, rate: RATE }
  user: { find: User, where: "username = :u", rate: 100/s }
writes:
  take: { create: Seat, rate: 50/s }
  score: { update: Seat, add: { kills: ":n" }, where: "hall = :hall and number = :number", rate: 50/s }
"""


@pytest.mark.parametrize(("rate", "trips"), [("50/s", 2), ("101/s", 1)])
def test_a_further_round_trip_has_to_save_a_share_of_the_whole(rate: str, trips: int) -> None:
    """An index of keys alone spares what `score` would write there, and takes a second request for the rows: at 50
    calls a second that saves a tenth of the whole, at 101 some four dollars in a thousand."""
    found = design(parse_model(SEATS.replace("RATE", rate)), get_engine("dynamodb"))
    assert found.plans["seats_of_user"].figures.trips == trips


def test_waiting_is_not_billed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, engine = parse_model(SEATS.replace("RATE", "50/s")), get_engine("dynamodb")
    found = design(model, engine).objective
    monkeypatch.setattr(worth, "WAIT_WORTH", 0.0)
    without = design(model, engine).objective
    assert found.value - found.carrying == pytest.approx(without.value - without.carrying)
    assert found.carrying > without.carrying


def test_rows_that_are_kept_inside_others_are_kept() -> None:
    """A further view of items, which are in their orders' collections anyway, is a copy."""
    model = parse_model("""
keyplan: 1
name: shop
entities:
  Order: { count: 1M, fields: { id: "uuid, key" } }
  Item: { count: 3M, key: [order, line], fields: { order: "Order, as items, max 9", line: int, sku: string(8) } }
""")
    embed = Embed("items", "Item", (Part("line"),), ("order", "line", "sku"))
    views = [
        View("Order", "Order", "table", (Part("id"),), (), ("id",), embeds=(embed,)),
        View("Item", "Item", "table", (Part("sku"),), (Part("order"), Part("line")), ("order", "line", "sku")),
    ]
    found = worth.copies_of_rows(model, get_engine("dynamodb").kinds, {view.name: view for view in views}, 1.0)
    assert list(found.variables) == ["copies.Item"]
