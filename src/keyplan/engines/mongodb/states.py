"""What a partial index says of the columns that its rows are tested by: the values that all conditions on one allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keyplan.engines.mongodb.values import Slot, encoder
from keyplan.errors import UnsupportedError
from keyplan.model.pattern import Condition, Literal
from keyplan.model.types import Type
from keyplan.plan.view import View


def by_column(view: View) -> Mapping[str, Sequence[Condition]]:
    """The conditions of a sparse view on each path."""
    found: dict[str, list[Condition]] = {}
    for condition in view.where:
        found.setdefault(str(condition.path), []).append(condition)
    return found


def is_empty(type: Type, conditions: Iterable[Condition]) -> bool:
    """Whether no row meets all conditions on a column."""
    some = list(conditions)
    missing = [condition.op == "missing" for condition in some]
    return values_of(type, some) == [] or (any(missing) and not all(missing))


def values_of(type: Type, conditions: Iterable[Condition]) -> list[Any] | None:
    """The values that literal conditions on a column name or leave, each once, in one order; None if they name none.

    MongoDB takes lists in another order for the same, and a partial index cannot say what it has not: what is not
    equal to a value of an enum or bool is one of the others.
    """
    found: set[Any] | None = None
    for condition in conditions:
        if condition.op in ("present", "missing"):
            continue
        named = {operand.value for operand in condition.operands if isinstance(operand, Literal)}
        if condition.op == "!=":
            named = set(_every(type)) - named
        found = named if found is None else found & named
    if found is None:
        return None
    every = [value for value in _every(type) if value in found]
    return [*every, *sorted(found.difference(every))]


def _every(type: Type) -> tuple[Any, ...]:
    return (False, True) if type.kind == "bool" else tuple(name for name, _ in type.values)


def partial_filter(view: View, slot: Slot, conditions: Sequence[Condition]) -> dict[str, Any]:
    """Literal conditions on one column as a partial index takes them: values, presence, absence."""
    for condition in conditions:
        literal = all(isinstance(operand, Literal) for operand in condition.operands)
        if condition.op not in ("=", "!=", "in", "present", "missing") or condition.cut or not literal:
            raise UnsupportedError(f"view '{view.name}': a partial index cannot have the condition '{condition}'")
    values = values_of(slot.type, conditions)
    if values is None:
        missing = conditions[0].op == "missing"
        return {"$eq": None} if missing else {"$exists": True}  # no field ever holds null
    encode = encoder(slot)
    return {"$eq": encode(values[0])} if len(values) == 1 else {"$in": [encode(value) for value in values]}
