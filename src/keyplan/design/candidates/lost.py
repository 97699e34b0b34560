"""Why a view of an earlier design has no place in the model as it is now.

What the model means may have changed under a view that could still be made: a field that is unique no more, rows that
expire by now, sums of what became a float. Kept as it was, such a view would refuse rows or answer wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyplan.design.candidates.counters import always_expires, expires_on_the_way
from keyplan.design.candidates.forms import is_directory
from keyplan.design.needs.computed import unkeyable
from keyplan.design.statistics.derived import CUT_SECONDS
from keyplan.engines.base import Kind
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition, Literal, Path, term_paths
from keyplan.model.types import Type
from keyplan.model.values import canonical
from keyplan.plan.view import FIRST_EXPIRES, Embed, Measure, Part, View

_NUMBERS = ("int", "decimal")
_TEXTS = ("string", "text")


def why_lost(model: Model, kinds: Mapping[str, Kind], view: View) -> str:
    """Why a view has no place in this model, or an empty string."""
    if view.kind not in kinds:
        return f"there is no {view.kind} on this engine"
    if view.entity not in model.entities:
        return f"the model has no '{view.entity}'"
    return next(_reasons(model, view), "")


def exists(model: Model, entity: str, path: str) -> bool:
    """Whether a path leads from an entity to some column."""
    try:
        path_of(path, model, entity)
    except KeyError:
        return False
    return True


def may_be_held(model: Model, entity: str, text: str) -> bool:
    """Whether an entry may have the value of a path: what is computed only where every write can follow it."""
    if not exists(model, entity, text):
        return False
    path = path_of(text, model, entity)
    return not model.is_many(entity, path.roles) and not unkeyable(model, entity, path)


def _reasons(model: Model, view: View) -> Iterator[str]:
    entity, here = view.entity, model.entities[view.entity]
    paths = [part.path for part in view.parts if part.path]
    paths += [path for part in view.parts for path in part.also]
    paths += [str(condition.path) for condition in view.where]
    for measure in view.measures:
        paths += [str(path) for path in sorted(term_paths(measure.term), key=str)]
    missing = [path for path in paths if not exists(model, entity, path)]
    if missing:
        yield f"'{entity}' has no '{missing[0]}'"
        return
    keyed = {part.path for part in view.parts if part.cut is None}
    if not (view.unique or view.measures) and not set(here.key) <= keyed:
        yield f"it lacks a part of the key of '{entity}'"
    if view.unique and tuple(part.path for part in view.parts) not in here.unique:
        listed = ", ".join(part.path for part in view.parts)
        yield f"{listed} of '{entity}' need not be unique any more, and it would refuse rows"
    for part in view.parts:
        yield from _of_part(model, entity, part)
    for condition in view.where:
        yield from _of_condition(model, entity, condition)
    if view.measures:
        yield from _of_groups(model, view)
    for embed in view.embeds:
        yield from _of_embed(model, entity, embed)


def _of_part(model: Model, entity: str, part: Part) -> Iterator[str]:
    for text in filter(None, (part.path, *part.also)):
        path = path_of(text, model, entity)
        yield from _of_path(model, entity, path)
        type = model.column(entity, path).type
        if not _takes(type, part.cut):
            yield f"'{entity}.{path}' is {type} by now, which its key cannot have as '{part}'"


def _of_path(model: Model, entity: str, path: Path) -> Iterator[str]:
    if model.is_many(entity, path.roles):
        yield f"'{entity}.{path}' leads to many rows by now"
    elif reason := unkeyable(model, entity, path):
        yield reason


def _takes(type: Type, cut: str | None) -> bool:
    """Whether a key can have such values, cut like that."""
    if cut == "each":
        return type.kind == "set"
    if cut == "words":
        return type.kind in _TEXTS
    if cut in CUT_SECONDS:
        return type.kind == "timestamp" or (type.kind == "date" and cut not in ("minute", "hour"))
    return type.is_ordered


def _of_condition(model: Model, entity: str, condition: Condition) -> Iterator[str]:
    if path_of(str(condition.path), model, entity) != condition.path:
        yield f"'{entity}.{condition.path}' is found another way by now"  # it was, or was not, a part of a key
        return
    yield from _of_path(model, entity, condition.path)
    if condition.path.roles and expires_on_the_way(model, entity, condition.path):
        yield f"rows behind '{entity}.{condition.path}' expire by now, which nobody notes"
    type = model.column(entity, condition.path).type
    for operand in condition.operands:
        try:
            if isinstance(operand, Literal):
                canonical(type, operand.value)
        except ValueError:
            yield f"'{entity}.{condition.path}' is {type} by now, and it has those with '{condition}'"


def _of_groups(model: Model, view: View) -> Iterator[str]:
    """What is counted row by row has to be told when a row goes; a directory of buckets may name those that are empty
    by now, and answers no aggregate of rows that expire."""
    entity, here = view.entity, model.entities[view.entity]
    told = any(measure.name == FIRST_EXPIRES for measure in view.measures) and always_expires(model, entity)
    if here.ttl is not None and not told and not is_directory(view):
        yield f"rows of '{entity}' expire by now, and would stay counted"
    for part in view.parts:
        path = path_of(part.path, model, entity) if part.path else Path((), "")
        if part.path and model.column(entity, path).computed is not None:
            yield f"'{entity}.{path}' is computed by now, and nothing is counted by it"
        if path.roles and expires_on_the_way(model, entity, path):
            yield f"rows behind '{entity}.{path}' expire by now, and nobody would move what counts under them"
    for measure in view.measures:
        yield from _of_measure(model, entity, measure)


def _of_measure(model: Model, entity: str, measure: Measure) -> Iterator[str]:
    for path in sorted(term_paths(measure.term), key=str):
        column = model.column(entity, path)
        if path.column == EXPIRES:
            continue
        if model.is_many(entity, path.roles) or column.computed is not None:
            yield f"'{entity}.{path}' is computed by now, of which '{measure.name}' cannot be kept"
        elif measure.how == "sum" and column.type.kind not in _NUMBERS:
            yield f"'{entity}.{path}' is {column.type} by now, of which '{measure.name}' cannot be kept"
        elif not column.type.is_ordered:
            yield f"'{entity}.{path}' is {column.type} by now, which has no '{measure.name}'"
        elif path.roles and expires_on_the_way(model, entity, path):
            yield f"rows behind '{entity}.{path}' expire by now, and would stay counted"


def _of_embed(model: Model, entity: str, embed: Embed) -> Iterator[str]:
    role = model.entities[entity].roles.get(embed.role)
    if role is None or role.entity != embed.entity:
        yield f"'{entity}' has no '{embed.role}'"
        return
    child = model.entities[embed.entity]
    if any(child.columns[column].optional for column in role.columns):
        yield f"'{embed.entity}' may lack '{role.field}' by now, and has no place inside '{entity}' then"
    for part in embed.sort:
        if not part.path:
            continue
        if not exists(model, embed.entity, part.path):
            yield f"'{embed.entity}' has no '{part.path}'"
            return
        path = path_of(part.path, model, embed.entity)
        column = model.column(embed.entity, path)
        if column.optional or column.computed is not None or not _takes(column.type, part.cut):
            yield f"'{embed.entity}.{path}' may be missing by now, or is no part of an order inside '{entity}'"
    if not set(child.key) <= {*role.columns, *(part.path for part in embed.sort)}:
        yield f"'{entity}.{embed.role}' lacks a part of the key of '{embed.entity}'"
    for inner in embed.embeds:
        yield from _of_embed(model, embed.entity, inner)
