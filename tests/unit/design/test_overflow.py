"""Room for the children of nearly every row: how much is tried, how often it is not enough, who has none."""

from __future__ import annotations

from math import exp, inf
from typing import Any

import pytest

import keyplan
from keyplan.design.candidates.overflow import begins, chance_of_more, lengths, most_wanted, overflowing, rows_if_more
from keyplan.design.needs.need import need_of_pattern
from keyplan.design.statistics.derived import Statistics
from keyplan.model.model import Model
from keyplan.model.pattern import Order, Path, Select
from keyplan.plan.view import Embed, Part, View

MODEL = """
keyplan: 1
name: journal
entities:
  Post:
    {{ count: 1M, {post} fields: {{ post_id: "int, key", title: string(60), parent: "Post, as replies, max 1000" }} }}
  Comment:
    count: {comments}
    {comment}
    fields:
      comment_id: int, key
      post: Post, as comments, max {most}{skew}
      body: text(200)
      at: timestamp
patterns:
  post: {{ find: Post, where: "post_id = :post_id", with: [comments] }}
  some: {{ find: Post, where: "post_id = :post_id", with: {{ replies: {{ order: title, limit: 7 }} }} }}
"""
EMBED = Embed("comments", "Comment", (Part("comment_id"),), ("comment_id", "post", "body", "at"), limit=100)


def journal(comments: str = "12M", most: int = 50_000, skew: str = "", post: str = "", comment: str = "") -> Model:
    given = {"comments": comments, "most": most, "skew": skew, "post": post, "comment": comment}
    return keyplan.parse_model(MODEL.format(**given))


def tried(model: Model, role: str = "comments", wanted: float = inf) -> list[int]:
    target = model.entities["Post"].roles[role].entity
    return lengths(Statistics(model), "Post", Embed(role, target, (Part("x"),), ()), wanted)


def test_how_much_room_is_tried() -> None:
    assert tried(journal()) == [20, 50, 200]
    assert tried(journal("500k")) == [5, 10]
    assert tried(journal("100M")) == [100, 500, 1000]
    assert tried(journal(most=200)) == [20, 50]
    assert tried(journal(), wanted=50.0) == [20]


def test_there_is_none_for_children_that_expire_or_are_rows_like_their_parent() -> None:
    assert tried(journal(comment="ttl: 30d")) == []
    assert tried(journal(), "replies") == []


def test_what_is_wanted_with_rows() -> None:
    model = journal()
    needs = [need_of_pattern(model, pattern) for pattern in model.patterns.values()]
    assert most_wanted(needs) == {("Post", "comments"): inf, ("Post", "replies"): 7.0}


@pytest.mark.parametrize(
    ("more", "share"),
    [
        ({}, 50_000 / 12e6),
        ({"most": 90}, 0.0),
        ({"skew": ", skew zipf 1.0"}, 0.5),
        ({"post": "top: 5%,"}, 0.05),
    ],
    ids=["one giant", "none", "many", "a popular one"],
)
def test_how_often_there_may_be_more(more: dict[str, Any], share: float) -> None:
    chance = chance_of_more(Statistics(journal(**more)), "Post", EMBED)
    assert chance - exp(-100 / 12) == pytest.approx(share, rel=0.35)


def test_how_many_there_are_then() -> None:
    assert rows_if_more(Statistics(journal()), "Post", EMBED) == 112


def test_what_can_be_answered_unless_it_is_full() -> None:
    model = journal()

    def able(columns: tuple[str, ...], limit: int | None = None, by: str = "at", embed: Embed = EMBED) -> bool:
        return begins(model, "Post", embed, Select(columns, {}, (Order(Path((), by)),), limit))

    short = Embed("comments", "Comment", (Part("comment_id"),), ("comment_id", "post", "body"), limit=100)
    assert able(("body",))
    assert able(("body",), 101)
    assert not able(("body",), 100)  # whoever cuts them cannot see any more that there were as many
    assert not able(("at",), embed=short)
    assert not able(("body",), embed=short)
    assert able(("body",), by="comment_id", embed=short)


def test_the_forms_of_a_view() -> None:
    model = journal()
    whole = Embed("comments", "Comment", (Part("comment_id"),), ("comment_id",))
    view = View("v", "Post", "collection", (), (Part("post_id"),), ("post_id",), (whole,))
    forms = list(overflowing(Statistics(model), view, ["comments"], {("Post", "comments"): inf}))
    assert [str(embed) for form in forms for embed in form.embeds] == [f"first {n} comments" for n in (20, 50, 200)]
    assert list(overflowing(Statistics(model), view, ["comments"], {})) == []
