"""The live connection: fills in the table's name, sends, and completes what DynamoDB left undone.

A reply that was lost is asked for again where repeating is safe: reads, plain puts, and transactions, which DynamoDB
knows by their token. Batches of a bulk write are sent at once. What batches leave undone, writing or reading, is
sent again, after growing pauses.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from keyplan.engines.base import Reply, Round
from keyplan.engines.dynamodb.credentials import parse_url, resolve
from keyplan.engines.dynamodb.faults import ConditionError, FailedError, OversizeError, RefusedError
from keyplan.engines.dynamodb.fence import FencedRequest, OvertakenError
from keyplan.engines.dynamodb.operations import READS, Request
from keyplan.engines.dynamodb.transport import AsyncTransport, Call, Transport
from keyplan.engines.dynamodb.wire import LostReplyError
from keyplan.engines.dynamodb.writes import BulkRequest, WriteRequest
from keyplan.errors import EngineError, ThrottledError, UnavailableError, UncertainError

T = TypeVar("T")
Calls = Generator["list[Call] | float", "list[Any]", T]
"""Yields calls to be sent at once, or seconds to wait; is sent the replies."""

REPEATS = 3
"""How often a request whose reply was lost, or that the service failed at, is sent again."""
BULK_SECONDS = 30.0
"""How long a bulk write may wait for capacity."""
READ_SECONDS = 10.0
"""How long the keys that a batch left unread may wait for capacity."""
FIRST_PAUSE = 0.05
IN_FLIGHT = 32


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
                reply = yield from _again(calls[number])
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
    waited, pause = 0.0, 0.0
    while True:
        unread = {
            number: left
            for number, reply in enumerate(replies)
            if calls[number].operation == "BatchGetItem" and isinstance(reply, dict)
            if (left := reply.get("UnprocessedKeys"))
        }
        if not unread:
            return
        if waited >= READ_SECONDS:
            for number in unread:
                replies[number] = _throttled("BatchGetItem", waited, "read more slowly")
            return
        if pause:
            seconds = pause * (0.5 + random.random())
            yield seconds
            waited += seconds
        pause = min(2.0, pause * 2 or FIRST_PAUSE)
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
                pause = FIRST_PAUSE if items else pause
            replies[number]["UnprocessedKeys"] = more.get("UnprocessedKeys") or {}


def _throttled(operation: str, waited: float, advice: str) -> ThrottledError:
    error = ThrottledError(f"dynamodb {operation}: throttled for {waited:.0f} s; {advice}")
    error.waited = waited
    return error


def _is_lost(reply: Any) -> bool:
    lost = isinstance(reply, UnavailableError) and isinstance(reply.__cause__, LostReplyError)
    return lost or isinstance(reply, FailedError)


def _again(call: Call) -> Calls[Any]:
    """Repeats a call that may be repeated, and whose reply was lost or that the service failed at."""
    reply: Any = None
    for attempt in range(REPEATS):
        yield 0.05 * 2**attempt * (0.5 + random.random())
        (reply,) = yield [call]
        if not _is_lost(reply):
            return reply
    if call.operation in READS or (isinstance(reply, FailedError) and not reply.done):
        return reply
    return UncertainError(f"{reply}; the write may or may not have been done")


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
    waiting = list(request.batches)
    waited, pause = 0.0, FIRST_PAUSE
    while waiting:
        left: list[list[dict[str, Any]]] = []
        for start in range(0, len(waiting), IN_FLIGHT):
            some = waiting[start : start + IN_FLIGHT]
            replies = yield [Call("BatchWriteItem", {"RequestItems": {table: batch}}, True) for batch in some]
            for batch, reply in zip(some, replies, strict=True):
                if isinstance(reply, ThrottledError) or _is_lost(reply):
                    left.append(batch)
                elif isinstance(reply, EngineError):
                    return request.refused(reply)
                else:
                    left += [unwritten for unwritten in reply.get("UnprocessedItems", {}).values() if unwritten]
        waiting = left
        if waiting:
            if waited >= BULK_SECONDS:
                return _throttled("BatchWriteItem", waited, "load more slowly")
            seconds = pause * (0.5 + random.random())
            yield seconds
            waited += seconds
            pause = min(2.0, pause * 2)
    return {}


def _fenced(request: FencedRequest, table: str) -> Calls[Reply]:
    chunks = list(reversed(request.chunks))
    waited, pause = 0.0, FIRST_PAUSE
    while chunks:
        chunk = chunks.pop()
        whole = Request(
            "TransactWriteItems",
            {"TransactItems": [*chunk, request.check], "ClientRequestToken": secrets.token_hex(16)},
        )
        call = Call(whole.operation, whole.filled(table), True)
        (reply,) = yield [call]
        if _is_lost(reply):
            reply = yield from _again(call)
        if isinstance(reply, ThrottledError) and waited < BULK_SECONDS:
            chunks.append(chunk)
            seconds = pause * (0.5 + random.random())
            yield seconds
            waited, pause = waited + seconds, min(2.0, pause * 2)
        elif isinstance(reply, ThrottledError):
            return _throttled(call.operation, waited, "try again, or raise the capacity")
        elif isinstance(reply, ConditionError):
            overtaken = len(reply.reasons) > len(chunk) and reply.reasons[-1].code == "ConditionalCheckFailed"
            return OvertakenError() if overtaken else reply
        elif isinstance(reply, OversizeError | RefusedError) and len(chunk) > 1:
            middle = len(chunk) // 2
            chunks += [chunk[middle:], chunk[:middle]]
        elif isinstance(reply, Exception):
            return reply
        else:
            waited, pause = 0.0, FIRST_PAUSE
    return {}


class DynamoDBPort:
    """A table, sync; safe to share between threads."""

    def __init__(self, url: str) -> None:
        address = parse_url(url)
        self._table = self.where = address.table
        self._transport = Transport(resolve(address))

    def send(self, round: Round) -> Sequence[Reply]:
        steps = exchange(round, self._table)
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    time.sleep(step)
                    step = steps.send([])
                else:
                    step = steps.send(self._transport.send_all(step))
        except StopIteration as done:
            replies: Sequence[Reply] = done.value
            return replies

    def close(self) -> None:
        self._transport.close()


class DynamoDBAsyncPort:
    """A table, async."""

    def __init__(self, url: str) -> None:
        address = parse_url(url)
        self._table = self.where = address.table
        self._transport = AsyncTransport(resolve(address))

    async def send(self, round: Round) -> Sequence[Reply]:
        steps = exchange(round, self._table)
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    step = steps.send([])
                else:
                    step = steps.send(await self._transport.send_all(step))
        except StopIteration as done:
            replies: Sequence[Reply] = done.value
            return replies

    async def close(self) -> None:
        await self._transport.close()
