"""What keeps an `apply` from changing anything once another one has taken over, or come to its end.

Whoever applies a design first puts a token into the record (`applying`), in place of the one that was there when it
looked. From then on, documents are written in transactions that change the record too, if the token is still there: one
that was overtaken, however long it slept, finds another token or none, and nothing of what it wanted is written. Those
that apply the same design at the same time share one token, as long as they do the same. Whoever has dropped what was
begun for another design puts another one there: what is made next has the same name, and one that falls behind must not
drop it. That one is refused as if it was overtaken, looks at the database again, and goes on from there.

MongoDB changes collections and indexes in no transaction. Meanwhile one is held open that has changed the record: as
long as it is, nobody else can put a token there. The server ends it after a minute (`transactionLifetimeLimitSeconds`),
so that only a process that stands still for so long between the two could come too late.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keyplan.engines.mongodb.operations import Held
from keyplan.engines.mongodb.values import ID, Document
from keyplan.engines.rounds import Proc
from keyplan.errors import ConflictError, KeyplanError

RECORD_ID = "design"
APPLYING, TOKEN, HASH = "applying", "token", "hash"


class OvertakenError(ConflictError):
    """Another `apply` went on where this one was; nothing was done."""

    def __init__(self) -> None:
        super().__init__(
            "another process is applying a design to this database as well, or has done so; look at it again"
        )


@dataclass
class Fence:
    """The token of one `apply`; none as long as the database has not been claimed for it."""

    hash: str
    """Of the design that is applied."""
    token: str | None = None

    def needed(self) -> str:
        if self.token is None:
            raise OvertakenError
        return self.token

    def claimed(self) -> Document:
        """The value that makes the database one's own, in an update: what is there if it is of the same design, so that
        both have one token."""
        mine = {TOKEN: new_token(), HASH: self.hash}
        return {"$cond": [{"$eq": [f"${APPLYING}.{HASH}", self.hash]}, f"${APPLYING}", {"$literal": mine}]}

    def query(self) -> Document:
        """Finds the record as long as the token is there."""
        return holds(self.needed())

    def held(self, then: Callable[[], Proc[None]]) -> Proc[None]:
        """Does something that cannot be part of a transaction while nobody else can claim the database."""
        (reply,) = yield [Held(self.needed(), then)]
        if isinstance(reply, KeyplanError):
            raise reply


def new_token() -> str:
    return secrets.token_hex(8)


def holds(token: str) -> Document:
    """Finds the record if it has this token."""
    return {ID: RECORD_ID, f"{APPLYING}.{TOKEN}": token}


def touched() -> Document:
    """An update of the record that says nothing new: two transactions with it cannot both be done."""
    return {"$inc": {f"{APPLYING}.held": 1}}


def seen(record: Document) -> Any:
    """Who applies a design, by the record."""
    return record.get(APPLYING) or {}
