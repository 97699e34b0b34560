"""Computed fields in keys: what they cost at each write of a child, and why some cannot be there."""

from __future__ import annotations

import pytest

from keyplan.design import design
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.model import Model
from keyplan.plan.steps import Search
from keyplan.plan.walk import searches
from tests.unit.design.nouns import model_of

BOARD = """
Player:
  count: 1M
  fields:
    pid: int, key
    name: string(20)
    score: sum(games.points)
Game:
  count: 50M
  {ttl}
  fields:
    gid: uuid, key
    player: Player, as games
    points: {points}
"""
TOP = "top: { find: Player, order: score desc, limit: 10, select: [name, score], rate: 100/s }"


def board(ttl: str = "", points: str = "int", rate: str = "5/s") -> Model:
    entities = BOARD.replace("{ttl}", ttl or "note: x").replace("{points}", points)
    if not ttl:
        entities = entities.replace("  note: x\n", "")
    return model_of(entities, TOP, f"play: {{ create: Game, rate: {rate} }}")


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_leaderboard_is_read_from_the_end_of_a_key(engine: str) -> None:
    found = design(board(), get_engine(engine))
    plan = found.plans["top"]
    (search,) = searches(plan.node)
    assert isinstance(search, Search)
    assert found.views[search.view].parts[0].path == "score"
    assert plan.figures.rows == 10
    home, _ = found.homes["Player"]
    assert "score" in found.views[home].holds


@pytest.mark.parametrize("engine", BUILTIN)
def test_every_write_of_a_child_pays_for_the_move(engine: str) -> None:
    found = design(board(), get_engine(engine))
    touched = {touch.view for touch in found.writes["play"].touches if touch.deletes}
    assert any(found.views[name].parts[0].path == "score" for name in touched)
    assert found.writes["play"].reads_row


@pytest.mark.parametrize(
    ("ttl", "points", "reason"),
    [
        ("ttl: 90d", "int", "rows of 'Game' expire"),
        ("", "float", "a sum of floats that is added to and taken from drifts"),
    ],
)
def test_what_cannot_be_kept_says_why(ttl: str, points: str, reason: str) -> None:
    found = design(board(ttl, points), get_engine("dynamodb"))
    assert f"'Player.score' cannot be part of a key: {reason}" in found.unserved["top"].reason
