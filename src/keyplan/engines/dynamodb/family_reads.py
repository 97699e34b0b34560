"""Rows together with their children: the range of sort keys in which all of them lie, and rows from its items.

Where only the first children are wanted and these follow their parent, a Query brings as many and the parent, and no
more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyplan.engines.dynamodb.families import read_with
from keyplan.engines.dynamodb.keys import ABOVE
from keyplan.engines.dynamodb.layout import PK, SK, Item, Place
from keyplan.engines.rounds import Row
from keyplan.errors import UnsupportedError
from keyplan.model.model import Model
from keyplan.plan.children import first_along
from keyplan.plan.steps import Search


class FamilyRange:
    """Where a row and its children of some roles lie in their partition."""

    def __init__(self, model: Model, place: Place, search: Search) -> None:
        if search.at:
            raise UnsupportedError(f"view '{search.view}': dynamodb embeds rows one level deep")
        for role in search.along:
            if role not in place.children:
                raise UnsupportedError(f"view '{search.view}' does not embed '{role}'")
        parent = place.sort.prefix
        children = [place.children[role] for role in search.along]
        self.low = min([parent, *(child.sort.prefix for child in children)], key=str.encode)
        self.high = max([parent, *(child.sort.prefix + ABOVE for child in children)], key=str.encode)
        above = {role for role, child in place.children.items() if not child.backwards}
        self.begins = set(read_with(place.view, tuple(search.along))) == above
        """Whether it is all that begins with the parent's sort key."""
        self.backwards = all(child.backwards for child in children)
        """The parent comes first, and then its children in their order."""
        first = first_along(model, place.view, search.along)
        self.limit = None if first is None else first + 1
        """The items that are wanted, the parent's included; None: all."""

    def condition(self, place: Place, values: dict[str, Any]) -> str:
        """The condition on the sort key, with its values as they are stored."""
        if self.begins:
            values[":sk"] = {"S": self.low}
            return f"begins_with({place.sk}, :sk)"
        values |= {":low": {"S": self.low}, ":high": {"S": self.high}}
        return f"{place.sk} BETWEEN :low AND :high"


class Family:
    """Parents together with their embedded children, from the items of their partitions."""

    def __init__(self, model: Model, place: Place, search: Search) -> None:
        self.range = FamilyRange(model, place, search)
        self._parent_sk = place.sort.prefix
        self._parent = place.decoder(search.takes)
        self.expires = any(place.children[role].expires for role in search.along)
        """Children may be there that are out of date."""
        self._children = []
        for role in search.along:
            child = place.children[role]
            self._children.append((role, child.sort.prefix, child.decoder(tuple(child.slots)), child.backwards))

    def goes_on(self, items: Sequence[Item], most: int) -> bool:
        """Whether a Query goes on behind its first items. Children without a parent are nobody's, and more of them
        would change nothing."""
        return len(items) < most and (not items or items[0][SK]["S"] == self._parent_sk)

    def rows(self, items: Sequence[Item], *, backwards: bool) -> list[Row]:
        """The parents, each with its children in their order; children without a parent are left out."""
        families: dict[str, list[Item]] = {}
        for item in items:
            families.setdefault(item[PK]["S"], []).append(item)
        return [row for members in families.values() if (row := self._assembled(members, backwards)) is not None]

    def _assembled(self, members: Sequence[Item], backwards: bool) -> Row | None:
        parent = next((item for item in members if item[SK]["S"] == self._parent_sk), None)
        if parent is None:
            return None
        row = self._parent(parent)
        for role, prefix, decode, downwards in self._children:
            mine = [item for item in members if item[SK]["S"].startswith(prefix)]
            row[role] = [decode(item) for item in (mine if downwards == backwards else reversed(mine))]
        return row
