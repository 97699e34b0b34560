"""Running a Search: spans become requests, replies become rows, rows are filtered, merged and cut.

Every span of every outer row goes out in the same round. A limit is passed on to the engine; where a filter then
leaves too few rows, the span is topped up from where it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil
from typing import Any

from keyplan.engines.base import Kind
from keyplan.engines.codec import Ask, Codec, Span
from keyplan.engines.rounds import Proc
from keyplan.errors import DesignError
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import Order, Outer
from keyplan.plan.children import first_along, is_kept_order
from keyplan.plan.design import Design
from keyplan.plan.steps import Search
from keyplan.plan.view import View
from keyplan.store.reading.expiry import compile_alive
from keyplan.store.reading.filter import Call, Holds, Row, compile_filter
from keyplan.store.reading.keys import Key, key_of
from keyplan.store.reading.order import Position, position_of, sort_rows, total
from keyplan.store.reading.spans import Spans
from keyplan.store.steps import note

MOST_AT_ONCE = 1000
"""Rows asked for per span when topping up."""
MOST_BUCKETS_AT_ONCE = 16
"""Time buckets that a walk reads in one round."""

Keep = Callable[[Row], bool]


def with_expiries(view: View, search: Search) -> Search:
    """The search, taking also when the rows expire that its conditions and copies come from."""
    embed = view.embed_at(search.at)
    holds = embed.holds if embed is not None else view.holds
    paths = [*search.takes, *(str(one.path) for one in (*search.given, *search.filter))]
    roles = {path[:end] for path in paths for end, letter in enumerate(path) if letter == "."}
    more = sorted({f"{role}.{EXPIRES}" for role in roles} & set(holds) - set(search.takes))
    return replace(search, takes=(*search.takes, *more)) if more else search


class SearchNode:
    """A compiled Search."""

    def __init__(self, model: Model, design: Design, kinds: Mapping[str, Kind], codec: Codec, search: Search) -> None:
        view = design.views[search.view]
        search = with_expiries(view, search)
        self.search = search
        self.view = view
        key = key_of(model, view, search.at)
        if not kinds[view.kind].partitioned and not view.packed:
            key = Key(key.entity, (), key.parts)  # one sorted sequence: any prefix will do
        self.entity = key.entity
        self.spans = Spans(model, search, key)
        self.reader = codec.reader(search)
        self.order = search.order
        self.provides = (*search.takes, *search.along)
        conditions = (*search.filter, *(one for one in self.spans.residual if not self.is_left_to_others(one)))
        self.check_takes(conditions)
        self.filter = compile_filter(model, self.entity, conditions)
        self.alive = compile_alive(
            model, self.entity, search.takes, [str(one.path) for one in search.given], search.along
        )
        self.free = tuple(
            sorted(
                {
                    one.path
                    for condition in (*search.given, *search.filter)
                    for one in condition.operands
                    if isinstance(one, Outer)
                }
            )
        )
        self.drops = self.filter is not None or self.alive is not None
        # Through an index, children come along with the entries that it is over.
        keeper = design.views[view.base] if view.base and search.along else view
        self.topped = _topped(model, kinds, view, search)
        """The role of which only the first children come along though they may have expired, and how many there are to
        be."""
        self.families = list(_families(model, self.entity, keeper, search))
        """Embedded children that are wanted in another order than the one they are kept in, or not all of them."""
        repeated = any(part.cut in ("each", "words") for part in key.parts[len(self.spans.fixed) :])
        self.repeats = tuple(model.entities[self.entity].key) if repeated else ()
        """The key, where one row may be found more than once."""
        self.op = "scan" if self.spans.scan else "get" if self.spans.single else "query"

    def is_left_to_others(self, condition: Any) -> bool:
        """Whether a search by words, of which a key answers one, is tested where all its texts are known."""
        if condition in self.search.filter or self.view.measures:
            return True  # of groups that are coarser than a range, whoever reads their rows tests these again
        paths = {str(path) for path in (condition.path, *condition.also)}
        return condition.op == "search" and not paths <= set(self.search.takes)

    def check_takes(self, conditions: Sequence[Any]) -> None:
        takes = {*self.search.takes, *self.search.along}
        for condition in conditions:
            for path in (condition.path, *condition.also):
                if str(path) not in takes and not any(str(path).startswith(role + ".") for role in self.search.along):
                    raise DesignError(f"the plan filters view '{self.search.view}' by '{path}' without taking it")

    def many(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None = None,
        limit: int | None = None,
    ) -> Proc[list[list[Row]]]:
        """The rows for each outer row, their embedded children as they are wanted."""
        if self.spans.ranged is not None and any(self.spans.is_wide(call, outer) for outer in outers):
            lists = []
            for number, outer in enumerate(outers):
                lists.append((yield from self.wide(call, outer, after[number] if after is not None else None, limit)))
        else:
            lists = yield from self.found(call, outers, after, limit)
        for role, order, most in self.families:
            for row in chain.from_iterable(lists):
                row[role] = sort_rows(row[role], order)[:most]
        return lists

    def wide(
        self, call: Call, outer: Mapping[str, Any], position: Position | None, limit: int | None
    ) -> Proc[list[Row]]:
        """The rows of a range over very many time buckets, some of these at a time; never more rows than are wanted."""
        rows: list[Row] = []
        sorts = bool(self.order) and not self.spans.in_order
        for some in self.spans.windows(call, outer, position):
            left = limit if limit is None or sorts else limit - len(rows)
            (found,) = yield from self.found(call, [outer], [position], left, some)
            rows += found
            if sorts:
                rows = sort_rows(rows, self.order)[:limit]
            elif limit is not None and len(rows) >= limit:
                break
        return rows

    def found(
        self,
        call: Call,
        outers: Sequence[Mapping[str, Any]],
        after: Sequence[Position | None] | None,
        limit: int | None,
        among: Sequence[Any] | None = None,
    ) -> Proc[list[list[Row]]]:
        """The same without the children; `among` as for spans."""
        if len(outers) == 1 and not self.drops and not self.repeats:
            spans = self.spans.spans(call, outers[0], among)
            if len(spans) == 1:
                return (yield from self.plain(call, spans[0], after[0] if after is not None else None, limit))
        if after is not None and not any(after):
            after = None
        if self.spans.scan and len(outers) > 1 and after is None:
            return (yield from self.scan_once(call, outers, limit))
        spans = []
        owners: list[int] = []
        for number, outer in enumerate(outers):
            position = after[number] if after is not None else None
            for span in self.spans.spans(call, outer, among):
                left = self.spans.resume(span, self.order, position) if position is not None else span
                if left is not None:
                    spans.append(left)
                    owners.append(number)
        if len(outers) == 1:
            keeps = [self.keep(call, outers[0])] * len(spans)
        else:
            bound = [self.keep(call, outer) for outer in outers]
            keeps = [bound[owner] for owner in owners]
        if limit is not None and self.spans.bucket is not None and len(spans) > len(outers):
            found = yield from self.walk(call, spans, owners, keeps, limit)
        else:
            found = yield from self.fetch(call, spans, keeps, limit)
        if len(outers) == len(spans) == 1:
            lists = found
        else:
            lists = [[] for _ in outers]
            counts = [0] * len(outers)
            for owner, rows in zip(owners, found, strict=True):
                lists[owner] += rows
                counts[owner] += 1
            for number, count in enumerate(counts):
                if count > 1 and self.order:
                    lists[number] = sort_rows(lists[number], self.order)
        if self.repeats:
            lists = [distinct(rows, self.repeats) for rows in lists]
        return lists if limit is None else [rows[:limit] for rows in lists]

    def plain(self, call: Call, span: Span, position: Position | None, limit: int | None) -> Proc[list[list[Row]]]:
        """One span of which every entry counts: the common case, and the shortest way."""
        if position is not None:
            left = self.spans.resume(span, self.order, position)
            if left is None:
                return [[]]
            span = left
        reader = self.reader
        rows: list[Row] = []
        asks = reader.ask((span,), limit, strong=call.strong)
        while asks:
            replies = yield [ask.request for ask in asks]
            more: list[Ask] = []
            read = 0
            for ask, reply in zip(asks, replies, strict=True):
                answer = reader.answer(ask, reply)
                found = answer.rows[0]
                read += len(found)
                rows = [*rows, *found] if rows else found
                if answer.more is not None and (limit is None or len(rows) < limit):
                    more.append(answer.more)
            note(self.op, self.search.view, len(asks), read)
            asks = more
        return [rows if limit is None else rows[:limit]]

    def scan_once(self, call: Call, outers: Sequence[Mapping[str, Any]], limit: int | None) -> Proc[list[list[Row]]]:
        """One scan for all outer rows, in place of one each."""
        (rows,) = yield from self.fetch(call, [Span(())], [None], None)
        if self.repeats:
            rows = distinct(rows, self.repeats)
        result: list[list[Row]] = []
        for outer in outers:
            keep = self.keep(call, outer)
            found = [row for row in rows if keep is None or keep(row)]
            result.append(found if limit is None else found[:limit])
        return result

    def keep(self, call: Call, outer: Mapping[str, Any]) -> Keep | None:
        """The test that an entry has to pass."""
        if not self.drops:
            return None
        holds: Holds | None = self.filter(call, outer) if self.filter is not None else None
        alive, now = self.alive, call.now
        if alive is None:
            return holds
        if holds is None:
            return lambda row: alive(row, now)
        test = holds
        return lambda row: alive(row, now) and test(row)

    def walk(
        self, call: Call, spans: list[Span], owners: Sequence[int], keeps: Sequence[Keep | None], limit: int
    ) -> Proc[list[list[Row]]]:
        """The rows of each span, time buckets in the order of the rows until there are enough of them."""
        assert self.spans.bucket is not None
        buckets: dict[int, dict[Any, list[int]]] = {}
        for number, (span, owner) in enumerate(zip(spans, owners, strict=True)):
            buckets.setdefault(owner, {}).setdefault(span.partition[self.spans.bucket], []).append(number)
        down = self.order[0].descending
        walkers = [Walker([some[one] for one in sorted(some, reverse=down)], limit) for some in buckets.values()]
        found: list[list[Row]] = [[] for _ in spans]
        while walkers:
            steps = [walker.step() for walker in walkers]
            numbers = [number for step in steps for number in step]
            lists = yield from self.fetch(
                call, [spans[number] for number in numbers], [keeps[number] for number in numbers], limit
            )
            for number, rows in zip(numbers, lists, strict=True):
                found[number] = rows
            for walker, step in zip(walkers, steps, strict=True):
                walker.rows += sum(len(found[number]) for number in step)
            walkers = [walker for walker in walkers if walker.goes_on]
        return found

    def fetch(
        self, call: Call, spans: list[Span], keeps: Sequence[Keep | None], limit: int | None
    ) -> Proc[list[list[Row]]]:
        """The rows of each span that pass, at most `limit` of each."""
        found: list[list[Row]] = [[] for _ in spans]
        numbers = list(range(len(spans)))
        # Without an order there is no position to resume from, so that a filter needs the span in one go.
        size = limit if limit is not None and (self.order or not self.drops) else None
        while numbers:
            here = [spans[number] for number in numbers]
            last = yield from self.read(call, here, numbers, keeps, found, limit, size)
            numbers = []
            for number, (count, position) in last.items():
                assert limit is not None
                if size is not None and count >= size and len(found[number]) < limit:
                    left = self.spans.resume(spans[number], self.order, position)
                    if left is not None:
                        spans[number] = left
                        numbers.append(number)
            if size is not None:
                size = min(size * 2, max(MOST_AT_ONCE, size))
        return found

    def read(
        self,
        call: Call,
        spans: list[Span],
        numbers: Sequence[int],
        keeps: Sequence[Keep | None],
        found: list[list[Row]],
        limit: int | None,
        size: int | None,
    ) -> Proc[dict[int, tuple[int, Position]]]:
        """Reads spans into `found`; says for those cut by `size` how many entries came and where the last stands."""
        reader = self.reader
        asks: list[Ask] = reader.ask(spans, size, strong=call.strong)
        last: dict[int, tuple[int, Position]] = {}
        while asks:
            replies = yield [ask.request for ask in asks]
            more: list[Ask] = []
            read = 0
            for ask, reply in zip(asks, replies, strict=True):
                answer = reader.answer(ask, reply)
                lacking = False
                for index, rows in zip(ask.spans, answer.rows, strict=True):
                    if not rows:
                        continue
                    read += len(rows)
                    number = numbers[index]
                    keep = keeps[number]
                    # Before `keep`, which clears copies of rows that have expired.
                    position = position_of(self.order, rows[-1]) if size is not None and self.drops else None
                    kept = rows if keep is None else [row for row in rows if keep(row)]
                    lacking = answer.more is not None and self.lacks_children(kept)
                    if lacking:
                        continue  # they come again
                    if position is not None:
                        count = last[number][0] if number in last else 0
                        last[number] = (count + len(rows), position)
                    found[number] += kept
                if answer.more is None:
                    continue
                goes_on = limit is None or any(len(found[numbers[index]]) < limit for index in answer.more.spans)
                if lacking if self.topped is not None and any(answer.rows) else goes_on:
                    more.append(answer.more)
            note(self.op, self.search.view, len(asks), read)
            asks = more
        return last

    def lacks_children(self, rows: Sequence[Row]) -> bool:
        """Whether rows came with fewer children than are wanted, because some have expired."""
        if self.topped is None:
            return False
        role, most = self.topped
        return any(len(row[role]) < most for row in rows)


@dataclass
class Walker:
    """How far one walk over time buckets has come."""

    buckets: list[list[int]]
    """The spans of each bucket, in the order in which they are wanted."""
    limit: int
    rows: int = 0
    read: int = 0
    together: int = 0

    def step(self) -> list[int]:
        """The spans to read next: one bucket, then as many as are still wanted by what came so far."""
        if not self.together:
            self.together = 1
        elif self.rows:
            self.together = ceil((self.limit - self.rows) * self.read / self.rows)
        else:
            self.together *= 2
        self.together = max(1, min(self.together, MOST_BUCKETS_AT_ONCE))
        some = self.buckets[self.read : self.read + self.together]
        self.read += len(some)
        return [number for bucket in some for number in bucket]

    @property
    def goes_on(self) -> bool:
        return self.rows < self.limit and self.read < len(self.buckets)


def distinct(rows: list[Row], key: Sequence[str]) -> list[Row]:
    """Each row once, by its key."""
    seen: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        seen.setdefault(tuple(row[column] for column in key), row)
    return list(seen.values())


def _topped(model: Model, kinds: Mapping[str, Kind], view: View, search: Search) -> tuple[str, int] | None:
    most = first_along(model, view, search.along) if kinds[view.kind].first_along else None
    if most is None:
        return None
    (role,) = search.along
    child = model.entities[model.entities[view.entity].roles[role].entity]
    return (role, most) if child.ttl is not None else None


def _families(
    model: Model, entity: str, view: View, search: Search
) -> Iterator[tuple[str, tuple[Order, ...], int | None]]:
    """Per role of `along`, the order to sort by, empty if the children come in it, and how many are wanted."""
    for role, select in search.along.items():
        step = model.entities[entity].roles[role]
        embed = view.embed_at((*search.at, role))
        assert embed is not None
        kept = is_kept_order(model, entity, embed, select)
        order = () if kept else total(model.entities[step.entity], select.order)
        if order or select.limit is not None:
            yield role, order, select.limit
