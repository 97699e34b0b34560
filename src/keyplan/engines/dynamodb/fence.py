"""What keeps an `apply` from writing once another one has taken over, or come to its end.

`Announce` puts an item with a token beside the record, `Record` takes it away. Whoever changes items in between does so
in transactions that check the token: one that was overtaken, however long it slept, finds another one or none, and
nothing of what it wanted is written. Those that apply the same design at the same time share one token as long as they
do the same; that they share it is noted with it. Whoever has deleted what only other designs have puts another one
there: what is made next may lie under the same keys, or be an index of the same name, and one that falls behind must
not delete it. That one is refused as if it was overtaken, looks at the table again, and goes on from there. Whoever has
a token alone can take it back as long as nothing was changed. DynamoDB changes indexes in no transaction: the token is
read before.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from keyplan.engines.dynamodb.faults import ConditionError
from keyplan.engines.dynamodb.layout import PK, RECORD_TAG, SK
from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.rounds import Proc
from keyplan.errors import ConflictError

NAME = "FENCE"
MOST = LIMITS.transaction_items - 1
"""Items that are written in one transaction beside the check."""
MOST_BYTES = 3_500_000
"""And how much of them; DynamoDB takes 4 MB."""

OTHER = "another process is applying a different design to this table; look at it again"


class OvertakenError(ConflictError):
    """Another `apply` went on where this one was; nothing was written."""

    def __init__(self) -> None:
        super().__init__("another process is applying a design to this table as well, or has done so; look at it again")


def _new_token() -> str:
    return secrets.token_hex(8)


def fence_key() -> dict[str, Any]:
    return {PK: {"S": RECORD_TAG}, SK: {"S": NAME}}


@dataclass
class Fence:
    """The token of one `apply`."""

    seen: str | None = None
    """The one that was there."""
    joins: bool = False
    """That was of the same design, and is taken over as it is."""
    token: str = field(default_factory=_new_token)
    shared: bool = False
    """Somebody else had put it there, and may have written since this process looked."""
    own: bool = False
    """The one that was there is of this same process, which has looked once more."""

    def raised(self) -> dict[str, Any]:
        """Puts the token there, as an item of a transaction that checks that it is as it was seen: the record may say
        the same again as it did before others have come and gone."""
        if self.seen is not None and self.joins:
            self.token, self.shared = self.seen, True
            return self.check() if self.own else {"Update": self._joining()}
        update: dict[str, Any] = {
            "Key": fence_key(),
            "UpdateExpression": "SET #token = :mine",
            "ConditionExpression": "attribute_not_exists(#token)",
            "ExpressionAttributeNames": {"#token": "token"},
            "ExpressionAttributeValues": {":mine": {"S": self.token}},
        }
        if self.seen is not None:
            update["ConditionExpression"] = "#token = :seen"
            update["ExpressionAttributeValues"][":seen"] = {"S": self.seen}
        return {"Update": update}

    def joined(self) -> Proc[None]:
        """Takes the token that is there now for its own: that of the same design."""
        found = yield from _token()
        if found is None:
            raise OvertakenError
        self.token, self.shared = found, True
        (reply,) = yield [Request("UpdateItem", self._joining())]
        if isinstance(reply, ConditionError):
            raise OvertakenError
        if isinstance(reply, Exception):
            raise reply

    def _joining(self) -> dict[str, Any]:
        """Notes that others use the token too, if it is still there."""
        return {
            "Key": fence_key(),
            "UpdateExpression": "SET #shared = :true",
            "ConditionExpression": "#token = :mine",
            "ExpressionAttributeNames": {"#token": "token", "#shared": "shared"},
            "ExpressionAttributeValues": {":mine": {"S": self.token}, ":true": {"BOOL": True}},
        }

    def check(self) -> dict[str, Any]:
        """That the token is still there, as an item of a transaction."""
        return {
            "ConditionCheck": {
                "Key": fence_key(),
                "ConditionExpression": "#token = :mine",
                "ExpressionAttributeNames": {"#token": "token"},
                "ExpressionAttributeValues": {":mine": {"S": self.token}},
            }
        }

    def moves_on(self, *items: dict[str, Any]) -> Proc[None]:
        """Puts another token there, in one transaction with some items: what was planned by the one before is over,
        for everybody else who has that."""
        update = {
            "Key": fence_key(),
            "UpdateExpression": "SET #token = :next",
            "ConditionExpression": "#token = :mine",
            "ExpressionAttributeNames": {"#token": "token"},
            "ExpressionAttributeValues": {":mine": {"S": self.token}, ":next": {"S": (token := _new_token())}},
        }
        yield from together([{"Update": update}, *items])
        self.token = token

    def look(self) -> Proc[None]:
        """Refuses to go on where another token is there, or none."""
        if (yield from _token()) != self.token:
            raise OvertakenError

    def writes(self, items: Iterable[tuple[dict[str, Any], int]]) -> FencedRequest:
        """Items of transactions, each with how many bytes it is about."""
        return FencedRequest([*_chunks(items)], self.check())


def lowered(token: str | None, *, alone: bool = False) -> dict[str, Any]:
    """Takes the token away, as an item of a transaction, if it is still this one: the record may say the same again as
    it did before others have come and gone. `alone`: and if nobody else uses it."""
    delete: dict[str, Any] = {"Key": fence_key(), "ConditionExpression": f"attribute_not_exists({PK})"}
    if token is not None:
        delete["ConditionExpression"] = "#token = :seen"
        delete["ExpressionAttributeNames"] = {"#token": "token"}
        delete["ExpressionAttributeValues"] = {":seen": {"S": token}}
    if alone:
        delete["ConditionExpression"] += " AND attribute_not_exists(#shared)"
        delete["ExpressionAttributeNames"]["#shared"] = "shared"
    return {"Delete": delete}


@dataclass(slots=True)
class FencedRequest:
    """Writes in transactions, one after the other, since those that check the same item at once refuse each other.

    The port puts the check behind each, and halves those that are too large."""

    chunks: list[list[dict[str, Any]]]
    check: dict[str, Any]


def together(items: list[dict[str, Any]]) -> Proc[None]:
    """Writes items in one transaction, all of them or none."""
    body = {"TransactItems": items, "ClientRequestToken": secrets.token_hex(16)}
    (reply,) = yield [Request("TransactWriteItems", body)]
    if isinstance(reply, ConditionError):
        raise ConflictError(OTHER)
    if isinstance(reply, Exception):
        raise reply


def _token() -> Proc[str | None]:
    (reply,) = yield [Request("GetItem", {"Key": fence_key(), "ConsistentRead": True})]
    if isinstance(reply, Exception):
        raise reply
    found: str | None = reply.get("Item", {}).get("token", {}).get("S")
    return found


def _chunks(items: Iterable[tuple[dict[str, Any], int]]) -> Iterator[list[dict[str, Any]]]:
    some: list[dict[str, Any]] = []
    total = 0
    for item, size in items:
        if some and (len(some) == MOST or total + size > MOST_BYTES):
            yield some
            some, total = [], 0
        some.append(item)
        total += size
    if some:
        yield some
