"""Walking time buckets by a directory of those that are not empty.

Without a bound on both sides nobody knows how many buckets there are to read, and those of a quiet partition may be
far apart. A directory knows: it is a view that counts rows by (partition, bucket).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from keyplan.design.candidates.match import PRESENCE, Conditions, by_path, equality
from keyplan.design.candidates.measure import MeasureMatch
from keyplan.design.needs.need import Need, rows_found
from keyplan.design.statistics.derived import Statistics
from keyplan.engines.base import Kind
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import RANGES, Ago, Condition, Order, Outer
from keyplan.plan.view import View


@dataclass(frozen=True)
class Walk:
    """Two needs in place of one: the buckets that there are, and the rows of each."""

    outer: Need
    inner: Need
    times: float
    """The buckets that are read on average."""
    ordered: bool
    """The buckets come in the order of the answer, so that a page needs no more of them than it takes."""


def walks(model: Model, statistics: Statistics, directories: Iterable[View], need: Need) -> Iterator[Walk]:
    """The ways to answer a need bucket by bucket, each directory's key once."""
    if need.fold is not None or need.buckets is not None or any(map(_names_bucket, need.given)):
        return
    by_key = by_path(need.given)
    fixed = {str(c.path) for c in need.given if c.op == "=" and c.cut is None}
    seen: set[Need] = set()
    for view in directories:
        last = view.parts[-1]
        equal = _equalities(by_key, view)
        if equal is None or not set(view.where) <= set(need.given):
            continue
        on_moment = [c for c in need.given if str(c.path) == last.path]
        if any(c.op in ("=", "in") for c in on_moment):
            continue  # the buckets are known
        assert last.cut is not None
        path = path_of(last.path, model, need.entity)
        column = model.column(need.entity, path)
        if column.optional and not any(c.op in PRESENCE for c in on_moment):
            continue  # rows without a moment lie in no bucket
        ranges = tuple(c for c in on_moment if c.op in RANGES and c.cut in (None, last.cut))
        order = need.order or ((Order(path),) if need.limit is not None else ())
        first = next((term for term in order if str(term.path) not in fixed), None)
        ordered = first is not None and str(first.path) == last.path
        by_time = (Order(path, first.descending),) if ordered and first is not None else ()
        limit = need.limit if ordered else None
        outer = Need(need.entity, (*view.where, *equal, *ranges), (), (), by_time, limit, need.strong)
        # Where a range is asked for whose length nobody knows, fewer rows than the counts imply mean a shorter one.
        unknown = bool(ranges) and not any(isinstance(operand, Ago) for c in ranges for operand in c.operands)
        outer = replace(outer, buckets=(last.path, last.cut), fewer=need.fewer if unknown else 1.0)
        if outer in seen:
            continue
        seen.add(outer)
        matched = max(1.0, rows_found(statistics, need))
        times = bucket_count(statistics, outer, matched)
        in_each = max(1.0, matched / times)
        if limit is not None:
            times = min(times, 1.0 + limit / in_each)
        this = Condition(path, "=", (Outer(f"{last.cut}({last.path})"),), last.cut)
        # A range and the bucket that it lies in are not independent of each other: the rows are all there. What else is
        # known of a row is for the search that is made for it at once, and is not taken along into one behind another.
        inner = replace(need, given=(*need.given, this), order=order, at_least=in_each, known=frozenset())
        if not ordered:
            inner = replace(inner, order=(), limit=None)
        yield Walk(outer, inner, times, ordered)


def named_buckets(need: Need) -> list[Condition]:
    """The conditions of a need that a walk put there."""
    return [condition for condition in need.given if _names_bucket(condition)]


def keeps_buckets_apart(buckets: Sequence[Condition], used: Sequence[Condition]) -> bool:
    """Whether a search with these conditions in its key reads each bucket of a walk once: it would read the rows of
    all of them for each one if the bucket were only tested on what it finds."""
    return all(condition in used for condition in buckets)


def _names_bucket(condition: Condition) -> bool:
    """Whether a walk put the condition there. The rows of one bucket are not walked by those of another moment."""
    return condition.cut is not None and isinstance(condition.operands[0], Outer)


def bucket_count(statistics: Statistics, need: Need, rows: float) -> float:
    """How many buckets that are not empty so many rows lie in, on average."""
    assert need.buckets is not None
    path, cut = need.buckets
    ranges = [c for c in need.given if str(c.path) == path]
    many = statistics.distinct(need.entity, path_of(path, statistics.model, need.entity), cut)
    for condition in ranges:
        many *= statistics.selectivity(need.entity, condition)
    return max(1.0, min(many * need.fewer, rows))


def match_directory(statistics: Statistics, kind: Kind, view: View, need: Need) -> MeasureMatch | None:
    """How a view answers which buckets there are, or None."""
    assert need.buckets is not None
    last = view.parts[-1]
    if (last.path, last.cut) != need.buckets or (need.strong and not kind.strong):
        return None
    if not set(view.where) <= set(need.given):
        return None
    given = [c for c in need.given if c not in view.where]
    equal = _equalities(by_path(given), view)
    if equal is None or any(c not in equal and str(c.path) != last.path for c in given):
        return None
    entries = bucket_count(statistics, need, rows_found(statistics, need))
    if need.limit is not None:
        entries = min(entries, float(need.limit))
    return MeasureMatch(tuple(given), False, 1.0, entries)


def _equalities(by_key: Conditions, view: View) -> tuple[Condition, ...] | None:
    """The conditions that fix all parts but the bucket to one value each."""
    found = [equality(by_key, part) for part in view.parts[:-1]]
    if any(one is None or one.op != "=" for one in found):
        return None
    return tuple(one for one in found if one is not None)
