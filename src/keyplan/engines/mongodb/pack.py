"""Views become collections and indexes with readable names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from keyplan.engines.mongodb.layout import RECORD_COLLECTION, part_name
from keyplan.model.model import Model
from keyplan.plan.design import Structure
from keyplan.plan.view import View

NAME_BYTES = 100
"""Names are cut here; a namespace may have 255 bytes, database and collection together."""


def pack(model: Model, views: Sequence[View]) -> tuple[Structure, ...]:
    """A collection per view that we keep, an index per view that MongoDB keeps; collections first."""
    taken = {RECORD_COLLECTION}
    homes = {view.name for view in home_views(model, views)}
    structures = []
    names: dict[str, str] = {}
    for view in sorted((view for view in views if not view.base), key=lambda view: view.name not in homes):
        name = _free(view.entity if view.name in homes else _collection_name(view), taken)
        names[view.name] = name
        structures.append(Structure(name, "collection", (view.name,)))
    indexes: dict[str, set[str]] = {}
    for view in views:
        if view.base:
            used = indexes.setdefault(view.base, {"_id_", "key_order", "expiry"})
            name = _free(_index_name(model, view), used)
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


def _free(name: str, taken: set[str]) -> str:
    """The name, or with a number behind it, that is not taken yet; MongoDB keeps `system.` to itself."""
    base = name[:NAME_BYTES]
    number, free = 1, base
    while free.lower() in taken:
        number += 1
        free = f"{base}_{number}"
    taken.add(free.lower())
    return free


def _words(view: View, skip: Sequence[str] = ()) -> str:
    texts = [part_name(part) for part in view.parts if part_name(part) not in skip]
    return "_".join(re.sub(r"\W+", "_", text).strip("_") for text in texts)


def _collection_name(view: View) -> str:
    if view.measures:
        words = _words(view)
        return f"{view.entity}_sums_by_{words}" if words else f"{view.entity}_sums"
    if view.unique:
        return f"{view.entity}_unique_{_words(view)}"
    if view.packed:
        return f"{view.entity}_packed_by_{_words(replace(view, sort=()))}"
    return f"{view.entity}_by_{_words(view)}"


def _index_name(model: Model, view: View) -> str:
    key = model.entities[view.entity].key
    tested = dict.fromkeys(re.sub(r"\W+", "_", str(condition.path)) for condition in view.where)
    where = "".join(f"_{name}" for name in tested)
    words = _words(view, () if view.unique else key) or _words(view)
    return f"{'unique_' if view.unique else ''}{words}{where and '_where'}{where}"
