"""Waiting for a table and its indexes, which DynamoDB changes behind its replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.rounds import Pause, Proc
from keyplan.errors import UnavailableError

PATIENCE_SECONDS = 24 * 3600.0
"""How long a table or index may take to become active; filling an index over many rows takes hours."""
FIRST_PAUSE, LONGEST_PAUSE, GROWTH = 0.05, 10.0, 1.2
"""Between two looks: what is done is noticed after about a fifth more of the time that it took."""


def until_active() -> Proc[Mapping[str, Any]]:
    """Waits until the table and all its indexes are active; an index that is being deleted has to be gone. Says what
    there is then."""
    waited, pause = 0.0, FIRST_PAUSE
    while True:
        (reply,) = yield [Request("DescribeTable", {})]
        if isinstance(reply, Exception):
            raise reply
        about: Mapping[str, Any] = reply["Table"]
        indexes = about.get("GlobalSecondaryIndexes", ())
        busy = [one["IndexName"] for one in indexes if one.get("IndexStatus", "ACTIVE") != "ACTIVE"]
        if about["TableStatus"] == "ACTIVE" and not busy:
            return about
        if waited > PATIENCE_SECONDS:
            raise UnavailableError(f"dynamodb: {busy[0] if busy else 'the table'} is not active yet; apply again later")
        yield Pause(pause)
        waited += pause
        pause = min(LONGEST_PAUSE, pause * GROWTH)
