"""Consistency per call, seen on the wire: where reads go, with which concern; sessions read their own writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
patterns:
  counter: { find: Counter, where: "name = :name", rate: 10/s }
  several: { find: Counter, where: "begins_with(name, :start)", order: name, rate: 10/s }
writes:
  make: { create: Counter, rate: 1/s }
  set: { update: Counter, set: [value], where: "name = :name", rate: 1/s }
""")


class Listener(CommandListener):
    """Keeps the finds that were sent, with the node they went to."""

    def __init__(self) -> None:
        self.finds: list[dict[str, Any]] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name == "find":
            self.finds.append({**event.command, "node": event.connection_id})

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass


@pytest.fixture
def listened(mongodb: Harness, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[keyplan.Store, Listener]]:
    url = f"{mongodb.url()}&readPreference=secondaryPreferred"
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
