"""Why a pattern cannot be served, and the cheapest change to the model that would serve it."""

from __future__ import annotations

from dataclasses import replace

from keyplan.design.build import Built, build_problem
from keyplan.design.hints import amount, cost_with, whole_groups
from keyplan.engines.base import Engine
from keyplan.model.model import Model
from keyplan.model.pattern import Pattern
from keyplan.plan.design import Unserved


def explain_unserved(model: Model, engine: Engine, built: Built, advise: bool) -> dict[str, Unserved]:
    """A reason per pattern or write without a plan; with `advise` for patterns, a change that was found to help."""
    found = {}
    for name, reasons in built.unserved.items():
        # The last rejections come from the views made for this very pattern; scans of everything come first.
        reason = next((text for text in reversed(reasons) if "scan" not in text), reasons[-1])
        change = _cheapest_change(model, engine, built, name) if advise and name in model.patterns else ""
        found[name] = Unserved(reason, change)
    return found


def _cheapest_change(model: Model, engine: Engine, built: Built, name: str) -> str:
    """Tries changes one by one, the mildest first, and re-solves only this pattern."""
    pattern = model.patterns[name]
    for text, changed in _changes(pattern):
        alone = replace(model, patterns={name: changed}, transactions={})
        if name not in build_problem(alone, engine).unserved:
            value = cost_with(built, changed)
            return (
                text
                if value is None
                else f"{text}; the whole design would cost {amount(value)} {engine.costs(model).unit}"
            )
    return ""


def _changes(pattern: Pattern) -> list[tuple[str, Pattern]]:
    changes: list[tuple[str, Pattern]] = []
    milder = whole_groups(pattern)
    if milder is not None:
        changes.append(milder)
    if pattern.p99_ms is not None:
        for factor in (2, 5, 10, 100):
            slower = pattern.p99_ms * factor
            changes.append((f"raise p99 to {slower:g}ms", replace(pattern, p99_ms=slower)))
    if pattern.consistency == "strong":
        changes.append(("set consistency to eventual", replace(pattern, consistency="eventual")))
    if pattern.order:
        changes.append(("drop the order", replace(pattern, order=())))
    if pattern.p99_ms is not None:
        changes.append(("drop p99", replace(pattern, p99_ms=None)))
    for factor in (2, 10, 100, 1000):
        fewer = pattern.traffic.rate / factor
        text = f"ask less often, {fewer:.3g}/s (answers can be cached)"
        calm = replace(pattern, traffic=replace(pattern.traffic, rate=fewer))
        changes.append((text, calm))
        if pattern.p99_ms is not None:
            changes.append((f"{text}, and drop p99", replace(calm, p99_ms=None)))
    return changes
