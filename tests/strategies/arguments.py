"""Arguments for calls: mostly what some row has, now and then anything that the type allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from hypothesis import strategies as st

from keyplan.errors import ArgumentError
from keyplan.model.entity import Entity, Field
from keyplan.model.model import Model
from keyplan.model.new_row import NewId, NewRow, row_from_arguments
from keyplan.model.pattern import Condition, Param, Path
from keyplan.model.types import Type
from keyplan.model.write import Children, Write
from keyplan.reference.database import Clock, Database
from keyplan.reference.tables import Key, Row
from tests.strategies.domains import TEXTS, among, chance, small, values


class Scene(Database):
    """What a program is drawn before: `reference`, and the keys of rows that are gone.

    A reference to a row that was deleted, or that had expired before it came, is where copies go wrong.
    """

    def __init__(self, model: Model, clock: Clock, new_id: NewId, *, passing: bool = False) -> None:
        super().__init__(model, clock, new_id)
        self.passing = passing
        """Whether rows that had expired before they came are pointed at and copied from, too."""
        self.seen: dict[str, dict[Key, None]] = {name: {} for name in model.entities}

    def keys(self, entity: str) -> list[Key]:
        """The keys of rows that are there or were there, in the order in which they came."""
        self.seen[entity] |= dict.fromkeys(self.rows[entity])
        return list(self.seen[entity])

    def load(self, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> int:
        listed = list(rows)
        count = super().load(listed)
        for entity, arguments in listed:
            self._note(entity, arguments, {})
        return count

    def write(self, name: str, /, **arguments: Any) -> Any:
        answer = super().write(name, **arguments)
        write = self.model.writes[name]
        if write.kind in ("create", "upsert"):
            self._note(write.entity, arguments, write.children)
        return answer

    def expect(self, write: Write, arguments: Mapping[str, Any]) -> None:
        """Remembers a row that is about to come, so that what else is written in the same call can point at it."""
        with suppress(ArgumentError):
            new = self._new(write.entity, arguments, write.children)
            self.seen[write.entity][new.key(self.model.entities[write.entity])] = None

    def _note(self, entity: str, arguments: Mapping[str, Any], children: Children) -> None:
        """Remembers a row that may have expired before it came, and so never was among the rows."""
        if not self.passing:
            return
        new = self._new(entity, arguments, children)
        self.seen[entity][new.key(self.model.entities[entity])] = None

    def _new(self, entity: str, arguments: Mapping[str, Any], children: Children) -> NewRow:
        return row_from_arguments(
            self.model, "scene", entity, arguments, now=self.clock(), children=children, new_id=self.new_id
        )

    def _begin(self) -> datetime:
        for name in self.model.entities:
            self.keys(name)  # before what has expired is forgotten
        return super()._begin()


@st.composite
def call_arguments(draw: st.DrawFn, database: Scene, name: str) -> dict[str, Any]:
    """The keyword arguments of a pattern, write or transaction."""
    model = database.model
    if name in model.patterns:
        pattern = model.patterns[name]
        return _arguments(draw, database, pattern.entity, (*pattern.where, *pattern.of), pattern.params, {})
    if name in model.writes:
        return _write_arguments(draw, database, model.writes[name])
    found: dict[str, Any] = {}
    for part in model.transactions[name].parts:
        write = model.writes[part.write]
        if part.many:
            count = draw(st.integers(0, min(part.most, 2)))
            found[part.write] = [_write_arguments(draw, database, write) for _ in range(count)]
        else:
            found[part.write] = _write_arguments(draw, database, write)
    return found


def _write_arguments(draw: st.DrawFn, database: Scene, write: Write) -> dict[str, Any]:
    if write.kind in ("create", "upsert"):
        found = draw(row_arguments(database, write.entity, children=write.children, keyed=not chance(draw, 3)))
        found = found if write.kind == "create" else keep_promises(database, write.entity, found)
        database.expect(write, found)
        return found
    columns = database.model.entities[write.entity].columns
    changed: dict[str, st.SearchStrategy[Any]] = {}
    for column, operand in write.sets.items():
        if isinstance(operand, Param):
            nothing = [st.none()] if columns[column].optional and "." not in column else []
            changed[operand.name] = st.one_of(values(columns[column].type), *nothing)
    for column, operand in write.adds.items():
        if isinstance(operand, Param):
            changed[operand.name] = small(columns[column].type)
    return _arguments(draw, database, write.entity, (*write.where, *write.condition), write.params, changed)


def _arguments(
    draw: st.DrawFn,
    database: Scene,
    entity: str,
    conditions: tuple[Condition, ...],
    params: Mapping[str, Type],
    changed: Mapping[str, st.SearchStrategy[Any]],
) -> dict[str, Any]:
    """Arguments that fit one row, with a stranger among them now and then."""
    rows = list(database.rows[entity].values())
    paths = [condition.path for condition in conditions if condition.operands]
    if not all(path.column in database.model.entities[entity].key for path in paths) and not chance(draw, 3):
        rows = [row for row in rows if all(_there(database, entity, row, path) for path in paths)] or rows
    row = draw(st.sampled_from(rows)) if rows else None
    found: dict[str, Any] = {}
    for condition in conditions:
        for operand in condition.operands:
            if isinstance(operand, Param):
                found[operand.name] = _operand(draw, database, entity, row, condition)
    for name, strategy in changed.items():
        # a parameter that also stands in a condition keeps the value of the row
        found.setdefault(name, draw(strategy))
    return _grouped({name: found[name] for name in params})


def _grouped(found: dict[str, Any]) -> dict[str, Any]:
    """Dotted parameters are the parts of a composite reference, which is one argument."""
    result: dict[str, Any] = {}
    for name, value in found.items():
        head, dot, _ = name.partition(".")
        result[head] = (*result.get(head, ()), value) if dot else value
    return {name: value[0] if _lonely(found, name) else value for name, value in result.items()}


def _lonely(found: Mapping[str, Any], name: str) -> bool:
    return sum(other.startswith(f"{name}.") for other in found) == 1


def _operand(draw: st.DrawFn, database: Scene, entity: str, row: Row | None, condition: Condition) -> Any:
    type = database.model.column(entity, condition.path).type
    there = _there(database, entity, row, condition.path) if row is not None else []
    if condition.op == "search":
        return _words(draw, database, entity, row, condition)
    if condition.op == "contains":
        assert type.of is not None
        elements = [element for value in there for element in sorted(value)]
        return _either(draw, elements, values(type.of))
    if condition.op == "in":
        others = [
            one
            for other in database.rows[entity].values()
            for one in database.tables.values(entity, other, condition.path)
        ]
        there += [value for value in others if value is not None]  # those of one row would be the same value again
        return [_either(draw, there, values(type)) for _ in range(draw(st.integers(0, 3)))]
    value = _either(draw, there, values(type))
    if condition.op == "begins_with":
        return value[: draw(st.integers(0, 2))]
    return value


def _there(database: Scene, entity: str, row: Row, path: Path) -> list[Any]:
    """What a row has at the end of a path."""
    return [value for value in database.tables.values(entity, row, path) if value is not None]


def _words(draw: st.DrawFn, database: Scene, entity: str, row: Row | None, condition: Condition) -> str:
    """Words of any of the texts of a row, or such as stand in many."""
    texts = [
        text
        for path in (condition.path, *condition.also)
        for text in (database.tables.values(entity, row, path) if row is not None else ())
        if text
    ]
    if not texts or chance(draw, 2):
        return draw(among(*TEXTS, "fox", "red fox", "trot blue"))
    return " ".join(draw(st.sampled_from(text.split() or [text])) for text in draw(st.permutations(texts))[:2])


def _either(draw: st.DrawFn, there: list[Any], anything: st.SearchStrategy[Any]) -> Any:
    """Mostly a value that is there."""
    if there and not chance(draw, 4):
        return draw(st.sampled_from(there))
    return draw(anything)


@st.composite
def row_arguments(
    draw: st.DrawFn,
    database: Scene,
    entity: str,
    children: Mapping[str, Mapping[str, Any]] | None = None,
    without: str | None = None,
    keyed: bool = True,
) -> dict[str, Any]:
    """The fields of a row to be created; unless `keyed`, keys that can be made are left to be made."""
    about = database.model.entities[entity]
    found: dict[str, Any] = {}
    for item in about.fields.values():
        if item.computed is not None or item.name == without:
            continue
        if not keyed and _is_made(about, item):
            continue
        if not _in_key(about, item) and _may_be_left_out(item):
            copied = database.passing and item.source is not None
            given = chance(draw, 3) if copied else not draw(st.booleans())
            if not given:
                continue
        if item.optional is not None and chance(draw, 2):
            found[item.name] = None
        elif item.target is not None:
            found[item.name] = _reference(draw, database, about, item)
        else:
            assert item.type is not None
            found[item.name] = draw(values(item.type))
    for name, inner in (children or {}).items():
        role = about.roles[name]
        most = 1 if role.most == 1 else 2
        found[name] = [
            draw(row_arguments(database, role.entity, children=inner, without=role.field, keyed=keyed))
            for _ in range(draw(st.integers(0, most)))
        ]
    return found


def keep_promises(database: Scene, entity: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The same arguments, with the `immutable` values of the row that they replace, if there is one."""
    about = database.model.entities[entity]
    frozen = [item.name for item in about.fields.values() if item.immutable]
    if not frozen:
        return arguments
    new = row_from_arguments(database.model, "promise", entity, arguments, now=database.clock(), new_id=database.new_id)
    old = database.rows[entity].get(new.key(about))
    if old is None:
        return arguments
    kept: dict[str, tuple[Any, ...]] = dict.fromkeys(frozen, ())
    for column in about.columns.values():
        if column.field in kept and not column.hidden:
            kept[column.field] += (old[column.name],)
    for name, parts in kept.items():
        arguments = {**arguments, name: None if None in parts else parts[0] if len(parts) == 1 else parts}
    return arguments


def _in_key(entity: Entity, item: Field) -> bool:
    return any(entity.columns[column].field == item.name for column in entity.key)


def _is_made(entity: Entity, item: Field) -> bool:
    return item.type is not None and item.type.kind in ("uuid", "ulid") and item.name in entity.key


def _may_be_left_out(item: Field) -> bool:
    is_collection = item.type is not None and item.type.is_collection
    return bool(item.optional or item.default is not None or item.now or item.source or is_collection)


def _reference(draw: st.DrawFn, database: Scene, entity: Entity, item: Field) -> Any:
    """The key of a row that is there or was there, or of none."""
    assert item.target is not None
    target = database.model.entities[item.target]
    keys = database.keys(item.target)
    if keys and not chance(draw, 4):
        key = draw(st.sampled_from(keys))
    else:
        key = tuple(draw(values(target.columns[column].type)) for column in target.key)
    return key[0] if len(key) == 1 else key
