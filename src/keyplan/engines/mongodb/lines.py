"""Small reads of an async store on connections of the driver, without its cursors and tasks.

The driver finds the primary, connects, and authenticates; a *line* is one of its connections that is kept for the event
loop. A find goes out in one piece, and the loop is called when the socket has the answer. The driver's async client
runs two tasks for every reply, which takes longer than the exchange itself.

A line answers, or it does not. Whatever is out of the ordinary (an error of the server, a lost connection, a question
too long for the socket) ends it, and the caller asks the driver, which knows what to do about that. Only reads belong
here: they may be asked twice.

No read waits for a line: one that finds none asks the driver, and meanwhile a thread opens a line for those that come
later, one at a time. So a server that cannot be reached is the driver's to wait for, as long as the URL says.

What is used of the driver is not part of its documented interface: `_conn_for_reads`, and the socket of a connection. A
driver without them, encrypted connections, timeouts in the URL or a loop that cannot wait for sockets: then there are
no lines, and everything goes through the driver.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import AbstractEventLoop, Future, TimerHandle
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from threading import Lock, Thread
from typing import Any

from keyplan.engines.mongodb.transport import ERRORS, ReadPreference, bson, has_deadline
from keyplan.engines.mongodb.values import Document
from keyplan.errors import KeyplanError

HEADER = Struct("<iiiiIB")
"""Length, number, number of the question, kind of message, flags and kind of section:
https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/ (2026-11-17)."""
OP_MSG = 2013
LONGEST = 16_384
"""Bytes of a question: it has to fit into the socket's buffer at once."""
PIECE = 65_536
LOOK_S = 0.5
"""So often it is seen whether the driver has given up a connection that is waited for."""
MOST = 32
"""Lines of a store; beyond that the driver's own connections are used."""
PAUSE_S = 1.0
"""So long no line is opened after one could not be."""


class Line:
    """A connection, and the answer that is waited for on it."""

    def __init__(self, client: Any) -> None:
        """On a thread: it may have to connect."""
        self._held = client._conn_for_reads(ReadPreference.PRIMARY, None, operation="find")
        self._connection = self._held.__enter__()[0]
        self.socket: Any = getattr(self._connection.conn, "sock", None)
        self.since = 0.0
        """When it was last used."""
        self._loop: AbstractEventLoop | None = None
        self._got = bytearray()
        self._answer: Future[bytes | None] | None = None
        self._number = 0

    @property
    def usable(self) -> bool:
        """Whether neither side has ended it."""
        connection = self._connection
        return self._held is not None and not (connection.closed or connection.cancel_context.cancelled)

    def listen(self, loop: AbstractEventLoop) -> None:
        self.socket.setblocking(False)
        loop.add_reader(self.socket, self._hear)
        self._loop = loop

    def ask(self, body: bytes, answer: Future[bytes | None]) -> None:
        """Sends a question; the answer is None if there is none to be had here."""
        self._answer = answer
        self._number = self._number % 0x7FFFFFFF + 1
        try:
            sent = self.socket.send(HEADER.pack(HEADER.size + len(body), self._number, 0, OP_MSG, 0, 0) + body)
        except OSError:
            sent = 0
        if sent < HEADER.size + len(body):
            self.end()

    def _hear(self) -> None:
        try:
            piece = self.socket.recv(PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        if not piece or self._answer is None:  # it has ended, or speaks unasked
            self.end()
            return
        got = self._got
        got += piece
        if len(got) < HEADER.size or len(got) < int.from_bytes(got[:4], "little"):
            return
        if HEADER.unpack_from(got)[2:] != (self._number, OP_MSG, 0, 0) or int.from_bytes(got[:4], "little") != len(got):
            self.end()
            return
        self._got = bytearray()
        self._tell(bytes(memoryview(got)[HEADER.size :]))

    def _tell(self, found: bytes | None) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done() and not answer.get_loop().is_closed():
            answer.set_result(found)

    def end(self) -> None:
        """Closes it; whoever waits is told to ask elsewhere."""
        held, self._held = self._held, None
        if held is None:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self.socket)
        with suppress(*ERRORS, OSError):
            self._connection.close_conn(None)
            held.__exit__(None, None, None)
        self._tell(None)


class Lines:
    """The lines of one store, each used by one call at a time."""

    def __init__(self, options: Any, client: Callable[[], Any]) -> None:
        """`client` makes a blocking client, on a thread: it may ask the DNS for servers."""
        pool = options.pool_options
        self._able = pool.socket_timeout is None and options.timeout is None and pool._ssl_context is None
        self._most = min(MOST, pool.max_pool_size or MOST)
        self._longest_idle = pool.max_idle_time_seconds
        self._make = client
        self._lock = Lock()
        self._closed = False
        self._client: Any = None
        self._loop: AbstractEventLoop | None = None
        self._idle: list[Line] = []
        self._busy: set[Line] = set()
        self._opening = False
        self._not_before = 0.0
        self._looking: TimerHandle | None = None

    async def ask(self, database: str, body: Document, options: Any) -> Document | None:
        """The reply to a find, or None: ask the driver."""
        if not self._able or has_deadline():
            return None
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and not self._loop.is_closed():  # nothing of it may be touched from here
                return None
            self._move(loop)
        question = bson.encode({**body, "$db": database}, codec_options=options)
        if len(question) > LONGEST:
            return None
        line = self._free(loop)
        if line is None:
            self._open_one(loop)
            return None
        answer: Future[bytes | None] = loop.create_future()
        self._busy.add(line)
        if self._looking is None:
            self._looking = loop.call_later(LOOK_S, self._look, loop)
        try:
            line.ask(question, answer)
            reply = await answer
            found: Document | None = None if reply is None else bson.decode(reply, options)
            if found is None or not found.get("ok"):  # the driver asks again, and knows what the server means
                line.end()
                return None
        except BaseException:  # nobody waits for it any more: it would answer the next one
            line.end()
            raise
        finally:
            self._busy.discard(line)
        line.since = loop.time()
        self._idle.append(line)
        return found

    def _free(self, loop: AbstractEventLoop) -> Line | None:
        while self._idle:
            line = self._idle.pop()
            aged = self._longest_idle is not None and loop.time() - line.since > self._longest_idle
            if line.usable and not aged:
                return line
            line.end()
        return None

    def _open_one(self, loop: AbstractEventLoop) -> None:
        """Begins to open a line, unless that would be one too many, or is not yet to be tried again."""
        if not self._opening and len(self._busy) < self._most and loop.time() >= self._not_before:
            with suppress(RuntimeError):  # no more threads
                Thread(target=self._open, args=(loop,), name="keyplan-line", daemon=True).start()
                self._opening = True

    def _open(self, loop: AbstractEventLoop) -> None:
        """On a thread: it may have to ask the DNS, find the primary, connect and authenticate."""
        line, able = None, True
        try:
            with self._lock:
                if self._closed:
                    return
                if self._client is None:
                    self._client = self._make()
            line = Line(self._client)
        except (AttributeError, TypeError):  # another driver
            able = False
        except (*ERRORS, KeyplanError, OSError):
            pass  # the driver says what is wrong to those who ask it
        try:
            loop.call_soon_threadsafe(self._opened, loop, line, able)
        except RuntimeError:  # the loop has ended
            if line is not None:
                line.end()

    def _opened(self, loop: AbstractEventLoop, line: Line | None, able: bool) -> None:
        if loop is self._loop:
            self._opening = False
            self._able = self._able and able
            if line is None:
                self._not_before = loop.time() + PAUSE_S
            elif type(line.socket) is socket.socket:
                with suppress(NotImplementedError):
                    line.listen(loop)
                    line.since = loop.time()
                    self._idle.append(line)
                    return
        if line is not None:
            if loop is self._loop:  # neither such sockets nor such a loop can be listened to
                self._able = False
            line.end()

    def _look(self, loop: AbstractEventLoop) -> None:
        for line in list(self._busy):
            if not line.usable:
                line.end()
        self._looking = loop.call_later(LOOK_S, self._look, loop) if self._busy else None

    def _move(self, loop: AbstractEventLoop | None) -> None:
        """To another loop: the lines of the one before have nobody who hears them."""
        for line in (*self._idle, *self._busy):
            line.end()
        self._idle, self._busy = [], set()
        if self._looking is not None:
            self._looking.cancel()
        self._looking, self._loop = None, loop
        self._opening, self._not_before = False, 0.0

    async def close(self) -> None:
        self._able = False
        self._move(None)
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            if self._client is not None:
                self._client.close()
