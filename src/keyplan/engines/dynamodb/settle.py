"""Waits for the indexes: each follows the table by itself, usually within milliseconds.

A marker is written that belongs to every index, and each index is asked for it until it shows. DynamoDB promises no
order between partitions, so that this is a very good sign and no proof.
"""

from __future__ import annotations

import secrets

from keyplan.engines.base import Pause, Proc
from keyplan.engines.dynamodb.layout import PK, RECORD_TAG, SK, Layout
from keyplan.engines.dynamodb.operations import Request
from keyplan.errors import UnavailableError

PATIENCE_SECONDS = 60.0


def settle(layout: Layout) -> Proc[None]:
    """Returns when every index shows what was written before."""
    indexes = layout.global_indexes  # a local one is written with the table
    if not indexes:
        return
    token = {"S": secrets.token_hex(16)}
    key = {PK: {"S": RECORD_TAG}, SK: {"S": f"SETTLE#{token['S']}"}}
    item = dict(key)
    for index in indexes:
        item |= {index.pk: {"S": RECORD_TAG}, index.sk: token}
    yield from _sent(Request("PutItem", {"Item": item}))
    waiting = [index.name for index in indexes]
    waited, pause = 0.0, 0.01
    while waiting:
        replies = yield [_probe(name, token) for name in waiting]
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        waiting = [name for name, reply in zip(waiting, replies, strict=True) if not reply["Count"]]
        if waiting:
            if waited > PATIENCE_SECONDS:
                raise UnavailableError(f"dynamodb: '{waiting[0]}' is {waited:.0f} s behind the table; wait for it")
            yield Pause(pause)
            waited += pause
            pause = min(1.0, pause * 2)
    yield from _sent(Request("DeleteItem", {"Key": key}))


def _probe(index: str, token: dict[str, str]) -> Request:
    return Request(
        "Query",
        {
            "IndexName": index,
            "KeyConditionExpression": f"{index}PK = :pk AND {index}SK = :sk",
            "ExpressionAttributeValues": {":pk": {"S": RECORD_TAG}, ":sk": token},
            "Select": "COUNT",
        },
    )


def _sent(request: Request) -> Proc[None]:
    (reply,) = yield [request]
    if isinstance(reply, Exception):
        raise reply
