"""Views by what they are rather than by name, so that a locked one can be priced, kept, or left out.

A lock file was made for the model as it was then. Its views are carried over to the model as it is now: a view that
held whole rows holds the new columns as well, columns that are gone are gone from it, and a view whose key the model no
longer has cannot be kept.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from keyplan.design.candidates.carrying import copied_by_index
from keyplan.design.candidates.forms import Forms
from keyplan.design.candidates.lost import exists, may_be_held, why_lost
from keyplan.design.needs.computed import MOST_WRITERS, computed_behind, computed_of, is_followable, is_holdable
from keyplan.design.needs.need import held_paths, select_paths
from keyplan.engines.base import Kind
from keyplan.engines.work import Rejection
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import term_paths
from keyplan.plan.design import Design
from keyplan.plan.view import Embed, View
from keyplan.plan.walk import searches


def view_key(view: View) -> tuple[object, ...]:
    """What a view is for: entity, kind, key and condition, whatever it holds, into how many shards it is split, and how
    much of its key is the partition.

    That a value is present which is a part of the key says nothing: without it a row has no entry anyway."""
    parts = tuple(part for part in view.parts if part.ways == 1)
    keyed = {part.path for part in view.parts if not part.or_missing}
    where = frozenset(str(one) for one in view.where if not (one.op == "present" and str(one.path) in keyed))
    return (view.entity, view.kind, parts, where, view.unique, bool(view.measures), view.packed)


def identity(view: View) -> View:
    """A view without its names: equal for two views that keep the same paths of the same rows under the same key."""
    return replace(view, name="", base="")


def carried_over(
    model: Model, kinds: Mapping[str, Kind], locked: Design
) -> tuple[dict[str, tuple[View, ...]], dict[str, str]]:
    """The locked views as they would be under this model, by name, and why the others cannot be kept.

    A view that carries values for others has two forms: without those that nothing takes from it, and as it is. Nobody
    knows which of them the program had chosen, whose plans for writes may need the second.
    """
    reasons = {name: why_lost(model, kinds, view) for name, view in locked.views.items()}
    lost = {name: reason for name, reason in reasons.items() if reason}
    views: dict[str, tuple[View, ...]] = {}
    for name, view in locked.views.items():
        if name not in lost:
            forms = (_unburdened(model, kinds, locked, view, lost), view)
            views[name] = tuple(dict.fromkeys(_today(model, locked, form) for form in forms))
    return views, lost


def unfit(forms: Forms, view: View) -> str:
    """Why a given view would not be made like this today, or an empty string."""
    reason = forms.too_large(view, forms.facts.of(view)) or forms.too_many(view) or _is_busy(forms, view)
    if reason:
        return reason
    plain = replace(view, partition=tuple(part for part in view.partition if part.ways == 1))
    fitted = forms.costs.fit(plain, forms.facts.of(plain))
    if isinstance(fitted, Rejection):
        return fitted.reason
    needed = max((part.ways for part in fitted.partition), default=1)
    present = max((part.ways for part in view.partition), default=1)
    return f"it needs {needed} shards and has {present}" if needed > present else ""


def _is_busy(forms: Forms, view: View) -> str:
    """Why what is computed would not be kept in a view today, or an empty string. What rows are asked for by is part of
    a key however busy it is: nothing else would find them."""
    model, statistics = forms.model, forms.facts.statistics
    keys = {part.path for part in view.parts}
    for text in view.holds:
        path = path_of(text, model, view.entity)
        if model.column(view.entity, path).computed is None or (text in keys and not path.roles):
            continue
        if not path.roles and not is_holdable(model, statistics, view.entity, text):
            return f"what '{text}' is computed of is written more than {MOST_WRITERS:g} times a second for one row"
        if path.roles and not is_followable(model, statistics, view.entity, path):
            return f"what '{text}' is computed of is written too often, or too many rows copy it"
    return ""


def _unburdened(model: Model, kinds: Mapping[str, Kind], locked: Design, view: View, lost: Container[str]) -> View:
    """The view without what it carries for groups and what is computed for others, and without what it carried for
    engine-kept views over it that are lost: no plan takes them from it."""
    over = [other for other in locked.views.values() if other.base == view.name]
    over += [other for other in locked.views.values() if _computes_for(model, locked, view, other)]
    over += [other for other in locked.views.values() if other.measures and locked.homes[other.entity][0] == view.name]
    if not over:
        return view

    def keep(entity: str, at: tuple[str, ...], holds: tuple[str, ...]) -> tuple[str, ...]:
        burden = {path for other in over if other.entity == entity for path in other.holds}
        burden |= {part.path for other in over if other.entity == entity for part in other.parts if part.path}
        counted = [measure for other in over if other.entity == entity for measure in other.measures]
        burden |= {str(path) for measure in counted for path in term_paths(measure.term)}
        burden |= {text for other in over for text in _kept_for(model, entity, other)}
        computed = {name for name, column in model.entities[entity].columns.items() if column.computed is not None}
        burden &= {*_copies(holds), *computed}
        kept = (other for other in over if other.base == view.name and other.entity == entity)
        for other in kept:
            burden -= copied_by_index(model, kinds, _left_of(model, other)) if other.name not in lost else set()
        burden -= _taken(model, locked, view.name, at) if burden else set()
        return tuple(path for path in holds if path not in burden)

    embeds = tuple(replace(e, holds=keep(e.entity, (e.role,), e.holds)) for e in view.embeds)
    return replace(view, holds=keep(view.entity, (), view.holds), embeds=embeds)


def _computes_for(model: Model, locked: Design, home: View, other: View) -> bool:
    """Whether a view's computed values are kept in a home besides."""
    if other.entity not in model.entities or other.entity not in locked.homes:
        return False
    if locked.homes[other.entity][0] == home.name and computed_of(model, other):
        return other.name != home.name and not other.base
    return bool(_kept_for(model, home.entity, other))


def _kept_for(model: Model, entity: str, other: View) -> set[str]:
    """The computed columns of an entity that a view copies."""
    if other.entity not in model.entities:
        return set()
    roles = model.entities[other.entity].roles
    found = computed_behind(model, _left_of(model, other)).items()
    return {text for (role, _), columns in found if roles[role].entity == entity for text in columns}


def _left_of(model: Model, view: View) -> View:
    """The view with those paths that the model still has."""

    def is_there(path: str) -> bool:
        return not path or exists(model, view.entity, path)

    return replace(
        view,
        partition=tuple(part for part in view.partition if is_there(part.path)),
        sort=tuple(part for part in view.sort if is_there(part.path)),
        holds=tuple(filter(is_there, view.holds)),
        where=tuple(condition for condition in view.where if is_there(str(condition.path))),
    )


def _taken(model: Model, locked: Design, name: str, at: tuple[str, ...]) -> set[str]:
    """The paths that plans take from the entries of a view, or from what is kept with them."""
    taken: set[str] = set()
    for plan in locked.plans.values():
        for node in (plan.node, *([plan.target] if plan.target is not None else [])):
            for search in searches(node):
                if search.view == name and search.at == at:
                    taken |= set(search.takes)
                elif (
                    name in (search.view, locked.views[search.view].base)
                    and at
                    and search.at == at[:-1]
                    and at[-1] in search.along
                ):
                    entity = locked.views[name].embed_at(at)
                    assert entity is not None
                    taken |= select_paths(model, entity.entity, search.along[at[-1]])[0]
    return taken


def _today(model: Model, locked: Design, view: View) -> View:
    holds = _held(model, locked, view.entity, view.holds) if not view.measures else ()
    return replace(view, base="", holds=holds, embeds=tuple(_embed_today(model, locked, e) for e in view.embeds))


def _embed_today(model: Model, locked: Design, embed: Embed) -> Embed:
    holds = _held(model, locked, embed.entity, embed.holds)
    return replace(embed, holds=holds, embeds=tuple(_embed_today(model, locked, inner) for inner in embed.embeds))


def _held(model: Model, locked: Design, entity: str, holds: tuple[str, ...]) -> tuple[str, ...]:
    paths = {path for path in holds if may_be_held(model, entity, path)}
    if _whole_row(locked, entity) <= set(holds):
        paths |= set(model.entities[entity].stored)
    return held_paths(model, entity, paths)


def _whole_row(locked: Design, entity: str) -> set[str]:
    """The columns that the locked home of an entity held of its own rows; copies are not among them."""
    if entity not in locked.homes:
        return {""}  # nothing holds it
    name, at = locked.homes[entity]
    embed = locked.views[name].embed_at(at)
    holds = embed.holds if embed is not None else locked.views[name].holds
    return set(holds) - set(_copies(holds))


def _copies(holds: tuple[str, ...]) -> tuple[str, ...]:
    """The paths that are copied from other rows.

    A dotted path is a copy if its reference is a column; otherwise it is one of the columns of a composite reference.
    """
    return tuple(path for path in holds if "." in path and path.partition(".")[0] in holds)
