"""What requests come to on the driver: generators of calls, the same for both colours.

Finds, commands and writes, alone or as a transaction, which is repeated where the server says that nothing was
done; so is its commit where it cannot say. Loads are in `bulk.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keyplan.engines.codec import SESSION
from keyplan.engines.mongodb.bulk import bulk
from keyplan.engines.mongodb.calls import CUT_OFF, Calls, commit, ended, is_transient, may_go_on, pause, quietly
from keyplan.engines.mongodb.faults import DUPLICATE, code_of, details_of, index_of
from keyplan.engines.mongodb.fence import OvertakenError
from keyplan.engines.mongodb.fenced import fenced_bulk, held, let_pass, touch
from keyplan.engines.mongodb.layout import ID_INDEX
from keyplan.engines.mongodb.operations import Command, Find, Found, Held, More, Together
from keyplan.engines.mongodb.steps import Step
from keyplan.engines.mongodb.transport import (
    ERRORS,
    BulkWriteError,
    Link,
    OperationFailure,
    ReadConcern,
    ReadPreference,
    WriteConcern,
    pymongo,
)
from keyplan.engines.mongodb.values import ID, Document
from keyplan.engines.mongodb.writes import BulkRequest, WriteRequest
from keyplan.engines.rounds import Pause, Proc, Request
from keyplan.errors import ConflictError, KeyplanError, ThrottledError

ATTEMPTS = 8
"""How often a transaction that met with another one is tried again here, within a fraction of a second."""


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
            return (yield from (bulk(link, request) if request.token is None else fenced_bulk(link, request)))
        if isinstance(request, Held):
            return (yield from held(link, request, exchange))
        if isinstance(request, Command):
            return (yield from _command(link, request))
        if isinstance(request, Together):
            return (yield from _commands(link, request))
    except OvertakenError as error:
        return error
    except ERRORS as error:
        return link.error(error, writing=isinstance(request, BulkRequest | Command | Held | Together))
    raise TypeError(f"not a request for mongodb: {request!r}")


def _find(link: Link, request: Find) -> Calls:
    if request.strong != SESSION:
        return (yield from _found(link.reading(request.collection, bool(request.strong)), request, None))
    collection, session = link.following(request.collection)
    found = yield from _found(collection, request, session)
    if found.cursor is None:  # otherwise the cursor needs it, and it ends with it
        yield from ended(link, session)
    return found


def _found(collection: Any, request: Find, session: Any) -> Calls:
    if request.limit == 1 and request.sort is None and request.hint is None:
        document = yield lambda: collection.find_one(request.filter, request.projection, session=session)
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
    return (yield from _chunk(cursor, request.chunk))


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


def _commands(link: Link, request: Together) -> Calls:
    session = yield lambda: link.session()
    try:
        yield lambda: session.start_transaction(
            ReadConcern("snapshot"), WriteConcern(request.concern), ReadPreference.PRIMARY
        )
        for body in request.bodies:
            yield lambda: link.database.command(body, session=session)  # noqa: B023
        yield from commit(session)
    except CUT_OFF:
        yield from quietly(lambda: session.end_session())
        raise
    yield from quietly(lambda: session.end_session())


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
            yield pause(attempt)
        try:
            if attempt:
                yield may_go_on
            if attempt and request.token is not None:
                yield from let_pass(link, request.token)
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
        except KeyplanError as error:  # of what is done behind the steps
            return error
        except ERRORS as error:
            if is_transient(error):
                continue
            return link.error(error, writing=not isinstance(error, ArithmeticError))
        if found is not None:
            return found
    return ThrottledError(f"{link.where}: others keep writing the same documents; try again")


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
    except CUT_OFF:
        yield from ended(link, session)
        raise
    yield from ended(link, session)
    return replies


def _transaction(link: Link, request: WriteRequest) -> Calls:
    session = yield lambda: link.session()
    try:
        yield lambda: session.start_transaction(ReadConcern("snapshot"), link.concern, ReadPreference.PRIMARY)
        if request.token is not None:
            yield from touch(link, request.token, session)
        yield from _together(link, request.apart, session)
        replies = yield from _together(link, request.steps, session)
        if request.then is not None:
            yield from _going_on(link, request.then(), session)
        yield may_go_on
        yield from commit(session)
    except CUT_OFF:
        # Ends the transaction too. A generator that is thrown away cannot yield: then the server does it.
        yield from quietly(lambda: session.end_session())
        raise
    yield from ended(link, session)
    return replies


def _going_on(link: Link, proc: Proc[None], session: Any) -> Calls:
    """Runs what is done behind the steps of a transaction, as part of it.

    It sees what the steps did, and all that was there when the transaction began. Whoever has since changed a document
    that the steps change, or check, meets with the transaction, which is then done again from the beginning.
    """
    try:
        step = next(proc)
        while True:
            replies: list[Any] = []
            for request in () if isinstance(step, Pause) else step:
                if isinstance(request, WriteRequest):
                    replies.append((yield from _part(link, request, session)))
                elif isinstance(request, More):
                    replies.append((yield from _chunk(request.cursor, request.chunk)))
                else:
                    replies.append((yield from _found(link.writing(request.collection), request, session)))
            step = proc.send(replies)
    except StopIteration:
        return
    finally:
        proc.close()


def _part(link: Link, request: WriteRequest, session: Any) -> Calls:
    """A write as part of another one."""
    try:
        return (yield from _together(link, request.steps, session))
    except _RefusedError:
        return ConflictError(f"{link.where}: others keep changing the same rows; try again")


def _together(link: Link, steps: Sequence[Step], session: Any) -> Calls:
    """The steps of a transaction: many of one collection in one bulk write, the others one by one."""
    replies: list[Any] = [None] * len(steps)
    for group in _groups(steps):
        if len(group) > 1:
            some = [steps[number] for number in group]
            yield from _many(link.writing(some[0].collection), some, some[0].must, session)
        else:
            replies[group[0]] = yield from _step(link, steps[group[0]], session)
    return replies


def _groups(steps: Sequence[Step]) -> list[list[int]]:
    """The numbers of steps that can be one bulk write; none that is to come in its turn overtakes another."""
    found: list[list[int]] = []
    last: dict[tuple[str, bool | None], list[int]] = {}
    once = len({(step.collection, repr(step.id)) for step in steps}) == len(steps)
    for number, step in enumerate(steps):
        able = once and step.kind in _BULK and not step.returns
        place = (step.collection, None if step.in_turn else step.must)
        group = last.get(place)
        if able and group is not None and steps[group[0]].must == step.must:
            group.append(number)
            continue
        found.append([number])
        if able:
            last[place] = found[-1]
        elif step.in_turn:
            last.pop(place, None)
    return found


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
