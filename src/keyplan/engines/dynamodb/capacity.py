"""How much capacity a provisioned table and each of its indexes need: on average, in quiet hours, and at the peak.

The units come from the design: writes say which view they touch, and steps of plans which one they read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from keyplan.engines.dynamodb.limits import LIMITS, PRICES
from keyplan.model.model import Model
from keyplan.model.pattern import Traffic
from keyplan.plan.design import Design, Finding

READ, WRITE = "read units", "write units"
ROOM = 2
"""How far autoscaling may go beyond the average where a model states no higher peak: loads are never quite even."""


@dataclass(frozen=True)
class Range:
    """Units per second between which autoscaling moves."""

    least: int
    start: int
    most: int


@dataclass(frozen=True)
class Capacity:
    """What one table or index is given."""

    read: Range
    write: Range


def is_provisioned(design: Design) -> bool:
    return design.settings.get("billing") == "provisioned"


def capacities(model: Model, design: Design) -> dict[str, Capacity]:
    """Per structure that has some, the table first; each figure leaves the headroom that autoscaling aims at."""
    scaled = [one for one in design.structures if one.kind != "lsi"]
    sums = {(one.name, unit): [0.0, 0.0, 0.0] for one in scaled for unit in (READ, WRITE)}
    for structure, unit, units, traffic in _loads(model, design):
        for place, rate in enumerate(_rates(traffic)):
            sums[structure, unit][place] += units * rate
    return {one.name: Capacity(_range(sums[one.name, READ]), _range(sums[one.name, WRITE])) for one in scaled}


def findings(model: Model, design: Design) -> tuple[Finding, ...]:
    """How the table is paid where that is not what figures are in, and what needs more at its peak than AWS gives
    without being asked.

    The quota holds for both modes; it is the peak that is compared, without the headroom of autoscaling.
    """
    quota = LIMITS.table_units_per_second
    highest = peaks(model, design)
    found = [_billing(design)] if is_provisioned(design) else list(_cold(design, highest))
    for structure, one in highest.items():
        for unit, amount in one.items():
            if amount > quota:
                found.append(
                    Finding(
                        "warning",
                        f"targets.{design.engine}",
                        f"'{structure}' takes {amount:,.0f} {unit}/s at the peak; AWS's default quota is {quota:,}",
                        "have AWS raise the quota of units per table before, or lower the peak",
                        {"structure": structure, "unit": unit, "per_second": round(amount), "quota": quota},
                    )
                )
    return tuple(found)


def _billing(design: Design) -> Finding:
    held, asked = (float(str(design.settings[f"usd_per_month_{mode}"])) for mode in ("provisioned", "on_demand"))
    return Finding(
        "note",
        f"targets.{design.engine}",
        f"provisioned capacity with autoscaling takes ${held:,.2f} a month instead of ${asked:,.2f} on demand, which "
        "figures are in, and is what is emitted and applied",
        "'billing: on_demand' pays by request",
        {"provisioned": held, "on_demand": asked},
    )


def _cold(design: Design, highest: Mapping[str, Mapping[str, float]]) -> Iterator[Finding]:
    """New tables on demand are throttled beyond what they begin with, until AWS has split their partitions."""
    warm = {READ: LIMITS.fresh_reads_per_second, WRITE: LIMITS.fresh_writes_per_second}
    for structure, one in highest.items():
        beyond = [f"{one[unit]:,.0f} {unit}/s" for unit in warm if one[unit] > warm[unit]]
        if beyond:
            yield Finding(
                "note",
                f"targets.{design.engine}",
                f"'{structure}' takes {' and '.join(beyond)} at the peak, and a new one on demand begins with "
                f"{warm[READ]:,} {READ}/s and {warm[WRITE]:,} {WRITE}/s",
                "let the load grow to it, or set its warm throughput before",
                {"structure": structure},
            )


def peaks(model: Model, design: Design) -> dict[str, dict[str, float]]:
    """Units per second of each structure when everything has its peak at once."""
    sums: dict[str, dict[str, float]] = {one.name: {READ: 0.0, WRITE: 0.0} for one in design.structures}
    for structure, unit, units, traffic in _loads(model, design):
        sums[structure][unit] += units * _rates(traffic)[2]
    return sums


def _loads(model: Model, design: Design) -> Iterator[tuple[str, str, float, Traffic]]:
    table = next(one.name for one in design.structures if one.kind == "table")
    # A local index has the capacity of its table.
    where = {
        name: table if structure.kind == "lsi" else structure.name
        for structure in design.structures
        for name in structure.views
    }
    for name, plan in design.plans.items():
        for structure, share in _shares(plan.steps, where, table).items():
            yield structure, READ, plan.figures.units.get(READ, 0.0) * share, model.patterns[name].traffic
    for name, write in design.writes.items():
        traffic = model.writes[name].traffic
        for structure, share in _shares(write.steps, where, table).items():
            yield structure, READ, write.figures.units.get(READ, 0.0) * share, traffic
        for touch in write.touches:
            yield where[touch.view], WRITE, touch.units.get(WRITE, 0.0), traffic


def _shares(steps: Sequence[Mapping[str, object]], where: Mapping[str, str], table: str) -> dict[str, float]:
    """The part of a plan's reading that each structure has."""
    units: dict[str, float] = {}
    for step in steps:
        found: Any = step.get("units")
        if found and READ in found:
            structure = where[str(step["view"])]
            units[structure] = units.get(structure, 0.0) + float(found[READ])
    total = sum(units.values())
    return {structure: one / total for structure, one in units.items()} if total else {table: 1.0}


def _rates(traffic: Traffic) -> tuple[float, float, float]:
    """Calls per second in quiet hours, on average, and at the peak."""
    peak = traffic.rate * traffic.peak
    rest = max(1e-9, 24.0 - traffic.peak_hours)
    quiet = max(0.0, traffic.rate * 24.0 - peak * traffic.peak_hours) / rest
    return min(quiet, traffic.rate), traffic.rate, max(peak, traffic.rate)


def _range(sums: Sequence[float]) -> Range:
    # Rounded first, so that a sum that is whole but for its last bit does not become one unit more.
    least, start, most = (max(1, ceil(round(one / PRICES.autoscaling_target, 6))) for one in sums)
    return Range(least, start, max(most, ROOM * start))
