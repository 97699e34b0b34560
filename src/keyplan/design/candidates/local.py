"""Views that the engine keeps over certain views of ours only.

*Local* ones are another order of the entries of a view, under the same partition; those *inside* find rows that are
embedded in others by one of their columns, and by columns of the row that they are inside of; *totals* are kept with
the values of a packed view.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from keyplan.design.candidates.carrying import carrying
from keyplan.design.candidates.homes import Base, Home, Homes
from keyplan.design.candidates.totals import kept_with
from keyplan.engines.base import Kind
from keyplan.engines.work import LinearRow
from keyplan.model.model import Model, path_of
from keyplan.plan.view import Embed, Part, View


def bases_of(homes: Homes, local: View) -> list[Base]:
    """The homes over whose entries a local view can be kept, whole rows under the same partition that carry what it
    copies; and the embeds over whose rows one inside can be kept, in the order that its key ends with; and what totals
    can be kept with."""
    model, kinds = homes.model, homes.kinds
    if kinds[local.kind].inside:
        return [home.base for home in homes.of(local.entity) if _is_over(homes, local, home)]
    if kinds[local.kind].totals:
        return [(name, ()) for name in kept_with(model, local, homes.views)]
    return [home.base for home in carrying(model, kinds, local, homes.sharing(local.entity, local.partition))]


def _is_over(homes: Homes, inside: View, home: Home) -> bool:
    if home.embed is None or not homes.kinds[home.view.kind].one_value:
        return False
    key = (*home.partition, *home.embed.sort)
    seen = _seen(homes.model, home.view, home.embed)
    return inside.sort[-len(key) :] == key and _beside(homes.model, inside) <= set(seen)


def _beside(model: Model, inside: View) -> set[str]:
    """The columns of their owner by which rows inside it are found, and that are had with them."""
    texts = {*inside.holds, *(part.path for part in inside.parts)}
    return {text for text in texts if path_of(text, model, inside.entity).roles}


def _seen(model: Model, view: View, embed: Embed) -> Iterator[str]:
    """The own columns that a view holds, as its embedded rows see them."""
    owner = model.entities[view.entity].roles[embed.role].field
    return (f"{owner}.{text}" for text in view.holds if not path_of(text, model, view.entity).roles)


def under_partitions(homes: Homes, local: View) -> list[View]:
    """The local view under each partition that a home has for it, shards included; empty if there is no home."""
    return [
        replace(local, partition=partition)
        for partition in homes.partitions(local.entity)
        if tuple(part for part in partition if part.ways == 1) == local.partition
    ]


def needs_base(kind: Kind) -> bool:
    """Whether views of a kind are kept over certain others only."""
    return kind.local or kind.inside or kind.totals


def base_rows(homes: Homes) -> Iterator[LinearRow]:
    """No view without a base."""
    for view in homes.views:
        if needs_base(homes.kinds[view.kind]):
            yield LinearRow({view.name: 1.0, **{base: -1.0 for base, _ in bases_of(homes, view)}}, high=0.0)


def doubled_rows(homes: Homes) -> Iterator[LinearRow]:
    """No view of the engine's own under the very key of the rows that it is kept over: what it would have along for its
    reads, rows can hold themselves."""
    kinds = homes.kinds
    indexes: dict[str, list[View]] = {name: [] for name in homes.model.entities}
    for view in homes.views:
        kind = kinds[view.kind]
        if kind.kept_by_engine and kind.copies and not view.where and not view.unique:
            indexes[view.entity].append(view)
    for name, some in indexes.items():
        by_key: dict[tuple[Part, ...], list[Home]] = {}
        for home in homes.of(name):
            if home.embed is None and not home.view.packed and not kinds[home.view.kind].families:
                by_key.setdefault(home.view.parts, []).append(home)
        for view in some:
            same = by_key.get(view.parts, [])
            if any(home.holds.issuperset(view.holds) for home in same):
                yield from (LinearRow({view.name: 1.0, home.view.name: 1.0}, high=1.0) for home in same)
