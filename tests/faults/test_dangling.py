"""Rows that point at nothing, while what they point at comes and goes: whoever is faster, the views end true.

One write is held up between two of its rounds, and others are done meanwhile, in every place where that can be. What is
there afterwards is what some order of these writes would have led to.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import pytest

from keyplan.errors import ConflictError
from keyplan.model.load import parse_model
from keyplan.reference import Database
from keyplan.store.store import Store
from tests.conftest import Lend
from tests.engines.harness import Harness
from tests.faults.applied import made_on, two_stores
from tests.faults.test_intents import cut_off
from tests.noting import noting

FOLLOWERS = 130

MODEL = """
keyplan: 1
name: pointing
entities:
  User:
    count: 1000
    fields: { uid: "int, key", name: "string(20)" }
  Post:
    count: 1M
    fields: { pid: "int, key", user: "User, as posts", body: "enum(x, y, z)" }
patterns:
  posts: { find: Post, where: "user = :user", with: [user.name], order: pid, page: 1000, rate: 5000/s, p99: 100ms }
  post: { find: Post, where: "pid = :pid", with: [user.name], rate: 5000/s, p99: 7ms }
  named: { find: Post, where: "user.name = :name", order: pid, page: 1000, rate: 5000/s }
  sorted: { find: Post, where: "body = :body", order: user.name, limit: 10, rate: 5000/s }
writes:
  join: { create: User, rate: 1/day }
  save: { upsert: User, rate: 1/day }
  rename: { update: User, set: [name], where: "uid = :uid", rate: 1/day }
  leave: { delete: User, where: "uid = :uid", rate: 1/day }
  add: { create: Post, rate: 1/s }
  put: { upsert: Post, rate: 1/s }
  move: { update: Post, set: [user], where: "pid = :pid", rate: 1/day }
  drop: { delete: Post, where: "pid = :pid", rate: 1/day }
"""

Step = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A write, and others that are done before its rounds of these numbers."""

    there: tuple[bool, bool]
    """Whether the user is there at first, and whether a post points at them."""
    name: str
    between: tuple[tuple[int, str], ...]

    def first(self, number: int) -> list[tuple[str, dict[str, Any]]]:
        user, post = 10 * number, 10 * number
        rows: list[tuple[str, dict[str, Any]]] = [("User", {"uid": user + 1, "name": f"other{number}"})]
        rows += [("User", {"uid": user, "name": f"old{number}"})] if self.there[0] else []
        rows += [("Post", {"pid": post, "user": user if self.there[1] else user + 1, "body": "x"})]
        return rows


def step(name: str, number: int) -> Step:
    """A write of the rows of one case."""
    user, post = 10 * number, 10 * number
    return {
        "join": ("join", {"uid": user, "name": f"new{number}"}),
        "save": ("save", {"uid": user, "name": f"saved{number}"}),
        "rename": ("rename", {"uid": user, "name": f"renamed{number}"}),
        "leave": ("leave", {"uid": user}),
        "add": ("add", {"pid": post + 1, "user": user, "body": "y"}),
        "put": ("put", {"pid": post, "user": user, "body": "z"}),
        "come": ("move", {"pid": post, "user": user}),
        "go": ("move", {"pid": post, "user": user + 1}),
        "drop": ("drop", {"pid": post}),
    }[name]


STEPS = ("join", "save", "rename", "leave", "add", "put", "come", "go", "drop")
ROUNDS = range(7)


USERS = ("join", "save", "rename", "leave")


def cases() -> Iterator[Case]:
    """One other write, at any point; and two, of which the second is one of the user or of another post.

    A post that began to copy while its user was being written, and goes before that write has looked for it, waits for
    that write, which here is held up until the post has gone. `test_interleaved` lets both go on.
    """
    there = list(product((False, True), repeat=2))
    for state, name, other, at in product(there, STEPS, STEPS, ROUNDS):
        yield Case(state, name, ((at, other),))
    for state, name, one, two in product(there, ("join", "save", "leave"), STEPS, (*USERS, "add")):
        for first, later in ((1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (3, 5)):
            yield Case(state, name, ((first, one), (later, two)))


class HeldUp:
    """A port that lets others do something before its rounds of some numbers."""

    def __init__(self, port: Any, between: dict[int, Callable[[], Any]]) -> None:
        self.port = port
        self.between = between
        self.sent = 0

    def send(self, round: Sequence[Any]) -> Sequence[Any]:
        if self.sent in self.between:
            self.between.pop(self.sent)()
        self.sent += 1
        found: Sequence[Any] = self.port.send(round)
        return found

    def close(self) -> None:
        self.port.close()


def hold_up(store: Any, port: Any, between: dict[int, Callable[[], Any]]) -> None:
    """Has a store send its rounds from now on through a port that lets others in between."""
    store._port = HeldUp(port, between)


def do(target: Any, name: str, arguments: dict[str, Any]) -> bool:
    """Calls; False if it was refused."""
    try:
        getattr(target, name)(**arguments)
    except ConflictError:
        return False
    return True


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """Every call is cut off at every request."""
    return quick_harness


@pytest.fixture
def stores(harness: Harness, lend: Lend) -> Iterator[tuple[Store, Store]]:
    with two_stores(harness, lend(MODEL), MODEL, noting) as found:
        yield found


def seen(ask: Callable[..., Any], number: int) -> list[Any]:
    names = [f"{word}{number}" for word in ("old", "new", "saved", "renamed", "other")]
    found = [ask("post", pid=10 * number + one) for one in range(2)]
    return found + [[row["pid"] for row in ask("named", name=name).rows] for name in names]


def orders(case: Case, number: int, refused: Sequence[str]) -> Iterator[list[Any]]:
    """What would be there if the writes had been done one after the other, in each order that they allow.

    Whoever was refused because others were at the same rows has done nothing.
    """
    others = [name for _, name in case.between]
    for place in range(len(others) + 1):
        database = Database(parse_model(MODEL))
        database.load(case.first(number))
        for name in (*others[:place], case.name, *others[place:]):
            call, arguments = step(name, number)
            if name not in refused:
                with suppress(ConflictError):
                    database.call(call, **arguments)
        yield seen(database.call, number)


def play(one: Store, other: Store, case: Case, number: int) -> bool:
    """Plays a case; False if the write had ended before all others were done, which says nothing new."""
    one.load(case.first(number))
    refused: list[str] = []

    def meanwhile(name: str) -> Callable[[], None]:
        return lambda: refused.extend([] if do(other, *step(name, number)) else [name])

    waiting: dict[int, Callable[[], Any]] = {at: meanwhile(name) for at, name in case.between}
    port = one._port
    hold_up(one, port, waiting)
    try:
        refused += [] if do(one, *step(case.name, number)) else [case.name]
    finally:
        one._port = port
    if waiting:
        return False
    found = seen(lambda call, /, **arguments: getattr(one, call)(**arguments), number)
    assert found in [*orders(case, number, ()), *orders(case, number, refused)], f"{case}: {found}"
    return True


def test_the_design_copies_and_notes(harness: Harness) -> None:
    """Otherwise the tests here would say little."""
    _, design = made_on(harness, MODEL, noting)
    assert design.dangling.keys() == {"Post.user"}
    assert any("user.name" in view.holds for view in design.views.values())


CASES = 200


@pytest.mark.timeout(300)
def test_whoever_is_faster(stores: tuple[Store, Store]) -> None:
    chosen = random.Random(7).sample(list(cases()), CASES)
    played = sum(play(*stores, case, number) for number, case in enumerate(chosen))
    assert played > CASES / 4
    stores[0].settle()
    found = stores[0].verify()
    assert found.ok, found.problems


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 6])
def test_a_row_comes_again_whose_delete_was_cut_off(stores: tuple[Store, Store], rounds: int) -> None:
    """Those that copied from it may not have been told that it went: whoever makes it anew finishes that first."""
    store, other = stores
    store.join(uid=1, name="first")
    store.load([("Post", {"pid": number, "user": 1, "body": "x"}) for number in range(FOLLOWERS)])
    cut_off(store, rounds, "leave", uid=1)
    do(other, "leave", {"uid": 1})
    other.join(uid=1, name="second")
    assert {row["user"]["name"] for row in other.posts(user=1).rows} == {"second"}
    assert {other.post(pid=number)["user"]["name"] for number in range(0, FOLLOWERS, 10)} == {"second"}
    assert other.verify().ok


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 6])
def test_a_create_that_many_have_waited_for_is_cut_off(stores: tuple[Store, Store], rounds: int) -> None:
    store, other = stores
    store.load([("Post", {"pid": number, "user": 1, "body": "x"}) for number in range(FOLLOWERS)])
    cut_off(store, rounds, "join", uid=1, name="first")
    do(other, "join", {"uid": 1, "name": "first"})
    other.rename(uid=1, name="second")
    assert {row["user"]["name"] for row in other.posts(user=1).rows} == {"second"}
    assert other.verify().ok


CHAIN = """
keyplan: 1
name: chain
entities:
  Owner: { count: 1000, fields: { oid: "int, key", name: "string(20)" } }
  Board: { count: 1000, fields: { bid: "int, key", owner: Owner, title: "string(20), default 'x'" } }
  Thread: { count: 1M, fields: { tid: "int, key", board: "Board, as threads" } }
patterns:
  threads: { find: Thread, where: "board = :bid", with: [board.owner.name], order: tid, page: 1000, rate: 5000/s }
  thread: { find: Thread, where: "tid = :tid", with: [board.owner.name, board.title], rate: 5000/s, p99: 7ms }
writes:
  join: { create: Owner, rate: 1/day }
  add: { create: Thread, rate: 1/s }
"""


@pytest.fixture
def chained(harness: Harness, lend: Lend) -> Iterator[tuple[Store, Store]]:
    """Two stores of a model in which threads copy from an owner, who is two references away."""
    with two_stores(harness, lend(CHAIN), CHAIN, noting) as found:
        yield found


def test_a_chain_comes_to_lead_somewhere_while_another_row_joins_it(chained: tuple[Store, Store]) -> None:
    """The row in between is no longer among those that point at nothing when it is looked again."""
    store, other = chained
    port = store._port
    for number in range(7):
        store.load([("Board", {"bid": number, "owner": number}), ("Thread", {"tid": 10 * number, "board": number})])
        arguments = {"tid": 10 * number + 1, "board": number}
        hold_up(store, port, {number: partial(other.add, **arguments)})
        store.join(oid=number, name="n")
        store._port = port
        rows = store.threads(bid=number).rows
        assert {row["board"]["owner"]["name"] for row in rows} == {"n"}, number
        assert [store.thread(tid=row["tid"])["board"]["owner"]["name"] for row in rows] == ["n"] * len(rows), number
    found = store.verify()
    assert found.ok, found.problems


@pytest.mark.parametrize("rounds", [2, 4, 6, 8, 10, 12, 13, 14])
def test_a_create_at_the_end_of_long_chains_is_cut_off(chained: tuple[Store, Store], rounds: int) -> None:
    store, other = chained
    store.load([("Board", {"bid": number, "owner": 1}) for number in range(FOLLOWERS)])
    store.load([("Thread", {"tid": number, "board": number}) for number in range(FOLLOWERS)])
    cut_off(store, rounds, "join", oid=1, name="n")
    other.settle()
    do(other, "join", {"oid": 1, "name": "n"})
    assert {other.thread(tid=number)["board"]["owner"]["name"] for number in range(FOLLOWERS)} == {"n"}
    found = other.verify()
    assert found.ok, found.problems


ALBUM = """
keyplan: 1
name: albums
entities:
  Album: { count: 10k, fields: { aid: "int, key", title: "string(20)", size: count(photos) } }
  Photo: { count: 1M, fields: { pid: "int, key", album: "Album, as photos", bytes: int } }
patterns:
  album: { find: Album, where: "aid = :aid", rate: 5000/s, p99: 7ms }
  photo: { find: Photo, where: "pid = :pid", with: [album.title], rate: 5000/s, p99: 7ms }
writes:
  open_album: { create: Album, rate: 1/day }
  close_album: { delete: Album, where: "aid = :aid", rate: 1/day }
  add: { create: Photo, rate: 1/s }
"""


def test_a_row_is_seen_to_be_there_and_not_to_be_there_by_one_write(harness: Harness, lend: Lend) -> None:
    """It is read once to count in it, and once to copy from it; somebody makes it, or deletes it, in between."""
    with two_stores(harness, lend(ALBUM), ALBUM) as (store, other):
        port = store._port
        for number in range(12):
            made = number % 2 == 0
            if not made:
                store.open_album(aid=number, title="t")
            call = ("open_album", {"aid": number, "title": "t"}) if made else ("close_album", {"aid": number})
            hold_up(store, port, {number // 2: partial(do, other, *call)})
            store.add(pid=number, album=number, bytes=1)
            store._port = port
            album = store.album(aid=number)
            assert album is None or album["size"] == 1, number
            assert store.photo(pid=number)["album"]["title"] == (album and album["title"]), number
        found = store.verify()
        assert found.ok, found.problems
