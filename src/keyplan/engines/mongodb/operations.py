"""What the port can be asked to do, without the driver: plain data that can be printed and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keyplan.engines.mongodb.limits import CHUNK
from keyplan.engines.mongodb.values import Document
from keyplan.engines.rounds import Then


@dataclass(slots=True)
class Find:
    """Documents of one collection; the reply is a `Found`."""

    collection: str
    filter: Document
    projection: Mapping[str, int] | None = None
    sort: list[tuple[str, int]] | None = None
    limit: int = 0
    """0: all, in chunks."""
    hint: str | None = None
    strong: int = False
    """False, True, or SESSION."""
    chunk: int = CHUNK
    """The most documents that are brought at once."""


@dataclass(slots=True)
class More:
    """The next chunk of a cursor that is open on the server."""

    cursor: Any
    chunk: int = CHUNK


@dataclass(slots=True)
class Found:
    """Documents, and the cursor that has more of them."""

    documents: list[Document]
    cursor: Any = None


@dataclass(slots=True)
class Command:
    """A command of the database, such as `create` or `createIndexes`; the reply is its document."""

    body: Document
    tolerates: tuple[int, ...] = ()
    """Codes of errors that mean: somebody has done it already."""


@dataclass(slots=True)
class Held:
    """What `then` makes, done while a transaction keeps the record from getting another token (`fence.py`); the reply
    is an error, or nothing."""

    token: str
    then: Then


@dataclass(slots=True)
class Together:
    """Commands as one transaction, which waits for so many nodes; there is no reply. For measurements."""

    bodies: list[Document]
    concern: int | str


def is_read(request: object) -> bool:
    """Whether a request changes nothing."""
    if isinstance(request, Command):
        return next(iter(request.body), "") in ("find", "listCollections", "listIndexes")
    return isinstance(request, Find | More)
