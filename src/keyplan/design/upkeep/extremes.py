"""How often what a row keeps of others becomes another value when one of those changes: a sum nearly always, the least
or greatest of many values seldom, unless they come in their order."""

from __future__ import annotations

from math import log

from keyplan.design.upkeep.effects import Effect
from keyplan.model.entity import Column, Computed, Role
from keyplan.model.model import Model
from keyplan.model.pattern import Now
from keyplan.model.write import Write

EULER = 0.5772
IN_TIME = ("timestamp", "date", "ulid")
"""What new rows have more of than those before them."""


def chance_of_change(model: Model, write: Write, effect: Effect, role: Role, computed: Computed, many: float) -> float:
    """How often a computed value becomes another one when one of so `many` rows changes that it is made of.

    Any of them may be the least or greatest: that one of so many goes or is pointed elsewhere changes it once in so
    many times; so does one that comes among them from elsewhere, and one whose value changes may be either.
    """
    if computed.how not in ("min", "max") or computed.column is None:
        return 1.0
    column = model.entities[role.entity].columns[computed.column]
    rises = computed.how == "max"
    if effect.kind == "create":
        return _of_new(column, rises, many)
    if effect.kind == "replace":
        return min(1.0, _of_new(column, rises, many) + 1.0 / many)
    if effect.kind == "update" and column.name in effect.columns:
        now = write.entity == effect.entity and isinstance(write.sets.get(column.name), Now)
        return 1.0 if now and rises else min(1.0, 2.0 / many)
    return min(1.0, 1.0 / many)


def _of_new(column: Column, rises: bool, many: float) -> float:
    """How often a new value is beyond all others: always, where they come in that order; otherwise as often as one of k
    values is the greatest, on average over all k up to so many."""
    if column.type.kind in IN_TIME:
        return 1.0 if rises else min(1.0, 1.0 / many)
    return min(1.0, (log(many) + EULER + 0.5 / many) / many) if many > 1 else 1.0
