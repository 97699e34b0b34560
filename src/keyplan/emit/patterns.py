"""The access-pattern table: every pattern and write with what it asks, how often, and how the design answers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.units import format_duration, format_rate


def write(model: Model, design: Design) -> Mapping[str, str]:
    """A Markdown file, to be put beside the code or into a design review."""
    return {f"{model.name}.{design.engine}.md": "\n".join(_lines(model, design)) + "\n"}


def _lines(model: Model, design: Design) -> Iterator[str]:
    yield f"# {model.name} on {design.engine}"
    yield ""
    yield "| pattern | entity | rate | p99 | consistency | served by |"
    yield "|---|---|---|---|---|---|"
    for name, pattern in model.patterns.items():
        plan = design.plans.get(name)
        if plan is None:
            lost = design.unserved.get(name)
            how = f"unserved: {lost.reason}" if lost else "unserved"
        else:
            how = "; ".join(f"{step.get('op')} {step.get('on') or ''}".strip() for step in plan.steps)
        p99 = format_duration(pattern.p99_ms) if pattern.p99_ms else "·"
        rate = format_rate(pattern.traffic.rate)
        yield f"| {name} | {pattern.entity} | {rate} | {p99} | {pattern.consistency} | {_escaped(how)} |"
    yield ""
    yield "| write | entity | kind | rate | touches | how |"
    yield "|---|---|---|---|---|---|"
    for name, write_ in model.writes.items():
        plan_ = design.writes.get(name)
        touches = ", ".join(touch.view for touch in plan_.touches) if plan_ else "·"
        how = plan_.how if plan_ else "unserved"
        rate = format_rate(write_.traffic.rate)
        yield f"| {name} | {write_.entity} | {write_.kind} | {rate} | {_escaped(touches)} | {how} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
