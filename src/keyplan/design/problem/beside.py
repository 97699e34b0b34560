"""Rows that have another entry besides: both are written in one step, which may take more of a place than one alone.

A view that is too hot for that is a candidate in two forms: with the shards that it takes beside another entry, and as
it is, which is possible only where nothing else is kept of its rows. Both stand in the program, and rows say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from keyplan.design.candidates.forms import Forms, written_together
from keyplan.design.problem.definition import Problem
from keyplan.engines.base import Kind
from keyplan.engines.work import LinearRow, ViewFacts
from keyplan.plan.view import View


def is_written_with_rows(kinds: Mapping[str, Kind], view: View) -> bool:
    """Whether rows of its entity, some of them at least, have an entry that we write in one step with theirs. Sums and
    guards are not written by every write, but by those that are most of the heat: creates."""
    return not kinds[view.kind].kept_by_engine


def entries_of_rows(problem: Problem, chosen: Iterable[str], kinds: Mapping[str, Kind]) -> Counter[str]:
    """Per entity, how many of the views have such entries."""
    views = (problem.views[name] for name in chosen)
    return Counter(view.entity for view in views if is_written_with_rows(kinds, view))


def heated(name: str, problem: Problem, entries: Mapping[str, int], kinds: Mapping[str, Kind]) -> ViewFacts:
    """The facts of a view; where its rows have another entry that we keep, all writes come together."""
    view, facts = problem.views[name], problem.facts[name]
    beside = entries.get(view.entity, 0) > is_written_with_rows(kinds, view)
    return written_together(facts) if beside else facts


def apart_rows(
    forms: Forms, views: Mapping[str, View], facts: Mapping[str, ViewFacts], given: Set[str]
) -> Iterator[LinearRow]:
    """No other entry beside one that is too hot for that. Of two that are `given`, nothing is said: they are there."""
    entries: dict[str, list[str]] = {}
    for name, view in views.items():
        if is_written_with_rows(forms.kinds, view):
            entries.setdefault(view.entity, []).append(name)
    for names in entries.values():
        hot = [name for name in names if forms.beside_another(views[name], facts[name]) is not None]
        yield from _alone(hot, names, given)


def _alone(hot: Sequence[str], names: Sequence[str], given: Set[str]) -> Iterator[LinearRow]:
    """Each of the hot ones without any other. No two of them go together either, so that one row has all of them, and
    half of one and half of another leave no room for a third."""
    free = [name for name in hot if name not in given]
    others = [name for name in names if name not in free]
    if free:
        yield from (LinearRow(dict.fromkeys((*free, other), 1.0), high=1.0) for other in others)
        if not others:
            yield LinearRow(dict.fromkeys(free, 1.0), high=1.0)
    for name in hot:
        if name in given:
            yield from (LinearRow({name: 1.0, other: 1.0}, high=1.0) for other in others if other not in given)
