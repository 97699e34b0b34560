"""Time buckets: how many of them conditions on a moment run over.

A bucket is a part of a partition key, `day(at)`: the rows of one sensor lie in as many partitions as there are days.
Reading a range of moments reads the buckets that it runs over, one request each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2

from keyplan.design.statistics.derived import ASSUMED_BETWEEN, CUT_SECONDS, Statistics
from keyplan.model.pattern import Ago, Condition, Now
from keyplan.plan.view import Part, View

AT_ONCE = 16
"""The most buckets that a walk reads in one round."""

_WITHIN = {
    "minute": ("minute", "hour", "day", "week", "month", "year"),
    "hour": ("hour", "day", "week", "month", "year"),
    "day": ("day", "week", "month", "year"),
    "week": ("week",),
    "month": ("month", "year"),
    "year": ("year",),
}


@dataclass(frozen=True)
class Enumerated:
    """The buckets that conditions leave, and the conditions that say so."""

    conditions: tuple[Condition, ...]
    mean: float
    most: float


def is_within(fine: str | None, coarse: str | None) -> bool:
    """Whether stretches of time of one length lie wholly in those of another: days in months, but no weeks."""
    return coarse in _WITHIN.get(fine or "", ())


def bucket_of(view: View) -> Part | None:
    """The part of a view's partition that is a time bucket."""
    return next((part for part in view.partition if part.cut in CUT_SECONDS), None)


def enumerated(
    statistics: Statistics,
    entity: str,
    by_key: Mapping[tuple[str, str | None], Sequence[Condition]],
    part: Part,
    at_least: float = 0.0,
) -> Enumerated | None:
    """How many buckets the conditions on the part's path run over; None if nothing bounds them on both sides.

    `at_least` is the number of rows that a pattern says it finds: the wider is its range.
    """
    if part.cut not in CUT_SECONDS:
        return None
    size = CUT_SECONDS[part.cut]
    some = [one for (path, _), found in by_key.items() if path == part.path for one in found]
    for condition in some:
        if condition.op == "=":
            many = max(1.0, CUT_SECONDS[condition.cut] / size) if condition.cut else 1.0
            many += many > 1  # a month begins in the middle of a week
            return Enumerated((condition,), many, many)
        if condition.op == "in" and condition.cut is None:
            many = statistics.in_length(condition)
            return Enumerated((condition,), many, many)
    low = next((one for one in some if one.op in ("between", ">", ">=")), None)
    high = next((one for one in some if one.op in ("between", "<", "<=")), None)
    if low is None or high is None:
        return None
    used = (low,) if low is high else (low, high)
    owner = statistics.model.entity_at(entity, low.path.roles)
    kept = statistics.retention_s(owner)
    known = _ago_s(low, 0), _ago_s(high, -1)
    if known[0] is not None and known[1] is not None:
        many = 1.0 + max(0.0, known[0] - known[1]) / size
        return Enumerated(used, many, many + 1)
    share = ASSUMED_BETWEEN
    if at_least:
        others = [one for found in by_key.values() for one in found if one not in some]
        share = min(1.0, at_least / max(at_least, statistics.matched(entity, others)))
    return Enumerated(used, 1.0 + kept * share / size, 1.0 + kept / size)


def _ago_s(condition: Condition, place: int) -> float | None:
    """How many seconds ago the bound of a range is, if the model says it."""
    operand = condition.operands[place]
    if isinstance(operand, Ago):
        return operand.ms / 1000
    return 0.0 if isinstance(operand, Now) else None


def rounds_of_a_walk(buckets: float) -> float:
    """In how many rounds so many buckets are read at the most: one, then twice as many each time."""
    doubled = log2(buckets + 1)
    if buckets < 2 * AT_ONCE:
        return max(1.0, doubled)
    return log2(2 * AT_ONCE) + (buckets - 2 * AT_ONCE + 1) / AT_ONCE
