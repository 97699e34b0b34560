"""What one call of a plan takes: requests, round trips, rows, bytes, units, cost and latency."""

from __future__ import annotations

from collections.abc import Mapping
from math import expm1

from keyplan.design.needs.need import rows_found
from keyplan.design.options.goals import Goal, Option
from keyplan.design.statistics.derived import Statistics
from keyplan.model.pattern import Outer, Param
from keyplan.plan.steps import Figures


def call_figures(statistics: Statistics, choice: Mapping[int, Option], goal: Goal) -> Figures:
    """What one execution of a goal takes, everything below it included."""
    option = choice[goal.number]
    below = [(sub, call_figures(statistics, choice, sub.goal)) for sub in option.subs]
    cost = option.cost.cost + sum(figures.cost for _, figures in below)
    units = dict(option.cost.units)
    for _, figures in below:
        add_units(units, figures.units)
    early = [figures for sub, figures in below if sub.early]
    late = [figures for sub, figures in below if not sub.early and not sub.if_gone]
    own_trips = option.cost.trips if option.view is not None else 0
    # What is done for references that lead nowhere is done in no usual call.
    requests = [0.0 if sub.if_gone else figures.requests for sub, figures in below]
    late_trips = [figures.trips if sub.chance >= 0.5 else 0 for sub, figures in below if not sub.early]
    if option.kind == "then" and _chance_of_second(statistics, goal, option) < 1:
        chance = _chance_of_second(statistics, goal, option)
        requests[1] *= chance
        late_trips = [figures.trips for figures in (late if chance >= 0.5 else late[:1])]
    if option.kind in ("drive", "then"):
        trips = sum(late_trips)
        p99 = sum(figures.p99_ms for figures in late)
    else:
        trips = max([own_trips, *(figures.trips for figures in early)])
        trips += max(late_trips, default=0)
        p99 = max([option.cost.p99_ms, *(figures.p99_ms for figures in early)])
        p99 += max((figures.p99_ms for figures in late), default=0.0)
    rows = min(option.rows, float(goal.need.limit)) if goal.need.limit and option.sorted else option.rows
    return Figures(
        option.requests + sum(requests),
        trips,
        rows,
        option.bytes + sum(figures.bytes for sub, figures in below if not sub.if_gone),
        units,
        cost,
        p99,
    )


def _chance_of_second(statistics: Statistics, goal: Goal, option: Option) -> float:
    """How often the rows that have a value do not fill a page, so that those that lack it are read."""
    limit = goal.need.limit
    first = option.subs[0].goal.need
    rows = rows_found(statistics, first)
    if limit is None or rows <= 0:
        return 1.0
    if not any(isinstance(operand, Param | Outer) for c in first.given for operand in c.operands):
        return float(rows < limit)  # the same rows at each call
    return -expm1(-limit / rows)


def one_after_other(first: Figures, then: Figures) -> Figures:
    """What two reads take together; the rows are those of the second."""
    units = dict(first.units)
    add_units(units, then.units)
    return Figures(
        first.requests + then.requests,
        first.trips + then.trips,
        then.rows,
        first.bytes + then.bytes,
        units,
        first.cost + then.cost,
        first.p99_ms + then.p99_ms,
    )


def add_units(total: dict[str, float], units: Mapping[str, float], times: float = 1.0) -> None:
    for unit, amount in units.items():
        total[unit] = total.get(unit, 0.0) + amount * times
