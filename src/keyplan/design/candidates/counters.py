"""Candidate views with measures: an entry per group, for aggregates whose conditions and groups are parts of a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations

from keyplan.design.candidates.match import PRESENCE
from keyplan.design.needs.need import FoldSpec, Need
from keyplan.design.statistics.buckets import is_within
from keyplan.engines.base import Kind
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import RANGES, Compute, Path, Term, term_paths
from keyplan.plan.view import COUNT, FIRST_EXPIRES, VERSION, Measure, Part, View


def counters(model: Model, kinds: Sequence[Kind], need: Need) -> Iterator[View]:
    """The views whose groups answer an aggregate, of kinds that keep what it asks for."""
    if need.fold is None or not _can_be_kept(model, need, need.fold):
        return
    parts = _parts(model, need, need.fold)
    if parts is None:
        return
    equal, rest = parts
    measures = (*measures_of(need.fold.compute), *_expiry(model, need.entity))
    for kind in kinds:
        if {measure.how for measure in measures} <= set(kind.measures):
            partition, sort = (equal, rest) if kind.partitioned else ((), (*equal, *rest))
            yield View("", need.entity, kind.name, partition, sort, (), measures=measures)


def shared(kept: Sequence[View]) -> list[View]:
    """Groups under one key that answer several aggregates: all of them, and any two."""
    found: dict[View, None] = {}
    by_key: dict[View, list[View]] = {}
    for view in dict.fromkeys(kept):
        by_key.setdefault(replace(view, measures=()), []).append(view)
    for some in by_key.values():
        for views in (some, *combinations(some, 2)):
            if len(views) > 1:
                found[replace(views[0], measures=_all_measures(views))] = None
    return list(found)


def finer(kept: Sequence[View]) -> Iterator[View]:
    """Groups that answer two aggregates: those of the finer one, in the partitions of the coarser one, which adds
    them up. The open tasks of a project by state are its tasks, too."""
    for coarse, fine in permutations(kept, 2):
        if coarse.kind == fine.kind and set(coarse.parts) < set(fine.parts) and coarse.partition:
            sort = (*coarse.sort, *(part for part in fine.parts if part not in coarse.parts))
            measures = _all_measures((coarse, fine))
            if all(measure.how not in ("min", "max") for measure in measures):  # the finer groups would be as many rows
                yield replace(coarse, sort=sort, measures=measures)


def _all_measures(views: Iterable[View]) -> tuple[Measure, ...]:
    return tuple({measure.name: measure for view in views for measure in view.measures}.values())


def _can_be_kept(model: Model, need: Need, fold: FoldSpec) -> bool:
    """Whether what an aggregate depends on can be followed row by row."""
    if model.entities[need.entity].ttl is not None and (need.window is None or not always_expires(model, need.entity)):
        return False  # an expired row would stay counted; a window of which some have expired is read row by row
    paths = [condition.path for condition in need.given] + [group.path for group in fold.group]
    for compute in fold.compute:
        terms = sorted(term_paths(compute.term))
        paths += terms
        if compute.how in ("min", "max") and (compute.term is None or compute.term.path is None):
            return False  # what is worked out of several values may be larger than an engine keeps in a column
        if compute.how in ("min", "max") and (not _is_by_own_values(model, need) or any(path.roles for path in terms)):
            return False  # after a delete the rows of the group are read again, and not what stands behind them
        if compute.how in ("sum", "avg") and any(
            model.column(need.entity, path).type.kind == "float" for path in terms
        ):
            return False  # a sum that is added to and taken from drifts; one over the rows is rounded once
    for path in paths:
        if model.is_many(need.entity, path.roles) or model.column(need.entity, path).computed:
            return False
        # A row behind a reference would expire without anybody moving what counts under its values.
        if len(path.roles) > 2 or expires_on_the_way(model, need.entity, path):
            return False
    return True


def _parts(model: Model, need: Need, fold: FoldSpec) -> tuple[tuple[Part, ...], tuple[Part, ...]] | None:
    """The parts that conditions fix, and those that ranges and groups run over; None if groups cannot tell."""
    equal: list[Part] = []
    rest: list[Part] = []
    for condition in need.given:
        part = Part(str(condition.path), condition.cut)
        if condition.op in ("=", "in"):
            if part not in equal:
                equal.append(part)
        elif condition.op in RANGES and condition.op != "begins_with":
            cuts = {group.cut for group in fold.group if group.path == condition.path} - {None, condition.cut}
            if not all(is_within(condition.cut, cut) for cut in cuts):
                return None  # a range finer than its group cannot be answered from groups
            if part not in rest:
                rest.append(part)
        elif condition.op != "present":
            return None
    rest = [part for part in rest if part not in equal]  # a value may be fixed and bounded as well
    there = {str(condition.path) for condition in need.given if condition.op in PRESENCE}
    for group in fold.group:
        part = Part(str(group.path), group.cut)
        told = any(one.path == part.path and is_within(one.cut, part.cut) for one in rest if not one.or_missing)
        if part not in equal and part not in rest and not told:
            optional = bool(group.path.roles) or model.column(need.entity, group.path).optional
            rest.append(replace(part, or_missing=optional and part.path not in there))
    if {str(c.path) for c in need.given if c.op == "present"} - {part.path for part in (*equal, *rest)}:
        return None
    return tuple(equal), tuple(rest)


def expires_on_the_way(model: Model, entity: str, path: Path) -> bool:
    """Whether rows that a path leads over may expire."""
    passed = (model.entity_at(entity, path.roles[:length]) for length in range(1, len(path.roles) + 1))
    return any(model.entities[name].ttl is not None for name in passed)


def _is_by_own_values(model: Model, need: Need) -> bool:
    """Whether groups are by values of the rows themselves: then their rows can be read again after a delete."""
    assert need.fold is not None
    paths = [condition.path for condition in need.given] + [group.path for group in need.fold.group]
    asked = {str(condition.path) for condition in need.given}
    return all(
        not path.roles and (str(path) in asked or not model.column(need.entity, path).optional) for path in paths
    )


def always_expires(model: Model, entity: str) -> bool:
    """Whether every row of it has a moment at which it expires: with one that has none, its group would go too soon."""
    here = model.entities[entity]
    return here.ttl is not None and (here.ttl.since is None or not here.columns[here.ttl.since].optional)


def _expiry(model: Model, entity: str) -> tuple[Measure, ...]:
    """When the first and the last row of a group expire."""
    if model.entities[entity].ttl is None:
        return ()
    term = Term(Path((), EXPIRES))
    return Measure("min", term, FIRST_EXPIRES), Measure("max", term, EXPIRES)


def measures_of(computes: Iterable[Compute]) -> tuple[Measure, ...]:
    """The measures that answer these aggregates; an average is a sum and the count that every group has."""
    found = {COUNT: Measure("count", None, COUNT)}
    for compute in computes:
        if compute.how == "count":
            continue
        hows = ("sum", "count") if compute.how == "avg" else (compute.how,)
        for how in hows:
            name = f"{how}({term_text(compute.term)})"
            found[name] = Measure(how, compute.term, name)
            if how in ("min", "max"):
                # What goes may have been the greatest: whoever looks for the next one has to know that nothing changed.
                found[VERSION] = Measure("count", None, VERSION)
    return tuple(found.values())


def term_text(term: Term | None) -> str:
    """An expression as canonical text.

    `Term(op="*", left=quantity, right=price)` is `quantity * price`.
    """
    if term is None:
        return ""
    if term.path is not None:
        return str(term.path)
    if term.op:
        return f"({term_text(term.left)} {term.op} {term_text(term.right)})"
    return str(term.number)
