"""Structures have to be worth their being there."""

from __future__ import annotations

from pathlib import Path

from keyplan.design import design
from keyplan.engines import get_engine
from keyplan.model.load import load_model, parse_model

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
