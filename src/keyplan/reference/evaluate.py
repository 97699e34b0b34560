"""Reads: which rows a `where` finds, in which order they come, what an answer holds of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cmp_to_key
from typing import Any, NamedTuple

from keyplan.errors import CursorError
from keyplan.model.pattern import DEFAULT_PAGE, Condition, Order, Path, Pattern, Select
from keyplan.model.predicate import Operands, Test, compile_condition, operands
from keyplan.model.shape import shape
from keyplan.reference.aggregate import aggregate
from keyplan.reference.tables import Key, Row, Tables


class Page(NamedTuple):
    """Some of the rows, and where to go on: None if the page was short."""

    rows: list[dict[str, Any]]
    cursor: Any = None


def evaluate(tables: Tables, pattern: Pattern, values: Mapping[str, Any], now: datetime, cursor: Any = None) -> Any:
    """The answer of a pattern, for bound parameters and one reading of the clock."""
    rows = matching(tables, pattern.entity, pattern.where, values, now)
    if pattern.kind == "aggregate":
        return aggregate(tables, pattern, rows)
    terms = total_order(tables, pattern.entity, pattern.order)
    rows = in_order(tables, pattern.entity, rows, terms)
    if pattern.kind == "rank":
        return _rank(tables, pattern, rows, values, now)
    if pattern.one:
        return _answer(tables, pattern, rows[0]) if rows else None
    if pattern.limit is not None:
        return [_answer(tables, pattern, row) for row in rows[: pattern.limit]]
    return _page(tables, pattern, rows, terms, cursor)


def _page(tables: Tables, pattern: Pattern, rows: list[Row], terms: Sequence[Order], cursor: Any) -> Page:
    """One page: the rows after the position that the cursor holds."""
    if cursor is not None:
        if not isinstance(cursor, tuple) or len(cursor) != len(terms):
            raise CursorError(f"{pattern.name}: this cursor is not one of its own; pass on the cursor of its last page")
        rows = [row for row in rows if compare(position(tables, pattern.entity, row, terms), cursor, terms) > 0]
    size = pattern.page or DEFAULT_PAGE
    page = rows[:size]
    after = position(tables, pattern.entity, page[-1], terms) if len(page) == size else None
    return Page([_answer(tables, pattern, row) for row in page], after)


def _rank(tables: Tables, pattern: Pattern, rows: list[Row], values: Mapping[str, Any], now: datetime) -> int | None:
    """1 + the rows before the one with the given key; None if it is not among them."""
    wanted = [tables.key(pattern.entity, row) for row in matching(tables, pattern.entity, pattern.of, values, now)]
    for number, row in enumerate(rows, start=1):
        if tables.key(pattern.entity, row) in wanted:
            return number
    return None


@dataclass
class _Place:
    """The conditions on one row, with their right sides, and those on the rows its roles lead to."""

    conditions: list[tuple[Condition, Test, Operands]] = field(default_factory=list)
    roles: dict[str, _Place] = field(default_factory=dict)


def matching(
    tables: Tables, entity: str, where: Sequence[Condition], values: Mapping[str, Any], now: datetime
) -> list[Row]:
    """The rows for which every condition holds, each once."""
    top = _Place()
    for condition in where:
        type = tables.model.column(entity, condition.path).type
        test = compile_condition(type, condition.op, condition.cut)
        wanted = operands(condition, type, values, now)
        roles = _common([path.roles for path in (condition.path, *condition.also)])
        place = top
        for role in roles:
            place = place.roles.setdefault(role, _Place())
        path, *also = (Path(path.roles[len(roles) :], path.column) for path in (condition.path, *condition.also))
        place.conditions.append((replace(condition, path=path, also=tuple(also)), test, wanted))
    return [row for row in _candidates(tables, entity, top) if _holds(tables, entity, row, top)]


def _candidates(tables: Tables, entity: str, place: _Place) -> Iterable[Row]:
    """All rows, or those that have the values of the plainest conditions; it spares time and decides nothing."""
    equal = {
        condition.path.column: wanted[0]
        for condition, _, wanted in place.conditions
        if condition.op == "=" and condition.cut is None
    }
    stored = [column for column in equal if column in tables.model.entities[entity].stored]
    if not stored:
        return tables.rows[entity].values()
    return tables.having(entity, tuple(stored), tuple(equal[column] for column in stored))


def _holds(tables: Tables, entity: str, row: Row | None, place: _Place) -> bool:
    """Conditions with a common way speak of the same row, so the rows of a role are tried one by one."""
    for condition, test, wanted in place.conditions:
        if not test(_left_side(tables, entity, row, condition), wanted):
            return False
    for name, inner in place.roles.items():
        role = tables.role(entity, name)
        targets = tables.children(entity, role, row) if role.many else [tables.target(role, row)]
        if not any(_holds(tables, role.entity, target, inner) for target in targets):
            return False
    return True


def _left_side(tables: Tables, entity: str, row: Row | None, condition: Condition) -> Any:
    if condition.op == "search":
        return [text for path in (condition.path, *condition.also) for text in tables.values(entity, row, path)]
    return tables.value(entity, row, condition.path.column)


def _common(chains: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The roles with which all chains begin; a condition other than `search` has one chain."""
    first = chains[0]
    length = 0
    while all(len(chain) > length and chain[length] == first[length] for chain in chains):
        length += 1
        if length == len(first):
            break
    return first[:length]


def total_order(tables: Tables, entity: str, order: Sequence[Order]) -> list[Order]:
    """The order with its ties broken by the key, in the direction of the last term."""
    descending = order[-1].descending if order else False
    return [*order, *(Order(Path((), column), descending) for column in tables.model.entities[entity].key)]


def position(tables: Tables, entity: str, row: Row, terms: Sequence[Order]) -> Key:
    return tuple(tables.single(entity, row, term.path) for term in terms)


def compare(left: Key, right: Key, terms: Sequence[Order]) -> int:
    """Below 0 if left comes first; missing comes last in both directions."""
    for a, b, term in zip(left, right, terms, strict=True):
        if a is None or b is None:
            if a is not b:
                return 1 if a is None else -1
        elif a != b:
            return (1 if a > b else -1) * (-1 if term.descending else 1)
    return 0


def in_order(tables: Tables, entity: str, rows: list[Row], terms: Sequence[Order]) -> list[Row]:
    """The rows sorted by a total order."""
    by_position: Callable[[Key], Any] = cmp_to_key(lambda left, right: compare(left, right, terms))
    return sorted(rows, key=lambda row: by_position(position(tables, entity, row, terms)))


def _answer(tables: Tables, pattern: Pattern, row: Row) -> dict[str, Any]:
    return answer(tables, pattern.entity, pattern.select, row)


def answer(tables: Tables, entity: str, select: Select, row: Row) -> dict[str, Any]:
    """What an answer holds of a row: its selected values, nested."""
    flat: dict[str, Any] = {}
    _collect(tables, entity, (), entity, select, row, flat)
    return shape(tables.model, entity, select, flat)


def _collect(
    tables: Tables,
    root: str,
    roles: tuple[str, ...],
    entity: str,
    select: Select,
    row: Row | None,
    flat: dict[str, Any],
) -> None:
    """Puts the values that a select tree names into a flat row, under their paths from the root."""

    def put(column: str) -> None:
        path = tables.model.resolve(root, ".".join((*roles, column)))
        # A part of a reference's key is there already, and stays so where the row that it leads to is gone.
        flat.setdefault(str(path), tables.value(entity, row, column))

    for column in select.columns:
        put(column)
    for name, inner in select.roles.items():
        role = tables.role(entity, name)
        if not role.many:
            for column in role.columns:
                put(column)
            _collect(tables, root, (*roles, name), role.entity, inner, tables.target(role, row), flat)
            continue
        # They depend on the key only, as what is computed of them does, and so are there even where the row is gone.
        rows = tables.pointing_at(role, tables.key(entity, row)) if row is not None else []
        if inner.order:
            rows = in_order(tables, role.entity, rows, total_order(tables, role.entity, inner.order))
        children: list[dict[str, Any]] = []
        for child in rows[: inner.limit]:
            below: dict[str, Any] = {}
            _collect(tables, role.entity, (), role.entity, inner, child, below)
            children.append(below)
        flat[".".join((*roles, name))] = children
