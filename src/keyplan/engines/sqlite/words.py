"""A search in SQL, for people: with `:parameters` in place of values."""

from __future__ import annotations

from keyplan.engines.sqlite import sql
from keyplan.engines.sqlite.layout import Index, Table, layout, select_list
from keyplan.model.model import Model
from keyplan.model.pattern import Ago, Condition, Literal, Now, Operand, Outer, Param
from keyplan.model.types import Type
from keyplan.model.values import truncated_type
from keyplan.plan.design import Design
from keyplan.plan.steps import Search


def words(model: Model, design: Design, search: Search, first: int | None = None) -> str:
    """The SELECT that a search comes to. Conditions that SQL does not test are named behind it."""
    place = layout(model, design).of(search.view)
    table = place.table if isinstance(place, Index) else place
    terms = list(place.terms) if isinstance(place, Index) else []
    later = []
    for condition in (*search.given, *search.filter):
        if (
            condition in search.filter
            or condition.op in ("contains", "search")
            or str(condition.path) not in table.slots
        ):
            later.append(condition)
        else:
            terms += _terms(table, condition)
    fixed = {str(condition.path) for condition in search.given if condition.op == "=" and not condition.cut}
    order = [
        part.expression + (" DESC" if part.descending != search.descending else "")
        for part in place.parts
        if part.column not in fixed
    ]
    lines = [f"SELECT {select_list(table, search.takes) or '1'}", f"FROM {table.quoted}"]
    if isinstance(place, Index):
        lines[-1] += f" {place.hint}"
    if terms:
        lines.append(f"WHERE {sql.conjunction(terms)}")
    if order and search.order:
        lines.append(f"ORDER BY {', '.join(order)}")
    if first is not None:
        lines.append(f"LIMIT {first}")
    if later:
        lines.append(f"-- then tested on each row: {' and '.join(map(_plain, later))}")
    return "\n".join(lines)


def _terms(table: Table, condition: Condition) -> list[str]:
    path = str(condition.path)
    left, type = table.column(path), table.slots[path].type
    if condition.cut:
        left, type = sql.cut_sql(left, type.kind, condition.cut), truncated_type(type, condition.cut)
    operands = [_operand(operand, type) for operand in condition.operands]
    if condition.op == "begins_with":
        return [f"{left} >= {operands[0]}", f"{left} < {operands[0]} || '…'"]
    if condition.op == "in" and len(operands) == 1 and isinstance(condition.operands[0], Param):
        return [f"{left} IN {operands[0]}"]
    return sql.condition(left, condition.op, len(operands), lambda number: operands[number])


def _operand(operand: Operand, type: Type) -> str:
    match operand:
        case Param(name=name, negative=negative):
            return f"-:{name}" if negative else f":{name}"
        case Literal(value=value):
            return sql.literal(type, value)
        case Ago(ms=ms):
            return f":now - {ms}"
        case Now():
            return ":now"
        case Outer(path=path):
            return f":{path}"


def _plain(condition: Condition) -> str:
    left = f"{condition.cut}({condition.path})" if condition.cut else str(condition.path)
    texts = [_text(operand) for operand in condition.operands]
    return " ".join((left, condition.op, *texts))


def _text(operand: Operand) -> str:
    if isinstance(operand, Literal):
        return repr(operand.value) if isinstance(operand.value, str) else str(operand.value)
    return _operand(operand, Type("string"))
