"""What computed columns stand for: the aggregates of the rows that point at another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keyplan.model.pattern import Compute, Path, Term
from keyplan.store.reading.fold import compile_fold
from keyplan.store.writing.places import Kept

Key = tuple[Any, ...]
Row = dict[str, Any]


def part_of(kept: Kept, row: Mapping[str, Any] | None) -> tuple[Key, Any] | None:
    """The parent that a child counts for, and with what; None if it has none."""
    if row is None:
        return None
    key = tuple(row.get(column) for column in kept.columns)
    if None in key:
        return None
    return key, (row.get(kept.term) if kept.term else 1)


def folded(kept: Kept, rows: Sequence[Row]) -> Any:
    """The aggregate that a computed column stands for."""
    term = Term(Path((), kept.term)) if kept.term else None
    fold = compile_fold((), (Compute(kept.column, kept.how, term, kept.type),), None)
    return fold(list(rows))[0][kept.column]


def with_changes(
    kept: Kept, key: Key, own: Sequence[str], children: Iterable[Row], changed: Iterable[tuple[Key, Row | None]]
) -> list[Row]:
    """The rows that count for a parent, as they will be: `changed` has the keys of rows of this entity, each with what
    the row will be; `own` is the key of the entity."""
    after = {tuple(row[column] for column in own): row for row in children}
    for child, new in changed:
        after.pop(child, None)
        part = part_of(kept, new)
        if part is not None and part[0] == key:
            assert new is not None
            after[child] = new
    return list(after.values())
