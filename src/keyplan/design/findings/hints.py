"""Changes of a pattern that the user may not mind, and that would make the design much cheaper: found by re-solving."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

from keyplan.design.findings.largest import largest_call
from keyplan.design.problem.build import Built
from keyplan.design.problem.definition import carried
from keyplan.design.program.cheapest import cheapest
from keyplan.design.program.solve import Solution, solve
from keyplan.engines.base import Engine
from keyplan.model.model import Model
from keyplan.model.pattern import RANGES, Condition, Param, Path, Pattern, Select
from keyplan.model.write import Write
from keyplan.plan.design import Design, Finding
from keyplan.plan.walk import searches

WORTH = 0.1
"""The share of the objective that a pattern has to cost for a hint to be looked for, and that the hint has to save."""
UNPROVEN = 0.02
"""The gap of a design from which on it cannot be told what another form would save; to look for it takes as long as the
design did."""
LARGE = 0.5
"""The share of an atomic request from which on a write may keep cheaper views away."""


def whole_groups(pattern: Pattern) -> tuple[str, Pattern] | None:
    """The pattern with ranges as coarse as its groups, which counters by group can answer, and how to write that.

    `created_at >= ago('30d')` begins somewhere within a day, and a sum kept by day cannot be split;
    `day(created_at) >= ago('30d')` takes that day whole.
    """
    if pattern.kind != "aggregate":
        return None
    cuts = {group.path: group.cut for group in pattern.group if group.cut is not None}
    where = tuple(
        replace(condition, cut=cuts[condition.path])
        if condition.op in RANGES and condition.cut is None and condition.path in cuts
        else condition
        for condition in pattern.where
    )
    if where == pattern.where:
        return None
    pairs = [(new, old) for new, old in zip(where, pattern.where, strict=True) if new != old]
    text = " and ".join(f"{new!s} in place of {old!s}" for new, old in pairs)
    return f"write {text}", replace(pattern, where=where)


def lasting_values(model: Model, design: Design, entity: str) -> set[str]:
    """Columns of an upserted entity that decide where its entries lie and that nobody but an upsert changes.

    A reading that is sent twice has the same time both times: said to be `immutable`, it need not be looked up before.
    """
    here = model.entities[entity]
    used = {part.path for view in design.views.values() if view.entity == entity for part in view.parts}
    changed = {
        column
        for write in model.writes.values()
        if write.entity == entity and write.kind in ("update", "change")
        for column in (*write.sets, *write.adds)
    }
    return {
        name
        for name in used & set(here.stored)
        if name not in here.key and name not in changed and not here.columns[name].immutable
    }


def _with_immutable(model: Model, entity: str, columns: set[str]) -> Model:
    here = model.entities[entity]
    fields = {here.columns[name].field for name in columns}
    changed = replace(
        here,
        fields={name: replace(one, immutable=one.immutable or name in fields) for name, one in here.fields.items()},
        columns={name: replace(one, immutable=one.immutable or name in columns) for name, one in here.columns.items()},
    )
    return replace(model, entities={**model.entities, entity: changed})


def in_two_calls(model: Model, write: Write) -> Model:
    """The model with a write over many rows by their keys, which a pattern finds before it, perhaps a moment behind."""
    key = model.entities[write.entity].key
    rate = write.traffic.rate
    where = tuple(Condition(Path((), column), "=", (Param(column),)) for column in key)
    by_key = replace(write, where=where, by_key=True, traffic=replace(write.traffic, rate=rate * (write.rows or 1.0)))
    found = Pattern(f"{write.name}.find", "find", write.entity, write.where, select=Select(key), rows=write.rows)
    found = replace(found, traffic=write.traffic, p99_ms=write.p99_ms)
    return replace(
        model,
        patterns={**model.patterns, found.name: found},
        writes={**model.writes, write.name: by_key},
    )


def cost_with(built: Built, pattern: Pattern) -> float | None:
    """What the whole design would cost with another form of one pattern; None if that is not served."""
    model = built.ground.model
    changed = replace(model, patterns={**model.patterns, pattern.name: pattern})
    return cost_of(changed, built.ground.engine, pattern.name, like=built)


def cost_of(model: Model, engine: Engine, name: str, like: Built | None = None) -> float | None:
    """What the whole design of a model costs; None if a pattern or write of it is not served."""
    built, solution = cheapest(model, engine, like=like)
    if solution is None or name in built.unserved:
        return None
    return solution.value - carried(built.problem, set(solution.chosen))


def hints(built: Built, solution: Solution, design: Design) -> list[Finding]:
    """A note per dear pattern or write that a milder form would make much cheaper."""
    if solution.gap > UNPROVEN:
        return []
    model, engine = built.ground.model, built.ground.engine
    now = design.objective.value - design.objective.carrying
    return [
        *_of_patterns(built, design, now),
        *_of_upserts(model, engine, design, now),
        *_of_wide_writes(built, design, now),
        *_of_large_writes(built, solution, design, now),
    ]


def _of_patterns(built: Built, design: Design, now: float) -> Iterator[Finding]:
    model = built.ground.model
    for name, plan in design.plans.items():
        pattern = model.patterns[name]
        milder = whole_groups(pattern)
        share = plan.figures.cost * pattern.traffic.rate * design.objective.per_second
        if milder is None or share < WORTH * now:
            continue
        value = cost_with(built, milder[1])
        if value is not None and value < now * (1 - WORTH):
            message = f"it reads {plan.figures.rows:.3g} rows at each call, because its range is finer than its groups"
            yield _told(f"patterns.{name}", message, milder[0], now, value, design)


def _of_upserts(model: Model, engine: Engine, design: Design, now: float) -> Iterator[Finding]:
    for name, plan in design.writes.items():
        write = model.writes[name]
        columns = lasting_values(model, design, write.entity) if write.kind == "upsert" else set()
        share = plan.figures.cost * write.traffic.rate * design.objective.per_second
        if not columns or share < WORTH * now:
            continue
        value = cost_of(_with_immutable(model, write.entity, columns), engine, name)
        if value is not None and value < now * (1 - WORTH):
            names = " and ".join(f"'{column}'" for column in sorted(columns))
            message = f"an upsert may bring another {names} for a row that is there, which its entries then follow"
            fix = f"mark {names} of '{write.entity}' immutable, if it is always the same for the same key"
            yield _told(f"writes.{name}", message, fix, now, value, design)


def _of_wide_writes(built: Built, design: Design, now: float) -> Iterator[Finding]:
    """Writes whose rows have to be found as they are at that moment, by what is kept up to date at a high price."""
    model, kinds = built.ground.model, built.ground.engine.kinds
    if all(kind.strong for kind in kinds.values()):
        return
    homes = {name for name, _ in design.homes.values()}
    for name, plan in design.writes.items():
        used = {search.view for search in searches(plan.find)} - homes if plan.find is not None else set()
        # What a view costs is also that the calls which keep it true are transactions.
        keep = sum(
            other.figures.cost * model.writes[by].traffic.rate * design.objective.per_second
            for by, other in design.writes.items()
            if any(touch.view in used for touch in other.touches)
        )
        if keep < WORTH * now:
            continue
        write = model.writes[name]
        value = cost_of(in_two_calls(model, write), built.ground.engine, name)
        if value is not None and value < now * (1 - WORTH):
            views = " and ".join(f"'{view}'" for view in sorted(used))
            message = f"its rows are looked for in {views}, because they have to be found as they are at that moment"
            fix = f"find their keys by a pattern, which may be a moment behind, and {write.kind} each row by its key"
            yield _told(f"writes.{name}", message, fix, now, value, design)


def _of_large_writes(built: Built, solution: Solution, design: Design, now: float) -> Iterator[Finding]:
    """Writes that fill an atomic request so far that cheaper views do not fit into it."""
    problem, most = built.problem, built.ground.costs.atomic_entries
    if most is None:
        return

    def together(write: str, chosen: Set[str]) -> float:
        return largest_call(built.ground.model, problem, write, chosen).entries

    large = [name for name in problem.rates if LARGE * most < together(name, solution.chosen) <= most]
    if not large:
        return
    loose = problem.under(built.couplings)
    # Whether it is the cheapest of all does not matter: it would be there for that price.
    relaxed = solve(loose, below=now * (1 - WORTH), proven=False)
    if relaxed is None:
        return
    value = relaxed.value - carried(loose, set(relaxed.chosen))
    if value >= now * (1 - WORTH):
        return
    for name in large:
        entries = together(name, relaxed.chosen)
        if entries > most:
            here = together(name, solution.chosen)
            message = (
                f"a call changes up to {here:.0f} entries, and an atomic request at most {most}: cheaper views, with "
                f"which it would be {entries:.0f}, are not possible"
            )
            fix = "write fewer rows in one call, or lower the 'max' of what is written or follows"
            yield _told(f"writes.{name}", message, fix, now, value, design)


def _told(path: str, message: str, fix: str, now: float, value: float, design: Design) -> Finding:
    fix = f"{fix}: the whole design would cost {amount(value)} {design.objective.unit} instead of {amount(now)}"
    return Finding("note", path, message, fix, {"cost": now, "would_cost": value})


def amount(value: float) -> str:
    """A cost, to be read."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
