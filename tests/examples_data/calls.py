"""Calls for any model: arguments for its patterns, writes and transactions, taken from rows that are there.

A condition gets the value that some row has at its path, so that most calls find something; now and then the row is
a stranger's, so that some find nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from keyplan.model.entity import EXPIRES, Entity
from keyplan.model.pattern import Condition, Param, Pattern
from keyplan.model.types import Type
from keyplan.model.write import Transaction, Write
from keyplan.reference import Database
from keyplan.reference.evaluate import matching

Row = dict[str, Any]
Call = tuple[str, dict[str, Any]]

STRANGER = 0.1
"""How often a row is taken that is not there."""
ULID = 26
"""Characters; datasets share none of these."""


class Caller:
    """Draws calls of one model. `there` holds the rows as they are now, `strangers` rows that nobody has loaded."""

    def __init__(self, there: Database, strangers: Database, seed: int = 0) -> None:
        self.model = there.model
        self.there = there
        self.strangers = strangers
        self.random = random.Random(seed)
        self.made = 0
        self.used: set[tuple[str, tuple[Any, ...]]] = set()
        """Rows of the transaction that is being drawn: each may be written once."""

    def reads(self, times: int) -> Iterator[Call]:
        """Every pattern, so many times each."""
        for pattern in self.model.patterns.values():
            for _ in range(times):
                yield pattern.name, self.read(pattern)

    def writes(self, times: int) -> Iterator[Call]:
        """Every write and transaction, so many times each, all mixed; drawn one by one as the rows change."""
        calls: list[Write | Transaction] = [*self.model.writes.values(), *self.model.transactions.values()]
        calls *= times
        self.random.shuffle(calls)
        for call in calls:
            self.used.clear()
            yield call.name, self.transact(call) if isinstance(call, Transaction) else self.write(call)

    def read(self, pattern: Pattern) -> dict[str, Any]:
        """Arguments of a pattern."""
        conditions = (*pattern.where, *pattern.of)
        database, row = self.pick(pattern.entity, conditions)
        return self.values(database, pattern.entity, row, conditions)

    def write(self, write: Write) -> dict[str, Any]:
        """Arguments of a write."""
        entity = self.model.entities[write.entity]
        if write.kind in ("create", "upsert"):
            return self.new(entity, write.children)
        database, row = self.pick(write.entity, (*write.where, *write.condition))
        found = self.values(database, write.entity, row, (*write.condition, *write.where))
        if write.kind == "change" and not write.where:
            found |= row_arguments(entity, row, {entity.columns[column].field for column in entity.key})
        _, other = self.pick_from(self.strangers, write.entity, ())
        for column, operand in write.sets.items():
            if isinstance(operand, Param):
                unique = any(column in columns for columns in entity.unique)
                found[operand.name] = self.fresh(other[column]) if unique else other[column]
        for operand in write.adds.values():
            if isinstance(operand, Param):
                found[operand.name] = self.random.randint(1, 3)
        return found

    def transact(self, transaction: Transaction) -> dict[str, Any]:
        """Arguments of a transaction: a mapping for each of its writes, or a list of them where it repeats."""
        arguments: dict[str, Any] = {}
        for repeat in transaction.parts:
            write = self.model.writes[repeat.write]
            count = min(repeat.most, self.random.randint(1, max(1, round(2 * repeat.usual))))
            if repeat.many:
                size = min(count, len(self.there.rows[write.entity]))
                arguments[write.name] = [self.write(write) for _ in range(size)]
            else:
                arguments[write.name] = self.write(write)
        return arguments

    def new(self, entity: Entity, children: Any, parent: str | None = None, row: Row | None = None) -> dict[str, Any]:
        """The fields of a new row: a stranger's, but with references to rows that are there, and with its children."""
        if row is None:
            _, row = self.pick_from(self.strangers, entity.name, ())
        key_fields = {entity.columns[column].field for column in entity.key}
        fields = {field.name for field in entity.fields.values() if field.computed is None and field.name != parent}
        for name in sorted(fields - key_fields):
            field = entity.fields[name]
            if (field.now or field.source is not None or field.default is not None) and self.random.random() < 0.5:
                fields.discard(name)
        arguments = row_arguments(entity, row, fields)
        for name in sorted(fields):
            target = entity.fields[name].target
            if target is not None and arguments[name] is not None and self.there.rows[target]:
                key = self.random.choice(list(self.there.rows[target]))
                arguments[name] = key[0] if len(key) == 1 else key
        if self.random.random() > STRANGER:
            distinct = key_fields | {entity.columns[column].field for columns in entity.unique for column in columns}
            for name in sorted(distinct & fields):
                arguments[name] = self.fresh(arguments[name])
        for name, inner in children.items():
            role = entity.roles[name]
            child = self.model.entities[role.entity]
            rows = self.strangers.tables.pointing_at(role, self.strangers.tables.key(entity.name, row))
            found = {}
            for one in rows[: role.most]:
                made = self.new(child, inner, role.field, one)
                found[tuple(repr(made.get(child.columns[column].field)) for column in child.key)] = made
            arguments[name] = list(found.values())
        return arguments

    def fresh(self, value: Any) -> Any:
        """A value that no row has: strings and numbers of one dataset occur in every other."""
        self.made += 1
        if isinstance(value, str) and len(value) != ULID:
            return f"{value}-{self.made}"
        if isinstance(value, datetime):
            return value + timedelta(milliseconds=self.made)
        if isinstance(value, date):
            return value + timedelta(days=1000 + self.made)
        return value + 1000 + self.made if type(value) is int else value

    def pick(self, entity: str, conditions: Sequence[Condition]) -> tuple[Database, Row]:
        """A row to take values from; if possible one that fulfils the conditions without parameters."""
        if self.random.random() < STRANGER or not self.there.rows[entity]:
            return self.pick_from(self.strangers, entity, ())
        return self.pick_from(self.there, entity, conditions)

    def pick_from(self, database: Database, entity: str, conditions: Sequence[Condition]) -> tuple[Database, Row]:
        fixed = [one for one in conditions if not any(isinstance(operand, Param) for operand in one.operands)]
        everything = list(database.rows[entity].values())
        rows = matching(database.tables, entity, fixed, {}, database.clock()) or everything
        fresh = [row for row in rows if (entity, database.tables.key(entity, row)) not in self.used]
        row = self.random.choice(fresh or rows)
        self.used.add((entity, database.tables.key(entity, row)))
        return database, row

    def values(self, database: Database, entity: str, row: Row, conditions: Iterable[Condition]) -> dict[str, Any]:
        """A value for each parameter of the conditions, such that the row fulfils them where it can."""
        found: dict[str, Any] = {}
        for condition in conditions:
            type = self.model.column(entity, condition.path).type
            held = [value for value in database.tables.values(entity, row, condition.path) if value not in (None, "")]
            held = [value for value in held if not type.is_collection or value]
            for place, operand in enumerate(condition.operands):
                if isinstance(operand, Param):
                    value = self.random.choice(held) if held else self.any_value(entity, condition, type)
                    if database is self.strangers and type.kind == "string" and condition.op == "=":
                        value = self.fresh(value)
                    found[operand.name] = self.operand(condition.op, place, value)
        return found

    def any_value(self, entity: str, condition: Condition, type: Type) -> Any:
        """For a row that has no value at the path: what some stranger has there."""
        for row in self.strangers.rows[entity].values():
            for value in self.strangers.tables.values(entity, row, condition.path):
                if value is not None and (not type.is_collection or value):
                    return value
        raise AssertionError(f"no row has a value at '{condition.path}' of '{entity}'")

    def operand(self, op: str, place: int, value: Any) -> Any:
        if op in (">", ">=") or (op == "between" and place == 0):
            return self.moved(value, -1)
        if op in ("<", "<=") or (op == "between" and place == 1):
            return self.moved(value, 1)
        if op == "begins_with":
            return value[: self.random.randint(1, len(value))]
        if op == "contains":
            return self.random.choice(sorted(value))
        if op == "search":
            words = re.findall(r"[^\W_]+", value)
            return " ".join(self.random.sample(words, min(len(words), self.random.randint(1, 2))))
        return [value] if op == "in" else value

    def moved(self, value: Any, sign: int) -> Any:
        """A value some way before (-1) or after (1) this one."""
        some = self.random.random()
        if isinstance(value, datetime):
            return value + sign * timedelta(milliseconds=round(some * 30 * 86_400_000))
        if isinstance(value, date):
            return value + sign * timedelta(days=round(some * 30))
        if isinstance(value, int | Decimal):
            return value + sign * round(some * 5)
        if isinstance(value, float):
            return value + sign * some
        return value


def row_arguments(entity: Entity, row: Row, fields: Iterable[str] | None = None) -> dict[str, Any]:
    """What a caller gives for these fields of a row (all stored ones): a composite reference is a tuple."""
    stored = dict.fromkeys(entity.columns[column].field for column in entity.stored if column != EXPIRES)
    wanted = stored if fields is None else [name for name in stored if name in set(fields)]
    arguments: dict[str, Any] = {}
    for name in wanted:
        values = tuple(row[column] for column in entity.stored if entity.columns[column].field == name)
        arguments[name] = values[0] if len(values) == 1 else None if None in values else values
    return arguments
