"""Views that the engine keeps over certain views of ours only.

*Local* ones are another order of the entries of a view, under the same partition; those *inside* find rows that are
embedded in others by one of their columns, and by columns of the row that they are inside of; *totals* are kept with
the values of a packed view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from keyplan.design.candidates.carrying import Base, carrying_bases
from keyplan.design.candidates.match import child_view
from keyplan.design.candidates.required import homes_inside, is_home
from keyplan.design.candidates.totals import kept_with
from keyplan.engines.base import Kind
from keyplan.engines.work import LinearRow
from keyplan.model.model import Model, path_of
from keyplan.plan.view import Embed, Part, View


def bases_of(model: Model, kinds: Mapping[str, Kind], local: View, views: Iterable[View]) -> list[Base]:
    """The homes over whose entries a local view can be kept, whole rows under the same partition
    that carry what it copies; and the embeds over
    whose rows one inside can be kept, in the order that its key ends with; and what totals can be kept with."""
    if kinds[local.kind].inside:
        return list(_embeds(model, kinds, local, views))
    if kinds[local.kind].totals:
        return [(name, ()) for name in kept_with(model, local, views)]
    able = list(views)
    carrying = carrying_bases(model, kinds, local, able)
    same = (base for base, partition in _homes(model, kinds, local.entity, able) if partition == local.partition)
    return [base for base in same if base in carrying]


def _embeds(model: Model, kinds: Mapping[str, Kind], inside: View, views: Iterable[View]) -> Iterator[Base]:
    for view in (view for view in views if kinds[view.kind].one_value):
        for embed in view.embeds:
            if embed.entity == inside.entity and inside.entity in homes_inside(model, view):
                key = (*child_view(model, view, (embed.role,)).partition, *embed.sort)
                if inside.sort[-len(key) :] == key and _beside(model, inside) <= set(_seen(model, view, embed)):
                    yield (view.name, (embed.role,))


def _beside(model: Model, inside: View) -> set[str]:
    """The columns of their owner by which rows inside it are found, and that are had with them."""
    texts = {*inside.holds, *(part.path for part in inside.parts)}
    return {text for text in texts if path_of(text, model, inside.entity).roles}


def _seen(model: Model, view: View, embed: Embed) -> Iterator[str]:
    """The own columns that a view holds, as its embedded rows see them."""
    owner = model.entities[view.entity].roles[embed.role].field
    return (f"{owner}.{text}" for text in view.holds if not path_of(text, model, view.entity).roles)


def _homes(
    model: Model, kinds: Mapping[str, Kind], entity: str, views: Iterable[View]
) -> Iterator[tuple[Base, tuple[Part, ...]]]:
    for view in views:
        if view.entity == entity:
            if is_home(model, kinds, view) and view.sort:
                yield (view.name, ()), view.partition
        elif entity in homes_inside(model, view):
            for embed in view.embeds:
                if embed.entity == entity:
                    yield (view.name, (embed.role,)), child_view(model, view, (embed.role,)).partition


def under_partitions(model: Model, kinds: Mapping[str, Kind], local: View, views: Iterable[View]) -> list[View]:
    """The local view under each partition that a home has for it, shards included; empty if there is no home."""
    found = dict.fromkeys(
        partition
        for _, partition in _homes(model, kinds, local.entity, views)
        if tuple(part for part in partition if part.ways == 1) == local.partition
    )
    return [replace(local, partition=partition) for partition in found]


def needs_base(kind: Kind) -> bool:
    """Whether views of a kind are kept over certain others only."""
    return kind.local or kind.inside or kind.totals


def base_rows(model: Model, kinds: Mapping[str, Kind], views: Mapping[str, View]) -> Iterator[LinearRow]:
    """No view without a base."""
    for name, view in views.items():
        if needs_base(kinds[view.kind]):
            bases = bases_of(model, kinds, view, views.values())
            yield LinearRow({name: 1.0, **{base: -1.0 for base, _ in bases}}, high=0.0)


def doubled_rows(model: Model, kinds: Mapping[str, Kind], views: Mapping[str, View]) -> Iterator[LinearRow]:
    """No view of the engine's own under the very key of the rows that it is kept over: what it would have along for its
    reads, rows can hold themselves."""
    for name in model.entities:
        homes = [view for view in views.values() if view.entity == name and is_home(model, kinds, view)]
        plain = [home for home in homes if not home.packed and not kinds[home.kind].families]
        by_key: dict[tuple[Part, ...], list[View]] = {}
        for home in plain:
            by_key.setdefault(home.parts, []).append(home)
        for view in views.values():
            kind = kinds[view.kind]
            if view.entity != name or view.where or view.unique or not (kind.kept_by_engine and kind.copies):
                continue
            same = by_key.get(view.parts, [])
            if any(set(view.holds) <= set(home.holds) for home in same):
                yield from (LinearRow({view.name: 1.0, home.name: 1.0}, high=1.0) for home in same)
