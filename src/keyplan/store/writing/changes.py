"""The nouns of a mutation: row changes, the edits worked out so far, and how edits of one entry become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from keyplan.errors import ConflictError, RangeError, quoted
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from keyplan.model.values import add
from keyplan.plan.edits import Edit, Test
from keyplan.plan.terms import plus
from keyplan.store.writing.places import Kept, Places
from keyplan.store.writing.rows import Key, Row, World, chains

Entry = tuple[str, tuple[str, ...], Key]
"""A view, a place in it, and a key there."""
Source = tuple[str, Key, Row | None]
"""A row of an entity, as it was when values were copied from it."""
Name = tuple[str, Key]
"""A row by its entity and key, whether it is there or not."""
Ghost = tuple[Row, Row]
"""What is computed for a row that is not there, before a write and after it."""


class ChangedMeanwhileError(ConflictError):
    """What was read for one write contradicts itself, because others wrote in between; to be worked out anew."""


@dataclass
class RowChange:
    """One row as it was and as it will be; None where there is no row."""

    entity: str
    key: Key
    old: Row | None
    new: Row | None
    label: str = ""
    blind: bool = False
    """The old row was not read: `old` holds the key alone, and only `sets` and `adds` are known to change."""
    sets: Mapping[str, Any] = field(default_factory=dict)
    adds: Mapping[str, Any] = field(default_factory=dict)
    fresh: Row | None = None
    """blind: the row, before what is added, that the engine makes where there is none."""
    tests: tuple[Test, ...] = ()
    """Conditions of the write itself, on the home's entry."""
    expect: str = "any"
    """Of the home: absent for what must be new, present for what was seen or is only changed, any for the rest."""
    is_new: bool = False
    """The key was generated for it, so nobody can point at it yet."""
    returning: bool = False
    follows: bool = False
    """The row itself stays as it is; values that it copies change."""
    recopied: bool = False
    """The row changes, and values that it copies change with it."""
    derived: bool = False
    """Nobody writes the row itself; a computed column of it changes with another row."""
    ghost: bool = False
    """There is no such row, neither before nor after: of what is computed for its key, something changes."""
    before: Row | None = None
    """Of a row that comes: what was computed for its key before, as far as others copy it."""
    covered: frozenset[tuple[str, str]] = frozenset()
    """Of a row that is deleted: whose references to it were followed already, to delete what they belong to."""
    by: set[tuple[str, ...]] = field(default_factory=set)
    """The references by which it was found to copy from a row that changes."""
    late: bool = False
    """It is brought up to date after the values that it copies were changed: it may have begun to copy them meanwhile,
    or have been brought up to date already."""
    anew: bool = False
    """Of one that is late: its entries are taken from under whatever its copied values may have been, and put where
    they belong, whether they are found or not."""
    was: Row | None = None
    """Of one that is placed anew: what it was, as far as that decides on keys, when it was written unchecked. Entries
    may be left from then, even if there is no such row any more."""
    behind: tuple[Source, ...] = ()
    """Rows that its old references led to, as they were then, where keys are made of what stands behind these."""
    intent: str = ""
    """What the intent says that it was read from."""


@dataclass
class Batch:
    """The edits of some row changes."""

    edits: list[Edit]
    changes: list[RowChange]
    homes: dict[int, int]
    """Number of the change to the number of the edit that returns its row."""
    doubtful: list[tuple[Kept, Key]] = field(default_factory=list)
    """Computed values that were found by reading the rows they are made of: to be looked at again afterwards."""
    sources: dict[Entry, Source] = field(default_factory=dict)
    """By the entry that is checked: the row that values are copied from."""
    unchecked: list[Name] = field(default_factory=list)
    """Rows that were not there, which the write cannot test, because nothing stands under their keys alone."""
    ghosts: dict[Name, Ghost] = field(default_factory=dict)
    """Rows that are not there, and what is computed for them all the same: copied, or changed, without a row that could
    be tested to be as it was read."""
    lagging: list[Name] = field(default_factory=list)
    """Rows behind references of rows that had no entry by what these say now, and are not to follow them any more. An
    entry may be left by what they said before, which whoever changed them would no longer find."""
    leaving: dict[Name, Ghost] = field(default_factory=dict)
    """Rows that go with this, of which what is computed is copied on. Where writes cannot go on, an intent stands for
    each, and looks again."""
    used: frozenset[Name] = frozenset()
    """Rows that were looked at to work out copied values."""


@dataclass
class Turnover:
    """What the rows of one call bring to a group and take from it."""

    number: int
    """Of the first change that does."""
    entity: str
    rows: set[Key] = field(default_factory=set)
    gained: list[dict[str, Any]] = field(default_factory=list)
    lost: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Work:
    """The edits made so far."""

    world: World
    edits: list[Edit] = field(default_factory=list)
    groups: dict[tuple[str, Key], Turnover] = field(default_factory=dict)
    """Per view and key of a group with minima or maxima: what comes to it and goes."""
    sources: dict[Entry, Source] = field(default_factory=dict)
    unchecked: list[Name] = field(default_factory=list)
    ghosts: dict[Name, Ghost] = field(default_factory=dict)
    lagging: dict[Name, None] = field(default_factory=dict)
    leaving: dict[Name, Ghost] = field(default_factory=dict)

    def check_sources(
        self,
        places: Places,
        copies: Iterable[Path],
        entity: str,
        row: Row,
        new: bool,
        number: int,
        *,
        ghosts: bool = True,
    ) -> None:
        """Checks that the rows which values were copied from are still as they were read; and `ghosts`, as far as that
        is left to be found out.

        What no write of the model changes needs none, once it is there; nor does what this write itself changes, which
        it tests where that matters.
        """
        world = self.world
        for roles, taken in chains(tuple(copies)):
            found = world.behind(entity, row, roles, new)
            if found is None:
                continue
            target, key = found
            steps = world.model.entities[target].roles
            groups: list[Sequence[str]] = [steps[name].columns if leads_on else (name,) for name, leads_on in taken]
            if found in world.changed:
                was, source = world.changed[found]
                if source is None and new and found in world.ghosts:
                    self.leaving[found] = world.ghosts[found]
                if was is None or source is None:
                    continue
                groups = [[column for column in group if was.get(column) == source.get(column)] for group in groups]
            else:
                source = world.seen[found]
            if source is not None:
                self.check_row(places, target, key, source, groups, number)
                continue
            if ghosts and found in world.ghosts:
                self.ghosts[found] = world.ghosts[found]
            self.check_absence(places, target, key, number)

    def check_absence(self, places: Places, target: str, key: Key, number: int) -> None:
        """Checks that there still is no such row."""
        exact = places.exact(target)
        if exact is None:
            self.unchecked.append((target, key))
            return
        named = dict(zip(self.world.model.entities[target].key, key, strict=True))
        at = exact.key.of(named)[0]
        self.sources[exact.view.name, exact.at, at] = (target, key, None)
        self.edits.append(
            Edit(exact.view.name, "check", at, exact.at, expect="absent", alive_at=self.world.now, row=number)
        )

    def check_row(
        self, places: Places, target: str, key: Key, source: Row, groups: Iterable[Sequence[str]], number: int
    ) -> None:
        """Checks that a row still has the values of these groups of columns, as far as any of a group may change."""
        changing = places.changing[target]
        columns = dict.fromkeys(column for group in groups if not changing.isdisjoint(group) for column in group)
        if not columns:
            return
        home = places.home(target)
        tests = tuple(
            Test(column, "=", source.get(column))
            for column in columns
            if column not in self.world.model.entities[target].key and column in home.holds
        )
        at = home.keys(source)[0]
        if (target, key) not in self.world.changed:
            self.sources[home.view.name, home.at, at] = (target, key, source)
        self.edits.append(Edit(home.view.name, "check", at, home.at, expect="present", tests=tests, row=number))


def uncover(model: Model, change: RowChange, row: Row) -> None:
    """A row that was to be changed without being read is known now."""
    change.blind, change.old = False, row
    if change.new is not None:
        columns = model.entities[change.entity].columns
        try:
            sums = {name: add(columns[name].type, row[name], by) for name, by in change.adds.items()}
        except OverflowError as error:
            raise RangeError(f"{change.label}: {error}; nothing was written") from None
        change.new = {**row, **change.sets, **sums}


def note(world: World, change: RowChange) -> None:
    """Has the world know of a change."""
    name = (change.entity, change.key)
    if not change.ghost:
        world.changed[name] = (change.old, change.new)
        if change.before is not None:
            world.ghosts[name] = (change.before, {})
        return
    assert change.old is not None
    assert change.new is not None
    world.seen[name] = None
    world.ghosts[name] = (change.old, change.new)


def ghost_of(change: RowChange) -> tuple[Name, Ghost]:
    """The row that is not there before a change, with what is computed for it."""
    before, after = (change.old if change.ghost else change.before), change.new
    assert before is not None
    assert after is not None
    return (change.entity, change.key), (before, after)


def differing_columns(change: RowChange) -> set[str]:
    """The columns whose values change."""
    if change.blind:
        return {*change.sets, *change.adds}
    old, new = change.old, change.new
    if old is None or new is None:
        return set(old or new or ())
    return {column for column, value in new.items() if old.get(column) != value} | (old.keys() - new.keys())


def merged(edits: list[Edit], extremes: Mapping[tuple[str, str], str], changes: Sequence[RowChange] = ()) -> list[Edit]:
    """At most one edit per entry, as engines want it, in the order of the rows: what one releases, a later one may
    take, but not the other way round. Nor may one take what another of these row changes keeps."""
    found: dict[tuple[str, tuple[str, ...], Key], Edit] = {}
    for edit in edits:
        place = (edit.view, edit.at, edit.key)
        before = found.get(place)
        if before is not None and (before.do, before.expect, edit.do) == ("put", "absent", "patch") and changes:
            one, other = changes[before.row], changes[edit.row]
            if (one.entity, one.key) != (other.entity, other.key):
                raise _taken(edit)
        found[place] = edit if before is None else _both(before, edit, extremes)
    return list(found.values())


def _taken(edit: Edit) -> ConflictError:
    values = quoted(", ".join(map(str, edit.key)))
    return ConflictError(f"two rows of one call have the same unique values, {values}; give each its own")


def _both(first: Edit, second: Edit, extremes: Mapping[tuple[str, str], str]) -> Edit:
    for one, other in ((first, second), (second, first)):
        if one.do == "check" and one.expect == "absent" and (other.expect == "present" or other.tests):
            raise ChangedMeanwhileError("others keep changing the same rows; try again")
    if second.do == "check":
        first, second = second, first
    if first.do == "check":
        tests = _each_once((*first.tests, *second.tests))
        expect = second.expect if second.expect != "any" else first.expect
        return replace(second, tests=tests, expect=expect, alive_at=second.alive_at or first.alive_at)
    if first.do == "put" and second.do in ("put", "delete"):
        raise _taken(first)
    if first.do == "delete" and second.do == "put":
        return replace(second, expect="present" if first.expect == "present" else "any", tests=first.tests)
    adds: dict[str, Any] = dict(first.adds)
    value: Any
    for name, value in second.adds.items():
        how = extremes.get((first.view, name))
        if name not in adds:
            adds[name] = value
        elif how is None:
            adds[name] = plus(adds[name], value)
        else:
            adds[name] = min(adds[name], value) if how == "min" else max(adds[name], value)
    values = {**first.values, **second.values}
    for name in [name for name in adds if name in values and (first.view, name) in extremes]:
        # Worked out anew from the rows that were there, and extended by one that comes: one value is left to be set.
        pick: Any = min if extremes[first.view, name] == "min" else max
        values[name] = pick([one for one in (values[name], adds.pop(name)) if one is not None])
    return replace(
        second,
        do="add" if first.do == second.do == "add" else second.do if second.do != "add" else first.do,
        values=values,
        adds=adds,
        tests=_each_once((*first.tests, *second.tests)),
    )


def _each_once(tests: Iterable[Test]) -> tuple[Test, ...]:
    """Without repetitions; the values of tests cannot all be hashed."""
    found: list[Test] = []
    for test in tests:
        if test not in found:
            found.append(test)
    return tuple(found)
