"""Aggregates over flat rows: exact sums, groups, and the merging of measures that a view keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from keyplan.errors import DesignError
from keyplan.model.pattern import Compute, Group, Term
from keyplan.model.values import truncate
from keyplan.plan.terms import EXACT, Value, compile_term, plus
from keyplan.plan.view import COUNT, Measure

Row = dict[str, Any]


def exact_sum(values: Iterable[Any]) -> Any:
    """The sum without rounding on the way; 0 for nothing."""
    items = list(values)
    if any(isinstance(item, float) for item in items):
        return math.fsum(items)
    total: Any = 0
    for item in items:
        total = plus(total, item)
    return total


def average(total: Any, count: int) -> float | None:
    """The mean, rounded once."""
    if not count:
        return None
    if isinstance(total, float):
        return total / count
    return float(Fraction(total) / count)


Folder = Callable[[list[Row]], Any]


def compile_fold(
    group: Sequence[Group], compute: Sequence[Compute], measures: Sequence[Measure] | None
) -> Callable[[list[Row]], list[Row]]:
    """Rows to one row per group, unordered; without `group` exactly one row.

    With `measures` the rows are entries of a view that keeps them, which are merged.
    """
    keys = [(one.name, _group_value(one)) for one in group]
    parts = [(one.name, _merge(one, measures) if measures is not None else _fold(one)) for one in compute]

    def fold(rows: list[Row]) -> list[Row]:
        if measures is not None:
            rows = [row for row in rows if row[COUNT]]
        groups: dict[tuple[Any, ...], list[Row]] = {}
        if not keys:
            groups[()] = rows
        for row in rows if keys else ():
            groups.setdefault(tuple(value(row) for _, value in keys), []).append(row)
        result = []
        for values, members in groups.items():
            answer = {name: value for (name, _), value in zip(keys, values, strict=True)}
            for name, part in parts:
                answer[name] = part(members)
            result.append(answer)
        return result

    return fold


def _group_value(group: Group) -> Value:
    """The value of a grouping key: of rows their own; of entries a part, which may be cut as finely or finer."""
    path, cut = str(group.path), group.cut
    if cut is None:
        return lambda row: row[path]
    exact = f"{cut}({path})"
    ending = f"({path})"

    def value(row: Mapping[str, Any]) -> Any:
        if exact in row:
            return row[exact]
        found = row[path] if path in row else next(row[name] for name in row if name.endswith(ending))
        return None if found is None else truncate(found, cut)

    return value


def _fold(compute: Compute) -> Folder:
    if compute.how == "count" and compute.term is None:
        return len
    assert compute.term is not None
    value = compile_term(compute.term)

    def present(rows: list[Row]) -> list[Any]:
        return [found for found in map(value, rows) if found is not None]

    if compute.how == "count":
        return lambda rows: len(present(rows))
    if compute.how == "sum":
        return lambda rows: _typed(compute, exact_sum(present(rows)))
    if compute.how == "avg":
        return lambda rows: average(exact_sum(found := present(rows)), len(found))
    pick: Callable[..., Any] = min if compute.how == "min" else max
    return lambda rows: pick(present(rows), default=None)


def _merge(compute: Compute, measures: Sequence[Measure]) -> Folder:
    def name_of(how: str, term: Term | None) -> str:
        for one in measures:
            if (one.how, one.term) == (how, term):
                return one.name
        if how == "count":
            return COUNT
        raise DesignError(f"the plan reads '{compute.name}' from a view that does not keep it")

    def kept(name: str) -> Callable[[list[Row]], list[Any]]:
        return lambda rows: [row[name] for row in rows if row.get(name) is not None]

    if compute.how == "avg":
        totals, counts = kept(name_of("sum", compute.term)), kept(name_of("count", compute.term))
        return lambda rows: average(exact_sum(totals(rows)), exact_sum(counts(rows)))
    values = kept(name_of(compute.how, compute.term))
    if compute.how in ("count", "sum"):
        return lambda rows: _typed(compute, exact_sum(values(rows)))
    pick: Callable[..., Any] = min if compute.how == "min" else max
    return lambda rows: pick(values(rows), default=None)


def _typed(compute: Compute, total: Any) -> Any:
    """An empty sum of decimals or floats is a zero of that type."""
    if total.__class__ is int and compute.type is not None:
        if compute.type.kind == "float":
            return float(total)
        if compute.type.kind == "decimal":
            return Decimal(total).quantize(Decimal((0, (1,), -compute.type.scale)), context=EXACT)
    return total
