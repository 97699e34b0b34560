"""From changed rows to edits of every view that keyplan keeps: entries, copies, embeds, counters and guards.

A row change says what a row was and what it will be. For each place of its entity the entries before and after are
compared, and the difference becomes edits. Whatever was read to work them out is tested again by the engine in the
moment of the write: own columns by tests on the home's edit, copied values by checks on the homes they came from. So
one atomic request either sees the world as it was read, or is refused and worked out anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from keyplan.engines.rounds import Proc
from keyplan.errors import ConflictError
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from keyplan.plan.edits import Edit, Test
from keyplan.store.writing.alone import Alone
from keyplan.store.writing.changes import (
    Batch,
    RowChange,
    Source,
    Work,
    differing_columns,
    ghost_of,
    merged,
    note,
)
from keyplan.store.writing.computed import ComputedColumns, Derived
from keyplan.store.writing.dangling import dangling_edits, needs_target
from keyplan.store.writing.followers import Followers
from keyplan.store.writing.groups import Groups
from keyplan.store.writing.lagging import Lagging
from keyplan.store.writing.places import Place, Places
from keyplan.store.writing.rows import Key, Row, RowReader, World, by_roles
from keyplan.store.writing.subsets import Subsets


class Mutator(Followers):
    """Works out edits, for one design."""

    def __init__(self, model: Model, places: Places, reader: RowReader) -> None:
        super().__init__(model, places, reader)
        self.alone = Alone(places)
        self.computed = ComputedColumns(model, places, reader)
        self.subsets = Subsets(model, places, reader)
        self.groups = Groups(self)
        self.lagging = Lagging(model, places)
        self.extreme_names = self.groups.extreme_names

    # What a write has to read

    def is_blind(self, entity: str, sets: Set[str], adds: Set[str], told: Mapping[str, Any]) -> bool:
        """Whether these columns of a row can be changed without knowing the old row; some get values that the model
        tells."""
        changed = sets | adds
        given = {*sets, *self.model.entities[entity].key}
        if self.computed.feeds(entity, changed):
            return False
        for place in self.places.of[entity]:
            if any(key.needs_row(changed, given, told) for key in place.composed):
                return False
            if not place.own & changed:
                continue
            if place.measures or place.key_copies or place.deciding & changed or self.moving(place):
                return False
            if place.limit is not None:
                return False  # what comes into a subset is worked out from whole rows
        return not any(watch.columns & changed for watch in self.places.watches[entity])

    def is_blind_removal(self, entity: str) -> bool:
        """Whether rows can be deleted by their key alone."""
        if self.places.watches[entity] or self.places.feeds[entity]:
            return False
        return all(
            place.dangling or not (place.measures or place.key_copies or place.limit or self.moving(place))
            for place in self.places.of[entity]
        )

    def is_blind_replacement(self, entity: str) -> bool:
        """Whether rows can be put without knowing what they replace: every key is made of what cannot change."""
        if self.places.watches[entity] or self.places.feeds[entity] or self.places.kept[entity]:
            return False
        columns = self.model.entities[entity].columns
        return all(
            not place.measures
            and not place.view.unique
            and (place.dangling or not place.key_copies)
            and all(columns[column].immutable for column in self.moving(place))
            for place in self.places.of[entity]
        )

    def moving(self, place: Place) -> set[str]:
        """Own columns that decide under which keys a row stands, its own key left out."""
        decides = {path for part in place.key.parts for path in part.paths}
        decides |= {str(path) for condition in place.view.where for path in (condition.path, *condition.also)}
        entity = self.model.entities[place.entity]
        return {path for path in decides if path in entity.columns and path not in entity.key}

    # Edits

    def batch(
        self,
        changes: list[RowChange],
        now: datetime,
        done: Iterable[RowChange] = (),
        *,
        followers: bool = True,
        seen: Mapping[tuple[str, Key], Row | None] = MappingProxyType({}),
        past: Iterable[Source] = (),
    ) -> Proc[Batch]:
        """The edits for some row changes, all to be done together; `done` were changed before, and are copied from.

        Without `followers`, entries that repeat values of these rows are left for later. Rows that were `seen` a moment
        ago are not read again: what is copied of them is tested by the write. Rows that are placed anew may stand under
        what rows were before they were `done`, or in the `past`.
        """
        done, past = list(done), list(past)
        alone = self.alone.edits(changes, now) if not done and not past else None
        if alone is not None:
            edits = self.merged(alone, changes)
            return Batch(
                edits, list(changes), {edit.row: number for number, edit in enumerate(edits) if edit.returning}
            )
        world = World(self.model, self.reader, now, dict(seen))
        for entity, key, row in (*past, *((one.entity, one.key, None if one.ghost else one.old) for one in done)):
            world.past.setdefault((entity, key), []).append(row)
        for change in (*done, *changes):
            if change.blind and change.new is not None and change.new is change.old:
                continue  # only the key of this row is known, and nothing that others copy of it changes
            if change.late and (change.entity, change.key) in world.changed:
                continue  # it has come to copy from itself, or from another of those that were changed before
            note(world, change)
        changes = list(changes)
        if followers:
            changes += yield from self.followers(world, changes, first=True)
        derived = yield from self.derived(changes, now)
        changes += [*derived.changes, *derived.ghosts]
        changes += yield from self.following(world, changes, followers=followers)
        yield from world.fetch(
            (change.entity, row, roles, new)
            for change in changes
            for row, new in ((change.old, False), (change.new, True))
            if row is not None
            for place in self.places.of[change.entity]
            if self.copies_needed(place, change) and (new or not (place.measures or place.dangling))
            for roles, _ in by_roles(place.copies)
        )
        yield from self.lagging.remember(world, changes)
        yield from world.fetch_past(
            (change.entity, row, place.copies)
            for change in changes
            if change.anew
            for row in (change.new, change.was)
            if row is not None
            for place in self.places.of[change.entity]
            if place.lags
        )
        work = Work(world, list(derived.checks), unchecked=list(derived.unchecked))
        work.ghosts |= dict(map(ghost_of, (one for one in changes if one.ghost or one.before is not None)))
        for number, change in enumerate(changes):
            if not change.ghost:
                self.edit_row(work, number, change)
                self.lagging.check_behind(work, number, change)
        yield from self.groups.turn_over(work)
        yield from self.subsets.refill(work)
        edits = self.merged(work.edits, changes)
        edits = yield from self.groups.extended(edits)
        unchecked = list(dict.fromkeys(work.unchecked))
        lagging = list(work.lagging)
        return Batch(
            edits,
            changes,
            _homes(edits),
            derived.doubtful,
            work.sources,
            unchecked,
            work.ghosts,
            lagging,
            work.leaving,
            frozenset(world.used),
        )

    def merged(self, edits: list[Edit], changes: Sequence[RowChange]) -> list[Edit]:
        """At most one edit per entry."""
        if len(edits) == 1:
            return edits
        try:
            return merged(edits, self.extreme_names, changes)
        except ConflictError as error:
            raise type(error)(f"{changes[0].label}: {error}") from None

    def derived(self, changes: list[RowChange], now: datetime) -> Proc[Derived]:
        """What follows for computed columns that homes hold."""
        touched = (self.places.kept[change.entity] or self.places.feeds[change.entity] for change in changes)
        if not any(touched):
            return Derived()
        return (yield from self.computed.derive(changes, now, changes[0].label))

    def copies_needed(self, place: Place, change: RowChange) -> bool:
        """Whether the values behind references have to be known to work out this place's edits."""
        if not place.copies:
            return False
        if place.dangling:
            return needs_target(place, change)
        if place.measures:
            return change.new is not None and self.is_counted_anew(change)
        if change.old is None or change.follows or (change.recopied and change.new is not None):
            return True
        if change.new is None or place.key_copies:
            return place.key_copies
        differing = differing_columns(change)
        copies = {str(path) for path in place.copies}
        if any(key.paths & differing and key.paths & copies for key in place.composed):
            return True  # a key that the engine keeps is composed anew, copies included
        return bool(place.deciding & differing)

    def is_counted_anew(self, change: RowChange) -> bool:
        """Whether what a row counts under is looked up behind its references; otherwise it stays as its home says."""
        if change.old is None or change.follows or change.recopied:
            return True
        return bool(self.places.marked_by[change.entity] & differing_columns(change))

    def edit_row(self, work: Work, number: int, change: RowChange) -> None:
        """The edits of one row change."""
        places = self.places.of[change.entity]
        if change.anew and change.new is None:
            self.lagging.clear_away(work, number, change)
            return
        differing = differing_columns(change)
        start = len(work.edits)
        touched = [
            place
            for place in places
            if change.old is None
            or change.new is None
            or (change.follows and place.copies)
            or change.fresh is not None
            or place.own & differing
            or (change.recopied and place.copies)
        ]
        tests: dict[str, Any] = {}
        if not change.blind and change.old is not None:
            # Of rows that only follow, nothing but what counts is decided by their own columns.
            deciding = [place for place in touched if place.measures and place.copies] if change.follows else touched
            tests = self.tests_for(change, deciding)
        for place in touched:
            if place.measures:
                self.groups.edit_groups(work, number, change, place)
            elif place.dangling:
                for edit in dangling_edits(self.places, work, number, change, place):
                    work.edits.append(self.guarded(edit, change, place, tests, work.world.now))
            elif change.anew and place.lags:
                for edit in self.lagging.placed_anew(work, number, change, place):
                    work.edits.append(self.guarded(edit, change, place, tests, work.world.now))
            else:
                self.edit_entries(work, number, change, place, tests)
        if change.follows:
            self.ensure_unchanged(work, number, change, touched, start)
        else:
            if change.old is not None and not change.blind:
                tests = {**tests, **self.tests_of_whole(work, change, start)}
                self.test_home(work, change, tests, start)
            self.ensure_home(work, number, change, tests, start)

    def tests_for(self, change: RowChange, touched: list[Place]) -> dict[str, Any]:
        """The own columns, with their old values, that decided what is edited."""
        assert change.old is not None
        decided = {column for place in touched for column in place.deciding}
        entity, differing = self.model.entities[change.entity], differing_columns(change)
        for place in touched:
            if place.composing & differing:  # a key that the engine keeps is composed of these as well
                decided |= {path for path in place.composing if path in entity.columns and path not in entity.key}
        if any(place.measures and place.copies for place in touched):
            decided |= set(self.places.marks[change.entity])
        if not change.follows:
            # Entries that repeat a value are found by what it was.
            home = self.places.home(change.entity)
            watched = {column for watch in self.places.watches[change.entity] for column in watch.columns & differing}
            decided |= watched.intersection(home.holds).difference(entity.key)
            # What a parent's computed values lose is what this row was, and whose it was.
            for kept in self.places.feeds[change.entity]:
                columns = {*kept.columns, *((kept.term,) if kept.term else ())}
                if change.new is None or columns & differing:
                    decided |= columns.intersection(home.holds).difference(entity.key)
        return {column: change.old[column] for column in sorted(decided)}

    def edit_entries(self, work: Work, number: int, change: RowChange, place: Place, tests: Mapping[str, Any]) -> None:
        needed = self.copies_needed(place, change)
        old = self.row_for(work, place, change, False, needed)
        new = self.row_for(work, place, change, True, needed)
        before = place.keys(old) if old is not None else []
        after = place.keys(new) if new is not None else []
        if place.lags and not before and change.old is not None and not change.late:
            self.lagging.note(work, change, place)
        edits: list[Edit] = []
        for key in before:
            if key not in after:
                edits.append(Edit(place.view.name, "delete", key, place.at, row=number))
        entry = place.entry(new) if new is not None else {}
        again = self.touched(work, place, change) if needed else ()
        # By another row the entry has the same key: it has to stand there already, since nobody else would find it.
        found = place.lags and not change.late and any(path in place.key_paths for path in again)
        for key in after:
            if key not in before:
                edits.append(Edit(place.view.name, "put", key, place.at, entry, row=number))
                continue
            if found:
                edits.append(Edit(place.view.name, "put", key, place.at, entry, expect="present", row=number))
                continue
            assert old is not None
            assert new is not None
            patch = self.patch(change, place, old, new, entry, again)
            if patch is not None:
                edits.append(replace(patch, key=key, row=number))
        # A row that has no entry here may be about to get one: what decided that is checked as well.
        if not edits and not (needed and place.key_copies and not change.follows):
            return
        if needed:
            patched = change.follows and not place.lasting and all(edit.do == "patch" for edit in edits)
            for side, row in ((False, change.old), (True, change.new)):
                if row is not None and (side or (place.key_copies and not patched)):
                    copies = again if patched else place.copies
                    # An entry that is taken away has to be there. Where none was, one may have come with a ghost.
                    ghosts = side or not (before and place.lags)
                    work.check_sources(self.places, copies, change.entity, row, side, number, ghosts=ghosts)
        for edit in edits:
            work.edits.append(self.guarded(edit, change, place, tests, work.world.now))

    def touched(self, work: Work, place: Place, change: RowChange) -> tuple[Path, ...]:
        """The copies that come from elsewhere from now on, or are others: these are written whatever an entry holds.

        What it holds was not read, but for its key. Usually it is what the row behind says; but if that has changed
        just now, whoever did it may have this entry yet to do.
        """
        if change.old is None or change.new is None:
            return place.copies
        return work.world.touched(change.entity, change.old, change.new, place.copies)

    def row_for(self, work: Work, place: Place, change: RowChange, new: bool, needed: bool) -> Row | None:
        row = change.new if new else change.old
        if row is None:
            return None
        if needed and (new or not place.measures):
            row = work.world.full(change.entity, row, place.copies, new)
        marks = self.places.marks[change.entity] if place.home or place.measures else ()
        if marks and change.old is not None and not change.blind:
            anew = {str(path) for path in self.touched(work, place, change)} if new and needed else set()
            row = {**row, **{path: change.old[path] for path in marks if path not in anew}}
        return row

    def patch(
        self, change: RowChange, place: Place, old: Row, new: Row, entry: Row, again: Iterable[Path]
    ) -> Edit | None:
        """The edit of an entry that stays where it is."""
        if change.blind:
            values = {path: value for path, value in change.sets.items() if path in place.holds}
            adds = {path: value for path, value in change.adds.items() if path in place.holds}
        else:
            anyway = {*place.lasting, *map(str, again)}.difference(place.keyed)
            values = {path: value for path, value in entry.items() if old.get(path) != value or path in anyway}
            # A sum that nothing else depends on is left to the engine, so that concurrent ones do not collide.
            adds = {path: value for path, value in change.adds.items() if path in values and self.is_free(change, path)}
            values = {path: value for path, value in values.items() if path not in adds}
        fresh = place.entry(change.fresh) if change.fresh is not None else None
        if not values and not adds and fresh is None:
            return None
        whole = {**entry, **values} if place.composing & (values.keys() | adds.keys()) else None
        return Edit(place.view.name, "patch", (), place.at, values, adds, whole, fresh=fresh)

    def is_free(self, change: RowChange, column: str) -> bool:
        """Whether no key, copy or measure depends on a column, and no entry that holds it moves."""
        if any(watch.columns & {column} for watch in self.places.watches[change.entity]):
            return False
        differing = differing_columns(change)
        for place in self.places.of[change.entity]:
            if column in place.deciding or column in place.composing:
                return False
            if column in place.holds and place.deciding & differing:
                return False
        return True

    def guarded(self, edit: Edit, change: RowChange, place: Place, tests: Mapping[str, Any], now: datetime) -> Edit:
        """The edit with the conditions under which it is right."""
        if change.follows:
            entity = self.model.entities[change.entity]
            composing = place.composing if edit.do == "patch" and edit.entry is not None else frozenset[str]()
            # A key that the engine keeps is composed of these as well: they may be others by now.
            beside = {column for column in composing if column in entity.columns and column not in entity.key}
            if place.home and tests:
                assert change.old is not None
                wanted = {**tests, **{column: change.old[column] for column in sorted(beside)}}
                own = tuple(Test(column, "=", value) for column, value in wanted.items())
                return replace(edit, expect="present", tests=own)
            if edit.do == "put" or place.limit is not None or (change.late and edit.do == "delete"):
                return edit
            assert change.old is not None
            used = {column for path in place.copies for column in entity.roles[path.roles[0]].columns} | beside
            held = tuple(Test(column, "=", change.old[column]) for column in sorted(used) if column in place.holds)
            return replace(edit, expect="present", tests=held)
        if place.view.unique and not place.home and not place.exact:
            if edit.do == "put":
                return replace(edit, expect="absent", alive_at=now)
            owner = tuple(
                Test(column, "=", value)
                for column, value in zip(self.model.entities[change.entity].key, change.key, strict=True)
                if column in place.holds
            )
            return replace(edit, tests=owner, expect="present") if edit.do == "delete" else edit
        if place is self.places.exact(change.entity) and change.expect == "absent" and edit.do == "put":
            edit = replace(edit, expect="absent", alive_at=now)
        if not place.home:
            return replace(edit, expect="present") if edit.do == "delete" and place.lags else edit
        own = tuple(Test(column, "=", value) for column, value in tests.items())
        if edit.do == "put":
            return replace(edit, returning=change.returning, expect=edit.expect)
        return replace(
            edit,
            expect=change.expect,
            tests=(*own, *change.tests),
            alive_at=now if change.expect != "any" or edit.fresh is not None else None,
            returning=change.returning and (edit.do == "patch" or change.new is None),
        )

    def ensure_unchanged(self, work: Work, number: int, change: RowChange, touched: list[Place], start: int) -> None:
        """For a row that only follows: tests of its home for all that its entries were worked out from."""
        assert change.old is not None
        mine = work.edits[start:]
        tests: dict[str, Any] = {}
        if any(edit.do != "check" and not edit.tests for edit in mine):
            tests = self.tests_for(change, touched)
        tests |= self.tests_of_whole(work, change, start)
        self.test_home(work, change, tests, start)
        if tests:
            self.ensure_home(work, number, change, tests, start)

    def tests_of_whole(self, work: Work, change: RowChange, start: int) -> dict[str, Any]:
        """The columns, with their old values, that entries which are put somewhere else hold of the row."""
        assert change.old is not None
        own = self.model.entities[change.entity]
        known = {*own.stored, *(kept.column for kept in self.places.kept[change.entity])}.difference(own.key)
        wholes = [edit.values for edit in work.edits[start:] if edit.do == "put"]
        held = {path for values in wholes for path in values if path in known}
        return {path: change.old[path] for path in sorted(held)}

    def test_home(self, work: Work, change: RowChange, tests: Mapping[str, Any], start: int) -> None:
        """Adds tests to what is done to the row's home."""
        home = self.places.home(change.entity)
        for place, edit in enumerate(work.edits[start:], start):
            if (edit.view, edit.at) == (home.view.name, home.at) and edit.do in ("patch", "delete") and tests:
                known = {test.path for test in edit.tests}
                more = (Test(column, "=", value) for column, value in tests.items() if column not in known)
                work.edits[place] = replace(edit, expect="present", tests=(*edit.tests, *more))

    def ensure_home(self, work: Work, number: int, change: RowChange, tests: Mapping[str, Any], start: int) -> None:
        """A check on the home, where what was read of it decided something but the home itself is not edited."""
        home = self.places.home(change.entity)
        mine = work.edits[start:]
        at_home = [edit for edit in mine if (edit.view, edit.at) == (home.view.name, home.at)]
        if at_home or not (mine or change.tests) or change.old is None:
            return
        key = home.keys(change.old)
        conditions = (*(Test(column, "=", value) for column, value in tests.items()), *change.tests)
        work.edits.append(
            Edit(
                home.view.name,
                "check",
                key[0],
                home.at,
                expect="present",
                tests=conditions,
                alive_at=work.world.now,
                row=number,
            )
        )


def _homes(edits: Iterable[Edit]) -> dict[int, int]:
    """Number of the change to the number of the edit that returns its row."""
    return {edit.row: number for number, edit in enumerate(edits) if edit.returning}
