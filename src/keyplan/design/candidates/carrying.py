"""Homes that carry what the engine's own views have of other rows.

An index has nothing that the entries which it is kept over do not have: where it copies a value of another row, so does
the home of its rows, whose entries are larger by it wherever they are stored, read and written. So a home with these
copies is a candidate of its own beside the plain one, and an index that copies is only possible over such a home.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from keyplan.design.candidates.homes import Base, Home, Homes
from keyplan.design.needs.need import held_paths
from keyplan.engines.base import Kind
from keyplan.engines.work import LinearRow
from keyplan.model.model import Model, path_of
from keyplan.plan.view import View

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
    homes = Homes(model, kinds, views)
    wanted: dict[str, dict[frozenset[str], None]] = {name: {} for name in model.entities}
    for view in homes.views:
        copied = copied_by_index(model, kinds, view)
        if copied:
            wanted[view.entity][copied] = None
    for entity, some in wanted.items():
        for copied in _unions(list(some)):
            inside = all(embeddable(entity, text) for text in copied)
            for home in homes.of(entity):
                view, embed, holds = home.view, home.embed, held_paths(model, entity, {*home.holds, *copied})
                if embed is None:
                    yield replace(view, holds=holds)
                elif inside and not kinds[view.kind].one_value and view.entity != entity:
                    burdened = replace(embed, holds=holds)
                    yield replace(view, embeds=tuple(burdened if e == embed else e for e in view.embeds))


def _unions(wanted: list[frozenset[str]]) -> list[frozenset[str]]:
    """The sets, and what several of them come to; where these are too many, all of them together."""
    found = dict.fromkeys(wanted)
    for some in wanted:
        found |= dict.fromkeys(some | other for other in list(found))
        if len(found) > MOST_SETS:
            return list(dict.fromkeys((*wanted[:MOST_SETS], frozenset().union(*wanted))))
    return list(found)


def carrying_bases(homes: Homes, index: View) -> list[Base]:
    """The homes whose entries have all that a view of the engine's own copies."""
    return [home.base for home in carrying(homes.model, homes.kinds, index, homes.of(index.entity))]


def carrying(model: Model, kinds: Mapping[str, Kind], index: View, homes: Iterable[Home]) -> Iterator[Home]:
    """Those of the homes of its entity over whose entries a view of the engine's own can be kept, as they have all that
    it copies.

    Rows that are inside a document are no entries of their own: only what finds documents by them is kept over them.
    """
    copied = copied_by_index(model, kinds, index)
    for home in homes:
        if not copied <= home.holds:
            continue
        if home.embed is None:
            able = not home.view.packed
        else:
            apart = kinds[index.kind].inside or not kinds[home.view.kind].one_value
            able = apart and home.embed.limit is None and home.view.entity != index.entity
        if able:
            yield home


def carried_rows(homes: Homes) -> Iterator[LinearRow]:
    """No index that copies without a home that carries what it copies."""
    bases: dict[tuple[str, frozenset[str]], dict[str, float]] = {}
    for view in homes.views:
        copied = copied_by_index(homes.model, homes.kinds, view)
        if copied:
            if (view.entity, copied) not in bases:
                bases[view.entity, copied] = {base: -1.0 for base, _ in carrying_bases(homes, view)}
            yield LinearRow({view.name: 1.0, **bases[view.entity, copied]}, high=0.0)
