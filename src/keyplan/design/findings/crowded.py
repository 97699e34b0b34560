"""Rows that may have more entries than one atomic request writes: an entry for each element of a set or word of a text.

Such a row is refused when it is written, however few are written with it, which a design should say before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

from keyplan.design.problem.definition import Problem
from keyplan.design.statistics.derived import Statistics
from keyplan.design.statistics.spread import WORD_BYTES, fields_of, is_stated, possible_entries, spreads
from keyplan.engines.base import Kind
from keyplan.model.model import Model
from keyplan.plan.design import Finding
from keyplan.plan.view import COPIES, Part, View

WHAT = {"each": "element", "words": "word"}


def crowded_rows(
    model: Model, statistics: Statistics, kinds: Mapping[str, Kind], problem: Problem, chosen: Set[str]
) -> Iterator[Finding]:
    """A warning per entity of which one row may be too much for a request, by the `max` of its fields."""
    most, usual = problem.costs.atomic_most, problem.costs.atomic_entries
    if most is None or usual is None:
        return
    views = [problem.views[name] for name in problem.views if name in chosen]
    ours = [view for view in views if not kinds[view.kind].kept_by_engine]
    for entity in model.entities:
        several = [view for view in ours if view.entity == entity and spreads(view)]
        if not several or not statistics.written(entity):
            continue
        others = sum(_entries(view, entity) for view in ours if view not in several)
        changed = _is_changed(statistics, entity, {path for view in several for path in _fields(view)})
        # What the model states may come and go at once; defaults of the language are looked at once.
        needed = sum(
            possible_entries(model, view) * (2 if changed and is_stated(model, view) else 1) for view in several
        )
        if others + needed > most:
            yield _told(model, entity, several, most - others, (usual - others) // (2 if changed else 1), most, changed)


def _entries(view: View, entity: str) -> int:
    """The entries that a row of an entity has in a view in which it has no further ones by its values."""
    if view.entity != entity:
        return sum(embed.entity == entity for _, embed in view.nested())
    many = 1
    for part in view.parts:
        many *= part.ways if part.cut == COPIES else 1
    return many


def _fields(view: View) -> Iterable[str]:
    return (path for part in spreads(view) for path in fields_of(part))


def _is_changed(statistics: Statistics, entity: str, fields: Set[str]) -> bool:
    """Whether some write replaces such a value by another, so that entries go and others come."""
    for write, _ in statistics.written(entity):
        if write.kind == "upsert" or (write.kind != "delete" and fields & {*write.sets}):
            return True
    return False


def _told(model: Model, entity: str, views: list[View], room: int, wanted: int, most: int, changed: bool) -> Finding:
    parts = list(dict.fromkeys(part for view in views for part in spreads(view)))
    each = " and ".join(f"each {WHAT[part.cut or '']} of {_listed(fields_of(part))}" for part in parts)
    also = f", and so is an update by which more than {room} come and go" if changed else ""
    return Finding(
        "warning",
        f"entities.{entity}.{parts[0].path}",
        f"a row has an entry for {each}, and one request changes at most {most} entries: a row with more than {room} "
        f"of them is refused{also}",
        f"{_advice(parts, max(1, wanted))}, or leave the search for them to something else",
        {"most": room},
    )


def _advice(parts: list[Part], wanted: int) -> str:
    """How large the field may be, or that several have to be smaller."""
    fields = tuple(path for part in parts for path in fields_of(part))
    if len(fields) > 1:
        return f"give {_listed(fields)} a smaller 'max'"
    bound = f"{wanted}" if parts[0].cut == "each" else f"{wanted * WORD_BYTES:.0f} bytes"
    return f"give {_listed(fields)} a 'max' of at most {bound}"


def _listed(paths: Iterable[str]) -> str:
    return " and ".join(f"'{path}'" for path in paths)
