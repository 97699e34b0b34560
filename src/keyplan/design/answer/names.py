"""What the views of a design are called."""

from __future__ import annotations

from collections.abc import Mapping

from keyplan.model.model import Model
from keyplan.plan.dangling import dangling_role
from keyplan.plan.view import View


def view_names(model: Model, views: Mapping[str, View], homes: set[str]) -> dict[str, str]:
    """Readable names, unique within the design: `Order`, `Order by user, created_at`."""
    taken: set[str] = set()
    names = {}
    for old, view in views.items():
        key = set(model.entities[view.entity].key)
        paths = [str(part) for part in view.parts if part.path and (part.path not in key or part.cut)]
        name = view.entity
        if view.measures:
            name += " totals"
        if view.unique:
            name += " unique"
        own = {part.path for part in view.parts} == key
        if view.measures or view.unique or not own:
            shown = paths or [str(part) for part in view.parts if part.path]
            name += f" by {', '.join(shown)}" if shown else " all"
        if view.packed:
            name += " packed"
        role = dangling_role(model, view)
        if role is not None:
            name = f"{view.entity} whose {role.name} is missing"
        elif view.where:
            name += " where " + ", ".join(str(condition.path) for condition in view.where)
        if own and old not in homes and not view.unique and not view.measures and role is None:
            name += " copy"
        plain, count = name, 2
        while name in taken:
            name, count = f"{plain} {count}", count + 1
        taken.add(name)
        names[old] = name
    return names
