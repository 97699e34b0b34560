"""Steps on the driver, written once for both colours."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

from keyplan.engines.mongodb.faults import WRITE_CONFLICT, code_of
from keyplan.engines.mongodb.transport import ERRORS, InvalidOperation, Link, PyMongoError

Thunk = Callable[[], Any]
Calls = Generator["Thunk | float", Any, Any]
"""Yields functions to be called (and awaited, if that is their colour) or seconds to wait; is sent the results."""


CUT_OFF = (Exception, asyncio.CancelledError, KeyboardInterrupt)
"""What may end a call in the midst of it, and leave it time to end its session: a transaction that nobody ends keeps
others from its documents until the server gives it up, after a minute."""


def may_go_on() -> None:
    """Yielded where nothing is done so far, or nothing that cannot be done again: a port that has been told to ask
    whether it may go on does so in place of this, and throws an error if not."""


COMMIT_SECONDS = 20.0
"""How long the outcome of a commit is asked for, which outlasts an election."""


def ended(link: Link, session: Any) -> Calls:
    """Ends a session, and remembers how far it had come for those that follow."""
    if session is not None:
        link.note(session.operation_time)
        yield from quietly(lambda: session.end_session())


def pause(attempt: int) -> float:
    """Seconds to wait before an attempt, different for everybody who met there."""
    return random.random() * min(0.1, 0.002 * 2.0**attempt)


def quietly(thunk: Thunk) -> Calls:
    """A call whose failure does not matter."""
    with suppress(*ERRORS):  # the server forgets a transaction by itself
        yield thunk


def is_transient(error: BaseException) -> bool:
    """Whether a transaction met with others, or was ended by the server: nothing was done, and it can be done again."""
    if isinstance(error, InvalidOperation):  # of a client that was closed; the driver labels it all the same
        return False
    label = isinstance(error, PyMongoError) and error.has_error_label("TransientTransactionError")
    return label or code_of(error) == WRITE_CONFLICT


def commit(session: Any) -> Calls:
    """Commits, and asks again as long as the outcome is unknown: a commit can be repeated."""
    until = time.monotonic() + COMMIT_SECONDS
    lost: PyMongoError | None = None
    while True:
        try:
            yield lambda: session.commit_transaction()
            return
        except InvalidOperation as error:  # the client was closed
            raise lost or error from None
        except PyMongoError as error:
            lost = error
            if not error.has_error_label("UnknownTransactionCommitResult") or time.monotonic() > until:
                raise
            if code_of(error) in (50, 64, 79):  # done, but no majority has confirmed it in time
                raise
            yield 0.1 * (0.5 + random.random())
