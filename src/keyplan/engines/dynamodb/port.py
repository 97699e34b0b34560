"""The live connection: fills in the table's name, sends, and completes what DynamoDB left undone.

A reply that was lost is asked for again where repeating is safe: reads, plain puts, and transactions, which DynamoDB
knows by their token. Batches of a bulk write are sent at once. What batches leave undone, writing or reading, is
sent again, after growing pauses. Whether the store may still do so is asked before all of this (`engines/lease.py`).
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from keyplan.engines.dynamodb.credentials import parse_url, resolve
from keyplan.engines.dynamodb.faults import ConditionError, FailedError, RefusedError
from keyplan.engines.dynamodb.fence import FencedRequest, OvertakenError
from keyplan.engines.dynamodb.operations import READS, Request
from keyplan.engines.dynamodb.transport import AsyncTransport, Call, Transport
from keyplan.engines.dynamodb.wire import LostReplyError
from keyplan.engines.dynamodb.writes import BulkRequest, WriteRequest
from keyplan.engines.elapsed import elapsed
from keyplan.engines.ports import Against, AgainstAsync
from keyplan.engines.rounds import Reply, Round
from keyplan.errors import EngineError, KeyplanError, OversizeError, ThrottledError, UnavailableError, UncertainError

T = TypeVar("T")
Calls = Generator["list[Call] | float", "list[Any]", T]
"""Yields calls to be sent at once, or seconds to wait; is sent the replies."""

REPEATS = 3
"""How often a request whose reply was lost, or that the service failed at, is sent again."""
BULK_SECONDS = 30.0
"""How long a bulk write goes on while nothing is written for want of capacity, or of replies."""
READ_SECONDS = 10.0
"""How long the keys that a batch left unread are asked for while none comes."""
FIRST_PAUSE = 0.05
IN_FLIGHT = 32


class WithheldError(UnavailableError):
    """Stands for the reply to a call that was not sent, because the store may no longer do so."""

    def __init__(self, why: KeyplanError) -> None:
        super().__init__(str(why))
        self.why = why


class _Waiting:
    """Growing pauses, and how long they, and the requests between them, have taken since anything came of them."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._pause = FIRST_PAUSE

    @property
    def seconds(self) -> float:
        return 0.0 if self._since is None else elapsed() - self._since

    def got_on(self) -> None:
        self._since, self._pause = None, FIRST_PAUSE

    def got_nothing(self) -> None:
        self._since = elapsed() if self._since is None else self._since

    def next(self) -> float:
        """How long to wait now."""
        self.got_nothing()
        seconds = self._pause * (0.5 + random.random())
        self._pause = min(2.0, self._pause * 2)
        return seconds


def exchange(round: Round, table: str) -> Calls[list[Reply]]:
    """The replies to a round, in as few exchanges as it takes."""
    replies: list[Reply] = [None] * len(round)
    plain: list[int] = []
    for number, request in enumerate(round):
        if isinstance(request, BulkRequest):
            replies[number] = yield from _bulk(request, table)
        elif isinstance(request, FencedRequest):
            replies[number] = yield from _fenced(request, table)
        else:
            plain.append(number)
    if plain:
        found = yield from _send([round[number] for number in plain], table)
        for number, reply in zip(plain, found, strict=True):
            replies[number] = reply
    return replies


def _send(requests: Sequence[Request], table: str) -> Calls[list[Reply]]:
    calls = [Call(one.operation, one.filled(table), one.repeatable) for one in requests]
    replies = yield calls
    for number, reply in enumerate(replies):
        if isinstance(reply, EngineError):
            if _is_lost(reply):
                reply = yield from _again(calls[number], reply)
            request = requests[number]
            if _is_imprecise(reply) and isinstance(request, WriteRequest):
                reply = yield from _summed(request, reply, table)
            replies[number] = request.refused(reply) if isinstance(request, WriteRequest) else reply
    if any(call.operation == "BatchGetItem" for call in calls):
        yield from _complete(calls, replies)
    return replies


def _complete(calls: Sequence[Call], replies: list[Any]) -> Calls[None]:
    """Asks for the keys that batches left unread, because they would be too large or for want of capacity.

    The first time at once; then after pauses that grow while nothing comes, until the time for that is over.
    """
    waiting = _Waiting()
    at_once = True
    while True:
        unread = {
            number: left
            for number, reply in enumerate(replies)
            if calls[number].operation == "BatchGetItem" and isinstance(reply, dict)
            if (left := reply.get("UnprocessedKeys"))
        }
        if not unread:
            return
        if waiting.seconds >= READ_SECONDS:
            for number in unread:
                replies[number] = _throttled("BatchGetItem", waiting.seconds, "read more slowly")
            return
        if not at_once:
            yield waiting.next()
        at_once = False
        found = yield [Call("BatchGetItem", {"RequestItems": left}, True) for left in unread.values()]
        for number, more in zip(unread, found, strict=True):
            if isinstance(more, ThrottledError) or _is_lost(more):
                continue
            if isinstance(more, EngineError):
                replies[number] = more
                continue
            whole = replies[number].setdefault("Responses", {})
            for table, items in more.get("Responses", {}).items():
                whole.setdefault(table, []).extend(items)
                if items:
                    waiting.got_on()
            replies[number]["UnprocessedKeys"] = more.get("UnprocessedKeys") or {}


def _throttled(operation: str, waited: float, advice: str) -> ThrottledError:
    error = ThrottledError(f"dynamodb {operation}: throttled for {waited:.0f} s; {advice}")
    error.waited = waited
    return error


def _is_lost(reply: Any) -> bool:
    lost = isinstance(reply, UnavailableError) and isinstance(reply.__cause__, LostReplyError)
    return lost or isinstance(reply, FailedError)


def _again(call: Call, lost: Any) -> Calls[Any]:
    """Repeats a call that may be repeated, and whose reply was lost or that the service failed at."""
    reply = lost
    may_be_done = False
    for attempt in range(REPEATS):
        may_be_done = may_be_done or _may_be_done(reply)
        yield 0.05 * 2**attempt * (0.5 + random.random())
        (reply,) = yield [call]
        if isinstance(reply, WithheldError) or not isinstance(reply, UnavailableError):
            break
    if call.operation in READS or not (may_be_done or _may_be_done(reply)):
        return reply
    if isinstance(reply, UnavailableError):  # what was sent before may have been done, whatever became of this one
        return UncertainError(f"{reply}; the write may or may not have been done")
    return reply


def _may_be_done(reply: Any) -> bool:
    return reply.done if isinstance(reply, FailedError) else _is_lost(reply)


def _is_imprecise(reply: Any) -> bool:
    return isinstance(reply, RefusedError) and "38" in str(reply) and "digits" in str(reply)


def _summed(request: WriteRequest, error: EngineError, table: str) -> Calls[Any]:
    """A write whose sums of floats DynamoDB cannot hold, with the sums worked out here, from items as they are now."""
    reads = request.float_reads()
    seen = None
    reply: Any = error
    while reads:
        found = yield [Call(read.operation, read.filled(table), True) for read in reads.values()]
        for one in found:
            if isinstance(one, EngineError):
                return one
        items = {number: one.get("Item") for number, one in zip(reads, found, strict=True)}
        if items == seen:
            return reply
        seen = items
        again = request.summed(items)
        (reply,) = yield [Call(again.operation, again.filled(table), again.repeatable)]
        if not isinstance(reply, ConditionError) and not _is_imprecise(reply):
            return reply
    return reply


def _bulk(request: BulkRequest, table: str) -> Calls[Reply]:
    batches = list(request.batches)
    waiting = _Waiting()
    while batches:
        left: list[list[dict[str, Any]]] = []
        for start in range(0, len(batches), IN_FLIGHT):
            some = batches[start : start + IN_FLIGHT]
            replies = yield [Call("BatchWriteItem", {"RequestItems": {table: batch}}, True) for batch in some]
            for batch, reply in zip(some, replies, strict=True):
                if isinstance(reply, ThrottledError) or _is_lost(reply):
                    left.append(batch)
                    waiting.got_nothing()
                elif isinstance(reply, EngineError):
                    return request.refused(reply)
                else:
                    unwritten = [one for one in reply.get("UnprocessedItems", {}).values() if one]
                    left += unwritten
                    if sum(map(len, unwritten)) < len(batch):
                        waiting.got_on()
            if left and waiting.seconds >= BULK_SECONDS:
                return _given_up(replies) or _throttled("BatchWriteItem", waiting.seconds, "load more slowly")
        batches = left
        if batches:
            yield waiting.next()
    return {}


def _given_up(replies: Sequence[Any]) -> EngineError | None:
    """The error of requests that were not answered at all."""
    return next((reply for reply in replies if _is_lost(reply)), None)


def _fenced(request: FencedRequest, table: str) -> Calls[Reply]:
    chunks = list(reversed(request.chunks))
    waiting = _Waiting()
    while chunks:
        chunk = chunks.pop()
        whole = Request(
            "TransactWriteItems",
            {"TransactItems": [*chunk, request.check], "ClientRequestToken": secrets.token_hex(16)},
        )
        call = Call(whole.operation, whole.filled(table), True)
        (reply,) = yield [call]
        if _is_lost(reply):
            reply = yield from _again(call, reply)
        if isinstance(reply, ThrottledError) and waiting.seconds < BULK_SECONDS:
            chunks.append(chunk)
            yield waiting.next()
        elif isinstance(reply, ThrottledError):
            return _throttled(call.operation, waiting.seconds, "try again, or raise the capacity")
        elif isinstance(reply, ConditionError):
            overtaken = len(reply.reasons) > len(chunk) and reply.reasons[-1].code == "ConditionalCheckFailed"
            return OvertakenError() if overtaken else reply
        elif isinstance(reply, OversizeError | RefusedError) and len(chunk) > 1:
            middle = len(chunk) // 2
            chunks += [chunk[middle:], chunk[:middle]]
        elif isinstance(reply, Exception):
            return reply
        else:
            waiting.got_on()
    return {}


def _told(replies: Sequence[Reply]) -> Sequence[Reply]:
    """Replies as callers know them."""
    return [reply.why if isinstance(reply, WithheldError) else reply for reply in replies]


def _nothing(round: Round) -> None:
    """Nothing speaks against it."""


async def _nothing_async(round: Round) -> None:
    """As above."""


class DynamoDBPort:
    """A table, sync; safe to share between threads."""

    def __init__(self, url: str) -> None:
        address = parse_url(url)
        self._table = self.where = address.table
        self._transport = Transport(resolve(address))

    def send(self, round: Round) -> Sequence[Reply]:
        return self.send_while(round, _nothing)

    def send_while(self, round: Round, against: Against) -> Sequence[Reply]:
        steps = exchange(round, self._table)
        asks = withheld = False
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    time.sleep(step)
                    step = steps.send([])
                elif asks and (why := against(round)) is not None:
                    withheld = True
                    step = steps.send([WithheldError(why)] * len(step))
                else:
                    asks = True
                    step = steps.send(self._transport.send_all(step))
        except StopIteration as done:
            replies: Sequence[Reply] = done.value
            return _told(replies) if withheld else replies

    def close(self) -> None:
        self._transport.close()


class DynamoDBAsyncPort:
    """A table, async."""

    def __init__(self, url: str) -> None:
        address = parse_url(url)
        self._table = self.where = address.table
        self._transport = AsyncTransport(resolve(address))

    async def send(self, round: Round) -> Sequence[Reply]:
        return await self.send_while(round, _nothing_async)

    async def send_while(self, round: Round, against: AgainstAsync) -> Sequence[Reply]:
        steps = exchange(round, self._table)
        asks = withheld = False
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    step = steps.send([])
                elif asks and (why := await against(round)) is not None:
                    withheld = True
                    step = steps.send([WithheldError(why)] * len(step))
                else:
                    asks = True
                    step = steps.send(await self._transport.send_all(step))
        except StopIteration as done:
            replies: Sequence[Reply] = done.value
            return _told(replies) if withheld else replies

    async def close(self) -> None:
        await self._transport.close()
