"""The connection: the only place that knows the driver, `sqlite3` of the standard library.

**Durability.** WAL with `synchronous=NORMAL`: a write that was acknowledged survives a kill of the process at any
moment, and a power failure leaves the file consistent but may lose the last writes. `?synchronous=full` syncs the log
at every commit, so that acknowledged writes survive a power failure too.

**Threads and processes.** A file has one connection per thread; `:memory:` has a single one behind a lock. Writers wait
for each other up to `timeout`. Connections are not carried into forked children: a child opens its own.

URLs: `sqlite:shop.db`, `sqlite:///abs/shop.db`, `sqlite::memory:`; options `?synchronous=full&timeout=5s`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote

from keyplan.engines.rounds import Pause, Reply, Request, Round
from keyplan.engines.sqlite.guard import RECORD
from keyplan.engines.sqlite.guard import refusal as reason_against
from keyplan.engines.sqlite.limits import LEAST_VERSION
from keyplan.engines.sqlite.pack import DESIGN_TABLE
from keyplan.engines.sqlite.statements import CHANGED, FOUND, NOTHING
from keyplan.engines.sqlite.values import FUNCTIONS, SpoiledError, text_of
from keyplan.engines.sqlite.writes import BulkRequest, Step, WriteRequest, refusal
from keyplan.errors import (
    AccessError,
    ArgumentError,
    DesignMismatchError,
    EngineError,
    KeyplanError,
    StorageError,
    UnavailableError,
    UnsupportedError,
    nearest,
    trouble_with,
)
from keyplan.units import parse_duration

T = TypeVar("T")

MEMORY = ":memory:"
TIMEOUT = 5.0
_CACHE_KIB = 65_536
_STATEMENTS = 1024
_MANY = 50
"""From so many steps on they are looked through for those that can go together."""
_NOT_UTF8 = "Could not decode to UTF-8"
_ports: weakref.WeakSet[SqlitePort] = weakref.WeakSet()
_abandoned: list[Any] = []


@dataclass(frozen=True)
class Address:
    """Where a database is, and how to open it."""

    path: str
    synchronous: str = "NORMAL"
    timeout: float = TIMEOUT


def address(url: str) -> Address:
    """What a URL says.

    >>> address("sqlite:shop.db?timeout=2s")
    Address(path='shop.db', synchronous='NORMAL', timeout=2.0)
    """
    rest = url.partition(":")[2]
    path, _, query = rest.partition("?")
    if path.startswith("//"):
        host, slash, path = path[2:].partition("/")
        if host or not slash:
            raise ArgumentError(f"'{url}': a file has no host; write sqlite:///absolute/path or sqlite:relative.db")
        path = f"/{path}"
    path = unquote(path)
    if not path:
        raise ArgumentError(f"'{url}': no file is named; write sqlite:shop.db or sqlite::memory:")
    synchronous, timeout = "NORMAL", TIMEOUT
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "synchronous":
            synchronous = value.upper()
            if synchronous not in ("NORMAL", "FULL"):
                raise ArgumentError(f"'{url}': synchronous is normal or full, not '{value}'")
        elif name == "timeout":
            try:
                timeout = parse_duration(value) / 1000
            except ValueError as error:
                raise ArgumentError(f"'{url}': timeout: {error}") from None
        else:
            hint = nearest(name, ["synchronous", "timeout"]) or "; there are synchronous and timeout"
            raise ArgumentError(f"'{url}': unknown option '{name}'{hint}")
    return Address(path, synchronous, timeout)


def lacks(url: str) -> str | None:
    """The file that opening this URL would create."""
    path = address(url).path
    if path == MEMORY or os.path.exists(path):
        return None
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise StorageError(f"{path}: its folder does not exist; check the name, or make the folder")
    return path


@contextmanager
def scratch(url: str) -> Iterator[str]:
    """A database beside the one of this URL, so on the same disk, that is gone afterwards: a file that rows were
    deleted from stays as large as it was."""
    there = address(url)
    if there.path == MEMORY:
        yield url
        return
    query = url.partition("?")[2]
    beside = os.path.dirname(there.path) or "."
    try:
        folder = TemporaryDirectory(prefix=".keyplan-", dir=beside)
    except OSError as error:
        raise StorageError(f"{beside}: {trouble_with(error)}") from error
    with folder as name:
        yield f"sqlite:{quote(os.path.join(name, 'scratch.db'))}?{query}"


class SqlitePort:
    """Connections to one database, sync."""

    def __init__(self, url: str) -> None:
        if sqlite3.sqlite_version_info < LEAST_VERSION:
            least = ".".join(map(str, LEAST_VERSION[:2]))
            raise UnsupportedError(
                f"sqlite: this Python has SQLite {sqlite3.sqlite_version}, and {least} is the least that will do; "
                "install a newer Python or SQLite"
            )
        self._address = address(url)
        self.where = self._address.path
        self._memory = self._address.path == MEMORY
        self._lock = threading.RLock()
        self._open: list[tuple[sqlite3.Connection, threading.RLock]] = []
        """Each with what its thread holds while it uses it: closed meanwhile, it would take the process with it."""
        self._closed = False
        self._holds = ""
        self._local: Any = _Shared() if self._memory else threading.local()
        self._local.cursor = self._connect()
        _ports.add(self)

    def hold(self, upkeep: str) -> None:
        """From now on, requests are refused if another design is on record (`guard.py`). What is in memory cannot be
        reached by others."""
        if not self._memory:
            self._holds = upkeep
            self._local.guard = Guard(self._local.cursor.connection, upkeep)

    def send(self, round: Round) -> Sequence[Reply]:
        if self._memory:
            with self._lock:
                return self._send(round)
        return self._send(round)

    def _send(self, round: Round) -> Sequence[Reply]:
        try:
            cursor = self._local.cursor
        except AttributeError:
            try:
                cursor = self._local.cursor = self._connect()
            except KeyplanError as error:
                return [error] * len(round)
        with self._local.busy:
            return self._replies(cursor, round)

    def _replies(self, cursor: sqlite3.Cursor, round: Round) -> Sequence[Reply]:
        replies: list[Reply] = []
        for request in round:
            try:
                if request.__class__ is tuple:
                    replies.append(cursor.execute(request[0], request[1]).fetchall())
                else:
                    replies.append(self._write(cursor, request))
            except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError) as error:
                if _code(error) == sqlite3.SQLITE_AUTH:
                    replies.append(self._guarded(cursor, request))
                else:
                    replies.append(self._spoiled(cursor, request, error) or self._translated(error))
        return replies

    def _spoiled(self, cursor: sqlite3.Cursor, request: Request, error: Exception) -> SpoiledError | None:
        """The rows of a search that failed for a text which is not UTF-8, all the same."""
        if request.__class__ is not tuple or _NOT_UTF8 not in str(error):
            return None
        told = SpoiledError(str(self._translated(error)))
        told.__cause__ = error
        connection = cursor.connection
        try:
            connection.text_factory = text_of
            told.rows = cursor.execute(request[0], request[1]).fetchall()
        finally:
            connection.text_factory = str
        return told

    def _guarded(self, cursor: sqlite3.Cursor, request: Request) -> Reply:
        """A request whose statements the guard has refused: done behind a look at the record, in one transaction."""
        reading = request.__class__ is tuple
        try:
            return self._transaction(cursor, lambda: self._within(cursor, request), reading=reading, looks=True)
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError) as error:
            return self._translated(error)

    def close(self) -> None:
        """Closes every thread's connection, behind the request that it is at; what comes later gets an error."""
        with self._lock:
            self._closed = True
            connections, self._open = self._open, []
        for connection, busy in connections:
            with busy:
                connection.close()

    def _write(self, cursor: sqlite3.Cursor, request: Request) -> Reply:
        if isinstance(request, WriteRequest):
            if request.is_single:
                return self._steps(cursor, request)
            # What goes on behind the steps is not begun twice.
            return self._transaction(cursor, lambda: self._all(cursor, request), looks=request.then is not None)
        if isinstance(request, BulkRequest):
            return self._transaction(cursor, lambda: self._bulk(cursor, request))
        raise TypeError(f"not a request for sqlite: {request!r}")

    def _transaction(
        self, cursor: sqlite3.Cursor, work: Callable[[], Reply], *, reading: bool = False, looks: bool = False
    ) -> Reply:
        guard: Guard | None = self._local.guard if looks and self._holds else None
        cursor.execute("BEGIN" if reading else "BEGIN IMMEDIATE")
        try:
            reply: Reply = None
            if guard is not None:
                guard.is_open = True
                why = guard.look(cursor, writing=not reading)
                reply = DesignMismatchError(f"{self.where}: {why}") if why else None
            if reply is None:
                reply = work()
            if isinstance(reply, Exception):
                cursor.execute("ROLLBACK")
            else:
                cursor.execute("COMMIT")
        except BaseException:
            # A full disk, for one, has already rolled back.
            if cursor.connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise
        finally:
            if guard is not None:
                guard.is_open = False
        return reply

    def _all(self, cursor: sqlite3.Cursor, request: WriteRequest) -> Reply:
        """All that a write does between the beginning of its transaction and the end."""
        reply = self._bulk(cursor, request) or self._steps(cursor, request)
        if request.then is None or isinstance(reply, Exception):
            return reply
        proc = request.then()
        try:
            step = next(proc)
            while True:
                if isinstance(step, Pause):  # nobody else can do anything meanwhile
                    step = proc.send(())
                    continue
                step = proc.send([self._within(cursor, one) for one in step])
        except StopIteration:
            return reply
        except KeyplanError as error:
            return error
        finally:
            proc.close()

    def _within(self, cursor: sqlite3.Cursor, request: Request) -> Reply:
        """The reply to a read or a write that is part of another write."""
        if request.__class__ is tuple:
            try:
                return cursor.execute(request[0], request[1]).fetchall()
            except sqlite3.OperationalError as error:
                spoiled = self._spoiled(cursor, request, error)
                if spoiled is None:
                    raise
                return spoiled
        if isinstance(request, BulkRequest):
            return self._bulk(cursor, request)
        return self._bulk(cursor, request) or self._steps(cursor, request)

    def _steps(self, cursor: sqlite3.Cursor, request: WriteRequest) -> Reply:
        outcome: list[Any] = []
        steps = request.steps
        if len(steps) >= _MANY and not request.returns:
            return self._many_steps(cursor, request)
        for step in steps:
            try:
                cursor.execute(step.text, step.values)
                rows: Any = None
                if step.returns or step.check > CHANGED:
                    rows = cursor.fetchall()
            except sqlite3.IntegrityError as error:
                return request.refused(step, str(error))
            if not _is_good(step, rows, cursor.rowcount):
                return request.failed(step)
            outcome.append(rows)
        return outcome

    def _many_steps(self, cursor: sqlite3.Cursor, request: WriteRequest) -> Reply:
        """Many steps, of which neighbours with the same text that need no look at their outcome go in one call."""
        for (text, check), group in groupby(request.steps, key=attrgetter("text", "check")):
            begun: list[Step] = []
            try:
                if check == NOTHING:
                    cursor.executemany(text, _values(group, begun))
                    continue
                for step in group:
                    begun.append(step)
                    rows = cursor.execute(text, step.values).fetchall() if check > CHANGED else None
                    if check == CHANGED:
                        cursor.execute(text, step.values)
                    if not _is_good(step, rows, cursor.rowcount):
                        return request.failed(step)
            except sqlite3.IntegrityError as error:
                return request.refused(begun[-1], str(error))
        return [None] * len(request.steps)

    def _bulk(self, cursor: sqlite3.Cursor, request: BulkRequest | WriteRequest) -> Reply:
        for table, text, rows in request.batches:
            try:
                cursor.executemany(text, rows)
            except sqlite3.IntegrityError as error:
                return refusal(table, str(error), None, f"bulk load of {table.view.entity}")
        return None

    def _connect(self) -> sqlite3.Cursor:
        where = self._address
        if self._closed:
            raise UnavailableError(f"{where.path}: the store is closed; open it again")
        connection = None
        try:
            connection = sqlite3.connect(
                where.path,
                timeout=where.timeout,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=_STATEMENTS,
            )
            _prepare(connection, where, self._memory)
        except (sqlite3.Error, OverflowError, UnicodeError, ValueError) as error:
            if connection is not None:
                connection.close()
            raise self._translated(error) from error
        if self._holds:
            self._local.guard = Guard(connection, self._holds)
        busy = self._local.busy = self._lock if self._memory else threading.RLock()
        with self._lock:
            if not self._closed:
                self._open.append((connection, busy))
                return connection.cursor()
        connection.close()
        raise UnavailableError(f"{where.path}: the store is closed; open it again")

    def _translated(self, error: Exception) -> KeyplanError:
        return translate(error, self._address.path)

    def _after_fork(self) -> None:
        """SQLite's connections must not be used, nor closed, in a forked child: they are put aside."""
        _abandoned.append((self._open, self._local))
        self._lock = threading.RLock()
        if self._memory:  # another thread may have held it when the process was forked
            self._local.busy = self._lock
            self._open = [(connection, self._lock) for connection, _ in self._open]
        else:
            self._open = []
            self._local = threading.local()


def _is_good(step: Step, rows: Any, changed: int) -> bool:
    """Whether the outcome of a step is what it must be."""
    if step.check == CHANGED:
        return bool(rows) if step.returns else changed > 0
    return step.check < CHANGED or (step.check == FOUND) == bool(rows)


def _values(steps: Iterable[Step], begun: list[Step]) -> Iterator[tuple[Any, ...]]:
    """The values of steps one by one; `begun` holds the step that is being done."""
    for step in steps:
        begun[:] = [step]
        yield step.values


_ASKS = frozenset(
    (
        sqlite3.SQLITE_DELETE,
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_UPDATE,
    )
)


class Guard:
    """Stands before one connection of a store (`guard.py`); `is_open` behind a look at the record, until its
    transaction ends."""

    def __init__(self, connection: sqlite3.Connection, upkeep: str) -> None:
        self.is_open = False
        self._upkeep = upkeep
        connection.set_authorizer(self._asked)

    def _asked(self, action: int, *_: object) -> int:
        return sqlite3.SQLITE_DENY if action in _ASKS and not self.is_open else sqlite3.SQLITE_OK

    def look(self, cursor: sqlite3.Cursor, *, writing: bool) -> str:
        """Why the file must not be read or written, if that is so."""
        return reason_against(cursor.execute(RECORD).fetchall(), self._upkeep, writing=writing)


class _Shared:
    """Stands where `threading.local` would: all threads share one connection."""

    cursor: sqlite3.Cursor
    busy: threading.RLock


def _prepare(connection: sqlite3.Connection, where: Address, memory: bool) -> None:
    """Settings of a new connection. The first one reads the file, so that what is no database is found here."""
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if not memory and (not there or DESIGN_TABLE in there):  # somebody else's file is left as it is
        _write_ahead(connection, time.monotonic() + where.timeout)
    connection.execute(f"PRAGMA synchronous={where.synchronous}")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    connection.execute("PRAGMA temp_store=MEMORY")
    for name, arguments, function in FUNCTIONS:
        connection.create_function(name, arguments, function, deterministic=True)


def _write_ahead(connection: sqlite3.Connection, until: float) -> None:
    """Has the file written ahead. While another process writes it otherwise, as one that makes it at the same time
    does, SQLite refuses that at once, whatever its timeout."""
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) == sqlite3.SQLITE_READONLY:  # what cannot be written can still be read
                return
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.005)


def _code(error: BaseException) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


_MEANINGS: dict[int, tuple[type[EngineError], str]] = {
    sqlite3.SQLITE_BUSY: (UnavailableError, "is locked by another process; try again, or raise ?timeout="),
    sqlite3.SQLITE_LOCKED: (UnavailableError, "is locked by another connection; try again"),
    sqlite3.SQLITE_READONLY: (StorageError, "is read-only; check the permissions of the file and its folder"),
    sqlite3.SQLITE_FULL: (StorageError, "the disk is full; make room and repeat"),
    sqlite3.SQLITE_IOERR: (StorageError, "cannot be read or written ({message}); check the disk"),
    sqlite3.SQLITE_CORRUPT: (StorageError, "is damaged ({message}); restore it from a backup"),
    sqlite3.SQLITE_NOTADB: (StorageError, "is not an SQLite database; name another file"),
    sqlite3.SQLITE_CANTOPEN: (StorageError, "cannot be opened; check that its folder exists and can be written"),
    sqlite3.SQLITE_TOOBIG: (StorageError, "a value is too large for SQLite ({message}); give a smaller one"),
    sqlite3.SQLITE_NOMEM: (UnavailableError, "out of memory; free some, and try again"),
    sqlite3.SQLITE_INTERRUPT: (UnavailableError, "the statement was interrupted; try again"),
    sqlite3.SQLITE_PROTOCOL: (UnavailableError, "is locked by many processes at once; try again"),
    sqlite3.SQLITE_PERM: (AccessError, "permission denied; check the permissions of the file and its folder"),
    sqlite3.SQLITE_AUTH: (AccessError, "permission denied; check the permissions of the file and its folder"),
}


def translate(error: Exception, path: str) -> KeyplanError:
    """The error of ours that an error of the driver means; every message names the file."""
    message = str(error)
    code = _code(error)
    if code == sqlite3.SQLITE_CANTOPEN and os.path.isdir(path):
        made: KeyplanError = StorageError(f"{path}: is a folder; name a file in it")
    elif code in _MEANINGS:
        kind, text = _MEANINGS[code]
        made = kind(f"{path}: {text.format(message=message)}")
    elif _NOT_UTF8 in message:
        made = StorageError(
            f"{path}: a stored text is not UTF-8; something else wrote it, or it is damaged; 'keyplan verify' "
            "names the row"
        )
    elif message.startswith(("no such table", "no such column", "no such index")):
        made = StorageError(f"{path}: {message}; 'keyplan verify' says what is missing")
    elif isinstance(error, sqlite3.ProgrammingError) and "closed" in message:
        made = UnavailableError(f"{path}: the store is closed; open it again")
    elif isinstance(error, OverflowError):
        made = StorageError(f"{path}: a number does not fit 64 bits; give a smaller one")
    else:
        made = EngineError(f"{path}: sqlite: {message}")
    made.__cause__ = error
    return made


def _after_fork() -> None:
    for port in list(_ports):
        port._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class SqliteAsyncPort:
    """The same, async: everything runs on one worker thread, so that the event loop never waits for a disk."""

    def __init__(self, url: str) -> None:
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="keyplan-sqlite")
        self._port = SqlitePort(url)
        self.where = self._port.where

    async def hold(self, upkeep: str) -> None:
        """As above."""
        await self.call(lambda port: port.hold(upkeep))

    async def send(self, round: Round) -> Sequence[Reply]:
        return await self.call(lambda port: port.send(round))

    async def call(self, work: Callable[[SqlitePort], T]) -> T:
        """Runs something that uses the sync port, a whole plan for one, on the worker."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, work, self._port)

    async def close(self) -> None:
        await self.call(lambda port: port.close())
        self._worker.shutdown(wait=False)
