"""Statistics of a model that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from keyplan.design.statistics.derived import Statistics
from keyplan.design.statistics.together import more_than_said
from keyplan.model.entity import Entity
from keyplan.plan.design import Finding
from keyplan.units import format_about

YEAR_S = 365 * 86400


def contradictions(statistics: Statistics) -> list[Finding]:
    """Counts that the rates of creates outgrow, a `max` below the average, rates below those of transactions."""
    found: list[Finding] = []
    for entity in statistics.model.entities.values():
        found.extend(_outgrown(statistics, entity))
        found.extend(_more_than_max(statistics, entity))
    found.extend(more_than_said(statistics.model))
    return found


def _outgrown(statistics: Statistics, entity: Entity) -> Iterator[Finding]:
    grown = statistics.growth_rate(entity.name) * (entity.ttl.ms / 1000 if entity.ttl else YEAR_S)
    writes = statistics.model.writes.values()
    deletes = any(write.kind == "delete" and write.entity == entity.name for write in writes)
    if entity.count and grown > 2 * entity.count and not (deletes and entity.ttl is None):
        span, advice = ("its ttl", "shorten its ttl") if entity.ttl else ("a year", "give it a ttl")
        yield Finding(
            "warning",
            f"entities.{entity.name}",
            f"'{entity.name}' has count {format_about(entity.count)}, but its creates make "
            f"{format_about(grown)} rows within {span}",
            f"raise count, lower the create rate, or {advice}",
            {"count": entity.count, "created": grown},
        )


def _more_than_max(statistics: Statistics, entity: Entity) -> Iterator[Finding]:
    for role in entity.roles.values():
        mean = statistics.rows(role.entity) / statistics.rows(entity.name)
        if role.many and role.most and mean > role.most:
            yield Finding(
                "warning",
                f"entities.{role.entity}.{role.field}",
                f"'{entity.name}.{role.name}' has max {role.most}, but {format_about(mean)} on average by the counts",
                "raise max or correct the counts",
                {"max": role.most, "mean": mean},
            )
