"""The newest posts of all whom somebody follows: gathered at each call, whoever comes, goes and is followed."""

from __future__ import annotations

from typing import Any

from tests.conformance.conftest import Both
from tests.conformance.pair import at

MODEL = """
entities:
  User: { fields: { uid: "int, key", name: "string(8), default x" } }
  Follow:
    key: [follower, followed]
    fields: { follower: "User, as follows, max 50", followed: "User, as followers" }
  Post: { fields: { pid: "int, key", author: "User, as posts", text: "string(8), default y", at: timestamp } }
patterns:
  timeline: { find: Post, where: "author.followers.follower = :me", order: at desc, page: 3 }
  newest: { find: Post, where: "author.followers.follower = :me", order: at desc, limit: 4, with: [author.name] }
writes:
  join: { upsert: User }
  leave: { delete: User, where: "uid = :uid" }
  follow: { create: Follow }
  unfollow: { delete: Follow, where: "follower = :a and followed = :b" }
  post: { create: Post }
  edit: { update: Post, set: [text, at], where: "pid = :pid" }
  remove: { delete: Post, where: "pid = :pid" }
"""

ROWS: list[tuple[str, dict[str, Any]]] = [
    *(("User", {"uid": uid}) for uid in range(5)),
    *(("Follow", {"follower": one, "followed": other}) for one, other in ((0, 1), (0, 2), (1, 0), (2, 1), (3, 9))),
    *(("Post", {"pid": n, "author": n % 4, "at": at(f"2052-05-0{1 + n % 7}")}) for n in range(12)),
    ("Post", {"pid": 20, "author": 9, "at": at("2052-05-09")}),
]


def test_a_feed_is_that_of_the_reference(both: Both) -> None:
    writes: list[tuple[str, dict[str, Any]]] = [
        ("post", {"pid": 30, "author": 1, "at": at("2052-06-01")}),
        ("follow", {"follower": 0, "followed": 3}),
        ("unfollow", {"a": 0, "b": 2}),
        ("edit", {"pid": 1, "text": "z", "at": at("2052-07-01")}),
        ("remove", {"pid": 5}),
        ("leave", {"uid": 1}),
        ("join", {"uid": 9}),
    ]
    reads = [(name, {"me": uid}) for name in ("timeline", "newest") for uid in (0, 1, 2, 3, 8)]
    both(MODEL, ROWS).stays_right(writes, reads)
