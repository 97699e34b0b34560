"""Structures have to be worth their being there."""

from __future__ import annotations

from pathlib import Path

from keyplan.design import design
from keyplan.engines import get_engine
from keyplan.model.load import load_model

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_an_index_that_saves_next_to_nothing_is_not_made() -> None:
    """Scores that live under (player, board) are found by their player there; by their board an index finds them."""
    found = design(load_model(EXAMPLES / "leaderboard.yaml"), get_engine("mongodb"))
    keys = [[str(part) for part in view.parts] for view in found.views.values() if view.entity == "Score"]
    assert sum(key[:1] == ["player"] for key in keys) == 1
