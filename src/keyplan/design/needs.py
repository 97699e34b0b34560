"""Needs: rows of an entity, given conditions, in an order, with the paths that are wanted of each.

Patterns are needs; so is every lookup that a write makes. Options answer needs, and may raise needs of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import Compute, Condition, Group, Order, Outer, Path, Pattern, Select, Term


@dataclass(frozen=True)
class FoldSpec:
    """What is aggregated over the rows of a need."""

    group: tuple[Group, ...]
    compute: tuple[Compute, ...]


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
    """The pattern's `rows`: no estimate goes below it."""
    fold: FoldSpec | None = None


def path_of(text: str, model: Model, entity: str) -> Path:
    """The path that a canonical dotted text stands for."""
    here = model.entities[entity]
    if text in here.columns:
        return Path((), text)
    for role in here.roles.values():
        if text.startswith(role.name + "."):
            inner = path_of(text[len(role.name) + 1 :], model, role.entity)
            return Path((role.name, *inner.roles), inner.column)
    raise KeyError(text)


def need_of_pattern(model: Model, pattern: Pattern) -> Need:
    """The need that a pattern is."""
    strong = pattern.consistency == "strong"
    at_least = pattern.rows or 0.0
    if pattern.kind == "aggregate":
        paths = {str(group.path) for group in pattern.group}
        for compute in pattern.compute:
            paths.update(str(path) for path in term_paths(compute.term))
        fold = FoldSpec(pattern.group, pattern.compute)
        wants = wanted(model, pattern.entity, paths)
        return Need(pattern.entity, pattern.where, wants, strong=strong, at_least=at_least, fold=fold)
    if pattern.kind == "rank":
        wants = wanted(model, pattern.entity, {str(order.path) for order in pattern.order})
        return Need(pattern.entity, pattern.where, wants, order=pattern.order, strong=strong, at_least=at_least)
    paths, trees = select_paths(model, pattern.entity, pattern.select)
    paths |= {str(order.path) for order in pattern.order}
    return Need(
        pattern.entity,
        pattern.where,
        wanted(model, pattern.entity, paths),
        tuple(trees),
        pattern.order,
        None if pattern.one else (pattern.limit or pattern.page),
        strong,
        at_least,
    )


def rank_target_need(model: Model, pattern: Pattern) -> Need:
    """The row whose rank is asked for."""
    need = need_of_pattern(model, pattern)
    return replace(need, given=(*pattern.of, *pattern.where), order=(), limit=None, at_least=0.0)


def row_by_key(model: Model, entity: str, wants: Iterable[str], *, prefix: str = "", strong: bool = False) -> Need:
    """One row, its key taken from the columns `prefix + column` of the row it is read for."""
    key = model.entities[entity].key
    given = tuple(Condition(Path((), column), "=", (Outer(prefix + column),)) for column in key)
    return Need(entity, given, wanted(model, entity, wants), strong=strong)


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


def computed_need(model: Model, entity: str, column: str, strong: bool) -> Need:
    """The aggregate behind a computed column, for the key of the row at hand."""
    computed = model.entities[entity].columns[column].computed
    assert computed is not None
    step = model.entities[entity].roles[computed.role]
    key = model.entities[entity].key
    given = tuple(
        Condition(Path((), there), "=", (Outer(here),)) for there, here in zip(step.columns, key, strict=True)
    )
    term = Term(path=Path((), computed.column)) if computed.column else None
    kind = model.entities[entity].columns[column].type
    fold = FoldSpec((), (Compute(column, computed.how, term, kind),))
    wants = wanted(model, step.entity, {computed.column} if computed.column else set())
    return Need(step.entity, given, wants, strong=strong, fold=fold)


def term_paths(term: Term | None) -> set[Path]:
    """The fields that an expression reads."""
    if term is None:
        return set()
    found = {term.path} if term.path is not None else set()
    return found | term_paths(term.left) | term_paths(term.right)


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


def wanted(model: Model, entity: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Paths with the key added, and the expiry of every row on the way; sorted, so that equal needs are equal."""
    here = model.entities[entity]
    found = set(paths) | set(here.key)
    if EXPIRES in here.columns:
        found.add(EXPIRES)
    for text in list(found):
        path = path_of(text, model, entity)
        for length in range(1, len(path.roles) + 1):
            owner = model.entities[model.entity_at(entity, path.roles[:length])]
            if EXPIRES in owner.columns:
                found.add(".".join((*path.roles[:length], EXPIRES)))
    return tuple(sorted(found))
