"""Patterns that are cheapest answered slowly, because the model does not say how fast they have to be; writes that are
slower than it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyplan.model.model import Model
from keyplan.plan.design import Finding
from keyplan.plan.steps import Plan, WritePlan

SLOW_MS = 1000.0
FEW_ROWS = 1000.0
"""Whoever sums up no more than so many on average does not expect to wait."""


def slow_patterns(model: Model, plans: Mapping[str, Plan]) -> Iterator[Finding]:
    """Rows that somebody waits for more than a second for; sums and counts over many rows are expected to take time,
    but not those over few that only the largest groups have many of."""
    for name, plan in plans.items():
        pattern, p99, rows = model.patterns[name], plan.figures.p99_ms, plan.figures.rows
        if pattern.p99_ms is None and p99 > SLOW_MS and (pattern.kind == "find" or rows <= FEW_ROWS):
            why = "since the cheapest plan reads far more than it returns"
            if pattern.kind != "find":
                why = f"since it may be of far more rows than the usual {rows:.3g}"
            yield Finding(
                "note",
                f"patterns.{name}",
                f"a slow call takes {p99 / 1000:,.0f} s, {why}, and no p99 is stated",
                "state one, and the design keeps it",
                {"p99_ms": p99},
            )


def slow_writes(model: Model, plans: Mapping[str, WritePlan]) -> Iterator[Finding]:
    """Writes that take longer than they are to: what they have to keep is decided by what all patterns cost."""
    for name, plan in plans.items():
        write, p99 = model.writes[name], plan.figures.p99_ms
        if write.p99_ms is not None and p99 > write.p99_ms:
            yield Finding(
                "warning",
                f"writes.{name}",
                f"a slow call takes {p99:.3g} ms, where p99 is {write.p99_ms:g} ms",
                "raise p99, or ask for less that it has to keep",
                {"p99_ms": p99},
            )
