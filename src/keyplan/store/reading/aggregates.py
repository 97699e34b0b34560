"""Running the aggregates of a plan: groups folded from rows or merged from measures, such as are found
apart, and such as a row keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from keyplan.engines.rounds import Proc
from keyplan.errors import DesignError
from keyplan.model.pattern import Order
from keyplan.model.types import Type
from keyplan.plan.gaps import from_gap_text
from keyplan.plan.steps import Fold, Search, Windows
from keyplan.plan.view import COUNT
from keyplan.store.pump import gather
from keyplan.store.reading.filter import Call, Row
from keyplan.store.reading.fold import compile_fold
from keyplan.store.reading.keys import group_type
from keyplan.store.reading.order import Position

if TYPE_CHECKING:
    from keyplan.store.reading.execute import Executor, Runner


class FoldNode:
    """Groups and aggregates."""

    def __init__(self, executor: Executor, node: Fold) -> None:
        rows = node.rows
        measures = None
        self.gaps: dict[str, tuple[str, Type]] = {}
        """Parts of groups that are kept as text: the part's name, the name of the value and its type."""
        if node.merged:
            groups = rows.whole if isinstance(rows, Windows) else rows
            if not isinstance(groups, Search):
                raise DesignError("the plan merges measures of something that is not a view")
            view = executor.design.views[groups.view]
            measures = view.measures
            for part in view.parts:
                if part.or_missing:
                    plain = str(replace(part, or_missing=False))
                    self.gaps[str(part)] = (plain, group_type(executor.model, view.entity, part))
            takes = (path.removesuffix(" desc") for path in (*groups.takes, COUNT))
            groups = replace(groups, takes=tuple(dict.fromkeys(takes)))
            rows = replace(rows, whole=groups) if isinstance(rows, Windows) else groups
        self.rows = executor.compile(rows)
        self.limit = 1 if is_first(node, self.rows.order) else None
        self.entity = self.rows.entity
        self.order: tuple[Order, ...] = ()
        self.provides = (*(one.name for one in node.group), *(one.name for one in node.compute))
        self.free = self.rows.free
        self.fold = compile_fold(node.group, node.compute, measures)

    def many(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None = None,
        limit: int | None = None,
    ) -> Proc[list[list[Row]]]:
        lists = yield from self.rows.many(call, outers, None, self.limit)
        for name, (plain, type) in self.gaps.items():
            for rows in lists:
                for row in rows:
                    if name in row:  # one that is read row by row has the value itself
                        row[plain] = from_gap_text(type, row[name])
        return [self.fold(rows) for rows in lists]


class BesideNode:
    """Aggregates that are found apart, as one row."""

    def __init__(self, parts: Sequence[Runner]) -> None:
        self.parts = parts
        self.entity = parts[0].entity
        self.order: tuple[Order, ...] = ()
        self.provides = tuple(name for part in parts for name in part.provides)
        self.free = tuple(sorted({path for part in parts for path in part.free}))

    def many(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None = None,
        limit: int | None = None,
    ) -> Proc[list[list[Row]]]:
        answers = yield from gather([part.many(call, outers) for part in self.parts])
        return [
            [{name: value for (row,) in found for name, value in row.items()}] for found in zip(*answers, strict=True)
        ]


class OwnedNode:
    """Aggregates that one row keeps; those of a row that is not there are found otherwise."""

    def __init__(self, row: Runner, columns: Sequence[tuple[str, str]], instead: Runner) -> None:
        self.row = row
        self.columns = columns
        self.instead = instead
        self.entity = instead.entity
        self.order: tuple[Order, ...] = ()
        self.provides = tuple(name for name, _ in columns)
        self.free = tuple(sorted({*row.free, *instead.free}))

    def many(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None = None,
        limit: int | None = None,
    ) -> Proc[list[list[Row]]]:
        lists = yield from self.row.many(call, outers)
        answers = [[{name: row[column] for name, column in self.columns} for row in rows] for rows in lists]
        gone = [number for number, rows in enumerate(answers) if not rows]
        if gone:
            found = yield from self.instead.many(call, [outers[number] for number in gone])
            for number, rows in zip(gone, found, strict=True):
                answers[number] = rows
        return answers


def is_first(node: Fold, order: Sequence[Order]) -> bool:
    """Whether the answer is a minimum or maximum that the first row in order holds."""
    if node.group or node.merged or len(node.compute) != 1 or not order:
        return False
    (compute,) = node.compute
    if compute.term is None or compute.term.path is None:
        return False
    return (compute.how, compute.term.path) == ("max" if order[0].descending else "min", order[0].path)
