"""Which views are possible on MongoDB."""

from __future__ import annotations

from keyplan.engines.work import Rejection, ViewFacts
from keyplan.model.model import Model, path_of
from keyplan.plan.view import View


def fit(model: Model, view: View, facts: ViewFacts) -> View | Rejection:
    """Rows live in the collection of their entity or with their parent; indexes are over the documents' own fields."""
    if any(part.ways > 1 for part in view.parts):
        return Rejection("one replica set needs no shards")
    if view.kind == "index":
        if any(part.cut not in (None, "each") for part in view.parts):
            return Rejection("an index is over plain fields; a range answers a truncation")
        if len([part for part in view.parts if part.cut == "each"]) > 1:
            return Rejection("an index takes the elements of one array")
        if any(condition.op not in ("=", "present") for condition in view.where):
            return Rejection("a partial index tests equality and presence only")
        return view
    if view.embeds:
        return view
    if view.measures or view.unique or any(part.cut in ("each", "words") for part in view.parts):
        return view
    if any(path_of(part.path, model, view.entity).roles for part in view.parts):
        return view  # an order or a condition across a reference, which no index of one collection can follow
    here = model.entities[view.entity]
    whole = set(view.holds) == set(here.stored) and tuple(part.path for part in view.parts) == here.key
    return view if whole else Rejection("rows are kept once, in the collection of their entity")
