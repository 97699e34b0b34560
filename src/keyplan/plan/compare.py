"""What changes from one design to another: structures that come and go, plans that differ, and the cost of both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keyplan.plan.design import Design
from keyplan.plan.view import View


def compare(old: Design, new: Design) -> dict[str, Any]:
    """The difference as plain JSON; nothing differs if `same` is true.

    Names of views do not count: a view is the same if it keeps the same fields of the same rows under the same key.
    """
    before, after = _structures(old), _structures(new)
    added = sorted({name for view, name in after.items() if view not in before})
    dropped = sorted({name for view, name in before.items() if view not in after})
    plans = sorted(name for name in new.plans if name in old.plans and _steps(old, name) != _steps(new, name))
    return {
        "same": not (added or dropped or plans or set(old.unserved) != set(new.unserved)),
        "added": added,
        "dropped": dropped,
        "plans": plans,
        "unserved": sorted(set(new.unserved) - set(old.unserved)),
        "served": sorted(set(old.unserved) - set(new.unserved)),
        "cost": {"unit": new.objective.unit, "before": old.objective.value, "after": new.objective.value},
    }


def _structures(design: Design) -> dict[View, str]:
    """Each view without its names, and the structure it is in."""
    found: dict[View, str] = {}
    for structure in design.structures:
        for name in structure.views:
            label = f"{structure.kind} {structure.name}"
            shared = len(structure.views) > 1
            found[_nameless(design, name)] = f"{label}: {design.views[name].entity}" if shared else label
    return found


def _nameless(design: Design, name: str) -> View:
    view = design.views[name]
    return replace(view, name="", base="a home" if view.base else "")


def _steps(design: Design, pattern: str) -> list[tuple[object, ...]]:
    """What a plan does and on which views, without its figures."""
    return [
        (
            step.get("op"),
            _nameless(design, str(step["view"])) if step.get("view") in design.views else None,
            tuple(map(str, step.get("where") or ())),  # type: ignore[call-overload]
            step.get("for"),
        )
        for step in design.plans[pattern].steps
    ]
