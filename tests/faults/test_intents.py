"""Writes that change more entries than one atomic request can: cut off at any point, somebody finishes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import keyplan
from keyplan.model.model import Model
from keyplan.store.store import Store
from tests.conftest import Lend
from tests.engines.harness import Harness
from tests.faults.applied import applied, made_on

FOLLOWERS = 230

MODEL = """
keyplan: 1
name: followers
entities:
  User:
    count: 1000
    fields: { user_id: "string(8), key", name: "string(20)" }
  Post:
    count: 1M
    fields: { post_id: "string(8), key", user: "User, as posts", body: "string(20)" }
patterns:
  posts: { find: Post, where: "user = :user", with: [user.name], order: post_id, page: 1000, rate: 5000/s, p99: 100ms }
  post: { find: Post, where: "post_id = :post", with: [user.name], rate: 5000/s, p99: 7ms }
writes:
  add_user: { create: User, rate: 1/day }
  rename: { update: User, set: [name], where: "user_id = :user", rate: 1/day }
  add: { create: Post, rate: 1/s }
  drop: { delete: User, with: [posts], where: "user_id = :user", rate: 1/day }
"""


class Killed(BaseException):
    """Stands for the end of the process: nobody catches it."""


class Fuse:
    """A port that sends so many rounds and then ends the process."""

    def __init__(self, port: Any, rounds: int) -> None:
        self.port = port
        self.left = rounds

    def send(self, round: Sequence[Any]) -> Sequence[Any]:
        if self.left == 0:
            raise Killed
        self.left -= 1
        found: Sequence[Any] = self.port.send(round)
        return found

    def close(self) -> None:
        self.port.close()


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """Every call is cut off at every request."""
    return quick_harness


@pytest.fixture
def model(harness: Harness) -> Model:
    return made_on(harness, MODEL)[0]


@pytest.fixture
def url(harness: Harness, lend: Lend) -> str:
    """A database to which the design is applied."""
    found = lend(MODEL)
    applied(harness, found, MODEL)
    return found


@pytest.fixture
def store(model: Model, url: str) -> Any:
    with keyplan.open(model, url) as store:
        store.add_user(user_id="u", name="old")
        store.load([("Post", {"post_id": f"p{n:04}", "user": "u", "body": "x"}) for n in range(FOLLOWERS)])
        yield store


def names(store: Store) -> list[str]:
    return [row["user"]["name"] for row in store.posts(user="u").rows]


def cut_off(store: Store, rounds: int, call: str, **arguments: Any) -> bool:
    """Calls until so many rounds are sent; True if that ended it."""
    port = store._port
    store._port = Fuse(port, rounds)
    try:
        getattr(store, call)(**arguments)
    except Killed:
        return True
    finally:
        store._port = port
    return False


def test_every_copy_follows(store: Store) -> None:
    store.rename(user="u", name="new")
    assert names(store) == ["new"] * FOLLOWERS
    assert store.post(post="p0000")["user"]["name"] == "new"
    assert store.verify().ok


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 6, 7, 9])
def test_the_next_writer_finishes(store: Store, rounds: int) -> None:
    cut_off(store, rounds, "rename", user="u", name="second")
    store.rename(user="u", name="third")
    assert names(store) == ["third"] * FOLLOWERS
    assert store.verify().ok


@pytest.mark.parametrize("rounds", [2, 3, 4, 5, 6, 8])
def test_verify_finishes(store: Store, rounds: int) -> None:
    cut_off(store, rounds, "rename", user="u", name="second")
    assert store.verify().ok
    assert len(set(names(store))) == 1


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 7])
def test_a_cascade_can_be_done_again(store: Store, rounds: int) -> None:
    """The row goes last, so that it is still there to be deleted."""
    cut_off(store, rounds, "drop", user="u")
    assert store.verify().ok
    store.drop(user="u")
    assert store.posts(user="u").rows == []
    assert store.verify().ok


# a row that others refer to before it is there


@pytest.fixture
def early(model: Model, url: str) -> Any:
    """Posts of somebody who has not joined yet."""
    with keyplan.open(model, url) as store:
        store.load([("Post", {"post_id": f"p{n:04}", "user": "u", "body": "x"}) for n in range(FOLLOWERS)])
        yield store


def test_a_created_row_is_followed_by_all_that_refer_to_it(early: Store) -> None:
    assert names(early) == [None] * FOLLOWERS
    early.add_user(user_id="u", name="first")
    assert names(early) == ["first"] * FOLLOWERS
    assert early.post(post="p0100")["user"]["name"] == "first"
    assert early.verify().ok


@pytest.mark.parametrize("rounds", range(1, 12))
def test_whoever_comes_next_finishes_a_create(early: Store, rounds: int) -> None:
    """Cut off anywhere, the row is there or not, and the next writer of it brings along all that copies from it."""
    cut_off(early, rounds, "add_user", user_id="u", name="first")
    try:
        early.add_user(user_id="u", name="first")
    except keyplan.ConflictError:
        early.rename(user="u", name="second")
    assert set(names(early)) in ({"first"}, {"second"})
    assert early.verify().ok


@pytest.mark.parametrize("rounds", range(1, 12))
def test_verify_finishes_a_create(early: Store, rounds: int) -> None:
    cut_off(early, rounds, "add_user", user_id="u", name="first")
    assert early.verify().ok
    assert set(names(early)) in ({None}, {"first"})
