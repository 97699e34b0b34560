"""Changes of a pattern that the user may not mind, and that would make the design much cheaper: found by re-solving."""

from __future__ import annotations

from dataclasses import replace

from keyplan.design.cheapest import cheapest
from keyplan.design.describe import condition_text
from keyplan.design.problem import carried
from keyplan.engines.base import Engine
from keyplan.model.model import Model
from keyplan.model.pattern import RANGES, Pattern
from keyplan.plan.design import Design, Finding

WORTH = 0.1
"""The share of the objective that a pattern has to cost for a hint to be looked for, and that the hint has to save."""


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
    text = " and ".join(f"{condition_text(new)} in place of {condition_text(old)}" for new, old in pairs)
    return f"write {text}", replace(pattern, where=where)


def cost_with(model: Model, engine: Engine, pattern: Pattern) -> float | None:
    """What the whole design would cost with another form of one pattern; None if that is not served."""
    changed = replace(model, patterns={**model.patterns, pattern.name: pattern})
    built, solution = cheapest(changed, engine)
    if solution is None or pattern.name in built.unserved:
        return None
    return solution.value - carried(built.problem, set(solution.chosen))


def hints(model: Model, engine: Engine, design: Design) -> list[Finding]:
    """A note per dear pattern that a milder form would make much cheaper."""
    found = []
    objective = design.objective
    now = objective.value - objective.carrying
    for name, plan in design.plans.items():
        pattern = model.patterns[name]
        milder = whole_groups(pattern)
        share = plan.figures.cost * pattern.traffic.rate * objective.per_second
        if milder is None or share < WORTH * now:
            continue
        value = cost_with(model, engine, milder[1])
        if value is not None and value < now * (1 - WORTH):
            message = f"it reads {plan.figures.rows:.3g} rows at each call, because its range is finer than its groups"
            fix = f"{milder[0]}: the whole design would cost {value:.4g} {objective.unit} instead of "
            figures = {"cost": now, "would_cost": value}
            found.append(Finding("note", f"patterns.{name}", message, f"{fix}{now:.4g}", figures, pattern.line))
    return found
