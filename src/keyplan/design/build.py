"""From a model and an engine to the design problem: needs to a fixed point, candidates, goals, upkeep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType

from keyplan.design.candidates import Candidates
from keyplan.design.facts import Facts
from keyplan.design.given import identity, view_key
from keyplan.design.goals import Goal, Heat, goal_p99
from keyplan.design.maintain import Maintenance, Upkeep
from keyplan.design.match import match
from keyplan.design.needs import (
    Need,
    computed_needs,
    dependents,
    driven,
    extreme_row,
    intersected,
    need_of_pattern,
    present_then_missing,
    rank_target_need,
    row_by_key,
    row_of_role,
    rows_of_role,
    wanted,
    whole_row,
)
from keyplan.design.options import Options
from keyplan.design.problem import Problem, Root
from keyplan.design.statistics import Statistics, peak_rate, zipf_top
from keyplan.engines.base import Engine, Kind
from keyplan.engines.work import CostModel, Couplings, LinearRow, Rejection, ViewFacts
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Param, Pattern
from keyplan.model.write import Write
from keyplan.plan.view import COPIES, View


@dataclass
class Built:
    """A problem with what it was made from."""

    problem: Problem
    statistics: Statistics
    facts: Facts
    options: Options
    unserved: dict[str, list[str]]
    """Per pattern or write that has no options at all: the reasons."""
    whole_rows: dict[str, Goal]
    given: dict[str, str] = field(default_factory=dict)
    """Per name of a given view: what it is called in the problem."""


def build_problem(
    model: Model,
    engine: Engine,
    *,
    given: Mapping[str, Sequence[View]] = MappingProxyType({}),
    without: Set[tuple[object, ...]] = frozenset(),
) -> Built:
    """The whole design problem.

    The `given` views are candidates in the first of their forms that is one anyway, or else in the last. Views whose
    `view_key` is in `without` are none.
    """
    statistics = Statistics(model)
    costs = engine.costs(model)
    facts = Facts(model, statistics)
    needs = list(dict.fromkeys(_all_needs(model, statistics)))
    candidates = Candidates(model, statistics, engine.kinds).collect(needs)
    candidates = [view for view in candidates if view_key(view) not in without]
    views, view_facts = _fitted(model, statistics, facts, engine.kinds, costs, candidates)
    names = _add_given(facts, views, view_facts, given)
    options = Options(model, statistics, engine.kinds, costs, list(views.values()), view_facts)
    maintenance = Maintenance(model, statistics, facts, engine.kinds, costs)
    roots, unserved = _roots(model, statistics, options)
    upkeep = _upkeep(model, maintenance, views, view_facts)
    roots += _demanded(model, options, upkeep)
    required = _required(model, engine.kinds, views)
    problem = Problem(
        views,
        view_facts,
        roots,
        upkeep,
        {name: write.traffic.rate for name, write in model.writes.items()},
        costs,
        required,
        _together(costs, costs.couplings(list(views.values()), view_facts), model, engine.kinds, views, upkeep),
        {name: statistics.most_rows_written(write) > 1 for name, write in model.writes.items()},
        _structure_cost(costs),
    )
    whole = {name: options.root(whole_row(model, name), None) for name in model.entities}
    return Built(problem, statistics, facts, options, unserved, whole, names)


def _together(
    costs: CostModel,
    couplings: Couplings,
    model: Model,
    kinds: Mapping[str, Kind],
    views: Mapping[str, View],
    upkeep: Mapping[tuple[str, str], list[Upkeep]],
) -> Couplings:
    """The engine's rows, and one per write: what it touches directly has to fit into one atomic request.

    A write whose homes alone do not fit (children without a `max`) is left out: it is refused at the call that is
    too large.
    """
    if costs.atomic_entries is None:
        return couplings
    rows = list(couplings.rows)
    for write in model.writes:
        weights = {name: sum(part.most for part in upkeep[(write, name)]) for name in views if (write, name) in upkeep}
        weights = {name: weight for name, weight in weights.items() if weight}
        homes: dict[str, float] = {}
        for name, weight in weights.items():
            view = views[name]
            for entity in (view.entity, *homes_inside(model, view)):
                if view.embeds or is_home(model, kinds, view):
                    homes[entity] = min(homes.get(entity, inf), weight)
        if sum(homes.values()) > costs.atomic_entries or inf in weights.values():
            continue
        rows.append(LinearRow(weights, high=float(costs.atomic_entries)))
    return Couplings(couplings.variables, rows)


def _structure_cost(costs: CostModel) -> float:
    """A cent a month, or a hundredth of a millisecond per second: enough to break ties against clutter."""
    return 0.01 if costs.per_second > 1 else 1e-5


# needs, to a fixed point


def _all_needs(model: Model, statistics: Statistics) -> Iterator[Need]:
    stack: list[Need] = []
    for pattern in model.patterns.values():
        stack.append(need_of_pattern(model, pattern))
        if pattern.kind == "rank":
            stack.append(rank_target_need(model, pattern))
    for write in model.writes.values():
        stack.extend(need for _, need, _ in write_lookups(model, statistics, write))
        stack.append(whole_row(model, write.entity))
    seen: set[Need] = set()
    while stack:
        need = stack.pop(0)
        if need in seen:
            continue
        seen.add(need)
        yield need
        stack.extend(_raised(model, statistics, need))


def _raised(model: Model, statistics: Statistics, need: Need) -> Iterator[Need]:
    """The needs that answering a need may raise, whatever view is used."""
    here = model.entities[need.entity]
    if need.fold is not None:
        yield replace(need, fold=None)
        last = extreme_row(model, need)
        if last is not None:
            yield last
        return
    yield row_by_key(model, need.entity, need.wants, strong=need.strong)
    asked = {*need.wants, *(str(c.path) for c in need.given if not model.is_many(need.entity, c.path.roles))}
    behind: dict[str, set[str]] = {}
    computed: list[str] = []
    for text in sorted(asked):
        path = path_of(text, model, need.entity)
        if path.roles:
            behind.setdefault(path.roles[0], set()).add(text[len(path.roles[0]) + 1 :])
        elif here.columns[text].computed is not None:
            computed.append(text)
    yield from (inner for _, inner in computed_needs(model, need.entity, computed, need.strong))
    for name, inner in sorted(behind.items()):
        yield row_of_role(model, need.entity, name, inner, need.strong)
        for write in model.writes.values():
            target = here.roles[name].entity
            changes = set(write.sets) | set(write.adds)
            if write.entity == target and (write.kind in ("upsert", "delete", "change") or changes & inner):
                yield dependents(model, need.entity, name)
    for tree in need.trees:
        chain = tree.role.split(".")
        owner = model.entity_at(need.entity, tuple(chain[:-1]))
        yield rows_of_role(model, owner, chain[-1], tree.select, need.strong)
    for first, then, _, _, _ in driven(model, statistics, need):
        yield first
        yield then
    yield from present_then_missing(model, need) or ()
    for parts in intersected(model, need):
        yield from parts


def write_lookups(model: Model, statistics: Statistics, write: Write) -> list[tuple[str, Need, float]]:
    """What a write reads whatever the views are: (kind, need, times per call)."""
    found: list[tuple[str, Need, float]] = []
    here = model.entities[write.entity]
    if not write.by_key:
        found.append(
            ("find", Need(write.entity, write.where, wanted(model, write.entity, here.stored), strong=True), 1.0)
        )
    elif write.kind == "change":
        found.append(("old", whole_row(model, write.entity), 1.0))

    def walk(entity: str, children: Mapping[str, object], times: float) -> None:
        for name, deeper in children.items():
            role = model.entities[entity].roles[name]
            if write.kind == "delete":
                found.append(("children", dependents(model, role.entity, role.field), times))
            else:
                snapshots(role.entity, times * statistics.fan_out(entity, name), role.field)
            assert isinstance(deeper, Mapping)
            walk(role.entity, deeper, times * statistics.fan_out(entity, name))

    def snapshots(entity: str, times: float, parent: str = "") -> None:
        sources: dict[str, set[str]] = {}
        for item in model.entities[entity].fields.values():
            if item.source is not None:
                path = model.resolve(entity, item.source)
                if path.roles and path.roles[0] != parent:
                    sources.setdefault(path.roles[0], set()).add(str(path)[len(path.roles[0]) + 1 :])
        for role, inner in sources.items():
            found.append(("snapshot", row_of_role(model, entity, role, inner, True), times))

    walk(write.entity, write.children, 1.0)
    if write.kind in ("create", "upsert"):
        snapshots(write.entity, 1.0)
    return found


# views


def _fitted(
    model: Model,
    statistics: Statistics,
    facts: Facts,
    kinds: Mapping[str, Kind],
    costs: CostModel,
    candidates: list[View],
) -> tuple[dict[str, View], dict[str, ViewFacts]]:
    views: dict[str, View] = {}
    found: dict[str, ViewFacts] = {}
    needs = [(pattern, need_of_pattern(model, pattern)) for pattern in model.patterns.values()]
    for view in candidates:
        readers = 0.0
        for pattern, need in needs:
            if need.entity == view.entity and need.fold is None and not view.measures:
                used = match(model, statistics, kinds[view.kind], view, need)
                if used is not None and not used.scan:
                    heat = heat_of(statistics, pattern)
                    readers = max(readers, heat.per_second * heat.share)
        fitted = costs.fit(view, facts.of(view, readers))
        if isinstance(fitted, Rejection):
            continue
        if any(_is_optional(model, view, embed.role) for embed in view.embeds):
            continue
        known = facts.of(fitted, readers)
        for variant in (fitted, *costs.variants(fitted, known)):
            name = view.name if variant is fitted else f"v{len(candidates) + len(views)}"
            views[name] = replace(variant, name=name)
            found[name] = known if variant is fitted else facts.of(variant, readers)
    return views, found


def _add_given(
    facts: Facts, views: dict[str, View], found: dict[str, ViewFacts], given: Mapping[str, Sequence[View]]
) -> dict[str, str]:
    """Adds views that have to be there to the candidates, and says what they are called there."""
    known = {identity(view): name for name, view in views.items()}
    number = max((int(name[1:]) for name in views), default=-1)
    names = {}
    for label, forms in given.items():
        view = next((form for form in forms if identity(form) in known), forms[-1])
        if identity(view) not in known:
            number += 1
            name = f"v{number}"
            known[identity(view)] = name
            views[name] = replace(view, name=name, base="")
            found[name] = facts.of(views[name])
        names[label] = known[identity(view)]
    return names


def heat_of(statistics: Statistics, pattern: Pattern) -> Heat:
    """How often per second, at its peak, a pattern is called, and the share of calls that ask for the same thing: by
    its own, its entity's or its parameters' skew."""
    entity = statistics.model.entities[pattern.entity]
    share = pattern.traffic.top or 0.0
    skew = pattern.traffic.skew or entity.skew
    if not share and skew:
        share = zipf_top(statistics.rows(pattern.entity), skew)
    if not share and entity.top:
        share = entity.top
    if not share:
        shares = [
            statistics.hottest_share(pattern.entity, c.path, c.cut)
            for c in pattern.where
            if c.op == "="
            and isinstance(c.operands[0], Param)
            and not statistics.model.is_many(pattern.entity, c.path.roles)
        ]
        share = min(shares, default=1.0)
    return Heat(peak_rate(pattern.traffic), share)


def _is_optional(model: Model, view: View, role: str) -> bool:
    """A child without a parent has no place inside one."""
    step = model.entities[view.entity].roles[role]
    return any(model.entities[step.entity].columns[column].optional for column in step.columns)


def is_home(model: Model, kinds: Mapping[str, Kind], view: View) -> bool:
    """A view kept by us that holds every row whole, under a key that contains the entity's."""
    here = model.entities[view.entity]
    if kinds[view.kind].kept_by_engine or view.where or view.measures or view.unique:
        return False
    paths = set()
    for part in view.parts:
        if part.cut == COPIES:
            return False  # copies are for reading; a home is where a row is written
        if part.ways > 1:
            continue
        path = path_of(part.path, model, view.entity)
        if path.roles or part.cut in ("each", "words") or model.column(view.entity, path).optional:
            return False
        if part.cut is None:
            paths.add(part.path)
    return set(here.stored) <= set(view.holds) and set(here.key) <= paths


def is_exact(model: Model, kinds: Mapping[str, Kind], view: View) -> bool:
    """A self-kept view under exactly the entity's key: it can refuse a second row."""
    if kinds[view.kind].kept_by_engine or view.where or view.measures or view.unique:
        return False
    return {part.path for part in view.parts} == set(model.entities[view.entity].key)


def homes_inside(model: Model, view: View) -> Iterator[str]:
    """The entities whose rows an embed of the view holds whole."""
    for embed in view.embeds:
        role = model.entities[view.entity].roles[embed.role]
        if embed.limit is None and set(model.entities[role.entity].stored) <= set(embed.holds):
            yield role.entity


def _required(model: Model, kinds: Mapping[str, Kind], views: Mapping[str, View]) -> list[tuple[str, list[str]]]:
    required = []
    for name, entity in model.entities.items():
        homes = [v.name for v in views.values() if v.entity == name and is_home(model, kinds, v)]
        homes += [v.name for v in views.values() if name in homes_inside(model, v)]
        required.append((f"a home of '{name}'", homes))
        if _needs_guard(model, name):
            exact = [v.name for v in views.values() if v.entity == name and is_exact(model, kinds, v)]
            for view in views.values():
                for embed in view.embeds:
                    if embed.entity == name and _embed_is_exact(model, view, embed.role):
                        exact.append(view.name)
            required.append((f"a guard of the key of '{name}'", exact))
        for columns in entity.unique:
            guards = [
                v.name
                for v in views.values()
                if v.entity == name and v.unique and tuple(part.path for part in v.parts) == columns
            ]
            required.append((f"a guard of unique {', '.join(columns)} of '{name}'", guards))
    return required


def _embed_is_exact(model: Model, view: View, role: str) -> bool:
    step = model.entities[view.entity].roles[role]
    embed = next(embed for embed in view.embeds if embed.role == role)
    parts = {*step.columns, *(part.path for part in embed.sort)}
    return parts == set(model.entities[step.entity].key)


def _needs_guard(model: Model, entity: str) -> bool:
    """Whether a create may meet an existing key: not where every new key is generated."""
    here = model.entities[entity]
    generated = any(here.columns[column].type.kind in ("uuid", "ulid") and column in here.fields for column in here.key)
    if generated:
        return False
    for write in model.writes.values():
        if write.kind == "create":
            entities = {write.entity}
            stack: list[tuple[str, Mapping[str, object]]] = [(write.entity, write.children)]
            while stack:
                owner, children = stack.pop()
                for role, deeper in children.items():
                    child = model.entities[owner].roles[role].entity
                    entities.add(child)
                    assert isinstance(deeper, Mapping)
                    stack.append((child, deeper))
            if entity in entities:
                return True
    return False


# roots and upkeep


def _roots(model: Model, statistics: Statistics, options: Options) -> tuple[list[Root], dict[str, list[str]]]:
    roots: list[Root] = []
    unserved: dict[str, list[str]] = {}
    for name, pattern in model.patterns.items():
        heat = heat_of(statistics, pattern)
        if pattern.kind == "rank":
            goals = _rank_goals(model, options, pattern, heat)
        else:
            goals = [("pattern", options.root(need_of_pattern(model, pattern), pattern.p99_ms, heat))]
        missing = [reason for _, goal in goals if not goal.options for reason in goal.rejections or ["no view can"]]
        if missing:
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
    return roots, unserved


def _rank_goals(model: Model, options: Options, pattern: Pattern, heat: Heat | None) -> list[tuple[str, Goal]]:
    """The rows among which is ranked and the row itself, which is read first: both share the time that there is."""
    need, target_need = need_of_pattern(model, pattern), rank_target_need(model, pattern)
    target = options.root(target_need, pattern.p99_ms)
    if pattern.p99_ms is None or not target.options:
        return [("pattern", options.root(need, pattern.p99_ms, heat)), ("target", target)]
    least = goal_p99(target) * 1.1
    for share in (max(least, pattern.p99_ms / 2), least):
        target = options.root(target_need, share)
        rows = options.root(need, max(pattern.p99_ms - share, 1e-3), heat)
        if rows.options:
            break
    return [("pattern", rows), ("target", target)]


def _upkeep(
    model: Model, maintenance: Maintenance, views: Mapping[str, View], facts: Mapping[str, ViewFacts]
) -> dict[tuple[str, str], list[Upkeep]]:
    found = {}
    reach = {name: maintenance.reach(view) for name, view in views.items()}
    for write in model.writes.values():
        entities = {effect.entity for effect in maintenance.effects(write)}
        for name, view in views.items():
            if entities.isdisjoint(reach[name]):
                continue
            parts = maintenance.of(write, view, facts[name])
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
                if key not in roots:
                    goal = options.root(demand.need, None)
                    rate = model.writes[write].traffic.rate * demand.times
                    roots[key] = Root(write, demand.what, goal, rate, False, set(), demand.label)
                roots[key].demanded_by.add(view)
    return list(roots.values())
