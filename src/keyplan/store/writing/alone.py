"""Rows that stand alone: entries copy nothing, nobody copies from them, nothing is counted or computed of them.

Of a new one every entry is known as soon as the row is, without a look at any other row. Most rows of most designs are
of this kind, so that their creates are spared everything that is worked out for the others (`mutate.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from keyplan.plan.edits import Edit
from keyplan.store.writing.changes import RowChange
from keyplan.store.writing.places import Place, Places


class Alone:
    """Knows, for one design, the entities whose rows do, and the edits that their new rows are."""

    def __init__(self, places: Places) -> None:
        self._places = {
            entity: [(place, _is_guarded(places, place), place.view.unique and not place.exact) for place in some]
            for entity, some in places.of.items()
            if all(map(_is_simple, some))
            and not (places.watches[entity] or places.kept[entity] or places.feeds[entity])
        }

    def edits(self, changes: Sequence[RowChange], now: datetime) -> list[Edit] | None:
        """The edits of changes that are new rows which stand alone; None if anything else is among them."""
        edits: list[Edit] = []
        for number, change in enumerate(changes):
            places = self._places.get(change.entity)
            row = change.new
            if places is None or row is None or change.old is not None or _is_involved(change):
                return None
            for place, guarded, unique in places:
                absent = (guarded and change.expect == "absent") or (unique and not place.home)
                expect, alive_at = ("absent", now) if absent else ("any", None)
                entry = place.entry(row)
                for key in place.keys(row):
                    edits.append(
                        Edit(
                            place.view.name,
                            "put",
                            key,
                            place.at,
                            entry,
                            expect=expect,
                            alive_at=alive_at,
                            returning=change.returning and place.home,
                            row=number,
                        )
                    )
        return edits


def _is_simple(place: Place) -> bool:
    return not (place.copies or place.measures or place.dangling or place.limit is not None)


def _is_guarded(places: Places, place: Place) -> bool:
    """Whether an entry there refuses a row that exists already."""
    return place is places.exact(place.entity)


def _is_involved(change: RowChange) -> bool:
    """Whether it is more than a row that somebody writes."""
    return bool(
        change.follows
        or change.recopied
        or change.derived
        or change.ghost
        or change.late
        or change.anew
        or change.fresh
        or change.before
    )
