"""From a choice of views to a design: plans read off the dynamic program, names, homes, figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from keyplan.design.answer.describe import plan_steps, write_steps
from keyplan.design.answer.figures import add_units, call_figures, one_after_other
from keyplan.design.answer.names import view_names
from keyplan.design.answer.nodes import Nodes
from keyplan.design.candidates.carrying import carrying_bases
from keyplan.design.candidates.facts import marks_of
from keyplan.design.candidates.homes import Base, Homes, homes_inside, is_home
from keyplan.design.candidates.local import bases_of, needs_base
from keyplan.design.findings.contradictions import contradictions
from keyplan.design.findings.crowded import crowded_rows
from keyplan.design.findings.feeds import gathered_feeds
from keyplan.design.findings.followers import scanning_writes
from keyplan.design.findings.largest import how_done, large_writes
from keyplan.design.findings.rare_words import rare_words
from keyplan.design.findings.slow import slow_patterns, slow_writes
from keyplan.design.needs.computed import computed_of, kept_by
from keyplan.design.needs.need import Need, dangling, dependents, in_order, rows_of_group
from keyplan.design.needs.subsets import refill_need
from keyplan.design.options.goals import Goal, Option
from keyplan.design.problem.beside import entries_of_rows, heated
from keyplan.design.problem.build import Built
from keyplan.design.problem.definition import Evaluation, Problem, Root, best_options, carried, evaluate
from keyplan.design.problem.heat import heat_of_views, warnings
from keyplan.design.program.solve import Solution
from keyplan.design.statistics.weakly import weakly
from keyplan.design.upkeep.calls import WriteCalls
from keyplan.engines.base import Engine
from keyplan.engines.work import Cost, Load, Share, Work, total
from keyplan.model.model import Model, path_of
from keyplan.plan.dangling import dangling_role
from keyplan.plan.design import Design, Finding, Objective, Structure, Unserved, ViewFigures
from keyplan.plan.steps import (
    Attach,
    Extend,
    Figures,
    Node,
    Plan,
    Search,
    Touch,
    WritePlan,
)
from keyplan.plan.view import View
from keyplan.plan.walk import searches


class Assembly:
    """Reads the plans of one solution off its evaluation."""

    def __init__(
        self, model: Model, engine: Engine, built: Built, solution: Solution, keep: Design | None = None
    ) -> None:
        """`keep` is the design whose views are given."""
        self.model = model
        self.engine = engine
        self.built = built
        self.solution = solution
        self.keep = keep
        # Given views come first, in their order, so that a design that keeps them names and packs them as before.
        given = dict.fromkeys(name for names in built.kept_as.values() for name in names)
        first = {name: number for number, name in enumerate(given)}
        order = sorted(solution.chosen, key=lambda name: (first.get(name, len(first)), int(name[1:])))
        self.chosen = {name: built.problem.views[name] for name in order}
        self.grown = built.problem.growth.under(solution.chosen)
        self.evaluation = self._evaluated(built.problem)
        self._known: dict[tuple[Need, float], Figures] = {}
        self.homes = self._homes()
        self.bases = self._bases()
        self.names = view_names(model, self.chosen, {name for name, _ in self.homes.values()})
        self.nodes = Nodes(model, engine.kinds, self.names, self.evaluation.choice)
        views = [replace(self._kept(view), base=self.bases.get(name, ("",))[0]) for name, view in self.chosen.items()]
        self.calls = WriteCalls(
            model, built.statistics, engine.kinds, built.problem.costs, views, weakly(self._looked_up)
        )

    def design(self, seconds: float, unserved: Mapping[str, Unserved]) -> Design:
        """The whole design."""
        problem = self.built.problem
        views = {self.names[old]: self._named(view) for old, view in self.chosen.items()}
        plans = self._plans()
        homes = {entity: (self.names[name], at) for entity, (name, at) in self.homes.items()}
        writes = {name: self._write(name) for name in self.model.writes if name not in unserved}
        loads = [Load(name, self.model.patterns[name].traffic, plan.figures.units) for name, plan in plans.items()]
        loads += [Load(name, self.model.writes[name].traffic, plan.figures.units) for name, plan in writes.items()]
        settings = problem.costs.settings(loads)
        structures = self.engine.pack(self.model, tuple(views.values()), settings)
        structures, hot = self.engine.kept_apart(self.model, views, structures, self._shares(), self._before())
        objective = Objective(
            problem.costs.unit,
            self.solution.value,
            self.solution.bound,
            self.solution.gap,
            len(problem.views),
            seconds,
            problem.costs.per_second,
            carried(problem, set(self.solution.chosen)),
        )
        dependents = self._dependents()
        pointing_nowhere = self._dangling()
        found = Design(
            self.model.name,
            self.engine.name,
            views,
            structures,
            homes,
            {name: self._whole_row(name) for name in self.model.entities},
            dependents,
            plans,
            writes,
            objective,
            self._figures(),
            (
                *self._findings(),
                *hot,
                *scanning_writes(self.model, views, dependents, pointing_nowhere),
                *large_writes(self.model, problem, self.chosen.keys()),
                *rare_words(self.built.statistics, problem, self.evaluation),
                *slow_patterns(self.model, plans),
                *gathered_feeds(self.built.statistics, plans),
                *slow_writes(self.model, writes),
                *crowded_rows(self.model, self.built.statistics, self.engine.kinds, problem, self.chosen.keys()),
            ),
            dict(unserved),
            settings,
            pointing_nowhere,
            self._refills(),
            self._groups(),
        )
        return replace(found, findings=(*found.findings, *self.engine.findings(self.model, found)))

    def _evaluated(self, problem: Problem) -> Evaluation:
        """What is chosen, priced, with options as they are where entries are larger beside others."""
        found = evaluate(problem, set(self.solution.chosen))
        found.choice = self._as_grown(found.choice)
        return found

    def _as_grown(self, choice: Mapping[int, Option]) -> dict[int, Option]:
        costs = self.built.problem.costs
        return {number: self.grown.option(costs, option) for number, option in choice.items()}

    # views

    def _homes(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Each entity's home: under its own key where there is a choice, the one that holds most otherwise."""
        able: dict[str, list[tuple[bool, str, tuple[str, ...]]]] = {entity: [] for entity in self.model.entities}
        for name, view in self.chosen.items():
            if is_home(self.model, self.engine.kinds, view):
                key = set(self.model.entities[view.entity].key)
                able[view.entity].append(({part.path for part in view.parts} != key, name, ()))
            inside = set(homes_inside(self.model, view)) if view.embeds else ()
            for embed in view.embeds:
                if embed.entity in inside:
                    able[embed.entity].append((True, name, (embed.role,)))
        homes: dict[str, tuple[str, tuple[str, ...]]] = {}
        for entity, found in able.items():
            _, name, at = min(found, key=lambda home: (home[0], int(home[1][1:])))
            homes[entity] = (name, at)
        return homes

    def _bases(self) -> dict[str, Base]:
        """Per engine-kept view, what it is kept over: the entity's home, or one with its own partition."""
        kinds = self.engine.kinds
        bases = {}
        homes = Homes(self.model, kinds, self.chosen.values())
        for name, view in self.chosen.items():
            home = self.homes[view.entity]
            if needs_base(kinds[view.kind]):
                able = bases_of(homes, view)
                bases[name] = home if home in able else able[0]
            elif kinds[view.kind].kept_by_engine:
                able = carrying_bases(homes, view)
                usual = [base for base in (self._document(view.entity), home) if base is not None]
                bases[name] = next((base for base in (*usual, *able) if base in able), usual[0])
        return bases

    def _document(self, entity: str) -> Base | None:
        """The home that has children in its documents, so that they come along through indexes over it."""
        kinds = self.engine.kinds
        for name, view in self.chosen.items():
            if (
                view.entity == entity
                and view.embeds
                and kinds[view.kind].one_value
                and is_home(self.model, kinds, view)
            ):
                return name, ()
        return None

    def _named(self, view: View) -> View:
        base = self.names[self.bases[view.name][0]] if view.name in self.bases else ""
        return replace(self._kept(view), name=self.names[view.name], base=base)

    def _kept(self, view: View) -> View:
        """The view with all that its entries hold."""
        return view if view.name in self.bases or view.measures else self._carrying(view)

    def _carrying(self, view: View) -> View:
        """The view with the copies that engine-kept views over it hold or have in their keys, those that its rows are
        counted under, and what is computed of its rows, or of those inside it, and copied by another one."""
        for roles, wanted in self._carried.get(view.name, ()):
            if not roles:
                view = replace(view, holds=tuple(dict.fromkeys((*view.holds, *wanted))))
                continue
            embeds = tuple(
                replace(embed, holds=tuple(dict.fromkeys((*embed.holds, *wanted)))) if embed.role == roles[0] else embed
                for embed in view.embeds
            )
            view = replace(view, embeds=embeds)
        return view

    @cached_property
    def _carried(self) -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
        """What other views want of each view, in their order: in its entries, or in those inside it along some roles.
        Worked out once for all, since every view may want something of any."""
        found: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
        for name, other in self.chosen.items():
            for entity, columns in kept_by(self.model, other).items():
                if columns:
                    base, roles = self.homes[entity]
                    found.setdefault(base, []).append((roles, tuple(columns)))
            wanted: tuple[str, ...] = tuple(str(path) for path in marks_of(self.model, other))
            wanted += tuple(computed_of(self.model, other))
            if name in self.bases and self.built.problem.costs.carries:
                held = (*other.holds, *(part.path for part in other.parts if part.path))
                if self.engine.kinds[other.kind].inside:  # what is behind a reference is the owner's, which holds it
                    held = tuple(text for text in held if not path_of(text, self.model, other.entity).roles)
                wanted += held
            if wanted:
                base, roles = self.bases.get(name, self.homes[other.entity])
                found.setdefault(base, []).append((roles, wanted))
        return found

    @cached_property
    def _entries(self) -> Mapping[str, int]:
        return entries_of_rows(self.built.problem, self.chosen, self.engine.kinds)

    def _shares(self) -> dict[str, Share]:
        """What calls take of the hottest place of each view, by its name."""
        problem, kinds = self.built.problem, self.engine.kinds
        reads = heat_of_views(problem, self.evaluation)
        return {
            self.names[name]: Share(
                sum(heat for heat, _ in reads.get(name, ())),
                problem.costs.written(view, heated(name, problem, self._entries, kinds)),
            )
            for name, view in self.chosen.items()
        }

    def _before(self) -> dict[str, tuple[Structure, str]]:
        """Per view that is kept, by its name: where it was, and what it was called there."""
        if self.keep is None:
            return {}
        was = {label: one for one in self.keep.structures for label in one.views}
        return {
            self.names[name]: (was[label], label)
            for label, forms in self.built.given.items()
            for name in forms
            if label in was and name in self.chosen
        }

    # plans

    def _plans(self) -> dict[str, Plan]:
        """A plan per pattern; that of a rank has the read of its target in it."""
        roots = self.built.problem.roots
        plans = {root.name: self._plan(root.name, root.goal) for root in roots if root.kind == "pattern"}
        for root in roots:
            if root.kind == "target":
                plan = plans[root.name]
                figures = one_after_other(self._call(root.goal), plan.figures)
                plans[root.name] = replace(plan, target=self.nodes.node(root.goal), figures=figures)
        return plans

    def _plan(self, name: str, goal: Goal) -> Plan:
        pattern = self.model.patterns[name]
        option = self.evaluation.choice[goal.number]
        order = self.nodes.total(pattern.entity, pattern.order) if pattern.order and pattern.kind != "aggregate" else ()
        figures = self._call(goal)
        steps = plan_steps(self, goal)
        return Plan(self.nodes.node(goal), pattern.entity, order, bool(option.sorted), figures, steps)

    def _call(self, goal: Goal) -> Figures:
        return call_figures(self.built.statistics, self.evaluation.choice, goal)

    # lookups that the store makes by itself

    def _whole_row(self, entity: str) -> Node:
        return self._lookup(self.built.whole_rows[entity])

    def _lookup(self, goal: Goal) -> Node:
        """The best plan of one more goal under the choice that is made."""
        return self.nodes.node(goal) if self._is_reached(goal) else self._scan(goal.need)

    def _is_reached(self, goal: Goal) -> bool:
        """Whether there is a way to one more goal under the choice that is made; then the best is chosen, too."""
        problem = replace(self.built.problem, roots=[Root("lookup", "old", goal, 0.0)])
        found = best_options(problem, self.solution.chosen, self.grown)
        if goal.number not in found:
            return False
        self.evaluation.choice.update(self._as_grown(found))
        return True

    def _looked_up(self, need: Need, times: float) -> Figures:
        """What it takes to answer a need for so many keys at once."""
        known = (need, times)
        if known not in self._known:
            goal = self.built.options.root(need, None, times=times)
            self._known[known] = self._call(goal) if self._is_reached(goal) else self._scanned(need)
        return self._known[known]

    def _scanned(self, need: Need) -> Figures:
        """What reading everything takes that is kept beside the rows wanted."""
        problem = self.built.problem
        home = self.chosen[self.homes[need.entity][0]]
        beside = [name for name, view in self.chosen.items() if view.kind == home.kind]
        facts, size = problem.facts[home.name], problem.costs.entry_bytes(home, problem.facts[home.name])
        entries = sum(self._bytes(name) for name in beside) / size
        cost = problem.costs.read(Work(home, facts, False, 1.0, entries, entries, size, True, scan=True))
        return Figures(cost.requests if cost.requests is not None else 1.0, cost.trips)

    def _scan(self, need: Need) -> Node:
        """Reads a whole home and filters: what `load` and `verify` fall back on where no pattern needed better."""
        name, at = self.homes[need.entity]
        takes = in_order(self.model, need.entity, set(need.wants))
        return Search(self.names[name], at, (), need.given, takes)

    def _dependents(self) -> dict[str, Node]:
        """Per to-one role: how the rows that it leads from are found."""
        found: dict[str, Node] = {}
        for entity in self.model.entities.values():
            for role in entity.roles.values():
                if not role.many:
                    goal = self.built.options.root(dependents(self.model, entity.name, role.name), None)
                    found[f"{entity.name}.{role.name}"] = self._lookup(goal)
        return found

    def _dangling(self) -> dict[str, Node]:
        """Per to-one role with a view of the rows that point at nothing by it: how those that point at a key are found.

        There may be a way to all that point at it that is as good. An entry of that view may have stayed when its row
        was pointed elsewhere: where a row points to is what its home says.
        """
        found: dict[str, Node] = {}
        for name, view in self.chosen.items():
            role = dangling_role(self.model, view)
            if role is not None:
                goal = self.built.options.root(dangling(self.model, view.entity, role.name), None)
                node = self._lookup(goal)
                noted = next(searches(node))
                if noted.view == self.names[name]:
                    node = Extend(noted, (Attach("", self._whole_row(view.entity)),))
                found[f"{view.entity}.{role.name}"] = node
        return found

    def _refills(self) -> dict[str, Node]:
        """Per to-many role of which a view keeps a subset: how the next row is found when one goes."""
        found: dict[str, Node] = {}
        for view in self.chosen.values():
            for embed in view.embeds:
                if embed.limit is not None:
                    goal = self.built.options.root(refill_need(self.model, view.entity, embed), None)
                    found[f"{view.entity}.{embed.role}"] = self._lookup(goal)
        return found

    def _groups(self) -> dict[str, Node]:
        """Per view with minima or maxima: how the rows of a group are found when one goes."""
        found: dict[str, Node] = {}
        for name, view in self.chosen.items():
            if view.recomputed and name not in self.bases:
                goal = self.built.options.root(rows_of_group(self.model, view), None)
                found[self.names[name]] = self._lookup(goal)
        return found

    # writes

    def _write(self, name: str) -> WritePlan:
        problem = self.built.problem
        touches = self._touches(name)
        roots = (root for root in problem.roots if root.name == name and root.applies(self.chosen))
        lookups = [root for root in roots if root.looks_up]
        cost = sum((touch.cost for touch in touches), 0.0)
        units: dict[str, float] = {}
        for touch in touches:
            add_units(units, touch.units)
        p99 = 0.0
        for root in lookups:
            figures = self._call(root.goal)
            times = root.rate / problem.rates[name] if problem.rates[name] else 1.0
            cost += figures.cost * times
            add_units(units, figures.units, times)
            p99 = max(p99, figures.p99_ms)
        p99 += max((touch.p99_ms for touch in touches), default=0.0)
        found = next((self._call(root.goal) for root in lookups if root.kind == "find"), None)
        entries = sum(part.entries for view in self.chosen for part in problem.upkeep.get((name, view), ()))
        requests, trips = self.calls.of(self.model.writes[name], found, entries)
        figures = Figures(requests, trips, sum(t.puts + t.deletes for t in touches), 0.0, units, cost, p99)
        find = next((self.nodes.node(root.goal) for root in lookups if root.kind == "find"), None)
        reads_row = any(root.kind == "old" for root in lookups)
        how = how_done(self.model, problem, self.model.writes[name], self.chosen.keys())
        return WritePlan(tuple(touches), find, reads_row, how, figures, write_steps(self, name, touches))

    def _touches(self, name: str) -> list[Touch]:
        """What one call of a write does to each view; in a transaction, our own entries cost a premium."""
        problem = self.built.problem
        shares = problem.premiums(name, self.chosen) if problem.costs.transactional else {}
        touches = []
        for view in self.chosen:
            for part in problem.upkeep.get((name, view), ()):
                work, once = self.grown.work(view, part.work), self.grown.upkeep(problem.costs, view, part)
                puts = work.puts + work.patches + work.moves + work.adds
                deletes = work.deletes + work.moves
                if puts or deletes or work.checks:
                    premium = problem.costs.premium(work, once).share(shares.get(view, 0.0)) if part.entries else Cost()
                    cost = total((once, premium))
                    edits = {"put": work.puts, "patch": work.patches, "move": work.moves, "delete": work.deletes}
                    edits["add"] = work.adds
                    edit = max(edits, key=lambda edit: edits[edit])
                    held, p99 = self.names[view], cost.p99_ms
                    touches.append(Touch(held, puts, deletes, cost.units, cost.cost, edit, work.at, p99))
        return [*touches, *self._patched(name)]

    def _patched(self, name: str) -> Iterator[Touch]:
        """Rows in homes that are changed, or checked, for what other views have of them."""
        for root in self.built.problem.roots:
            if root.name == name and not root.looks_up and root.applies(self.chosen):
                option = self.evaluation.choice[root.goal.number]
                if option.view is None:
                    home, at = self.homes[root.goal.need.entity]
                    cost = option.cost
                    yield Touch(self.names[home], option.rows, 0.0, cost.units, cost.cost, "patch", at, cost.p99_ms)

    # figures

    def _users(self) -> dict[str, list[str]]:
        """Per view: the patterns and writes whose plans come to it."""
        users: dict[str, list[str]] = {name: [] for name in self.chosen}
        for root in self.built.problem.roots:
            if root.applies(self.chosen):
                self._note_users(root.goal, root.name, users)
        return users

    def _note_users(self, goal: Goal, name: str, users: dict[str, list[str]]) -> None:
        option = self.evaluation.choice[goal.number]
        for used in sorted(option.takes):
            if name not in users[used]:
                users[used].append(name)
        for sub in option.subs:
            self._note_users(sub.goal, name, users)

    def _figures(self) -> dict[str, ViewFigures]:
        problem = self.built.problem
        users = self._users()
        found = {}
        for name, view in self.chosen.items():
            facts = problem.facts[name]
            cost = problem.fixed_cost(name) - problem.carrying[name] + problem.growing_cost(name, self.grown)
            found[self.names[name]] = ViewFigures(
                facts.rows,
                self._bytes(name),
                facts.partitions,
                cost,
                tuple(users[name]),
                problem.costs.keep(view, facts) + self.grown.stored(problem.costs, name, facts),
            )
        return found

    def _bytes(self, name: str) -> float:
        """What a view stores, embedded rows included."""
        problem = self.built.problem
        view, facts = self.chosen[name], problem.facts[name]
        size = problem.costs.entry_bytes(view, facts) + self.grown.places.get((name, ()), 0.0)
        for chain, embed in facts.embeds.items():
            at = tuple(chain.split("."))
            each = problem.costs.entry_bytes(view, facts, at) + self.grown.places.get((name, at), 0.0)
            size += each * embed.per_parent
        return size * facts.rows

    def _findings(self) -> tuple[Finding, ...]:
        found = contradictions(self.built.statistics)
        found += [Finding("note", "model", text) for text in self.model.warnings]
        problem = self.built.problem
        for name, view in self.chosen.items():
            shown = replace(view, name=self.names[name])
            for text in problem.costs.warnings(shown, heated(name, problem, self._entries, self.engine.kinds)):
                message, _, fix = text.rpartition("; ")
                finding = Finding("warning", f"entities.{view.entity}", message, fix)
                found += [finding] if finding not in found else []
        for entity, text in warnings(problem, self.evaluation, self.names.__getitem__):
            found.append(
                Finding("warning", f"entities.{entity}", text, "lower their peaks, or let them be answered apart")
            )
        return tuple(found)
