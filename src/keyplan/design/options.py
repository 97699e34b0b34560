"""Options: every way to answer a need from the candidate views, as a graph of goals and options.

Six rules make all of them: search a view; fetch what it lacks; drive from the parent; re-root at the child;
intersect; aggregate (fold the rows, or read a view with measures). An option uses at most one view; what else it
takes are goals of its own, so that its cost depends on one (need, view) only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor, log10
from typing import NamedTuple

from keyplan.design.match import Match, match
from keyplan.design.measure import MeasureMatch, match_measures
from keyplan.design.needs import (
    Need,
    computed_needs,
    driven,
    extreme_row,
    intersected,
    present_then_missing,
    row_by_key,
    row_of_role,
    rows_of_role,
    select_paths,
    wanted,
)
from keyplan.design.statistics import Statistics
from keyplan.engines.base import Kind
from keyplan.engines.work import Cost, CostModel, ViewFacts, Work
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition, Outer, Select
from keyplan.plan.view import Embed, View

NO_LIMIT_MS = 1e9
DEEPEST = 5
SIZE_BIAS = 1.25
"""How much larger than the mean a partition is that a call happens to read: calls follow the rows."""
MANY_MORE = 3.0
"""Where a pattern states its `rows`, a slow call is taken to match this many times as many."""


class Heat(NamedTuple):
    """How often per second, at the peak, something is asked for, and the share of it that is the same."""

    per_second: float
    share: float


@dataclass(frozen=True)
class Extra:
    """Something that a view lacks of what is wanted: a need of its own, so often per row."""

    role: str
    what: str
    need: Need
    times: float
    under: tuple[str, ...] = ()
    select: Select | None = None
    early: bool = False


@dataclass(frozen=True)
class Way:
    """A view that can answer a need: everything about it that does not depend on where the need arises."""

    match: Match
    along: Mapping[str, Select]
    extras: tuple[Extra, ...]
    work: Work
    cost: Cost
    entries: float
    rows: float


@dataclass
class Sub:
    """A goal that an option raises, and what its answer is for."""

    goal: Goal
    role: str = ""
    """The role chain that it fills in; empty: the row's own missing columns; for a computed column its name."""
    what: str = "row"
    """row, children, computed, outer, inner, rows, first, second, part."""
    under: tuple[str, ...] = ()
    select: Select | None = None
    early: bool = False
    """Its conditions do not depend on the row, so that it runs in the same round trip as the search."""


@dataclass
class Option:
    """One way to reach a goal."""

    kind: str
    """search, measure, fold, drive, then, intersect."""
    view: View | None
    cost: Cost
    requests: float
    rows: float
    """Rows that it delivers per execution."""
    entries: float = 0.0
    bytes: float = 0.0
    match: Match | None = None
    measure: MeasureMatch | None = None
    subs: tuple[Sub, ...] = ()
    along: Mapping[str, Select] = field(default_factory=dict)
    sorted: bool = False
    by_outer: bool = False
    """drive: the order is that of the outer rows."""


@dataclass
class Goal:
    """A need in its place: how often it occurs per call of its root, and how much time is left for it."""

    need: Need
    times: float
    budget_ms: float
    options: list[Option] = field(default_factory=list)
    rejections: list[str] = field(default_factory=list)
    number: int = -1


class Options:
    """Builds the goals of one design problem."""

    def __init__(
        self,
        model: Model,
        statistics: Statistics,
        kinds: Mapping[str, Kind],
        costs: CostModel,
        views: Sequence[View],
        facts: Mapping[str, ViewFacts],
    ) -> None:
        self.model = model
        self.statistics = statistics
        self.kinds = kinds
        self.costs = costs
        self.facts = facts
        self.places: dict[str, list[tuple[View, tuple[str, ...]]]] = {name: [] for name in model.entities}
        self.measured: dict[str, list[View]] = {name: [] for name in model.entities}
        for view in views:
            if view.measures:
                self.measured[view.entity].append(view)
                continue
            self.places[view.entity].append((view, ()))
            for at, embed in view.nested():
                if embed.limit is None:
                    self.places[embed.entity].append((view, at))
        self.goals: list[Goal] = []
        self._heat: Heat | None = None
        self._memo: dict[tuple[object, ...], Goal] = {}
        self._prepared: dict[Need, tuple[list[Way], list[str]]] = {}

    def root(self, need: Need, budget_ms: float | None, heat: Heat | None = None) -> Goal:
        """The goal of a pattern or of a write's lookup, with everything below it."""
        self._memo = {}
        self._heat = heat
        return self._goal(need, 1.0, budget_ms or NO_LIMIT_MS, 0)

    def _goal(self, need: Need, times: float, budget_ms: float, depth: int) -> Goal:
        budget_ms = coarse(budget_ms)
        key = (need, round(times, 9), budget_ms)
        goal = self._memo.get(key)
        if goal is None:
            goal = Goal(need, times, budget_ms)
            self._memo[key] = goal
            goal.number = len(self.goals)
            self.goals.append(goal)
            if depth > DEEPEST:
                goal.rejections.append("the plan would nest too deep")
            else:
                self._fill(goal, depth)
        return goal

    def _fill(self, goal: Goal, depth: int) -> None:
        need = goal.need
        if need.fold is not None:
            self._measured(goal)
            self._folded(goal, depth)
            return
        ways, refused = self._ways(need)
        goal.rejections.extend(refused)
        for way in ways:
            self._searched(goal, way, depth)
        self._driven(goal, depth)
        self._in_two(goal, depth)
        self._intersected(goal, depth)

    # rule 1 and 2: search a view, fetch what it lacks

    def _searched(self, goal: Goal, way: Way, depth: int) -> None:
        """One option: a prepared way, if there is time for it and for what it lacks."""
        need = goal.need
        if depth == 0 and self._heat is not None:
            # Calls for different rows meet as well where these share a partition.
            share = max(self._heat.share, way.work.facts.hottest_share)
            reason = self.costs.too_hot(way.work, self._heat.per_second * share)
            if reason:
                goal.rejections.append(reason)
                return
        cost = self._timed(way.work, goal, way.cost)
        if cost.p99_ms > goal.budget_ms:
            goal.rejections.append(
                f"reading '{need.entity}' takes {cost.p99_ms:.0f} ms of {goal.budget_ms:.0f} ms left"
            )
            return
        goals = []
        for extra in way.extras:
            budget = goal.budget_ms - cost.p99_ms if goal.budget_ms < NO_LIMIT_MS else NO_LIMIT_MS
            if extra.early:
                budget = goal.budget_ms
            child = self._goal(extra.need, goal.times * extra.times, budget, depth + 1)
            if not child.options:
                goal.rejections.extend(child.rejections[:2])
                return
            goals.append(Sub(child, extra.role, extra.what, extra.under, extra.select, extra.early))
        times = goal.times
        scaled = Cost(cost.cost * times, {unit: n * times for unit, n in cost.units.items()}, cost.p99_ms)
        goal.options.append(
            Option(
                "search",
                way.match.view,
                scaled,
                way.match.spans * times,
                way.rows,
                way.entries * times,
                way.entries * way.work.entry_bytes * times,
                way.match,
                None,
                tuple(goals),
                way.along,
                way.match.ordered,
            )
        )

    def _ways(self, need: Need) -> tuple[list[Way], list[str]]:
        """Every view that can answer a need, with what it costs and lacks; worked out once per need."""
        if need not in self._prepared:
            ways: list[Way] = []
            refused: list[str] = []
            for view, at in self.places[need.entity]:
                way = self._way(need, view, at, refused)
                if way is not None:
                    ways.append(way)
            self._prepared[need] = (ways, refused)
        return self._prepared[need]

    def _way(self, need: Need, view: View, at: tuple[str, ...], refused: list[str]) -> Way | None:
        found = match(self.model, self.statistics, self.kinds[view.kind], view, need, at)
        if found is None:
            return None
        facts = self.facts[view.name]
        if any(self.model.is_many(need.entity, c.path.roles) for c in (*found.filter, *found.left)):
            return None
        limit = need.limit if found.ordered else None
        total = self.statistics.matched(need.entity, need.given, need.at_least)
        keep_after = total / found.rows if found.left and found.rows else 1.0
        keep_inside = found.rows / found.entries if found.entries else 1.0
        entries, rows = found.entries, found.rows
        if limit is not None:
            rows = min(rows, limit / max(keep_after, 1e-9))
            per_span = min(entries / found.spans, rows / max(keep_inside, 1e-9))
            entries = min(entries, per_span * found.spans)
        elif need.limit is not None:
            # Only a page is wanted, but all of it has to be read to be sorted: larger ones are read more often.
            entries, rows = entries * SIZE_BIAS, rows * SIZE_BIAS
        # An exact page of an ordered view is bounded; anything else may have to read its whole partition.
        exact = limit is not None and not found.left and not found.filter
        most = float(limit or 0) if exact else max(entries / found.spans, 1.0 if found.get else found.most)
        if need.at_least and not exact:
            most = min(most, max(entries, need.at_least) * MANY_MORE)
        if found.scan and not self.costs.scans(facts, most):
            refused.append(f"only a scan of {facts.rows:.3g} rows of '{need.entity}' would find them")
            return None
        along, extras = self._additions(need, found, rows)
        if extras is None:
            return None
        work = Work(
            view,
            facts,
            found.get,
            found.spans,
            1.0 if found.get else entries / found.spans,
            1.0 if found.get else most,
            self.costs.entry_bytes(view, facts, at),
            need.strong,
            not found.missing and set(need.wants) <= set(view.holds),
            found.scan,
            at,
            tuple(along),
            not found.get and not (exact and entries >= (limit or 0)),
        )
        return Way(
            found, along, tuple(self._soon(need, extra) for extra in extras), work, self.costs.read(work), entries, rows
        )

    def _soon(self, need: Need, extra: Extra) -> Extra:
        """The extra with `early` set, if it need not wait for the row."""
        early = self._early(need, extra.need) if not extra.under else None
        return extra if early is None else replace(extra, need=early, early=True)

    def _timed(self, work: Work, goal: Goal, cost: Cost) -> Cost:
        """The cost of one execution, and the p99 of all executions that one call makes at once."""
        if goal.times <= 1:
            return cost
        return replace(cost, p99_ms=self.costs.read(replace(work, requests=work.requests * goal.times)).p99_ms)

    def _early(self, need: Need, inner: Need) -> Need | None:
        """The inner need with the key that the outer one fixes put in place of the row's, so that it need not wait."""
        if not self.statistics.fixes_one_row(need.entity, need.given):
            return None
        known = {c.path.column: c.operands[0] for c in need.given if c.op == "=" and not c.path.roles and c.cut is None}
        given = []
        for condition in inner.given:
            operand = condition.operands[0]
            if not isinstance(operand, Outer) or operand.path not in known:
                return None
            given.append(replace(condition, operands=(known[operand.path],)))
        return replace(inner, given=tuple(given))

    def _additions(self, need: Need, found: Match, rows: float) -> tuple[dict[str, Select], list[Extra] | None]:
        """What has to be fetched besides, and which children come along."""
        model = self.model
        here = model.entities[need.entity]
        subs: list[Extra] = []
        asked = set(found.missing)
        for condition in found.left:
            asked.add(str(condition.path))
            asked |= {str(path) for path in condition.also}
        asked -= set(found.view.holds) if not found.at else set()
        own = {text for text in asked if text in here.columns and here.columns[text].computed is None}
        computed = {text for text in asked if text in here.columns and here.columns[text].computed is not None}
        behind = asked - own - computed
        kind = self.kinds[found.view.kind]
        reachable = set(found.view.holds) | (set(here.stored) if kind.holds_all else set())
        if found.at:
            embed = found.view.embed_at(found.at)
            assert embed is not None
            reachable = set(embed.holds)
        if own:
            # The row's own home has to be read: everything that hangs on it comes with it.
            fixed = {c.path.column for c in need.given if c.op == "=" and not c.path.roles and c.cut is None}
            if set(here.key) <= fixed:
                return {}, None  # the key is known: reading the row at once is never dearer
            subs.append(Extra("", "row", row_by_key(model, need.entity, own | behind, strong=need.strong), rows))
        else:
            for name in sorted({path_of(text, model, need.entity).roles[0] for text in behind}):
                role = here.roles[name]
                if role.many:
                    return {}, None
                inner = {text[len(name) + 1 :] for text in behind if text.startswith(name + ".")}
                if not set(role.columns) <= reachable:
                    return {}, None
                times = rows * self.statistics.present(need.entity, role.columns[0])
                subs.extend(self._behind(need.entity, name, inner, need.strong, times, ()))
        for together, inner_need in computed_needs(model, need.entity, computed, need.strong):
            subs.append(Extra(", ".join(together), "computed", inner_need, rows))
        along: dict[str, Select] = {}
        embeds = {embed.role: embed for embed in self._embeds_at(found)}
        for tree in need.trees:
            embed_here = embeds.get(tree.role)
            if embed_here is not None and embed_here.limit is None and "." not in tree.role:
                along[tree.role] = tree.select
                extra = self._under(need, tree.role, tree.select, embed_here, rows)
                if extra is None:
                    return {}, None
                subs.extend(extra)
                continue
            chain = tuple(tree.role.split("."))
            owner = model.entity_at(need.entity, chain[:-1])
            child = rows_of_role(model, owner, chain[-1], tree.select, need.strong)
            if len(chain) > 1:
                prefix = ".".join(chain[:-1])
                child = replace(child, given=tuple(self._outer_through(need.entity, prefix, c) for c in child.given))
            subs.append(Extra(tree.role, "children", child, rows, (), tree.select))
        return along, subs

    def _behind(
        self, entity: str, role: str, paths: set[str], strong: bool, times: float, under: tuple[str, ...]
    ) -> Iterable[Extra]:
        """The row behind a to-one role; its computed columns depend on the key alone and need no row."""
        target = self.model.entities[self.model.entities[entity].roles[role].entity]
        computed = {text for text in paths if text in target.columns and target.columns[text].computed is not None}
        for together, need in computed_needs(self.model, target.name, computed, strong):
            given = tuple(self._outer_through(entity, role, condition) for condition in need.given)
            label = together[0] if len(together) == 1 else f"({', '.join(together)})"
            yield Extra(f"{role}.{label}", "computed", replace(need, given=given), times, under)
        if paths - computed:
            need = row_of_role(self.model, entity, role, paths - computed, strong)
            yield Extra(role, "row", need, times, under)

    def _outer_through(self, entity: str, prefix: str, condition: Condition) -> Condition:
        operand = condition.operands[0]
        assert isinstance(operand, Outer)
        path = self.model.resolve(entity, f"{prefix}.{operand.path}")
        return replace(condition, operands=(Outer(str(path)),))

    def _embeds_at(self, found: Match) -> Iterable[Embed]:
        embed = found.view.embed_at(found.at)
        return embed.embeds if embed is not None else found.view.embeds

    def _under(self, need: Need, role: str, select: Select, embed: Embed, rows: float) -> list[Extra] | None:
        """What embedded children lack, fetched for each of them."""
        model = self.model
        entity = embed.entity
        here = model.entities[entity]
        times = rows * self.statistics.fan_out(need.entity, role)
        if select.limit:
            times = min(times, rows * select.limit)
        paths, trees = select_paths(model, entity, select)
        lacking = set(wanted(model, entity, paths)) - set(embed.holds)
        found: list[Extra] = []
        computed = [text for text in lacking if text in here.columns]
        for together, inner_need in computed_needs(model, entity, computed, need.strong):
            found.append(Extra(", ".join(together), "computed", inner_need, times, (role,)))
        behind = {text for text in lacking if text not in here.columns}
        for name in sorted({path_of(text, model, entity).roles[0] for text in behind}):
            inner = {text[len(name) + 1 :] for text in behind if text.startswith(name + ".")}
            present = self.statistics.present(entity, here.roles[name].columns[0])
            found.extend(self._behind(entity, name, inner, need.strong, times * present, (role,)))
        for tree in trees:
            if "." in tree.role:
                return None
            child = rows_of_role(model, entity, tree.role, tree.select, need.strong)
            found.append(Extra(tree.role, "children", child, times, (role,), tree.select))
        return found

    # rules 3 and 4: conditions behind a role

    def _driven(self, goal: Goal, depth: int) -> None:
        for outer, inner, times, ordered, role in driven(self.model, self.statistics, goal.need):
            spent = self.costs.round_ms("get") if goal.budget_ms < NO_LIMIT_MS else 0.0
            outer_goal = self._goal(outer, goal.times, goal.budget_ms - spent, depth + 1)
            if ordered and outer.order:
                outer_goal.options = [option for option in outer_goal.options if option.sorted]
            if not outer_goal.options:
                goal.rejections.extend(outer_goal.rejections[:2])
                continue
            left = goal.budget_ms
            if left < NO_LIMIT_MS:
                # Slow ways to the first rows would leave no time for the second: only the fast ones stay.
                fastest = min(option_p99(option) for option in outer_goal.options)
                outer_goal.options = [o for o in outer_goal.options if option_p99(o) <= 1.5 * fastest]
                left -= max(option_p99(option) for option in outer_goal.options)
            inner_goal = self._goal(inner, goal.times * times, left, depth + 1)
            if ordered and inner.order:
                inner_goal.options = [option for option in inner_goal.options if option.sorted]
            if not inner_goal.options:
                goal.rejections.extend(inner_goal.rejections[:2])
                continue
            rows = self.statistics.matched(goal.need.entity, goal.need.given, goal.need.at_least)
            if ordered and goal.need.limit:
                rows = min(rows, float(goal.need.limit))
            subs = (Sub(outer_goal, role, "outer"), Sub(inner_goal, "", "inner"))
            by_outer = ordered and bool(outer.order)
            option = Option("drive", None, Cost(), 0.0, rows, subs=subs, sorted=ordered, by_outer=by_outer)
            goal.options.append(option)

    # rule 5: two keys at once

    def _intersected(self, goal: Goal, depth: int) -> None:
        for first, second, whole in intersected(self.model, goal.need):
            found = self.statistics.matched(goal.need.entity, (*first.given, *second.given), goal.need.at_least)
            half = goal.budget_ms / 2 if goal.budget_ms < NO_LIMIT_MS else NO_LIMIT_MS
            goals = [self._goal(part, goal.times, half, depth + 1) for part in (first, second)]
            goals.append(self._goal(whole, goal.times * max(found, 1e-6), half, depth + 1))
            if not all(one.options for one in goals):
                continue
            rows = self.statistics.matched(goal.need.entity, goal.need.given, goal.need.at_least)
            subs = (*(Sub(one, "", "part", early=True) for one in goals[:2]), Sub(goals[2], "", "row"))
            goal.options.append(Option("intersect", None, Cost(), 0.0, rows, subs=subs))

    # an order over a column that may be missing

    def _in_two(self, goal: Goal, depth: int) -> None:
        """Rows that have the column in its order, then those that lack it."""
        parts = present_then_missing(self.model, goal.need)
        if parts is None:
            return
        first, second = (self._goal(part, goal.times, goal.budget_ms / 2, depth + 1) for part in parts)
        first.options = [option for option in first.options if option.sorted]
        second.options = [option for option in second.options if option.sorted]
        if not first.options or not second.options:
            goal.rejections.extend((*first.rejections[:2], *second.rejections[:2]))
            return
        rows = self.statistics.matched(goal.need.entity, goal.need.given, goal.need.at_least)
        subs = (Sub(first, "", "first"), Sub(second, "", "second"))
        goal.options.append(Option("then", None, Cost(), 0.0, rows, subs=subs, sorted=True))

    # rule 6: aggregates

    def _measured(self, goal: Goal) -> None:
        need = goal.need
        assert need.fold is not None
        for view in self.measured[need.entity]:
            found = match_measures(self.model, self.statistics, self.kinds[view.kind], view, need)
            if found is None:
                continue
            facts = self.facts[view.name]
            size = self.costs.entry_bytes(view, facts)
            entries = 1.0 if found.get else found.entries / found.spans
            work = Work(view, facts, found.get, found.spans, entries, max(entries, found.entries), size, need.strong)
            cost = self._timed(work, goal, self.costs.read(work))
            if cost.p99_ms > goal.budget_ms:
                goal.rejections.append(f"reading the counters takes {cost.p99_ms:.0f} ms of {goal.budget_ms:.0f} ms")
                continue
            scaled = Cost(cost.cost * goal.times, {k: v * goal.times for k, v in cost.units.items()}, cost.p99_ms)
            total = found.entries * goal.times
            goal.options.append(
                Option(
                    "measure", view, scaled, found.spans * goal.times, found.entries, total, total * size, None, found
                )
            )

    def _folded(self, goal: Goal, depth: int) -> None:
        last = extreme_row(self.model, goal.need)
        if last is not None:
            child = self._goal(last, goal.times, goal.budget_ms, depth + 1)
            child.options = [option for option in child.options if option.sorted]
            if child.options:
                goal.options.append(Option("fold", None, Cost(), 0.0, 1.0, subs=(Sub(child, "", "rows"),)))
        rows = replace(goal.need, fold=None)
        child = self._goal(rows, goal.times, goal.budget_ms, depth + 1)
        if not child.options:
            goal.rejections.extend(child.rejections)
            return
        many = self.statistics.matched(rows.entity, rows.given, rows.at_least)
        goal.options.append(Option("fold", None, Cost(), 0.0, many, subs=(Sub(child, "", "rows"),)))


def coarse(milliseconds: float) -> float:
    """A time budget with two digits, rounded down: goals that differ by less are one goal."""
    if milliseconds <= 0 or milliseconds >= NO_LIMIT_MS:
        return milliseconds
    step = 10.0 ** (floor(log10(milliseconds)) - 1)
    return floor(milliseconds / step + 1e-9) * step


def option_p99(option: Option) -> float:
    """The least p99 with which an option can be carried out."""
    early = [goal_p99(sub.goal) for sub in option.subs if sub.early]
    late = [goal_p99(sub.goal) for sub in option.subs if not sub.early]
    if option.kind in ("drive", "then"):
        return sum(late)
    return max([option.cost.p99_ms, *early]) + max(late, default=0.0)


def goal_p99(goal: Goal) -> float:
    """The least p99 with which a goal can be reached."""
    return min((option_p99(option) for option in goal.options), default=0.0)
