"""Writes: what each kind does to the rows.

Whoever calls takes everything back if one of them raises. Of a write of many rows, those that are not refused are
committed by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keyplan.errors import ArgumentError, ConflictError, RangeError, Refusal, row_named, some_refused
from keyplan.model.arguments import bind_params
from keyplan.model.entity import EXPIRES
from keyplan.model.new_row import NewId, NewRow, copy_in, expiry, row_from_arguments, row_from_columns
from keyplan.model.pattern import Condition, Select
from keyplan.model.predicate import operand_value
from keyplan.model.shape import shape_created
from keyplan.model.values import add
from keyplan.model.write import Children, Write
from keyplan.reference.evaluate import answer, matching
from keyplan.reference.tables import Key, Row, Tables


@dataclass
class Prepared:
    """A write whose arguments have been checked, ready to run."""

    write: Write
    label: str
    values: Mapping[str, Any]
    """The parameters."""
    new: NewRow | None = None
    """create and upsert: the row, with its children."""
    rows: list[Row] = field(default_factory=list)
    """update and delete: those that are meant, which is settled before the call writes anything."""


class Writer:
    """The writes of one call, at one moment."""

    def __init__(self, tables: Tables, now: datetime, new_id: NewId) -> None:
        self.tables = tables
        self.model = tables.model
        self.now = now
        self.new_id = new_id
        self.written: set[tuple[str, Key]] = set()

    def prepare(self, write: Write, label: str, arguments: Mapping[str, Any]) -> Prepared:
        """Checks the arguments, and finds the rows that are meant, before anything is changed."""
        if write.kind in ("create", "upsert"):
            new = self._new_row(write.entity, label, arguments, write.children)
            self._note_new(new)
            return Prepared(write, label, {}, new)
        values = bind_params(self.model, write, arguments, label)
        if write.by_key:
            self._note(label, write.entity, self._key(write, values))
        ready = Prepared(write, label, values)
        if write.kind != "change":
            ready.rows = matching(self.tables, write.entity, write.where, values, self.now)
        return ready

    def run(self, ready: Prepared) -> Any:
        """Does one write and returns its answer."""
        write = ready.write
        if ready.new is not None:
            row = self._create(ready.new, replace=write.kind == "upsert")
            return self._returned(write, row) if write.returns else shape_created(self.model, ready.new)
        if write.kind == "change":
            row = self._change(ready)
            return self._returned(write, row) if write.returns else None
        if write.condition:
            self._check_condition(ready)
        do = self._update if write.kind == "update" else self._delete
        if not write.by_key:
            return self._run_wide(ready, do)
        return do(ready, ready.rows[0]) if ready.rows else None

    def _run_wide(self, ready: Prepared, do: Callable[[Prepared, Row], Any]) -> int:
        """Each row on its own, in the order of their keys: those that are refused stay as they were."""
        entity, refused = ready.write.entity, list[tuple[str, Refusal]]()
        for row in sorted(ready.rows, key=lambda row: self.tables.key(entity, row)):
            try:
                do(ready, row)
            except (ArgumentError, ConflictError) as error:
                refused.append((row_named(entity, self.tables.key(entity, row)), error))
        if refused:
            self.tables.commit()
            raise some_refused(ready.label, refused, len(ready.rows) - len(refused))
        return len(ready.rows)

    def upsert_row(self, entity: str, label: str, arguments: Mapping[str, Any]) -> None:
        """One row of a bulk load."""
        self._create(self._new_row(entity, label, arguments, {}), replace=True)

    # Creating

    def _new_row(self, entity: str, label: str, arguments: Mapping[str, Any], children: Children) -> NewRow:
        return row_from_arguments(
            self.model, label, entity, arguments, now=self.now, children=children, new_id=self.new_id
        )

    def _create(self, new: NewRow, *, replace: bool) -> Row:
        """Puts a new row and its children; `replace` deletes the row with the same key first."""
        key = new.key(self.model.entities[new.entity])
        if replace:
            self.tables.remove(new.entity, key)
        self._copy_sources(new)
        if not new.is_new and key in self.tables.rows[new.entity]:
            raise ConflictError(f"{new.label}: {row_named(new.entity, key)} exists already; give another key")
        self._put(new.label, new.entity, new.values)
        for rows in new.children.values():
            for child in rows:
                self._create(child, replace=replace)
        return new.values

    def _copy_sources(self, new: NewRow) -> None:
        """Fills in the snapshots, and with them the moment at which the row expires."""
        entity = self.model.entities[new.entity]
        for column, path in list(new.sources.items()):
            copy_in(self.model, new, column, self.tables.single(new.entity, new.values, path))
        if entity.ttl is not None:
            new.values[EXPIRES] = expiry(entity, new.values, self.now)

    # Changing

    def _change(self, ready: Prepared) -> Row:
        """Changes a row; one that is missing is created from its key, what is set, and defaults."""
        write, entity = ready.write, self.model.entities[ready.write.entity]
        key = self._key(write, ready.values)
        old = self.tables.rows[write.entity].get(key)
        if old is not None:
            row = {**old, **self._set_values(ready)}
        else:
            given = {**dict(zip(entity.key, key, strict=True)), **self._set_values(ready)}
            later = frozenset(write.adds)
            new = row_from_columns(self.model, ready.label, write.entity, given, now=self.now, later=later)
            self._copy_sources(new)
            row = new.values
        row |= self._added_values(ready, row)
        return self._changed(ready, row)

    def _update(self, ready: Prepared, old: Row) -> Any:
        row = {**old, **self._set_values(ready), **self._added_values(ready, old)}
        row = self._changed(ready, row)
        return self._returned(ready.write, row) if ready.write.returns else None

    def _changed(self, ready: Prepared, row: Row) -> Row:
        """Puts a changed row. How long it lives depends on its creation, or on a field that may have changed."""
        entity = self.model.entities[ready.write.entity]
        if entity.ttl is not None and entity.ttl.since is not None:
            row[EXPIRES] = expiry(entity, row, self.now)
        self._put(ready.label, entity.name, row)
        return row

    def _set_values(self, ready: Prepared) -> Row:
        columns = self.model.entities[ready.write.entity].columns
        return {
            column: operand_value(operand, columns[column].type, ready.values, self.now)
            for column, operand in ready.write.sets.items()
        }

    def _added_values(self, ready: Prepared, row: Row) -> Row:
        columns = self.model.entities[ready.write.entity].columns
        sums: Row = {}
        for column, operand in ready.write.adds.items():
            type = columns[column].type
            delta = operand_value(operand, type, ready.values, self.now)
            try:
                sums[column] = add(type, row[column], delta)
            except OverflowError as error:
                raise RangeError(f"{ready.label}: '{column}': {error}; nothing was written") from None
        return sums

    def _check_condition(self, ready: Prepared) -> None:
        """`if`: some row must be there, and it must hold for it."""
        write = ready.write
        held = matching(self.tables, write.entity, write.condition, ready.values, self.now)
        if not ready.rows or any(row not in held for row in ready.rows):
            reason = (
                "its condition does not hold; read the row again"
                if ready.rows
                else f"there is no such {write.entity}; check its key"
            )
            raise ConflictError(f"{ready.label}: {reason}")

    # Deleting

    def _delete(self, ready: Prepared, row: Row) -> Any:
        """Takes a row away, and those that the named roles lead to from it."""
        write = ready.write
        before = self._returned(write, row) if write.returns else None
        own = self.tables.key(write.entity, row)
        for entity, key in dict.fromkeys(self._below(write.entity, row, write.children)):
            if (entity, key) != (write.entity, own):
                self._note(ready.label, entity, key)
            self.tables.remove(entity, key)
        self.tables.remove(write.entity, own)
        return before

    def _below(self, entity: str, row: Row, roles: Children) -> Iterable[tuple[str, Key]]:
        for name, inner in roles.items():
            role = self.tables.role(entity, name)
            for child in self.tables.children(entity, role, row):
                yield role.entity, self.tables.key(role.entity, child)
                yield from self._below(role.entity, child, inner)

    # What all have in common

    def _put(self, label: str, entity: str, row: Row) -> None:
        key = self.tables.key(entity, row)
        for columns in self.model.entities[entity].unique:
            values = tuple(row[column] for column in columns)
            if None in values:
                continue
            if any(self.tables.key(entity, other) != key for other in self.tables.having(entity, columns, values)):
                listed = ", ".join(f"'{column}'" for column in columns)
                raise ConflictError(f"{label}: another {entity} has the same {listed}; give another value")
        self.tables.put(entity, dict(row))
        if row.get(EXPIRES) is not None and row[EXPIRES] <= self.now:
            self.tables.remove(entity, key)  # expired from the start

    def _returned(self, write: Write, row: Row) -> dict[str, Any]:
        return answer(self.tables, write.entity, Select(write.returns), row)

    def _key(self, write: Write, values: Mapping[str, Any]) -> Key:
        """The key of the row that a write by key is about, which its `where` fixes."""
        entity = self.model.entities[write.entity]
        return tuple(self._fixed(write.where, column, values, entity.columns[column].type) for column in entity.key)

    def _fixed(self, where: Iterable[Condition], column: str, values: Mapping[str, Any], type: Any) -> Any:
        for condition in where:
            is_equal = condition.op == "=" and condition.cut is None
            if is_equal and not condition.path.roles and condition.path.column == column:
                return operand_value(condition.operands[0], type, values, self.now)
        raise AssertionError(f"the where does not fix '{column}'")

    def _note_new(self, new: NewRow) -> None:
        self._note(new.label, new.entity, new.key(self.model.entities[new.entity]))
        for rows in new.children.values():
            for child in rows:
                self._note_new(child)

    def _note(self, label: str, entity: str, key: Key) -> None:
        """A row may be written once in a call."""
        if (entity, key) in self.written:
            raise ArgumentError(f"{label}: {row_named(entity, key)} is written twice in one call; leave one out")
        self.written.add((entity, key))
