"""Edits as SQL: every condition stands inside the statement that changes the entry, and each shape is prepared once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from keyplan.engines.sqlite import sql
from keyplan.engines.sqlite.layout import Index, Table, key_columns, select_list
from keyplan.engines.sqlite.values import Slot, element_json, encoder, entry_encoder, value_encoder
from keyplan.errors import UnsupportedError
from keyplan.model.entity import EXPIRES
from keyplan.model.types import Type
from keyplan.model.values import add, truncated_type
from keyplan.plan.edits import Edit, Test

NOTHING, CHANGED, FOUND, NOT_FOUND = range(4)
"""What a step's outcome must be: anything, a row changed, a row found, no row found."""

Raw = tuple[Any, ...]
Values = Callable[[Edit], Raw]

_BEYOND = 2**63
"""The one amount that can be added and does not fit 64 bits: -(-2**63)."""


@dataclass(slots=True)
class Template:
    """A prepared statement for all edits of one shape."""

    text: str
    values: Values
    check: int
    returns: bool = False


def shape_of(edit: Edit) -> tuple[Any, ...]:
    """What the statements of an edit depend on."""
    adds: tuple[Any, ...] = ()
    if edit.adds:
        adds = tuple((path, amount == _BEYOND) for path, amount in edit.adds.items())
    tests: tuple[Any, ...] = ()
    if edit.tests:
        tests = tuple(_test_shape(test) for test in edit.tests)
    named = () if edit.do == "put" else tuple(edit.values)
    known = (edit.entry is not None, edit.fresh is not None)
    return edit.view, edit.do, named, adds, edit.expect, tests, edit.alive_at is not None, edit.returning, known


def _test_shape(test: Test) -> tuple[Any, ...]:
    value = test.value
    count = len(value) if test.op == "in" else 0  # type: ignore[arg-type]
    above = test.op == "begins_with" and sql.successor(str(value)) is not None
    return test.path, test.op, test.cut, value is None, count, above


def templates(table: Table, edit: Edit) -> list[Template]:
    """The statements for an edit and all of its shape."""
    makers = {"put": _put, "patch": _patch, "delete": _delete, "check": _check, "add": _add}
    if edit.do not in makers:
        raise UnsupportedError(f"sqlite: no edit '{edit.do}'")
    return makers[edit.do](table, edit)


def upsert_text(table: Table, *, over: str = "") -> str:
    """Puts a whole entry; `over`: a condition on the entry that is there. Never replaces a row of another key."""
    paths = list(table.slots)
    keys = {part.path for part in table.parts}
    changed = [path for path in paths if path not in keys] or paths[:1]
    changes = ", ".join(f"{table.column(path)} = excluded.{table.column(path)}" for path in changed)
    where = f" WHERE {over}" if over else ""
    return f"{insert_text(table)} ON CONFLICT ({key_columns(table, directed=False)}) DO UPDATE SET {changes}{where}"


def delete_text(table: Table) -> str:
    return f"DELETE FROM {table.quoted} WHERE {sql.conjunction(_key_terms(table))}"


def insert_text(table: Table) -> str:
    """Puts a whole entry where none may be."""
    marks = ", ".join("?" * len(table.slots))
    return f"INSERT INTO {table.quoted} ({select_list(table, list(table.slots))}) VALUES ({marks})"


def _key_terms(table: Table) -> list[str]:
    return [f"{part.expression} = ?" for part in table.parts] or ["1"]


def _key_values(table: Table) -> Values:
    encode = encoder([part.slot for part in table.parts])
    return lambda edit: encode(edit.key)


def _entry_values(table: Table) -> Values:
    encode = entry_encoder(table.entry, {part.path: place for place, part in enumerate(table.parts)})
    return lambda edit: encode(edit.key, edit.values)


def _joined(pieces: list[Values]) -> Values:
    if len(pieces) == 1:
        return pieces[0]
    if len(pieces) == 2:
        first, second = pieces
        return lambda edit: first(edit) + second(edit)
    return lambda edit: tuple([value for piece in pieces for value in piece(edit)])


def _moment(edit: Edit) -> Raw:
    return (_encode_moment(edit.alive_at),)


_encode_moment: Callable[[datetime | None], int] = value_encoder(Slot("", Type("timestamp")))


def _conditions(table: Table, edit: Edit) -> tuple[list[str], list[Values]]:
    """The terms of a WHERE: the key, whether the entry is alive, the tests."""
    terms, values = _key_terms(table), [_key_values(table)]
    if edit.alive_at is not None and table.expires:
        column = table.column(EXPIRES)
        terms.append(f"({column} IS NULL OR {column} > ?)")
        values.append(_moment)
    for number, test in enumerate(edit.tests):
        terms += _test_terms(table, test)
        values.append(_test_values(table, test, number))
    return terms, values


def _test_terms(table: Table, test: Test) -> list[str]:
    left, type = table.column(test.path), table.slots[test.path].type
    if test.op == "contains":
        return [f"keyplan_has({left}, ?)"]
    if test.op == "=" and test.value is None:
        return [f"{left} IS NULL"]
    if test.cut:
        left = sql.cut_sql(left, type.kind, test.cut)
    if test.op == "in" and not test.value:
        return ["0"]
    count = len(test.value) if test.op == "in" else 0  # type: ignore[arg-type]
    upper = "?" if test.op == "begins_with" and sql.successor(str(test.value)) is not None else None
    return sql.condition(left, test.op, count, lambda _: "?", upper)


def _test_values(table: Table, test: Test, number: int) -> Values:
    type = table.slots[test.path].type
    if test.op == "contains":
        return lambda edit: (element_json(type, edit.tests[number].value),)
    if test.op in ("present", "missing") or (test.op == "=" and test.value is None):
        return lambda edit: ()
    if test.op == "begins_with":
        return lambda edit: _prefix(str(edit.tests[number].value))
    encode = value_encoder(Slot("", truncated_type(type, test.cut) if test.cut else type))
    if test.op in ("in", "between"):
        return lambda edit: tuple(map(encode, edit.tests[number].value))  # type: ignore[call-overload]
    return lambda edit: (encode(edit.tests[number].value),)


def _prefix(text: str) -> Raw:
    above = sql.successor(text)
    return (text,) if above is None else (text, above)


def _returning(table: Table, edit: Edit) -> str:
    return f" RETURNING {select_list(table, list(table.slots))}" if edit.returning else ""


def _needed(edit: Edit) -> int:
    return CHANGED if edit.expect == "present" or edit.tests else NOTHING


def _put(table: Table, edit: Edit) -> list[Template]:
    returning = _returning(table, edit)
    entry = _entry_values(table)
    before = _clearing(table, edit)
    if edit.expect == "present" or edit.tests:
        if edit.expect == "absent":
            raise UnsupportedError("sqlite: an entry that must be absent cannot be tested")
        terms, values = _conditions(table, edit)
        changes = ", ".join(f"{table.column(path)} = ?" for path in table.slots)
        text = f"UPDATE {table.quoted} SET {changes} WHERE {sql.conjunction(terms)}{returning}"
        return [*before, Template(text, _joined([entry, *values]), CHANGED, edit.returning)]
    if edit.expect == "any":
        return [*before, Template(upsert_text(table) + returning, entry, NOTHING, edit.returning)]
    if edit.alive_at is not None and table.expires:
        text = upsert_text(table, over=f"{table.quoted}.{table.column(EXPIRES)} <= ?") + returning
        return [*before, Template(text, _joined([entry, _moment]), CHANGED, edit.returning)]
    return [Template(insert_text(table) + returning, entry, NOTHING, edit.returning)]


def _clearing(table: Table, edit: Edit) -> list[Template]:
    """Statements that remove expired rows which still hold a unique value of this one."""
    if edit.alive_at is None or not table.expires:
        return []
    cleared = []
    for index in table.indexes:
        if index.view.unique:
            paths = [part.column for part in index.parts if part.column]
            touched = edit.do == "put" or any(path in edit.values for path in paths)
            known = edit.do == "put" or edit.entry is not None or all(path in edit.values for path in paths)
            if touched and known and len(paths) == len(index.parts):
                cleared.append(_clear(table, index, paths))
    return cleared


def _clear(table: Table, index: Index, paths: list[str]) -> Template:
    encode = encoder([Slot(path, table.slots[path].type) for path in paths])

    def values(edit: Edit) -> Raw:
        known = {**(edit.entry or {}), **edit.values}
        return (*encode(tuple(known.get(path) for path in paths)), *_moment(edit))

    terms = [*index.terms, *(f"{table.column(path)} = ?" for path in paths), f"{table.column(EXPIRES)} <= ?"]
    return Template(f"DELETE FROM {table.quoted} WHERE {sql.conjunction(terms)}", values, NOTHING)


def _patch(table: Table, edit: Edit) -> list[Template]:
    if edit.expect == "absent":
        raise UnsupportedError("sqlite: an entry that must be absent cannot be patched")
    if edit.fresh is not None:
        return [_made(table, edit)]
    changes, pieces = _changes(table, edit)
    if not changes:  # nothing but conditions: the entry is written back as it is
        first = table.column(next(iter(table.slots)))
        changes = [f"{first} = {first}"]
    terms, values = _conditions(table, edit)
    text = f"UPDATE {table.quoted} SET {', '.join(changes)} WHERE {sql.conjunction(terms)}{_returning(table, edit)}"
    made = Template(text, _joined([*pieces, *values]), _needed(edit), edit.returning)
    return [*_clearing(table, edit), made]


def _made(table: Table, edit: Edit) -> Template:
    """A patch of the entry that is there, or else a whole one."""
    encode = entry_encoder(table.entry, {part.path: place for place, part in enumerate(table.parts)})

    def whole(edit: Edit) -> Raw:
        fresh = edit.fresh or {}
        sums = {path: add(table.slots[path].type, fresh.get(path), by) for path, by in edit.adds.items()}
        return encode(edit.key, {**fresh, **sums})

    changes, pieces = _changes(table, edit)
    first = table.column(next(iter(table.slots)))
    text = f"{insert_text(table)} ON CONFLICT ({key_columns(table, directed=False)}) DO UPDATE SET "
    text += ", ".join(changes) or f"{first} = {first}"
    check = NOTHING
    if edit.alive_at is not None and table.expires:
        column = f"{table.quoted}.{table.column(EXPIRES)}"
        text += f" WHERE ({column} IS NULL OR {column} > ?)"
        pieces, check = [*pieces, _moment], CHANGED
    return Template(text + _returning(table, edit), _joined([whole, *pieces]), check, edit.returning)


def _changes(table: Table, edit: Edit) -> tuple[list[str], list[Values]]:
    """What a patch sets, and the values for it."""
    changes: list[str] = []
    pieces: list[Values] = []
    if edit.values:
        paths = list(edit.values)
        changes += [f"{table.column(path)} = ?" for path in paths]
        encode = encoder([table.slots[path] for path in paths])
        pieces.append(lambda edit: encode(tuple(edit.values.values())))
    for path, amount in edit.adds.items():
        column = table.column(path)
        plus = " + 1" if _is_beyond(table.slots[path], amount) else ""
        changes.append(f"{column} = {_sum(table.slots[path], column, '?')}{plus}")
        pieces.append(_amount(table.slots[path], path))
    return changes, pieces


def _sum(slot: Slot, column: str, more: str) -> str:
    """The column and something more; beyond 64 bits a plain sum turns REAL, which the STRICT column then refuses."""
    if not slot.sum:
        return f"coalesce({column}, {'0.0' if slot.type.kind == 'float' else '0'}) + {more}"
    return f"keyplan_add({column}, {more})"


def _amount(slot: Slot, path: str) -> Values:
    encode = value_encoder(slot)

    def values(edit: Edit) -> Raw:
        amount: Any = edit.adds[path]
        return (encode(amount - 1 if _is_beyond(slot, amount) else amount),)

    return values


def _is_beyond(slot: Slot, amount: Any) -> bool:
    """Whether one has to be added apart, because the engine's own whole numbers end before the amount."""
    return slot.type.kind == "int" and not slot.sum and bool(amount == _BEYOND)


def _delete(table: Table, edit: Edit) -> list[Template]:
    if edit.expect == "absent":
        raise UnsupportedError("sqlite: an entry that must be absent cannot be deleted")
    terms, values = _conditions(table, edit)
    text = f"DELETE FROM {table.quoted} WHERE {sql.conjunction(terms)}{_returning(table, edit)}"
    return [Template(text, _joined(values), _needed(edit), edit.returning)]


def _check(table: Table, edit: Edit) -> list[Template]:
    terms, values = _conditions(table, edit)
    returned = select_list(table, list(table.slots)) if edit.returning else "1"
    text = f"SELECT {returned} FROM {table.quoted} WHERE {sql.conjunction(terms)}"
    check = NOT_FOUND if edit.expect == "absent" else FOUND if edit.expect == "present" or edit.tests else NOTHING
    return [Template(text, _joined(values), check, edit.returning)]


def _add(table: Table, edit: Edit) -> list[Template]:
    """An entry of sums, made with zeros if absent; a smallest or greatest is extended, values are set."""
    if edit.expect != "any" or edit.tests:
        raise UnsupportedError("sqlite: an 'add' has no conditions")
    changes = []
    for path in (*edit.adds, *edit.values):
        column = table.column(path)
        mine, new = f"{table.quoted}.{column}", f"excluded.{column}"
        if path in edit.values:
            changes.append(f"{column} = {new}")
        elif path in table.extends:
            changes.append(f"{column} = coalesce({table.extends[path]}({mine}, {new}), {mine}, {new})")
        else:
            changes.append(f"{column} = {_quick_sum(table.slots[path], mine, new)}")
    zeros = {
        path: Decimal(0) if slot.type.kind == "decimal" else 0.0 if slot.type.kind == "float" else 0
        for path, slot in table.slots.items()
        if path not in table.extends
    }
    encode = entry_encoder(table.entry, {part.path: place for place, part in enumerate(table.parts)})
    target = key_columns(table, directed=False)
    text = f"{insert_text(table)} ON CONFLICT ({target}) DO UPDATE SET {', '.join(changes)}{_returning(table, edit)}"
    return [
        Template(text, lambda edit: encode(edit.key, {**zeros, **edit.adds, **edit.values}), NOTHING, edit.returning)
    ]


def _quick_sum(slot: Slot, mine: str, new: str) -> str:
    if not slot.sum:
        return f"{mine} + {new}"
    return f"CASE typeof({mine} + {new}) WHEN 'integer' THEN {mine} + {new} ELSE keyplan_add({mine}, {new}) END"
