"""Calls: real signatures, helpful errors in the reference's words, consistency, explain and settle."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import keyplan
from keyplan.errors import ArgumentError, UnavailableError
from tests.conformance.pair import Pair, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  User:
    fields:
      uid: uuid, key
      name: string(8)
      level: int, default 1
      made: timestamp, now
      nick: string(8), optional 50%
      tags: set(string(4), avg 1)
      posts_made: count(posts)
  Post:
    key: [user, number]
    fields:
      user: User, as posts
      number: int
      text: string(20), optional 50%
patterns:
  user: { find: User, where: "uid = :uid" }
  strong_user: { find: User, where: "uid = :uid", consistency: strong }
  session_user: { find: User, where: "uid = :uid", consistency: session }
  by_name: { find: User, where: "name = :name and level between :low and :high", order: level, page: 5, note: By name. }
  top: { find: User, order: level desc, limit: 3 }
  leveled: { find: User, where: "level in :levels", limit: 9, order: level }
  post: { find: Post, where: "user = :user and number = :number" }
  many: { count: User, where: "name = :name" }
  many_stale: { count: User, where: "name = :name", stale: 1h }
writes:
  join: { create: User }
  rename: { update: User, set: [name], where: "uid = :uid" }
  write: { create: Post }
  drop: { delete: User, where: "uid = :uid" }
transactions:
  both: [join, write x1 max 2]
"""
ROWS = [("User", {"uid": "00000000-0000-0000-0000-00000000000a", "name": "ann"})]
UID = ROWS[0][1]["uid"]


def parameters(method: Any) -> dict[str, bool]:
    return {name: one.default is inspect.Parameter.empty for name, one in inspect.signature(method).parameters.items()}


def test_patterns_have_real_signatures(reads: Pair) -> None:
    found = parameters(reads.store.by_name)
    assert found == {
        "name": True, "low": True, "high": True, "cursor": False, "consistency": False, "explain": False,
    }  # fmt: skip
    assert "cursor" not in parameters(reads.store.top)
    assert all(one.kind is one.KEYWORD_ONLY for one in inspect.signature(reads.store.by_name).parameters.values())


def test_writes_have_real_signatures(reads: Pair) -> None:
    found = parameters(reads.store.join)
    assert [name for name, required in found.items() if required] == ["name"]
    assert "posts_made" not in found
    assert parameters(reads.store.rename) == {"uid": True, "name": True, "explain": False}
    assert list(parameters(reads.store.both))[:2] == ["join", "write"]


def test_methods_say_what_they_do(reads: Pair) -> None:
    assert reads.store.by_name.__doc__ == "By name."
    assert "User" in (reads.store.user.__doc__ or "")
    assert all("(" + "value=" not in (getattr(reads.store, name).__doc__ or "") for name in reads.model.calls)
    assert reads.store.user.__name__ == "user"
    assert "by_name" in dir(reads.store)


def test_an_unknown_name_is_an_attribute_error_with_the_nearest(reads: Pair) -> None:
    with pytest.raises(AttributeError, match="no pattern, write or transaction 'by_nam'; did you mean 'by_name'"):
        _ = reads.store.by_nam


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("user", {}, "missing argument 'uid'"),
        ("user", {"uid": None}, "'uid' is None"),
        ("user", {"uid": 5}, "'uid'"),
        ("user", {"uid": "nonsense"}, "'uid'"),
        ("user", {"uid": UID, "nam": "x"}, "unknown argument 'nam'"),
        ("user", {"uid": UID, "cursor": "x"}, "unknown argument 'cursor'"),
        ("by_name", {"nam": "x", "low": 1, "high": 2}, "did you mean 'name'"),
        ("by_name", {"name": "x"}, "missing arguments 'low', 'high'"),
        ("by_name", {"name": "x", "low": "one", "high": 2}, "'low'"),
        ("by_name", {"name": "x", "low": 2**63, "high": 2}, "'low'"),
        ("by_name", {"name": "x" * 513, "low": 1, "high": 2}, "'name'"),
        ("by_name", {"name": {"$gt": ""}, "low": 1, "high": 2}, "'name'"),
        ("by_name", {"name": ["x"], "low": 1, "high": 2}, "'name'"),
        ("leveled", {"levels": 5}, "'levels'"),
        ("leveled", {"levels": "12"}, "'levels'"),
        ("leveled", {"levels": [1, None]}, "'levels'"),
        ("leveled", {"levels": [1, "x"]}, "'levels'"),
        ("join", {}, "missing argument 'name'"),
        ("join", {"name": None}, "'name' is None"),
        ("join", {"name": "x", "level": None}, "'level' is None"),
        ("join", {"name": "x", "posts_made": 5}, "'posts_made'"),
        ("join", {"name": "x", "lvl": 5}, "'lvl'"),
        ("rename", {"uid": UID}, "missing argument 'name'"),
        ("rename", {"uid": UID, "name": None}, "'name'"),
        ("write", {"user": UID}, "'number'"),
        ("write", {"user": "x", "number": 1}, "'user'"),
        ("drop", {"user": UID}, "'uid'"),
    ],
)
def test_wrong_arguments(reads: Pair, name: str, arguments: dict[str, Any], said: str) -> None:
    message = reads.refused(name, **arguments)
    assert message.startswith(f"{name}: ")
    assert said in message


def test_arguments_are_given_by_name(reads: Pair) -> None:
    with pytest.raises(ArgumentError, match="user: arguments are given by name, as name=value; it takes 'uid'"):
        reads.store.user(UID)


def test_a_call_may_lower_the_consistency(reads: Pair) -> None:
    for level in ("eventual", "session", "strong"):
        assert reads.store.strong_user(uid=UID, consistency=level)["name"] == "ann"
    assert reads.store.session_user(uid=UID, consistency="eventual")["name"] == "ann"


def test_raising_the_consistency_beyond_the_plan_is_an_error_at_once(reads: Pair) -> None:
    if not reads.serves("many_stale"):
        reads.unserved("many_stale", name="x")
        return
    with pytest.raises(ArgumentError, match="many_stale: its plan reads with eventual consistency"):
        reads.store.many_stale(name="x", consistency="strong")


def test_an_unknown_consistency_is_refused(reads: Pair) -> None:
    with pytest.raises(ArgumentError, match="consistency is one of eventual, session, strong"):
        reads.store.user(uid=UID, consistency="perfect")


def test_explain_returns_the_answer_and_its_steps(reads: Pair) -> None:
    answer, done = reads.store.user(uid=UID, explain=True)
    assert answer == reads.same("user", uid=UID)
    assert done.requests >= done.rounds >= 1
    assert done.steps
    assert {"op", "view", "requests", "rows"} <= set(done.steps[0])
    page, done = reads.store.by_name(name="ann", low=0, high=9, explain=True)
    assert len(page.rows) == 1
    assert done.rows >= 1


def test_explain_of_writes(harness: Harness) -> None:
    with opened(parsed(MODEL), harness.url(), ROWS) as pair:
        answer, done = pair.store.join(name="bob", explain=True)
        assert pair.store.user(uid=answer["uid"])["name"] == "bob"
        assert done.requests >= 1
        answer, done = pair.store.both(join={"name": "c"}, write=[], explain=True)
        assert "uid" in answer["join"]
        answer, done = pair.store.rename(uid=UID, name="z", explain=True)
        assert answer is None
        assert done.requests >= 1


def test_settle_returns(reads: Pair) -> None:
    assert reads.store.settle() is None


def test_the_store_knows_its_model_and_design(reads: Pair) -> None:
    assert reads.store.model is reads.model
    assert reads.store.design.model == "test"
    assert repr(reads.store) == f"<Store test on {reads.store.design.engine}>"


def test_a_closed_store_refuses_calls(harness: Harness) -> None:
    with opened(parsed(MODEL), harness.url(), ROWS) as pair:
        pair.store.close()
        pair.store.close()
        with pytest.raises(UnavailableError):
            pair.store.user(uid=UID)


def test_a_design_that_was_not_applied_is_refused(harness: Harness) -> None:
    model = parsed(MODEL)
    other = parsed(MODEL.replace("  top:", "  tip:"))
    url = harness.url()
    keyplan.apply(model, url)
    with pytest.raises(keyplan.DesignMismatchError):
        keyplan.open(other, url)


def test_a_recorded_design_is_found_again(harness: Harness) -> None:
    model = parsed(MODEL)
    url = harness.url()
    keyplan.apply(model, url)
    with keyplan.open(model, url) as first:
        uid = first.join(name="x")["uid"]
    with keyplan.open(model, url) as second:
        assert second.user(uid=uid)["name"] == "x"
        assert second.design.views == first.design.views
    assert keyplan.apply(model, url) == []
