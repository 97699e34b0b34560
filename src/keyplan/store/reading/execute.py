"""Running plans: each node of a plan, compiled at open, becomes an object that finds rows for many outer rows at once.

    rows = yield from node.many(call, outers, after, limit)

`outers` are the rows that the node runs for (`Outer` operands take their values from them); the answer has a list of
rows for each. `after` and `limit` may be given only to nodes that have an `order`; `after` has a position per outer
row. All requests that do not depend on each other go out in one round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, Protocol

from keyplan.engines.base import Kind
from keyplan.engines.codec import Codec
from keyplan.engines.rounds import Proc
from keyplan.errors import DesignError
from keyplan.model.model import Model
from keyplan.model.pattern import Order, Outer
from keyplan.plan.design import Design
from keyplan.plan.steps import Attach, Beside, Drive, Extend, Fold, Intersect, Node, Owned, Search, Tell, Then, Windows
from keyplan.store.pump import gather
from keyplan.store.reading.aggregates import BesideNode, FoldNode, OwnedNode
from keyplan.store.reading.buckets import BucketsNode
from keyplan.store.reading.filter import Call, Row, compile_filter
from keyplan.store.reading.fold import compile_fold
from keyplan.store.reading.order import Position, by_key, position_of, sort_rows
from keyplan.store.reading.search import MOST_AT_ONCE, SearchNode, distinct
from keyplan.store.reading.windows import WindowsNode

ROOT: tuple[dict[str, Any], ...] = ({},)
"""The outer rows of a plan's root: one, with nothing in it."""


GONE = "$gone"
"""Marks a row that an index still showed, but that is not there any more."""


class Runner(Protocol):
    """A compiled node."""

    entity: str
    order: tuple[Order, ...]
    """The total order in which rows come, or nothing."""
    provides: tuple[str, ...]
    """The paths of each row."""
    free: tuple[str, ...]
    """The paths it needs of an outer row."""

    def many(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None = None,
        limit: int | None = None,
    ) -> Proc[list[list[Row]]]: ...


class Executor:
    """Compiles the nodes of one design."""

    def __init__(self, model: Model, design: Design, kinds: Mapping[str, Kind], codec: Codec) -> None:
        self.model = model
        self.design = design
        self.kinds = kinds
        self.codec = codec

    def compile(self, node: Node) -> Runner:
        """The object that runs a node."""
        if isinstance(node, Search):
            return self.compile_search(node)
        if isinstance(node, Extend):
            return ExtendNode(self, node)
        if isinstance(node, Drive):
            if isinstance(node.outer, Search) and self.design.views[node.outer.view].measures:
                inner = self.compile(node.inner)
                ttl = self.model.entities[inner.entity].ttl
                return BucketsNode(self.compile_search(node.outer), inner, node.ordered, ttl)
            return DriveNode(self, node)
        if isinstance(node, Intersect):
            return IntersectNode(self, node)
        if isinstance(node, Then):
            return ThenNode(self, node)
        if isinstance(node, Windows):
            measures = self.design.views[node.whole.view].measures
            return WindowsNode(self.model, node, self.compile_search(node.whole), self.compile(node.edges), measures)
        if isinstance(node, Beside):
            return BesideNode([self.compile(part) for part in node.parts])
        if isinstance(node, Owned):
            return OwnedNode(self.compile(node.row), node.columns, self.compile(node.instead))
        return FoldNode(self, node)

    def compile_search(self, node: Search) -> SearchNode:
        """The object that runs a search."""
        return SearchNode(self.model, self.design, self.kinds, self.codec, node)


class ExtendNode:
    """Rows with values of other rows added."""

    def __init__(self, executor: Executor, node: Extend) -> None:
        self.rows = executor.compile(node.rows)
        attachments = [_Attachment(executor, one) for one in node.adds]
        self.early = [one for one in attachments if one.early]
        # What takes the place of children comes first, so that nothing is fetched for those.
        late = (one for one in attachments if not one.early and not one.if_gone)
        self.adds = sorted(late, key=lambda one: one.beyond is None)
        self.instead = [one for one in attachments if one.if_gone]
        for one in attachments:
            one.notes_gone = any(one.is_told_by(other) for other in self.instead)
        self.own = any(one.own for one in attachments)
        self.entity = self.rows.entity
        self.order = self.rows.order
        self.filter = compile_filter(executor.model, self.entity, node.filter)
        for one in (*self.adds, *self.instead):
            lacking = set() if one.under else set(one.free) - set(self.rows.provides)
            if lacking:
                raise DesignError(f"the plan asks for '{one.role}' by '{min(lacking)}', which is not read before it")
        self.tells = [_telling(tell) for tell in node.tells]
        added = [path for one in attachments if not one.under for path in one.provides]
        added += [path for tell in node.tells if not tell.under for path in tell.paths]
        self.provides = tuple(dict.fromkeys((*self.rows.provides, *added)))
        outers = {o.path for condition in node.filter for o in condition.operands if isinstance(o, Outer)}
        outers |= {path for one in self.early for path in one.free}
        self.free = tuple(sorted({*self.rows.free, *outers}))

    def many(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None = None,
        limit: int | None = None,
    ) -> Proc[list[list[Row]]]:
        if self.early:
            lists = yield from self.together(call, outers)
            yield from self.extend(call, [row for rows in lists for row in rows])
            return self.filtered(call, outers, lists)
        drops = self.filter is not None or self.own
        if not drops or limit is None or not self.order:
            push = None if drops else limit
            lists = yield from self.rows.many(call, outers, after, push)
            yield from self.extend(call, [row for rows in lists for row in rows])
            lists = self.filtered(call, outers, lists)
            return lists if limit is None else [rows[:limit] for rows in lists]
        positions: list[Position | None] = list(after) if after is not None else [None] * len(outers)
        result: list[list[Row]] = [[] for _ in outers]
        numbers = list(range(len(outers)))
        size = limit
        while numbers:
            here = [outers[number] for number in numbers]
            lists = yield from self.rows.many(call, here, [positions[number] for number in numbers], size)
            yield from self.extend(call, [row for rows in lists for row in rows])
            unfinished = []
            for number, rows, kept in zip(numbers, lists, self.filtered(call, here, lists), strict=True):
                result[number] += kept
                if len(rows) >= size and len(result[number]) < limit:
                    positions[number] = position_of(self.order, rows[-1])
                    unfinished.append(number)
            numbers = unfinished
            size = min(size * 2, max(MOST_AT_ONCE, size))
        return [rows[:limit] for rows in result]

    def together(self, call: Call, outers: Sequence[Mapping[str, Any]]) -> Proc[list[list[Row]]]:
        """The rows (one at most per outer row) and what does not depend on them, in the same rounds."""
        procs = [self.rows.many(call, outers), *(one.plan.many(call, outers, None, one.push) for one in self.early)]
        lists, *found = yield from gather(procs)
        for one, answers in zip(self.early, found, strict=True):
            for rows, answer in zip(lists, answers, strict=True):
                for row in rows:
                    one.put(row, answer)
        return lists

    def filtered(self, call: Call, outers: Sequence[Mapping[str, Any]], lists: list[list[Row]]) -> list[list[Row]]:
        if self.own:
            lists = [[row for row in rows if GONE not in row] for rows in lists]
        if self.filter is None:
            return lists
        result = []
        for outer, rows in zip(outers, lists, strict=True):
            holds = self.filter(call, outer)
            result.append([row for row in rows if holds(row)])
        return result

    def extend(self, call: Call, rows: list[Row]) -> Proc[None]:
        """Adds everything to the rows, in place."""
        if rows and self.adds:
            yield from gather([one.attach(call, rows) for one in self.adds])
        if rows and self.instead:
            yield from gather([one.attach(call, rows) for one in self.instead])
        for tell in self.tells:
            tell(rows)


class _Attachment:
    """What one Attach adds."""

    def __init__(self, executor: Executor, attach: Attach) -> None:
        self.plan = executor.compile(attach.plan)
        self.many = attach.many
        self.under = attach.under
        self.role = attach.role
        self.limit = attach.limit
        self.order = attach.order
        if attach.many and not self.order:
            self.order = by_key(executor.model.entities[self.plan.entity])
        self.sorted = attach.many and bool(self.order) and self.plan.order[: len(self.order)] == self.order
        self.free = self.plan.free
        self.early = attach.early
        self.beyond = attach.beyond
        self.if_gone = attach.if_gone
        self.gone = f"{attach.role}.{GONE}"
        """Marks rows for which there is none behind the role."""
        self.notes_gone = False
        self.own = not attach.role and not attach.many and not isinstance(attach.plan, Fold | Beside | Owned)
        """It brings the rest of the row itself."""
        self.push = self.limit if self.sorted else 1 if not self.many and self.plan.order else None
        prefix = attach.role + "." if attach.role else ""
        self.names = [(prefix + path, path) for path in self.plan.provides]
        self.provides = (attach.role,) if attach.many else tuple(name for name, _ in self.names)

    def is_told_by(self, other: _Attachment) -> bool:
        """Whether another one is asked where this one finds nothing."""
        return (self.under, self.role) == (other.under, other.role) and not (self.many or self.if_gone)

    def attach(self, call: Call, rows: list[Row]) -> Proc[None]:
        for name in self.under:
            rows = [child for row in rows for child in row.get(name) or ()]
        if self.if_gone:
            rows = [row for row in rows if self.gone in row]
        if self.beyond is not None:
            rows = [row for row in rows if len(row[self.role]) >= self.beyond]
            for row in rows:
                row[self.role] = []
        numbers: dict[tuple[Any, ...], int] = {}
        outers: list[Row] = []
        targets: list[int | None] = []
        for row in rows:
            values = tuple([row[path] for path in self.free])
            if None in values:
                targets.append(None)
                continue
            number = numbers.setdefault(values, len(outers))
            if number == len(outers):
                outers.append(row)
            targets.append(number)
        found: list[list[Row]] = []
        if outers:
            found = yield from self.plan.many(call, outers, None, self.push)
        for row, target in zip(rows, targets, strict=True):
            self.put(row, found[target] if target is not None else [])

    def put(self, row: Row, found: list[Row]) -> None:
        if self.many:
            if not self.sorted:
                found = sort_rows(found, self.order)
            # Several rows may share what was found; each gets its own, as later steps add to them in place.
            row[self.role] = [dict(one) for one in (found if self.limit is None else found[: self.limit])]
        elif found:
            first = found[0]
            for name, path in self.names:
                row[name] = first[path]
        elif self.own:
            row[GONE] = True
        else:
            for name, _ in self.names:
                row.setdefault(name, None)  # the columns of the reference itself keep their values
            if self.notes_gone:
                row[self.gone] = True


def _telling(tell: Tell) -> Callable[[list[Row]], None]:
    """Adds to rows what their children tell."""
    fold = compile_fold((), tell.compute, None)
    names = [(path, one.name) for path, one in zip(tell.paths, tell.compute, strict=True)]

    def add(rows: list[Row]) -> None:
        for name in tell.under:
            rows = [child for row in rows for child in row.get(name) or ()]
        for row in rows:
            known = all(row[column] is not None for column in tell.reference)
            (found,) = fold(row[tell.role]) if known else (dict.fromkeys(one.name for one in tell.compute),)
            for path, name in names:
                row[path] = found[name]

    return add


class DriveNode:
    """The rows of `inner` for every row of `outer`, each once."""

    def __init__(self, executor: Executor, node: Drive) -> None:
        self.outer = executor.compile(node.outer)
        self.inner = executor.compile(node.inner)
        self.entity = self.inner.entity
        self.order = self.inner.order
        self.ordered = node.ordered
        self.ahead = node.ahead
        if node.ordered:
            self.order, self.outer_order = _seen_from_inner(executor.model, self.inner, self.outer)
        self.provides = self.inner.provides
        self.free = self.outer.free
        self.key = executor.model.entities[self.entity].key
        if not set(self.key) <= set(self.provides):
            raise DesignError(f"the plan drives rows of '{self.entity}' without taking their key")

    def many(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None = None,
        limit: int | None = None,
    ) -> Proc[list[list[Row]]]:
        if self.ordered:
            return (yield from self.in_order(call, outers, after, limit))
        drivers = yield from self.outer.many(call, outers)
        runs: list[Row] = []
        positions: list[Position | None] = []
        owners: list[int] = []
        for number, rows in enumerate(drivers):
            seen = set()
            for row in rows:
                values = tuple(row[path] for path in self.inner.free)
                if None not in values and values not in seen:
                    seen.add(values)
                    runs.append(row)
                    owners.append(number)
                    positions.append(after[number] if after is not None else None)
        found: list[list[Row]] = []
        if runs:
            push = limit if self.order else None
            found = yield from self.inner.many(call, runs, positions if after is not None else None, push)
        result: list[list[Row]] = [[] for _ in outers]
        counts = [0] * len(outers)
        for owner, rows in zip(owners, found, strict=True):
            result[owner] += rows
            counts[owner] += 1
        for number, rows in enumerate(result):
            if counts[number] > 1:
                rows = distinct(rows, self.key)
                result[number] = sort_rows(rows, self.order) if self.order else rows
        return result if limit is None else [rows[:limit] for rows in result]

    # an order that the outer rows bring

    def in_order(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None,
        limit: int | None,
    ) -> Proc[list[list[Row]]]:
        """Outer rows a page at a time, the rows that they lead to once each, until there are enough."""
        positions: list[Position | None] = [self.outwards(position) for position in after or [None] * len(outers)]
        result: list[list[Row]] = [[] for _ in outers]
        seen: list[set[Any]] = [set() for _ in outers]
        numbers = list(range(len(outers)))
        size = ceil(limit * self.ahead) if limit is not None else None
        while numbers:
            drivers = yield from self.outer.many(
                call, [outers[number] for number in numbers], [positions[number] for number in numbers], size
            )
            runs: list[Row] = []
            owners: list[int] = []
            unfinished = []
            for number, rows in zip(numbers, drivers, strict=True):
                for row in rows:
                    values = tuple(row[path] for path in self.inner.free)
                    if None not in values and values not in seen[number]:
                        seen[number].add(values)
                        runs.append(row)
                        owners.append(number)
                if size is not None and len(rows) >= size:
                    positions[number] = position_of(self.outer.order, rows[-1])
                    unfinished.append(number)
            found: list[list[Row]] = []
            if runs:
                found = yield from self.inner.many(call, runs)
            for owner, rows in zip(owners, found, strict=True):
                result[owner] += rows
            numbers = [number for number in unfinished if limit is not None and len(result[number]) < limit]
        return result if limit is None else [rows[:limit] for rows in result]

    def outwards(self, position: Position | None) -> Position | None:
        """A position among the inner rows as one among the outer rows, behind all that lead to the same row."""
        if position is None:
            return None
        pairs = zip(self.order, self.outer_order, strict=True)
        return {str(there.path): position[str(here.path)] for here, there in pairs}


def _seen_from_inner(model: Model, inner: Runner, outer: Runner) -> tuple[tuple[Order, ...], tuple[Order, ...]]:
    """The outer order as the inner rows have it, and the outer order as far as it goes.

    An outer order of (order.created_at, order, line) is (created_at, order_id) of the rows that it leads to; what
    tells apart outer rows that lead to the same row comes after.
    """
    here: list[Order] = []
    there: list[Order] = []
    key = model.entities[inner.entity].key
    for order in outer.order:
        for role in model.entities[outer.entity].roles.values():
            if role.many or role.entity != inner.entity:
                continue
            if order.path.roles == (role.name,):
                here.append(Order(order.path._replace(roles=()), order.descending))
                there.append(order)
            elif not order.path.roles and order.path.column in role.columns:
                column = key[role.columns.index(order.path.column)]
                here.append(Order(order.path._replace(column=column), order.descending))
                there.append(order)
        if set(key) <= {one.path.column for one in here}:
            break
    return tuple(here), tuple(there)


class ThenNode:
    """Rows that have a column, in its order, before those that lack it."""

    def __init__(self, executor: Executor, node: Then) -> None:
        self.first = executor.compile(node.first)
        self.second = executor.compile(node.second)
        self.column = node.column
        self.entity = self.first.entity
        self.order = self.first.order
        self.provides = self.first.provides
        self.free = tuple(sorted({*self.first.free, *self.second.free}))

    def many(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None = None,
        limit: int | None = None,
    ) -> Proc[list[list[Row]]]:
        positions: list[Position | None] = list(after or [None] * len(outers))
        result: list[list[Row]] = [[] for _ in outers]
        numbers = [number for number, position in enumerate(positions) if not self.is_behind(position)]
        if numbers:
            here = [outers[number] for number in numbers]
            lists = yield from self.first.many(call, here, [positions[number] for number in numbers], limit)
            for number, rows in zip(numbers, lists, strict=True):
                result[number] = rows
        numbers = [number for number in range(len(outers)) if limit is None or len(result[number]) < limit]
        if numbers:
            here = [outers[number] for number in numbers]
            starts = [self.start(positions[number]) for number in numbers]
            lists = yield from self.second.many(call, here, starts, limit)
            for number, rows in zip(numbers, lists, strict=True):
                for row in rows:
                    row.setdefault(self.column, None)
                result[number] += rows
        return result if limit is None else [rows[:limit] for rows in result]

    def start(self, position: Position | None) -> Position | None:
        """A position among the rows that lack the column, in the order of those."""
        return position if self.is_behind(position) else None

    def is_behind(self, position: Position | None) -> bool:
        """Whether a position is past every row that has the column."""
        return position is not None and position[self.column] is None


class IntersectNode:
    """The keys of the rows that all parts find."""

    def __init__(self, executor: Executor, node: Intersect) -> None:
        self.parts = [executor.compile(part) for part in node.parts]
        self.columns = node.keys
        self.entity = node.entity
        self.order: tuple[Order, ...] = ()
        self.provides = self.key = executor.model.entities[self.entity].key
        self.free = tuple(sorted({path for part in self.parts for path in part.free}))

    def many(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None = None,
        limit: int | None = None,
    ) -> Proc[list[list[Row]]]:
        answers = yield from gather([part.many(call, outers) for part in self.parts])
        result = []
        for number in range(len(outers)):
            found = [
                dict.fromkeys(tuple(row[column] for column in columns) for row in answer[number])
                for columns, answer in zip(self.columns, answers, strict=True)
            ]
            first, *others = sorted(found, key=len)
            common = [key for key in first if all(key in other for other in others) and None not in key]
            rows = [dict(zip(self.key, key, strict=True)) for key in common]
            result.append(rows if limit is None else rows[:limit])
        return result
