"""Steps on the driver, written once for both colours."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

from keyplan.engines.mongodb.transport import ERRORS, Link

Thunk = Callable[[], Any]
Calls = Generator["Thunk | float", Any, Any]
"""Yields functions to be called (and awaited, if that is their colour) or seconds to wait; is sent the results."""


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
