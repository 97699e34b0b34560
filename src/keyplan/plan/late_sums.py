"""Sums and counts that may be added a moment after the rows that they count, where one request is too small for both.

Nobody who has to see them together may read them: whoever reads strongly would find the rows without their sum, if
whoever wrote them came to an end in between. Least and greatest values cannot wait at all: what they are changed to
depends on what they are.
"""

from __future__ import annotations

from keyplan.model.model import Model
from keyplan.plan.view import View


def may_come_late(model: Model, view: View) -> bool:
    """Whether what rows add to the groups of a view can be written behind them."""
    return bool(view.measures) and not view.extended and view.entity not in _counted_strongly(model)


def _counted_strongly(model: Model) -> set[str]:
    """Entities whose rows may be counted by reads that want to see all that was written: strong patterns, and the
    lookups of writes, which may ask for computed values of other rows."""
    strong = [pattern for pattern in model.patterns.values() if pattern.consistency != "eventual"]
    found = {pattern.entity for pattern in strong if pattern.kind != "find"}
    lookups = (model.column(write.entity, one.path) for write in model.writes.values() for one in write.where)
    if strong or any(column.computed is not None for column in lookups):
        for entity in model.entities.values():
            for column in entity.columns.values():
                if column.computed is not None:
                    found.add(entity.roles[column.computed.role].entity)
    return found
