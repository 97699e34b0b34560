"""Sends requests to DynamoDB, sync or async: sign, JSON, kept-alive connections, errors translated.

Nothing is repeated here behind the caller's back, with three exceptions in which nothing can have been done or
repeating does no harm: a request that did not leave completely on a kept connection, a repeatable one whose kept
connection turned out closed, and one refused because our clock is off, which is signed anew by the server's clock.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from keyplan.engines.dynamodb.credentials import Access
from keyplan.engines.dynamodb.faults import FAILURES, ClockError, RefusedError, error_code, translate
from keyplan.engines.dynamodb.operations import READS
from keyplan.engines.dynamodb.signing import Signer
from keyplan.engines.dynamodb.wire import (
    AsyncConnection,
    Connection,
    Destination,
    HttpReply,
    LostReplyError,
    NotSentError,
)
from keyplan.engines.elapsed import elapsed
from keyplan.errors import EngineError, UnavailableError, UncertainError

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
Body = dict[str, Any]


@dataclass(slots=True)
class Call:
    """One request. `repeatable`: doing it twice has the effect of doing it once; reads always are."""

    operation: str
    body: Body | bytes
    repeatable: bool = False


class _Common:
    """What both colours share: signing, and making sense of replies and failures."""

    def __init__(
        self,
        access: Access,
        *,
        connect_seconds: float = 3.0,
        reply_seconds: float = 30.0,
        idle_seconds: float = 20.0,
        connections: int = 64,
    ) -> None:
        self._access = access
        self._to = Destination.of(access.endpoint)
        self._signer = Signer(access.endpoint, access.region)
        self._connect_seconds = connect_seconds
        self._reply_seconds = reply_seconds
        self._idle_seconds = idle_seconds
        self._connections = connections

    def _where(self) -> str:
        return f"dynamodb at {self._signer.host}"

    def _is_closed(self) -> UnavailableError:
        return UnavailableError(f"{self._where()}: the store is closed; open it again")

    def _unreachable(self, error: NotSentError) -> UnavailableError:
        return UnavailableError(f"{self._where()}: cannot be reached, {error}; check the endpoint, region and network")

    def _lost(self, call: Call, error: LostReplyError) -> EngineError:
        if call.repeatable or call.operation in READS:
            return UnavailableError(f"{self._where()}: no reply to {call.operation}, {error}; try again")
        return UncertainError(
            f"{self._where()}: the reply to {call.operation} was lost, {error}; the write may or may not have been done"
        )

    def _stranger(self, call: Call, reply: HttpReply) -> EngineError:
        told = f"{self._where()}: what answers there is not DynamoDB ({reply.status}); check the endpoint and network"
        if reply.status == 200 and call.operation not in READS:
            return UncertainError(f"{told}, and whether the write has been done")
        return RefusedError(told)

    def _understand(self, call: Call, reply: HttpReply) -> Body:
        if reply.status == 200:
            try:
                found = json.loads(reply.body)
            except ValueError:
                found = None
            if isinstance(found, dict):
                return found
        if reply.status == 200 or not (reply.status in FAILURES or error_code(reply.body)):
            raise self._stranger(call, reply)
        raise translate(reply.status, reply.body, call.operation, repeatable=call.repeatable or call.operation in READS)

    def _take_clock(self, reply: HttpReply) -> bool:
        """Adopts the server's time; False if it is of no help."""
        date = reply.date()
        if date is None:
            return False
        try:
            offset = parsedate_to_datetime(date).timestamp() - time.time()
        except ValueError:
            return False
        if abs(offset - self._signer.offset_seconds) < 60:
            return False
        self._signer.offset_seconds = offset
        return True


def _bytes(body: Body | bytes) -> bytes:
    return body if isinstance(body, bytes) else _encode(body).encode()


class Transport(_Common):
    """The sync colour; safe to share between threads."""

    def __init__(self, access: Access, **options: Any) -> None:
        super().__init__(access, **options)
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._workers: ThreadPoolExecutor | None = None
        self._closed = False

    def send(self, operation: str, body: Body | bytes, *, repeatable: bool = False) -> Body:
        """One request and its reply; raises an EngineError."""
        return self._send(Call(operation, body, repeatable))

    def send_all(self, calls: Sequence[Call]) -> list[Body | EngineError]:
        """Independent requests at the same time; an error stands in the place of its reply."""
        if len(calls) == 1:
            return [self._outcome(calls[0])]
        try:
            outcomes = self._pool().map(self._outcome, calls)
        except (EngineError, RuntimeError):  # closed before, or just now
            return [self._is_closed()] * len(calls)
        return list(outcomes)

    def _pool(self) -> ThreadPoolExecutor:
        if self._workers is None:
            with self._lock:
                if self._closed:
                    raise self._is_closed()
                if self._workers is None:
                    self._workers = ThreadPoolExecutor(min(self._connections, 32), "keyplan-dynamodb")
        return self._workers

    def _outcome(self, call: Call) -> Body | EngineError:
        try:
            return self._send(call)
        except EngineError as error:
            return error

    def _send(self, call: Call) -> Body:
        body = _bytes(call.body)
        reply = self._exchange(call, body)
        try:
            return self._understand(call, reply)
        except ClockError:
            if not self._take_clock(reply):
                raise
        return self._understand(call, self._exchange(call, body))

    def _exchange(self, call: Call, body: bytes) -> HttpReply:
        if self._closed:
            raise self._is_closed()
        request = self._signer.request(call.operation, body, self._access.credentials())
        connection = self._kept()
        if connection is not None:
            try:
                return self._use(connection, request)
            except NotSentError:
                pass
            except LostReplyError as error:
                if error.began or not (call.repeatable or call.operation in READS):
                    raise self._lost(call, error) from error
        try:
            return self._use(Connection(self._to, self._connect_seconds, self._reply_seconds), request)
        except NotSentError as error:
            raise self._unreachable(error) from error
        except LostReplyError as error:
            raise self._lost(call, error) from error

    def _use(self, connection: Connection, request: bytes) -> HttpReply:
        try:
            reply = connection.exchange(request)
        except BaseException:
            connection.close()
            raise
        connection.idle_since = elapsed()
        if reply.keeps_alive and len(self._idle) < self._connections:
            self._idle.append(connection)
        else:
            connection.close()
        if self._closed:  # perhaps just now: then nobody else may see to it
            self._end_idle()
        return reply

    def _kept(self) -> Connection | None:
        # list.pop and append are atomic, so the pool needs no lock.
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.is_usable(self._idle_seconds):
                return connection
            connection.close()
        return None

    def close(self) -> None:
        """Requests that are under way come to their end; those that follow are not sent."""
        with self._lock:
            self._closed = True
            workers = self._workers
        if workers is not None:
            workers.shutdown()
        self._end_idle()

    def _end_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):  # several may do so at once
                self._idle.pop().close()


class AsyncTransport(_Common):
    """The async colour; belongs to the event loop it is first used on."""

    def __init__(self, access: Access, **options: Any) -> None:
        super().__init__(access, **options)
        self._idle: list[AsyncConnection] = []
        self._gate = asyncio.Semaphore(self._connections)
        self._closed = False

    async def send(self, operation: str, body: Body | bytes, *, repeatable: bool = False) -> Body:
        """One request and its reply; raises an EngineError."""
        return await self._send(Call(operation, body, repeatable))

    async def send_all(self, calls: Sequence[Call]) -> list[Body | EngineError]:
        """Independent requests at the same time; an error stands in the place of its reply."""
        if len(calls) == 1:
            return [await self._outcome(calls[0])]
        return list(await asyncio.gather(*[self._outcome(call) for call in calls]))

    async def _outcome(self, call: Call) -> Body | EngineError:
        try:
            return await self._send(call)
        except EngineError as error:
            return error

    async def _send(self, call: Call) -> Body:
        body = _bytes(call.body)
        if self._access.must_renew():
            await asyncio.to_thread(self._access.credentials)
        async with self._gate:
            reply = await self._exchange(call, body)
            try:
                return self._understand(call, reply)
            except ClockError:
                if not self._take_clock(reply):
                    raise
            return self._understand(call, await self._exchange(call, body))

    async def _exchange(self, call: Call, body: bytes) -> HttpReply:
        if self._closed:
            raise self._is_closed()
        request = self._signer.request(call.operation, body, self._access.credentials())
        connection = self._kept()
        if connection is not None:
            try:
                return await self._use(connection, request)
            except NotSentError:
                pass
            except LostReplyError as error:
                if error.began or not (call.repeatable or call.operation in READS):
                    raise self._lost(call, error) from error
        try:
            return await self._use(await AsyncConnection.open(self._to, self._connect_seconds), request)
        except NotSentError as error:
            raise self._unreachable(error) from error
        except LostReplyError as error:
            raise self._lost(call, error) from error

    async def _use(self, connection: AsyncConnection, request: bytes) -> HttpReply:
        try:
            reply = await connection.exchange(request, self._reply_seconds)
        except BaseException:  # a cancelled call leaves a reply under way: the connection is of no more use
            connection.close()
            raise
        connection.idle_since = elapsed()
        if reply.keeps_alive and connection.is_open and not self._closed:
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def _kept(self) -> AsyncConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable(self._idle_seconds):
                return connection
            connection.close()
        return None

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()
