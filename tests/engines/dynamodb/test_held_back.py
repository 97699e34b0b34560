"""What the port sends again by itself: not for longer than it says, not once another design is applied, and not behind
`close`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import keyplan
from keyplan.engines import lease
from keyplan.engines.dynamodb import port
from keyplan.engines.dynamodb.transport import AsyncTransport, Transport
from keyplan.engines.dynamodb.wire import LostReplyError, NotSentError
from keyplan.errors import DesignMismatchError, KeyplanError, ThrottledError, UnavailableError, UncertainError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.store import lease as stores
from keyplan.store import open as opening
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.engines.dynamodb.test_unprocessed import MODEL, ROWS

MORE = MODEL.replace(
    "writes:",
    '  made: { from: Film, compute: { n: count() }, where: "studio = :studio", rows: 9k, rate: 300/s }\nwrites:',
)
Deal = Callable[[Any, Callable[[], Any]], Any]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody is waited for: time passes by the test's own clock."""
    monkeypatch.setattr(lease, "TERM", 20.0)
    monkeypatch.setattr(lease, "GRACE", -20.0)
    now = [stores.elapsed()]
    for module in (stores, opening, port):
        monkeypatch.setattr(module, "elapsed", lambda: now[0])
    return now


class Deals:
    """What becomes of the next calls of an operation, each told how it is really sent; none left: it is sent."""

    def __init__(self) -> None:
        self.operation = "BatchWriteItem"
        self.next: list[Deal] = []
        self.calls = 0

    def one(self, call: Any, really: Callable[[], Any]) -> Any:
        if call.operation != self.operation or not self.next:
            return really()
        self.calls += 1
        return self.next.pop(0)(call, really)


@pytest.fixture
def deals(monkeypatch: pytest.MonkeyPatch) -> Deals:
    """What becomes of calls, on every transport."""
    made = Deals()
    whole, whole_async = Transport.send_all, AsyncTransport.send_all

    def send_all(self: Transport, calls: Any) -> Any:
        return [made.one(call, lambda call=call: whole(self, [call])[0]) for call in calls]

    async def send_all_async(self: AsyncTransport, calls: Any) -> Any:
        found = []
        for call in calls:
            reply = made.one(call, lambda call=call: whole_async(self, [call]))
            found.append((await reply)[0] if asyncio.iscoroutine(reply) else reply)
        return found

    monkeypatch.setattr(Transport, "send_all", send_all)
    monkeypatch.setattr(AsyncTransport, "send_all", send_all_async)
    return made


def refuse(call: Any, really: Any) -> Any:
    return ThrottledError("dynamodb: throttled")


def lose(call: Any, really: Any) -> Any:
    really()
    error = UnavailableError("dynamodb: no reply")
    error.__cause__ = LostReplyError("timed out")
    return error


def miss(call: Any, really: Any) -> Any:
    error = UnavailableError("dynamodb: cannot be reached")
    error.__cause__ = NotSentError("connection refused")
    return error


def models() -> tuple[Model, Model]:
    return parse_model(MODEL), parse_model(MORE)


def made(url: str) -> tuple[Model, Model, Callable[[], None]]:
    """A table with the first design, and what applies the second."""
    before, after = models()
    keyplan.apply(before, url)
    return before, after, lambda: keyplan.apply(after, url) and None


def rows_of(after: Model, url: str) -> int:
    with keyplan.open(after, url) as store:
        assert store.verify().ok
        return sum(store.made(studio=f"s{number}")["n"] for number in range(7))


def test_a_load_that_is_short_of_capacity_stops_when_another_design_is_applied(
    dynoxide: Server, deals: Deals, clock: list[float]
) -> None:
    url = url_of(dynoxide.url)
    before, after, change = made(url)

    def late(call: Any, really: Any) -> Any:
        change()
        clock[0] += 25
        return refuse(call, really)

    with keyplan.open(before, url) as store:
        deals.next = [refuse, late]
        with pytest.raises(DesignMismatchError, match="open it again"):
            store.load(ROWS[:20])
    assert rows_of(after, url) == 0


def test_so_does_an_async_one(dynoxide: Server, deals: Deals, clock: list[float]) -> None:
    url = url_of(dynoxide.url)
    before, after, change = made(url)

    def late(call: Any, really: Any) -> Any:
        change()
        clock[0] += 25
        return refuse(call, really)

    async def load() -> None:
        async with keyplan.open_async(before, url) as store:
            deals.next = [refuse, late]
            with pytest.raises(DesignMismatchError, match="open it again"):
                await store.load(ROWS[:20])

    asyncio.run(load())
    assert rows_of(after, url) == 0


def test_one_that_goes_on_for_long_looks_at_the_record_meanwhile(
    dynoxide: Server, deals: Deals, clock: list[float]
) -> None:
    """All of it is written in the end, though it takes longer than what was seen at its beginning is believed."""
    url = url_of(dynoxide.url)
    before, _, _ = made(url)

    def slowly(call: Any, really: Any) -> Any:
        clock[0] += 12
        return refuse(call, really)

    with keyplan.open(before, url) as store:
        seen = store._port._lease.seen.since  # type: ignore[attr-defined]
        deals.next = [slowly, slowly, slowly]
        assert store.load(ROWS[:20]) == 20
        assert store._port._lease.seen.since > seen  # type: ignore[attr-defined]
        assert store.verify().rows == 20


@pytest.mark.parametrize("refusal", [refuse, lose])
def test_the_time_that_requests_take_counts(dynoxide: Server, deals: Deals, clock: list[float], refusal: Deal) -> None:
    url = url_of(dynoxide.url)
    before, _, _ = made(url)

    def slowly(call: Any, really: Any) -> Any:
        clock[0] += 11
        return refusal(call, lambda: None)

    with keyplan.open(before, url) as store:
        deals.next = [slowly] * 50
        with pytest.raises(ThrottledError if refusal is refuse else UnavailableError):
            store.load(ROWS[:20])
        assert deals.calls == 4, "33 seconds behind the first refusal"
        deals.next = []
        assert store.load(ROWS[:20]) == 20


def test_as_long_as_it_gets_on_it_goes_on(dynoxide: Server, deals: Deals, clock: list[float]) -> None:
    url = url_of(dynoxide.url)
    before, _, _ = made(url)

    def one_at_a_time(call: Any, really: Any) -> Any:
        clock[0] += 20
        ((table, asked),) = call.body["RequestItems"].items()
        call.body["RequestItems"] = {table: asked[:1]}
        reply = really()
        return {**reply, "UnprocessedItems": {table: asked[1:]} if asked[1:] else {}}

    with keyplan.open(before, url) as store:
        deals.next = [one_at_a_time] * 20
        assert store.load(ROWS[:20]) == 20
        assert store.verify().rows == 20


def test_the_time_that_reads_take_counts(dynoxide: Server, deals: Deals, clock: list[float]) -> None:
    url = url_of(dynoxide.url)
    before, _, _ = made(url)
    deals.operation = "BatchGetItem"

    def slowly(call: Any, really: Any) -> Any:
        clock[0] += 6
        return {"Responses": {}, "UnprocessedKeys": call.body["RequestItems"]}

    with keyplan.open(before, url) as store:
        store.load(ROWS[:20])
        deals.next = [slowly] * 50
        with pytest.raises(ThrottledError, match="read more slowly"):
            store.films(films=[1, 2, 3])
        assert deals.calls <= 5


@pytest.mark.parametrize("then", ["unreachable", "another design"])
def test_a_write_whose_reply_was_lost_stays_uncertain(
    dynoxide: Server, deals: Deals, clock: list[float], then: str
) -> None:
    """Though the next attempt was surely not sent."""
    url = url_of(dynoxide.url)
    before, after, change = made(url)

    def lose_and_change(call: Any, really: Any) -> Any:
        reply = lose(call, really)
        change()
        clock[0] += 25
        return reply

    with keyplan.open(before, url) as store:
        deals.operation = _operation(store, deals)
        deals.next = [lose, miss, miss, miss] if then == "unreachable" else [lose_and_change]
        with pytest.raises(UncertainError, match="may or may not"):
            store.add(film=1, title="one", studio="s1")
    if then == "unreachable":
        with keyplan.open(before, url) as store:
            assert store.film(film=1)["title"] == "one"
    else:
        assert rows_of(after, url) == 1


def _operation(store: Any, deals: Deals) -> str:
    """What a create is sent as; one that may be repeated."""
    edits: list[str] = []
    whole = store._port._port._transport.__class__.send_all

    def noted(self: Any, calls: Any) -> Any:
        edits.extend(call.operation for call in calls)
        return whole(self, calls)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transport, "send_all", noted)
        store.add(film=77, title="x", studio="s9")
    (operation,) = {one for one in edits if one in ("PutItem", "TransactWriteItems")}
    return operation


def test_close_while_others_read_many_keys(dynoxide: Server) -> None:
    """Each call is answered or told that the store is closed, and no worker stays behind."""
    url = url_of(dynoxide.url)
    model, _ = models()
    keyplan.apply(model, url)
    before = {thread.name for thread in threading.enumerate()}
    for attempt in range(8):
        store = keyplan.open(model, url)
        store.load(ROWS)
        transport: Any = store._port._port._transport  # type: ignore[attr-defined]
        table = store._port.where  # type: ignore[attr-defined]
        calls = [port.Call("Query", port.Request("Query", _query(number)).filled(table), True) for number in range(20)]
        told: list[Any] = []

        def ask(transport: Any = transport, calls: Any = calls, told: list[Any] = told) -> None:
            try:
                for _ in range(30):
                    told.extend(transport.send_all(calls))
            except BaseException as error:  # whatever it is, it must not be
                told.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.02 * attempt)
        store.close()
        for thread in threads:
            thread.join()
        errors = [one for one in told if isinstance(one, BaseException)]
        assert all(isinstance(one, KeyplanError) and "the store is closed" in str(one) for one in errors), errors[:1]
        assert not transport._idle
    left = {thread.name for thread in threading.enumerate() if thread.name.startswith("keyplan-dynamodb")}
    assert left <= before


def _query(number: int) -> dict[str, Any]:
    return {
        "KeyConditionExpression": "PK = :pk",
        "ExpressionAttributeValues": {":pk": {"S": f"x{number}"}},
    }
