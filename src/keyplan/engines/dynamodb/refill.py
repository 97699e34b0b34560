"""The keys of index entries, written into items that are there already: what a new or changed index is filled from.

DynamoDB fills an index from the items that have its key attributes. Rows that were written under a design without the
index have none, so each item is read, and gets what the new design would have given it, if what decides that is still
as it was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from keyplan.engines.base import Change, Proc
from keyplan.engines.dynamodb.conditions import Expression
from keyplan.engines.dynamodb.faults import ConditionError
from keyplan.engines.dynamodb.layout import PK, RECORD_TAG, SK, Item, Layout, Place
from keyplan.engines.dynamodb.operations import Request

AT_ONCE = 25
"""Items that are changed in one round."""
_KEYS = re.compile(r"GSI[0-9]+(PK|SK|K[0-9]+)|LSI[0-9]+SK")


class Refill(Change):
    """Gives every item the index keys of the design, and takes those of others away."""

    def __init__(self, places: Layout) -> None:
        named = ", ".join(index.name for index in places.indexes) or "indexes that are gone"
        self.summary = f"write the keys of {named} into the items that are there; until then, patterns answer in part"
        self._places = [place for place in places.places.values() if place.index is None]

    def run(self) -> Proc[None]:
        start: dict[str, Any] = {}
        while True:
            (page,) = yield [Request("Scan", {"ConsistentRead": True, **start})]
            if isinstance(page, Exception):
                raise page
            late = list(page["Items"])
            while late:
                late = yield from self._rewritten(late)
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _rewritten(self, items: Sequence[Item]) -> Proc[list[Item]]:
        """Changes items; those that somebody has changed meanwhile, as they are now."""
        wanted = [(item, update) for item in items if (update := self.update(item)) is not None]
        late: list[Item] = []
        for first in range(0, len(wanted), AT_ONCE):
            some = wanted[first : first + AT_ONCE]
            replies = yield [Request("UpdateItem", update) for _, update in some]
            again = []
            for (item, _), reply in zip(some, replies, strict=True):
                if isinstance(reply, ConditionError):
                    key = {name: item[name] for name in (PK, SK)}
                    again.append(Request("GetItem", {"Key": key, "ConsistentRead": True}))
                elif isinstance(reply, Exception):
                    raise reply
            for reply in (yield again) if again else ():
                if isinstance(reply, Exception):
                    raise reply
                late += [reply["Item"]] if "Item" in reply else []
        return late

    def update(self, item: Item) -> dict[str, Any] | None:
        """The request that gives an item its keys; None if it has them."""
        place = self._place(item)
        if place is None:
            return None
        entry = place.decoder(tuple(place.slots))(item)
        keys: dict[str, dict[str, Any]] = {}
        for index in place.indexes:
            keys |= index.compose(entry) or {}
        foreign = [name for name in item if _KEYS.fullmatch(name) and name not in keys]
        changed = {name: value for name, value in keys.items() if item.get(name) != value}
        if not foreign and not changed:
            return None
        use = Expression()
        actions = []
        if changed:
            actions.append(
                "SET " + ", ".join(f"{use.name(name)} = {use.value(value)}" for name, value in changed.items())
            )
        if foreign:
            actions.append("REMOVE " + ", ".join(use.name(name) for name in foreign))
        body: dict[str, Any] = {
            "Key": {name: item[name] for name in (PK, SK)},
            "UpdateExpression": " ".join(actions),
            "ConditionExpression": " AND ".join(self._unchanged(place, item, use)),
        }
        use.into(body)
        return body

    def _unchanged(self, place: Place, item: Item, use: Expression) -> Iterator[str]:
        yield f"attribute_exists({PK})"
        for path in sorted({path for index in place.indexes for path in index.paths}):
            name = place.slots[path].attribute
            if name in item:
                yield f"{use.name(name)} = {use.value(item[name])}"
            else:
                yield f"attribute_not_exists({use.name(name)})"

    def _place(self, item: Item) -> Place | None:
        """Whose entry an item is, by its keys."""
        pk, sk = item[PK]["S"], item[SK]["S"]
        if pk == RECORD_TAG:
            return None
        found = [place for place in self._places if _begins(pk, place.partition) and _begins(sk, place.sort)]
        return max(found, key=lambda place: len(place.partition.prefix) + len(place.sort.prefix), default=None)


def _begins(text: str, codec: Any) -> bool:
    return bool(text.startswith(codec.prefix) if codec.parts else text == codec.prefix)
