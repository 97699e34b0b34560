"""Entries that lag: where a key is made of copied values, an entry stands under what another row said before, until
whoever changed that row has moved it.

Whoever takes such an entry away has to find it, or to know that nobody has it yet to move. A row that is brought up to
date later is placed anew, from under whatever the rows behind it may have been (see `chunks.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from keyplan.engines.rounds import Proc
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from keyplan.plan.edits import Edit
from keyplan.store.writing.changes import Batch, Name, RowChange, Work, differing_columns
from keyplan.store.writing.places import Place, Places
from keyplan.store.writing.rows import Key, Row, World


class Lagging:
    """Works out where entries may stand, for one design."""

    def __init__(self, model: Model, places: Places) -> None:
        self.model = model
        self.places = places
        self.remembers = False
        """Whether what follows a write later goes by an intent, which has to say what rows pointed at before."""

    def note(self, work: Work, change: RowChange, place: Place) -> None:
        """Notes the rows by which a row that goes, or is pointed elsewhere, or follows, has no entry at a place."""
        old, new = change.old, change.new
        assert old is not None
        if new is None or work.world.touched(change.entity, old, new, place.key_paths):
            for found in self.behind_key(work, place, change.entity, old, new=False):
                work.lagging[found] = None

    def behind_key(self, work: Work, place: Place, entity: str, row: Row, *, new: bool) -> Iterator[Name]:
        """The rows that decide on the key of a row's entries at a place."""
        for path in place.key_paths:
            for depth in range(1, len(path.roles) + 1):
                found = work.world.behind(entity, row, path.roles[:depth], new)
                if found is not None:
                    yield found

    def placed_anew(self, work: Work, number: int, change: RowChange, place: Place) -> list[Edit]:
        """The edits that take the entries of a row from wherever they may stand, and put them where they belong."""
        row = change.new
        assert row is not None
        world = work.world
        new = world.full(change.entity, row, place.copies, True)
        after = place.keys(new)
        edits = [
            Edit(place.view.name, "delete", key, place.at, row=number)
            for key in self.stood(work, place, change)
            if key not in after
        ]
        edits += [Edit(place.view.name, "put", key, place.at, place.entry(new), row=number) for key in after]
        # Where it has no entry, one may stand by what somebody has just changed.
        work.lagging |= dict.fromkeys(self.behind_key(work, place, change.entity, row, new=True))
        work.check_sources(self.places, place.copies, change.entity, row, True, number)
        return edits

    def clear_away(self, work: Work, number: int, change: RowChange) -> None:
        """Takes away what may be left of a row that is not there any more."""
        for place in self.places.of[change.entity]:
            for key in self.stood(work, place, change) if place.lags else ():
                work.edits.append(Edit(place.view.name, "delete", key, place.at, row=number))
        work.check_absence(self.places, change.entity, change.key, number)

    def stood(self, work: Work, place: Place, change: RowChange) -> list[Key]:
        """Wherever entries of a row may stand."""
        rows = [row for row in (change.new, change.was) if row is not None]
        variants = (one for row in rows for one in work.world.variants(change.entity, row, place.copies))
        return list(dict.fromkeys(key for one in variants for key in place.keys(one)))

    # Edits that were refused because an entry lags

    def concerns(self, batch: Batch, edit: Edit) -> bool:
        """Whether an edit concerns an entry that somebody else may have to move there first."""
        places = self.places.of[batch.changes[edit.row].entity]
        return any((place.view.name, place.at) == (edit.view, edit.at) and place.lags for place in places)

    def without_waiting(self, batch: Batch, edits: Sequence[Edit]) -> list[Edit]:
        """The edits for entries that nobody seems to move any more: they need not be there. `verify` finds them."""
        return [
            replace(edit, expect="any", tests=())
            if edit.do in ("delete", "put") and self.concerns(batch, edit)
            else edit
            for edit in edits
        ]

    # What stood behind references that change

    def remember(self, world: World, changes: Sequence[RowChange]) -> Proc[None]:
        """Notes which rows stood behind references that change, where entries of others lag by what these were: once
        it points elsewhere, nobody finds the way back."""
        if not self.remembers:
            return
        pointed = [(change, paths) for change in changes if (paths := self.beyond(change))]
        yield from world.fetch(
            (change.entity, change.old, path.roles, False)
            for change, paths in pointed
            for path in paths
            if change.old is not None
        )
        for change, paths in pointed:
            assert change.old is not None
            found: dict[Name, None] = {}
            for path in paths:
                for depth in range(1, len(path.roles) + 1):
                    name = world.behind(change.entity, change.old, path.roles[:depth], False)
                    found |= {} if name is None else {name: None}
            change.behind = tuple((*name, world.row(name, False)) for name in found)

    def beyond(self, change: RowChange) -> list[Path]:
        """What entries of others copy into their keys by way of a reference that a row loses."""
        if change.follows or change.blind or change.ghost or change.old is None:
            return []
        differing, roles = differing_columns(change), self.model.entities[change.entity].roles
        return [
            path
            for path in self.places.beyond[change.entity]
            if change.new is None or differing.intersection(roles[path.roles[0]].columns)
        ]

    def check_behind(self, work: Work, number: int, change: RowChange) -> None:
        """Checks that these rows are what is remembered of them, and that no entry lags behind them."""
        if change.behind:
            assert change.old is not None
            work.check_sources(self.places, self.beyond(change), change.entity, change.old, False, number)
            work.lagging |= {(entity, key): None for entity, key, _ in change.behind}
