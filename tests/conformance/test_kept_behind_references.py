"""What is computed behind a reference comes with the row there that keeps it; of rows that are gone it is worked out.

A computed value depends on its key alone: likes of a post that is gone are still counted wherever the post is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

from keyplan.plan.design import Design
from keyplan.plan.steps import Attach, Drive, Extend, Fold, Node, Then
from tests.conformance.conftest import Both
from tests.conformance.pair import at, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  Author:
    count: 10k
    fields: { aid: "int, key", name: "string(8), default x", posts_of: count(posts), best: max(posts.score) }
  Post:
    count: 100k
    fields:
      pid: int, key
      author: Author, as posts, optional 90%
      text: "string(80), default x"
      score: int, optional 80%
      likes_in: count(likes)
      weight: sum(likes.weight)
      last: max(likes.at)
      first: min(likes.at)
  Like:
    count: 1M
    key: [post, fan]
    fields: { post: "Post, as likes", fan: int, weight: "int, default 1", at: "timestamp, optional 90%" }
  Entry:
    count: 500M
    key: [reader, number]
    fields: { reader: "string(4), distinct 1M", number: int, post: "Post, as entries, optional 90%" }
  Shelf: { count: 100M, fields: { sid: "int, key", name: "string(8), default x" } }
  Spot:
    count: 500M
    key: [shelf, place]
    fields: { shelf: "Shelf, as spots, max 20", place: int, post: "Post, as spots", author: "Author, optional 50%" }
patterns:
  post: { find: Post, where: "pid = :pid", RARE }
  feed: { find: Entry, where: "reader = :reader", order: number desc, page: 2, with: [post.text, post.likes_in], OFTEN }
  sums: { find: Entry, where: "reader = :r", order: number, page: 3, with: [post.weight, post.last, post.text], OFTEN }
  liked:
    find: Entry
    where: reader = :reader and post.likes_in >= :n
    order: number
    page: 2
    with: [post.text]
    OFTEN
  entry: { find: Entry, where: "reader = :reader and number = :no", with: [post.first, post.author.posts_of], OFTEN }
  shelf: { find: Shelf, where: "sid = :sid", with: [spots.post.weight, spots.post.text, spots.author.best], OFTEN }
  spot: { find: Spot, where: "shelf = :sid and place = :place", with: [post.last, author.posts_of, author.name], OFTEN }
writes:
  join: { upsert: Author }
  write: { create: Post }
  again: { upsert: Post }
  sign: { update: Post, set: [author, score], where: "pid = :pid" }
  drop: { delete: Post, where: "pid = :pid" }
  like: { create: Like }
  mend: { update: Like, set: [weight, at], where: "post = :pid and fan = :fan" }
  unlike: { delete: Like, where: "post = :pid and fan = :fan" }
  spread: { create: Entry }
  turn: { update: Entry, set: [post], where: "reader = :reader and number = :number" }
  leave: { delete: Author, where: "aid = :aid" }
  put: { create: Spot }
""".replace("OFTEN", "rate: 500/s").replace("RARE", "rate: 1/s")

ROWS: list[tuple[str, dict[str, Any]]] = [
    *(("Author", {"aid": n, "name": f"a{n}"}) for n in range(3)),
    *(("Post", {"pid": n, "author": n % 5, "text": f"t{n}", "score": n * 3 % 7}) for n in range(6)),
    *(("Like", {"post": n % 8, "fan": n, "weight": n % 4, "at": at(f"2052-05-{1 + n:02}")}) for n in range(20)),
    ("Like", {"post": 7, "fan": 50}),
    *(("Entry", {"reader": "ab"[n % 2], "number": n, "post": n % 9}) for n in range(12)),
    ("Entry", {"reader": "a", "number": 30}),
    *(("Shelf", {"sid": n}) for n in range(2)),
    *(("Spot", {"shelf": n % 3, "place": n, "post": n, "author": n % 4}) for n in range(9)),
    ("Spot", {"shelf": 1, "place": 20, "post": 7}),
]

READS: list[tuple[str, dict[str, Any]]] = [
    *(("post", {"pid": pid}) for pid in (0, 5, 7)),
    *(("feed", {"reader": reader}) for reader in "abc"),
    *(("sums", {"r": reader}) for reader in "abc"),
    *(("liked", {"reader": reader, "n": n}) for reader in "ab" for n in (0, 1, 3)),
    *(("entry", {"reader": "ab"[n % 2], "no": n}) for n in (0, 6, 7, 8, 30, 77)),
    *(("shelf", {"sid": sid}) for sid in range(3)),
    *(("spot", {"sid": place % 3, "place": place}) for place in (0, 3, 7, 8, 20)),
]

WRITES: list[tuple[str, dict[str, Any]]] = [
    ("like", {"post": 0, "fan": 90, "weight": 50, "at": at("2052-06-01")}),
    ("like", {"post": 8, "fan": 91, "weight": 7}),
    ("write", {"pid": 7, "author": 1, "text": "late"}),
    ("drop", {"pid": 1}),
    ("unlike", {"pid": 1, "fan": 9}),
    ("again", {"pid": 1, "author": 4, "score": 40}),
    ("mend", {"pid": 0, "fan": 90, "weight": -3, "at": None}),
    ("turn", {"reader": "a", "number": 0, "post": 8}),
    ("turn", {"reader": "a", "number": 2, "post": None}),
    ("sign", {"pid": 2, "author": 0, "score": None}),
    ("join", {"aid": 4}),
    ("leave", {"aid": 0}),
    ("spread", {"reader": "c", "number": 1, "post": 7}),
    ("put", {"shelf": 0, "place": 40, "post": 8, "author": 0}),
]


def test_values_are_those_of_the_reference_whether_the_row_is_there_or_not(both: Both) -> None:
    both(MODEL, ROWS).stays_right(WRITES, READS)


def test_they_are_taken_from_the_rows_that_keep_them(harness: Harness) -> None:
    """Too many rows refer to each post and author to be changed with it, so that the posts and authors keep the values
    themselves."""
    model = replace(parsed(MODEL), targets=harness.targets)
    with opened(model, harness.url(), ROWS) as pair:
        told = taken_along(pair.store.design)
        assert {name for name, _, _ in told} == {"feed", "sums", "liked", "entry", "shelf", "spot"}
        places = {((), "post"), ((), "author")}
        if any(view.embeds for view in pair.store.design.views.values()):
            places |= {(("spots",), "post"), (("spots",), "author")}
        assert {(under, role) for _, under, role in told} >= places
        pair.stays_right(WRITES, READS)


def taken_along(design: Design) -> set[tuple[str, tuple[str, ...], str]]:
    """The patterns, and where in them, that take what is computed from rows behind references."""
    return {
        (name, add.under, add.role) for name, plan in design.plans.items() for add in attached(plan.node) if add.if_gone
    }


def attached(node: Node) -> Iterator[Attach]:
    """Everything that a plan adds to rows."""
    if isinstance(node, Extend):
        yield from attached(node.rows)
        for add in node.adds:
            yield add
            yield from attached(add.plan)
    elif isinstance(node, Fold):
        yield from attached(node.rows)
    elif isinstance(node, Drive | Then):
        for part in (node.outer, node.inner) if isinstance(node, Drive) else (node.first, node.second):
            yield from attached(part)


FEED = """
entities:
  Post: { count: 100k, fields: { post_id: "uuid, key", text: string(200), likes_in: count(likes) } }
  Like: { count: 1M, key: [post, fan], fields: { post: "Post, as likes, top 1%", fan: uuid } }
  Entry:
    count: 500M
    key: [reader, at]
    fields: { reader: "uuid, distinct 1M", at: timestamp, post: Post }
patterns:
  feed: { find: Entry, where: "reader = :r", order: at desc, page: 20, with: [post.text, post.likes_in], rate: 200/s }
  likes: { find: Entry, where: "reader = :r", order: at desc, page: 20, with: [post.likes_in], rate: 50/s }
  one: { find: Entry, where: "reader = :r and at = :at", with: [post.likes_in], rate: 50/s }
writes:
  like: { create: Like, rate: 2/s }
  write: { create: Post, rate: 5/s }
  spread: { create: Entry, rate: 20/s }
"""


def test_a_page_takes_the_round_trips_that_the_design_says_and_one_more_if_a_row_is_gone(harness: Harness) -> None:
    model = replace(parsed(FEED), targets=harness.targets)
    with opened(model, harness.url()) as pair:
        store = pair.store
        assert "feed" in {name for name, _, _ in taken_along(store.design)}
        reader, *fans = (pair.same("write", text="x")["post_id"] for _ in range(3))
        for number in range(20):
            post = pair.same("write", text=f"t{number}")["post_id"]
            pair.same("spread", reader=reader, at=at(f"2052-05-01 10:{number:02}"), post=post)
            for fan in fans[: number % 3]:
                pair.same("like", post=post, fan=fan)
        calls = [
            ("feed", {"r": reader}),
            ("likes", {"r": reader}),
            ("one", {"r": reader, "at": at("2052-05-01 10:04")}),
        ]
        for name, arguments in calls:
            pair.same(name, **arguments)
            _, done = getattr(store, name)(**arguments, explain=True)
            figures = store.design.plans[name].figures
            assert (done.requests, done.rounds) == (figures.requests, figures.trips), name
        nobody = UUID(int=77)
        pair.same("spread", reader=reader, at=at("2052-05-01 11:00"), post=nobody)
        for likes in range(2):
            (row, *_) = pair.same("feed", r=reader)
            assert (row["post"]["text"], row["post"]["likes_in"]) == (None, likes)
            _, done = store.feed(r=reader, explain=True)
            assert done.rounds == store.design.plans["feed"].figures.trips + 1
            pair.same("like", post=nobody, fan=fans[likes])
