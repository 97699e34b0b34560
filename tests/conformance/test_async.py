"""The async store: the same calls with the same answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import keyplan
from keyplan.errors import ArgumentError, ConflictError, CursorError, DesignError, UnavailableError
from keyplan.reference import Database
from tests.conformance.pair import NOON, Clock, ids, parsed
from tests.engines.harness import Harness
from tests.examples_data.compare import first_difference

MODEL = """
entities:
  Player:
    fields:
      pid: uuid, key
      name: string(8), unique
      score: int, default 0
      team: Team, as players, optional 90%
  Team:
    fields:
      tid: int, key
      title: string(8)
      size: count(players)
patterns:
  player: { find: Player, where: "pid = :pid", with: [team.title] }
  by_name: { find: Player, where: "name = :name" }
  of_team: { find: Player, where: "team = :tid", order: score desc, page: 3 }
  team: { find: Team, where: "tid = :tid" }
  total: { sum: Player.score, where: "team = :tid" }
writes:
  join: { create: Player }
  found: { create: Team }
  add: { update: Player, add: [score], where: "pid = :pid", if: "score >= 0", return: [score] }
  leave: { delete: Player, where: "pid = :pid" }
transactions:
  start: [found, join x2 max 4]
"""


def played(harness: Harness, play: Callable[[Any, Database], Awaitable[None]]) -> None:
    """Runs a test against an async store and the reference beside it."""
    model, url = parsed(MODEL), harness.url()
    keyplan.apply(model, url)
    database = Database(model, Clock(), ids())

    async def run() -> None:
        async with keyplan.open_async(model, url, clock=Clock(), new_id=ids()) as store:
            await play(store, database)
            found = await store.verify()
            assert found.ok, found.problems

    asyncio.run(run())


async def same(store: Any, database: Database, name: str, /, **arguments: Any) -> Any:
    expected = database.call(name, **arguments)
    found = await getattr(store, name)(**arguments)
    if hasattr(expected, "rows"):
        expected, found = expected.rows, found.rows
    assert first_difference(expected, found) is None
    return found


def test_writes_and_reads(harness: Harness) -> None:
    async def play(store: Any, database: Database) -> None:
        await same(store, database, "found", tid=1, title="red")
        pid = (await same(store, database, "join", name="a", team=1))["pid"]
        await same(store, database, "join", name="b", team=1, score=5)
        assert await same(store, database, "add", pid=pid, score=7) == {"score": 7}
        assert (await same(store, database, "player", pid=pid))["team"] == {"title": "red"}
        assert (await same(store, database, "team", tid=1))["size"] == 2
        assert await same(store, database, "total", tid=1) == 12
        assert len(await same(store, database, "of_team", tid=1)) == 2
        await same(store, database, "leave", pid=pid)
        assert await same(store, database, "by_name", name="a") is None

    played(harness, play)


def test_load_pages_and_all(harness: Harness) -> None:
    async def play(store: Any, database: Database) -> None:
        rows = [("Player", {"pid": f"00000000-0000-0000-0000-{n:012}", "name": str(n), "team": 1}) for n in range(8)]
        told: list[int] = []
        assert await store.load(rows, progress=told.append) == database.load(rows)
        assert told == [8]
        first = await store.of_team(tid=1)
        second = await store.of_team(tid=1, cursor=first.cursor)
        everything = [row async for row in store.of_team.all(tid=1)]
        assert everything[:6] == [*first.rows, *second.rows]
        assert len(everything) == 8
        with pytest.raises(CursorError):
            await store.of_team(tid=2, cursor=first.cursor)

    played(harness, play)


def test_errors_are_the_same(harness: Harness) -> None:
    async def play(store: Any, database: Database) -> None:
        pid = (await same(store, database, "join", name="a"))["pid"]
        with pytest.raises(ConflictError):
            await store.join(name="a")
        database.call("add", pid=pid, score=-1)
        await store.add(pid=pid, score=-1)
        with pytest.raises(ConflictError):
            await store.add(pid=pid, score=1)
        with pytest.raises(ArgumentError, match="by_name: missing argument 'name'"):
            await store.by_name()
        with pytest.raises(AttributeError, match="did you mean 'by_name'"):
            _ = store.by_nam

    played(harness, play)


def test_transactions_explain_and_settle(harness: Harness) -> None:
    async def play(store: Any, database: Database) -> None:
        await same(store, database, "start", found={"tid": 1, "title": "x"}, join=[{"name": "a", "team": 1}])
        with pytest.raises(ConflictError):
            await store.start(found={"tid": 2, "title": "y"}, join=[{"name": "a"}])
        assert await store.team(tid=2) is None
        answer, done = await store.team(tid=1, explain=True)
        assert answer["size"] == 1
        assert done.requests >= 1
        await store.settle()

    played(harness, play)


def test_calls_at_the_same_time(harness: Harness) -> None:
    async def play(store: Any, database: Database) -> None:
        await asyncio.gather(*(store.join(name=str(number), team=1) for number in range(12)))
        pid = (await store.by_name(name="3"))["pid"]
        await asyncio.gather(*(store.add(pid=pid, score=1) for _ in range(12)))
        assert (await store.player(pid=pid))["score"] == 12
        assert await store.total(tid=1) == 12

    played(harness, play)


def test_opening_with_await(harness: Harness) -> None:
    model, url = parsed(MODEL), harness.url()
    keyplan.apply(model, url)

    async def run() -> None:
        store = await keyplan.open_async(model, url, clock=lambda: NOON)
        assert await store.team(tid=1) is None
        await store.close()
        await store.close()
        with pytest.raises(UnavailableError, match="the store is closed"):
            await store.team(tid=1)

    asyncio.run(run())


def test_another_design_is_refused(harness: Harness) -> None:
    url = harness.url()
    keyplan.apply(parsed(MODEL), url)

    async def run() -> None:
        async with keyplan.open_async(parsed(MODEL.replace("total:", "sum_of:")), url):
            pass

    with pytest.raises(DesignError):
        asyncio.run(run())
