"""The access-pattern table: every pattern and write with what it asks, how often, and how the design answers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyplan.design.document import document
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.units import format_duration, format_rate


def write(model: Model, design: Design) -> Mapping[str, str]:
    """A Markdown file, to be put beside the code or into a design review."""
    return {f"{model.name}.{design.engine}.md": "\n".join(_lines(model, document(model, design))) + "\n"}


def _lines(model: Model, design: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {model.name} on {design['engine']}"
    yield ""
    yield "| pattern | entity | rate | p99 | consistency | how |"
    yield "|---|---|---|---|---|---|"
    for name, pattern in model.patterns.items():
        plan = design["patterns"][name]
        how = f"unserved: {plan['reason']}" if not plan["served"] else "; ".join(_steps(plan["steps"]))
        p99 = format_duration(pattern.p99_ms) if pattern.p99_ms else "·"
        rate = format_rate(pattern.traffic.rate)
        yield f"| {name} | {pattern.entity} | {rate} | {p99} | {pattern.consistency} | {_escaped(how)} |"
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
