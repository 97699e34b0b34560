"""Reads on connections that the event loop listens to: which go there, and that nobody notices when one fails."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pymongo as driver
import pytest
from pymongo.monitoring import CommandListener, CommandStartedEvent

import keyplan
from keyplan.engines.mongodb import transport
from keyplan.engines.mongodb.lines import LONGEST, MOST, Line, Lines
from keyplan.engines.mongodb.operations import Find
from keyplan.engines.mongodb.port import MongoAsyncPort
from tests.engines.harness import Harness

MODEL = keyplan.parse_model("""
keyplan: 1
name: lines
entities:
  Counter: { count: 100, fields: { name: "string(10), key", value: "int, default 0", words: "text(3000), default ''" } }
patterns:
  counter: { find: Counter, where: "name = :name", rate: 10/s }
  counters: { find: Counter, order: name, limit: 20, rate: 10/s }
writes:
  make: { create: Counter, rate: 1/s }
  set: { update: Counter, set: [value], where: "name = :name", rate: 1/s }
""")
Play = Callable[[Any], Awaitable[None]]


class Listener(CommandListener):
    """Keeps the finds that the driver's own client sends."""

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
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    listener = Listener()
    client = partial(transport.pymongo.AsyncMongoClient, event_listeners=[listener])
    monkeypatch.setattr(transport.pymongo, "AsyncMongoClient", client)
    return listener.finds


def named(number: int) -> str:
    return f"n{number:02}"


def run(replica_set: Harness, play: Play, options: str = "", rows: int = 40) -> None:
    """Plays with a store whose rows are numbered."""
    url = replica_set.url()
    keyplan.apply(MODEL, url)

    async def main() -> None:
        async with keyplan.open_async(MODEL, url + options) as store:
            await store.load([("Counter", {"name": named(n), "value": n}) for n in range(rows)])
            await play(store)

    asyncio.run(main())


def lines_of(store: Any) -> Lines:
    lines: Lines = store._port._lines
    return lines


async def values(store: Any, many: int) -> list[int]:
    return [row["value"] for row in await asyncio.gather(*(store.counter(name=named(n)) for n in range(many)))]


async def warm(store: Any, many: int) -> list[Line]:
    """Reads until there are so many lines: they are opened one by one, besides."""
    lines = lines_of(store)
    async with asyncio.timeout(20):
        while len(lines._idle) < many:
            wanted = len(lines._idle) + 1
            assert await values(store, wanted) == list(range(wanted))
            while lines._opening:
                await asyncio.sleep(0.001)
    return list(lines._idle)


def test_plain_reads_have_lines_and_the_rest_goes_through_the_driver(replica_set: Harness, sent: list[Any]) -> None:
    async def play(store: Any) -> None:
        await warm(store, 5)
        sent.clear()
        for _ in range(3):
            assert await values(store, 5) == list(range(5))
        assert not sent
        assert len(lines_of(store)._idle) == 5
        await warm(store, 8)
        sent.clear()
        assert await values(store, 40) == list(range(40))
        assert len(sent) == 40 - 8
        assert not lines_of(store)._opening
        await store.counter(name="n03", consistency="strong")
        await store.counter(name="n03", consistency="session")
        await store.using(readPreference="secondaryPreferred").counter(name="n03")
        assert len(sent) == 40 - 8 + 3

    assert MOST > 8
    run(replica_set, play, "&maxPoolSize=8")


def test_a_session_is_behind_what_was_read_on_a_line(replica_set: Harness, sent: list[Any]) -> None:
    """On nodes, too, that have not heard of that time yet: another client brings it to them."""
    url = replica_set.url()
    keyplan.apply(MODEL, url)
    url += "&readPreference=secondary"

    async def play() -> None:
        async with keyplan.open_async(MODEL, url) as store, keyplan.open_async(MODEL, url) as other:
            await other.make(name="a")
            for number in range(30):
                await other.set(name="a", value=number)
                seen = (await store.using(readPreference="primary").counter(name="a"))["value"]
                assert (await store.counter(name="a", consistency="session"))["value"] >= seen

    asyncio.run(play())
    finds = [find for find in sent if "afterClusterTime" in find.get("readConcern", {})]
    assert len(finds) == 30
    assert all(find["$clusterTime"]["clusterTime"] >= find["readConcern"]["afterClusterTime"] for find in finds)


def test_a_reply_in_many_pieces_is_whole(replica_set: Harness, sent: list[Any]) -> None:
    async def play(store: Any) -> None:
        rows = [{"name": named(n), "value": n, "words": chr(200 + n) * 15_000} for n in range(20)]
        await store.load([("Counter", row) for row in rows])
        await warm(store, 1)
        sent.clear()
        for _ in range(3):
            assert list(await store.counters()) == rows
        assert not sent

    run(replica_set, play)


def silence(line: Line) -> None:
    """Nobody hears what comes over a connection any more."""
    assert line._loop is not None
    line._loop.remove_reader(line.socket)


def test_a_cancelled_read_is_given_up_at_once_and_its_reply_reaches_nobody(replica_set: Harness) -> None:
    async def play(store: Any) -> None:
        (line,) = await warm(store, 1)
        silence(line)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.counter(name="n07"), 0.1)
        assert not line.usable
        assert await values(store, 10) == list(range(10))
        assert not lines_of(store)._busy

    run(replica_set, play)


def test_lines_that_the_server_ends_are_not_missed(replica_set: Harness, sent: list[Any]) -> None:
    async def play(store: Any) -> None:
        for line in (await warm(store, 5))[:3]:
            line.socket.shutdown(socket.SHUT_RDWR)
        sent.clear()
        assert await values(store, 5) == list(range(5))  # asked before the loop has heard of it
        assert len(sent) == 3
        for line in await warm(store, 5):
            line.socket.shutdown(socket.SHUT_RDWR)
        await asyncio.sleep(0.05)
        assert not any(line.usable for line in lines_of(store)._idle)
        assert await values(store, 5) == list(range(5))

    run(replica_set, play)


def test_a_connection_that_the_driver_gives_up_is_not_waited_for(replica_set: Harness, sent: list[Any]) -> None:
    """Its monitor does, when a server no longer answers."""

    async def play(store: Any) -> None:
        (line,) = await warm(store, 1)
        silence(line)
        sent.clear()
        reading = asyncio.ensure_future(store.counter(name="n01"))
        await asyncio.sleep(0.05)
        assert not reading.done()
        line._connection.cancel_context.cancel()
        assert (await asyncio.wait_for(reading, 5))["value"] == 1
        assert len(sent) == 1

    run(replica_set, play)


def test_what_is_out_of_the_ordinary_is_left_to_the_driver(replica_set: Harness) -> None:
    async def play(store: Any) -> None:
        lines, options = lines_of(store), store._port._link.options
        database = store._port._link.database.name
        find: dict[str, Any] = {"find": "Counter", "filter": {"_id": "n01"}, "limit": 1, "batchSize": 1}
        await warm(store, 1)
        found = await lines.ask(database, find, options)
        assert found is not None
        assert found["ok"]
        assert await lines.ask(database, {**find, "filter": {"$no_such": 1}}, options) is None
        assert not lines._idle
        await warm(store, 1)
        assert await lines.ask(database, {**find, "comment": "x" * LONGEST}, options) is None
        with driver.timeout(10):
            assert await lines.ask(database, find, options) is None
        with pytest.raises(OverflowError):
            await lines.ask(database, {**find, "filter": {"_id": 1 << 64}}, options)
        assert await lines.ask(database, find, options)

    run(replica_set, play)


def test_the_drivers_deadline_holds(replica_set: Harness) -> None:
    async def play(store: Any) -> None:
        with driver.timeout(0.0001), pytest.raises(keyplan.KeyplanError):
            await store.counter(name="n01")
        assert (await store.counter(name="n01"))["value"] == 1

    run(replica_set, play)


@pytest.mark.parametrize(
    ("options", "lines"),
    [("", 10), ("&maxPoolSize=3", 3), ("&socketTimeoutMS=9000", 0), ("&timeoutMS=9000", 0), ("&maxIdleTimeMS=1", 10)],
)
def test_what_the_url_asks_of_connections_holds(replica_set: Harness, options: str, lines: int) -> None:
    async def play(store: Any) -> None:
        for _ in range(2 * lines or 2):
            assert await values(store, 10) == list(range(10))
            assert len(lines_of(store)._idle) <= lines
            await asyncio.sleep(0.01)
        assert bool(lines_of(store)._idle or lines_of(store)._opening) == bool(lines)

    run(replica_set, play, options)


class Slow:
    """Opening a line takes until it is let go on, as with a server that does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.made: list[Line] = []
        make = Line.__init__

        def slow(line: Line, client: Any) -> None:
            self.begun.set()
            assert self.go_on.wait(20)
            make(line, client)
            self.made.append(line)

        monkeypatch.setattr(Line, "__init__", slow)


def test_nobody_waits_for_a_line(replica_set: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither reads, nor what else the process does on threads of the loop; and it opens one at a time."""
    slow = Slow(monkeypatch)

    async def play(store: Any) -> None:
        before = threading.active_count()
        for _ in range(3):
            assert await asyncio.wait_for(values(store, 40), 10) == list(range(40))
        assert slow.begun.is_set()
        assert not slow.made
        assert [thread.name for thread in threading.enumerate()].count("keyplan-line") == 1, before
        slow.go_on.set()
        await warm(store, 2)

    run(replica_set, play)


def test_a_line_that_is_opened_while_the_store_closes_is_closed(
    replica_set: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(monkeypatch)

    async def play(store: Any) -> None:
        assert await values(store, 3) == [0, 1, 2]
        slow.begun.wait(20)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        slow.go_on.set()
        await closing
        with pytest.raises(keyplan.KeyplanError, match="closed"):
            await store.counter(name="n01")

    run(replica_set, play)
    assert not any(line.usable for line in slow.made)


def test_reads_in_flight_when_the_store_closes_have_a_clear_outcome(replica_set: Harness) -> None:
    async def play(store: Any) -> None:
        lines = await warm(store, 4)
        reads = [asyncio.ensure_future(store.counter(name=named(n))) for n in range(20)]
        await asyncio.sleep(0)
        await store.close()
        for found in await asyncio.gather(*reads, return_exceptions=True):
            assert isinstance(found, keyplan.UnavailableError) or found["value"] in range(20)
        assert not any(line.usable for line in lines)

    run(replica_set, play)


def test_where_no_server_answers_reads_wait_as_long_as_the_url_says() -> None:
    """However many of them there are."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"mongodb://127.0.0.1:{free.getsockname()[1]}/none?serverSelectionTimeoutMS=400"

    async def main() -> float:
        port = MongoAsyncPort(url)
        began = time.monotonic()
        found = await asyncio.gather(*(port.send((Find("Counter", {}, limit=1),)) for _ in range(50)))
        took = time.monotonic() - began
        assert all(isinstance(reply, keyplan.UnavailableError) for (reply,) in found)
        await port.close()
        return took

    assert asyncio.run(main()) < 2


def test_lines_follow_the_loop_they_are_used_in(replica_set: Harness) -> None:
    url = replica_set.url()
    keyplan.apply(MODEL, url)
    link = transport.Link(url, transport.pymongo.MongoClient)
    lines = Lines(link.client.options, lambda: link.client)
    find = {"find": "Counter", "filter": {}, "limit": 1, "batchSize": 1}

    async def found() -> Any:
        async with asyncio.timeout(20):
            while True:
                reply = await lines.ask(link.database.name, find, link.options)
                if reply is not None:
                    return reply["cursor"]["firstBatch"]
                await asyncio.sleep(0.001)

    async def one_within_another() -> None:
        assert await found() == []
        (line,) = lines._idle
        other = asyncio.new_event_loop()
        ask = lines.ask(link.database.name, find, link.options)
        assert await asyncio.to_thread(other.run_until_complete, ask) is None
        other.close()
        assert lines._idle == [line]
        assert line.usable

    for _ in range(3):
        assert asyncio.run(found()) == []
    asyncio.run(one_within_another())
    asyncio.run(lines.close())
