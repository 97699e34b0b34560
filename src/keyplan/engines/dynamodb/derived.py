"""What an item has besides its values: the keys of its index entries, and the second after which it may be deleted.

Both follow from the values. Items that were written under a design with other indexes lack some, and what changes
items by other hands may leave them behind: an index does not show such a row, or shows it in the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from keyplan.engines.codec import Sighting
from keyplan.engines.dynamodb.conditions import Expression
from keyplan.engines.dynamodb.faults import ConditionError
from keyplan.engines.dynamodb.fence import Fence
from keyplan.engines.dynamodb.layout import PK, RECORD_TAG, SK, TTL, Item, Layout, Place
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.dynamodb.values import expiry_seconds, item_bytes
from keyplan.engines.rounds import Proc
from keyplan.engines.unreadable import readable
from keyplan.model.entity import EXPIRES

AT_ONCE = 25
"""Items that are changed in one round."""
_KEYS = re.compile(r"GSI[0-9]+(PK|SK|K[0-9]+)|LSI[0-9]+SK")


class Derived:
    """Compares items with what their values imply, and puts them right."""

    def __init__(
        self,
        places: Layout,
        strips: Mapping[tuple[str, str], frozenset[str]] | None = None,
        homes: Collection[tuple[str, tuple[str, ...]]] = (),
    ) -> None:
        """`strips` are attributes that items lose besides, by what their keys begin with; `homes` are the views, and
        the roles inside them, whose items are rows."""
        self._strips = strips or {}
        self._homes = homes
        self._places = [place for place in places.places.values() if place.index is None]
        self._entries: dict[int, Callable[[Item], dict[str, Any]]] = {
            id(place): place.decoder(tuple(place.slots)) for place in self._places
        }

    # Comparing

    def check(self, note: Callable[[Sighting], None], *, repair: bool) -> Proc[None]:
        """Tells of every item of a table that has other keys or another end than it should, of every one that has an
        entry in an index, and of those under a key that is not that of their own values, which no row accounts for."""
        start: dict[str, Any] = {}
        while True:
            (page,) = yield [Request("Scan", {"ConsistentRead": True, **start})]
            if isinstance(page, Exception):
                raise page
            # Whoever compares views tells of values that cannot be read.
            items = readable(page["Items"], self._entry, lambda error: None)
            strays = [item for item in items if self._is_stray(item, note)]
            wrong = [item for item in items if item not in strays and self._noted(item, note)]
            if repair:
                yield from self.write(wrong)
                for reply in (yield [Request("DeleteItem", {"Key": _keys(item)}) for item in strays]) if strays else ():
                    if isinstance(reply, Exception):
                        raise reply
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _entry(self, item: Item) -> dict[str, Any] | None:
        """The values of an item that is an entry of ours."""
        place = self._place(item)
        return None if place is None else self._entries[id(place)](item)

    def _noted(self, item: Item, note: Callable[[Sighting], None]) -> bool:
        """Whether something is wrong with an item."""
        place = self._place(item)
        if place is None:
            return False
        entry = self._entries[id(place)](item)
        faults = False
        keys = [index.compose(entry) for index in place.indexes]
        shared = {index.place.index for index, key in zip(place.indexes, keys, strict=True) if key is not None}
        for index, wanted in zip(place.indexes, keys, strict=True):
            if wanted is None and index.place.index in shared:
                continue  # what stands there is another view's
            there = {name: item[name] for name in index.attributes if name in item}
            what = "" if there == (wanted or {}) else "extra" if wanted is None else "wrong" if there else "missing"
            if wanted is not None or what:
                note(Sighting(index.place.view.name, what, index.values(entry) or _key(place, item)))
            faults = faults or bool(what)
        if place.expires and _end(entry) != item.get(TTL):
            note(Sighting(place.view.name, "wrong", _key(place, item), is_entry=False))
            faults = True
        return faults

    def _is_stray(self, item: Item, note: Callable[[Sighting], None]) -> bool:
        """Whether an item that is no row stands under another key than its own values say."""
        place = self._place(item)
        if place is None or place.at or (place.view.name, place.at) in self._homes:
            return False
        entry = self._entries[id(place)](item)
        try:
            key = _key(place, item)
        except ValueError:
            note(Sighting(place.view.name, "extra", (item[PK]["S"], item[SK]["S"])))
            return True
        for part, stands in zip(place.view.parts, key, strict=True):
            plain = part.ways == 1 and part.cut is None and not part.or_missing and part.path in place.slots
            if plain and entry[part.path] != stands:
                note(Sighting(place.view.name, "extra", key))
                return True
        return False

    # Putting right

    def write(self, items: Sequence[Item], fence: Fence | None = None) -> Proc[None]:
        """Changes items, and those that somebody has changed meanwhile as they are now."""
        late = list(items)
        if fence is not None:
            late = yield from self._together(late, fence)
        while late:
            late = yield from self._rewritten(late, fence)

    def _together(self, items: Sequence[Item], fence: Fence) -> Proc[list[Item]]:
        """Changes items by as few transactions as that takes; all of them if one was changed meanwhile."""
        updates = [(item, update) for item in items if (update := self.update(item)) is not None]
        if not updates:
            return []
        (reply,) = yield [fence.writes(({"Update": update}, item_bytes(item)) for item, update in updates)]
        if isinstance(reply, ConditionError):
            return [item for item, _ in updates]
        if isinstance(reply, Exception):
            raise reply
        return []

    def _rewritten(self, items: Sequence[Item], fence: Fence | None) -> Proc[list[Item]]:
        """Changes items; those that somebody has changed meanwhile, as they are now."""
        wanted = [(item, update) for item in items if (update := self.update(item)) is not None]
        late: list[Item] = []
        for first in range(0, len(wanted), AT_ONCE):
            some = wanted[first : first + AT_ONCE]
            replies = yield [
                Request("UpdateItem", update) if fence is None else fence.writes([({"Update": update}, 0)])
                for _, update in some
            ]
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
        """The request that gives an item its keys and its end; None if it has them."""
        place = self._place(item)
        if place is None:
            return None
        entry = self._entries[id(place)](item)
        keys: dict[str, dict[str, Any]] = {}
        if place.expires and (end := _end(entry)) is not None:
            keys[TTL] = end
        for index in place.indexes:
            keys |= index.compose(entry) or {}
        strips = self._strips.get((place.partition.prefix, place.sort.prefix), frozenset())
        foreign = [
            name for name in item if (name == TTL or name in strips or _KEYS.fullmatch(name)) and name not in keys
        ]
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
        ends = [EXPIRES] if place.expires else []
        for path in sorted({*ends, *(path for index in place.indexes for path in index.paths)}):
            name = place.slots[path].attribute
            if name in item:
                yield f"{use.name(name)} = {use.value(item[name])}"
            else:
                yield f"attribute_not_exists({use.name(name)})"

    def _place(self, item: Item) -> Place | None:
        """Whose entry an item is, by its keys."""
        if item[PK]["S"] == RECORD_TAG:
            return None
        found = [place for place in self._places if place.has(item)]
        return max(found, key=lambda place: len(place.partition.prefix) + len(place.sort.prefix), default=None)


def _keys(item: Item) -> dict[str, Any]:
    return {name: item[name] for name in (PK, SK)}


def _key(place: Place, item: Item) -> tuple[Any, ...]:
    return (*place.partition.decode(item[PK]["S"]), *place.sort.decode(item[SK]["S"]))


def _end(entry: dict[str, Any]) -> dict[str, Any] | None:
    moment = entry[EXPIRES]
    return None if moment is None else {"N": str(expiry_seconds(moment))}
