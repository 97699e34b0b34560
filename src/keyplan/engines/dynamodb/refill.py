"""What items that are there already need under another design: other keys of index entries, or to go.

DynamoDB fills an index from the items that have its key attributes. Rows that were written under a design without the
index have none, so each item is read, and gets what the new design would have given it, if what decides that is still
as it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from keyplan.engines.changing import Catalog, Change
from keyplan.engines.dynamodb.derived import Derived
from keyplan.engines.dynamodb.fence import Fence
from keyplan.engines.dynamodb.layout import PK, SK, Item, Layout
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.dynamodb.record import written_places
from keyplan.engines.dynamodb.standing import Moves, Standing, of_cleared
from keyplan.engines.rounds import Proc


class Refill(Change):
    """Gives every item the index keys of the design, and takes those of others away."""

    def __init__(
        self,
        places: Layout,
        fence: Fence,
        strips: Mapping[tuple[str, str], frozenset[str]] | None = None,
        lost: Sequence[str] = (),
    ) -> None:
        self._fence = fence
        named = ", ".join(index.name for index in places.indexes)
        self.summary = f"write the keys of {named} into the items that are there; until then, patterns answer in part"
        if not named:
            self.summary = "take the keys of indexes that are gone out of the items that are there"
        if lost:
            self.summary = f"take {', '.join(lost)} out of the rows that are there, and " + self.summary
        self.destructive = bool(lost)
        self._derived = Derived(places, strips)

    def run(self) -> Proc[None]:
        yield from _each_page(self, {}, partial(self._derived.write, fence=self._fence))


class Clear(Change):
    """Deletes the items of places that the design does not have.

    What the design has there instead may lie under the same keys, so nothing is made until all is deleted."""

    def __init__(self, clears: Sequence[Standing], others: Sequence[Standing], fence: Fence, found: Catalog) -> None:
        rows = ", ".join(f"'{one.entity}'" for one in clears if one.home)
        views = ", ".join(f"'{one.view}'" for one in clears)
        self.destructive = bool(rows)
        self.summary = f"delete all rows of {rows}" if rows else f"delete the items of {views}, which can be made again"
        self._clears, self._others, self._fence, self._found = clears, others, fence, found

    def run(self) -> Proc[None]:
        def delete(items: Sequence[Item]) -> Proc[None]:
            going = of_cleared(items, self._clears, self._others)
            for reply in (yield [self._fence.writes(map(_deletion, going))]) if going else ():
                if isinstance(reply, Exception):
                    raise reply

        yield from _each_page(self, {"ProjectionExpression": f"{PK}, {SK}"}, delete)
        yield from self._fence.moves_on(*written_places(self._others, self._found))


def _deletion(item: Item) -> tuple[dict[str, Any], int]:
    """A delete as an item of a transaction; how large what goes is nobody knows, and does not seem to matter."""
    return {"Delete": {"Key": {name: item[name] for name in (PK, SK)}}}, 0


def clearing(moves: Moves, fence: Fence, found: Catalog) -> list[Change]:
    """The steps that delete what only the old design had; rows by one of their own."""
    steps: list[Change] = []
    stands = list(moves.meanwhile)
    for rows in (False, True):
        some = [one for one in moves.clears if one.home == rows]
        if some:
            others = [one for one in stands if one not in some]
            steps.append(Clear(some, others, fence, found))
            stands = others
    return steps


def _each_page(step: Change, body: Mapping[str, Any], each: Callable[[Sequence[Item]], Proc[None]]) -> Proc[None]:
    """Goes through all items of the table, and tells how far it has come."""
    seen = 0
    start: dict[str, Any] = {}
    while True:
        (page,) = yield [Request("Scan", {"ConsistentRead": True, **body, **start})]
        if isinstance(page, Exception):
            raise page
        yield from each(page["Items"])
        seen += len(page["Items"])
        step.told(f"{step.summary}: {seen:,} items")
        if "LastEvaluatedKey" not in page:
            return
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
