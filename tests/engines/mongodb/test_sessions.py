"""Consistency and concerns per call, seen on the wire: where reads go, what they see, what writes wait for.

Sessions read their own writes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pymongo as driver
import pytest
from pymongo.monitoring import CommandListener, CommandStartedEvent

import keyplan
from keyplan.engines.mongodb import transport
from tests.engines.harness import Harness

MODEL = keyplan.parse_model("""
keyplan: 1
name: counter
entities:
  Counter: { count: 100, fields: { name: "string(10), key", value: "int, default 0" } }
  Note: { count: 100, fields: { note_id: "uuid, key", text: string(20) } }
patterns:
  counter: { find: Counter, where: "name = :name", rate: 10/s }
  several: { find: Counter, where: "begins_with(name, :start)", order: name, rate: 10/s }
writes:
  make: { create: Counter, rate: 1/s }
  note: { create: Note, rate: 1/s }
  set: { update: Counter, set: [value], where: "name = :name", rate: 1/s }
transactions:
  both: [make, note]
""")


class Listener(CommandListener):
    """Keeps the finds that were sent, with the node they went to, and the concerns of writes."""

    def __init__(self) -> None:
        self.finds: list[dict[str, Any]] = []
        self.concerns: list[dict[str, Any]] = []

    def started(self, event: CommandStartedEvent) -> None:
        if "writeConcern" in event.command:
            self.concerns.append(dict(event.command["writeConcern"]))
        if event.command_name == "find":
            self.finds.append({**event.command, "node": event.connection_id})

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass


@pytest.fixture
def listened(replica_set: Harness, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[keyplan.Store, Listener]]:
    url = f"{replica_set.url()}&readPreference=secondaryPreferred"
    keyplan.apply(MODEL, url)
    listener = Listener()
    client = transport.pymongo.MongoClient
    monkeypatch.setattr(
        transport.pymongo, "MongoClient", lambda url, **options: client(url, event_listeners=[listener], **options)
    )
    with keyplan.open(MODEL, url) as store:
        listener.finds.clear()
        yield store, listener


def test_a_session_reads_its_own_writes_wherever_it_reads(listened: tuple[keyplan.Store, Listener]) -> None:
    store, listener = listened
    store.make(name="a")
    for number in range(30):
        store.set(name="a", value=number)
        assert store.counter(name="a", consistency="session")["value"] == number
    concerns = [find["readConcern"] for find in listener.finds]
    assert all(concern["level"] == "majority" and "afterClusterTime" in concern for concern in concerns)
    preferences = {find.get("$readPreference", {}).get("mode") for find in listener.finds}
    assert preferences == {"secondaryPreferred"}


def test_a_session_waits_for_nothing_that_nobody_wrote(listened: tuple[keyplan.Store, Listener]) -> None:
    """Otherwise, on a server that has nothing else to do, a read waits for its next empty write, ten seconds."""
    store, listener = listened
    port: Any = store._port
    for number in range(5):
        store.both(make={"name": f"b{number}"}, note={"text": "x"})
        written = port._link.client.admin.command("replSetGetStatus")["optimes"]["appliedOpTime"]["ts"]
        store.counter(name=f"b{number}", consistency="session")
        assert listener.finds[-1]["readConcern"]["afterClusterTime"] <= written
    store.load([("Counter", {"name": f"c{number}"}) for number in range(3)])
    assert [row["name"] for row in store.several(start="c", consistency="session")] == ["c0", "c1", "c2"]


def test_a_strong_read_asks_the_primary(listened: tuple[keyplan.Store, Listener]) -> None:
    store, listener = listened
    store.make(name="a", value=5)
    assert store.counter(name="a", consistency="strong")["value"] == 5
    (find,) = listener.finds
    assert find["readConcern"] == {"level": "majority"}
    assert find.get("$readPreference", {"mode": "primary"})["mode"] == "primary"


def test_sessions_of_long_answers(listened: tuple[keyplan.Store, Listener]) -> None:
    store, _ = listened
    store.load([("Counter", {"name": f"n{number:04}"}) for number in range(2500)])
    found = list(store.several.all(start="n", consistency="session"))
    assert [row["name"] for row in found] == [f"n{number:04}" for number in range(2500)]


def test_what_a_write_waits_for_can_be_said_for_single_calls(listened: tuple[keyplan.Store, Listener]) -> None:
    store, listener = listened
    listener.concerns.clear()
    store.make(name="a")
    store.using(w=1).make(name="b")
    store.using(w="majority", journal=True, wtimeoutMS=9000).set(name="b", value=2)
    store.set(name="b", value=3)
    assert listener.concerns == [
        {"w": "majority"},
        {"w": 1},
        {"w": "majority", "j": True, "wtimeout": 9000},
        {"w": "majority"},
    ]
    assert store.counter(name="b", consistency="strong")["value"] == 3


def test_what_a_transaction_waits_for_can_be_said(
    replica_set: Harness, listened: tuple[keyplan.Store, Listener]
) -> None:
    store, listener = listened
    listener.concerns.clear()
    store.using(w=1).both(make={"name": "a"}, note={"text": "made"})
    assert listener.concerns == [{"w": 1}]  # of the commit


def test_where_a_read_goes_and_what_it_sees_can_be_said_for_single_calls(
    listened: tuple[keyplan.Store, Listener],
) -> None:
    store, listener = listened
    store.make(name="a", value=5)
    listener.finds.clear()
    near = store.using(readPreference="nearest", readConcernLevel="majority")
    assert near.counter(name="a")["value"] == 5
    assert [row["name"] for row in near.several(start="a").rows] == ["a"]
    assert near.counter(name="a", consistency="strong")["value"] == 5
    local = store.using(readConcernLevel="local")
    local.counter(name="a")
    seen = [
        (one.get("$readPreference", {}).get("mode"), one.get("readConcern", {}).get("level")) for one in listener.finds
    ]
    assert seen[:2] == [("nearest", "majority")] * 2
    assert seen[2] in ((None, "majority"), ("primary", "majority"))
    assert seen[3] == ("secondaryPreferred", "local")


def test_options_of_calls_that_make_no_sense_are_refused(listened: tuple[keyplan.Store, Listener]) -> None:
    store, _ = listened
    for options, said in (
        ({"speed": "high"}, "no option 'speed'; they have w, journal"),
        ({"w": 0}, "no write would be known to be done"),
        ({"w": -1}, "w"),
        ({"readPreference": "here"}, "no read preference 'here'"),
        ({"readConcernLevel": "most"}, "no read concern 'most'"),
    ):
        with pytest.raises(keyplan.ArgumentError, match=said):
            store.using(**options)


def test_a_write_that_waits_for_more_nodes_than_there_are_may_be_done_all_the_same(
    listened: tuple[keyplan.Store, Listener],
) -> None:
    store, _ = listened
    with pytest.raises(keyplan.UncertainError):
        store.using(w=9, wtimeoutMS=1000).make(name="a")
    store.set(name="a", value=2)
    assert store.counter(name="a", consistency="strong")["value"] == 2


def test_what_a_store_was_made_of_closes_the_connection(replica_set: Harness) -> None:
    url = replica_set.url()
    keyplan.apply(MODEL, url)
    with keyplan.open(MODEL, url) as store:
        with store.using(w=1) as other:
            other.make(name="a")
        assert store.counter(name="a")["value"] == 0
        with pytest.raises(keyplan.UnavailableError):
            other.make(name="b")
    with pytest.raises(keyplan.UnavailableError):
        store.using(w=1)


def test_async_calls_say_it_too(replica_set: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    url = replica_set.url()
    keyplan.apply(MODEL, url)
    listener = Listener()
    for name in ("AsyncMongoClient", "MongoClient"):
        client = getattr(transport.pymongo, name)
        monkeypatch.setattr(transport.pymongo, name, partial(client, event_listeners=[listener]))

    async def play() -> None:
        async with keyplan.open_async(MODEL, url) as store:
            listener.concerns.clear()
            await store.using(w=1).make(name="a")
            await store.make(name="b")
            with driver.MongoClient(url) as client:  # the driver hears nothing of plain reads: see lines.py
                told = client.get_default_database()
                told.command("profile", 2)
                try:
                    assert (await store.using(readConcernLevel="local").counter(name="a"))["value"] == 0
                finally:
                    told.command("profile", 0)
                (find,) = told["system.profile"].find({"command.find": "Counter"})
                assert find["command"]["readConcern"]["level"] == "local"

    asyncio.run(play())
    assert listener.concerns == [{"w": 1}, {"w": "majority"}]


def test_an_engine_without_such_options_says_so() -> None:
    with keyplan.open(MODEL, "sqlite::memory:") as store, pytest.raises(keyplan.UnsupportedError, match="using"):
        store.using(w=1)
