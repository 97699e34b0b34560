"""Subsets: the first children of each parent kept with it (`Embed.limit`), the rest only where they live.

A pattern that takes children with an order and a limit can be answered from a subset in that order that keeps as many.
It keeps no more than the largest limit that is asked for: every row more would be carried by each write, and one that
goes is followed by the next one in the same atomic change, however many there are.

Children that expire are never kept so: one that is out of date would have to be replaced by one that nobody wrote. Nor
are children that are rows of the same entity, or an order in which a row may have no place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp

from keyplan.design.needs.computed import is_keyable
from keyplan.design.needs.need import Need, held_paths, select_paths, wanted
from keyplan.design.statistics.derived import Statistics
from keyplan.model.entity import Role
from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Order, Outer, Path, Select
from keyplan.plan.children import is_kept_order, total_order
from keyplan.plan.view import Embed, Part

Orders = Mapping[tuple[Part, ...], int]
"""Orders of children, and how many of them are wanted at most."""


def asked_orders(
    model: Model, entity: str, needs: Iterable[Need], *, expiring: bool = False
) -> dict[str, dict[tuple[Part, ...], int]]:
    """Per to-many role: the orders in which needs take the first children of a row, and how many they take; on request
    also of children that expire, which are read so, but not kept."""
    found: dict[str, dict[tuple[Part, ...], int]] = {}
    for need in needs:
        for tree in need.trees if need.entity == entity else ():
            sort = None if "." in tree.role else subset_sort(model, entity, tree.role, tree.select, expiring=expiring)
            if sort is not None and tree.select.limit is not None:
                limits = found.setdefault(tree.role, {})
                limits[sort] = max(limits.get(sort, 0), tree.select.limit)
    return found


def subset_sort(
    model: Model, entity: str, name: str, select: Select, *, expiring: bool = False
) -> tuple[Part, ...] | None:
    """The sort key of a subset that has the first children as they are selected; None if there can be none."""
    role = model.entities[entity].roles[name]
    child = model.entities[role.entity]
    fewer = select.limit is not None and (role.most is None or select.limit < role.most)
    if not fewer or (child.ttl is not None and not expiring) or role.entity == entity:
        return None
    columns = child.columns
    parts = []
    for term in total_order(child.key, select.order):
        if term.path.roles or not is_keyable(model, role.entity, term.path):
            return None
        column = columns[term.path.column]
        if column.optional or column.computed is not None or not column.type.is_ordered:
            return None
        if column.name not in role.columns:
            parts.append(Part(column.name, descending=term.descending))
    return tuple(parts) or None  # a reference that is the whole key leads from one child at most


def first_children(
    model: Model,
    entity: str,
    embeds: Sequence[Embed],
    orders: Mapping[str, Orders],
    needs: Iterable[Need],
    copyable: Callable[[str, str], bool],
    copied: bool,
) -> list[tuple[Embed, ...]]:
    """The embeds with only the first children of some roles, in each of the orders that they are asked for; and these
    alone, because the others may be more than can be kept."""
    found: list[tuple[Embed, ...]] = []
    able = {embed.role: list(orders[embed.role].items()) for embed in embeds if embed.role in orders}
    for number in range(max(map(len, able.values()), default=0)):
        first: dict[str, Embed] = {}
        for role, sorts in able.items():
            sort, limit = sorts[min(number, len(sorts) - 1)]
            first[role] = _subset(model, entity, role, sort, limit, needs, copyable if copied else None)
        found.append(tuple(first.get(embed.role, embed) for embed in embeds))
        found.append(tuple(first.values()))
    return found


def _subset(
    model: Model,
    entity: str,
    name: str,
    sort: tuple[Part, ...],
    limit: int,
    needs: Iterable[Need],
    copyable: Callable[[str, str], bool] | None,
) -> Embed:
    """The first children, with all that is wanted of them in this order; of other rows, what can be copied."""
    role = model.entities[entity].roles[name]
    child = model.entities[role.entity]
    held = {*child.key, *role.columns, *(part.path for part in sort)}
    trees = (tree for need in needs for tree in need.trees if tree.role == name)
    for tree in trees:
        if subset_sort(model, entity, name, tree.select) == sort:
            asked, _ = select_paths(model, role.entity, tree.select)
            # What is computed of grandchildren is not kept inside: their writes would have to find it there.
            held |= {text for text in asked if text in child.stored}
            if copyable is not None:
                held |= {text for text in asked if text not in child.columns and copyable(role.entity, text)}
    return Embed(name, role.entity, sort, held_paths(model, role.entity, held), limit=limit)


def serves(model: Model, entity: str, embed: Embed, select: Select) -> bool:
    """Whether an embed has all children that are selected: every one, or the first ones in the same order."""
    if embed.limit is None:
        return True
    if select.limit is None or select.limit > embed.limit:
        return False
    role = model.entities[entity].roles[embed.role]
    held = set(model.entities[role.entity].stored) - set(embed.holds)
    references = {c for name in select.roles for c in model.entities[role.entity].roles[name].columns}
    return is_kept_order(model, entity, embed, select) and held.isdisjoint({*select.columns, *references})


def refill_need(model: Model, entity: str, embed: Embed) -> Need:
    """The first whole children of a row, one more than a subset keeps: the next one is among them when one goes."""
    assert embed.limit is not None
    return _first_children(model, entity, embed.role, embed.sort, embed.limit + 1)


def refill_needs(model: Model, need: Need) -> Iterable[Need]:
    """What subsets that would answer a need's trees are refilled by."""
    for name, orders in asked_orders(model, need.entity, [need]).items():
        for sort, limit in orders.items():
            yield _first_children(model, need.entity, name, sort, limit + 1)


def _first_children(model: Model, entity: str, name: str, sort: tuple[Part, ...], limit: int) -> Need:
    role: Role = model.entities[entity].roles[name]
    pairs = zip(role.columns, model.entities[entity].key, strict=True)
    given = tuple(Condition(Path((), there), "=", (Outer(here),)) for there, here in pairs)
    order = tuple(Order(Path((), part.path), part.descending) for part in sort)
    wants = wanted(model, role.entity, model.entities[role.entity].stored)
    return Need(role.entity, given, wants, (), order, limit, strong=True)


def chance_of_refill(statistics: Statistics, entity: str, embed: Embed, *, all_go: bool = False) -> float:
    """How often a child that goes was kept in a subset that has no room left, as if any of them could go, or all did.

    The numbers of children are taken to be spread as widely as such numbers are: exponentially.
    """
    assert embed.limit is not None
    many = max(statistics.fan_out(entity, embed.role), 1e-9)
    kept = 1.0 if all_go else min(1.0, embed.limit / many)
    return kept * exp(-embed.limit / many)
