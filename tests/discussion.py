"""A discussion whose posts keep their best comments, and calls that make them come, go, rise and fall."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

MODEL = """
entities:
  Author:
    count: 1k
    fields:
      author_id: int, key
      name: string(10)
  Post:
    count: 10k
    fields:
      post_id: int, key
      title: string(10)
      comment_count: count(comments)
  Comment:
    count: 1M
    fields:
      comment_id: int, key
      post: Post, as comments
      author: Author, as comments
      body: string(10), optional 90%
      score: int, default 0
      place: int, default 0
patterns:
  post:
    find: Post
    where: post_id = :post_id
    with: [{ comments: { order: "score desc, place", limit: 3 } }, comments.author.name]
    rate: 10k/s
  short:
    find: Post
    where: post_id = :post_id
    with: { comments: { order: "score desc, place", limit: 2, select: [score, body] } }
    rate: 1k/s
  worst: { find: Post, where: post_id = :post_id, with: { comments: { order: score, limit: 2 } }, rate: 1/s }
  comments: { find: Comment, where: post = :post_id, order: "score desc, place", page: 5, rate: 10/s }
  of_author: { find: Comment, where: author = :author_id, page: 20, consistency: strong, rate: 1/s }
writes:
  join: { create: Author, rate: 1/day }
  rename: { update: Author, set: [name], where: author_id = :author_id, rate: 1/day }
  leave: { delete: Author, where: author_id = :author_id, rate: 1/day }
  start: { create: Post, rate: 1/day }
  start_with: { create: Post, with: [comments], rate: 1/day }
  reopen: { upsert: Post, rate: 1/day }
  retitle: { update: Post, set: [title], where: post_id = :post_id, rate: 1/day }
  drop: { delete: Post, where: post_id = :post_id, rate: 1/day }
  purge: { delete: Post, with: [comments], where: post_id = :post_id, rate: 1/day }
  say: { create: Comment, rate: 1/day }
  say_again: { upsert: Comment, rate: 1/day }
  edit: { update: Comment, set: [body], where: comment_id = :comment_id, rate: 1/day }
  vote: { update: Comment, add: [score], where: comment_id = :comment_id, rate: 1/day }
  rank: { update: Comment, set: [score, place], where: comment_id = :comment_id, rate: 1/day }
  move: { update: Comment, set: [post], where: comment_id = :comment_id, rate: 1/day }
  sign: { update: Comment, set: [author], where: comment_id = :comment_id, rate: 1/day }
  erase: { delete: Comment, where: comment_id = :comment_id, rate: 1/day }
  silence: { delete: Comment, where: author = :author_id, rows: 4, rate: 1/day }
transactions:
  swap: [erase, say]
  tidy: [erase x3 max 5]
"""
POSTS, AUTHORS, COMMENTS = 3, 3, 12

Call = tuple[str, dict[str, Any]]


def rows() -> list[tuple[str, dict[str, Any]]]:
    """What there is at first: a post with nothing, one with some comments, and one with many."""
    found: list[tuple[str, dict[str, Any]]] = [
        ("Author", {"author_id": number, "name": f"a{number}"}) for number in range(AUTHORS)
    ]
    found += [("Post", {"post_id": number, "title": f"p{number}"}) for number in range(POSTS)]
    found += [("Comment", comment(number, 1 if number < 2 else 2, number % 3)) for number in range(9)]
    return found


def comment(number: int, post: int, score: int, **more: Any) -> dict[str, Any]:
    return {"comment_id": number, "post": post, "author": number % AUTHORS, "score": score, "place": number % 2, **more}


def reads() -> list[Call]:
    """Everything that is read, of every post."""
    of_posts = [(name, {"post_id": number}) for number in range(POSTS) for name in ("post", "short", "worst")]
    return [*of_posts, *(("comments", {"post_id": number}) for number in range(POSTS))]


def writes(seed: int, count: int) -> Iterator[Call]:
    """Calls at random, many of which meet the comments that are kept with their posts."""
    source = random.Random(seed)

    def new() -> dict[str, Any]:
        score, body = source.randrange(4), source.choice([None, "x", "y"])
        made = comment(source.randrange(COMMENTS), source.randrange(POSTS), score)
        return {**made, "author": source.randrange(AUTHORS), "body": body}

    for _ in range(count):
        post, author, one = source.randrange(POSTS), source.randrange(AUTHORS), source.randrange(COMMENTS)
        some = source.sample(range(COMMENTS), source.randrange(1, 5))
        below = [{name: value for name, value in comment(n, 0, n % 4).items() if name != "post"} for n in some]
        calls: list[Call] = [
            *[("say", new())] * 4,
            *[("say_again", new())] * 3,
            *[("erase", {"comment_id": one})] * 6,
            *[("vote", {"comment_id": one, "score": source.choice([-2, -1, 1, 2])})] * 4,
            ("rank", {"comment_id": one, "score": source.randrange(4), "place": source.randrange(3)}),
            ("rank", {"comment_id": one, "score": source.randrange(4), "place": source.randrange(3)}),
            ("edit", {"comment_id": one, "body": source.choice([None, "z", "w"])}),
            ("edit", {"comment_id": one, "body": source.choice([None, "z", "w"])}),
            *[("move", {"comment_id": one, "post": post})] * 2,
            ("sign", {"comment_id": one, "author": author}),
            ("silence", {"author_id": author}),
            ("rename", {"author_id": author, "name": source.choice("bcd")}),
            ("leave", {"author_id": author}),
            ("join", {"author_id": author, "name": source.choice("efg")}),
            ("start", {"post_id": post, "title": "new"}),
            ("start_with", {"post_id": post, "title": "full", "comments": below}),
            ("reopen", {"post_id": post, "title": source.choice("tuv")}),
            ("retitle", {"post_id": post, "title": source.choice("tuv")}),
            ("drop", {"post_id": post}),
            ("purge", {"post_id": post}),
            ("swap", {"erase": {"comment_id": one}, "say": new()}),
            ("tidy", {"erase": [{"comment_id": number} for number in some]}),
        ]
        yield source.choice(calls)
