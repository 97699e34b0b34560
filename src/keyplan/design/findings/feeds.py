"""Feeds: the newest rows of many owners, such as posts of those whom somebody follows. They are gathered at each call.

No view has a row for each follower and post, made when the post is written. Where that would be worth a thought, it is
said what such rows would take; the model can have them as an entity of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyplan.design.statistics.derived import Statistics
from keyplan.model.pattern import Pattern
from keyplan.plan.design import Finding
from keyplan.plan.steps import Plan
from keyplan.units import format_about

MANY_REQUESTS = 10.0
"""So many requests a call, and there is something to gain by fewer."""


def gathered_feeds(statistics: Statistics, plans: Mapping[str, Plan]) -> Iterator[Finding]:
    """Pages in an order that are put together from the rows of many owners at each call."""
    model = statistics.model
    for name, plan in plans.items():
        pattern = model.patterns[name]
        requests = plan.figures.requests
        copies = _copies(statistics, pattern) if requests >= MANY_REQUESTS else None
        if copies is None:
            continue
        rate, gathered = statistics.growth_rate(pattern.entity), requests * pattern.traffic.rate
        rows = statistics.rows(pattern.entity) * copies
        yield Finding(
            "note",
            f"patterns.{name}",
            f"each call gathers its rows in {format_about(requests)} requests, {format_about(gathered)} a second; a "
            f"row for each '{pattern.entity}' and who is to see it would answer in one, at {format_about(rows)} rows "
            f"and {format_about(rate * copies)} more writes a second, which no design makes by itself",
            "have an entity of such rows in the model and create them with each new one, if that is less",
            {"requests": requests, "rows": rows, "writes_per_second": rate * copies},
        )


def _copies(statistics: Statistics, pattern: Pattern) -> float | None:
    """How many would see each row, where its owner leads to them; None if it is no feed."""
    model = statistics.model
    if pattern.kind != "find" or not pattern.order or any(term.path.roles for term in pattern.order):
        return None
    for condition in pattern.where:
        roles = condition.path.roles
        entity, copies = pattern.entity, 1.0
        if condition.op == "=" and len(roles) > 1 and not model.is_many(entity, roles[:1]):
            for name in roles:
                copies *= statistics.fan_out(entity, name)
                entity = model.entities[entity].roles[name].entity
            if model.is_many(pattern.entity, roles):
                return copies
    return None
