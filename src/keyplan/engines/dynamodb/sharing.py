"""Views of one entity that share an index, because no row ever has an entry in both: those of rows that have a value in
some column and those of rows that lack it, or those of rows in different states (`status = 'open'`, `'closed'`).

An item has one entry in an index. Which views cannot stand side by side is a graph, with an edge where a row may be in
both. The views chosen need as many indexes as it takes colours, which no linear row counts. But in perfect graphs that
is the size of the largest set of views that all meet, and every such set is a row. The views of a program mostly form
such a graph; else edges are added until they do, so that packing never needs more than was counted. Views that meet the
same ones, and each other, are taken together: a graph stays perfect when a vertex is there several times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import product
from math import prod

from keyplan.engines.dynamodb.projection import projection_of
from keyplan.model.model import Model
from keyplan.model.pattern import Literal
from keyplan.plan.view import View

MOST_SETS = 16
"""Sets of views that meet which are told one by one; where there would be more, parts of them are counted first."""

Graph = Mapping[int, Set[int]]
Form = dict[str, float]
"""A sum of views and counts."""


@dataclass(frozen=True)
class Entries:
    """Which rows have an entry in a view, as far as single columns say so, and what entries hold."""

    present: frozenset[str]
    """Fields that have a value."""
    missing: frozenset[str]
    listed: tuple[tuple[str, frozenset[object]], ...]
    """Columns that have one of these values."""
    others: tuple[tuple[str, frozenset[object]], ...]
    """Columns that have a value that is none of these."""
    named: frozenset[str]
    """What an index has to name for them."""
    held: frozenset[str]

    def meets(self, other: Entries) -> bool:
        """Whether a row may have an entry in both, or the entries of one would hold more beside the other's."""
        return not self._is_apart(other) or self._adds_to(other) or other._adds_to(self)

    def _is_apart(self, other: Entries) -> bool:
        if self.present & other.missing or self.missing & other.present:
            return True
        mine, theirs = dict(self.listed), dict(other.listed)
        return (
            any(mine[column].isdisjoint(theirs[column]) for column in mine.keys() & theirs.keys())
            or any(mine[column] <= values for column, values in other.others if column in mine)
            or any(theirs[column] <= values for column, values in self.others if column in theirs)
        )

    def _adds_to(self, other: Entries) -> bool:
        return bool(self.named - other.held - other.missing)


def entries_of(model: Model, view: View) -> Entries:
    """What a view's conditions and key say about its rows; the columns of a reference are there together or not."""
    columns = model.entities[view.entity].columns
    present: set[str] = set()
    missing: set[str] = set()
    listed: dict[str, frozenset[object]] = {}
    others: dict[str, frozenset[object]] = {}
    for condition in view.where:
        column = columns.get(str(condition.path))
        if column is None or condition.also:
            continue
        if condition.op == "missing":
            missing.add(column.field)
            continue
        if condition.op != "contains":
            present.add(column.field)
        values = frozenset(operand.value for operand in condition.operands if isinstance(operand, Literal))
        if len(values) < len(set(condition.operands)) or condition.cut is not None:
            continue
        if condition.op in ("=", "in"):
            listed[column.name] = listed.get(column.name, values) & values
        elif condition.op == "!=":
            others[column.name] = others.get(column.name, frozenset()) | values
    present |= {columns[part.path].field for part in view.parts if part.path in columns and columns[part.path].optional}
    held = frozenset(view.holds)
    named = held - {part.path for part in view.parts if part.cut is None}
    if projection_of(model, view) == "ALL":
        whole = frozenset(model.entities[view.entity].stored)
        named, held = named - whole, held - whole
    return Entries(
        frozenset(present),
        frozenset(missing),
        tuple(sorted(listed.items())),
        tuple(sorted(others.items())),
        named,
        held,
    )


@dataclass
class Counted:
    """How many indexes the views of one entity take: the largest of some sums."""

    sums: list[Form]
    counts: dict[str, list[Form]] = field(default_factory=dict)
    """What is counted first: each as large as the largest of its own sums, in which those before it may stand."""


def counted(model: Model, views: Sequence[View], name: str) -> Counted:
    """Counts the indexes that views of one entity take; what is counted first has names that begin with this one."""
    alike: dict[Entries, list[str]] = {}
    for view in views:
        alike.setdefault(entries_of(model, view), []).append(view.name)
    kinds = list(alike)
    found = Counted([])
    weights = [dict.fromkeys(alike[kind], 1.0) for kind in kinds]
    found.sums = _sums(_graph(kinds), weights, found.counts, name)
    return found


def arranged(model: Model, views: Sequence[View]) -> list[list[View]]:
    """The views of one entity, in as few indexes as they need."""
    graph = _graph([entries_of(model, view) for view in views])
    # Those that meet most others come first: they have the least choice.
    order = sorted(graph, key=lambda number: (-len(graph[number]), number))
    most = 0
    while (found := _colours(graph, order, most)) is None:
        most += 1
    shelves: dict[int, list[View]] = {}
    for number, view in enumerate(views):
        shelves.setdefault(found[number], []).append(view)
    return list(shelves.values())


def _graph(entries: Sequence[Entries]) -> dict[int, set[int]]:
    graph: dict[int, set[int]] = {number: set() for number in range(len(entries))}
    for one, mine in enumerate(entries):
        for other in range(one):
            if mine.meets(entries[other]):
                graph[one].add(other)
                graph[other].add(one)
    return graph


def _sums(graph: Graph, weights: Sequence[Form], counts: dict[str, list[Form]], name: str) -> list[Form]:
    """The sums of the sets of vertices that all meet, in the graph or in one with more edges that is perfect.

    Parts without edges between them count by the largest, and parts that meet wholly by their sum; what is neither gets
    the edges that make it chordal.
    """
    if not graph:
        return []
    parts = _connected(graph)
    if len(parts) > 1:
        return [form for part in parts for form in _sums(_within(graph, part), weights, counts, name)]
    parts = _connected({one: graph.keys() - edges - {one} for one, edges in graph.items()})
    if len(parts) == 1:
        return [_added(weights[one] for one in sorted(some)) for some in _chordal(graph)]
    inside = [_sums(_within(graph, part), weights, counts, name) for part in parts]
    if prod(map(len, inside)) > MOST_SETS:
        for number, forms in enumerate(inside):
            if len(forms) > 1:
                counted = f"{name}.{len(counts) + 1}"
                counts[counted] = forms
                inside[number] = [{counted: 1.0}]
    return [_added(forms) for forms in product(*inside)]


def _added(forms: Iterable[Form]) -> Form:
    return {name: weight for form in forms for name, weight in form.items()}


def _connected(graph: Graph) -> list[set[int]]:
    left = dict.fromkeys(graph)
    found = []
    while left:
        part, edge = set(), [next(iter(left))]
        while edge:
            one = edge.pop()
            if one in left:
                del left[one]
                part.add(one)
                edge += sorted(graph[one] & left.keys())
        found.append(part)
    return found


def _within(graph: Graph, part: Set[int]) -> Graph:
    return {one: edges & part for one, edges in graph.items() if one in part}


def _chordal(graph: Graph) -> list[frozenset[int]]:
    """The largest sets that all meet when edges are added until the graph is chordal: each vertex goes with what it
    meets then, the one first that adds fewest edges."""
    edges = {one: set(others) for one, others in graph.items()}

    def added(one: int) -> int:
        return sum(other not in edges[another] for other in edges[one] for another in edges[one] if other < another)

    found: list[frozenset[int]] = []
    known = {one: added(one) for one in edges}
    while edges:
        least = min(edges, key=lambda one: (known[one], one))
        others = edges.pop(least)
        some = frozenset({least, *others})
        if not any(some <= larger for larger in found):
            found.append(some)
        for one in others:
            edges[one] |= others - {one}
            edges[one].discard(least)
        # Only these meet others than before, and only what meets them finds more of its own that do.
        for one in others.union(*(edges[other] for other in others)):
            known[one] = added(one)
    return found


def _colours(graph: Graph, order: Sequence[int], most: int) -> dict[int, int] | None:
    """A colour below `most` for each vertex, none next to the same one; None if there is no such way."""
    found: dict[int, int] = {}
    return found if _are_coloured(found, graph, order, most, 0) else None


def _are_coloured(found: dict[int, int], graph: Graph, order: Sequence[int], most: int, used: int) -> bool:
    """Colours those that have none yet, where there is a way; so many colours are used by the others."""
    if len(found) == len(order):
        return True
    vertex = order[len(found)]
    taken = {found[other] for other in graph[vertex] if other in found}
    for colour in range(min(used + 1, most)):
        if colour not in taken:
            found[vertex] = colour
            if _are_coloured(found, graph, order, most, max(used, colour + 1)):
                return True
            del found[vertex]
    return False
