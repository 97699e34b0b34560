"""Measures that an engine keeps with the values of a packed view: the count of an hour's readings beside the readings.

Such a view of *totals* has a group per value, under the partition of the packed view that it is kept with. It tells
what all rows of a group come to, so it is kept with packed views that have all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from keyplan.design.candidates.counters import measures_of
from keyplan.design.candidates.measure import match_measures
from keyplan.design.candidates.windows import windowed
from keyplan.design.needs.need import Need
from keyplan.design.needs.presence import may_be_missing
from keyplan.design.statistics.buckets import bucket_of
from keyplan.design.statistics.derived import Statistics
from keyplan.engines.base import Kind
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Path, Term, term_paths
from keyplan.plan.view import FIRST_EXPIRES, VERSION, Measure, View


def totals_over(
    model: Model, statistics: Statistics, kinds: Mapping[str, Kind], packed: View, needs: Iterable[Need]
) -> Iterator[View]:
    """The totals of a packed view that answer aggregates: what each of them asks for, and all of it."""
    if not _has_all(model, packed):
        return
    for kind in kinds.values():
        if not kind.totals:
            continue
        asked: dict[tuple[Measure, ...], None] = {}
        for need in needs:
            if need.entity == packed.entity and need.fold is not None:
                measures = _measures(model, need)
                view = View("", packed.entity, kind.name, (), packed.partition, (), measures=measures)
                if _is_kept(model, kind, packed, measures) and _answers(model, statistics, kind, view, need):
                    asked[measures] = None
        every = {measure.name: measure for measures in asked for measure in measures}
        for measures in dict.fromkeys((*asked, tuple(every.values()))) if asked else ():
            yield View("", packed.entity, kind.name, (), packed.partition, (), measures=measures)


def _has_all(model: Model, packed: View) -> bool:
    """Whether the values of a packed view have every row that has what their partition is of, so that they speak for
    all of them: one that lacks another part of the key has no entry."""
    if not packed.packed or packed.where or any(part.ways > 1 for part in packed.partition):
        return False
    there = {part.path for part in packed.partition}
    others = (path_of(part.path, model, packed.entity) for part in packed.sort if part.path not in there)
    return not any(may_be_missing(model, packed.entity, path) for path in others)


def _measures(model: Model, need: Need) -> tuple[Measure, ...]:
    """What an aggregate asks for; of rows that expire, when the first of them does as well."""
    assert need.fold is not None
    found = [measure for measure in measures_of(need.fold.compute) if measure.name != VERSION]
    if model.entities[need.entity].ttl is not None:
        found.append(Measure("min", Term(Path((), EXPIRES)), FIRST_EXPIRES))
    return tuple(found)


def _is_kept(model: Model, kind: Kind, packed: View, measures: Sequence[Measure]) -> bool:
    """Whether the engine can tell measures by the entries of a value."""
    columns = model.entities[packed.entity].columns
    for measure in measures:
        paths = sorted(term_paths(measure.term))
        if measure.how not in kind.measures or any(path.roles or str(path) not in packed.holds for path in paths):
            return False
        if any(columns[path.column].computed is not None for path in paths):
            return False
        if measure.how == "sum" and any(columns[path.column].type.kind == "float" for path in paths):
            return False  # what is rounded at each window differs from what is rounded once
    return True


def _answers(model: Model, statistics: Statistics, kind: Kind, view: View, need: Need) -> bool:
    bucket = bucket_of(View("", view.entity, view.kind, view.sort, (), ()))
    if bucket is None or bucket.cut is None:
        return match_measures(model, statistics, kind, view, need) is not None
    found = windowed(model, statistics, need, bucket.path, bucket.cut)
    return found is not None and match_measures(model, statistics, kind, view, found.whole) is not None


def kept_with(model: Model, totals: View, views: Iterable[View]) -> list[str]:
    """The packed views that totals can be kept with: those of all rows, with its key as their partition, that hold what
    it is of."""
    paths = {str(path) for measure in totals.measures for path in term_paths(measure.term)}
    return [
        view.name
        for view in views
        if view.entity == totals.entity and view.partition == totals.sort and _has_all(model, view)
        if paths <= set(view.holds)
    ]
