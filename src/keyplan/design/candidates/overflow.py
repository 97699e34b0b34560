"""Overflow: children of which most rows have few and some have far too many for one value.

A row keeps the first ones by their key (`Embed.limit`), as many as nearly every row has. So one that is not full has
all of them, whatever order they are wanted in; where it is full there may be more, and all are read from where they
live. It is a subset by another name, kept exact as one: only what it is read for differs.

Such forms are tried where a row cannot keep all its children, of a few lengths each: what is best among these, and
whether any is better than keeping all children apart, follows from costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import exp, inf, log10

from keyplan.design.needs.need import Need
from keyplan.design.statistics.derived import Statistics, zipf_top
from keyplan.model.entity import Role
from keyplan.model.model import Model
from keyplan.model.pattern import Path, Select
from keyplan.plan.view import Embed, View

LENGTHS = (1.0, 3.0, 10.0)
"""How many times the average number of children there is room for. Of numbers that are spread exponentially, 37 %,
5 % and next to none are greater."""
SHORTEST = 5
"""Room for fewer is not worth a second place."""

Wanted = Mapping[tuple[str, str], float]
"""Per entity and to-many role: the most children that are wanted with a row."""


def most_wanted(needs: Iterable[Need]) -> dict[tuple[str, str], float]:
    """How many children are wanted at most; without a limit, all of them."""
    found: dict[tuple[str, str], float] = {}
    for need in needs:
        for tree in need.trees:
            at = (need.entity, tree.role)
            found[at] = max(found.get(at, 0.0), inf if tree.select.limit is None else float(tree.select.limit))
    return found


def overflowing(statistics: Statistics, view: View, roles: Iterable[str], wanted: Wanted) -> Iterator[View]:
    """The view with room for some numbers of children of these roles; nothing, if there is none for one of them."""
    chosen: dict[str, list[int]] = {}
    for role in roles:
        embed = view.embed_at((role,))
        assert embed is not None
        chosen[role] = lengths(statistics, view.entity, embed, wanted.get((view.entity, role), 0.0))
        if not chosen[role]:
            return
    for number in range(max(map(len, chosen.values()), default=0)):
        yield replace(
            view,
            embeds=tuple(
                replace(embed, limit=chosen[embed.role][min(number, len(chosen[embed.role]) - 1)])
                if embed.role in chosen
                else embed
                for embed in view.embeds
            ),
        )


def lengths(statistics: Statistics, entity: str, embed: Embed, wanted: float) -> list[int]:
    """The numbers of children that are tried; none for those that no subset can be kept of."""
    model = statistics.model
    role = model.entities[entity].roles[embed.role]
    if model.entities[role.entity].ttl is not None or role.entity == entity or not embed.sort or embed.embeds:
        return []
    mean = max(1.0, statistics.fan_out(entity, embed.role))
    found = dict.fromkeys(max(SHORTEST, _round(mean * times)) for times in LENGTHS)
    return [length for length in found if length < min(wanted, role.most or inf)]


def _round(number: float) -> int:
    """The next number that people would name: 1, 2 or 5 with zeros."""
    digits = 10 ** int(log10(max(1.0, number)))
    return next(int(digits * first) for first in (1, 2, 5, 10) if digits * first >= number - 1e-9)


def begins(model: Model, entity: str, embed: Embed, select: Select) -> bool:
    """Whether an embed has all children that are selected, unless it is full."""
    if embed.limit is None or (select.limit is not None and select.limit <= embed.limit):
        return False
    child = model.entities[model.entities[entity].roles[embed.role].entity]
    if any(term.path.roles for term in select.order):
        return False
    needed = {*select.columns, *(c for name in select.roles for c in child.roles[name].columns)} & set(child.stored)
    return {*needed, *(term.path.column for term in select.order)} <= set(embed.holds)


def chance_of_more(statistics: Statistics, entity: str, embed: Embed) -> float:
    """How often a row that is read has as many children as are kept with it.

    Numbers of children are taken to be spread exponentially, but for the giants that `max`, `top` or `skew` tell of.
    These are read as often as they have children, or as the most popular row is, if that is more.
    """
    assert embed.limit is not None
    model = statistics.model
    role = model.entities[entity].roles[embed.role]
    usual = exp(-embed.limit / max(statistics.fan_out(entity, embed.role), 1e-9))
    return min(1.0, usual + _giants(statistics, entity, role, embed.limit))


def _giants(statistics: Statistics, entity: str, role: Role, limit: int) -> float:
    """The share of reads that go to rows with far more children than usual."""
    child = statistics.model.entities[role.entity]
    here = statistics.model.entities[entity]
    top = min(statistics.hottest_share(role.entity, Path((), column)) for column in role.columns)
    largest = top * statistics.rows(role.entity)
    if largest < limit:
        return 0.0
    share = top
    skew = child.fields[role.field].skew if role.field in child.fields else None
    if skew:
        many = min(statistics.rows(entity), (largest / limit) ** (1 / skew))
        share = top / zipf_top(many, skew)
    read = here.top or (zipf_top(statistics.rows(entity), here.skew) if here.skew else 0.0)
    return max(share, read)


def rows_if_more(statistics: Statistics, entity: str, embed: Embed) -> float:
    """How many children a row has on average that has as many as are kept with it.

    Those of giants are not counted: they are read wherever they are, so that they make no difference to the choice.
    """
    assert embed.limit is not None
    return embed.limit + statistics.fan_out(entity, embed.role)
