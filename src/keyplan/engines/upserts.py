"""Upserts with `set` or `add` that an engine does by itself: a row that is there is changed, one that is not is made.

Nothing is read for them. So nothing may depend on the row as it was, and what a new row is filled in with has to be
told from what a row that is there may lack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyplan.engines.base import Kind
from keyplan.model.entity import Entity, Field
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import term_paths
from keyplan.model.write import Write
from keyplan.plan.view import View


def is_told_apart(model: Model, write: Write) -> bool:
    """Whether a write, as far as it and its entity go, can be done without knowing if there is a row."""
    entity = model.entities[write.entity]
    if write.kind != "change" or entity.unique:
        return False
    return all(_is_clear(entity, write, item) for item in entity.fields.values() if item.computed is None)


def _is_clear(entity: Entity, write: Write, item: Field) -> bool:
    """Whether a field gets its value in the same way in a row that is there and in one that is made."""
    columns = [column for column in entity.columns.values() if column.field == item.name]
    given = {*write.sets, *entity.key}
    if any(column.name in given for column in columns):
        return all(column.name in given for column in columns)
    if item.source is not None or (item.name in write.adds and columns[0].type.kind == "float"):
        return False  # it is read elsewhere; sums of floats are worked out here
    if item.default is not None or item.now:
        return not any(column.optional for column in columns)  # what a row that is there lacks stays missing
    optional = all(column.optional or column.type.is_collection for column in columns)
    return optional or item.name in write.adds


def needs_row(model: Model, kinds: Mapping[str, Kind], write: Write, view: View) -> bool:
    """Whether what a view keeps depends on the row that such a write changes, as it was."""
    kind, here = kinds[view.kind], model.entities[view.entity]
    if any(embed.entity == write.entity for _, embed in view.nested()):
        return True
    if any(write.entity in _led_through(model, entity, text) for entity, text in _paths(view)):
        return True
    columns = (here.columns[text] for entity, text in _paths(view) if entity == view.entity and text in here.columns)
    made_of = {here.roles[column.computed.role].entity for column in columns if column.computed is not None}
    behind = (path_of(text, model, entity) for entity, text in _paths(view) if entity == view.entity)
    for path in (path for path in behind if len(path.roles) == 1):
        computed, target = model.column(view.entity, path).computed, model.entity_at(view.entity, path.roles)
        made_of |= {model.entities[target].roles[computed.role].entity} if computed is not None else set()
    if view.entity != write.entity or write.entity in made_of:
        return write.entity in made_of
    if made_of or any(path_of(text, model, view.entity).roles for text in _own_paths(view)):
        return True
    if kind.kept_by_engine:
        return kind.composed and not _key_paths(view) <= {*write.sets, *here.key}
    whole = view.measures or view.where or view.unique or view.packed or kind.families
    inside = kind.one_value and bool(view.embeds)
    spread = any(part.ways > 1 for part in view.parts)
    return bool(whole) or inside or spread or not _key_paths(view) <= set(here.key)


def _key_paths(view: View) -> set[str]:
    """What decides under which keys rows stand."""
    found = {path for part in view.parts for path in (part.path, *part.also) if path}
    return found | {str(path) for condition in view.where for path in (condition.path, *condition.also)}


def _own_paths(view: View) -> set[str]:
    terms = {str(path) for measure in view.measures for path in term_paths(measure.term)}
    return {*view.holds, *_key_paths(view), *terms}


def _paths(view: View) -> Iterator[tuple[str, str]]:
    """Every path that a view has to do with, and the entity that it begins at."""
    yield from ((view.entity, text) for text in sorted(_own_paths(view)))
    for _, embed in view.nested():
        yield from ((embed.entity, text) for text in (*embed.holds, *(part.path for part in embed.sort)))


def _led_through(model: Model, entity: str, text: str) -> set[str]:
    """The entities whose rows a path leads through."""
    roles = path_of(text, model, entity).roles
    return {model.entity_at(entity, roles[:depth]) for depth in range(1, len(roles) + 1)}
