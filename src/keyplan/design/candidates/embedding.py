"""Candidate homes that keep the children of a row with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, product

from keyplan.design.needs.need import Need, held_paths, select_paths
from keyplan.design.needs.subsets import Orders, asked_orders, first_children
from keyplan.engines.base import Kind
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from keyplan.plan.view import Embed, Part, View

Copyable = Callable[[str, str], bool]
"""Whether rows of an entity can repeat what a path leads to."""

INSIDE = ("", "wanted", "theirs")
"""What children under their parent copy: nothing, what is wanted of them there, and also what is wanted of them alone
where their parent is known. Inside one value there is none of the last: it would be written with every child."""
MOST_ORDERS = 6
"""Combinations of orders that the children of several roles are tried in."""


def embedding_homes(
    model: Model, kinds: Sequence[Kind], entity: str, per_entity: Mapping[str, list[Need]], copyable: Copyable
) -> Iterator[View]:
    """Homes that keep the children of the trees that needs ask for: of each role, of those asked for together, and of
    all of them."""
    needs = per_entity[entity]
    sets: dict[tuple[str, ...], None] = {}
    for need in needs:
        roles = tuple(sorted({tree.role for tree in need.trees if "." not in tree.role}))
        if roles:
            sets |= dict.fromkeys(((role,) for role in roles), None)
            sets.setdefault(roles, None)
    if len(sets) > 1:
        sets.setdefault(tuple(sorted({role for roles in sets for role in roles})), None)
    here = model.entities[entity]
    copies: set[str] = set()
    every: set[str] = set()
    for need in needs:
        asked_here = {text for text in need.wants if copyable(entity, text)}
        if need.trees:
            copies |= asked_here
        if need.trees or _fixes_key(here.key, need):
            every |= asked_here
    parts = tuple(Part(column) for column in here.key)
    asked = asked_orders(model, entity, needs)
    read = asked_orders(model, entity, needs, expiring=True)
    by_key = (need for need in needs if _fixes_key(here.key, need))
    alone = dict.fromkeys((tree.role,) for need in by_key for tree in need.trees if "." not in tree.role)
    for kind in kinds:
        # A family is found by its parent's key.
        for roles in alone if kind.families else sets:
            orders = [_child_orders(model, kind, entity, role, per_entity) for role in roles]
            directions = [read.get(role, {}) for role in roles] if kind.first_along else []
            computed = {text for text in copies if text in here.columns}
            held = dict.fromkeys(map(frozenset, (set(), computed, copies, every)))
            for sorts in _together(orders, directions):
                for copied, inside in product(held, INSIDE[:2] if kind.one_value else INSIDE):
                    embeds = tuple(map(partial(_embed, model, entity, per_entity, copyable, inside), roles, sorts))
                    holds = held_paths(model, entity, {*here.stored, *copied})
                    partition, sort = (parts, ()) if kind.partitioned else ((), parts)
                    variants = [embeds]
                    if kind.subsets:
                        variants += first_children(model, entity, embeds, asked, needs, copyable, bool(inside))
                    for variant in variants:
                        yield View("", entity, kind.name, partition, sort, holds, variant)


def _child_orders(
    model: Model, kind: Kind, entity: str, name: str, per_entity: Mapping[str, list[Need]]
) -> list[tuple[Part, ...]]:
    """The orders that children may have under their parent: as they are asked for with it or on their own, or by
    their key. Inside one value there is none to keep."""
    role = model.entities[entity].roles[name]
    wanted: list[list[Path]] = []
    if not kind.one_value:
        for need in per_entity[entity]:
            wanted += ([term.path for term in tree.select.order] for tree in need.trees if tree.role == name)
        for need in per_entity[role.entity]:
            equal = {str(c.path): c.path for c in need.given if c.op == "=" and c.cut is None}
            if set(role.columns) <= equal.keys():
                first = [path for text, path in sorted(equal.items()) if text not in role.columns]
                wanted.append(first + [term.path for term in need.order])
    rest = [column for column in model.entities[role.entity].key if column not in role.columns]
    found: dict[tuple[Part, ...], None] = {}
    for paths in (*wanted, []):
        # Children of one parent share its key. A row that lacks a part of the key would have no entry at all.
        own = [path for path in paths if not path.roles and str(path) not in role.columns]
        order = [str(path) for path in own if _always_there(model, role.entity, path)]
        found[tuple(Part(column) for column in dict.fromkeys((*order, *rest)))] = None
    return list(found)


def _fixes_key(key: tuple[str, ...], need: Need) -> bool:
    return set(key) <= {str(c.path) for c in need.given if c.op in ("=", "in") and c.cut is None}


def _together(orders: list[list[tuple[Part, ...]]], asked: Sequence[Orders]) -> Iterator[tuple[tuple[Part, ...], ...]]:
    """Combinations of the orders of some roles; for kinds with `first_along`, also with those of one role downwards in
    which its first children are `asked` for."""
    if asked and len(orders) == 1:
        yield from islice(product(_directed(orders[0], asked[0])), MOST_ORDERS)
        return
    for sorts in islice(product(*orders), MOST_ORDERS):
        yield sorts
        for number, some in enumerate(asked):
            for sort in some:
                same = [part.path for part in sort] == [part.path for part in sorts[number]]
                if same and all(part.descending for part in sort):
                    yield (*sorts[:number], sort, *sorts[number + 1 :])


def _directed(orders: list[tuple[Part, ...]], asked: Orders) -> list[tuple[Part, ...]]:
    """The orders, with those downwards that the first children are wanted in: reads begin with the parent."""
    found = dict.fromkeys(asked)
    columns = {tuple(part.path for part in sort) for sort in asked}
    return [*found, *(sort for sort in orders if tuple(part.path for part in sort) not in columns)]


def _always_there(model: Model, entity: str, path: Path) -> bool:
    column = model.column(entity, path)
    return not column.optional and column.computed is None


def _embed(
    model: Model,
    entity: str,
    per_entity: Mapping[str, list[Need]],
    copyable: Copyable,
    inside: str,
    name: str,
    sort: tuple[Part, ...],
) -> Embed:
    """The children under their parent, with copies of what can be copied, if any is to be."""
    role = model.entities[entity].roles[name]
    child = model.entities[role.entity]
    asked: set[str] = set()
    for need in per_entity[entity] if inside else ():
        for tree in need.trees:
            if tree.role == name:
                asked |= set(select_paths(model, role.entity, tree.select)[0])
    for need in per_entity[role.entity] if inside == "theirs" else ():
        if _fixes_key(role.columns, need):
            asked |= set(need.wants)
    # What is computed of grandchildren is not kept inside: their writes would have to find it there.
    given = {text for text in asked if text not in child.columns or not child.columns[text].computed}
    copies = {text for text in given if copyable(role.entity, text)}
    return Embed(name, role.entity, sort, held_paths(model, role.entity, set(child.stored) | copies))
