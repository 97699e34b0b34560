"""Options: every way to answer a need from the candidate views, as a graph of goals and options.

Six rules make all of them: search a view; fetch what it lacks; drive from the parent; re-root at the child;
intersect; aggregate (fold the rows, or read a view with measures, or both for a range of time, or the row that keeps
it). An option uses at most one view; what else it takes are goals of its own, so that its cost depends on one (need,
view) only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from keyplan.design.candidates.forms import is_directory
from keyplan.design.candidates.measure import MeasureMatch, match_measures
from keyplan.design.candidates.windows import moments, windowed
from keyplan.design.needs.apart import told_apart
from keyplan.design.needs.computed import refusals
from keyplan.design.needs.need import Need, believed, driven, extreme_row, intersected, present_then_missing, rows_found
from keyplan.design.needs.owned import owner_rows
from keyplan.design.options.budgets import Ask, Goals, at_once, in_turn
from keyplan.design.options.extras import GONE_SHARE, Extra
from keyplan.design.options.goals import (
    NO_LIMIT_MS,
    Goal,
    Heat,
    Option,
    Sub,
    coarse,
    note_waiting,
)
from keyplan.design.options.walks import Walk, keeps_buckets_apart, match_directory, named_buckets, walks
from keyplan.design.options.ways import Way, Ways, timed
from keyplan.design.statistics.derived import Statistics
from keyplan.engines.base import Kind
from keyplan.engines.work import Cost, CostModel, ViewFacts, Work
from keyplan.model.model import Model
from keyplan.plan.view import View
from keyplan.units import format_elapsed

DEEPEST = 5
"""Goals that are nested deeper are not followed."""


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
        like: Options | None = None,
        same: Set[str] = frozenset(),
    ) -> None:
        """`like` are the options of another problem, in which the views of these names are the `same`."""
        self.model = model
        self.statistics = statistics
        self.kinds = kinds
        self.costs = costs
        self.facts = facts
        self._views = views
        before = like.ways if like is not None else None
        self.ways: Ways = Ways(model, statistics, kinds, costs, views, facts, before, same)
        self.measured: dict[str, list[View]] = {name: [] for name in model.entities}
        for view in views:
            if view.measures:
                self.measured[view.entity].append(view)
        self.directories = {
            name: [one for one in some if is_directory(one) and not kinds[one.kind].totals]
            for name, some in self.measured.items()
        }
        self._same_entities: Set[str] = self._unchanged(like, views, same) if like is not None else frozenset()
        self._roots_before = like._roots if like is not None else {}
        self._roots: dict[tuple[object, ...], list[tuple[Goal, Set[str]]]] = {}
        self._entities: set[str] = set()
        self._known_walks: dict[Need, list[Walk]] = {}
        self._known_costs: dict[tuple[int, float], tuple[Cost, Cost]] = {}
        self._goals: int = like._goals if like is not None else 0
        self._heat: Heat | None = None
        self._memo: dict[tuple[object, ...], Goal] = {}
        self._alike: dict[tuple[object, ...], Goal] = {}
        """The goals by the ways that there are to them: with a little more time there are often no more."""

    def root(
        self,
        need: Need,
        budget_ms: float | None,
        heat: Heat | None = None,
        times: float = 1.0,
        *,
        called: bool = False,
    ) -> Goal:
        """The goal of a pattern, which is `called`, or of a write's lookup, with everything below it, for so many keys
        at once."""
        key = (need, budget_ms, heat, times, called)
        # Each root has a goal of its own, because each pays for it, though two patterns may ask the very same.
        here, before = self._roots.setdefault(key, []), self._roots_before.get(key, [])
        if len(here) < len(before) and before[len(here)][1] <= self._same_entities:
            here.append(before[len(here)])
            return here[-1][0]
        self._memo, self._alike = {}, {}
        self._heat = heat
        self._entities = set()
        goal = self._goal(believed(self.statistics, need), times, budget_ms or NO_LIMIT_MS, 0, first=heat is not None)
        if called:
            note_waiting(goal)
        here.append((goal, frozenset(self._entities)))
        return goal

    def _unchanged(self, like: Options, views: Sequence[View], same: Set[str]) -> Set[str]:
        """The entities whose rows lie in the same views as in the other problem, however deep inside: what is asked of
        these alone is answered as there."""
        now, before = _lying_in(views), _lying_in(like._views)
        return {
            name
            for name in self.model.entities
            if now.get(name) == before.get(name) and all(one in same for one in now.get(name, ()))
        }

    def carried(self, need: Need, options: list[Option]) -> Goal:
        """A goal that is reached by what holds something anyway, or by paying for it: nothing is looked up."""
        goal = Goal(need, 1.0, NO_LIMIT_MS, options, number=self._goals)
        self._goals += 1
        return goal

    def _goal(
        self, need: Need, times: float, budget_ms: float, depth: int, *, first: bool = False, is_sorted: bool = False
    ) -> Goal:
        """`first`: it is asked for by the values of the call itself, so that hot ones are hot here; whatever is asked
        for by the rows of another goal is taken to be spread. `is_sorted`: only ways that sort the rows will do."""
        budget_ms = coarse(budget_ms)
        key = (need, round(times, 9), budget_ms, first, is_sorted)
        goal = self._memo.get(key)
        if goal is None:
            goal = Goal(need, times, budget_ms)
            self._memo[key] = goal
            goal.number = self._goals
            self._goals += 1
            if depth > DEEPEST:
                goal.rejections.append("the plan would nest too deep")
            else:
                self._fill(goal, depth, first=first)
                if is_sorted:
                    goal.options = [option for option in goal.options if option.sorted]
                goal = self._memo[key] = self._alike.setdefault((*key[:2], first, *map(_way, goal.options)), goal)
        return goal

    def _fill(self, goal: Goal, depth: int, *, first: bool) -> None:
        need = goal.need
        # Where everything is read, all entities are.
        self._entities.update(self.model.entities if need.scanned else (need.entity,))
        if need.fold is not None:
            self._measured(goal, first=first)
            if need.window is None:
                self._windowed(goal, depth, first=first)
                self._folded(goal, depth, first=first)
                self._apart(goal, depth, first=first)
                self._owned(goal, depth, first=first)
            return
        if need.buckets is not None:
            self._listed(goal, first=first)
            return
        ways, refused = self.ways.of(need)
        goal.rejections.extend(refused)
        buckets = named_buckets(need)
        for way in ways:
            if not buckets or keeps_buckets_apart(buckets, way.match.given):
                self._searched(goal, way, depth, first=first)
        self._driven(goal, depth, first=first)
        self._walked(goal, depth, first=first)
        self._in_two(goal, depth, first=first)
        self._intersected(goal, depth, first=first)
        goal.rejections.extend(refusals(self.model, need))

    # rule 1 and 2: search a view, fetch what it lacks

    def _searched(self, goal: Goal, way: Way, depth: int, *, first: bool) -> None:
        """One option: a prepared way, if there is time for it and for what it lacks."""
        need = goal.need
        reads = self._reads(goal, way.work) if first else 0.0
        if reads and self._is_refused(goal, way.work, reads):
            return
        cost, scaled = self._costs(goal, way)
        if cost.p99_ms > goal.budget_ms:
            goal.rejections.append(
                f"reading '{need.entity}' takes {format_elapsed(cost.p99_ms)} of {format_elapsed(goal.budget_ms)} left"
            )
            return
        times = goal.times
        for subs in self._fetched(goal, way, cost, depth, first=first):
            goal.options.append(
                Option(
                    "search",
                    way.match.view,
                    scaled,
                    scaled.requests if scaled.requests is not None else way.work.requests * times,
                    way.rows,
                    way.entries * times,
                    way.bytes * times,
                    way.match,
                    None,
                    subs,
                    way.along,
                    way.match.ordered,
                    self.costs.heat(way.work, reads) if reads else 0.0,
                    reads,
                    beside=way.beside,
                    tells=way.tells,
                    work=way.work,
                    times=times,
                )
            )

    def _fetched(self, goal: Goal, way: Way, cost: Cost, depth: int, *, first: bool) -> list[tuple[Sub, ...]]:
        """What a way lacks, fetched in the time that it leaves, in one way or in several that share the time otherwise;
        none if there is not enough. Some of it is fetched along with the way itself (`early`), the rest after both."""
        if not way.extras:
            return [()]

        def child(extra: Extra, budget_ms: float) -> Goal:
            by_call = first and extra.early
            return self._goal(extra.need, goal.times * extra.times, budget_ms, depth + 1, first=by_call)

        early = [extra for extra in way.extras if extra.early]
        late = [extra for extra in way.extras if not extra.early and not extra.if_gone]
        gone = [extra for extra in way.extras if extra.if_gone and not extra.early]
        found = []
        for along, after in in_turn(
            goal,
            lambda ms: [child(extra, ms) for extra in early],
            lambda ms: [child(extra, ms) for extra in late],
            own_ms=cost.p99_ms,
        ):
            instead = [child(extra, NO_LIMIT_MS) for extra in gone]
            if not all(one.options for one in instead):
                goal.rejections.extend(reason for one in instead if not one.options for reason in one.foremost)
                return []
            goals = dict(zip(map(id, (*early, *late, *gone)), (*along, *after, *instead), strict=True))
            found.append(tuple(_sub(extra, goals[id(extra)]) for extra in way.extras))
        return found

    def _reads(self, goal: Goal, work: Work) -> float:
        """How often per second the pattern reads the same place, at its peak."""
        if self._heat is None:
            return 0.0
        often = self._heat.per_second * max(1.0, goal.times)
        if work.view.measures:
            # All rows of a group are one entry; groups meet where there is one partition for all of them.
            shared = 0.0 if any(part.path for part in work.view.partition) else 1.0
            return often * max(self._heat.share, shared)
        # Calls for different rows meet as well where these share a partition.
        return often * max(self._heat.share, work.facts.hottest_share)

    def _is_refused(self, goal: Goal, work: Work, reads: float) -> bool:
        """Whether a view is too hot for the pattern by itself; says so."""
        reason = self.costs.too_hot(work, reads)
        if reason:
            goal.rejections.append(reason)
        return bool(reason)

    def _costs(self, goal: Goal, way: Way) -> tuple[Cost, Cost]:
        """The cost of one execution of a way, and that of all; goals of different roots ask for the same."""
        key = (id(way), goal.times)  # the ways stay as long as the options
        found = self._known_costs.get(key)
        if found is None:
            cost = timed(self.costs, way.work, goal.times, way.cost)
            found = self._known_costs[key] = (cost, cost.times(goal.times))
        return found

    # rules 3 and 4: conditions behind a role

    def _driven(self, goal: Goal, depth: int, *, first: bool) -> None:
        for outer, inner, times, ordered, role in driven(self.model, self.statistics, goal.need):
            rows = rows_found(self.statistics, goal.need)
            if ordered and goal.need.limit:
                rows = min(rows, float(goal.need.limit))
            by_outer = ordered and bool(outer.order)
            for (before,), (after,) in in_turn(
                goal,
                self._asked(outer, times=goal.times, depth=depth, first=first, is_sorted=by_outer),
                self._asked(inner, times=goal.times * times, depth=depth, is_sorted=ordered and bool(inner.order)),
            ):
                subs = (Sub(before, role, "outer"), Sub(after, "", "inner"))
                option = Option("drive", None, Cost(), 0.0, rows, subs=subs, sorted=ordered, by_outer=by_outer)
                goal.options.append(option)

    def _asked(self, *needs: Need, times: float, depth: int, first: bool = False, is_sorted: bool = False) -> Ask:
        """Goals below another one, for any time; only ways that sort the rows, if they have to be sorted."""

        def ask(budget_ms: float) -> Goals:
            return [self._goal(one, times, budget_ms, depth + 1, first=first, is_sorted=is_sorted) for one in needs]

        return ask

    # bucket by bucket

    def _walked(self, goal: Goal, depth: int, *, first: bool) -> None:
        """The buckets that are not empty by a directory, then the rows of each until there are enough."""
        for walk in self._walks(goal.need):
            rows = rows_found(self.statistics, goal.need)
            if walk.ordered and goal.need.limit:
                rows = min(rows, float(goal.need.limit))
            is_sorted = walk.ordered or not goal.need.order
            for (before,), (after,) in in_turn(
                goal,
                self._asked(walk.outer, times=goal.times, depth=depth, first=first),
                self._asked(walk.inner, times=goal.times * walk.times, depth=depth, is_sorted=bool(walk.inner.order)),
            ):
                subs = (Sub(before, "", "outer"), Sub(after, "", "inner"))
                option = Option("drive", None, Cost(), 0.0, rows, subs=subs, sorted=is_sorted, by_outer=walk.ordered)
                goal.options.append(option)

    def _walks(self, need: Need) -> list[Walk]:
        """The walks for a need, however many goals ask for them."""
        directories = self.directories[need.entity]
        if not directories:
            return []
        found = self._known_walks.get(need)
        if found is None:
            found = self._known_walks[need] = list(walks(self.model, self.statistics, directories, need))
        return found

    def _listed(self, goal: Goal, *, first: bool) -> None:
        """The directories that say which buckets there are."""
        for view in self.directories[goal.need.entity]:
            found = match_directory(self.statistics, self.kinds[view.kind], view, goal.need)
            if found is not None:
                self._counted(goal, view, found, first=first)

    # rule 5: two keys at once

    def _intersected(self, goal: Goal, depth: int, *, first: bool) -> None:
        need = goal.need
        for parts, whole in intersected(self.model, need):
            # What the parts ask is all of what several lists are asked, and else two conditions of the row's own.
            is_listed = any(self.model.is_many(need.entity, c.path.roles) for c in need.given)
            given = need.given if is_listed else tuple(c for part in parts.values() for c in part.given)
            fewer = need.fewer if len(given) == len(need.given) else 1.0
            found = self.statistics.matched(need.entity, given, need.at_least, fewer)
            rows = rows_found(self.statistics, need)
            for some, (last,) in in_turn(
                goal,
                self._asked(*parts.values(), times=goal.times, depth=depth, first=first),
                self._asked(whole, times=goal.times * max(found, 1e-6), depth=depth),
            ):
                named = zip(parts, some, strict=True)
                subs = (*(Sub(one, name, "part", early=True) for name, one in named), Sub(last, "", "row"))
                goal.options.append(Option("intersect", None, Cost(), 0.0, rows, subs=subs))

    # an order over a column that may be missing

    def _in_two(self, goal: Goal, depth: int, *, first: bool) -> None:
        """Rows that have the column in its order, then those that lack it."""
        parts = present_then_missing(self.model, goal.need)
        if parts is None:
            return
        rows = rows_found(self.statistics, goal.need)
        asked = [self._asked(part, times=goal.times, depth=depth, first=first, is_sorted=True) for part in parts]
        for (some,), (others,) in in_turn(goal, *asked):
            subs = (Sub(some, "", "first"), Sub(others, "", "second"))
            goal.options.append(Option("then", None, Cost(), 0.0, rows, subs=subs, sorted=True))

    # rule 6: aggregates

    def _measured(self, goal: Goal, *, first: bool) -> None:
        need = goal.need
        assert need.fold is not None
        for view in self.measured[need.entity]:
            found = match_measures(self.model, self.statistics, self.kinds[view.kind], view, need)
            if found is not None:
                self._counted(goal, view, found, first=first)

    def _counted(self, goal: Goal, view: View, found: MeasureMatch, *, first: bool) -> None:
        """One option: some groups of a view with measures, if there is time for it."""
        facts = self.facts[view.name]
        size = self.costs.entry_bytes(view, facts)
        entries = 1.0 if found.get else found.entries / found.spans
        most = max(entries, found.entries)
        work = Work(view, facts, found.get, found.spans, entries, most, size, goal.need.strong)
        reads = self._reads(goal, work) if first else 0.0
        if reads and self._is_refused(goal, work, reads):
            return
        cost = timed(self.costs, work, goal.times)
        if cost.p99_ms > goal.budget_ms:
            goal.rejections.append(f"reading the counters takes {cost.p99_ms:.0f} ms of {goal.budget_ms:.0f} ms")
            return
        scaled = cost.times(goal.times)
        requests = scaled.requests if scaled.requests is not None else found.spans * goal.times
        total = found.entries * goal.times
        heat = self.costs.heat(work, reads) if reads else 0.0
        option = Option("measure", view, scaled, requests, found.entries, total, total * size, None, found)
        option.heat, option.reads = heat, reads
        goal.options.append(option)

    def _windowed(self, goal: Goal, depth: int, *, first: bool) -> None:
        """What is kept of the windows that lie wholly in a range of time, and the rows of those that it cuts."""
        need = goal.need
        for path, cut in moments(self.measured[need.entity]):
            found = windowed(self.model, self.statistics, need, path, cut)
            if found is None or not (found.cut or found.expired):
                continue
            # The windows that a range cuts are known at once; that some have lost rows is seen in what is kept of them.
            late = bool(found.expired)
            times = goal.times * (found.cut + found.expired)
            asked = [
                self._asked(found.whole, times=goal.times, depth=depth, first=first),
                self._asked(found.edges, times=times, depth=depth, first=first),
            ]
            rows = rows_found(self.statistics, need)
            for (whole,), (edges,) in in_turn(goal, *asked) if late else at_once(goal, *asked):
                subs = (
                    Sub(whole, "", "whole", early=True),
                    Sub(edges, "", "edges", early=not late, chance=min(1.0, found.expired)),
                )
                goal.options.append(Option("windows", None, Cost(), 0.0, rows, subs=subs, windows=found))

    def _folded(self, goal: Goal, depth: int, *, first: bool) -> None:
        last = extreme_row(self.model, goal.need)
        if last is not None:
            child = self._goal(last, goal.times, goal.budget_ms, depth + 1, first=first, is_sorted=True)
            if child.options:
                goal.options.append(Option("fold", None, Cost(), 0.0, 1.0, subs=(Sub(child, "", "rows"),)))
        rows = replace(goal.need, fold=None)
        child = self._goal(rows, goal.times, goal.budget_ms, depth + 1, first=first)
        if not child.options:
            goal.rejections.extend(child.rejections)
            return
        many = rows_found(self.statistics, rows)
        goal.options.append(Option("fold", None, Cost(), 0.0, many, subs=(Sub(child, "", "rows"),)))

    def _apart(self, goal: Goal, depth: int, *, first: bool) -> None:
        """Aggregates over the same rows, some of them by themselves, all at once."""
        for parts in told_apart(self.model, goal.need):
            each = [self._goal(part, goal.times, goal.budget_ms, depth, first=first) for part in parts]
            if all(one.options for one in each):
                subs = tuple(Sub(one, "", "part", early=True) for one in each)
                goal.options.append(Option("apart", None, Cost(), 0.0, 1.0, subs=subs))

    def _owned(self, goal: Goal, depth: int, *, first: bool) -> None:
        """What the row keeps that the rows refer to; where it is not there, they are folded, or counted elsewhere."""
        if depth:
            return  # only what a call itself asks: the rows of others have, or fetch, the row that keeps it
        for need, columns in owner_rows(self.model, self.statistics, goal.need):
            row = Goal(need, goal.times, goal.budget_ms, number=self._goals)
            self._goals += 1
            self._entities.add(need.entity)
            for way in self.ways.of(need)[0]:
                if not (way.extras or way.tells):
                    self._searched(row, way, depth + 1, first=first)
            if not row.options:
                continue
            instead = self._goal(goal.need, goal.times * GONE_SHARE, NO_LIMIT_MS, depth + 1)
            if instead.options:
                gone = Sub(instead, "", "instead", chance=GONE_SHARE, if_gone=True)
                option = Option("owned", None, Cost(), 0.0, 1.0, subs=(Sub(row), gone), columns=columns)
                goal.options.append(option)


def _lying_in(views: Sequence[View]) -> dict[str, list[str]]:
    """Per entity: the names of the views that its rows lie in."""
    found: dict[str, list[str]] = {}
    for view in views:
        for entity in dict.fromkeys((view.entity, *(embed.entity for _, embed in view.nested()))):
            found.setdefault(entity, []).append(view.name)
    return found


def _way(option: Option) -> tuple[object, ...]:
    """What tells an option from others of the same need. The works of ways stay as long as the options."""
    view = option.view.name if option.view is not None else ""
    below = ((sub.role, sub.what, sub.goal.number) for sub in option.subs)
    return (option.kind, view, id(option.work) if option.work is not None else 0, option.by_outer, *below)


def _sub(extra: Extra, goal: Goal) -> Sub:
    of = (extra.role, extra.what, extra.under, extra.select, extra.early, extra.beyond, extra.chance)
    return Sub(goal, *of, extra.if_gone)
