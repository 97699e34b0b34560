"""Which values rows may lack."""

from __future__ import annotations

from keyplan.model.model import Model
from keyplan.model.pattern import Path


def may_be_missing(model: Model, entity: str, path: Path) -> bool:
    """Whether rows may lack a value: behind a reference the row may be gone, but what is counted or summed up there
    depends on its key alone."""
    column = model.column(entity, path)
    if len(path.roles) == 1 and column.computed is not None:
        here = model.entities[entity]
        return column.optional or any(here.columns[one].optional for one in here.roles[path.roles[0]].columns)
    return bool(path.roles) or column.optional
