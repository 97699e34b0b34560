"""Waits for the indexes: each follows the table by itself, usually within milliseconds.

A marker is written that belongs to every index, and each index is asked for it until it shows. DynamoDB promises no
order between partitions, so that this is a very good sign and no proof.
"""

from __future__ import annotations

import secrets

from keyplan.engines.dynamodb.layout import PK, RECORD_TAG, SK, Index, Layout
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.rounds import Pause, Proc
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
        item |= _marker(index, token)
    yield from _sent(Request("PutItem", {"Item": item}))
    waiting = list(indexes)
    waited, pause = 0.0, 0.01
    while waiting:
        replies = yield [_probe(index, token) for index in waiting]
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        waiting = [index for index, reply in zip(waiting, replies, strict=True) if not reply["Count"]]
        if waiting:
            if waited > PATIENCE_SECONDS:
                raise UnavailableError(f"dynamodb: '{waiting[0].name}' is {waited:.0f} s behind the table; wait for it")
            yield Pause(pause)
            waited += pause
            pause = min(1.0, pause * 2)
    yield from _sent(Request("DeleteItem", {"Key": key}))


def _marker(index: Index, token: dict[str, str]) -> dict[str, dict[str, str]]:
    """A key that nothing else has: the token wherever it can stand."""
    return {one.name: token if one.type == "S" else {"N": "0"} for one in index.keys}


def _probe(index: Index, token: dict[str, str]) -> Request:
    marker = [(one.name, value) for one, value in zip(index.keys, _marker(index, token).values(), strict=True)]
    return Request(
        "Query",
        {
            "IndexName": index.name,
            "KeyConditionExpression": " AND ".join(f"#{place} = :{place}" for place in range(len(marker))),
            "ExpressionAttributeNames": {f"#{place}": name for place, (name, _) in enumerate(marker)},
            "ExpressionAttributeValues": {f":{place}": value for place, (_, value) in enumerate(marker)},
            "Select": "COUNT",
        },
    )


def _sent(request: Request) -> Proc[None]:
    (reply,) = yield [request]
    if isinstance(reply, Exception):
        raise reply
