"""Why a pattern cannot be served, and the cheapest change to the model that would serve it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import ceil, floor

from keyplan.design.findings.hints import amount, cost_of, cost_with, whole_groups
from keyplan.design.options.goals import goal_p99
from keyplan.design.problem.build import NO_VIEW, Built, build_problem
from keyplan.engines.base import Engine
from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Param, Pattern, term_paths
from keyplan.model.types import Type
from keyplan.plan.design import Unserved

_TAKES = re.compile(r"takes ([\d.,]+) (ms|s) of ")
SLOWER = (2, 5, 10, 100)
"""How many times the time that a pattern has is tried."""
CENTS = 2
"""The digits of a decimal that is tried in place of a float."""


def explain_unserved(model: Model, engine: Engine, built: Built, advise: bool) -> dict[str, Unserved]:
    """A reason per pattern or write without a plan; with `advise` for patterns, a change that was found to help."""
    found = {}
    for name, reasons in built.unserved.items():
        pattern = model.patterns.get(name)
        change = _cheapest_change(model, engine, built, name) if advise and pattern is not None else ""
        found[name] = Unserved(_reason(reasons, change, pattern.p99_ms if pattern is not None else None), change)
    return found


def _reason(reasons: list[str], change: str, p99_ms: float | None) -> str:
    """The reason that tells most: of a pattern that would be served if it had more time, how long it takes, not what
    else is wrong with other views."""
    timed = [(_ms(*found.groups()), text) for text in reasons if (found := _TAKES.search(text))]
    if timed and p99_ms is not None and min(timed)[0] <= p99_ms * SLOWER[-1]:
        return min(timed)[1]
    if change.startswith("set consistency") and reasons == [NO_VIEW]:
        return "no view that is read strongly can find them; others follow a moment later"
    # The last rejections come from the views made for this very pattern; scans of everything come first.
    return next((text for text in reversed(reasons) if "scan" not in text), reasons[-1])


def _ms(amount: str, unit: str) -> float:
    return float(amount.replace(",", "")) * (1.0 if unit == "ms" else 1000.0)


def _cheapest_change(model: Model, engine: Engine, built: Built, name: str) -> str:
    """Tries changes one by one, the mildest first, and re-solves only this pattern."""
    pattern = model.patterns[name]
    for text, other in _changes(model, pattern):
        changed = other.patterns[name]
        trial = _alone(other, engine, changed)
        if name in trial.unserved:
            continue
        slower = changed.p99_ms if changed.p99_ms != pattern.p99_ms else None
        if slower is not None:
            changed = _least_p99(model, engine, pattern, changed, trial)
            text = f"raise p99 to {changed.p99_ms:g}ms"
        same = other.entities is model.entities
        value = cost_with(built, changed) if same else cost_of(other, engine, name)
        if value is None and slower is not None and slower != changed.p99_ms:
            # By itself it would be served within less; beside the others it takes views that may be slower.
            text, value = f"raise p99 to {slower:g}ms", cost_with(built, replace(changed, p99_ms=slower))
        if value is not None:
            return f"{text}; the whole design would cost {amount(value)} {_unit(model, engine)}"
    return ""


def _unit(model: Model, engine: Engine) -> str:
    return engine.costs(model).unit


def _alone(model: Model, engine: Engine, pattern: Pattern) -> Built:
    """The problem with this pattern only."""
    return build_problem(replace(model, patterns={pattern.name: pattern}, transactions={}), engine)


def _least_p99(model: Model, engine: Engine, pattern: Pattern, changed: Pattern, served: Built) -> Pattern:
    """The pattern with the least whole number of milliseconds that serves it, if `changed` does with more."""
    assert pattern.p99_ms is not None
    assert changed.p99_ms is not None
    low, high = floor(pattern.p99_ms), ceil(changed.p99_ms)
    if low < 1 or high != changed.p99_ms:
        return changed  # less than a millisecond is told as it is

    def is_served(milliseconds: int) -> bool:
        trial = replace(pattern, p99_ms=float(milliseconds))
        return pattern.name not in _alone(model, engine, trial).unserved

    guess = ceil(max((goal_p99(root.goal) for root in served.problem.roots if root.name == pattern.name), default=high))
    while high - low > 1:
        middle = guess if low < guess < high else (low + high) // 2
        low, high = (low, middle) if is_served(middle) else (middle, high)
        guess = high - 1 if high == guess else 0
    return replace(pattern, p99_ms=float(high))


def _changes(model: Model, pattern: Pattern) -> Iterator[tuple[str, Model]]:
    """The mildest first: what is asked in another form, said of the data, done without, asked less often."""
    for text, changed in _milder(pattern):
        yield text, _with(model, changed)
    yield from _of_data(model, pattern)
    for text, changed in (*_harder(pattern), *_one_group(model, pattern)):
        yield text, _with(model, changed)


def _with(model: Model, pattern: Pattern) -> Model:
    return replace(model, patterns={**model.patterns, pattern.name: pattern})


def _milder(pattern: Pattern) -> list[tuple[str, Pattern]]:
    changes: list[tuple[str, Pattern]] = []
    milder = whole_groups(pattern)
    if milder is not None:
        changes.append(milder)
    if pattern.p99_ms is not None:
        for factor in SLOWER:
            slower = pattern.p99_ms * factor
            changes.append((f"raise p99 to {slower:g}ms", replace(pattern, p99_ms=slower)))
    if pattern.consistency == "strong":
        changes.append(("set consistency to eventual", replace(pattern, consistency="eventual")))
    if pattern.order:
        changes.append(("drop the order", replace(pattern, order=())))
    return changes


def _harder(pattern: Pattern) -> list[tuple[str, Pattern]]:
    changes: list[tuple[str, Pattern]] = []
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


def _of_data(model: Model, pattern: Pattern) -> Iterator[tuple[str, Model]]:
    """Sums of floats cannot be kept, because they drift as they are added to and taken from; those of decimals can."""
    floats = sorted(
        {
            path.column
            for compute in pattern.compute
            if compute.how in ("sum", "avg")
            for path in term_paths(compute.term)
            if not path.roles and model.column(pattern.entity, path).type.kind == "float"
        }
    )
    if floats:
        names = " and ".join(f"'{name}'" for name in floats)
        text = f"make {names} of '{pattern.entity}' decimal({CENTS}), whose sums can be kept exactly"
        yield text, _as_decimals(model, pattern.entity, floats)


def _one_group(model: Model, pattern: Pattern) -> Iterator[tuple[str, Pattern]]:
    """A part of all rows at a call, where nothing but everything would have to be read."""
    asked = [group.path for group in pattern.group if group.cut is None]
    asked += [term.path for term in pattern.order if pattern.kind == "find"]
    named = {str(condition.path) for condition in pattern.where}
    forms = [("", pattern)]
    if pattern.p99_ms is not None:
        forms.append((", and drop p99", replace(pattern, p99_ms=None)))
    for path in dict.fromkeys(asked):
        if str(path) in named or path.roles or model.column(pattern.entity, path).computed is not None:
            continue
        given = Condition(path, "=", (Param(path.column),))
        for text, form in forms:
            yield f"ask for one '{path}' at a call ({given}){text}", replace(form, where=(*form.where, given))


def _as_decimals(model: Model, entity: str, names: list[str]) -> Model:
    here = model.entities[entity]
    exact = Type("decimal", scale=CENTS)
    changed = replace(
        here,
        fields={name: replace(one, type=exact) if name in names else one for name, one in here.fields.items()},
        columns={name: replace(one, type=exact) if name in names else one for name, one in here.columns.items()},
    )
    return replace(model, entities={**model.entities, entity: changed})
