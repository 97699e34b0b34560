"""What an index projects of its items."""

from __future__ import annotations

from keyplan.model.model import Model
from keyplan.plan.view import View

INDEXES = ("gsi", "lsi")


def projection_of(model: Model, view: View) -> str:
    """How an index projects: whole items, its keys alone, or some attributes named one by one."""
    held = set(view.holds)
    if set(model.entities[view.entity].stored) <= held:
        return "ALL"
    keys = {part.path for part in view.parts if part.cut is None}
    return "KEYS_ONLY" if held <= keys else "INCLUDE"
