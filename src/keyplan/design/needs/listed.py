"""Conditions on columns of a few known values, as the values that meet them.

Whether somebody writes `begins_with(state, 'WARN')`, `state > 'NORMAL'` or lists the states makes no difference to what
is asked for, so that it makes none to the design: a need lists them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Literal
from keyplan.model.predicate import compile_condition
from keyplan.model.types import Type

LISTED = ("!=", "<", "<=", ">", ">=", "between", "begins_with")


def as_listed(model: Model, entity: str, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """The conditions, with `=` or `in` for those that a few known values meet."""
    return tuple(_listed(model, entity, condition) for condition in conditions)


def _listed(model: Model, entity: str, condition: Condition) -> Condition:
    wanted = tuple(operand.value for operand in condition.operands if isinstance(operand, Literal))
    if condition.op not in LISTED or condition.cut is not None or len(wanted) < len(condition.operands):
        return condition
    type = model.column(entity, condition.path).type
    values = _values(type)
    if not values:
        return condition
    meets = compile_condition(type, condition.op)
    met = [value for value in values if meets(value, wanted)]
    if not met or len(met) == len(values):
        return condition  # it says nothing but that there is a value, or is never met
    operands = tuple(Literal(value) for value in met)
    return replace(condition, op="=" if len(met) == 1 else "in", operands=operands)


def _values(type: Type) -> tuple[object, ...]:
    if type.kind == "bool":
        return (False, True)
    return tuple(name for name, _ in type.values) if type.kind == "enum" else ()
