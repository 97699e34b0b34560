"""Views of one entity that share an index, because no row has an entry in both: those of rows that have a value in some
column, and those of rows that lack it.

An item has one entry in an index. Which of the two it is follows from the column; all else that decides whether a row
has an entry at all has to be the same for both, so that a change which touches the one concerns the other as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product, zip_longest

from keyplan.model.model import Model
from keyplan.plan.view import View

MOST_SIDES = 4
"""Sorts of pairs that are told apart when indexes are counted: each doubles the number of rows of the program."""

Asked = tuple[str, str]
"""Whether a field is present or missing, or any other condition."""
Sides = tuple[list[View], list[View]]
"""The views of rows that have a value, and those of rows that lack it."""


def sides(model: Model, views: Sequence[View]) -> tuple[list[View], list[Sides]]:
    """Views of one entity: those that need an index each, and those of which one of either side may share one."""
    classes: dict[tuple[str, frozenset[Asked]], Sides] = {}
    for view in views:
        asked = _asked(model, view)
        for op, field in sorted(asked):
            if op in ("present", "missing"):
                have, lack = classes.setdefault((field, frozenset(asked - {(op, field)})), ([], []))
                (have if op == "present" else lack).append(view)
    taken: set[str] = set()
    pairs: list[Sides] = []
    for both in classes.values():
        have, lack = ([view for view in side if view.name not in taken] for side in both)
        if have and lack and len(pairs) < MOST_SIDES:
            pairs.append((have, lack))
            taken |= {view.name for view in (*have, *lack)}
    return [view for view in views if view.name not in taken], pairs


def _asked(model: Model, view: View) -> set[Asked]:
    """What a row has to be like to have an entry; the columns of a reference are there together or not at all."""
    columns = model.entities[view.entity].columns
    asked: set[Asked] = set()
    for condition in view.where:
        is_own = condition.op in ("present", "missing") and str(condition.path) in columns
        asked.add((condition.op, columns[condition.path.column].field) if is_own else ("", str(condition)))
    for part in view.parts:
        if part.path in columns and columns[part.path].optional:
            asked.add(("present", columns[part.path].field))
    return asked


def counted(model: Model, views: Sequence[View]) -> Iterator[list[View]]:
    """Sets of views of one entity that need an index each: the one with most views chosen says how many it takes."""
    alone, pairs = sides(model, views)
    for some in product(*pairs):
        yield [*alone, *(view for side in some for view in side)]


def arranged(model: Model, views: Sequence[View]) -> list[list[View]]:
    """The views of one entity, as few indexes as they need."""
    alone, pairs = sides(model, views)
    found = [[view] for view in alone]
    for have, lack in pairs:
        found += [[view for view in both if view is not None] for both in zip_longest(have, lack)]
    return found
