"""A process that ends behind the create of a row, or a change of one, which others copy from: who finishes it, and what
only `verify` finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

import keyplan
from keyplan.store.store import Store
from tests.conftest import Lend
from tests.engines.harness import Harness
from tests.faults.applied import applied
from tests.faults.test_intents import FOLLOWERS, Fuse, Killed
from tests.faults.test_intents import MODEL as WITHOUT_NOTES

MODEL = WITHOUT_NOTES.replace('name: "string(20)" }', 'name: "string(20)", note: "string(20), optional 50%" }').replace(
    "  drop:",
    """  rewrite: { update: User, set: [name, note], where: "user_id = :user", rate: 1/day }
  jot: { update: User, set: [note], where: "user_id = :user", rate: 1/day }
  drop:""",
)
ROUNDS = 12


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """Every call is cut off at every request."""
    return quick_harness


@pytest.fixture
def store(harness: Harness, lend: Lend) -> Any:
    url = lend(MODEL)
    model, design = applied(harness, url, MODEL)
    with keyplan.open(model, url, design=design) as store:
        yield store


class Meeting(Fuse):
    """Before the first round that writes something, others are at work."""

    def __init__(self, store: Store, rounds: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(store._port, rounds)
        self.store, self.meanwhile = store, meanwhile
        self.codec: Any = store._core.codec
        self.write = self.codec.write
        self.is_writing = False
        self.codec.write = self.noted

    def noted(self, edits: Any) -> Any:
        self.is_writing = True
        return self.write(edits)

    def send(self, round: Sequence[Any]) -> Sequence[Any]:
        if self.is_writing:
            self.is_writing, self.codec.write = False, self.write
            self.store._port = self.port
            self.meanwhile()
            self.store._port = self
        return super().send(round)


def cut_off(store: Store, rounds: int, meanwhile: Callable[[], None], call: str, **arguments: Any) -> None:
    """Calls until so many rounds are sent, while others are at work."""
    meeting = Meeting(store, rounds, meanwhile)
    store._port = meeting
    try:
        with suppress(Killed):
            getattr(store, call)(**arguments)
    finally:
        store._port, meeting.codec.write = meeting.port, meeting.write


def posts(store: Store, first: int, user: str) -> None:
    for number in range(first, first + 2):
        store.add(post_id=f"p{number:04}", user=user, body="x")


def test_what_nobody_copies_may_change_before_it_is_finished(store: Store) -> None:
    """A note is not copied: whoever changes it comes upon no intent, and leaves none that cannot be finished."""
    for rounds in range(2, 6):
        user = f"u{rounds}"
        store.add_user(user_id=user, name="old")
        store.load([("Post", {"post_id": f"{user}{n:04}", "user": user, "body": "x"}) for n in range(FOLLOWERS)])
        cut_off(store, rounds, lambda: None, "rewrite", user=user, name="new", note="mine")
        store.jot(user=user, note="yours")
        store.settle()
        found = store.verify()
        assert found.ok, (rounds, found.problems)


def test_settle_finishes_the_create_of_a_row_that_others_pointed_at(store: Store) -> None:
    """Some more have come to point at it since these were looked for."""
    for rounds in range(1, ROUNDS):
        user = f"u{rounds}"
        posts(store, 100 * rounds, user)
        more = partial(posts, store, 100 * rounds + 50, user)
        cut_off(store, rounds, more, "add_user", user_id=user, name="first")
        with suppress(keyplan.ConflictError):  # it is not there if it was cut off before
            store.jot(user=user, note="yours")
        store.settle()
        found = store.verify()
        assert found.ok, (rounds, found.problems)


def test_verify_finds_what_the_create_of_a_row_leaves_that_nobody_had_pointed_at(store: Store) -> None:
    """The first ones came in the moment of its creation. Nothing is left where that is looked at within the write."""
    left = []
    for rounds in range(1, ROUNDS):
        user = f"u{rounds}"
        first = partial(posts, store, 100 * rounds, user)
        cut_off(store, rounds, first, "add_user", user_id=user, name="first")
        store.settle()
        left += store.verify().problems
        store.verify(repair=True)
        names = {row["user"]["name"] for row in store.posts(user=user).rows}
        assert names <= {None} or names == {"first"}, rounds
        found = store.verify()
        assert found.ok, (rounds, found.problems)
    assert bool(left) == (not store._core.codec.goes_on)
