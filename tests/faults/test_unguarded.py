"""Rows of which nothing stands under their key alone: that there is none cannot be tested by a write that saw none.

So two writes can both be right when they read, and wrong together: one copies from a row, or counts in it, which the
other one makes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

import pytest

import keyplan
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.store.store import Store
from tests.conftest import Lend
from tests.engines.harness import Harness
from tests.faults.applied import two_stores
from tests.faults.test_dangling import do, hold_up
from tests.faults.test_intents import Fuse, Killed
from tests.rehomed import rehomed

MODEL = """
keyplan: 1
name: ranked
entities:
  User:
    count: 2k
    fields: { club: "int, distinct 1k", no: int, rank: int, name: "string(20)", best: max(posts.score) }
    key: [club, no]
  Post:
    count: 1M
    fields: { pid: "int, key", user: "User, as posts", body: "enum(x, y, z)", score: int }
patterns:
  user: { find: User, where: "club = :club and no = :no", rate: 5000/s }
  leading: { find: User, where: "best >= :score", order: best, limit: 3, rate: 5000/s }
  post: { find: Post, where: "pid = :pid", with: [user.name], rate: 5000/s, p99: 7ms }
  sorted: { find: Post, where: "body = :body", order: user.name, limit: 10, rate: 5000/s }
writes:
  save: { upsert: User, rate: 1/day }
  add: { create: Post, rate: 1/day }
  put: { upsert: Post, rate: 1/day }
  move: { update: Post, set: ["user.club", "user.no"], where: "pid = :pid", rate: 1/day }
  drop: { delete: Post, where: "pid = :pid", rate: 1/day }
"""
RANKED = """
keyplan: 1
name: members
entities:
  Club: { count: 100k, fields: { cid: "int, key", town: "string(8)" } }
  User:
    count: 2M
    fields: { club: "Club, as members, max 50", no: int, rank: int, name: "string(20)" }
    key: [club, no]
patterns:
  members: { find: User, where: "club = :club", order: rank desc, limit: 5, rate: 500k/s }
writes:
  save: { upsert: User, rate: 1/day }
"""
"""Of an order that is asked for often, by a key that is hardly ever: the cheapest home is under both."""
NAMED_AFTER = """
keyplan: 1
name: seats
entities:
  Club: { count: 100k, fields: { cid: "ulid, key", town: "string(8)" } }
  User:
    count: 2M
    fields: { club: "Club, as members, max 50", no: int, rank: int, name: "string(20)" }
    key: [club, no]
patterns:
  members: { find: User, where: "club = :club", order: rank desc, limit: 5, rate: 500k/s }
writes:
  join: { create: User, rate: 1/day }
"""
"""The same with creates, under keys of which a part is the generated key of another row."""
WRITES: dict[str, Callable[[int], tuple[str, dict[str, Any]]]] = {
    "save": lambda n: ("save", {"club": n, "no": 1, "rank": 1, "name": f"a{n}"}),
    "load": lambda n: ("load", {"rows": [("User", {"club": n, "no": 1, "rank": 2, "name": f"b{n}"})]}),
    "add": lambda n: ("add", {"pid": n + 2, "user": {"club": n, "no": 1}, "body": "x", "score": 7}),
    "put": lambda n: ("put", {"pid": n + 1, "user": {"club": n, "no": 1}, "body": "y", "score": 8}),
    "move": lambda n: ("move", {"pid": n + 1, "user": {"club": n, "no": 1}}),
    "bring": lambda n: (
        "load",
        {"rows": [("Post", {"pid": n + 3, "user": {"club": n, "no": 1}, "body": "z", "score": 2})]},
    ),
    "drop": lambda n: ("drop", {"pid": n}),
}


def first(number: int) -> list[tuple[str, dict[str, Any]]]:
    """A post of a user who is not there yet, and one of somebody else."""
    posts = {number: (number, 1, 9), number + 1: (number + 1, 1, 5)}
    return [
        ("User", {"club": number + 1, "no": 1, "rank": 3, "name": f"o{number}"}),
        *(
            ("Post", {"pid": pid, "user": {"club": club, "no": no}, "body": "x", "score": score})
            for pid, (club, no, score) in posts.items()
        ),
    ]


def by_rank(model: Model, design: Design) -> Design:
    """The design with the ranks of users in the key of their home."""
    return rehomed(model, design, "User", "rank")


@pytest.fixture
def stores(harness: Harness, lend: Lend) -> Iterator[tuple[Store, Store]]:
    with two_stores(harness, lend(MODEL), MODEL, by_rank) as found:
        yield found


def test_the_design_copies_and_computes(stores: tuple[Store, Store]) -> None:
    """Otherwise the tests here would say little."""
    places = stores[0]._core.places
    assert places.exact("User") is None
    assert places.watches["User"]
    assert places.kept["User"]


MAKERS = ("save", "load")
POINTING = ("add", "put", "move", "bring", "drop")
CASES = [*product(MAKERS, POINTING, range(5)), *product(POINTING, MAKERS, range(5))]


@pytest.mark.timeout(120)
def test_whoever_points_at_a_row_that_comes_meanwhile_is_up_to_date(stores: tuple[Store, Store]) -> None:
    store, other = stores
    port: Any = store._port
    goes_on = store._core.codec.goes_on
    # Two that make the same row are kept apart where a write can go on; elsewhere no design leaves that open.
    cases = [*CASES, *product(MAKERS, MAKERS, range(3))] if goes_on else random.Random(1).sample(CASES, 30)
    store.load([row for number in range(len(cases)) for row in first(10 * number)])
    played = made = 0
    for number, (name, meanwhile, at) in enumerate(cases):
        between = {at: partial(do, other, *WRITES[meanwhile](10 * number))}
        hold_up(store, port, between)
        do(store, *WRITES[name](10 * number))
        store._port = port
        played += not between
        made += name in MAKERS or not between
    assert played > len(cases) / 3
    found = store.verify()
    assert found.ok, found.problems
    assert found.views["User"].entries == len(cases) + made


def test_whoever_is_cut_off_has_done_all_or_nothing(stores: tuple[Store, Store]) -> None:
    """Or, where what follows a create comes behind it, has left what `verify` mends."""
    store, other = stores
    port: Any = store._port
    cases = list(product((("save", "add"), ("add", "save"), ("load", "put"), ("put", "load")), range(4), range(1, 5)))
    store.load([row for number in range(len(cases)) for row in first(10 * number)])
    for number, ((name, meanwhile), at, rounds) in enumerate(cases):
        hold_up(store, port, {at: partial(do, other, *WRITES[meanwhile](10 * number))})
        held: Any = store._port
        store._port = Fuse(held, rounds)
        with suppress(Killed):
            do(store, *WRITES[name](10 * number))
        store._port = port
    if not store._core.codec.goes_on:
        store.verify(repair=True)
    found = store.verify()
    assert found.ok, found.problems


def test_no_design_leaves_two_upserts_of_one_row_to_chance(harness: Harness, lend: Lend) -> None:
    """Where rows are upserted under keys that are given, something stands under the key alone and refuses, or they meet
    within their transactions."""
    with two_stores(harness, lend(RANKED), RANKED) as (store, other):
        assert store._core.places.exact("User") is not None or store._core.codec.goes_on
        port: Any = store._port
        for at in range(4):
            hold_up(store, port, {at: partial(do, other, "save", {"club": at, "no": 1, "rank": 2, "name": "b"})})
            do(store, "save", {"club": at, "no": 1, "rank": 1, "name": "a"})
            store._port = port
            assert len(list(store.members(club=at))) == 1, at
        assert store.verify().ok


def test_no_design_leaves_two_creates_of_one_row_to_chance(harness: Harness, lend: Lend) -> None:
    """The key of a club is generated; those of its members are not, though they have it in them."""
    with two_stores(harness, lend(NAMED_AFTER), NAMED_AFTER) as (store, other):
        port: Any = store._port
        for at in range(4):
            club = f"{at:026}"
            hold_up(store, port, {at: partial(do, other, "join", {"club": club, "no": 1, "rank": 2, "name": "b"})})
            with suppress(keyplan.ConflictError):
                store.join(club=club, no=1, rank=1, name="a")
            store._port = port
            assert len(list(store.members(club=club))) == 1, at
        assert store.verify().ok
