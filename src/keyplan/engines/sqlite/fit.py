"""Which views are possible on SQLite."""

from __future__ import annotations

from keyplan.engines.sqlite.layout import ALL
from keyplan.engines.sqlite.limits import COLUMNS
from keyplan.engines.work import Rejection, ViewFacts
from keyplan.model.model import Model, path_of
from keyplan.plan.names import part_name
from keyplan.plan.view import COUNT, View

SPLIT = "split the entity in two, or keep what is not asked for by itself in one json field"


def columns_of(view: View) -> set[str]:
    """The columns of the table or index that a view becomes."""
    if view.kind == "index":
        return {part_name(part) for part in view.parts}
    measured = {COUNT, *(measure.name for measure in view.measures)} if view.measures else set()
    key = {part_name(part) for part in view.parts} or {ALL}
    return {*key, *view.holds, *measured}


def fit(model: Model, view: View, facts: ViewFacts) -> View | Rejection:
    """Rows live in normalised tables under their key; indexes are over the table's own columns."""
    if any(part.ways > 1 for part in view.parts):
        return Rejection("one file needs no shards")
    wide = len(columns_of(view))
    if wide > COLUMNS:
        what = "an index" if view.kind == "index" else "a table"
        return Rejection(f"it would have {wide:,} columns, and {what} of sqlite has at most {COLUMNS:,}; {SPLIT}")
    if view.kind == "index":
        if any(part.cut is not None for part in view.parts):
            return Rejection("an index is over plain columns; a range answers a truncation")
        if any(condition.op not in ("=", "!=", "in", "present", "missing") for condition in view.where):
            return Rejection("a partial index tests values and presence only")
        return view
    if view.measures or view.unique or any(part.cut in ("each", "words") for part in view.parts):
        return view
    behind = any(path_of(part.path, model, view.entity).roles for part in view.parts)
    if behind or any(condition.path.roles for condition in view.where):
        return view  # an order or a condition across a reference, which no index of one table can follow
    here = model.entities[view.entity]
    computed = {column.name for column in here.columns.values() if column.computed is not None}
    whole = set(view.holds) - computed == set(here.stored) and tuple(part.path for part in view.parts) == here.key
    return view if whole else Rejection("rows are kept once, in the table of their entity")
