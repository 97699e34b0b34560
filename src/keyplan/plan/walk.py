"""Walks over plans."""

from __future__ import annotations

from collections.abc import Iterator

from keyplan.plan.steps import Beside, Drive, Extend, Fold, Intersect, Node, Owned, Search, Then, Windows


def searches(node: Node) -> Iterator[Search]:
    """The searches of a plan in the order in which they run, which is that of its steps."""
    return (one for one in _nodes(node) if isinstance(one, Search))


def first_children(node: Node) -> Iterator[tuple[Search, int]]:
    """The searches of a plan that bring children of a row in their order, of which so many are wanted and no more."""
    for one in _nodes(node):
        for add in one.adds if isinstance(one, Extend) else ():
            rows = add.plan
            while isinstance(rows, Extend) and not any(inner.early for inner in rows.adds):
                rows = rows.rows
            if add.limit is not None and isinstance(rows, Search) and rows.order[: len(add.order)] == add.order:
                yield rows, add.limit


def _nodes(node: Node) -> Iterator[Node]:
    """A plan and all that is in it."""
    yield node
    below: tuple[Node, ...] = ()
    match node:
        case Extend(rows=rows, adds=adds):
            below = (rows, *(add.plan for add in adds))
        case Drive(outer=outer, inner=inner):
            below = (outer, inner)
        case Then(first=first, second=second):
            below = (first, second)
        case Intersect(parts=parts) | Beside(parts=parts):
            below = tuple(parts)
        case Windows(whole=whole, edges=edges):
            below = (whole, edges)
        case Fold(rows=rows):
            below = (rows,)
        case Owned(row=row, instead=instead):
            below = (row, instead)
    for one in below:
        yield from _nodes(one)
