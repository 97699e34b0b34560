"""Designs in which the rows of an entity live under more than their key, and nothing stands under the key alone.

A row is then found by a part of its key, and that there is none cannot be asked of any single entry. A designer chooses
such homes where rows are written so seldom, or their keys are made up so surely, that this is no loss.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from keyplan.engines import get_engine
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.steps import Search
from keyplan.plan.view import Part


def rehomed(model: Model, design: Design, entity: str, column: str) -> Design:
    """The design with a column of the rows before the last part of their key, in their home."""
    name, inside = design.homes[entity]
    home = design.views[name]
    assert not inside
    *before, final = home.parts
    assert before
    sort = (Part(column), final)
    apart = bool(home.partition)
    moved_home = replace(home, partition=tuple(before) if apart else (), sort=sort if apart else (*before, *sort))
    last = final.path

    def moved(plan: Any) -> Any:
        """A plan, with searches of the home that leave the last part of its key to a filter."""
        if isinstance(plan, Search) and (plan.view, plan.at) == (name, ()):
            beyond = tuple(one for one in plan.given if str(one.path) == last)
            given = tuple(one for one in plan.given if one not in beyond)
            return replace(plan, given=given, filter=(*plan.filter, *beyond), order=())
        if type(plan) is tuple:
            return tuple(moved(one) for one in plan)
        if is_dataclass(plan) and not isinstance(plan, type):
            own: Any = plan
            return replace(own, **{one.name: moved(getattr(own, one.name)) for one in fields(own) if one.init})
        return plan

    views = {**design.views, name: moved_home}
    plans = {
        kind: {key: moved(plan) for key, plan in getattr(design, kind).items()}
        for kind in ("rows", "dependents", "plans", "writes", "dangling", "refills", "groups")
    }
    structures = get_engine(design.engine).pack(model, tuple(views.values()), design.settings)
    return replace(design, views=views, structures=structures, **plans)
