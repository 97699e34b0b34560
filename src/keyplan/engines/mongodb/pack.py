"""Views become collections and indexes with readable names."""

from __future__ import annotations

from collections.abc import Sequence

from keyplan.engines.mongodb.layout import RECORD_COLLECTION
from keyplan.model.model import Model
from keyplan.plan.design import Structure
from keyplan.plan.names import free_name, index_words, key_words, part_name, set_name
from keyplan.plan.view import View

NAME_BYTES = 100
"""Names are cut here; a namespace may have 255 bytes, database and collection together."""


def pack(model: Model, views: Sequence[View]) -> tuple[Structure, ...]:
    """A collection per view that we keep, an index per view that MongoDB keeps, and totals; collections first."""
    taken = {RECORD_COLLECTION}
    homes = {view.name for view in home_views(model, views)}
    structures = []
    names: dict[str, str] = {}
    for view in sorted((view for view in views if not view.base), key=lambda view: view.name not in homes):
        name = free_name((view.entity if view.name in homes else set_name(view))[:NAME_BYTES], taken)
        names[view.name] = name
        structures.append(Structure(name, "collection", (view.name,)))
    indexes: dict[str, set[str]] = {}
    for view in views:
        if view.base and view.measures:
            used = indexes.setdefault(view.base, {"_id_", "key_order", "expiry"})
            name = free_name(f"totals_by_{key_words(view.parts)}"[:NAME_BYTES], used)
            structures.append(Structure(name, "totals", (view.name,), {"on": names[view.base]}))
        elif view.base:
            used = indexes.setdefault(view.base, {"_id_", "key_order", "expiry"})
            name = free_name(f"{'unique_' if view.unique else ''}{index_words(model, view)}"[:NAME_BYTES], used)
            structures.append(Structure(name, "index", (view.name,), {"on": names[view.base]}))
    return tuple(structures)


def home_views(model: Model, views: Sequence[View]) -> list[View]:
    """Per entity the collection that bears its name: it holds every column, and its key is the shortest of those."""
    able: dict[str, list[View]] = {}
    for view in views:
        entity = model.entities[view.entity]
        paths = {part_name(part) for part in view.parts}
        whole = not (view.base or view.measures or view.where or view.unique) and set(entity.stored) <= set(view.holds)
        if whole and set(entity.key) <= paths and not any(part.cut in ("each", "words") for part in view.parts):
            able.setdefault(view.entity, []).append(view)
    return [min(found, key=lambda view: len(view.parts)) for found in able.values()]
