"""Rows that expire: gone at once for every read and conflict, whatever the engine has deleted by then."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from tests.conformance.conftest import Both
from tests.conformance.pair import NOON, Pair

MODEL = """
entities:
  Session:
    fields:
      sid: int, key
      name: string(8), unique
      user: User, as sessions, optional 90%
      seen: timestamp, optional 90%
      score: int, default 0
    ttl: TTL
  User:
    fields:
      uid: int, key
      online: count(sessions)
      best: max(sessions.score)
      total: sum(sessions.score)
  Click:
    fields:
      cid: int, key
      session: Session, as clicks, optional 50%
      who: string(8), optional 50%, from session.name
patterns:
  session: { find: Session, where: "sid = :sid" }
  by_name: { find: Session, where: "name = :name" }
  of_user: { find: Session, where: "user = :uid", order: score desc, page: 2 }
  many: { count: Session }
  many_of: { count: Session, where: "user = :uid" }
  sums: { sum: Session.score, group: [user] }
  user: { find: User, where: "uid = :uid" }
  click: { find: Click, where: "cid = :cid", with: [session.name] }
  clicks_named: { find: Click, where: "session.name = :name" }
  users_with: { find: User, where: "sessions.score >= :n" }
  place: { rank: Session, of: [sid], order: score desc }
writes:
  start: { create: Session }
  put: { upsert: Session }
  touch: { update: Session, set: { seen: now }, where: "sid = :sid" }
  forget: { update: Session, set: [seen], where: "sid = :sid" }
  rename: { update: Session, set: [name], where: "sid = :sid", return: [name] }
  score: { upsert: Session, set: [name], add: [score], where: "sid = :sid", return: [score] }
  must: { update: Session, add: [score], where: "sid = :sid", if: "score >= 0" }
  stop: { delete: Session, where: "sid = :sid", return: [name] }
  click_on: { create: Click }
  stop_all: { delete: Session, where: "user = :uid", rows: 3 }
"""


def sessions(both: Both, ttl: str = "30m") -> Pair:
    pair = both(MODEL.replace("TTL", ttl), [("User", {"uid": 1}), ("User", {"uid": 2})])
    pair.same("start", sid=1, name="a", user=1, seen=NOON, score=5)
    pair.same("start", sid=2, name="b", user=1, score=3)
    return pair


ARGUMENTS: dict[str, dict[str, Iterable[Any]]] = {
    "session": {"sid": (1, 2, 3)},
    "place": {"sid": (1, 2, 3)},
    "by_name": {"name": "abc"},
    "clicks_named": {"name": "abc"},
    "of_user": {"uid": (1, 2)},
    "many_of": {"uid": (1, 2)},
    "user": {"uid": (1, 2)},
    "many": {},
    "sums": {},
    "users_with": {"n": (0, 4)},
    "click": {"cid": (1, 2)},
}


def everything(pair: Pair) -> None:
    """Asks every pattern that the design serves."""
    assert ARGUMENTS.keys() == pair.model.patterns.keys()
    for pattern, arguments in ARGUMENTS.items():
        for values in product(*arguments.values()):
            if pair.serves(pattern):
                pair.same(pattern, **dict(zip(arguments, values, strict=True)))


def test_a_row_is_gone_when_its_time_is_up(both: Both) -> None:
    pair = sessions(both)
    pair.clock.advance(minutes=30, milliseconds=-1)
    assert pair.same("many_of", uid=1) == 2
    everything(pair)
    pair.clock.advance(milliseconds=1)
    assert pair.same("many_of", uid=1) == 0
    everything(pair)


def test_computed_fields_leave_out_what_has_expired(both: Both) -> None:
    pair = sessions(both)
    pair.clock.advance(minutes=10)
    pair.same("start", sid=3, name="c", user=1, score=1)
    pair.clock.advance(minutes=20)
    user = pair.same("user", uid=1)
    assert (user["online"], user["best"], user["total"]) == (1, 1, 1)
    everything(pair)


def test_a_key_and_a_unique_value_are_free_after_expiry(both: Both) -> None:
    pair = sessions(both)
    pair.conflict("start", sid=1, name="z")
    pair.conflict("start", sid=3, name="a")
    pair.clock.advance(minutes=30)
    pair.same("start", sid=3, name="a", user=2)
    pair.same("start", sid=1, name="b", user=2)
    assert pair.same("by_name", name="a")["sid"] == 3
    everything(pair)


def test_a_unique_value_can_be_taken_over_by_update_and_upsert(both: Both) -> None:
    pair = sessions(both)
    pair.clock.advance(minutes=20)
    pair.same("start", sid=3, name="c")
    pair.conflict("rename", sid=3, name="a")
    pair.clock.advance(minutes=10)
    assert pair.same("rename", sid=3, name="a") == {"name": "a"}
    pair.same("put", sid=2, name="c", user=1)
    everything(pair)


@pytest.mark.parametrize("seen", [{}, {"seen": NOON}], ids=["alive", "expired at once"])
def test_a_unique_value_can_be_taken_over_among_several_rows(both: Both, seen: dict[str, Any]) -> None:
    pair = both(SEEN, [("Cat", {"cid": 1, "name": "a"})])
    pair.clock.advance(hours=1)
    pair.same("all_of", put=[{"cid": 3, "name": "b"}, {"cid": 2, "name": "a", **seen}])
    for name in "ab":
        pair.same("named", name=name)
    pair.verified()


SEEN = """
entities:
  Cat: { ttl: 30m since seen, fields: { cid: "int, key", name: "string(4), unique", seen: "timestamp, now" } }
patterns:
  named: { find: Cat, where: "name = :name" }
writes:
  put: { upsert: Cat }
transactions:
  all_of: [put x2 max 3]
"""


def test_an_expired_row_that_comes_back_leaves_its_unique_value_to_who_has_it_now(both: Both) -> None:
    pair = sessions(both)
    pair.clock.advance(minutes=30)
    pair.same("start", sid=3, name="a", user=2, score=1)
    pair.conflict("put", sid=1, name="a", user=1, score=9)
    pair.conflict("score", sid=1, name="a", score=2)
    assert pair.same("by_name", name="a")["sid"] == 3
    everything(pair)


def test_an_expired_row_is_not_updated_or_deleted(both: Both) -> None:
    pair = sessions(both)
    pair.clock.advance(minutes=30)
    assert pair.same("rename", sid=1, name="z") is None
    assert pair.same("stop", sid=1) is None
    assert pair.same("stop_all", uid=1) == 0
    pair.conflict("must", sid=1, score=1)
    everything(pair)


def test_a_changing_upsert_starts_anew_after_expiry(both: Both) -> None:
    pair = sessions(both)
    assert pair.same("score", sid=1, name="a", score=2) == {"score": 7}
    pair.clock.advance(minutes=30)
    assert pair.same("score", sid=1, name="a", score=2) == {"score": 2}
    everything(pair)


def test_update_does_not_reset_the_time_and_upsert_does(both: Both) -> None:
    pair = sessions(both)
    pair.clock.advance(minutes=20)
    pair.same("rename", sid=1, name="c")
    pair.same("put", sid=2, name="b", user=1)
    pair.clock.advance(minutes=10)
    assert pair.same("session", sid=1) is None
    assert pair.same("session", sid=2) is not None
    everything(pair)


def test_since_counts_from_its_field(both: Both) -> None:
    pair = sessions(both, "30m since seen")
    pair.clock.advance(minutes=20)
    pair.same("touch", sid=1)
    pair.clock.advance(minutes=20)
    assert pair.same("session", sid=1) is not None
    pair.clock.advance(minutes=10)
    assert pair.same("session", sid=1) is None
    everything(pair)


def test_without_a_value_a_row_lives_forever(both: Both) -> None:
    pair = sessions(both, "30m since seen")
    pair.same("forget", sid=1, seen=None)
    pair.clock.advance(days=900)
    assert pair.same("session", sid=1) is not None
    assert pair.same("session", sid=2) is not None
    everything(pair)


def test_a_row_can_be_expired_from_the_start(both: Both) -> None:
    pair = sessions(both, "30m since seen")
    pair.clock.advance(hours=1)
    pair.same("start", sid=3, name="c", user=1, seen=NOON)
    assert pair.same("session", sid=3) is None
    everything(pair)
    pair.same("forget", sid=2, seen=NOON)
    everything(pair)


def test_references_to_expired_rows_dangle(both: Both) -> None:
    pair = sessions(both)
    pair.same("click_on", cid=1, session=1)
    assert pair.same("click", cid=1)["session"] == {"name": "a"}
    pair.clock.advance(minutes=30)
    assert pair.same("click", cid=1)["session"] == {"name": None}
    assert pair.same("clicks_named", name="a") == []
    assert pair.same("click_on", cid=2, session=1)["who"] is None
    everything(pair)
    pair.same("start", sid=1, name="new")
    assert pair.same("click", cid=1)["session"] == {"name": "new"}
    everything(pair)


def test_a_page_goes_on_behind_an_expired_parent(both: Both) -> None:
    """The copies of an expired parent are cleared, but the page goes on from where its entry stands."""
    model = """
    entities:
      Order: { fields: { oid: "int, key", total: int, seen: "timestamp, optional 10%" }, ttl: 1h since seen }
      Item: { key: [order, line], fields: { order: "Order, as items", line: int, sku: "string(4), distinct 4" } }
    patterns:
      with_sku: { find: Order, where: "items.sku = :sku", order: total, page: 2 }
    writes:
      put: { upsert: Order }
      add: { upsert: Item }
    """
    rows: list[tuple[str, dict[str, Any]]] = [("Item", {"order": oid, "line": 1, "sku": "a"}) for oid in range(5)]
    rows += [("Order", {"oid": oid, "total": oid, "seen": NOON if oid in (1, 2) else None}) for oid in range(5)]
    pair = both(model, rows)
    pair.clock.advance(hours=1)
    assert [row["oid"] for row in pair.same("with_sku", sku="a")] == [0, 3, 4]


PASSING = """
entities:
  Parent:
    ttl: 1h since seen
    fields:
      pid: int, key
      seen: timestamp
      name: string(8)
  Child:
    fields:
      cid: int, key
      parent: Parent, as children, optional 90%
      label: string(8), optional 90%, from parent.name
patterns:
  child: { find: Child, where: "cid = :cid", with: [parent.name] }
  named: { find: Child, where: "parent.name = :name", select: [cid], order: cid, page: 100, rate: 1000/s }
writes:
  family: { create: Parent, with: [children] }
"""


def test_nothing_is_copied_from_a_row_that_has_expired_before_it_came(both: Both) -> None:
    pair = both(PASSING)
    hour = timedelta(hours=1)
    pair.load(
        [
            ("Parent", {"pid": 1, "seen": NOON - 2 * hour, "name": "gone"}),
            ("Parent", {"pid": 2, "seen": NOON, "name": "here"}),
            *(("Child", {"cid": pid, "parent": pid}) for pid in (1, 2, 3)),
        ]
    )
    for cid in (1, 2, 3):
        pair.same("child", cid=cid)
    assert pair.same("child", cid=1)["label"] is None
    for name in ("gone", "here"):
        pair.same("named", name=name)
    pair.verified()


def test_nothing_is_copied_from_a_row_that_is_created_expired(both: Both) -> None:
    pair = both(PASSING)
    long_ago = NOON - timedelta(hours=2)
    pair.same("family", pid=1, seen=long_ago, name="gone", children=[{"cid": 1}, {"cid": 2, "label": "own"}])
    pair.same("family", pid=2, seen=NOON, name="here", children=[{"cid": 3}])
    for cid in (1, 2, 3):
        pair.same("child", cid=cid)
    for name in ("gone", "here"):
        pair.same("named", name=name)
    pair.verified()
