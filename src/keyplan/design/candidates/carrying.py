"""Homes that carry what the engine's own views have of other rows.

An index has nothing that the entries which it is kept over do not have: where it copies a value of another row, so does
the home of its rows, whose entries are larger by it wherever they are stored, read and written. So a home with these
copies is a candidate of its own beside the plain one, and an index that copies is only possible over such a home.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from keyplan.design.candidates.required import homes_inside, is_home
from keyplan.design.needs.need import held_paths
from keyplan.engines.base import Kind
from keyplan.engines.work import LinearRow
from keyplan.model.model import Model, path_of
from keyplan.plan.view import View

Base = tuple[str, tuple[str, ...]]
"""A view, and the roles that lead to an embed inside it."""

MOST_SETS = 12
"""The sets of copies that homes of one entity are tried with."""


def copied_by_index(model: Model, kinds: Mapping[str, Kind], view: View) -> frozenset[str]:
    """What a view has of other rows that the entries which it is kept over have to carry.

    What is inside another row is had from that row, and totals are of no row.
    """
    kind = kinds[view.kind]
    if not kind.kept_by_engine or kind.inside or kind.totals:
        return frozenset()
    texts = (*view.holds, *(part.path for part in view.parts if part.path))
    return frozenset(text for text in texts if path_of(text, model, view.entity).roles)


def carrying_homes(
    model: Model, kinds: Mapping[str, Kind], views: Iterable[View], embeddable: Callable[[str, str], bool]
) -> Iterator[View]:
    """The homes among the views, with what views of the engine's own may copy."""
    known = list(views)
    for entity in model.entities:
        wanted = dict.fromkeys(copied_by_index(model, kinds, view) for view in known if view.entity == entity)
        for copied in _unions([some for some in wanted if some]):
            inside = all(embeddable(entity, text) for text in copied)
            for view in known:
                if view.entity == entity and is_home(model, kinds, view):
                    yield replace(view, holds=held_paths(model, entity, {*view.holds, *copied}))
                elif inside and not kinds[view.kind].one_value and entity in homes_inside(model, view):
                    for embed in view.embeds:
                        if embed.entity == entity:
                            burdened = replace(embed, holds=held_paths(model, entity, {*embed.holds, *copied}))
                            yield replace(view, embeds=tuple(burdened if e == embed else e for e in view.embeds))


def _unions(wanted: list[frozenset[str]]) -> list[frozenset[str]]:
    """The sets, and what several of them come to; where these are too many, all of them together."""
    found = dict.fromkeys(wanted)
    for some in wanted:
        found |= dict.fromkeys(some | other for other in list(found))
        if len(found) > MOST_SETS:
            return list(dict.fromkeys((*wanted[:MOST_SETS], frozenset().union(*wanted))))
    return list(found)


def carrying_bases(model: Model, kinds: Mapping[str, Kind], index: View, views: Iterable[View]) -> list[Base]:
    """The homes whose entries have all that a view of the engine's own copies.

    Rows that are inside a document are no entries of their own: only what finds documents by them is kept over them.
    """
    copied = copied_by_index(model, kinds, index)
    found: list[Base] = []
    for view in views:
        if view.entity == index.entity and is_home(model, kinds, view):
            found += [(view.name, ())] if copied <= set(view.holds) and not view.packed else []
        elif (kinds[index.kind].inside or not kinds[view.kind].one_value) and index.entity in homes_inside(model, view):
            inside = (embed for embed in view.embeds if embed.entity == index.entity and embed.limit is None)
            found += [(view.name, (embed.role,)) for embed in inside if copied <= set(embed.holds)]
    return found


def carried_rows(model: Model, kinds: Mapping[str, Kind], views: Mapping[str, View]) -> Iterator[LinearRow]:
    """No index that copies without a home that carries what it copies."""
    bases: dict[tuple[str, frozenset[str]], dict[str, float]] = {}
    for name, view in views.items():
        copied = copied_by_index(model, kinds, view)
        if copied:
            if (view.entity, copied) not in bases:
                able = carrying_bases(model, kinds, view, views.values())
                bases[view.entity, copied] = {base: -1.0 for base, _ in able}
            yield LinearRow({name: 1.0, **bases[view.entity, copied]}, high=0.0)
