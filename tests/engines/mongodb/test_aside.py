"""The blocking client beside an async store's own: which reads go there, and that nobody notices."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import Any

import pymongo as driver
import pytest
from pymongo.monitoring import CommandListener, CommandStartedEvent

import keyplan
from keyplan.engines.mongodb import transport
from keyplan.engines.mongodb.port import FEW
from keyplan.engines.mongodb.workers import Workers
from tests.engines.harness import Harness

MODEL = keyplan.parse_model("""
keyplan: 1
name: aside
entities:
  Counter: { count: 100, fields: { name: "string(10), key", value: "int, default 0" } }
patterns:
  counter: { find: Counter, where: "name = :name", rate: 10/s }
writes:
  make: { create: Counter, rate: 1/s }
  set: { update: Counter, set: [value], where: "name = :name", rate: 1/s }
""")


class Listener(CommandListener):
    """Keeps the finds of one client."""

    def __init__(self) -> None:
        self.finds: list[Any] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name == "find":
            self.finds.append(dict(event.command))

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> dict[str, Listener]:
    listeners = {name: Listener() for name in ("AsyncMongoClient", "MongoClient")}
    for name, listener in listeners.items():
        client = partial(getattr(transport.pymongo, name), event_listeners=[listener])
        monkeypatch.setattr(transport.pymongo, name, client)
    return listeners


def url_of(mongodb: Harness, options: str = "") -> str:
    url = mongodb.url()
    keyplan.apply(MODEL, url)
    return url + options


def named(number: int) -> str:
    return f"n{number}"


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "keyplan-mongodb"]


def test_few_plain_reads_go_aside_and_many_do_not(mongodb: Harness, clients: dict[str, Listener]) -> None:
    url = url_of(mongodb)
    before = len(threads())

    async def play() -> None:
        async with keyplan.open_async(MODEL, url) as store:
            await store.load([("Counter", {"name": named(n), "value": n}) for n in range(40)])
            for listener in clients.values():
                listener.finds.clear()
            assert (await store.counter(name="n3"))["value"] == 3
            assert (len(clients["MongoClient"].finds), len(clients["AsyncMongoClient"].finds)) == (1, 0)
            found = await asyncio.gather(*(store.counter(name=named(n)) for n in range(40)))
            assert [row["value"] for row in found] == list(range(40))
            assert len(threads()) - before <= FEW
            aside, own = len(clients["MongoClient"].finds) - 1, len(clients["AsyncMongoClient"].finds)
            assert aside + own == 40
            assert own >= 40 - FEW
            await store.counter(name="n3", consistency="strong")
            await store.counter(name="n3", consistency="session")
            assert len(clients["AsyncMongoClient"].finds) == own + 2

    asyncio.run(play())
    ended(before)


def test_a_session_is_behind_what_was_read_aside(mongodb: Harness, clients: dict[str, Listener]) -> None:
    """On nodes, too, that have not heard of that time yet: another client brings it to them."""
    url = url_of(mongodb, "&readPreference=secondary")

    async def play() -> None:
        async with keyplan.open_async(MODEL, url) as store, keyplan.open_async(MODEL, url) as other:
            await other.make(name="a")
            for number in range(30):
                await other.set(name="a", value=number)
                seen = (await store.using(readPreference="primary").counter(name="a"))["value"]
                assert (await store.counter(name="a", consistency="session"))["value"] >= seen

    asyncio.run(play())
    finds = [find for find in clients["AsyncMongoClient"].finds if "afterClusterTime" in find.get("readConcern", {})]
    assert len(finds) == 30
    assert all(find["$clusterTime"]["clusterTime"] >= find["readConcern"]["afterClusterTime"] for find in finds)


def test_a_cancelled_read_is_given_up_at_once_and_the_next_one_answers(
    mongodb: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(mongodb)
    release = threading.Event()
    page = transport.Link.page

    def late(link: transport.Link, request: Any) -> Any:
        release.wait(10)
        return page(link, request)

    async def play() -> None:
        async with keyplan.open_async(MODEL, url) as store:
            await store.make(name="a", value=1)
            monkeypatch.setattr(transport.Link, "page", late)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(store.counter(name="a"), 0.1)
            monkeypatch.setattr(transport.Link, "page", page)
            assert (await store.counter(name="a"))["value"] == 1
            release.set()
            assert (await store.counter(name="a"))["value"] == 1
            assert store._port._aside.workers.flying == 0  # type: ignore[attr-defined]

    asyncio.run(play())


def test_the_drivers_deadline_holds_aside(mongodb: Harness) -> None:
    url = url_of(mongodb)

    async def play() -> None:
        async with keyplan.open_async(MODEL, url) as store:
            await store.make(name="a")
            with driver.timeout(0.0001), pytest.raises(keyplan.KeyplanError):
                await store.counter(name="a")
            assert (await store.counter(name="a"))["value"] == 0

    asyncio.run(play())


def test_what_a_thread_raises_is_raised_where_it_is_awaited() -> None:
    async def play() -> None:
        workers = Workers()

        def fail() -> None:
            raise KeyError("x")

        for _ in range(3):
            with pytest.raises(KeyError):
                await workers.call(fail)
        assert await asyncio.gather(*(workers.call(pow, 2, n) for n in range(20))) == [2**n for n in range(20)]
        workers.close()

    asyncio.run(play())


def test_threads_end_with_whom_they_work_for() -> None:
    before = len(threads())
    release = threading.Event()
    left = Workers()

    async def leave(workers: Workers) -> None:
        workers.call(release.wait)

    async def close() -> None:
        """What is under way when they are closed is answered nevertheless."""
        workers = Workers()
        await workers.call(int)
        threading.Timer(0.1, release.set).start()
        waiting = [workers.call(release.wait) for _ in range(2)]
        workers.close()
        assert await asyncio.gather(*waiting) == [True, True]

    asyncio.run(leave(left))
    asyncio.run(close())
    del left
    ended(before)


def ended(before: int) -> None:
    deadline = time.monotonic() + 5
    while len(threads()) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(threads()) == before
