"""Aggregates over the rows that refer to one row, where that row has a computed field that always equals them.

`count: Like where post = :post` is what `Post.likes: count(likes)` stands for: where the row keeps it, it tells it.
"""

from __future__ import annotations

from collections.abc import Iterator

from keyplan.design.needs.computed import is_holdable
from keyplan.design.needs.need import Need, wanted
from keyplan.design.statistics.derived import Statistics
from keyplan.model.entity import Entity
from keyplan.model.model import Model
from keyplan.model.pattern import Compute, Condition, Outer, Path

Columns = tuple[tuple[str, str], ...]
"""The aggregates by their names, each with the computed column that equals it."""


def owner_rows(model: Model, statistics: Statistics, need: Need) -> Iterator[tuple[Need, Columns]]:
    """The rows that may keep what an aggregate asks for, each by the key that the call names.

    What another row names is told by that row or by those behind it, which may keep it as well.
    """
    if need.fold is None or need.fold.group or need.window is not None:
        return
    given = {condition.path.column: condition for condition in need.given if _names_one(condition)}
    if not given or len(given) < len(need.given):
        return
    for role in model.entities[need.entity].roles.values():
        if role.many or given.keys() != set(role.columns):
            continue
        owner = model.entities[role.entity]
        found = [_column(model, statistics, owner, need.entity, role.field, one) for one in need.fold.compute]
        columns = tuple((one.name, text) for one, text in zip(need.fold.compute, found, strict=True) if text)
        if len(columns) == len(found):
            pairs = zip(owner.key, role.columns, strict=True)
            key = tuple(Condition(Path((), column), "=", given[here].operands) for column, here in pairs)
            texts = wanted(model, owner.name, {text for _, text in columns})
            yield Need(owner.name, key, texts, strong=need.strong), columns


def _names_one(condition: Condition) -> bool:
    plain = condition.op == "=" and condition.cut is None and not condition.path.roles
    return plain and not any(isinstance(operand, Outer) for operand in condition.operands)


def _column(
    model: Model, statistics: Statistics, owner: Entity, entity: str, field: str, compute: Compute
) -> str | None:
    """The computed column of an entity that equals an aggregate over the rows that refer to a row of it."""
    if compute.term is not None and (compute.term.path is None or compute.term.path.roles):
        return None
    asked = compute.term.path.column if compute.term is not None and compute.term.path is not None else None
    for name, column in owner.columns.items():
        computed = column.computed
        if computed is None or (computed.how, computed.column) != (compute.how, asked):
            continue
        role = owner.roles[computed.role]
        if (role.entity, role.field) == (entity, field) and is_holdable(model, statistics, owner.name, name):
            return name
    return None
