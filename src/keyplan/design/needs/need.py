"""Needs: rows of an entity, given conditions, in an order, with the paths that are wanted of each.

Patterns are needs; so is every lookup that a write makes. Options answer needs, and may raise needs of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import ceil

from keyplan.design.needs.listed import as_listed
from keyplan.design.needs.presence import may_be_missing
from keyplan.design.needs.sought import Sought
from keyplan.design.statistics.derived import Statistics
from keyplan.model.entity import EXPIRES, Role
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import (
    RANGES,
    Compute,
    Condition,
    Group,
    Order,
    Outer,
    Path,
    Pattern,
    Select,
    Term,
    term_paths,
)
from keyplan.plan.dangling import absence
from keyplan.plan.view import Part, View

Conditions = tuple[Condition, ...]


@dataclass(frozen=True)
class FoldSpec:
    """What is aggregated over the rows of a need."""

    group: tuple[Group, ...]
    compute: tuple[Compute, ...]


@dataclass(frozen=True)
class Window:
    """Windows of time: what the moment `path` is cut to."""

    path: str
    cut: str
    share: float
    """The share of all windows that are asked for on average."""


@dataclass(frozen=True)
class Tree:
    """Child rows wanted with each row."""

    role: str
    """A dotted chain of roles; the last is to-many."""
    select: Select


@dataclass(frozen=True)
class Need:
    """See the module."""

    entity: str
    given: tuple[Condition, ...]
    wants: tuple[str, ...]
    trees: tuple[Tree, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    strong: bool = False
    at_least: float = 0.0
    """The pattern's `rows`: no estimate goes below it, whatever part of the conditions it is of."""
    fewer: float = 1.0
    """What share of the rows that the counts imply there are by the pattern's `rows`, of all its conditions together.
    Which of them are met more rarely than the counts say is not known: what meets only some is not fewer."""
    fold: FoldSpec | None = None
    buckets: tuple[str, str] | None = None
    """Not the rows are wanted, but which time buckets they lie in: (path, cut)."""
    window: Window | None = None
    """With `fold`: the measures of whole windows are wanted as they are kept, to be merged with others."""
    when_many: float = 0.0
    """It is asked for only where there are many rows: so many on average, whatever the usual number is."""
    implied: tuple[Condition, ...] = ()
    """What is known of all rows that meet `given`, so that a view of just those rows will do. In the ordinary course
    there are none of them."""
    scanned: bool = False
    """Where nothing finds them, everything is read, whatever that takes."""
    known: Set[str] = frozenset()
    """Of one row that is given by its key: what the row that it is read for has of it besides, and never changes. A
    place whose key has that in it as well can be asked by it."""

    @cached_property
    def sought(self) -> Sought:
        return Sought(self.entity, self.given, self.order, self.at_least, self.fewer, self.implied, self.scanned)

    def __hash__(self) -> int:
        """Worked out once: what is found for a need is remembered under it, and asked for again and again."""
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            asked = (self.entity, self.given, self.wants, self.trees, self.order, self.limit, self.strong)
            more = (self.at_least, self.fewer, self.fold, self.buckets, self.window, self.when_many)
            known = self.__dict__["_hash"] = hash((asked, more, self.implied, self.scanned, self.known))
        return known


def need_of_pattern(model: Model, pattern: Pattern) -> Need:
    """The need that a pattern is."""
    # A session sees its own writes: a place that may lag behind cannot promise that either.
    strong = pattern.consistency != "eventual"
    at_least = pattern.rows or 0.0
    where = as_listed(model, pattern.entity, pattern.where)
    if pattern.kind == "aggregate":
        paths = {str(group.path) for group in pattern.group}
        for compute in pattern.compute:
            paths.update(str(path) for path in term_paths(compute.term))
        fold = FoldSpec(pattern.group, pattern.compute)
        wants = wanted(model, pattern.entity, paths)
        return Need(pattern.entity, where, wants, strong=strong, at_least=at_least, fold=fold)
    if pattern.kind == "rank":
        wants = wanted(model, pattern.entity, {str(order.path) for order in pattern.order})
        return Need(pattern.entity, where, wants, order=pattern.order, strong=strong, at_least=at_least)
    paths, trees = select_paths(model, pattern.entity, pattern.select)
    paths |= {str(order.path) for order in pattern.order}
    return Need(
        pattern.entity,
        where,
        wanted(model, pattern.entity, paths),
        tuple(trees),
        pattern.order,
        None if pattern.one else (pattern.limit or pattern.page),
        strong,
        at_least,
    )


def believed(statistics: Statistics, need: Need) -> Need:
    """The need of a pattern, whose `rows` hold also where the counts imply more."""
    if not need.at_least:
        return need
    implied = statistics.matched(need.entity, need.given)
    return replace(need, fewer=min(1.0, need.at_least / implied)) if implied else need


def rows_found(statistics: Statistics, need: Need) -> float:
    """The mean number of rows that meet all conditions of a need."""
    return statistics.matched(need.entity, need.given, need.at_least, need.fewer)


def rank_target_need(model: Model, pattern: Pattern) -> Need:
    """The row whose rank is asked for."""
    need = need_of_pattern(model, pattern)
    return replace(
        need, given=(*as_listed(model, pattern.entity, pattern.of), *need.given), order=(), limit=None, at_least=0.0
    )


def row_by_key(model: Model, entity: str, wants: Iterable[str], *, prefix: str = "", strong: bool = False) -> Need:
    """One row, its key taken from the columns `prefix + column` of the row it is read for."""
    key = model.entities[entity].key
    given = tuple(Condition(Path((), column), "=", (Outer(prefix + column),)) for column in key)
    return Need(entity, given, wanted(model, entity, wants), strong=strong)


def by_known(need: Need, parts: Iterable[Part]) -> Need:
    """The need as it is asked of a place with these parts in its key: by what is known of the row, if that is all of
    them, or else by what is given. Which shard a row is in is told by its own key."""
    given = {str(condition.path) for condition in need.given}
    asked = dict.fromkeys(part.path for part in parts if part.ways == 1 and part.path not in given)
    if not asked or not asked.keys() <= need.known:
        return need
    more = tuple(Condition(Path((), path), "=", (Outer(path),)) for path in asked)
    return replace(need, given=(*need.given, *more), known=frozenset())


def whole_row(model: Model, entity: str) -> Need:
    """The whole stored row by its key, read strongly; what writes read."""
    return row_by_key(model, entity, model.entities[entity].stored, strong=True)


def row_of_role(model: Model, entity: str, role: str, wants: Iterable[str], strong: bool) -> Need:
    """The row that a to-one role leads to."""
    step = model.entities[entity].roles[role]
    key = model.entities[step.entity].key
    pairs = zip(key, step.columns, strict=True)
    given = tuple(Condition(Path((), column), "=", (Outer(here),)) for column, here in pairs)
    return Need(step.entity, given, wanted(model, step.entity, wants), strong=strong)


def rows_of_role(model: Model, entity: str, role: str, select: Select, strong: bool) -> Need:
    """The child rows that a to-many role leads to."""
    step = model.entities[entity].roles[role]
    key = model.entities[entity].key
    given = tuple(
        Condition(Path((), there), "=", (Outer(here),)) for there, here in zip(step.columns, key, strict=True)
    )
    paths, trees = select_paths(model, step.entity, select)
    paths |= {str(order.path) for order in select.order}
    wants = wanted(model, step.entity, paths)
    return Need(step.entity, given, wants, tuple(trees), select.order, select.limit, strong)


def dependents(model: Model, entity: str, role: str) -> Need:
    """Whole rows of `entity` whose to-one role leads to a key (given as Outer key columns of the target)."""
    step = model.entities[entity].roles[role]
    key = model.entities[step.entity].key
    given = tuple(
        Condition(Path((), here), "=", (Outer(there),)) for here, there in zip(step.columns, key, strict=True)
    )
    return Need(entity, given, wanted(model, entity, model.entities[entity].stored), strong=True)


def rows_of_group(model: Model, view: View) -> Need:
    """Whole rows that count in one group of a view with measures, by the values of its key (Outer, by part)."""
    given = tuple(
        Condition(path_of(part.path, model, view.entity), "=", (Outer(str(part)),), part.cut)
        for part in view.parts
        if part.ways == 1
    )
    return Need(view.entity, given, wanted(model, view.entity, model.entities[view.entity].stored), strong=True)


def dangling(model: Model, entity: str, role: str) -> Need:
    """The dependents of a row that was not there until now."""
    condition = absence(model, entity, role)
    need = dependents(model, entity, role)
    return need if condition is None else replace(need, implied=(condition,))


def computed_needs(model: Model, entity: str, columns: Iterable[str], strong: bool) -> list[tuple[list[str], Need]]:
    """The aggregates behind computed columns, for the key of the row at hand; those over the same role are one need."""
    here = model.entities[entity]
    groups: dict[str, list[str]] = {}
    for column in sorted(columns):
        computed = here.columns[column].computed
        assert computed is not None
        groups.setdefault(computed.role, []).append(column)
    found = []
    for name, together in groups.items():
        step = here.roles[name]
        given = _links(step.columns, here.key)
        computes = []
        paths = set()
        for column in together:
            computed = here.columns[column].computed
            assert computed is not None
            term = Term(path=Path((), computed.column)) if computed.column else None
            computes.append(Compute(column, computed.how, term, here.columns[column].type))
            paths |= {computed.column} if computed.column else set()
        wants = wanted(model, step.entity, paths)
        found.append((together, Need(step.entity, given, wants, strong=strong, fold=FoldSpec((), tuple(computes)))))
    return found


def driven(model: Model, statistics: Statistics, need: Need) -> Iterator[tuple[Need, Need, float, bool, str]]:
    """Two needs in place of one with conditions behind a role: the rows there, then the rows here for each of them.

    Yields (outer, inner, inner times per outer call, whether the order survives, role).
    """
    if any(isinstance(operand, Outer) for c in need.given for operand in c.operands):
        return
    here = model.entities[need.entity]
    for name in dict.fromkeys(c.path.roles[0] for c in need.given if c.path.roles):
        role = here.roles[name]
        behind = [c for c in need.given if c.path.roles and c.path.roles[0] == name]
        rest = tuple(c for c in need.given if c not in behind)
        if any(path.roles[:1] != (name,) for c in behind for path in c.also):
            continue  # words may be here or there
        if not role.many and any(c.op == "missing" for c in behind):
            continue  # rows without such a parent count as well
        if not role.many and any(model.column(need.entity, c.path).computed for c in behind if len(c.path.roles) == 1):
            continue  # a computed column has its value even where the row is gone
        if role.many and any(model.is_many(need.entity, c.path.roles) for c in rest):
            continue  # two conditions of this kind need two such reads
        stripped = tuple(stripped_condition(c) for c in behind)
        other = model.entities[role.entity]
        found = statistics.matched(role.entity, stripped)
        if not role.many:
            links = _links(role.columns, other.key)
            outer = Need(role.entity, stripped, wanted(model, role.entity, ()), strong=need.strong)
            at_least = need.at_least / max(1.0, found)
            # The rows of several parents are merged by what orders those of each, which has to be the whole order then.
            ordering = {*here.key, *(str(term.path) for term in need.order)}
            alone = statistics.fixes_one_row(role.entity, stripped)
            if need.order and (alone or ordering.isdisjoint(role.columns)):
                yield outer, replace(need, given=(*links, *rest), at_least=at_least), max(found, 1e-6), True, name
            inner = replace(need, given=(*links, *rest), order=(), limit=None, at_least=at_least)
            yield outer, inner, max(found, 1e-6), not need.order, name
            continue
        links = _links(here.key, role.columns)
        inner = replace(need, given=(*links, *rest), order=(), limit=None, at_least=0.0)
        # What is asked of the row itself may be asked of its children as well, which then repeat it.
        for asked in dict.fromkeys((stripped, (*stripped, *_asked_of_child(model, need.entity, rest, role)))):
            found = max(statistics.matched(role.entity, asked), need.at_least)
            outer = Need(role.entity, asked, wanted(model, role.entity, role.columns), strong=need.strong)
            yield outer, inner, max(found, 1e-6), False, name
            order = _seen_from_child(model, need, role)
            if order and need.limit:
                wants = wanted(model, role.entity, {*role.columns, *(str(term.path) for term in order)})
                keep = min(1.0, rows_found(statistics, need) / max(found, 1e-9))
                limit = ceil(need.limit / max(keep, 0.01))
                # A child whose parent is gone has no order value, and no row here to lead to either.
                here_only = tuple(Condition(term.path, "present") for term in order if term.path.roles)
                given = (*asked, *here_only)
                sorted_outer = Need(role.entity, given, wants, (), order, limit, need.strong, need.at_least)
                yield sorted_outer, inner, min(found, float(limit)), True, name


def _asked_of_child(model: Model, entity: str, conditions: Iterable[Condition], role: Role) -> Iterator[Condition]:
    """Conditions on a row in terms of its children's rows, where they can repeat what it is about."""
    for condition in conditions:
        paths = (condition.path, *condition.also)
        if condition.op in ("=", *RANGES) and not any(p.roles or model.column(entity, p).computed for p in paths):
            path, *also = (model.resolve(role.entity, f"{role.field}.{one}") for one in paths)
            yield replace(condition, path=path, also=tuple(also))


def _links(columns: Sequence[str], outer: Sequence[str]) -> tuple[Condition, ...]:
    pairs = zip(columns, outer, strict=True)
    return tuple(Condition(Path((), column), "=", (Outer(path),)) for column, path in pairs)


def _seen_from_child(model: Model, need: Need, role: Role) -> tuple[Order, ...]:
    """The need's total order in terms of its children's rows; empty if they cannot tell it."""
    if not need.order or any(term.path.roles or model.column(need.entity, term.path).computed for term in need.order):
        return ()
    if any(model.column(need.entity, term.path).optional for term in need.order):
        return ()
    last = need.order[-1].descending
    named = {term.path.column for term in need.order}
    total = [
        *need.order,
        *(Order(Path((), column), last) for column in model.entities[need.entity].key if column not in named),
    ]
    return tuple(Order(model.resolve(role.entity, f"{role.field}.{term.path}"), term.descending) for term in total)


def stripped_condition(condition: Condition) -> Condition:
    """A condition as seen from the row behind its first role."""
    also = tuple(Path(path.roles[1:], path.column) for path in condition.also)
    return replace(condition, path=Path(condition.path.roles[1:], condition.path.column), also=also)


def intersected(model: Model, need: Need) -> Iterator[tuple[dict[str, Need], Need]]:
    """Parts found apart and the rows that all of them find, for conditions that no one key can or need answer together.

    Elements of sets and words of texts stand one by one in a key, so that two of them need two keys; and a row is found
    by its children of one role at a time. Two plain values could share a key, but where each has one of its own anyway,
    and rows are large or often changed, the keys that both find may be the cheaper way. Yields what finds the keys of
    the rows, by the role whose rows it finds (of rows of the entity itself, by any other name), and the rest of the
    rows.
    """
    if need.fold is not None or any(isinstance(operand, Outer) for c in need.given for operand in c.operands):
        return
    fixed = {c.path.column for c in need.given if c.op == "=" and not c.path.roles and c.cut is None}
    here = model.entities[need.entity]
    if any(set(columns) <= fixed for columns in (here.key, *here.unique)):
        return  # whatever refuses a second such row finds the one
    own = tuple(c for c in need.given if not model.is_many(need.entity, c.path.roles))
    asked = {*need.wants, *(str(path) for c in own for path in (c.path, *c.also))}
    whole = replace(row_by_key(model, need.entity, asked, strong=need.strong), trees=need.trees)
    if len(own) == len(need.given):
        keys = wanted(model, need.entity, ())
        for pair in combinations(_found_alone(model, need.entity, own), 2):
            yield {f"#{n}": Need(need.entity, some, keys, strong=need.strong) for n, some in enumerate(pair)}, whole
        return
    lists: dict[str, Conditions] = {}
    for condition in need.given:
        if condition not in own:
            lists[condition.path.roles[0]] = (*lists.get(condition.path.roles[0], ()), condition)
    if len(lists) > 1:
        for more in dict.fromkeys(((), own)):
            yield {name: _found_by(model, need, name, listed, more) for name, listed in lists.items()}, whole


def _found_alone(model: Model, entity: str, conditions: Conditions) -> list[Conditions]:
    """Conditions that a key each can answer; those on the columns of one reference are answered together."""
    columns = model.entities[entity].columns
    found: dict[object, Conditions] = {}
    for condition in conditions:
        if not condition.path.roles and condition.op in ("=", "contains", "search") and condition.cut is None:
            name = columns[condition.path.column].field if condition.op == "=" else condition
            found[name] = (*found.get(name, ()), condition)
    return list(found.values())


def _found_by(model: Model, need: Need, name: str, conditions: Conditions, own: Conditions) -> Need:
    """The rows that meet conditions behind a role and, as far as that can be asked there, on the row itself."""
    role = model.entities[need.entity].roles[name]
    if not role.many:
        return Need(need.entity, (*conditions, *own), wanted(model, need.entity, ()), strong=need.strong)
    given = (*map(stripped_condition, conditions), *_asked_of_child(model, need.entity, own, role))
    return Need(role.entity, given, wanted(model, role.entity, role.columns), strong=need.strong)


def present_then_missing(model: Model, need: Need) -> tuple[Need, Need] | None:
    """An order that begins with a value that may be missing: the rows that have it, then those that lack it.

    A value behind a reference may always be missing: the row that is pointed at may be gone.
    """
    if not need.order or need.fold is not None:
        return None
    first = need.order[0]
    asked = {str(c.path) for c in need.given}
    if str(first.path) in asked or model.is_many(need.entity, first.path.roles):
        return None
    is_far = model.column(need.entity, first.path).computed is not None and len(first.path.roles) > 1
    if is_far or not may_be_missing(model, need.entity, first.path):
        return None
    have = replace(need, given=(*need.given, Condition(first.path, "present")))
    rest = need.order[1:] or tuple(
        Order(Path((), column), first.descending) for column in model.entities[need.entity].key
    )
    lack = replace(need, given=(*need.given, Condition(first.path, "missing")), order=rest, at_least=0.0)
    if first.path.roles:
        # What is known to be missing need not be read.
        lack = replace(lack, wants=tuple(text for text in lack.wants if text != str(first.path)))
    return have, lack


def extreme_row(model: Model, need: Need) -> Need | None:
    """A single min or max is the first row in that order."""
    fold = need.fold
    if fold is None or fold.group or len(fold.compute) != 1 or fold.compute[0].how not in ("min", "max"):
        return None
    term = fold.compute[0].term
    if term is None or term.path is None or model.is_many(need.entity, term.path.roles):
        return None
    column = model.column(need.entity, term.path)
    if column.computed is not None:
        return None
    given = need.given
    asked = {str(c.path) for c in given}
    if (column.optional or term.path.roles) and str(term.path) not in asked:
        given = (*given, Condition(term.path, "present"))
    order = (Order(term.path, fold.compute[0].how == "max"),)
    return replace(need, fold=None, given=given, order=order, limit=1)


def select_paths(model: Model, entity: str, select: Select) -> tuple[set[str], list[Tree]]:
    """A select as to-one paths and trees of children."""
    paths = set(select.columns)
    trees = []
    for name, inner in select.roles.items():
        role = model.entities[entity].roles[name]
        if role.many:
            trees.append(Tree(name, inner))
            continue
        deeper, below = select_paths(model, role.entity, inner)
        for text in deeper:
            # Key parts of the target are columns here, so that they need no second row.
            paths.add(str(model.resolve(entity, f"{name}.{text}")) if not text.startswith("$") else f"{name}.{text}")
        paths.update(role.columns)
        trees.extend(Tree(f"{name}.{tree.role}", tree.select) for tree in below)
    return paths, trees


def held_paths(model: Model, entity: str, paths: Iterable[str]) -> tuple[str, ...]:
    """What a view holds for these paths: own columns in the order of the entity, then copies; expiries included."""
    return in_order(model, entity, set(wanted(model, entity, paths)))


def in_order(model: Model, entity: str, paths: Set[str]) -> tuple[str, ...]:
    """Own columns first, in the order of the entity, then copies by name."""
    own = [column for column in model.entities[entity].columns if column in paths]
    return (*own, *sorted(paths - set(own)))


def wanted(model: Model, entity: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Paths with the key added, and the expiry of every row on the way; sorted, so that equal needs are equal."""
    asked = frozenset(paths)
    found = model.known_wants.get((entity, asked))
    if found is None:
        found = model.known_wants[(entity, asked)] = _wanted(model, entity, asked)
    return found


def _wanted(model: Model, entity: str, paths: Set[str]) -> tuple[str, ...]:
    here = model.entities[entity]
    found = {*paths, *here.key}
    if EXPIRES in here.columns:
        found.add(EXPIRES)
    for text in list(found):
        path = path_of(text, model, entity)
        for length in range(1, len(path.roles) + 1):
            owner = model.entities[model.entity_at(entity, path.roles[:length])]
            if EXPIRES in owner.columns:
                found.add(".".join((*path.roles[:length], EXPIRES)))
    return tuple(sorted(found))


def is_generated(model: Model, entity: str) -> bool:
    """Whether keys of new rows are made up by the store, in the ordinary course."""
    here = model.entities[entity]
    return any(
        item.type is not None and item.type.kind in ("uuid", "ulid") and item.default is None and item.source is None
        for item in (here.fields[here.columns[column].field] for column in here.key)
    )
