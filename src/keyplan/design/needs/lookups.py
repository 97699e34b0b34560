"""Every need of a model, to a fixed point: what patterns and writes ask for, and what answering it may raise."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

from keyplan.design.needs.apart import wholly_apart
from keyplan.design.needs.computed import asked_in_keys, is_followable, is_keyable
from keyplan.design.needs.listed import as_listed
from keyplan.design.needs.need import (
    Need,
    computed_needs,
    dangling,
    dependents,
    driven,
    extreme_row,
    intersected,
    is_generated,
    need_of_pattern,
    present_then_missing,
    rank_target_need,
    row_by_key,
    row_of_role,
    rows_of_role,
    wanted,
    whole_row,
)
from keyplan.design.needs.owned import owner_rows
from keyplan.design.needs.subsets import refill_needs
from keyplan.design.needs.told import told_by
from keyplan.design.statistics.derived import Statistics
from keyplan.engines.upserts import is_told_apart
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Path
from keyplan.model.write import Write, has_to_be_found, rows_along, written_entities


def all_needs(model: Model, statistics: Statistics, *, subsets: bool = False) -> Iterator[Need]:
    """Each need once, those of patterns first; with `subsets`, what these would be refilled by as well."""
    stack: list[Need] = []
    for pattern in model.patterns.values():
        stack.append(need_of_pattern(model, pattern))
        if pattern.kind == "rank":
            stack.append(rank_target_need(model, pattern))
    for write in model.writes.values():
        stack.extend(need for _, need, _ in write_lookups(model, statistics, write))
        stack.append(whole_row(model, write.entity))
    seen: set[Need] = set()
    while stack:
        need = stack.pop(0)
        if need in seen:
            continue
        seen.add(need)
        yield need
        stack.extend(_raised(model, statistics, need))
        stack.extend(refill_needs(model, need) if subsets else ())


def _raised(model: Model, statistics: Statistics, need: Need) -> Iterator[Need]:
    """The needs that answering a need may raise, whatever view is used."""
    here = model.entities[need.entity]
    if need.fold is not None:
        yield replace(need, fold=None)
        last = extreme_row(model, need)
        if last is not None:
            yield last
        yield from wholly_apart(model, need)
        yield from (row for row, _ in owner_rows(model, statistics, need))
        return
    yield row_by_key(model, need.entity, need.wants, strong=need.strong)
    asked = {*need.wants, *(str(c.path) for c in need.given if not model.is_many(need.entity, c.path.roles))}
    behind: dict[str, set[str]] = {}
    computed: list[str] = []
    for text in sorted(asked):
        path = path_of(text, model, need.entity)
        if path.roles:
            behind.setdefault(path.roles[0], set()).add(text[len(path.roles[0]) + 1 :])
        elif here.columns[text].computed is not None:
            computed.append(text)
    yield from (inner for _, inner in computed_needs(model, need.entity, computed, need.strong))
    for column in asked_in_keys(model, need):
        if is_keyable(model, need.entity, Path((), column)):
            about = here.columns[column].computed
            assert about is not None
            role = here.roles[about.role]
            yield dependents(model, role.entity, role.field)
            yield whole_row(model, need.entity)
    for name, inner in sorted(behind.items()):
        yield row_of_role(model, need.entity, name, inner, need.strong)
        yield from _followed(model, statistics, need.entity, name, inner)
        for write in model.writes.values():
            target = here.roles[name].entity
            changes = set(write.sets) | set(write.adds)
            whole = write.kind in ("upsert", "delete", "change")
            if write.entity == target and (whole or changes & inner):
                yield dependents(model, need.entity, name)
            if (
                write.kind == "create"
                and not is_generated(model, target)
                and target in written_entities(model.entities, write)
            ):
                yield dangling(model, need.entity, name)
    for tree in (*need.trees, *told_by(model, need.entity, asked, need.trees, widened=True).trees):
        chain = tree.role.split(".")
        owner = model.entity_at(need.entity, tuple(chain[:-1]))
        yield rows_of_role(model, owner, chain[-1], tree.select, need.strong)
    for first, then, _, _, _ in driven(model, statistics, need):
        yield first
        yield then
    yield from present_then_missing(model, need) or ()
    for parts, rest in intersected(model, need):
        yield from (*parts.values(), rest)


def _followed(model: Model, statistics: Statistics, entity: str, name: str, columns: Set[str]) -> Iterator[Need]:
    """What has to be looked up where computed columns behind a reference are copied."""
    target = model.entities[model.entities[entity].roles[name].entity]
    for column in sorted(columns):
        computed = target.columns[column].computed if column in target.columns else None
        if computed is not None and is_followable(model, statistics, entity, Path((name,), column)):
            role = target.roles[computed.role]
            yield dependents(model, entity, name)
            yield dependents(model, role.entity, role.field)
            yield whole_row(model, target.name)
            if not is_generated(model, target.name):
                yield dangling(model, entity, name)


def write_lookups(model: Model, statistics: Statistics, write: Write) -> list[tuple[str, Need, float]]:
    """What a write reads whatever the views are: (kind, need, times per call)."""
    found: list[tuple[str, Need, float]] = []
    here = model.entities[write.entity]
    if has_to_be_found(here, write):
        whole = wanted(model, write.entity, here.stored)
        where = as_listed(model, write.entity, write.where)
        found.append(("find", Need(write.entity, where, whole, strong=True, at_least=write.rows or 0.0), 1.0))
    elif (write.kind == "change" and not is_told_apart(model, write)) or (write.kind == "delete" and write.children):
        found.append(("old", whole_row(model, write.entity), 1.0))

    def snapshots(entity: str, times: float, parent: str = "") -> None:
        sources: dict[str, set[str]] = {}
        for item in model.entities[entity].fields.values():
            if item.source is not None:
                path = model.resolve(entity, item.source)
                if path.roles and path.roles[0] != parent:
                    sources.setdefault(path.roles[0], set()).add(str(path)[len(path.roles[0]) + 1 :])
        for role, inner in sources.items():
            found.append(("snapshot", row_of_role(model, entity, role, inner, True), times))

    times = [1.0]
    for along in rows_along(model.entities, write):
        parents = times[along.above]
        times.append(parents * statistics.fan_out(along.parent, along.role.name))
        if write.kind == "delete":
            found.append(("children", dependents(model, along.role.entity, along.role.field), parents))
        else:
            snapshots(along.role.entity, times[-1], along.role.field)
    if write.kind in ("create", "upsert"):
        snapshots(write.entity, 1.0)
    return found
