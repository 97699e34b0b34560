"""Windows of time: an aggregate over a range from what is kept of whole hours or days, and from the rows at its ends.

A range of moments is finer than the groups that measures are kept by. All windows but the two that it begins and ends
in lie wholly in it: these are read as they are kept, those two row by row. Where rows expire, so is a window of which
some have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from keyplan.design.candidates.match import by_path
from keyplan.design.needs.need import Need, Window, wanted
from keyplan.design.statistics.buckets import enumerated, is_within
from keyplan.design.statistics.derived import CUT_SECONDS, Statistics
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import RANGES, Condition, Outer
from keyplan.plan.steps import FIRST, UNTIL, WINDOW
from keyplan.plan.view import Part, View

KEPT = ("hour", "day", "month")
"""The windows that groups are kept by for the sake of ranges alone."""
LOW, HIGH = ("between", ">", ">=", "="), ("between", "<", "<=", "=")


@dataclass(frozen=True)
class Windowed:
    """Two needs in place of one: what is kept of the whole windows, and the rows of one of the others."""

    whole: Need
    edges: Need
    range: tuple[Condition, ...]
    cut: float
    """How many windows a range cuts, on average."""
    expired: float
    """How many windows have lost rows that have expired, on average."""


def windowed(model: Model, statistics: Statistics, need: Need, path: str, cut: str) -> Windowed | None:
    """An aggregate over a range of a moment by windows of it; None if it is none, or windows cannot tell it."""
    if need.fold is None or need.window is not None:
        return None
    here = path_of(path, model, need.entity)
    kind = "" if model.is_many(need.entity, here.roles) else model.column(need.entity, here).type.kind
    if kind not in ("date", "timestamp") or (kind == "date" and cut in ("minute", "hour")):
        return None
    some = tuple(one for one in need.given if str(one.path) == path)
    if not some or any((one.op not in LOW and one.op not in HIGH) or (one.op == "=" and not one.cut) for one in some):
        return None
    if not all(is_within(cut, group.cut) for group in need.fold.group if str(group.path) == path):
        return None
    others = tuple(one for one in need.given if one not in some)
    low, high = any(one.op in LOW for one in some), any(one.op in HIGH for one in some)
    first, last = Condition(here, ">=", (Outer(FIRST),), cut), Condition(here, "<", (Outer(UNTIL),), cut)
    ends = (*((first,) if low else ()), *((last,) if high else ()))
    owner = model.entity_at(need.entity, here.roles)
    all_windows = max(1.0, statistics.retention_s(owner) / CUT_SECONDS[cut])
    mean = _windows_of(statistics, need, some, path, cut, all_windows)
    sides = sum(not is_within(cut, one.cut) for one in _sides(some))
    within = max(0.0, mean - sides)
    share = min(1.0, within / all_windows)
    expires = model.entities[need.entity].ttl is not None
    whole = replace(need, given=(*others, *ends), window=Window(path, cut, share))
    this = Condition(here, "=", (Outer(WINDOW),), cut)
    wants = wanted(model, need.entity, {*need.wants, path})
    edges = Need(need.entity, (*others, this), wants, strong=need.strong)
    return Windowed(whole, edges, some, min(float(sides), mean), share if expires else 0.0)


def _sides(some: Iterable[Condition]) -> Iterator[Condition]:
    """The conditions that a range begins and ends with; one may be both."""
    for ops in (LOW, HIGH):
        found = next((one for one in some if one.op in ops), None)
        if found is not None:
            yield found


def _windows_of(
    statistics: Statistics, need: Need, some: tuple[Condition, ...], path: str, cut: str, most: float
) -> float:
    """How many windows a range runs over, on average."""
    found = enumerated(statistics, need.entity, by_path(need.given), Part(path, cut), need.at_least)
    if found is not None:
        return found.mean
    share = 1.0
    for condition in some:
        share *= statistics.selectivity(need.entity, condition)
    return 1.0 + most * share


def moments(views: Iterable[View]) -> list[tuple[str, str]]:
    """What the groups of some views are cut by."""
    cuts = ((part.path, part.cut) for view in views for part in view.parts if not part.or_missing)
    return list(dict.fromkeys((path, cut) for path, cut in cuts if cut in CUT_SECONDS))


def kept_for(model: Model, statistics: Statistics, need: Need) -> Iterator[Need]:
    """What groups would be kept by for an aggregate over a range, of each length of window."""
    if need.fold is None:
        return
    ranged = dict.fromkeys(str(one.path) for one in need.given if one.op in RANGES and one.op != "begins_with")
    for path in ranged:
        for cut in KEPT:
            found = windowed(model, statistics, need, path, cut)
            if found is not None and found.cut:
                yield found.whole
