"""Batches that a server does only in part, as AWS does where capacity is short; local servers do not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import keyplan
from keyplan.engines.dynamodb import port
from keyplan.engines.dynamodb.transport import AsyncTransport, Transport
from keyplan.errors import ThrottledError
from keyplan.model.load import parse_model
from keyplan.reference import Database
from keyplan.store.pump import patient
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of

MODEL = """
keyplan: 1
name: films
targets: { dynamodb: { billing: on_demand } }
entities:
  Film:
    count: 1M
    fields: { film: "int, key", title: text(400), studio: "string(8), distinct 1000" }
patterns:
  film: { find: Film, where: "film = :film", rate: 1k/s }
  films: { find: Film, where: "film in :films[50]", rate: 100/s }
writes:
  add: { create: Film, rate: 200/s }
"""
ROWS = [("Film", {"film": n, "title": f"title {n}", "studio": f"s{n % 7}"}) for n in range(230)]


class Starved:
    """Lets a part of each batch through, and refuses every fifth whole."""

    def __init__(self, most: int = 10) -> None:
        self.most = most
        self.seen: Counter[str] = Counter()

    def split(self, call: Any) -> tuple[Any, Callable[[Any], Any]]:
        """The call that is sent, or None if it is refused, and what is made of its reply."""
        if call.operation not in ("BatchWriteItem", "BatchGetItem"):
            return call, lambda reply: reply
        self.seen[call.operation] += 1
        if self.most == 0 or self.seen[call.operation] % 5 == 4:
            return None, lambda reply: ThrottledError("dynamodb: throttled")
        ((table, asked),) = call.body["RequestItems"].items()
        if call.operation == "BatchWriteItem":
            now, left = asked[: self.most], asked[self.most :]
            rest = {"UnprocessedItems": {table: left} if left else {}}
        else:
            now = {**asked, "Keys": asked["Keys"][: self.most]}
            left = asked["Keys"][self.most :]
            rest = {"UnprocessedKeys": {table: {**asked, "Keys": left}} if left else {}}
        sent = type(call)(call.operation, {"RequestItems": {table: now}}, call.repeatable)
        return sent, lambda reply: {**reply, **rest}


@pytest.fixture
def starved(monkeypatch: pytest.MonkeyPatch) -> Starved:
    """Every transport is short of capacity."""
    rules = Starved()
    whole, whole_async = Transport.send_all, AsyncTransport.send_all

    def send_all(self: Transport, calls: Any) -> Any:
        pairs = [rules.split(call) for call in calls]
        sent = iter(whole(self, [call for call, _ in pairs if call is not None]))
        return [after(next(sent) if call is not None else None) for call, after in pairs]

    async def send_all_async(self: AsyncTransport, calls: Any) -> Any:
        pairs = [rules.split(call) for call in calls]
        sent = iter(await whole_async(self, [call for call, _ in pairs if call is not None]))
        return [after(next(sent) if call is not None else None) for call, after in pairs]

    monkeypatch.setattr(Transport, "send_all", send_all)
    monkeypatch.setattr(AsyncTransport, "send_all", send_all_async)
    return rules


def test_all_is_written_and_read_in_the_end(starved: Starved, dynoxide: Server) -> None:
    model, url = parse_model(MODEL), url_of(dynoxide.url)
    database = Database(model)
    database.load(ROWS)
    keyplan.apply(model, url)
    wanted = list(range(-5, 90))
    expected = sorted(database.call("films", films=wanted).rows, key=lambda row: row["film"])
    with keyplan.open(model, url) as store:
        assert store.load(ROWS) == len(ROWS)
        assert starved.seen["BatchWriteItem"] > len(ROWS) / 10, "in pieces"
        assert sorted(store.films(films=wanted).rows, key=lambda row: row["film"]) == expected
        assert starved.seen["BatchGetItem"] >= 10, "in pieces"
        assert store.verify().ok

    async def again() -> list[Any]:
        async with keyplan.open_async(model, url) as store:
            return list((await store.films(films=wanted)).rows)

    assert sorted(asyncio.run(again()), key=lambda row: row["film"]) == expected


def test_capacity_that_does_not_come_is_an_error(
    starved: Starved, dynoxide: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port, "BULK_SECONDS", 0.2)
    monkeypatch.setattr(port, "READ_SECONDS", 0.2)
    monkeypatch.setattr(patient, "__defaults__", (0.1,))
    model, url = parse_model(MODEL), url_of(dynoxide.url)
    keyplan.apply(model, url)
    with keyplan.open(model, url) as store:
        store.load(ROWS[:20])
        monkeypatch.setattr(
            starved,
            "split",
            lambda call: (
                (None, lambda _: {"Responses": {}, "UnprocessedKeys": call.body["RequestItems"]})
                if call.operation == "BatchGetItem"
                else (call, lambda reply: reply)
            ),
        )
        with pytest.raises(ThrottledError, match="read more slowly"):
            store.films(films=[1, 2, 3])
