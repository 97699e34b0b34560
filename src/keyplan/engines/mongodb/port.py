"""The connection, in both colours: what requests come to on the driver, pymongo, whose client is in `transport.py`.

**Durability.** Every write is acknowledged by a majority of the replica set (the default write concern), so that it
outlives the loss of the primary. What is stronger or weaker can be said in the URL (`w`, `journal`, `wtimeoutMS`), or
for single calls (`store.using(w=1)`).

**Repeats.** A lost reply is asked for once more by the driver itself: MongoDB knows a repeated write by the number of
its session and does it once. Transactions are repeated here where the server says that nothing was done, and their
commit where it cannot say. What is still unknown then is an UncertainError.

**Reads.** A strong read goes to the primary and sees only what a majority has. A read of a session goes where the
URL's `readPreference` says, in a causally consistent session that waits for all that this client has seen or written.
Any other takes the URL's `readPreference` and `readConcernLevel`.

URLs: `mongodb://[user:password@]host[,host][:port]/database[?options]` and `mongodb+srv://…`, with the options of
MongoDB's drivers.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from keyplan.engines.base import SESSION, Reply, Request, Round
from keyplan.engines.mongodb.faults import DUPLICATE, code_of, details_of, index_of
from keyplan.engines.mongodb.layout import ID_INDEX
from keyplan.engines.mongodb.limits import CHUNK
from keyplan.engines.mongodb.operations import Command, Find, Found, More
from keyplan.engines.mongodb.steps import Step
from keyplan.engines.mongodb.transport import (
    ERRORS,
    AutoReconnect,
    BulkWriteError,
    Link,
    OperationFailure,
    PyMongoError,
    ReadConcern,
    ReadPreference,
    pymongo,
)
from keyplan.engines.mongodb.values import ID, Document
from keyplan.engines.mongodb.writes import BulkRequest, WriteRequest
from keyplan.errors import ConflictError, KeyplanError, ThrottledError

ATTEMPTS = 8
"""How often a transaction that met with another one is tried again here, within a fraction of a second."""
COMMIT_SECONDS = 20.0
"""How long the outcome of a commit is asked for, which outlasts an election."""
BULK_ATTEMPTS = 5

Thunk = Callable[[], Any]
Calls = Generator["Thunk | float", Any, Any]
"""Yields functions to be called (and awaited, if that is their colour) or seconds to wait; is sent the results."""

# What requests come to


def exchange(link: Link, request: Request) -> Calls:
    """The reply to one request."""
    if isinstance(request, WriteRequest):
        return (yield from _write(link, request))
    try:
        if isinstance(request, Find):
            return (yield from _find(link, request))
        if isinstance(request, More):
            return (yield from _chunk(request.cursor, request.chunk))
        if isinstance(request, BulkRequest):
            return (yield from _bulk(link, request))
        if isinstance(request, Command):
            return (yield from _command(link, request))
    except ERRORS as error:
        return link.error(error, writing=isinstance(request, BulkRequest | Command))
    raise TypeError(f"not a request for mongodb: {request!r}")


def _find(link: Link, request: Find) -> Calls:
    session = None
    if request.strong == SESSION:
        collection, session = link.following(request.collection)
    else:
        collection = link.reading(request.collection, bool(request.strong))
    if request.limit == 1 and request.sort is None and request.hint is None:
        document = yield lambda: collection.find_one(request.filter, request.projection, session=session)
        yield from _ended(link, session)
        return Found([] if document is None else [document])
    size = min(request.limit or request.chunk, request.chunk)
    cursor = collection.find(
        request.filter,
        request.projection,
        sort=request.sort,
        limit=request.limit,
        hint=request.hint,
        batch_size=size,
        session=session,
    )
    found = yield from _chunk(cursor, request.chunk)
    if found.cursor is None:  # otherwise the cursor needs it, and it ends with it
        yield from _ended(link, session)
    return found


def _ended(link: Link, session: Any) -> Calls:
    if session is not None:
        link.note(session.operation_time)
        yield from _quietly(lambda: session.end_session())


def _chunk(cursor: Any, size: int) -> Calls:
    documents = yield lambda: cursor.to_list(size)
    return Found(documents, cursor if cursor.alive and len(documents) == size else None)


def _command(link: Link, request: Command) -> Calls:
    try:
        return (yield lambda: link.database.command(request.body, codec_options=link.options))
    except OperationFailure as error:
        if error.code in request.tolerates:
            return {}
        raise


def _pause(attempt: int) -> float:
    return random.random() * min(0.1, 0.002 * 2.0**attempt)


class _RefusedError(Exception):
    """A step found nothing to do, or a unique value taken."""

    def __init__(self, *steps: Step, duplicate: str = "") -> None:
        super().__init__(duplicate)
        self.steps = steps
        """One of them, it is not known which."""
        self.duplicate = duplicate


def _write(link: Link, request: WriteRequest) -> Calls:
    """Does a write, again where it met with others, and says why it was refused where it was."""
    for attempt in range(ATTEMPTS):
        if attempt:
            yield _pause(attempt)
        try:
            if request.is_transaction:
                found = yield from _transaction(link, request)
            else:
                found = yield from _alone(link, request)
        except _RefusedError as refused:
            if refused.duplicate == ID_INDEX and refused.steps[0].hopeful:
                request = request.again()
                continue
            if refused.duplicate not in ("", ID_INDEX):
                return request.duplicate(refused.steps[0], refused.duplicate)
            try:
                outcome = yield from _diagnosed(link, request, refused.steps)
            except ERRORS as error:
                return link.error(error, writing=False)
            if outcome is not None:
                return outcome
            continue
        except ERRORS as error:
            if _has_label(error, "TransientTransactionError") or code_of(error) == 112:
                continue
            return link.error(error, writing=not isinstance(error, ArithmeticError))
        if found is not None:
            return found
    return ThrottledError(f"{link.where}: others keep writing the same documents")


def _diagnosed(link: Link, request: WriteRequest, steps: Sequence[Step]) -> Calls:
    """Why steps were refused, by their documents as they are now; None if they would succeed by now."""
    for step in sorted(steps, key=lambda step: step.edits):
        collection, key = link.writing(step.collection), {ID: step.id}
        document = yield lambda: collection.find_one(key)  # noqa: B023
        verdict = request.refusal(step, document)
        if verdict is not None:
            return verdict
        if request.is_vain(step, document):
            step.kind = "skip"
    return None


def _has_label(error: BaseException, label: str) -> bool:
    return isinstance(error, PyMongoError) and error.has_error_label(label)


def _alone(link: Link, request: WriteRequest) -> Calls:
    session = yield lambda: link.session()
    replies: list[Any] = []
    try:
        for step in request.steps:
            if not step.cleans:
                replies.append((yield from _step(link, step, session)))
                continue
            replies.append(None)
            try:
                yield from _step(link, step, session)
            except (_RefusedError, *ERRORS):
                pass  # an empty document stays behind, which nobody sees
    except Exception:
        yield from _ended(link, session)
        raise
    yield from _ended(link, session)
    return replies


def _transaction(link: Link, request: WriteRequest) -> Calls:
    session = yield lambda: link.session()
    try:
        yield lambda: session.start_transaction(ReadConcern("snapshot"), link.concern, ReadPreference.PRIMARY)
        replies = yield from _together(link, request.steps, session)
        yield from _commit(session)
    except Exception:
        # Ends the transaction too. A generator that is thrown away cannot yield: then the driver does it.
        yield from _quietly(lambda: session.end_session())
        raise
    yield from _ended(link, session)
    return replies


def _together(link: Link, steps: Sequence[Step], session: Any) -> Calls:
    """The steps of a transaction: many of one collection in one bulk write, the others one by one."""
    replies: list[Any] = [None] * len(steps)
    bulks: dict[tuple[str, bool], list[Step]] = {}
    if len({(step.collection, repr(step.id)) for step in steps}) == len(steps):
        for step in steps:
            if step.kind in _BULK and not step.returns:
                bulks.setdefault((step.collection, step.must), []).append(step)
    done: set[int] = set()
    for (name, must), some in bulks.items():
        if len(some) > 1:
            done |= {id(step) for step in some}
            yield from _many(link.writing(name), some, must, session)
    for number, step in enumerate(steps):
        if id(step) not in done:
            replies[number] = yield from _step(link, step, session)
    return replies


def _many(collection: Any, steps: Sequence[Step], must: bool, session: Any) -> Calls:
    writes = [_BULK[step.kind](step) for step in steps]
    try:
        result = yield lambda: collection.bulk_write(writes, ordered=True, session=session)
    except BulkWriteError as error:
        first: Document = next(iter(details_of(error).get("writeErrors", ())), {})
        if first.get("code") == DUPLICATE:
            raise _RefusedError(steps[first["index"]], duplicate=index_of(first)) from error
        raise
    if must and result.matched_count + result.deleted_count + result.upserted_count < len(steps):
        raise _RefusedError(*steps)


def _update_one(step: Step) -> Any:
    return pymongo.UpdateOne(step.filter, step.body, upsert=step.upsert, array_filters=step.arrays)


_BULK: dict[str, Callable[[Step], Any]] = {
    "insert": lambda step: pymongo.InsertOne(step.body),
    "replace": lambda step: pymongo.ReplaceOne(step.filter, step.body, upsert=step.upsert),
    "update": _update_one,
    "delete": lambda step: pymongo.DeleteOne(step.filter),
}


def _quietly(thunk: Thunk) -> Calls:
    with suppress(*ERRORS):  # the server forgets a transaction by itself
        yield thunk


def _commit(session: Any) -> Calls:
    """Commits, and asks again as long as the outcome is unknown: a commit can be repeated."""
    until = time.monotonic() + COMMIT_SECONDS
    while True:
        try:
            yield lambda: session.commit_transaction()
            return
        except PyMongoError as error:
            if not error.has_error_label("UnknownTransactionCommitResult") or time.monotonic() > until:
                raise
            if code_of(error) in (50, 64, 79):  # done, but no majority has confirmed it in time
                raise
            yield 0.1 * (0.5 + random.random())


def _step(link: Link, step: Step, session: Any) -> Calls:
    """Does one operation; the document it returns, if one is wanted."""
    collection = link.writing(step.collection)
    try:
        found, document = yield from _operation(collection, step, session)
    except OperationFailure as error:
        if code_of(error) == DUPLICATE:
            raise _RefusedError(step, duplicate=index_of(error)) from error
        raise
    if step.must and not found:
        raise _RefusedError(step)
    return document


def _operation(collection: Any, step: Step, session: Any) -> Calls:
    kind, filter = step.kind, step.filter
    if kind == "skip":
        return True, None
    if kind == "insert":
        yield lambda: collection.insert_one(step.body, session=session)
        return True, None
    if kind == "replace":
        result = yield lambda: collection.replace_one(filter, step.body, upsert=step.upsert, session=session)
        return result.raw_result["n"] > 0, None
    if kind == "update" and step.returns:
        document = yield lambda: collection.find_one_and_update(
            filter,
            step.body,
            upsert=step.upsert,
            array_filters=step.arrays,
            return_document=step.returns == "after",
            session=session,
        )
        return document is not None or step.upsert, document
    if kind == "update":
        result = yield lambda: collection.update_one(
            filter, step.body, upsert=step.upsert, array_filters=step.arrays, session=session
        )
        return result.raw_result["n"] > 0, None
    if kind == "delete" and step.returns:
        document = yield lambda: collection.find_one_and_delete(filter, session=session)
        return document is not None, document
    if kind == "delete":
        result = yield lambda: collection.delete_one(filter, session=session)
        return result.deleted_count > 0, None
    if kind == "find":
        document = yield lambda: collection.find_one(filter, session=session)
        return document is not None, document
    return (yield from _absent(collection, step, session))


def _absent(collection: Any, step: Step, session: Any) -> Calls:
    """Sees that nothing is there, in a way that meets with whoever puts something there before the commit."""
    if not session.in_transaction:
        document = yield lambda: collection.find_one({ID: step.id}, session=session)
        if document is None:
            return True, None
        if step.conditions:
            document = yield lambda: collection.find_one(step.filter, session=session)
            if document is not None:
                return True, None
        raise _RefusedError(step)
    if step.body is not None:
        result = yield lambda: collection.update_one(step.filter, step.body, session=session)
        if result.raw_result["n"] > 0:
            return True, None
    yield lambda: collection.insert_one({ID: step.id}, bypass_document_validation=True, session=session)
    yield lambda: collection.delete_one({ID: step.id}, session=session)
    return True, None


def _bulk(link: Link, request: BulkRequest) -> Calls:
    """Writes many documents; all of it can be repeated, so that lost replies do no harm."""
    session = yield lambda: link.session()
    try:
        found = yield from _in_bulk(link, request, session)
    except Exception:
        yield from _ended(link, session)
        raise
    yield from _ended(link, session)
    return found


def _in_bulk(link: Link, request: BulkRequest, session: Any) -> Calls:
    collection = link.writing(request.collection)
    fresh: list[Document] = list(request.fresh)
    instead = [_bulk_write(one) for one in request.instead]
    instead = instead or [pymongo.ReplaceOne({ID: one[ID]}, one, upsert=True) for one in fresh]
    writes = [_bulk_write(one) for one in request.writes]
    for attempt in range(BULK_ATTEMPTS):
        if attempt:
            yield _pause(attempt + 4)
        try:
            if fresh:
                documents, fresh = fresh, []
                try:
                    yield lambda: collection.insert_many(documents, ordered=False, session=session)  # noqa: B023
                except BulkWriteError as error:
                    errors = _bulk_errors(error, request)
                    if isinstance(errors, KeyplanError):
                        return errors
                    writes += [instead[number] for number in errors]
                except PyMongoError:
                    writes += instead
                    raise
            if writes:
                try:
                    yield lambda: collection.bulk_write(writes, ordered=False, session=session)  # noqa: B023
                except BulkWriteError as error:
                    errors = _bulk_errors(error, request)
                    if isinstance(errors, KeyplanError):
                        return errors
                    writes = [writes[number] for number in errors]
                    continue
            return None
        except PyMongoError as error:
            if attempt == BULK_ATTEMPTS - 1 or isinstance(error, OperationFailure):
                raise
    return ThrottledError(f"{link.where}: others keep writing the same documents")


def _bulk_write(write: tuple[str, Document, Any]) -> Any:
    kind, filter, body = write
    if kind == "replace":
        return pymongo.ReplaceOne(filter, body, upsert=True)
    if kind == "delete":
        return pymongo.DeleteOne(filter)
    return pymongo.UpdateOne(filter, body, upsert=kind == "upsert")


def _bulk_errors(error: BulkWriteError, request: BulkRequest) -> list[int] | KeyplanError:
    """The numbers of the writes that met with a document of the same key; anything else is an error."""
    details = details_of(error)
    if details.get("writeConcernErrors"):
        raise error
    again = []
    for one in details.get("writeErrors", ()):
        if one.get("code") != DUPLICATE:
            raise OperationFailure(one.get("errmsg", ""), one.get("code"), one)
        index = index_of(one)
        if index != "_id_":
            found = [made for made in (request.place.indexes if request.place else ()) if made.name == index]
            listed = ", ".join(f"'{part.slot.path}'" for made in found for part in made.parts) or f"value of '{index}'"
            return ConflictError(f"bulk load of {request.collection}: another row has the same {listed}")
        again.append(int(one["index"]))
    return again


# The two colours


def leftover(request: Find, cursor: int) -> Document:
    """Ends the cursor of a page that was larger than the 16 MB of one reply; it is read in pieces instead."""
    return {"killCursors": request.collection, "cursors": [cursor]}


def is_page(request: Request) -> bool:
    """Whether the answer comes in one piece, and needs no session."""
    return request.__class__ is Find and 0 < request.limit <= CHUNK and request.strong != SESSION


class MongoPort:
    """A database, sync; safe to share between threads."""

    def __init__(self, url: str) -> None:
        self._link = Link(url, pymongo.MongoClient)

    def using(self, options: Mapping[str, Any]) -> MongoPort:
        """The same connection with other concerns; the first port closes it."""
        return _SharedPort(self._link.using(options))

    def send(self, round: Round) -> Sequence[Reply]:
        if len(round) == 1 and is_page(round[0]):
            return [self._page(round[0])]
        return [self._one(request) for request in round]

    def _page(self, request: Find) -> Reply:
        try:
            reply = self._link.page(request)
            self._link.note(reply.get("operationTime"))
            found = reply["cursor"]
            if not found["id"]:
                return Found(found["firstBatch"])
            self._link.database.command(leftover(request, found["id"]))
        except AutoReconnect:
            pass  # the driver's own find is done again where that helps
        except ERRORS as error:
            return self._link.error(error, writing=False)
        return self._one(request)

    def _one(self, request: Request) -> Reply:
        steps = exchange(self._link, request)
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    time.sleep(step)
                    step = steps.send(None)
                    continue
                try:
                    value = step()
                except ERRORS as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(value)
        except StopIteration as done:
            return done.value

    def close(self) -> None:
        self._link.client.close()


class _SharedPort(MongoPort):
    """A port on a connection of another one."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def close(self) -> None:
        pass


class MongoAsyncPort:
    """A database, async."""

    def __init__(self, url: str) -> None:
        self._link = Link(url, pymongo.AsyncMongoClient)

    def using(self, options: Mapping[str, Any]) -> MongoAsyncPort:
        """As above."""
        return _SharedAsyncPort(self._link.using(options))

    async def send(self, round: Round) -> Sequence[Reply]:
        if len(round) == 1:
            return [await (self._page(round[0]) if is_page(round[0]) else self._one(round[0]))]
        return await asyncio.gather(*(self._one(request) for request in round))

    async def _page(self, request: Find) -> Reply:
        try:
            reply = await self._link.page(request)
            self._link.note(reply.get("operationTime"))
            found = reply["cursor"]
            if not found["id"]:
                return Found(found["firstBatch"])
            await self._link.database.command(leftover(request, found["id"]))
        except AutoReconnect:
            pass  # as above
        except ERRORS as error:
            return self._link.error(error, writing=False)
        return await self._one(request)

    async def _one(self, request: Request) -> Reply:
        steps = exchange(self._link, request)
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    step = steps.send(None)
                    continue
                try:
                    value = step()
                    if asyncio.iscoroutine(value):
                        value = await value
                except ERRORS as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(value)
        except StopIteration as done:
            return done.value

    async def close(self) -> None:
        await self._link.client.close()


class _SharedAsyncPort(MongoAsyncPort):
    """As above."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def close(self) -> None:
        pass
