"""Which database an error is about: engines speak of "the file" or "the table", and here it gets its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from keyplan.engines.unreadable import UnreadableError
from keyplan.errors import ConflictError, DesignMismatchError, StorageError

_NAMELESS = (ConflictError, DesignMismatchError, StorageError, UnreadableError)
"""What is found out about a whole database; whatever else goes wrong has been said by a port, which knows its name."""


def name_of(port: object) -> str:
    """What messages call the database behind a port; never with credentials."""
    found = getattr(port, "where", "")
    return found if isinstance(found, str) else ""


@contextmanager
def naming(port: object) -> Iterator[None]:
    """Errors about the database begin with its name."""
    try:
        yield
    except _NAMELESS as error:
        where = name_of(port)
        if not where or type(error) not in _NAMELESS or str(error).startswith(f"{where}: "):
            raise
        raise type(error)(f"{where}: {error}") from error
