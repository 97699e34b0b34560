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


# kept to be read

POSTS = """
Post: {{ count: 1M, fields: {{ post_id: "int, key", title: string(40), comments_in: count(comments) }} }}
Comment: {{ count: 20M, fields: {{ comment_id: "int, key", post: "Post, as comments, top {top}", body: string(80) }} }}
"""


def posts(top: str = "0.001%", written: str = "5/s") -> Model:
    return model_of(
        POSTS.format(top=top),
        'post: { find: Post, where: "post_id = :id", rate: 2k/s }',
        f"comment: {{ create: Comment, rate: {written} }}",
    )


@pytest.mark.parametrize("engine", BUILTIN)
def test_what_is_read_far_more_often_than_it_changes_is_kept_with_its_row(engine: str) -> None:
    found = design(posts(), get_engine(engine))
    assert "comments_in" in found.views[found.homes["Post"][0]].holds
    assert found.plans["post"].figures.requests == 1


@pytest.mark.parametrize("engine", BUILTIN)
def test_nothing_is_kept_where_its_writers_would_meet(engine: str) -> None:
    found = design(posts(top="20%", written="200/s"), get_engine(engine))
    assert "comments_in" not in found.views[found.homes["Post"][0]].holds
