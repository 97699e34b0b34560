"""Indexes keep their names when a design is made around an earlier one: under another name, an index is another one.

`pack` numbers indexes as it finds them, by their projection. One that comes in between would give those behind it other
numbers, and with these other key attributes: they would be deleted, written into every item and filled again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from keyplan.plan.design import Structure


def named_as_before(
    structures: Sequence[Structure], before: Mapping[str, tuple[Structure, str]]
) -> tuple[Structure, ...]:
    """The table, and its indexes under the names that most of their views have had; `before` says of views that are
    kept where each was. New ones take the numbers that are free."""
    indexes = [one for one in structures if one.kind != "table"]
    wishes = []
    for number, index in enumerate(indexes):
        there = [before[view][0] for view in index.views if view in before]
        had = Counter(one.name for one in there if one.kind == index.kind)
        wishes += [(-many, number, name) for name, many in had.items()]
    names: dict[int, str] = {}
    for _, number, name in sorted(wishes):
        if number not in names and name not in names.values():
            names[number] = name
    for number, index in enumerate(indexes):
        if number not in names:
            numbered = (f"{index.kind.upper()}{one}" for one in count(1))
            names[number] = next(name for name in numbered if name not in names.values())
    found = [replace(index, name=names[number]) for number, index in enumerate(indexes)]
    found.sort(key=lambda one: (one.kind, len(one.name), one.name))
    return (*(one for one in structures if one.kind == "table"), *found)
