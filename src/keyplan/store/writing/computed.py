"""Computed columns that homes hold, because a key is made of them: they change with the rows that they are computed of.

A write of a child works out what it takes from its parent and gives to it, and changes the parent's row in the same
atomic request, tested to be as it was read: whoever is late works it out anew. What was read of many children to find
a value (a new parent's, or after the least or greatest has gone) is looked at once more afterwards, because a child may
have come meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keyplan.engines.rounds import Proc
from keyplan.errors import RangeError
from keyplan.model.model import Model
from keyplan.model.values import add
from keyplan.plan.edits import Edit, Test
from keyplan.plan.terms import minus, plus
from keyplan.store.pump import gather
from keyplan.store.writing.changes import Ghost, RowChange, uncover
from keyplan.store.writing.folding import folded, part_of, with_changes
from keyplan.store.writing.places import Kept, Places
from keyplan.store.writing.rows import Key, Row, RowReader

Children = dict[tuple[str, str, Key], list[Row]]
"""Rows by their entity, their role and the parent that it leads to."""


@dataclass
class Balance:
    """What the changes of one request take from a computed value, and give to it."""

    lost: list[Any] = field(default_factory=list)
    gained: list[Any] = field(default_factory=list)


@dataclass
class Derived:
    """What follows from row changes for the computed columns of other rows."""

    changes: list[RowChange] = field(default_factory=list)
    checks: list[Edit] = field(default_factory=list)
    doubtful: list[tuple[Kept, Key]] = field(default_factory=list)
    """Values that were found by reading children, and are looked at again afterwards."""
    unchecked: list[tuple[str, Key]] = field(default_factory=list)
    """Parents that were not there, which cannot be checked."""
    ghosts: list[RowChange] = field(default_factory=list)
    """Of parents that were not there: the values that others copy all the same, as they were and as they will be."""


class ComputedColumns:
    """Keeps the computed columns of one design true."""

    def __init__(self, model: Model, places: Places, reader: RowReader) -> None:
        self.model = model
        self.places = places
        self.reader = reader

    def feeds(self, entity: str, columns: Set[str]) -> bool:
        """Whether a change of these columns of a child may change a computed value."""
        return any(columns & {*kept.columns, kept.term} for kept in self.places.feeds[entity])

    def derive(self, changes: Sequence[RowChange], now: datetime, label: str) -> Proc[Derived]:
        """The values of computed columns after these changes: put into rows that change anyway, or further changes."""
        found = Derived()
        by_row = {(change.entity, change.key): change for change in changes}
        known = [change for change in changes if change.derived]  # their values were looked up just now, by `again`
        balances = self.balances(changes)
        for kept, key in balances:
            change = by_row.get((kept.entity, key))
            if change is not None and change.follows:  # it also copies from one of the rows that it is computed of
                change.follows, change.derived, change.recopied, change.expect = False, True, True, "present"
        unknown = [
            (kept.entity, key)
            for kept, key in balances
            if (kept.entity, key) not in by_row or by_row[kept.entity, key].blind
        ]
        parents = (yield from self.reader.by_key(unknown, now)) if unknown else {}
        for place, row in parents.items():
            change = by_row.get(place)
            if change is not None:
                if row is not None:
                    uncover(self.model, change, row)
            elif row is None:
                if self.places.exact(place[0]) is None:
                    found.unchecked.append(place)
                else:
                    found.checks.append(self.absent(place, now))
                if self.places.copied[place[0]]:
                    found.ghosts.append((yield from self.ghost(place, changes, now, label)))
            else:
                by_row[place] = RowChange(*place, row, dict(row), label, expect="present", derived=True)
                found.changes.append(by_row[place])
        unsettled = []
        for change in by_row.values():
            if change.new is None or change.blind or change.follows or any(change is one for one in known):
                continue
            for kept in self.places.kept[change.entity]:
                value = self.settled(change, kept, balances.get((kept, change.key)))
                if value is _UNKNOWN:
                    unsettled.append((change, kept))
                else:
                    change.new = {**change.new, kept.column: value}
        found.doubtful = [(kept, change.key) for change, kept in unsettled]
        children = (yield from self.children(found.doubtful, now)) if unsettled else {}
        for change, kept in unsettled:
            assert change.new is not None
            rows = children[kept.child, kept.role, change.key]
            value = in_range(kept, self.afterwards(kept, change.key, rows, changes), change.label)
            change.new = {**change.new, kept.column: value}
            if change.old is None and kept in self.places.copied[change.entity]:
                change.before = {**(change.before or {}), kept.column: folded(kept, rows)}
        return found

    def ghost(self, place: tuple[str, Key], changes: Sequence[RowChange], now: datetime, label: str) -> Proc[RowChange]:
        """What is computed for a row that is not there, all there is of it: before these changes, and after them."""
        entity, key = place
        wanted = [(kept, key) for kept in self.places.copied[entity]]
        children = yield from self.children(wanted, now)
        named = dict(zip(self.model.entities[entity].key, key, strict=True))
        old, new = dict(named), dict(named)
        for kept, _ in wanted:
            rows = children[kept.child, kept.role, key]
            old[kept.column] = folded(kept, rows)
            new[kept.column] = in_range(kept, self.afterwards(kept, key, rows, changes), label)
        return RowChange(entity, key, old, new, label, derived=True, ghost=True)

    def are_still(
        self, ghosts: Mapping[tuple[str, Key], Ghost], changes: Sequence[RowChange], now: datetime
    ) -> Proc[bool]:
        """Whether what is computed for rows that are not there is what was said, before these changes and after them;
        without changes, after what was done."""
        wanted = [(kept, name[1]) for name in ghosts for kept in self.places.copied[name[0]]]
        children = (yield from self.children(wanted, now)) if wanted else {}
        for kept, key in wanted:
            rows = children[kept.child, kept.role, key]
            before, after = ghosts[kept.entity, key]
            if changes and before[kept.column] != folded(kept, rows):
                return False
            if after[kept.column] != self.afterwards(kept, key, rows, changes):
                return False
        return True

    def balances(self, changes: Sequence[RowChange]) -> dict[tuple[Kept, Key], Balance]:
        """Per computed value of a row: what is taken and given."""
        found: dict[tuple[Kept, Key], Balance] = {}
        for change in changes:
            if change.follows or change.blind:
                continue
            for kept in self.places.feeds[change.entity]:
                before, after = part_of(kept, change.old), part_of(kept, change.new)
                if before == after:
                    continue
                if before is not None:
                    found.setdefault((kept, before[0]), Balance()).lost.append(before[1])
                if after is not None:
                    found.setdefault((kept, after[0]), Balance()).gained.append(after[1])
        return found

    def absent(self, place: tuple[str, Key], now: datetime) -> Edit:
        """A check that a parent which was not there is still not there."""
        entity, key = place
        exact = self.places.exact(entity)
        assert exact is not None
        named = dict(zip(self.model.entities[entity].key, key, strict=True))
        return Edit(exact.view.name, "check", exact.key.of(named)[0], exact.at, expect="absent", alive_at=now)

    def settled(self, change: RowChange, kept: Kept, balance: Balance | None) -> Any:
        """One computed value of a row that changes; unknown if all children have to be looked at."""
        if change.old is not None:
            before = change.old[kept.column]
            if balance is None:
                return before
            change.tests = (*change.tests, Test(kept.column, "=", before))
            return self.applied(kept, before, balance, change.label)
        if change.is_new:
            return self.applied(kept, folded(kept, ()), balance or Balance(), change.label)
        return _UNKNOWN

    def applied(self, kept: Kept, before: Any, balance: Balance, label: str) -> Any:
        """A value after what is taken from it and given to it; unknown if all children have to be looked at."""
        if kept.how == "count":
            return before + len(balance.gained) - len(balance.lost)
        gained = [value for value in balance.gained if value is not None]
        lost = [value for value in balance.lost if value is not None]
        if kept.how == "sum":
            total = before
            for value in gained:
                total = plus(total, value)
            for value in lost:
                total = plus(total, minus(value))
            return in_range(kept, total, label)
        pick: Any = min if kept.how == "min" else max
        best = pick(gained, default=None)
        if before is None:
            return best
        if best is not None and pick(best, before) == best:
            return best
        return _UNKNOWN if before in lost else before

    def read(self, wanted: Sequence[tuple[Kept, Key]], now: datetime, label: str) -> Proc[list[Any]]:
        """Values from the children themselves."""
        children = yield from self.children(wanted, now)
        rows = [(kept, children[kept.child, kept.role, key]) for kept, key in wanted]
        return [in_range(kept, folded(kept, some), label) for kept, some in rows]

    def afterwards(self, kept: Kept, key: Key, children: Sequence[Row], changes: Sequence[RowChange]) -> Any:
        """A value by the children that there will be after these changes."""
        changed = [
            (change.key, change.new)
            for change in changes
            if change.entity == kept.child and not (change.follows or change.blind or change.ghost)
        ]
        return folded(kept, with_changes(kept, key, self.model.entities[kept.child].key, children, changed))

    def children(self, wanted: Sequence[tuple[Kept, Key]], now: datetime) -> Proc[Children]:
        """The rows that values are computed of: those of a parent read once, and all together."""
        keys: dict[tuple[str, str], dict[Key, None]] = {}
        for kept, key in wanted:
            keys.setdefault((kept.child, kept.role), {})[key] = None
        lists = yield from gather(self.reader.pointing_at(*edge, list(some), now) for edge, some in keys.items())
        return {
            (*edge, key): rows
            for (edge, some), found in zip(keys.items(), lists, strict=True)
            for key, rows in zip(some, found, strict=True)
        }

    def values(self, entity: str, keys: Sequence[Key], now: datetime) -> Proc[list[Row]]:
        """What the computed columns of rows have to be, by their children."""
        found: list[Row] = [{} for _ in keys]
        for kept in self.places.kept[entity]:
            lists = yield from self.reader.pointing_at(kept.child, kept.role, keys, now)
            for row, children in zip(found, lists, strict=True):
                row[kept.column] = folded(kept, children)
        return found

    def again(self, doubtful: Sequence[tuple[Kept, Key]], now: datetime, label: str) -> Proc[list[RowChange]]:
        """The changes that values need which were found by reading children, where one has come or gone since."""
        # The rows first: a child that comes after its parent is read changes it, which is noticed.
        rows = yield from self.reader.by_key(list(dict.fromkeys((kept.entity, key) for kept, key in doubtful)), now)
        there = [(kept, key) for kept, key in doubtful if rows[kept.entity, key] is not None]
        values = yield from self.read(there, now, label)
        found: dict[tuple[str, Key], RowChange] = {}
        for (kept, key), value in zip(there, values, strict=True):
            row = rows[kept.entity, key]
            assert row is not None
            if value != row[kept.column]:
                change = found.setdefault(
                    (kept.entity, key),
                    RowChange(kept.entity, key, row, dict(row), label, expect="present", derived=True),
                )
                assert change.new is not None
                change.new[kept.column] = value
                change.tests = (*change.tests, Test(kept.column, "=", row[kept.column]))
        return list(found.values())


_UNKNOWN: Any = object()


def in_range(kept: Kept, value: Any, label: str) -> Any:
    """A sum that a key can hold."""
    if value is None or kept.how != "sum":
        return value
    try:
        return add(kept.type, value, 0)
    except OverflowError:
        raise RangeError(
            f"{label}: '{kept.entity}.{kept.column}' would leave the range of a key; nothing was written"
        ) from None
