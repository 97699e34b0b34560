"""Patterns: what a call of each kind answers, from the rows that its plan finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from keyplan.engines.base import Kind
from keyplan.engines.codec import SESSION
from keyplan.engines.rounds import Proc
from keyplan.errors import ArgumentError, UnsupportedError
from keyplan.model.arguments import Binder
from keyplan.model.entity import Entity
from keyplan.model.model import Model
from keyplan.model.pattern import DEFAULT_PAGE, Order, Path, Pattern
from keyplan.model.predicate import operand_value
from keyplan.model.shape import plain_columns, shaper
from keyplan.plan.design import Design
from keyplan.plan.steps import Attach, Beside, Drive, Extend, Fold, Intersect, Node, Owned, Search, Then, Windows
from keyplan.store.reading.cursor import Cursors
from keyplan.store.reading.execute import ROOT, Executor
from keyplan.store.reading.filter import Call, Row
from keyplan.store.reading.order import Position, after, by_key, position_of, sort_rows, total

LEVELS = ("eventual", "session", "strong")
STRENGTHS = (False, SESSION, True)
"""What each level is to a reader."""


@dataclass(frozen=True)
class Page:
    """Some of the rows, and where to go on: `cursor` is None if there is nothing after them."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    cursor: str | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Any:
        return iter(self.rows)


class Read:
    """A compiled pattern."""

    def __init__(
        self, model: Model, design: Design, kinds: Mapping[str, Kind], executor: Executor, pattern: Pattern
    ) -> None:
        self.pattern = pattern
        self.entity: Entity = model.entities[pattern.entity]
        self.binder = Binder(model, pattern)
        self.checks = None if self.binder.groups else list(self.binder.checks.items())
        self.unserved = design.unserved.get(pattern.name)
        self.level = LEVELS.index(pattern.consistency)
        self.most = self.level
        plan = design.plans.get(pattern.name)
        if plan is None:
            return
        self.unserved = None
        node, self.is_shaped = _shaped(model, pattern, plan.node)
        self.node = executor.compile(node)
        if pattern.stale_ms is None and all(kinds[design.views[one.view].kind].strong for one in searches(plan.node)):
            self.most = len(LEVELS) - 1
        self.target = executor.compile(plan.target) if plan.target is not None else None
        # A plan that is sorted by itself goes on from its own order, which may end differently but orders the same.
        self.sorted = bool(self.node.order) and (plan.sorted or not plan.order)
        self.order = self.node.order if self.sorted else plan.order
        if pattern.kind != "aggregate" and not self.order:
            self.order = total(self.entity, pattern.order)
        self.after = after(self.order)
        self.size = pattern.page or DEFAULT_PAGE
        self.paged = pattern.kind == "find" and not pattern.one and pattern.limit is None
        if pattern.kind == "find":
            self.shape = shaper(model, pattern.entity, pattern.select)
        if self.paged:
            self.cursors = Cursors(model, pattern, self.order)
        if pattern.kind == "rank":
            self.order = self.order or by_key(self.entity)

    def call(self, arguments: Mapping[str, Any], now: Any, consistency: str | None) -> Call:
        """Checks the arguments of one call."""
        args = self.bind(arguments)
        level = self.level
        if consistency is not None:
            level = self.level_of(consistency)
        if self.unserved is not None:
            raise UnsupportedError(f"{self.pattern.name}: this design does not serve it: {self.unserved.reason}")
        return Call(args, now, STRENGTHS[level])

    def bind(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The parameters; what does not pass at once is left to the binder, which knows what to say."""
        if self.checks is not None and len(arguments) == len(self.checks):
            try:
                return {name: check(arguments[name]) for name, check in self.checks}
            except (KeyError, ValueError):
                pass
        return self.binder(arguments)

    def level_of(self, consistency: str) -> int:
        if consistency not in LEVELS:
            raise ArgumentError(f"{self.pattern.name}: consistency is one of {', '.join(LEVELS)}, not '{consistency}'")
        level = LEVELS.index(consistency)
        if level > self.most:
            raise ArgumentError(
                f"{self.pattern.name}: its plan reads with {LEVELS[self.most]} consistency; "
                f"say 'consistency: {consistency}' in the model to have it designed for that"
            )
        return level

    def proc(self, call: Call, cursor: object = None) -> Proc[Any]:
        """The answer of one call."""
        pattern = self.pattern
        if cursor is not None and not self.paged:
            raise self.unpaged()
        if pattern.kind == "find":
            if pattern.one:
                (rows,) = yield from self.node.many(call, ROOT)
                return self.shape(rows[0]) if rows else None
            if pattern.limit is not None:
                rows = yield from self.rows(call, None, pattern.limit)
                return self.shaped(rows)
            position = self.cursors.position(cursor, call.args) if cursor is not None else None
            rows = yield from self.rows(call, position, self.size)
            text = self.cursors.text(position_of(self.order, rows[-1]), call.args) if len(rows) == self.size else None
            return Page(self.shaped(rows), text)
        if pattern.kind == "rank":
            return (yield from self.rank(call))
        (rows,) = yield from self.node.many(call, ROOT)
        return self.aggregate(rows)

    def unpaged(self) -> ArgumentError:
        return ArgumentError(f"{self.pattern.name}: unknown argument 'cursor'; its answer does not come in pages")

    def shaped(self, rows: list[Row]) -> list[dict[str, Any]]:
        """The answers that flat rows give."""
        if self.is_shaped:
            return rows
        shape = self.shape
        return [shape(row) for row in rows]

    def rows(self, call: Call, position: Position | None, limit: int | None) -> Proc[list[Row]]:
        """The flat rows after a position, in order."""
        if self.sorted:
            (rows,) = yield from self.node.many(call, ROOT, None if position is None else [position], limit)
            return rows
        (rows,) = yield from self.node.many(call, ROOT)
        if position is not None:
            rows = [row for row in rows if self.after(row, position)]
        rows = sort_rows(rows, self.order)
        return rows if limit is None else rows[:limit]

    def aggregate(self, rows: list[Row]) -> Any:
        pattern = self.pattern
        names = [*(group.name for group in pattern.group), *(compute.name for compute in pattern.compute)]
        if not pattern.group:
            return rows[0][pattern.compute[0].name] if pattern.scalar else {name: rows[0][name] for name in names}
        order = (*pattern.order, *(Order(Path((), group.name)) for group in pattern.group))
        rows = sort_rows(rows, order)
        if pattern.limit is not None:
            rows = rows[: pattern.limit]
        return [{name: row[name] for name in names} for row in rows]

    def rank(self, call: Call) -> Proc[int | None]:
        """1 + the rows before the one asked for; a sorted plan is read only as far as that."""
        key = tuple(
            operand_value(
                next(one for one in self.pattern.of if one.path.column == column).operands[0],
                self.entity.columns[column].type,
                call.args,
                call.now,
            )
            for column in self.entity.key
        )
        if self.target is not None:
            (rows,) = yield from self.target.many(call, ROOT)
            if not rows:
                return None
        position: Position | None = None
        count = 0
        while True:
            rows = yield from self.rows(call, position, CHUNK if self.sorted else None)
            for row in rows:
                count += 1
                if tuple(row[column] for column in self.entity.key) == key:
                    return count
            if not self.sorted or len(rows) < CHUNK:
                return None
            position = position_of(self.order, rows[-1])

    def chunk(self, call: Call, position: Position | None) -> Proc[tuple[list[dict[str, Any]], Position | None]]:
        """Some answers for iteration, and where to go on; with a limit or without a sorted plan everything at once."""
        if not self.sorted or self.pattern.limit is not None:
            rows = yield from self.rows(call, position, self.pattern.limit)
            return self.shaped(rows), None
        size = max(self.size, CHUNK)
        rows = yield from self.rows(call, position, size)
        going = position_of(self.order, rows[-1]) if len(rows) == size else None
        return self.shaped(rows), going


def _shaped(model: Model, pattern: Pattern, node: Node) -> tuple[Node, bool]:
    """A plan that takes what is answered and nothing else brings rows in the shape of the answer, made to need none."""
    if pattern.kind != "find" or not isinstance(node, Search) or node.along:
        return node, False
    columns = plain_columns(model, pattern.entity, pattern.select)
    if columns is None or set(columns) != set(node.takes):
        return node, False
    return replace(node, takes=columns), True


CHUNK = 500
"""Rows read at a time when iterating."""


def searches(node: Node) -> list[Search]:
    """Every Search of a plan."""
    if isinstance(node, Search):
        return [node]
    if isinstance(node, Extend):
        return [*searches(node.rows), *(one for add in node.adds for one in _attached(add))]
    if isinstance(node, Drive):
        return [*searches(node.outer), *searches(node.inner)]
    if isinstance(node, Intersect | Beside):
        return [one for part in node.parts for one in searches(part)]
    if isinstance(node, Then):
        return [*searches(node.first), *searches(node.second)]
    if isinstance(node, Windows):
        return [node.whole, *searches(node.edges)]
    if isinstance(node, Owned):
        return [*searches(node.row), *searches(node.instead)]
    assert isinstance(node, Fold)
    return searches(node.rows)


def _attached(attach: Attach) -> list[Search]:
    return searches(attach.plan)
