"""The access-pattern table: every pattern and write with what it asks, how often, and how the design answers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyplan.design.report.document import document
from keyplan.engines import get_engine
from keyplan.engines.base import Access
from keyplan.model.model import Model
from keyplan.model.pattern import Pattern
from keyplan.plan.design import Design
from keyplan.plan.walk import searches
from keyplan.units import format_duration, format_rate


def write(model: Model, design: Design) -> Mapping[str, str]:
    """A Markdown file, to be put beside the code or into a design review."""
    return {f"{model.name}.{design.engine}.md": "\n".join(_lines(model, design)) + "\n"}


def _lines(model: Model, design: Design) -> Iterator[str]:
    found = document(model, design)
    yield f"# {model.name} on {design.engine}"
    yield ""
    accesses = _accesses(model, design)
    if accesses:
        yield from _accessed(model, found, accesses)
    else:
        yield from _told(model, found)
    yield from _writes(model, found)


def _accesses(model: Model, design: Design) -> dict[str, list[Access]]:
    """Per pattern, its searches in the engine's usual form; nothing if the engine has none."""
    engine = get_engine(design.engine)
    found: dict[str, list[Access]] = {}
    for name, plan in design.plans.items():
        ops = iter([step["op"] for step in plan.steps if "view" in step])
        each = [(search, next(ops, "") == "batch_get") for search in searches(plan.node)]
        if plan.target is not None:
            each = [*((search, False) for search in searches(plan.target)), *each]
        for search, many in each:
            access = engine.access(model, design, search, many=many)
            if access is None:
                return {}
            found.setdefault(name, []).append(access)
    return found


def _accessed(model: Model, design: Mapping[str, Any], accesses: Mapping[str, Sequence[Access]]) -> Iterator[str]:
    """A line per search; what is done with its rows stands behind it."""
    yield "| pattern | operation | key condition | index | then | rate | p99 | consistency |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, pattern in model.patterns.items():
        plan = design["patterns"][name]
        figures = " | ".join(_figures(pattern))
        if not plan["served"]:
            yield f"| {name} | unserved: {_escaped(plan['reason'])} | | | | {figures} |"
            continue
        for number, (access, after) in enumerate(_with_steps(accesses[name], plan["steps"])):
            first, last = (name, figures) if number == 0 else ("", " |  | ")
            cells = (first, access.operation, f"`{access.condition}`", access.index, "; ".join(after) or "·")
            yield f"| {' | '.join(map(_escaped, cells))} | {last} |"


def _with_steps(
    accesses: Sequence[Access], steps: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Access, Sequence[str]]]:
    """Every search once, with what is done before the next one; the lookup for a rank precedes all steps."""
    thens: list[list[str]] = []
    for step in steps:
        if "view" in step:
            thens.append([])
        elif thens:
            thens[-1] += _steps([step])
    thens = [[] for _ in accesses[len(thens) :]] + thens
    found: dict[Access, dict[str, None]] = {}
    for access, then in zip(accesses, thens, strict=False):
        found.setdefault(access, {}).update(dict.fromkeys(then))
    for access, said in found.items():
        yield access, list(said)


def _told(model: Model, design: Mapping[str, Any]) -> Iterator[str]:
    yield "| pattern | entity | rate | p99 | consistency | how |"
    yield "|---|---|---|---|---|---|"
    for name, pattern in model.patterns.items():
        plan = design["patterns"][name]
        how = f"unserved: {plan['reason']}" if not plan["served"] else "; ".join(_steps(plan["steps"]))
        yield f"| {name} | {pattern.entity} | {' | '.join(_figures(pattern))} | {_escaped(how)} |"


def _figures(pattern: Pattern) -> tuple[str, str, str]:
    p99 = format_duration(pattern.p99_ms) if pattern.p99_ms else "·"
    return format_rate(pattern.traffic.rate), p99, pattern.consistency


def _writes(model: Model, design: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "| write | entity | kind | rate | touches | how |"
    yield "|---|---|---|---|---|---|"
    for name, change in model.writes.items():
        plan = design["writes"][name]
        touches = ", ".join(dict.fromkeys(touch["on"] for touch in plan.get("touches", ())))
        how = plan["how"] if plan["served"] else f"unserved: {plan['reason']}"
        rate = format_rate(change.traffic.rate)
        yield f"| {name} | {change.entity} | {change.kind} | {rate} | {touches or '·'} | {_escaped(how)} |"


def _steps(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """The steps in words; what two computed fields have in common is said once."""
    said: dict[str, None] = {}
    for step in steps:
        where = " and ".join(step.get("where") or ())
        words = " ".join(filter(None, (step["op"].replace("_", " "), step.get("on"))))
        said[f"{words}: {where}" if where else words] = None
    return list(said)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
