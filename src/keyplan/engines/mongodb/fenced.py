"""Requests of an `apply` that are done only as long as it has the database to itself (`fence.py`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from keyplan.engines.mongodb.bulk import bulk_writes, duplicate
from keyplan.engines.mongodb.calls import CUT_OFF, Calls, commit, ended, is_transient, quietly
from keyplan.engines.mongodb.faults import DUPLICATE, details_of, index_of
from keyplan.engines.mongodb.fence import OvertakenError, holds, touched
from keyplan.engines.mongodb.layout import RECORD_COLLECTION
from keyplan.engines.mongodb.operations import Held
from keyplan.engines.mongodb.transport import BulkWriteError, Link, ReadConcern, ReadPreference
from keyplan.engines.mongodb.values import Document
from keyplan.engines.mongodb.writes import BulkRequest
from keyplan.engines.rounds import Pause, Proc, Request
from keyplan.errors import KeyplanError

PATIENCE_SECONDS = 150.0
"""How long others are waited for that hold the same token: twice as long as the server lets them, and more."""


def touch(link: Link, token: str, session: Any) -> Calls:
    """Sees, in a transaction, that the token is on record, and will be until the commit."""
    record = link.writing(RECORD_COLLECTION)
    result = yield lambda: record.update_one(holds(token), touched(), session=session)
    if not result.matched_count:
        raise OvertakenError


def let_pass(link: Link, token: str) -> Calls:
    """Waits until nobody holds the record: outside of transactions, the server itself waits for those that are open."""
    record = link.writing(RECORD_COLLECTION)
    yield lambda: record.update_one(holds(token), touched())


def held(link: Link, request: Held, exchange: Callable[[Link, Request], Calls]) -> Calls:
    """Does what is no part of a transaction while one is open that has touched the record."""

    def work(session: Any) -> Calls:
        return (yield from _run(link, request.then(), exchange))

    return (yield from _patiently(link, request.token, work, lasting=False))


def fenced_bulk(link: Link, request: BulkRequest) -> Calls:
    """Many writes of one collection as one transaction."""
    assert request.token is not None
    collection, writes = link.writing(request.collection), bulk_writes(request)

    def work(session: Any) -> Calls:
        try:
            yield lambda: collection.bulk_write(writes, ordered=True, session=session)
        except BulkWriteError as error:
            first: Document = next(iter(details_of(error).get("writeErrors", ())), {})
            if first.get("code") == DUPLICATE and index_of(first) != "_id_":
                return duplicate(request, index_of(first))
            raise
        return None

    return (yield from _patiently(link, request.token, work, lasting=True))


def _patiently(link: Link, token: str, work: Callable[[Any], Calls], *, lasting: bool) -> Calls:
    """Does some work behind a touch of the record, again where it met with others; `lasting`: it is part of the
    transaction, which is committed."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        session = yield lambda: link.session()
        begun = False
        try:
            yield lambda: session.start_transaction(  # noqa: B023
                ReadConcern("snapshot"), link.concern, ReadPreference.PRIMARY
            )
            yield from touch(link, token, session)
            begun = not lasting
            reply = yield from work(session)
            if lasting and not isinstance(reply, KeyplanError):
                yield from commit(session)
        except CUT_OFF as error:
            yield from quietly(lambda: session.end_session())  # noqa: B023
            if begun or not is_transient(error) or time.monotonic() > until:
                raise
        else:
            yield from ended(link, session)  # what is not committed is taken back
            return reply
        yield from let_pass(link, token)


def _run(link: Link, proc: Proc[None], exchange: Callable[[Link, Request], Calls]) -> Calls:
    try:
        step = next(proc)
        while True:
            replies: list[Any] = []
            for request in () if isinstance(step, Pause) else step:
                replies.append((yield from exchange(link, request)))
            step = proc.send(replies)
    except StopIteration:
        return None
    except KeyplanError as error:
        return error
    finally:
        proc.close()
