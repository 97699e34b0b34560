"""HTTP/1.1 as far as DynamoDB needs it: one request at a time on a kept-alive connection, plain or TLS.

General clients spend most of a call's time on what never varies here (header objects, redirects, cookies, proxies).
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import socket
import ssl
from typing import NamedTuple
from urllib.parse import urlsplit

from keyplan.engines.elapsed import elapsed

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)
_DATE = re.compile(rb"\r\ndate:[ \t]*([^\r\n]+)", re.IGNORECASE)
_STATUS = re.compile(rb"HTTP/1\.([01]) ([0-9]{3})")
_HEAD_MOST = 65_536


class NotSentError(Exception):
    """The request did not reach the server completely, so nothing was done."""


class LostReplyError(Exception):
    """The request was sent, and its reply did not come; `began` says whether a part of it did."""

    def __init__(self, message: str, *, began: bool = False) -> None:
        super().__init__(message)
        self.began = began


class HttpReply(NamedTuple):
    status: int
    body: bytes
    keeps_alive: bool
    head: bytes

    def date(self) -> str | None:
        """The server's Date header."""
        found = _DATE.search(self.head)
        return found.group(1).decode("latin-1") if found else None


class ReplyReader:
    """Collects the bytes of one reply."""

    __slots__ = ("_body_at", "_data", "_head", "_length")

    def __init__(self) -> None:
        self._data = b""
        self._body_at = 0
        self._length: int | None = None
        self._head = b""

    @property
    def began(self) -> bool:
        return bool(self._data)

    def feed(self, data: bytes) -> HttpReply | None:
        """Takes what came; the reply once it is complete. Raises ValueError on what is not HTTP."""
        data = self._data = self._data + data if self._data else data
        if not self._body_at:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > _HEAD_MOST:
                    raise ValueError("endless header")
                return None
            self._head, self._body_at = data[: end + 2], end + 4
            found = _LENGTH.search(self._head)
            self._length = int(found.group(1)) if found else None
        body: bytes | None
        if self._length is not None:
            if len(data) < self._body_at + self._length:
                return None
            body = data[self._body_at : self._body_at + self._length]
        elif _CHUNKED.search(self._head):
            body = _join_chunks(data, self._body_at)
            if body is None:
                return None
        else:
            raise ValueError("a reply without a length")
        status = _STATUS.match(self._head)
        if status is None:
            raise ValueError("no status line")
        keeps = status.group(1) == b"1" and not _CLOSE.search(self._head)
        return HttpReply(int(status.group(2)), body, keeps, self._head)


def _join_chunks(data: bytes, at: int) -> bytes | None:
    pieces: list[bytes] = []
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        size = int(data[at:end].partition(b";")[0], 16)
        if size == 0:
            return b"".join(pieces) if data.find(b"\r\n\r\n", end - 1) >= 0 else None
        at = end + 2 + size + 2
        if len(data) < at:
            return None
        pieces.append(data[end + 2 : at - 2])


class Destination(NamedTuple):
    """Where connections go."""

    host: str
    port: int
    tls: ssl.SSLContext | None

    @classmethod
    def of(cls, endpoint: str) -> Destination:
        parts = urlsplit(endpoint)
        if parts.scheme != "https":
            return cls(parts.hostname or "", parts.port or 80, None)
        return cls(parts.hostname or "", parts.port or 443, ssl.create_default_context(cafile=_ca_bundle()))


def _ca_bundle() -> str | None:
    return os.environ.get("AWS_CA_BUNDLE") or None


class Connection:
    """A blocking connection; used by one thread at a time."""

    __slots__ = ("_poll", "_socket", "idle_since")

    def __init__(self, to: Destination, connect_seconds: float, reply_seconds: float) -> None:
        try:
            plain = socket.create_connection((to.host, to.port), connect_seconds)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                self._socket = plain if to.tls is None else to.tls.wrap_socket(plain, server_hostname=to.host)
            except BaseException:
                plain.close()
                raise
        except OSError as error:
            raise NotSentError(_words(error)) from error
        self._socket.settimeout(reply_seconds)
        self.idle_since = 0.0
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(self._socket, select.POLLIN)

    def is_usable(self, idle_seconds: float) -> bool:
        """False where the server has hung up, or may be about to."""
        if elapsed() - self.idle_since > idle_seconds:
            return False
        if self._poll is not None:
            return not self._poll.poll(0)
        return not select.select([self._socket], [], [], 0)[0]

    def exchange(self, request: bytes) -> HttpReply:
        try:
            self._socket.sendall(request)
        except OSError as error:
            raise NotSentError(_words(error)) from error
        reader = ReplyReader()
        try:
            while True:
                data = self._socket.recv(65_536)
                if not data:
                    raise LostReplyError("the connection was closed", began=reader.began)
                reply = reader.feed(data)
                if reply is not None:
                    return reply
        except OSError as error:
            raise LostReplyError(_words(error), began=reader.began) from error
        except ValueError as error:
            raise LostReplyError(f"the reply is not HTTP: {error}", began=True) from error

    def close(self) -> None:
        self._socket.close()


class AsyncConnection(asyncio.Protocol):
    """A connection on an event loop; one request at a time."""

    __slots__ = ("_loop", "_reader", "_transport", "_waiter", "idle_since", "is_open")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reader = ReplyReader()
        self._waiter: asyncio.Future[HttpReply] | None = None
        self._transport: asyncio.Transport | None = None
        self.is_open = False
        self.idle_since = 0.0

    @classmethod
    async def open(cls, to: Destination, connect_seconds: float) -> AsyncConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(connect_seconds):
                _, connection = await loop.create_connection(
                    lambda: cls(loop), to.host, to.port, ssl=to.tls, server_hostname=to.host if to.tls else None
                )
        except TimeoutError as error:
            raise NotSentError("timed out") from error
        except OSError as error:
            raise NotSentError(_words(error)) from error
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            self.close()  # nobody asked: the stream is out of step
            return
        try:
            reply = self._reader.feed(data)
        except ValueError as error:
            waiter.set_exception(LostReplyError(f"the reply is not HTTP: {error}", began=True))
            return
        if reply is not None:
            waiter.set_result(reply)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._waiter is not None and not self._waiter.done():
            words = _words(error) if error else "the connection was closed"
            self._waiter.set_exception(LostReplyError(words, began=self._reader.began))

    def _give_up(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(LostReplyError("timed out", began=self._reader.began))

    def is_usable(self, idle_seconds: float) -> bool:
        return self.is_open and elapsed() - self.idle_since <= idle_seconds

    async def exchange(self, request: bytes, reply_seconds: float) -> HttpReply:
        assert self._transport is not None
        if self._transport.is_closing():
            raise NotSentError("the connection was closed")
        waiter = self._waiter = self._loop.create_future()
        self._reader = ReplyReader()
        alarm = self._loop.call_later(reply_seconds, self._give_up)
        self._transport.write(request)
        try:
            reply: HttpReply = await waiter
            return reply
        finally:
            alarm.cancel()
            self._waiter = None

    def close(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()


def _words(error: BaseException) -> str:
    """The operating system's words for what happened, without addresses."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed, {error.reason or error.__class__.__name__}".lower()
    if isinstance(error, socket.gaierror):
        return "the host name is unknown"
    number = getattr(error, "errno", None)
    return os.strerror(number).lower() if number else "the connection failed"
