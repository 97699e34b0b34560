"""A table without rows takes any design, but stores of the one on record may write the first row at any moment.

So a change of what they write is announced there, too, and the table looked at again when all of them have noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from keyplan.engines.changing import Change, RowsCameError
from keyplan.engines.dynamodb.layout import PK, RECORD_TAG
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.dynamodb.standing import NOTHING, Moves, Standing
from keyplan.engines.rounds import Proc


def is_empty() -> Proc[bool]:
    """Whether the table has no items but our record."""
    body: dict[str, Any] = {
        "FilterExpression": f"{PK} <> :pk",
        "ExpressionAttributeValues": {":pk": {"S": RECORD_TAG}},
        "ConsistentRead": True,
        "Limit": 50,
    }
    while True:
        (reply,) = yield [Request("Scan", dict(body))]
        if isinstance(reply, Exception):
            raise reply
        if reply["Count"]:
            return False
        if "LastEvaluatedKey" not in reply:
            return True
        body["ExclusiveStartKey"] = reply["LastEvaluatedKey"]


def moves_of_none(there: Sequence[Standing], wanted: Sequence[Standing]) -> Moves:
    """What lies between a table without rows and a design: nothing, except that others may write there as they know it.

    Until they no longer do, the record tells of their places as they are: rows that come meanwhile are in them."""
    if _written(there) == _written(wanted):
        return NOTHING
    known = {one.shape for one in there}
    entering = [replace(one, home=False, filled=False) for one in wanted if one.shape not in known]
    return replace(NOTHING, meanwhile=(*there, *entering), takes_away=True)


def _written(places: Sequence[Standing]) -> set[object]:
    """What decides how rows are written."""
    return {(one.shape, one.home, one.own, one.needs) for one in places}


class StillEmpty(Change):
    """Does not go on over rows that nobody has counted on."""

    summary = "see that nobody has written a row meanwhile"
    only_looks = all_or_nothing = True

    def run(self) -> Proc[None]:
        if not (yield from is_empty()):
            raise RowsCameError("the table")
