"""Walks over plans."""

from __future__ import annotations

from collections.abc import Iterator

from keyplan.plan.steps import Beside, Drive, Extend, Fold, Intersect, Node, Search, Then, Windows


def searches(node: Node) -> Iterator[Search]:
    """The searches of a plan in the order in which they run, which is that of its steps."""
    match node:
        case Search():
            yield node
        case Extend(rows=rows, adds=adds):
            yield from searches(rows)
            for add in adds:
                yield from searches(add.plan)
        case Drive(outer=outer, inner=inner):
            yield from searches(outer)
            yield from searches(inner)
        case Then(first=first, second=second):
            yield from searches(first)
            yield from searches(second)
        case Intersect(parts=parts) | Beside(parts=parts):
            for part in parts:
                yield from searches(part)
        case Windows(whole=whole, edges=edges):
            yield whole
            yield from searches(edges)
        case Fold(rows=rows):
            yield from searches(rows)
