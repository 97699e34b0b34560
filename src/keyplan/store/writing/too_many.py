"""What is wrong with a write that changes more entries than the engine does at once, and what to do about it.

Several rows can be written one after the other. One row cannot: it has too many elements in a set, or too many words in
a text that is searched, each of which is an entry of its own.
"""

from __future__ import annotations

from keyplan.errors import UnsupportedError
from keyplan.store.reading.keys import KeyPart
from keyplan.store.writing.changes import Batch, RowChange
from keyplan.store.writing.places import Place, Places

WHAT = {"each": "element", "words": "word"}


def too_many(places: Places, alone: Batch, others: int, changed: int, most: int, label: str) -> UnsupportedError:
    """The error for rows that, `alone` and without what follows them, are too much for a request in which `others` go
    along; `changed` is the number of all entries that the write would change."""
    for number, change in enumerate(alone.changes):
        own = [edit for edit in alone.edits if edit.row == number]
        if len(own) + others <= most:
            continue
        several = [place for place in places.of[change.entity] if _spreads(place)]
        counts = {place.view.name: sum(edit.view == place.view.name for edit in own) for place in several}
        if any(counts.values()):
            room = most - others - (len(own) - sum(counts.values()))
            listed = " and ".join(_counted(place, many) for place in several if (many := counts[place.view.name]))
            return UnsupportedError(f"{label}: {_told(change, listed, room, most)}")
    return UnsupportedError(
        f"{label}: this write changes {changed} entries, and the engine does at most {most} together; "
        "write fewer rows at once"
    )


def _spreads(place: Place) -> list[KeyPart]:
    """What a row has several entries by in a place."""
    return [part for part in place.key.parts if part.cut in WHAT] if not place.at else []


def _counted(place: Place, many: int) -> str:
    """`150 words of 'body'`."""
    found = []
    for part in _spreads(place):
        listed = " and ".join(f"'{path}'" for path in (part.path, *part.also))
        found.append(f"{WHAT[part.cut or '']}{'s' if many > 1 else ''} of {listed}")
    return f"{many} {' and '.join(found)}"


def _told(change: RowChange, listed: str, room: int, most: int) -> str:
    at_once = f"and the engine changes at most {most} entries together"
    if change.old is None:
        return f"the row has entries for {listed}, {at_once}; leave at most {max(0, room)} of these"
    if change.new is None:
        return (
            f"the row has entries for {listed}, {at_once}; take some of these out first, at most {max(0, room)} by "
            "one update"
        )
    return f"entries for {listed} change, {at_once}; change at most {max(0, room)} of these by one update"
