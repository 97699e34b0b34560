"""Views become tables and indexes with readable names."""

from __future__ import annotations

from collections.abc import Sequence

from keyplan.engines.sqlite.layout import ROWID, ROWID_ALIAS, WITHOUT_ROWID
from keyplan.engines.sqlite.limits import SMALL_ROW_BYTES
from keyplan.model.model import Model
from keyplan.model.values import average_bytes
from keyplan.plan.design import Structure
from keyplan.plan.names import free_name, index_words, part_name, set_name
from keyplan.plan.types import measure_type, part_type, path_type
from keyplan.plan.view import COUNT, View

DESIGN_TABLE = "keyplan_design"


def pack(model: Model, views: Sequence[View]) -> tuple[Structure, ...]:
    """A table per view that we keep, an index per view that SQLite keeps, in the order of the views, tables first."""
    taken = {DESIGN_TABLE}
    homes = {view.name for view in home_views(model, views)}
    structures = []
    names: dict[str, str] = {}
    for view in sorted((view for view in views if not view.base), key=lambda view: view.name not in homes):
        name = _named(view.entity if view.name in homes else set_name(view), taken)
        names[view.name] = name
        structures.append(Structure(name, "table", (view.name,), {"rows": row_storage(model, view)}))
    for view in views:
        if view.base:
            name = _named(f"{'ux' if view.unique else 'ix'}_{view.entity}_{index_words(model, view)}", taken)
            structures.append(Structure(name, "index", (view.name,), {"on": names[view.base]}))
    return tuple(structures)


def home_views(model: Model, views: Sequence[View]) -> list[View]:
    """Per entity the table that bears its name: it holds every column, and its key is the shortest of those."""
    able: dict[str, list[View]] = {}
    for view in views:
        entity = model.entities[view.entity]
        paths = {part_name(part) for part in view.parts}
        whole = not (view.base or view.measures or view.where or view.unique) and set(entity.stored) <= set(view.holds)
        if whole and set(entity.key) <= paths and not any(part.cut in ("each", "words") for part in view.parts):
            able.setdefault(view.entity, []).append(view)
    return [min(found, key=lambda view: len(view.parts)) for found in able.values()]


def row_storage(model: Model, view: View) -> str:
    """How a table keeps its rows.

    A single integer key is the rowid itself. Otherwise small rows go into the key's own B-tree (WITHOUT ROWID), and
    large ones into a table by rowid with the key as an index beside it. `limits.SMALL_ROW_BYTES` says why.
    """
    parts = view.parts
    if len(parts) == 1 and not parts[0].descending:
        type = part_type(model, view.entity, parts[0])
        if type.kind in ("int", "decimal", "bool", "date", "timestamp"):
            return ROWID_ALIAS
    return WITHOUT_ROWID if row_bytes(model, view) <= SMALL_ROW_BYTES else ROWID


def row_bytes(model: Model, view: View) -> float:
    """Average bytes of a table's row: values, and a byte of header each."""
    sizes = {part_name(part): average_bytes(part_type(model, view.entity, part)) for part in view.parts}
    if view.measures:
        sizes[COUNT] = 4.0
    for measure in view.measures:
        sizes[measure.name] = average_bytes(measure_type(model, view.entity, measure))
    for path in view.holds:
        if path not in sizes:
            type, _ = path_type(model, view.entity, path)
            item = model.entities[view.entity].fields.get(path)
            share = item.optional if item is not None and item.optional is not None else 1.0
            sizes[path] = average_bytes(type) * share
    return sum(sizes.values()) + len(sizes)


def _named(name: str, taken: set[str]) -> str:
    """A free name; SQLite keeps `sqlite_` to itself."""
    return free_name(f"_{name}" if name.lower().startswith("sqlite_") else name, taken)
