"""Where each view of a design lies in SQLite: tables, their columns and keys, and the indexes over them.

Everything here follows from the model, the views and the names that `pack` chose; the DDL, the codec and the changes
all read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from keyplan.engines.sqlite import sql
from keyplan.engines.sqlite.sql import quote
from keyplan.engines.sqlite.values import Slot, declared
from keyplan.errors import UnsupportedError
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Literal
from keyplan.model.types import Type
from keyplan.model.values import truncated_type
from keyplan.plan.design import Design, Structure
from keyplan.plan.names import part_name
from keyplan.plan.types import measure_type, part_type, path_type
from keyplan.plan.view import COUNT, View

ALL = "$all"
"""The key column of a view without parts (one group of everything): always ''."""

ROWID_ALIAS, ROWID, WITHOUT_ROWID = "alias", "rowid", "without"


@dataclass(frozen=True)
class KeyPart:
    """One part of a key: the expression over the table's columns, and its type."""

    path: str
    expression: str
    slot: Slot
    descending: bool = False
    column: str | None = None
    """The path of the column it is, if it is one and not an expression."""


@dataclass
class Table:
    """A table, which holds one view that we keep ourselves."""

    view: View
    name: str
    slots: dict[str, Slot]
    """Every column by the path it has in entries, which is its name, key parts first."""
    parts: tuple[KeyPart, ...]
    rows: str
    """ROWID_ALIAS, ROWID or WITHOUT_ROWID."""
    extends: dict[str, str] = field(default_factory=dict)
    """Measures that are extended rather than added to: path to min or max."""
    indexes: list[Index] = field(default_factory=list)

    @property
    def quoted(self) -> str:
        return quote(self.name)

    @property
    def entry(self) -> tuple[Slot, ...]:
        """The columns that make up an entry."""
        return tuple(self.slots.values())

    @property
    def expires(self) -> bool:
        return EXPIRES in self.slots

    def column(self, path: str) -> str:
        return quote(self.slots[path].path)

    @property
    def hint(self) -> str:
        """What keeps the planner on the primary key."""
        return "NOT INDEXED" if self.rows == ROWID_ALIAS else f"INDEXED BY {quote(f'sqlite_autoindex_{self.name}_1')}"


@dataclass
class Index:
    """An index, which SQLite keeps over a table."""

    view: View
    name: str
    table: Table
    parts: tuple[KeyPart, ...]
    terms: tuple[str, ...]
    """The conditions of a partial index, which every query through it repeats word by word."""

    @property
    def hint(self) -> str:
        return f"INDEXED BY {quote(self.name)}"


@dataclass
class Layout:
    """All tables and indexes of a design, by view."""

    tables: dict[str, Table]
    indexes: dict[str, Index]

    def of(self, view: str) -> Table | Index:
        found: Table | Index = self.tables[view] if view in self.tables else self.indexes[view]
        return found


def layout(model: Model, design: Design) -> Layout:
    """The layout of a design."""
    return arrange(model, design.views, design.structures)


def arrange(model: Model, views: Mapping[str, View], structures: Iterable[Structure]) -> Layout:
    tables: dict[str, Table] = {}
    indexes: dict[str, Index] = {}
    listed = [(views[name], structure) for structure in structures for name in structure.views]
    for view, structure in listed:
        if not view.base:
            tables[view.name] = _table(model, view, structure)
    for view, structure in listed:
        if view.base:
            made = _index(model, view, structure, tables[view.base])
            indexes[view.name] = made
            made.table.indexes.append(made)
    return Layout(tables, indexes)


def _table(model: Model, view: View, structure: Structure) -> Table:
    if view.embeds:
        raise UnsupportedError(f"view '{view.name}': sqlite has no embedded rows")
    slots: dict[str, Slot] = {}
    for part in view.parts:
        slots[part_name(part)] = Slot(part_name(part), part_type(model, view.entity, part), nullable=False)
    extends = {}
    if view.measures:
        slots[COUNT] = Slot(COUNT, Type("int"), nullable=False)
        for measure in view.measures:
            type = measure_type(model, view.entity, measure)
            if measure.how in ("min", "max"):
                extends[measure.name] = measure.how
            wide = measure.how == "sum" and type.kind in ("int", "decimal")
            slots.setdefault(measure.name, Slot(measure.name, type, nullable=measure.how in ("min", "max"), sum=wide))
    for path in view.holds:
        if path not in slots:
            type, nullable = path_type(model, view.entity, path)
            slots[path] = Slot(path, type, nullable)
    parts = tuple(
        KeyPart(name, quote(name), slots[name], part.descending, name)
        for part in view.parts
        for name in [part_name(part)]
    )
    return Table(view, structure.name, slots, parts, str(structure.settings["rows"]), extends)


def _index(model: Model, view: View, structure: Structure, table: Table) -> Index:
    parts = []
    terms = []
    for part in view.parts:
        if part.ways > 1 or part.cut in ("each", "words") or part.path not in table.slots:
            raise UnsupportedError(f"view '{view.name}': a sqlite index cannot have the part '{part}'")
        column, slot = table.column(part.path), table.slots[part.path]
        type = part_type(model, view.entity, part)
        expression = sql.cut_sql(column, slot.type.kind, part.cut) if part.cut else column
        made = Slot(part_name(part), type, nullable=False)
        parts.append(KeyPart(made.path, expression, made, part.descending, None if part.cut else part.path))
        if slot.nullable:
            terms.append(f"{column} IS NOT NULL")
    for condition in view.where:
        terms += condition_terms(table, condition)
    return Index(view, structure.name, table, tuple(parts), tuple(dict.fromkeys(terms)))


def condition_terms(table: Table, condition: Condition) -> list[str]:
    """A literal condition on own columns as SQL terms."""
    path = str(condition.path)
    left, type = table.column(path), table.slots[path].type
    if condition.cut:
        left, type = sql.cut_sql(left, type.kind, condition.cut), truncated_type(type, condition.cut)
    values = [operand.value for operand in condition.operands if isinstance(operand, Literal)]
    if len(values) != len(condition.operands) or condition.op in ("contains", "search"):
        raise UnsupportedError(f"a sqlite index cannot have the condition '{condition}'")
    upper = None
    if condition.op == "begins_with":
        above = sql.successor(str(values[0]))
        upper = None if above is None else sql.literal(type, above)
    return sql.condition(left, condition.op, len(values), lambda n: sql.literal(type, values[n]), upper)


def table_ddl(table: Table) -> str:
    """CREATE TABLE, as SQLite then keeps it in its schema: without IF NOT EXISTS.

    STRICT refuses a sum that overflowed 64 bits and would have become a float; the checks refuse decimals beyond 18
    digits and floats beyond the language's range, inside the write that makes them.
    """
    lines = []
    for path, slot in table.slots.items():
        name = table.column(path)
        line = f"  {name} {declared(slot.type, sum=slot.sum)}"
        if not slot.nullable:
            line += " NOT NULL"
        check = _check(name, slot)
        lines.append(f"{line} CONSTRAINT {quote(f'{path} out of range')} CHECK ({check})" if check else line)
    if not table.parts:
        lines.insert(0, f"  {quote(ALL)} TEXT NOT NULL DEFAULT ''")
    lines.append(f"  PRIMARY KEY ({key_columns(table)})")
    options = "STRICT, WITHOUT ROWID" if table.rows == WITHOUT_ROWID else "STRICT"
    body = ",\n".join(lines)
    return f"CREATE TABLE {table.quoted} (\n{body}\n) {options}"


def key_columns(table: Table, *, directed: bool = True) -> str:
    if not table.parts:
        return quote(ALL)
    return ", ".join(part.expression + (" DESC" if part.descending and directed else "") for part in table.parts)


def _check(name: str, slot: Slot) -> str:
    if slot.sum:
        return ""
    if slot.type.kind == "decimal":
        return f"{name} BETWEEN -999999999999999999 AND 999999999999999999"
    if slot.type.kind == "float":
        return f"{name} = 0 OR abs({name}) >= 1e-130 AND abs({name}) < 1e125"
    return ""


def index_ddl(index: Index) -> str:
    """CREATE INDEX, as SQLite then keeps it in its schema."""
    parts = ", ".join(part.expression + (" DESC" if part.descending else "") for part in index.parts)
    unique = "UNIQUE " if index.view.unique else ""
    where = f" WHERE {sql.conjunction(index.terms)}" if index.terms else ""
    return f"CREATE {unique}INDEX {quote(index.name)} ON {index.table.quoted} ({parts}){where}"


def select_list(table: Table, paths: Sequence[str]) -> str:
    return ", ".join(table.column(path) for path in paths)
