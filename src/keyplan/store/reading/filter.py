"""Conditions over flat rows: compiled at open, bound to a call, then asked per row.

A path over a to-many role finds its rows in the list under that role, and means "some row": conditions that share the
role speak of the same row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Literal, Outer, Param, Path
from keyplan.model.predicate import compile_condition, operands
from keyplan.model.types import Type

Row = dict[str, Any]
Holds = Callable[[Mapping[str, Any]], bool]
NOTHING: dict[str, Any] = {}


@dataclass(slots=True)
class Call:
    """What is fixed during one call of a pattern or write."""

    args: Mapping[str, Any]
    now: datetime
    strong: int = False


Wanted = Callable[[Call, Mapping[str, Any]], "tuple[Any, ...] | None"]


def compile_operands(condition: Condition, type: Type) -> Wanted:
    """The right side of a condition for one call and one outer row; None if a value of the outer row is missing, so
    that nothing can compare with it."""
    outers = [operand for operand in condition.operands if isinstance(operand, Outer)]
    if len(condition.operands) == 1 and condition.cut is None and condition.op not in ("in", "search"):
        operand = condition.operands[0]
        if isinstance(operand, Param) and not operand.negative:
            name = operand.name
            return lambda call, outer: (call.args[name],)
        if isinstance(operand, Literal):
            fixed = (operand.value,)
            return lambda call, outer: fixed
        if isinstance(operand, Outer):
            path = operand.path

            def from_outer(call: Call, outer: Mapping[str, Any]) -> tuple[Any, ...] | None:
                value = outer[path]
                return None if value is None else (value,)

            return from_outer
    if not outers:
        return lambda call, outer: operands(condition, type, call.args, call.now)
    # Parameters and paths of the outer row may have equal names, so the latter are looked up under another one.
    renamed = replace(
        condition,
        operands=tuple(Outer("\0" + one.path) if isinstance(one, Outer) else one for one in condition.operands),
    )

    def mixed(call: Call, outer: Mapping[str, Any]) -> tuple[Any, ...] | None:
        values = dict(call.args)
        for one in outers:
            value = outer[one.path]
            if value is None:
                return None
            values["\0" + one.path] = value
        return operands(renamed, type, values, call.now)

    return mixed


Filter = Callable[[Call, Mapping[str, Any]], Holds]


def compile_filter(model: Model, entity: str, conditions: Sequence[Condition]) -> Filter | None:
    """The conjunction of conditions on rows of an entity; None if there are none."""
    if not conditions:
        return None
    plain: list[tuple[Callable[[Mapping[str, Any]], Any], Callable[[Any, tuple[Any, ...]], bool], Wanted]] = []
    groups: dict[str, list[Condition]] = {}
    for condition in conditions:
        role = _first_many(model, entity, condition.path.roles)
        if role is not None:
            groups.setdefault(role, []).append(condition)
            continue
        type = model.column(entity, condition.path).type
        plain.append(
            (_left(condition), compile_condition(type, condition.op, condition.cut), compile_operands(condition, type))
        )
    nested: list[tuple[str, Filter]] = []
    for role, group in groups.items():
        depth = role.count(".") + 1
        child = model.entity_at(entity, tuple(role.split(".")))
        inner = compile_filter(model, child, [_below(condition, depth) for condition in group])
        assert inner is not None
        nested.append((role, inner))

    def bind(call: Call, outer: Mapping[str, Any]) -> Holds:
        bound: list[tuple[Any, Any, tuple[Any, ...]]] = []
        for left, test, wanted in plain:
            values = wanted(call, outer)
            if values is None:
                return _never
            bound.append((left, test, values))
        below = [(role, inner(call, outer)) for role, inner in nested]

        def holds(row: Mapping[str, Any]) -> bool:
            for left, test, values in bound:
                if not test(left(row), values):
                    return False
            return all(any(some(child) for child in row.get(role) or ()) for role, some in below)

        return holds

    return bind


def _never(row: Mapping[str, Any]) -> bool:
    return False


def _left(condition: Condition) -> Callable[[Mapping[str, Any]], Any]:
    if condition.op == "search":
        names = [str(path) for path in (condition.path, *condition.also)]
        return lambda row: [row.get(name) for name in names]
    name = str(condition.path)
    return lambda row: row.get(name)


def _first_many(model: Model, entity: str, roles: tuple[str, ...]) -> str | None:
    """The chain up to the first to-many role, dotted."""
    for number, name in enumerate(roles):
        role = model.entities[entity].roles[name]
        if role.many:
            return ".".join(roles[: number + 1])
        entity = role.entity
    return None


def _below(condition: Condition, depth: int) -> Condition:
    """The condition as it reads from the child's side."""
    return replace(
        condition,
        path=Path(condition.path.roles[depth:], condition.path.column),
        also=tuple(Path(path.roles[depth:], path.column) for path in condition.also),
    )
