"""From a model and an engine to the design problem: needs, candidates that fit, goals, upkeep, requirements."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import inf, log10
from types import MappingProxyType

from keyplan.design.candidates.carrying import carried_rows
from keyplan.design.candidates.closure import Candidates
from keyplan.design.candidates.facts import Facts
from keyplan.design.candidates.forms import Forms
from keyplan.design.candidates.homes import Homes, is_home
from keyplan.design.candidates.local import base_rows, doubled_rows
from keyplan.design.candidates.overflow import most_wanted
from keyplan.design.candidates.required import is_exact, required_views
from keyplan.design.needs.lookups import all_needs, write_lookups
from keyplan.design.needs.need import need_of_pattern, rank_target_need, whole_row
from keyplan.design.options.goals import Goal, Heat, Option, goal_p99
from keyplan.design.options.graph import Options
from keyplan.design.problem.beside import apart_rows
from keyplan.design.problem.crowds import crowds_at
from keyplan.design.problem.definition import CARRY, CHECK, INFEASIBLE, Calls, Problem, Root
from keyplan.design.problem.fitting import add_given, called_alike, drop_baseless, fitted_views, heat_of, no_others
from keyplan.design.problem.growth import growth_of
from keyplan.design.problem.heat import places
from keyplan.design.problem.worth import at_least_worth, copies_of_rows, is_covering, least_cost, waiting_cost
from keyplan.design.statistics.derived import Statistics
from keyplan.design.statistics.together import is_read_to_return, shares_in_transactions
from keyplan.design.upkeep.effects import Carry, Upkeep
from keyplan.design.upkeep.maintain import Maintenance
from keyplan.engines.base import Engine, Kind
from keyplan.engines.work import Cost, CostModel, Couplings, LinearRow, ViewFacts
from keyplan.model.model import Model
from keyplan.model.pattern import Pattern
from keyplan.model.write import Write
from keyplan.plan.late_sums import may_come_late
from keyplan.plan.view import View

CLUTTER = 1e-4
"""The share of the whole cost that any structure has to save."""


NO_VIEW = "no view can find them"
"""Why a pattern is unserved, where nothing tells more."""


@dataclass
class Ground:
    """What a problem is built on, whatever keeping its views true is found to take: candidates, and ways to answer."""

    model: Model
    engine: Engine
    costs: CostModel
    statistics: Statistics
    forms: Forms
    options: Options
    candidates: list[View]
    """As they are collected, before the engine says in which forms it can keep them."""
    views: dict[str, View]
    facts: dict[str, ViewFacts]
    roots: list[Root]
    """Those of patterns, and of what writes look up by themselves."""
    unserved: dict[str, list[str]]
    """Per pattern or write that has no options at all: the reasons."""
    given: dict[str, tuple[str, ...]]
    """Per name of a given view: what its forms are called in the problem, of which it has to have one."""
    refused: dict[str, str]
    """Per home or guard, some forms of which the engine cannot keep: why not."""
    crowded: bool = False
    """Rows may have another entry beside one that is too hot for that, because otherwise there is no design."""
    same: Set[str] = frozenset()
    """The names of views that are the same, and called the same, in the problem that this one is `like`."""
    baseless: Mapping[str, str] = field(default_factory=dict)
    """Per name of a given view that nothing is left for to be kept over: that this is so."""

    @property
    def given_names(self) -> list[str]:
        """What all given views are called in the problem, in whichever form, in their order."""
        return [name for names in self.given.values() for name in names]


@dataclass
class Built:
    """A problem with what it was made from."""

    problem: Problem
    ground: Ground
    whole_rows: dict[str, Goal]
    couplings: Couplings
    """The engine's own rows alone, without those that keep each write within one atomic request."""
    keeps_apart: bool = False
    """Views that are too hot for it have no other entry of their rows beside them."""
    reads_all: bool = False
    """What repeats a value inside other rows may be found by reading everything, because views for it do not fit."""

    @property
    def statistics(self) -> Statistics:
        return self.ground.statistics

    @property
    def forms(self) -> Forms:
        return self.ground.forms

    @property
    def options(self) -> Options:
        return self.ground.options

    @property
    def unserved(self) -> dict[str, list[str]]:
        return self.ground.unserved

    @property
    def given(self) -> dict[str, tuple[str, ...]]:
        return self.ground.given

    @property
    def given_names(self) -> list[str]:
        return self.ground.given_names

    @property
    def kept_as(self) -> dict[str, list[str]]:
        """Per given view: what it is called in each of its forms, and views that are no other ones to the engine."""
        kinds, views = self.ground.engine.kinds, self.ground.views
        return {label: no_others(kinds, views, names) for label, names in self.given.items()}

    @property
    def baseless(self) -> Mapping[str, str]:
        return self.ground.baseless

    @property
    def refused(self) -> dict[str, str]:
        return self.ground.refused


def build_problem(
    model: Model,
    engine: Engine,
    *,
    given: Mapping[str, Sequence[View]] = MappingProxyType({}),
    without: Callable[[View], bool] = lambda view: False,
    crowded: bool = False,
    like: Built | None = None,
) -> Built:
    """The whole design problem.

    The `given` views are candidates in those of their forms that are so anyway, or else in the last. Views that are
    to be done `without` are none. `crowded`: rows may have another entry beside one that is too hot for that. `like` is
    the problem of the same model, or of one that differs in its patterns alone: what is known from there is not worked
    out again.
    """
    statistics = like.statistics if like is not None else Statistics(model)
    costs = engine.costs(model)
    facts = like.forms.facts if like is not None else Facts(model, statistics, costs)
    if like is not None and like.ground.model is model:
        candidates, wanted = like.ground.candidates, like.forms.wanted
    else:
        subsets = any(kind.subsets for kind in engine.kinds.values())
        needs = list(dict.fromkeys(all_needs(model, statistics, subsets=subsets)))
        candidates = Candidates(model, statistics, engine.kinds, carries=costs.carries).collect(needs)
        wanted = most_wanted(needs)
    forms = Forms(model, facts, engine.kinds, costs, wanted)
    refused: dict[str, str] = {}
    views, view_facts = fitted_views(model, statistics, forms, candidates, without, refused)
    same: Set[str] = frozenset()
    if like is not None:
        views, view_facts, same = called_alike(views, view_facts, like.ground.views, like.ground.facts)
    names = add_given(facts, views, view_facts, given)
    baseless = drop_baseless(model, engine.kinds, views, view_facts, names)
    before = like.options if like is not None else None
    options = Options(
        model, statistics, engine.kinds, costs, list(views.values()), view_facts, before, same & views.keys()
    )
    roots, unserved = _roots(model, statistics, options, forms)
    ground = Ground(
        model,
        engine,
        costs,
        statistics,
        forms,
        options,
        candidates,
        views,
        view_facts,
        roots,
        unserved,
        names,
        refused,
        crowded,
        same & views.keys(),
        baseless,
    )
    return build_on(ground, like=like)


def build_on(ground: Ground, *, unlike: Built | None = None, like: Built | None = None) -> Built:
    """The problem, with what keeping its views true takes.

    It is asked that views find what repeats a value inside other rows. With `unlike`, a problem in which that was so,
    everything may be read for it instead, at its price; views with nothing inside are kept true as there. So it is
    where the problem that this one is `like` had to do that.
    """
    model, kinds, costs, views = ground.model, ground.engine.kinds, ground.costs, ground.views
    scans = unlike is not None or (like is not None and like.reads_all)
    maintenance = Maintenance(model, ground.statistics, ground.forms.facts, kinds, costs, scans_embedded=scans)
    known = unlike or like
    same = {name for name, view in views.items() if not view.embeds and (unlike is not None or name in ground.same)}
    upkeep = _upkeep(model, maintenance, views, ground.facts, same, known.problem.upkeep if known is not None else {})
    # A write that cannot be done is reported, and what it would do is not paid for.
    served = {name: write.traffic.rate for name, write in model.writes.items() if name not in ground.unserved}
    kept = {key: parts for key, parts in upkeep.items() if key[0] in served}
    calls = _calls(ground.statistics, kinds)
    demanded = _returned(ground, calls, served, _demanded(model, ground.options, kept))
    roots = [*ground.roots, *demanded, *_carried(model, kinds, ground.options, views, kept)]
    roots += _checked(model, ground.options, kept)
    homes = Homes(model, kinds, views.values())
    required = required_views(homes, upserts_meet=costs.goes_on)
    own = costs.couplings(list(views.values()), ground.facts)
    least = least_cost(costs, views, ground.facts, roots, required, upkeep, served)
    copies = copies_of_rows(model, kinds, views, costs.copy_worth * least)
    apart: list[LinearRow] = []
    if not ground.crowded:
        apart += apart_rows(ground.forms, views, ground.facts, set(ground.given_names))
    bases = [*base_rows(homes), *(carried_rows(homes) if costs.carries else ())]
    couplings = Couplings(
        {**at_least_worth(own, least), **copies.variables},
        (*own.rows, *copies.rows, *bases, *doubled_rows(homes), *apart),
        several=own.several,
    )
    problem = Problem(
        views,
        ground.facts,
        roots,
        upkeep,
        served,
        costs,
        required,
        _together(costs, couplings, model, views, upkeep, required, least),
        calls,
        _carrying(model, kinds, costs, views, ground.facts, least),
        waiting_cost(costs, roots, least),
        crowds_at((root.goal for root in roots if root.kind == "pattern"), places(homes)),
        growth_of(homes, costs, ground.facts, {name: ground.statistics.rows(name) for name in model.entities}),
    )
    whole = {name: ground.options.root(whole_row(model, name), None) for name in model.entities}
    return Built(problem, ground, whole, couplings, bool(apart), scans)


def _calls(statistics: Statistics, kinds: Mapping[str, Kind]) -> dict[str, Calls]:
    together = shares_in_transactions(statistics.model)
    return {
        name: Calls(
            _several_rows(statistics, kinds, write),
            1.0 if write.by_key else max(1.0, write.rows or 1.0),
            together.get(name, 0.0),
        )
        for name, write in statistics.model.writes.items()
    }


def _several_rows(statistics: Statistics, kinds: Mapping[str, Kind], write: Write) -> bool:
    """Whether a call writes several rows that nothing can make one entry: children may be part of their parent's."""
    if write.children and any(kind.one_value for kind in kinds.values()):
        return False
    return statistics.most_rows_written(write) > 1


def _together(
    costs: CostModel,
    couplings: Couplings,
    model: Model,
    views: Mapping[str, View],
    upkeep: Mapping[tuple[str, str], list[Upkeep]],
    required: list[tuple[str, list[str]]],
    worth: float,
) -> Couplings:
    """The engine's rows, and those of each write: what it touches directly has to fit into one atomic request.

    A write is refused at the call that is too large where homes and guards alone do not fit: by the `max` of its
    children, beyond which each further entry is thought to cost a share of the `worth` of the whole, so that as large a
    call as can be is done; or because nothing says how many these are, where it is left out. Sums that may come late
    need not fit beside the rows of the largest call, only beside those of the usual one; an intent says then what they
    come to.
    """
    if costs.atomic_entries is None:
        return couplings
    rows = list(couplings.rows)
    excess: dict[str, tuple[float, float, bool]] = {}
    late = {name for name, view in views.items() if may_come_late(model, view)}
    for write in model.writes:
        parts = {name: upkeep[(write, name)] for name in views if (write, name) in upkeep}
        weights = {name: sum(part.most for part in some) for name, some in parts.items() if name not in late}
        weights = {name: weight for name, weight in weights.items() if weight}
        least = sum(min((weights.get(name, 0.0) for name in names), default=0.0) for _, names in required)
        if inf in weights.values():
            continue
        if least > costs.atomic_entries:
            if model.writes[write].kind in ("create", "upsert"):
                fewest = _fewest_entries(weights, required)
                excess[f"excess.{write}"] = (worth / fewest, INFEASIBLE, False)
                rows.append(LinearRow({**weights, f"excess.{write}": -1.0}, high=fewest))
            continue
        # Rows that follow, or are changed one by one, are not in this request.
        usual = {name: sum(min(part.entries, part.most) for part in some) for name, some in parts.items()}
        usual = {name: weight for name, weight in usual.items() if weight}
        counts = not late.isdisjoint(usual)
        if counts:
            rows.append(LinearRow(usual, high=float(costs.atomic_entries)))
        rows.append(LinearRow(weights, high=float(costs.atomic_entries - counts)))
    return replace(couplings, variables={**couplings.variables, **excess}, rows=rows)


def _fewest_entries(weights: Mapping[str, float], required: list[tuple[str, list[str]]]) -> float:
    """The entries of the largest call where there is nothing but homes and guards, each for as much as it can be."""
    chosen: dict[str, float] = {}
    lists = [names for _, names in required if names and all(weights.get(name) for name in names)]
    for names in sorted(lists, key=len):
        if chosen.keys().isdisjoint(names):
            many = {name: sum(name in other for other in lists) for name in names}
            best = min(names, key=lambda name: (weights[name] / many[name], name))
            chosen[best] = weights[best]
    return sum(chosen.values())


def _carrying(
    model: Model,
    kinds: Mapping[str, Kind],
    costs: CostModel,
    views: Mapping[str, View],
    facts: Mapping[str, ViewFacts],
    least: float,
) -> dict[str, float]:
    """A cent a month, a hundredth of a millisecond per second, or a little share of the whole if that is more: enough
    to break ties against clutter.

    Somewhat more where rows do not live under their own key but are only indexed by it, or kept elsewhere, and where a
    partition ends in the middle of a reference or is all there is: rows would share it for nothing. For the same
    reason a little less for smaller partitions. An index that only covers what it finds by a shorter key has to save a
    share of the whole, as a further copy has; so have rows and their children in one structure, which is harder to
    read, the more so the more columns sort them.
    """
    cost = max(0.01 if costs.per_second > 1 else 1e-5, CLUTTER * least)
    found = {}
    for name, view in views.items():
        key = model.entities[view.entity].key
        own = [part.path for part in view.parts if part.ways == 1] == list(key)
        plain = bool(view.measures) or view.unique or own != kinds[view.kind].kept_by_engine
        crowded = _cuts_reference(model, view) or (kinds[view.kind].partitioned and not view.partition)
        shared = 0.0 if own or not kinds[view.kind].partitioned else log10(max(1.0, facts[name].per_partition / 1000.0))
        found[name] = cost * ((1.0 if plain else 1.1) + (0.05 if crowded else 0.0) + 0.002 * shared)
        if is_covering(model, kinds, view) or kinds[view.kind].families:
            found[name] += costs.copy_worth * least
        if kinds[view.kind].families:
            found[name] += cost * 0.05 * sum(len(embed.sort) for embed in view.embeds)
    return found


def _cuts_reference(model: Model, view: View) -> bool:
    """Whether a partition has some columns of a reference, and the sort key the others."""
    first, then = ({part.path for part in parts} for parts in (view.partition, view.sort))
    columns = (set(role.columns) for role in model.entities[view.entity].roles.values() if not role.many)
    return any(one & first and one & then and one <= first | then for one in columns)


def _roots(
    model: Model, statistics: Statistics, options: Options, forms: Forms
) -> tuple[list[Root], dict[str, list[str]]]:
    roots: list[Root] = []
    unserved: dict[str, list[str]] = {}
    for name, pattern in model.patterns.items():
        heat = heat_of(statistics, pattern)
        if pattern.kind == "rank":
            goals = _rank_goals(model, options, pattern, heat)
        else:
            need = need_of_pattern(model, pattern)
            goals = [("pattern", options.root(need, pattern.p99_ms, heat, called=True))]
        large = forms.refused.get(pattern.entity)
        usual = [f"{NO_VIEW}; of one of '{pattern.entity}', {large}"] if large else [NO_VIEW]
        missing = [reason for _, goal in goals if not goal.options for reason in goal.rejections or usual]
        if missing:
            asked = dict.fromkeys((*(str(c.path) for c in pattern.where), *(str(term.path) for term in pattern.order)))
            no_keys = [text for path in asked if (text := forms.no_keys.get((pattern.entity, path)))]
            missing += [f"{missing[-1]}; {text}" for text in no_keys]
            unserved[name] = list(dict.fromkeys(missing))
            continue
        roots += [Root(name, kind, goal, pattern.traffic.rate) for kind, goal in goals]
    for name, write in model.writes.items():
        for kind, need, times in write_lookups(model, statistics, write):
            goal = options.root(need, write.p99_ms)
            if not goal.options:
                unserved[name] = list(dict.fromkeys(goal.rejections or ["no view can find its rows"]))
                continue
            roots.append(Root(name, kind, goal, write.traffic.rate * times))
    return [root for root in roots if root.name not in unserved], unserved


def _rank_goals(model: Model, options: Options, pattern: Pattern, heat: Heat | None) -> list[tuple[str, Goal]]:
    """The rows among which is ranked and the row itself, which is read first: both share the time that there is."""
    need, target_need = need_of_pattern(model, pattern), rank_target_need(model, pattern)
    target = options.root(target_need, pattern.p99_ms, called=True)
    if pattern.p99_ms is None or not target.options:
        return [("pattern", options.root(need, pattern.p99_ms, heat, called=True)), ("target", target)]
    least = goal_p99(target) * 1.1
    for share in (max(least, pattern.p99_ms / 2), least):
        target = options.root(target_need, share, called=True)
        rows = options.root(need, max(pattern.p99_ms - share, 1e-3), heat, called=True)
        if rows.options:
            break
    return [("pattern", rows), ("target", target)]


def _upkeep(
    model: Model,
    maintenance: Maintenance,
    views: Mapping[str, View],
    facts: Mapping[str, ViewFacts],
    same: Set[str],
    known: Mapping[tuple[str, str], list[Upkeep]],
) -> dict[tuple[str, str], list[Upkeep]]:
    """What each write does to each view; of those that are the `same`, as it is `known`."""
    found = {}
    reach = {name: maintenance.reach(view) for name, view in views.items()}
    for write in model.writes.values():
        entities = {effect.entity for effect in maintenance.effects(write)}
        for name, view in views.items():
            if entities.isdisjoint(reach[name]):
                continue
            parts = known.get((write.name, name)) if name in same else maintenance.of(write, view, facts[name])
            if parts:
                found[(write.name, name)] = parts
    return found


def _demanded(model: Model, options: Options, upkeep: Mapping[tuple[str, str], list[Upkeep]]) -> list[Root]:
    """One root per lookup that views demand of a write: it is made once, whoever demands it."""
    roots: dict[tuple[str, str, str], Root] = {}
    for (write, view), parts in upkeep.items():
        for part in parts:
            for demand in part.demands:
                key = (write, demand.what, demand.label)
                rate = model.writes[write].traffic.rate * demand.times
                if key not in roots:
                    goal = options.root(demand.need, None)
                    roots[key] = Root(write, demand.what, goal, rate, False, set(), demand.label)
                # Where it is made for several reasons, as often as for that which asks most, whichever comes first.
                roots[key].rate = max(roots[key].rate, rate)
                roots[key].demanded_by.add(view)
    return list(roots.values())


def _returned(
    ground: Ground, calls: Mapping[str, Calls], served: Container[str], demanded: Sequence[Root]
) -> list[Root]:
    """Those that views demand, and the rows that calls in transactions return, where the engine does not return rows
    then: they are read first, as they are where a view demands it."""
    model, roots = ground.model, list(demanded)
    for name, write in model.writes.items():
        share = calls[name].together
        always = any((root.name, root.kind) == (name, "old") for root in ground.roots)
        if share and not always and name in served and is_read_to_return(model, write, ground.costs):
            goal = ground.options.root(whole_row(model, write.entity), None)
            read = Root(name, "old", goal, write.traffic.rate * share, label=write.entity)
            too = [root for root in roots if (root.name, root.kind, root.label) == (name, "old", write.entity)]
            left = [replace(root, rate=root.rate * (1.0 - share)) for root in too if share < 1.0]
            roots = [*(root for root in roots if root not in too), *left, read]
    return roots


def _carried(
    model: Model,
    kinds: Mapping[str, Kind],
    options: Options,
    views: Mapping[str, View],
    upkeep: Mapping[tuple[str, str], list[Upkeep]],
) -> list[Root]:
    """One root per thing that homes have along for other views: a home that holds it anyway pays by itself, any other
    one is patched for all of them once."""
    roots: dict[tuple[str, str], Root] = {}
    dearest: dict[tuple[str, str], Carry] = {}
    for (write, _), parts in upkeep.items():
        for carry in (carry for part in parts for carry in part.carries):
            most = dearest.setdefault((write, carry.label), carry)
            dearest[write, carry.label] = carry if carry.cost.cost > most.cost.cost else most
    for (write, name), parts in upkeep.items():
        for carry in (dearest[write, carry.label] for part in parts for carry in part.carries):
            key = (write, carry.label)
            if key not in roots:
                held = [
                    Option("held", view, Cost(), 0.0, 0.0)
                    for view in views.values()
                    if _holds(model, kinds, view, carry)
                ]
                paid = Option("patched", None, carry.cost, 0.0, carry.work.patches)
                goal = options.carried(whole_row(model, carry.entity), [*held, paid])
                roots[key] = Root(write, CARRY, goal, model.writes[write].traffic.rate, False, set(), carry.label)
            roots[key].demanded_by.add(name)
    return list(roots.values())


def _checked(model: Model, options: Options, upkeep: Mapping[tuple[str, str], list[Upkeep]]) -> list[Root]:
    """One root per row that views copy from and that a write checks: it is checked once, whoever copies from it."""
    roots: dict[tuple[str, str], Root] = {}
    for (write, view), parts in upkeep.items():
        for check in (check for part in parts for check in part.checks):
            key = (write, check.label)
            paid = Option(CHECK, None, check.cost, 0.0, 0.0)
            if key not in roots:
                goal = options.carried(whole_row(model, check.entity), [paid])
                roots[key] = Root(write, CHECK, goal, model.writes[write].traffic.rate, False, set(), check.label)
            goal = roots[key].goal
            if check.cost.cost > goal.options[0].cost.cost:
                goal.options = [paid]
            roots[key].demanded_by.add(view)
    return list(roots.values())


def _holds(model: Model, kinds: Mapping[str, Kind], view: View, carry: Carry) -> bool:
    if view.entity != carry.entity or not carry.paths <= set(view.holds):
        return False
    return is_home(model, kinds, view) and is_exact(model, kinds, view)
