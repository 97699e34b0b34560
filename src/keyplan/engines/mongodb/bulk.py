"""Loads of many documents: all of it can be repeated, so that lost replies do no harm."""

from __future__ import annotations

from functools import partial
from typing import Any

from keyplan.engines.mongodb.calls import CUT_OFF, Calls, ended, may_go_on, pause
from keyplan.engines.mongodb.faults import DUPLICATE, details_of, index_of
from keyplan.engines.mongodb.transport import (
    BulkWriteError,
    Link,
    OperationFailure,
    PyMongoError,
    pymongo,
)
from keyplan.engines.mongodb.values import ID, Document
from keyplan.engines.mongodb.writes import BulkRequest
from keyplan.errors import ConflictError, KeyplanError, ThrottledError

BULK_ATTEMPTS = 5


def bulk(link: Link, request: BulkRequest) -> Calls:
    """Writes many documents; all of it can be repeated, so that lost replies do no harm."""
    session = yield lambda: link.session()
    try:
        found = yield from _in_bulk(link, request, session)
    except CUT_OFF:
        yield from ended(link, session)
        raise
    yield from ended(link, session)
    return found


def _in_bulk(link: Link, request: BulkRequest, session: Any) -> Calls:
    collection = link.writing(request.collection)
    fresh: list[Document] = list(request.fresh)
    instead = partial(_instead, request)
    writes = [_bulk_write(one) for one in request.writes]
    for attempt in range(BULK_ATTEMPTS):
        if attempt:
            yield pause(attempt + 4)
            yield may_go_on
        try:
            if fresh:
                documents, fresh = fresh, []
                try:
                    yield lambda: collection.insert_many(documents, ordered=False, session=session)  # noqa: B023
                except BulkWriteError as error:
                    errors = _bulk_errors(error, request)
                    if isinstance(errors, KeyplanError):
                        return errors
                    writes += map(instead, errors)
                except PyMongoError:
                    writes += map(instead, range(len(documents)))
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
    return ThrottledError(f"{link.where}: others keep writing the same documents; try again")


def bulk_writes(request: BulkRequest) -> list[Any]:
    """All of it as writes that do not mind what is there."""
    return [*map(_bulk_write, request.writes), *(_instead(request, number) for number in range(len(request.fresh)))]


def duplicate(request: BulkRequest, index: str) -> ConflictError:
    """The error for a unique index that has the value already."""
    found = [made for made in (request.place.indexes if request.place else ()) if made.name == index]
    listed = ", ".join(f"'{part.slot.path}'" for made in found for part in made.parts) or f"value of '{index}'"
    return ConflictError(f"bulk load of {request.collection}: another row has the same {listed}; give another value")


def _instead(request: BulkRequest, number: int) -> Any:
    """What is written for a new document if one with its key is there already."""
    if request.instead:
        return _bulk_write(request.instead[number])
    document = request.fresh[number]
    return pymongo.ReplaceOne({ID: document[ID]}, document, upsert=True)


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
            return duplicate(request, index)
        again.append(int(one["index"]))
    return again
