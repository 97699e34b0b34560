"""Followers: the rows that copy something of rows which change, found by their references to these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from keyplan.engines.rounds import Proc
from keyplan.model.model import Model
from keyplan.store.pump import gather
from keyplan.store.writing.changes import RowChange, differing_columns, note, uncover
from keyplan.store.writing.places import Places, Watch
from keyplan.store.writing.rows import Key, Row, RowReader, World


class Followers:
    """Finds them, for one design."""

    def __init__(self, model: Model, places: Places, reader: RowReader) -> None:
        self.model = model
        self.places = places
        self.reader = reader

    def following(self, world: World, changes: list[RowChange], *, followers: bool) -> Proc[list[RowChange]]:
        """Rows that copy something computed which changes along; the world is told what these values will be."""
        sources = []
        for change in changes:
            copied = self.places.copied[change.entity]
            if not copied or change.follows or change.blind:
                continue
            note(world, change)
            # Of a row that comes, its followers had what was computed for its key before.
            old, new = change.before if change.old is None else change.old, change.new
            if old is not None and new is not None and any(old[one.column] != new[one.column] for one in copied):
                sources.append(change)
        if not followers:
            for change in changes:
                change.recopied = change.recopied or self.copies_itself(change)
            return []
        return (yield from self.followers(world, sources, among=changes)) if sources else []

    def copies_itself(self, change: RowChange) -> bool:
        """Whether a row that others are left to follow later is one of them, by a reference to itself."""
        if change.follows or change.blind or change.ghost or change.old is None or change.new is None:
            return False
        differing, roles = differing_columns(change), self.model.entities[change.entity].roles
        return any(
            watch.entity == change.entity
            and len(watch.roles) == 1
            and bool(watch.columns & differing)
            and tuple(change.new.get(column) for column in roles[watch.roles[0]].columns) == change.key
            for watch in self.places.watches[change.entity]
        )

    def followers(
        self,
        world: World,
        changes: list[RowChange],
        *,
        first: bool = False,
        done: Sequence[RowChange] = (),
        among: Sequence[RowChange] = (),
    ) -> Proc[list[RowChange]]:
        """Rows that copy something which changes; at `first`, those that the same write has just found are known.

        Those that are `done` were found before, and those `among` which these are change anyway. The ones at the end of
        long chains come first: as long as the rows that they are found by are noted to point at nothing, this can be
        cut off and done again.
        """
        found: list[RowChange] = []
        known = {(change.entity, change.key): change for change in among or changes}
        sources: dict[str, list[tuple[RowChange, set[str]]]] = {}
        for change in changes:
            if not (change.is_new or change.blind or change.follows) and self.places.watches[change.entity]:
                sources.setdefault(change.entity, []).append((change, differing_columns(change)))
        for entity, some in sources.items():
            for watch in sorted(self.places.watches[entity], key=lambda one: -len(one.roles)):
                watched = [
                    change
                    for change, differing in some
                    if watch.columns & differing
                    and not (first and len(watch.roles) == 1 and (watch.entity, watch.roles[0]) in change.covered)
                ]
                rows = (yield from self.watching(watch, watched, world, done)) if watched else {}
                for key, row in rows.items():
                    name = (watch.entity, key)
                    if name not in world.changed and not (name in known and known[name].blind):
                        world.changed[name] = (row, row)
                        known[name] = RowChange(*name, row, row, watched[0].label, follows=True)
                        found.append(known[name])
                    if name in known:
                        self.recopy(world, known[name], row)
                        known[name].by.add(watch.roles)
        return found

    def latecomers(
        self, sources: Sequence[RowChange], now: datetime, batch: Sequence[RowChange] = (), *, written: bool = True
    ) -> Proc[list[RowChange]]:
        """The rows that copy from changed ones by now, but for those whose copies were worked out along with these, in
        a batch that was written or is about to be.

        A row of the same write may have come to point at another one of it meanwhile, or at itself.
        """
        found = yield from self.followers(World(self.model, self.reader, now), list(sources), done=batch)
        mine = {(one.entity, one.key): one for one in batch if not one.ghost}
        return [
            replace(one, late=True)
            for one in found
            if not ((change := mine.get((one.entity, one.key))) and self.is_worked_out(change, one, written))
        ]

    def is_worked_out(self, change: RowChange, found: RowChange, written: bool) -> bool:
        """Whether a change has all that follows from the references by which its row was found again."""
        if change.old is None or change.new is None:
            return True
        assert found.old is not None
        roles = self.model.entities[change.entity].roles
        seen = change.new if written else change.old
        if any(found.old.get(column) != seen.get(column) for way in found.by for column in roles[way[0]].columns):
            return False
        set_here = differing_columns(change)
        return all(way in change.by or set_here.intersection(roles[way[0]].columns) for way in found.by)

    def watching(
        self, watch: Watch, changes: list[RowChange], world: World, done: Sequence[RowChange]
    ) -> Proc[dict[Key, Row]]:
        """The rows from which a chain of references leads to one of these."""
        found: dict[Key, Row] = {}
        new = [change.key for change in changes if change.old is None]
        keys = [change.key for change in changes if change.old is not None]
        for depth in reversed(range(len(watch.roles))):
            holder = self.model.entity_at(watch.entity, watch.roles[:depth])
            role = watch.roles[depth]
            lists = yield from gather(
                [
                    self.reader.pointing_at(holder, role, some, world.now, new=some is new)
                    for some in (keys, new)
                    if some
                ]
            )
            key = self.model.entities[holder].key
            found = {tuple(row[column] for column in key): row for some in lists for rows in some for row in rows}
            if depth and new:  # no longer noted to point at nothing, but others may have come to point at them
                columns = self.model.entities[holder].roles[role].columns
                found |= {
                    change.key: change.new
                    for change in done
                    if change.entity == holder
                    and change.new is not None
                    and tuple(change.new.get(column) for column in columns) in new
                }
            if not found:
                break
            keys, new = list(found), []
        return found

    def recopy(self, world: World, change: RowChange, row: Row) -> None:
        """Notes that a row which is changed anyway copies something else from now on."""
        if change.recopied or change.follows:
            return
        change.recopied = True
        if change.blind:  # what it copies has to be worked out, and for that the row is known now
            uncover(self.model, change, row)
            world.changed[change.entity, change.key] = (change.old, change.new)
