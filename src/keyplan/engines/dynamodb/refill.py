"""The keys of index entries, written into items that are there already: what a new or changed index is filled from.

DynamoDB fills an index from the items that have its key attributes. Rows that were written under a design without the
index have none, so each item is read, and gets what the new design would have given it, if what decides that is still
as it was read.
"""

from __future__ import annotations

from typing import Any

from keyplan.engines.base import Change, Proc
from keyplan.engines.dynamodb.derived import Derived
from keyplan.engines.dynamodb.layout import Layout
from keyplan.engines.dynamodb.operations import Request


class Refill(Change):
    """Gives every item the index keys of the design, and takes those of others away."""

    def __init__(self, places: Layout) -> None:
        named = ", ".join(index.name for index in places.indexes) or "indexes that are gone"
        self.summary = f"write the keys of {named} into the items that are there; until then, patterns answer in part"
        self._derived = Derived(places)

    def run(self) -> Proc[None]:
        start: dict[str, Any] = {}
        while True:
            (page,) = yield [Request("Scan", {"ConsistentRead": True, **start})]
            if isinstance(page, Exception):
                raise page
            yield from self._derived.write(page["Items"])
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
