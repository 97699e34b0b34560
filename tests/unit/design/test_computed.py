"""Computed fields in keys: what they cost at each write of a child, and why some cannot be there."""

from __future__ import annotations

import pytest

from keyplan.design import design
from keyplan.design.needs.computed import computed_behind, unkeyable
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.model import Model, path_of
from keyplan.plan.steps import Owned, Search
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


OWNED = """
  post: { find: Post, where: "post_id = :id", rate: 2k/s }
  comments_of: { count: Comment, where: "post = :post", rate: 500/s }
"""


@pytest.mark.parametrize("engine", BUILTIN)
def test_what_a_row_keeps_answers_who_asks_for_just_that(engine: str) -> None:
    write = "comment: { create: Comment, rate: 5/s }"
    found = design(model_of(POSTS.format(top="0.001%"), OWNED, write), get_engine(engine))
    node = found.plans["comments_of"].node
    assert isinstance(node, Owned)
    assert isinstance(node.row, Search)
    assert found.views[node.row.view].entity == "Post"
    assert node.columns == (("count", "comments_in"),)
    assert [search.view for search in searches(node.instead)] != [node.row.view]
    figures = found.plans["comments_of"].figures
    assert (figures.requests, figures.trips) == (1, 1)
    assert not any(view.measures for view in found.views.values()), "nothing counts what is counted already"
    # Without the field there is a counter, or the comments of a post are read: either costs more.
    plain = POSTS.format(top="0.001%").replace(", comments_in: count(comments)", "")
    without = design(model_of(plain, OWNED, write), get_engine(engine)).plans["comments_of"]
    assert not isinstance(without.node, Owned)


@pytest.mark.parametrize("engine", BUILTIN)
def test_no_row_is_asked_for_what_it_would_not_keep(engine: str) -> None:
    """Where writers would meet nothing is kept, and only the very same aggregate is."""
    write = "comment: { create: Comment, rate: 200/s }"
    met = design(model_of(POSTS.format(top="20%"), OWNED, write), get_engine(engine))
    assert not isinstance(met.plans["comments_of"].node, Owned)
    others = (
        OWNED
        + """
  short: { count: Comment, where: "post = :post and body = :body", rate: 500/s }
  most: { max: Comment.comment_id, where: "post = :post", rate: 500/s }
  each: { count: Comment, group: [post], where: "post = :post", rate: 500/s }
"""
    )
    write = "comment: { create: Comment, rate: 5/s }"
    found = design(model_of(POSTS.format(top="0.001%"), others, write), get_engine(engine))
    assert not any(isinstance(found.plans[name].node, Owned) for name in ("short", "most", "each"))


# behind references

CHAT = """
Person: {{ count: 1M, fields: {{ person_id: "uuid, key", name: string(20) }} }}
Talk: {{ count: 3M, fields: {{ talk_id: "uuid, key", title: string(20), last_at: max(messages.sent_at) }} }}
Member:
  count: 8M
  key: [talk, person]
  fields: {{ talk: "Talk, as members, max 50", person: "Person, as talks" }}
Message:
  count: 300M
  key: [talk, message_id]
  fields: {{ talk: "Talk, as messages, top {top}", message_id: ulid, sent_at: "timestamp, now, immutable" }}
"""
TALKS = """talks_of:
  find: Member
  where: person = :person
  order: talk.last_at desc
  page: 20
  with: [talk.title, talk.last_at]
  rate: 500/s
"""


def chats(top: str = "0.001%", said: str = "20/s") -> Model:
    return model_of(
        CHAT.format(top=top),
        TALKS,
        f"say: {{ create: Message, rate: {said} }}\njoin: {{ create: Member, rate: 1/s }}",
    )


@pytest.mark.parametrize("engine", BUILTIN)
def test_what_is_computed_behind_a_reference_is_copied_and_its_home_holds_it(engine: str) -> None:
    found = design(chats(), get_engine(engine))
    copying = [view for view in found.views.values() if computed_behind(chats(), view)]
    assert copying
    assert "last_at" in found.views[found.homes["Talk"][0]].holds
    touched = {touch.view for touch in found.writes["say"].touches}
    assert found.homes["Talk"][0] in touched
    assert any(view.entity == "Member" and view.name in touched for view in copying)
    # Nothing is fetched for it, row by row.
    assert found.plans["talks_of"].figures.requests <= 2


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_page_by_it_is_read_from_the_end_of_a_key_where_few_messages_are_said(engine: str) -> None:
    found = design(chats(said="1/s"), get_engine(engine))
    plan = found.plans["talks_of"]
    assert plan.sorted
    first, *_ = (one for one in searches(plan.node) if isinstance(one, Search))
    assert "talk.last_at" in [part.path for part in found.views[first.view].parts]


@pytest.mark.parametrize("engine", BUILTIN)
def test_nothing_is_copied_where_its_writers_would_meet(engine: str) -> None:
    found = design(chats(top="20%", said="200/s"), get_engine(engine))
    assert not any(computed_behind(chats(), view) for view in found.views.values())
    assert "last_at" not in found.views[found.homes["Talk"][0]].holds


def test_what_is_computed_further_away_says_why_it_is_in_no_key() -> None:
    model = model_of(
        """
A: { count: 1M, fields: { a: "int, key", n: count(bs) } }
B: { count: 1M, fields: { b: "int, key", a: "A, as bs" } }
C: { count: 9M, fields: { c: "int, key", b: "B, as cs" } }
""",
        "",
        "make: { create: C }",
    )
    assert unkeyable(model, "C", path_of("b.a.n", model, "C")) == (
        "'C.b.a.n' is computed behind more than one reference, and no key follows it there"
    )
