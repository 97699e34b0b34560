"""Several aggregates over the same rows: one read of the rows answers all of them, but a least or greatest value may be
had for less by itself, as the first row in its order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from keyplan.design.needs.need import FoldSpec, Need, extreme_row, wanted
from keyplan.model.model import Model
from keyplan.model.pattern import Compute, term_paths

MOST_COMBINED = 3
"""Of so many least and greatest values any may stay with the rest; of more, all of them do or none."""


def wholly_apart(model: Model, need: Need) -> tuple[Need, ...]:
    """Each least and greatest value by itself, and the rest together; nothing if that is the need itself."""
    return _cut(model, need, _firsts(model, need))


def told_apart(model: Model, need: Need) -> Iterator[tuple[Need, ...]]:
    """The ways to cut an aggregate in parts; those that stay together may be cut again."""
    firsts = _firsts(model, need)
    cuts = [(one,) for one in firsts] if len(firsts) <= MOST_COMBINED else [firsts]
    seen: set[frozenset[Need]] = set()
    for cut in cuts:
        parts = _cut(model, need, cut)
        if frozenset(parts) not in seen:
            seen.add(frozenset(parts))
            yield parts


def _firsts(model: Model, need: Need) -> tuple[Compute, ...]:
    """The aggregates that the first row in some order answers, where there are others as well."""
    fold = need.fold
    if fold is None or fold.group or len(fold.compute) < 2 or need.window is not None:
        return ()
    return tuple(one for one in fold.compute if extreme_row(model, _of(model, need, (one,))) is not None)


def _cut(model: Model, need: Need, apart: tuple[Compute, ...]) -> tuple[Need, ...]:
    assert need.fold is not None
    left = tuple(compute for compute in need.fold.compute if compute not in apart) if apart else ()
    return tuple(_of(model, need, part) for part in (*((one,) for one in apart), left) if part)


def _of(model: Model, need: Need, computes: tuple[Compute, ...]) -> Need:
    """The same rows, for some of the aggregates."""
    paths = {str(path) for compute in computes for path in term_paths(compute.term)}
    return replace(need, wants=wanted(model, need.entity, paths), fold=FoldSpec((), computes))
