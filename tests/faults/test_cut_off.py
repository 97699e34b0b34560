"""A writer that is cut off anywhere, while another one begins to copy what it changes: nothing stale is left behind.

What was looked up before a change may be incomplete by the moment of the change: a row that points at the changed one
has come since, or a row that a computed value is made of. Whoever sees to these must not need to live any longer.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import pytest

from keyplan.store.store import Store
from tests.conftest import Lend
from tests.engines.harness import Harness
from tests.faults.applied import made_on, two_stores
from tests.faults.test_dangling import HeldUp, do
from tests.faults.test_intents import Fuse, Killed
from tests.noting import noting

MODEL = """
keyplan: 1
name: scores
entities:
  Club:
    count: 100
    fields: { cid: "int, key", town: "string(8)" }
  User:
    count: 1000
    fields: { uid: "int, key", club: "Club, as members", name: "string(8)", best: max(games.score) }
  Game:
    count: 1M
    fields: { gid: "int, key", user: "User, as games", level: "enum(x, y)", score: int }
patterns:
  games: { find: Game, where: "user = :user", with: [user.name], order: gid, page: 1000, rate: 5000/s, p99: 100ms }
  game: { find: Game, where: "gid = :gid", with: [user.name, user.club.town], rate: 5000/s, p99: 7ms }
  named: { find: Game, where: "user.name = :name", order: gid, page: 1000, rate: 5000/s }
  sorted: { find: Game, where: "level = :level", order: user.name, limit: 10, rate: 5000/s }
  near: { find: Game, where: "user.club.town = :town", order: gid, limit: 10, rate: 5000/s }
  leading: { find: User, where: "best >= :score", order: best, limit: 3, rate: 100/s }
writes:
  found: { create: Club, rate: 1/day }
  call: { update: Club, set: [town], where: "cid = :cid", rate: 1/day }
  join: { create: User, rate: 1/day }
  save: { upsert: User, rate: 1/day }
  rename: { update: User, set: [name], where: "uid = :uid", rate: 1/day }
  leave: { delete: User, where: "uid = :uid", rate: 1/day }
  add: { create: Game, rate: 1/s }
  put: { upsert: Game, rate: 1/s }
  give: { update: Game, set: [user], where: "gid = :gid", rate: 1/day }
  score: { update: Game, set: [score], where: "gid = :gid", rate: 1/day }
  drop: { delete: Game, where: "gid = :gid", rate: 1/day }
"""
CUT = ("found", "call", "join", "save", "load", "rename", "leave", "lower", "drop")
RECORDED = ("call", "rename", "leave")
"""What an intent is recorded for where a write cannot go on: changes of rows that are there, of what others copy."""
MEANWHILE = ("add", "come", "put")
ROUNDS = 7
CASES = int(os.environ.get("KEYPLAN_CUTS", "100"))


def rows(number: int, there: bool) -> list[tuple[str, dict[str, Any]]]:
    """A user whom one game is of, or who is not there yet; another one; and a game of somebody else."""
    found: list[tuple[str, dict[str, Any]]] = [("User", {"uid": number + 1, "club": number, "name": f"o{number}"})]
    if there:
        found.append(("Club", {"cid": number, "town": f"t{number}"}))
        found.append(("User", {"uid": number, "club": number, "name": f"a{number}"}))
    found.append(("Game", {"gid": number, "user": number, "level": "x", "score": 9}))
    found.append(("Game", {"gid": number + 1, "user": number + 1, "level": "x", "score": 5}))
    found.append(("Game", {"gid": number + 3, "user": number + 2, "level": "x", "score": 4}))
    return found


def call(name: str, number: int) -> tuple[str, dict[str, Any]]:
    """A write of these rows."""
    user = {"uid": number, "club": number, "name": f"b{number}"}
    return {
        "found": ("found", {"cid": number, "town": f"u{number}"}),
        "call": ("call", {"cid": number, "town": f"v{number}"}),
        "join": ("join", user),
        "save": ("save", user),
        "load": ("load", {"rows": [("Club", {"cid": number + 5, "town": f"w{number}"})]}),
        "rename": ("rename", {"uid": number, "name": f"c{number}"}),
        "leave": ("leave", {"uid": number}),
        "lower": ("score", {"gid": number, "score": 1}),
        "drop": ("drop", {"gid": number}),
        "member": ("join", {"uid": number + 2, "club": number + 5, "name": f"d{number}"}),
        "add": ("add", {"gid": number + 2, "user": number, "level": "y", "score": 7}),
        "come": ("give", {"gid": number + 1, "user": number}),
        "put": ("put", {"gid": number + 1, "user": number, "level": "y", "score": 8}),
    }[name]


@pytest.fixture
def stores(harness: Harness, lend: Lend) -> Iterator[tuple[Store, Store]]:
    with two_stores(harness, lend(MODEL), MODEL, noting) as found:
        yield found


@dataclass(frozen=True)
class Case:
    """A write that is cut off after so many rounds, before one of which another write is done."""

    there: bool
    name: str
    meanwhile: str
    at: int
    rounds: int

    def play(self, store: Store, other: Store, number: int) -> bool:
        """Whether it was cut off, and not before the other write was done."""
        port: Any = store._port
        held = HeldUp(port, {self.at: partial(do, other, *call(self.meanwhile, number))})
        store._port = Fuse(held, self.rounds)
        try:
            do(store, *call(self.name, number))
        except Killed:
            return not held.between
        finally:
            store._port = port
        return False


def cases(names: Sequence[str]) -> Iterator[Case]:
    for there, name, at in product((True, False), names, range(ROUNDS)):
        # A load goes its own way with rows that nobody refers to.
        for meanwhile, rounds in product(("member",) if name == "load" else MEANWHILE, range(at + 1, ROUNDS + 1)):
            yield Case(there, name, meanwhile, at, rounds)


@pytest.mark.timeout(120)
def test_whoever_is_cut_off_leaves_nothing_stale(stores: tuple[Store, Store]) -> None:
    store, other = stores
    goes_on = store._core.codec.goes_on
    many = CASES if goes_on else CASES // 4
    chosen = dict(enumerate(random.Random(3).sample(list(cases(CUT if goes_on else RECORDED)), many)))
    store.load([row for number, case in chosen.items() for row in rows(10 * number, case.there)])
    played = sum(case.play(store, other, 10 * number) for number, case in chosen.items())
    assert played > many / 4
    store.settle()
    found = store.verify()
    assert found.ok, found.problems


def test_the_design_copies_and_computes(harness: Harness) -> None:
    """Otherwise the test above would say little."""
    _, design = made_on(harness, MODEL, noting)
    holds = {path for view in design.views.values() for path in (*view.holds, *(part.path for part in view.parts))}
    assert {"user.name", "user.club.town", "best"} <= holds
    assert design.dangling.keys() == {"Game.user", "User.club"}
