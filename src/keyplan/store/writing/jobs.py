"""Jobs: what one write call means for one row, before and after the old row is known.

A job says whether it needs the old row; then `change` turns the old row (None: there is none) into a row change, or
None if nothing is to be done, or raises ConflictError if the write is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from keyplan.engines.composed import told_values
from keyplan.errors import ConflictError, RangeError, row_named
from keyplan.model.entity import EXPIRES, Entity
from keyplan.model.model import Model
from keyplan.model.new_row import NewRow, expiry, row_from_columns
from keyplan.model.pattern import Condition
from keyplan.model.predicate import operand_value, operands
from keyplan.model.types import Type
from keyplan.model.values import add
from keyplan.model.write import Write
from keyplan.plan.edits import Test
from keyplan.store.reading.filter import Call, Filter
from keyplan.store.writing.changes import RowChange
from keyplan.store.writing.mutate import Mutator

Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass
class Job:
    """A write of one row."""

    model: Model
    entity: Entity
    label: str
    key: Key
    repeatable = True
    """Doing it twice is the same as doing it once."""
    returning = False

    def blind(self, mutator: Mutator) -> RowChange | None:
        """The change, if it can be made without the old row."""
        return None

    def change(self, old: Row | None) -> RowChange | None:
        raise NotImplementedError

    @property
    def name(self) -> str:
        return row_named(self.entity.name, self.key)


@dataclass
class Put(Job):
    """create and upsert: a whole row."""

    new: NewRow
    replace: bool

    def blind(self, mutator: Mutator) -> RowChange | None:
        if not self.replace:
            places = mutator.places
            counted = any(place.measures for place in places.of[self.entity.name])
            counted = counted or bool(places.feeds[self.entity.name])
            expect = "any" if self.new.is_new and not counted else "absent"
            if expect == "absent" and mutator.places.exact(self.entity.name) is None:
                # No entry stands under the key alone, so that none can refuse: whether the row exists has to be read.
                # Only a key that could have been left out, to be generated, is not guarded; one that was is new, until
                # a reply is lost.
                return self._change(None, "any") if self.new.is_new else None
            return self._change(None, expect)
        if mutator.is_blind_replacement(self.entity.name):
            return self._change(None, "any")
        return None

    def change(self, old: Row | None) -> RowChange | None:
        if not self.replace:
            if old is not None:
                raise ConflictError(f"{self.label}: {self.name} exists already; give another key")
            return self._change(None, "absent")
        return self._change(old, "absent" if old is None else "present")

    def _change(self, old: Row | None, expect: str) -> RowChange:
        return RowChange(
            self.entity.name,
            self.key,
            old,
            self.new.values,
            self.label,
            expect=expect,
            is_new=self.new.is_new,
        )


@dataclass
class Written(Job):
    """What update, delete and change (an upsert with `set` or `add`) have in common: a named write with values."""

    write: Write
    call: Call
    own: tuple[Condition, ...]
    """What a `where` says of the row besides the key, as far as the row itself tells; the rest a plan has found out."""
    where: Filter | None
    """Whether that is so."""
    condition: Filter | None

    def __post_init__(self) -> None:
        self.returning = bool(self.write.returns)
        self.repeatable = not (self.write.adds or self.write.condition or self.write.returns)

    def set_values(self) -> Row:
        columns = self.entity.columns
        return {
            column: operand_value(operand, columns[column].type, self.call.args, self.call.now)
            for column, operand in self.write.sets.items()
        }

    def deltas(self) -> Row:
        columns = self.entity.columns
        return {
            column: operand_value(operand, columns[column].type, self.call.args, self.call.now)
            for column, operand in self.write.adds.items()
        }

    def added(self, row: Mapping[str, Any]) -> Row:
        sums: Row = {}
        for column, delta in self.deltas().items():
            try:
                sums[column] = add(self.entity.columns[column].type, row[column], delta)
            except OverflowError as error:
                raise RangeError(f"{self.label}: '{column}': {error}; nothing was written") from None
        return sums

    def with_expiry(self, row: Row) -> Row:
        ttl = self.entity.ttl
        if ttl is not None and ttl.since is not None:
            row[EXPIRES] = expiry(self.entity, row, self.call.now)
        return row

    def tests(self) -> tuple[Test, ...] | None:
        """What the row itself tells of the `where`, and the `if`, as tests by the engine; None if they cannot be."""
        conditions = (*self.own, *self.write.condition)
        return self._tests(conditions) if not any(one.op == "search" for one in conditions) else None

    def _tests(self, conditions: Iterable[Condition]) -> tuple[Test, ...]:
        columns = self.entity.columns
        return tuple(_test(condition, columns[condition.path.column].type, self.call) for condition in conditions)

    def matches(self, old: Row | None) -> bool:
        """Whether there is a row to be written; refuses the write if its `if` does not hold."""
        found = old is not None and (self.where is None or self.where(self.call, {})(old))
        if self.write.condition:
            if not found:
                raise ConflictError(f"{self.label}: there is no such {self.entity.name}; check its key")
            assert old is not None
            if self.condition is not None and not self.condition(self.call, {})(old):
                raise ConflictError(f"{self.label}: its condition does not hold; read the row again")
        return found

    def read_tests(self) -> tuple[Test, ...]:
        """The columns that `where` and `if` looked at are tested again, in the moment of the write."""
        return self._tests(one for one in (*self.own, *self.write.condition) if one.op != "search")


@dataclass
class Update(Written):
    """update."""

    def blind(self, mutator: Mutator) -> RowChange | None:
        sets, adds, tests = self.set_values(), self.deltas(), self.tests()
        ttl = self.entity.ttl
        if ttl is not None and ttl.since in sets:
            sets[EXPIRES] = expiry(self.entity, sets, self.call.now)
        if tests is None or not mutator.is_blind(self.entity.name, sets.keys(), adds.keys(), told_values(self.write)):
            return None
        row = dict(zip(self.entity.key, self.key, strict=True))
        return RowChange(
            self.entity.name,
            self.key,
            row,
            row,
            self.label,
            blind=True,
            sets=sets,
            adds=adds,
            tests=tests,
            expect="present",
            returning=self.returning,
        )

    def change(self, old: Row | None) -> RowChange | None:
        if not self.matches(old):
            return None
        assert old is not None
        new = self.with_expiry({**old, **self.set_values(), **self.added(old)})
        return RowChange(
            self.entity.name,
            self.key,
            old,
            new,
            self.label,
            adds=self.deltas(),
            tests=self.read_tests(),
            expect="present",
            returning=self.returning,
        )


@dataclass
class Delete(Written):
    """delete of the row itself; what a cascade takes along are jobs of their own."""

    cascade: bool = False
    """The row was found below one that is deleted."""
    taken_along: bool = False
    """The row is gone already, from below another one that the same write means; what is below itself is left."""

    def blind(self, mutator: Mutator) -> RowChange | None:
        tests = self.tests()
        if self.write.children or self.taken_along or tests is None or not mutator.is_blind_removal(self.entity.name):
            return None
        row = dict(zip(self.entity.key, self.key, strict=True))
        expect = "present" if tests or self.returning else "any"
        return RowChange(
            self.entity.name,
            self.key,
            row,
            None,
            self.label,
            blind=True,
            tests=tests,
            expect=expect,
            returning=self.returning,
        )

    def change(self, old: Row | None) -> RowChange | None:
        if self.cascade or self.taken_along:
            if old is None:
                return None
            return RowChange(self.entity.name, self.key, old, None, self.label, expect="present")
        if not self.matches(old):
            return None
        return RowChange(
            self.entity.name,
            self.key,
            old,
            None,
            self.label,
            tests=self.read_tests(),
            expect="present",
            returning=self.returning,
        )


@dataclass
class Change(Written):
    """upsert with `set` or `add`: a row that is missing is created from its key, what is set, and defaults."""

    fresh: NewRow | None = None
    """The row that is created if there is none; its snapshots have been copied in by whoever reads."""

    def __post_init__(self) -> None:
        super().__post_init__()
        given = {**dict(zip(self.entity.key, self.key, strict=True)), **self.set_values()}
        self.given = given

    def make(self) -> NewRow:
        """The row to start from if there is none."""
        later = frozenset(self.write.adds)
        self.fresh = row_from_columns(
            self.model, self.label, self.entity.name, self.given, now=self.call.now, later=later
        )
        return self.fresh

    def blind(self, mutator: Mutator) -> RowChange | None:
        """What the engine does by itself: it adds to the row that is there, or makes one and adds to that."""
        if self.write.name not in mutator.places.made:
            return None
        fresh, sets = dict(self.make().values), self.set_values()
        ttl = self.entity.ttl
        if ttl is not None:
            fresh[EXPIRES] = expiry(self.entity, fresh, self.call.now)
            sets |= {EXPIRES: fresh[EXPIRES]} if ttl.since in sets else {}
        try:
            self.added(fresh)
        except RangeError:
            return None  # there may be a row in which the sum is in range
        row = dict(zip(self.entity.key, self.key, strict=True))
        return RowChange(
            self.entity.name,
            self.key,
            row,
            row,
            self.label,
            blind=True,
            sets=sets,
            adds=self.deltas(),
            fresh=fresh,
            returning=self.returning,
        )

    def change(self, old: Row | None) -> RowChange | None:
        if old is not None:
            new = {**old, **self.set_values()}
        else:
            assert self.fresh is not None
            new = dict(self.fresh.values)
        new |= self.added(new)
        return RowChange(
            self.entity.name,
            self.key,
            old,
            self.with_expiry(new),
            self.label,
            adds=self.deltas() if old is not None else {},
            expect="absent" if old is None else "present",
            returning=self.returning,
        )


def _test(condition: Condition, type: Type, call: Call) -> Test:
    wanted = operands(condition, type, call.args, call.now)
    value: Any = None
    if condition.op == "in":
        value = tuple(sorted(wanted[0]))
    elif condition.op == "between":
        value = wanted
    elif wanted:
        value = wanted[0]
    return Test(condition.path.column, condition.op, value, condition.cut)


def fixing(entity: Entity, write: Write) -> dict[str, Condition]:
    """The conditions of a `where` that fix parts of the key: of each part the first one."""
    found: dict[str, Condition] = {}
    for condition in write.where:
        path = condition.path
        if condition.op == "=" and condition.cut is None and not path.roles and path.column in entity.key:
            found.setdefault(path.column, condition)
    return found


def key_values(entity: Entity, write: Write, args: Mapping[str, Any], now: datetime) -> Key:
    """The key that the `where` of a write by key fixes."""
    fixed = fixing(entity, write)
    return tuple(
        operand_value(fixed[column].operands[0], entity.columns[column].type, args, now) for column in entity.key
    )
