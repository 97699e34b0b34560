"""The connection, in both colours; `exchange.py` says what requests come to, and `transport.py` has the client.

**Durability.** Every write is acknowledged by a majority of the replica set (the default write concern), so that it
outlives the loss of the primary. What is stronger or weaker can be said in the URL (`w`, `journal`, `wtimeoutMS`), or
for single calls (`store.using(w=1)`).

**Repeats.** A lost reply is asked for once more by the driver itself: MongoDB knows a repeated write by the number of
its session and does it once. Transactions are repeated here where the server says that nothing was done, and their
commit where it cannot say. What is still unknown then is an UncertainError.

**Reads.** A strong read goes to the primary and sees only what a majority has. A read of a session goes where the
URL's `readPreference` says, in a causally consistent session that waits for all that this client has seen or written.
Any other takes the URL's `readPreference` and `readConcernLevel`.

**Async.** Plain reads of one piece from the primary go over connections that the event loop itself listens to
(`lines.py`). Whatever has to agree with what this client wrote or saw stays with the driver's async client: it alone
knows which primary it has written to.

URLs: `mongodb://[user:password@]host[,host][:port]/database[?options]` and `mongodb+srv://…`, with the options of
MongoDB's drivers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from keyplan.engines.codec import SESSION
from keyplan.engines.mongodb.calls import CUT_OFF, Calls, may_go_on
from keyplan.engines.mongodb.exchange import exchange
from keyplan.engines.mongodb.limits import CHUNK
from keyplan.engines.mongodb.lines import Lines
from keyplan.engines.mongodb.operations import Find, Found
from keyplan.engines.mongodb.transport import (
    ERRORS,
    AutoReconnect,
    Link,
    ServerSelectionTimeoutError,
    pymongo,
)
from keyplan.engines.mongodb.values import Document
from keyplan.engines.mongodb.writes import WriteRequest
from keyplan.engines.ports import Against, AgainstAsync
from keyplan.engines.rounds import Reply, Request, Round
from keyplan.errors import KeyplanError

OPENING_MS = 1_000
"""How long the primary is looked for to open a line."""
CLOSING_S = 5.0
"""How long `close` waits for calls that were cancelled to end what they had begun."""


def leftover(request: Find, cursor: int) -> Document:
    """Ends the cursor of a page that was larger than the 16 MB of one reply; it is read in pieces instead."""
    return {"killCursors": request.collection, "cursors": [cursor]}


def is_page(request: Request) -> bool:
    """Whether the answer comes in one piece, and needs no session."""
    return request.__class__ is Find and 0 < request.limit <= CHUNK and request.strong != SESSION


def _is_transaction(request: Request) -> bool:
    return isinstance(request, WriteRequest) and request.is_transaction


def _undo(steps: Calls, cut_off: BaseException) -> None:
    """Lets a call that was cut off end what it has begun."""
    try:
        step = steps.throw(cut_off)
        while True:
            try:
                value = None if isinstance(step, float) else step()
            except ERRORS as error:
                step = steps.throw(error)
            else:
                step = steps.send(value)
    except (StopIteration, *CUT_OFF):
        pass


async def _undo_async(steps: Calls, cut_off: BaseException, under_way: asyncio.Future[Any] | None) -> None:
    """As above, behind what is under way: the server may come to that later than to the end of its transaction, and
    begin it anew."""
    try:
        if under_way is not None:
            await asyncio.gather(under_way, return_exceptions=True)
        step = steps.throw(cut_off)
        while True:
            try:
                value = None if isinstance(step, float) else step()
                if asyncio.iscoroutine(value):
                    value = await value
            except ERRORS as error:
                step = steps.throw(error)
            else:
                step = steps.send(value)
    except (StopIteration, *CUT_OFF):
        pass


def _nothing(round: Round) -> None:
    """Nothing speaks against it."""


async def _nothing_async(round: Round) -> None:
    """As above."""


class MongoPort:
    """A database, sync; safe to share between threads."""

    def __init__(self, url: str) -> None:
        self._link = Link(url, pymongo.MongoClient)

    @property
    def where(self) -> str:
        """What messages call the database."""
        return self._link.where

    def using(self, options: Mapping[str, Any]) -> MongoPort:
        """The same connection with other concerns; the first port closes it."""
        return _SharedPort(self._link.using(options))

    def send(self, round: Round) -> Sequence[Reply]:
        return self.send_while(round, _nothing)

    def send_while(self, round: Round, against: Against) -> Sequence[Reply]:
        if len(round) == 1 and is_page(round[0]):
            return [self._page(round[0], against)]
        replies: list[Reply] = []
        for request in round:
            refused = against((request,)) if replies else None  # those before it may have taken long
            replies.append(self._one(request, against) if refused is None else refused)
        return replies

    def _page(self, request: Find, against: Against) -> Reply:
        try:
            reply = self._link.page(request)
            self._link.note(reply.get("operationTime"))
            found = reply["cursor"]
            if not found["id"]:
                return Found(found["firstBatch"])
            self._link.database.command(leftover(request, found["id"]))
        except ServerSelectionTimeoutError as error:  # it has waited for one already
            return self._link.error(error, writing=False)
        except AutoReconnect:
            pass  # the driver's own find is done again where that helps
        except ERRORS as error:
            return self._link.error(error, writing=False)
        return against((request,)) or self._one(request, against)

    def _one(self, request: Request, against: Against) -> Reply:
        steps = exchange(self._link, request)
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    time.sleep(step)
                    step = steps.send(None)
                    continue
                if step is may_go_on:
                    refused = against((request,))
                    step = steps.send(None) if refused is None else steps.throw(refused)
                    continue
                try:
                    value = step()
                except ERRORS as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(value)
        except StopIteration as done:
            return done.value
        except KeyplanError as refused:
            return refused
        except KeyboardInterrupt as interrupt:
            _undo(steps, interrupt)
            raise

    def close(self) -> None:
        self._link.client.close()


class _SharedPort(MongoPort):
    """A port on a connection of another one."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def close(self) -> None:
        pass


def _client_of_lines(url: str, **options: Any) -> Any:
    """Nobody waits for it: where no primary is known at once, the async client looks for one."""
    return pymongo.MongoClient(url, **{**options, "serverSelectionTimeoutMS": OPENING_MS, "minPoolSize": 0})


class MongoAsyncPort:
    """A database, async."""

    def __init__(self, url: str) -> None:
        self._link = Link(url, pymongo.AsyncMongoClient)
        self._undoing: set[asyncio.Task[None]] = set()
        self._lines = Lines(self._link.client.options, lambda: Link(url, _client_of_lines).client)

    @property
    def where(self) -> str:
        """What messages call the database."""
        return self._link.where

    def using(self, options: Mapping[str, Any]) -> MongoAsyncPort:
        """As above."""
        return _SharedAsyncPort(self._link.using(options), self._lines, self._undoing)

    async def send(self, round: Round) -> Sequence[Reply]:
        return await self.send_while(round, _nothing_async)

    async def send_while(self, round: Round, against: AgainstAsync) -> Sequence[Reply]:
        if len(round) > 1:
            return await asyncio.gather(*(self._answer(request, against) for request in round))
        return [await self._answer(request, against) for request in round]

    async def _answer(self, request: Request, against: AgainstAsync) -> Reply:
        return await (self._page(request, against) if is_page(request) else self._one(request, against))

    async def _page(self, request: Find, against: AgainstAsync) -> Reply:
        link = self._link
        try:
            reply = None
            if link.reads_primary and not request.strong:
                reply = await self._lines.ask(link.database.name, link.command(request), link.options)
            if reply is None:
                reply = await link.page(request)
            link.note(reply.get("operationTime"), reply.get("$clusterTime"))
            found = reply["cursor"]
            if not found["id"]:
                return Found(found["firstBatch"])
            await link.database.command(leftover(request, found["id"]))
        except ServerSelectionTimeoutError as error:  # it has waited for one already
            return link.error(error, writing=False)
        except AutoReconnect:
            pass  # as above
        except ERRORS as error:
            return link.error(error, writing=False)
        return await against((request,)) or await self._one(request, against)

    async def _one(self, request: Request, against: AgainstAsync) -> Reply:
        steps = exchange(self._link, request)
        under_way: asyncio.Future[Any] | None = None
        shields = _is_transaction(request)
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    step = steps.send(None)
                    continue
                if step is may_go_on:
                    refused = await against((request,))
                    step = steps.send(None) if refused is None else steps.throw(refused)
                    continue
                try:
                    value = step()
                    if asyncio.iscoroutine(value) and shields:
                        under_way = asyncio.ensure_future(value)
                        value = await asyncio.shield(under_way)
                    elif asyncio.iscoroutine(value):
                        value = await value
                except ERRORS as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(value)
        except StopIteration as done:
            return done.value
        except KeyplanError as refused:
            return refused
        except asyncio.CancelledError as cancelled:
            # Whoever cancels does not wait for the server.
            undoing = asyncio.create_task(_undo_async(steps, cancelled, under_way))
            self._undoing.add(undoing)
            undoing.add_done_callback(self._undoing.discard)
            raise

    async def close(self) -> None:
        if self._undoing:
            await asyncio.wait(self._undoing, timeout=CLOSING_S)
        await self._lines.close()
        await self._link.client.close()


class _SharedAsyncPort(MongoAsyncPort):
    """As above."""

    def __init__(self, link: Link, lines: Lines, undoing: set[asyncio.Task[None]]) -> None:
        self._link = link
        self._lines = lines
        self._undoing = undoing

    async def close(self) -> None:
        pass
