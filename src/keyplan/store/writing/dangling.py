"""Entries of rows that point at nothing (see `plan/dangling.py`): they come and go with another row's presence.

Whether a row has such an entry is known of its target alone, which is read and checked wherever the row comes to point
at it. Where a row goes, or points elsewhere, its target is not asked: the entry that it may have had stays behind then,
and finds no row. Of rows that do point at nothing, none is ever left out.
"""

from __future__ import annotations

from keyplan.plan.edits import Edit
from keyplan.store.reading.expiry import is_gone
from keyplan.store.writing.changes import RowChange, Work, differing_columns
from keyplan.store.writing.places import Place, Places
from keyplan.store.writing.rows import Key, Row, World


def needs_target(place: Place, change: RowChange) -> bool:
    """Whether the target has to be looked at: where the row comes to point at it, or its entry changes.

    A target that changes in the same call is known, and no other one matters to a row that follows.
    """
    if change.new is None or change.follows:
        return False
    return change.old is None or bool(place.own & differing_columns(change))


def dangling_edits(places: Places, work: Work, number: int, change: RowChange, place: Place) -> list[Edit]:
    """What a row change does to the row's entry, and the check that its target is what it was seen to be."""
    world = work.world
    asked = needs_target(place, change)
    before = _missing(world, place, change.old, new=False, asked=False)
    after = _missing(world, place, change.new, new=True, asked=asked)
    same = _target(place, change.old) == _target(place, change.new)
    if same and before is None:
        before = after  # nobody but its target, or whoever points it elsewhere, moves it in or out
    if same and after is None:
        return []
    if asked and change.new is not None:
        work.check_sources(places, place.copies, change.entity, change.new, True, number)
    old = place.key.of(change.old) if change.old is not None and before else []
    new = place.key.of(change.new) if change.new is not None and after else []
    edits = [Edit(place.view.name, "delete", key, place.at, row=number) for key in old if key not in new]
    if change.new is not None and new:
        entry = place.entry(change.new)
        stays = before and change.old is not None and entry == place.entry(change.old)
        edits += [
            Edit(place.view.name, "put", key, place.at, entry, row=number) for key in new if not (stays and key in old)
        ]
    return edits


def _target(place: Place, row: Row | None) -> Key | None:
    assert place.dangling is not None
    return None if row is None else tuple(row.get(column) for column in place.dangling.columns)


def _missing(world: World, place: Place, row: Row | None, *, new: bool, asked: bool) -> bool | None:
    """Whether the row that a row points at is not there; False if it points at none, None if it is not known."""
    assert place.dangling is not None
    key = _target(place, row)
    if key is None or None in key:
        return False
    found = (place.dangling.entity, key)
    pair = world.changed.get(found)
    if pair is not None and (asked or pair[0] is not pair[1]):
        there = pair[new]
        return there is None or is_gone(there, world.now)
    return world.seen[found] is None if asked else None
