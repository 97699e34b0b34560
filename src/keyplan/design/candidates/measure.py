"""How a view with measures answers an aggregate: which groups are read, and which of them are added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from keyplan.design.candidates.counters import measures_of
from keyplan.design.candidates.match import PRESENCE, bounds, by_path, equality
from keyplan.design.needs.need import Need
from keyplan.design.statistics.buckets import is_within
from keyplan.design.statistics.derived import Statistics
from keyplan.engines.base import Kind
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition, Group
from keyplan.plan.view import FIRST_EXPIRES, VERSION, Part, View


@dataclass(frozen=True)
class MeasureMatch:
    """Groups read by key; what is not bound is added up."""

    given: tuple[Condition, ...]
    get: bool
    spans: float
    entries: float


def match_measures(model: Model, statistics: Statistics, kind: Kind, view: View, need: Need) -> MeasureMatch | None:
    """How the view's groups answer the aggregate, or None."""
    assert need.fold is not None
    if need.strong and not kind.strong:
        return None
    names = {measure.name for measure in view.measures}
    lasting = need.window is not None and FIRST_EXPIRES in names
    if view.where or (model.entities[view.entity].ttl is not None and not lasting):
        return None  # a directory of buckets may count some rows only, or those that have expired since
    asked = {measure.name for measure in measures_of(need.fold.compute)}
    if not asked - {VERSION if kind.totals else ""} <= names:
        return None
    if not all(any(_tells(part, group) for part in view.parts) for group in need.fold.group):
        return None
    there = {str(condition.path) for condition in need.given if condition.op in PRESENCE}
    if not all(
        part.ways > 1 or part.or_missing or part.path in there or always(model, view, part) for part in view.parts
    ):
        return None  # rows without the part are asked for, and not counted here
    by_key = by_path(need.given)
    used: list[Condition] = []
    spans = 1.0
    share = 1.0
    fixed: list[Part] = []
    get = True
    for number, part in enumerate(view.parts):
        if part.ways > 1:
            spans *= part.ways
            continue
        found = equality(by_key, part) if get else None
        if found is not None:
            used.append(found)
            fixed.append(part)
            if found.op == "in":
                spans *= statistics.in_length(found)
            continue
        if number < len(view.partition) and kind.partitioned:
            return None
        if get and not part.or_missing:
            ranged = bounds(by_key, part)
            if any(condition.cut != part.cut for condition in ranged):
                return None
            used.extend(ranged)
            if need.window is not None and (part.path, part.cut) == (need.window.path, need.window.cut):
                share *= need.window.share
            else:
                for condition in ranged:
                    share *= statistics.selectivity(view.entity, condition)
        get = False
    kept = {part.path for part in view.parts if not part.or_missing}
    used += [condition for condition in need.given if condition.op == "present" and str(condition.path) in kept]
    if set(used) != set(need.given):
        return None
    entries = max(1.0, _groups(statistics, view, view.parts) / _groups(statistics, view, fixed) * share)
    return MeasureMatch(tuple(used), get, spans, min(entries * spans, statistics.rows(view.entity)))


def _tells(part: Part, group: Group) -> bool:
    """Whether groups by a part are groups by a key of the answer, or those of a day that its hours are added up to."""
    same = part.path == str(group.path)
    return same and (part.cut == group.cut or (not part.or_missing and is_within(part.cut, group.cut)))


def _groups(statistics: Statistics, view: View, parts: Iterable[Part]) -> float:
    """How many groups there are by some of the parts."""
    paths = ((path_of(part.path, statistics.model, view.entity), part.cut) for part in parts if part.ways == 1)
    return statistics.together(view.entity, paths)


def always(model: Model, view: View, part: Part) -> bool:
    """Whether every row has a value for a part."""
    path = path_of(part.path, model, view.entity)
    return not path.roles and not model.column(view.entity, path).optional
