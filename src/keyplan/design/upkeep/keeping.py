"""What every sort of upkeep is worked out from: the model, the costs, and what a view depends on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial

from keyplan.design.candidates.facts import Facts
from keyplan.design.candidates.match import child_view
from keyplan.design.needs.computed import computed_behind, computed_of
from keyplan.design.needs.need import Need, dependents, row_of_role, whole_row
from keyplan.design.statistics.derived import Statistics
from keyplan.design.statistics.weakly import remembered
from keyplan.design.upkeep.effects import Carry, Check, Effect, Upkeep
from keyplan.design.upkeep.flows import Flows
from keyplan.engines.base import Kind
from keyplan.engines.work import Cost, CostModel, TouchWork, ViewFacts, total
from keyplan.model.changing import changing_columns
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Path, term_paths
from keyplan.plan.view import Part, View


class Keeping:
    """What is the same for all writes, worked out once per view."""

    def __init__(
        self,
        model: Model,
        statistics: Statistics,
        facts: Facts,
        kinds: Mapping[str, Kind],
        costs: CostModel,
        *,
        scans_embedded: bool = False,
    ) -> None:
        self.model = model
        self.statistics = statistics
        self.view_facts = facts
        self.kinds = kinds
        self.costs = costs
        self.scans_embedded = scans_embedded
        self._effects: dict[str, list[Effect]] = {}
        self._changing = changing_columns(model)
        self._flows = Flows(model, statistics, facts)
        # What is the same for all writes is worked out once per view.
        self._copied = remembered(self._copied_paths)
        self._chains = remembered(self._copying_chains)
        self._ways = remembered(self._copying_ways)
        self._computed = cache(partial(computed_of, model))
        self._computed_behind = cache(partial(computed_behind, model))
        self._own_columns = cache(partial(_own_columns, model))
        self._decisive = remembered(self._decisive_columns)
        self._seen = cache(partial(child_view, model))
        self._home = remembered(self._home_of)
        self._many = cache(facts.multiplicity)
        self._carried = remembered(self._carried_columns)
        self._chains_by_entity = remembered(self._copying_from)
        self._whole_row = cache(partial(whole_row, model))
        self._dependents = cache(partial(dependents, model))
        self._row_behind = cache(partial(_row_behind, model))
        self._sizes: dict[tuple[View, tuple[str, ...]], float] = {}

    def _follows_home(self, kind: Kind) -> bool:
        """Whether a view has its copies from the home of its rows, which carries them and pays for what they take."""
        return kind.kept_by_engine and self.costs.carries

    def _size(self, view: View, facts: ViewFacts, at: tuple[str, ...] = ()) -> float:
        """The average bytes of an entry, or of one embedded in it."""
        if (view, at) not in self._sizes:
            self._sizes[(view, at)] = self.costs.entry_bytes(view, facts, at)
        return self._sizes[(view, at)]

    def _own_side(self, entity: str, path: Path) -> set[str]:
        """The own columns that a value depends on: itself, or the reference that leads to it."""
        roles = self.model.entities[entity].roles
        return set(roles[path.roles[0]].columns) if path.roles else {path.column}

    def _decisive_columns(self, view: View) -> set[str]:
        """The own columns that decide whether and where a row has an entry, and what it adds to a group."""
        found = set(self._own_columns(view))
        for condition in view.where:
            found |= self._own_side(view.entity, condition.path)
        for measure in view.measures:
            for path in term_paths(measure.term):
                found |= self._own_side(view.entity, path)
        return found

    def _copied_paths(self, view: View) -> set[str]:
        """The paths behind references that a view holds, is keyed by, tests or counts."""
        texts = {text for text in view.holds if path_of(text, self.model, view.entity).roles}
        texts |= {part.path for part in view.parts if part.path and path_of(part.path, self.model, view.entity).roles}
        texts |= {str(condition.path) for condition in view.where if condition.path.roles}
        for measure in view.measures:
            texts |= {str(path) for path in term_paths(measure.term) if path.roles}
        return texts

    def _copying_chains(self, view: View) -> dict[tuple[str, ...], set[str]]:
        """The role chains through which the view copies columns."""
        found: dict[tuple[str, ...], set[str]] = {}
        for text in sorted(self._copied(view)):
            path = path_of(text, self.model, view.entity)
            found.setdefault(path.roles, set()).add(path.column)
        return found

    def _copying_from(self, view: View) -> dict[str, dict[tuple[str, ...], set[str]]]:
        """The role chains through which the view copies columns, and the columns, by the entity that they lead to."""
        found: dict[str, dict[tuple[str, ...], set[str]]] = {}
        for roles, columns in self._chains(view).items():
            found.setdefault(self.model.entity_at(view.entity, roles), {})[roles] = columns
        return found

    def _carried_columns(self, view: View) -> set[str]:
        """The own columns whose change rewrites an entry."""
        if self.kinds[view.kind].holds_all:
            return set()
        return {text for text in view.holds if text in self.model.entities[view.entity].columns}

    def _copying_ways(self, view: View) -> set[tuple[str, tuple[str, ...]]]:
        """The references through which rows of the view, or embedded in it, come by what they copy: (entity, chain)."""
        found = set()
        for entity, texts in ((view.entity, self._copied(view)), *((e.entity, e.holds) for _, e in view.nested())):
            for text in texts:
                roles = path_of(text, self.model, entity).roles
                found |= {(entity, roles[:depth]) for depth in range(1, len(roles) + 1)}
        return found

    def _made_of(self, view: View) -> set[str]:
        """The entities whose rows a view's computed values are made of, be they its own rows' or behind references."""
        roles = self.model.entities[view.entity].roles
        found = {role.entity for role in self._computed(view).values()}
        for role, name in self._computed_behind(view):
            found.add(self.model.entities[roles[role].entity].roles[name].entity)
        return found

    def _home_of(self, entity: str) -> tuple[View, ViewFacts, float]:
        """Whole rows under their key, with the bytes of an entry."""
        here = self.model.entities[entity]
        kind = next(kind for kind in self.kinds.values() if not kind.kept_by_engine)
        home = View("", here.name, kind.name, tuple(Part(column) for column in here.key), (), here.stored)
        facts = self.view_facts.of(home)
        return home, facts, self.costs.entry_bytes(home, facts)

    def _looks(self, view: View, effect: Effect) -> float:
        """How often rows that have begun to copy meanwhile are looked for as part of the write that changes a row."""
        return effect.times if self.costs.goes_on and not self.kinds[view.kind].kept_by_engine else 0.0

    def _carried_along(self, entity: str, label: str, paths: frozenset[str], rows: float) -> Carry:
        """Rows of an entity changed in their home, for what a view has of them."""
        home, facts, size = self._home(entity)
        work = TouchWork(home, facts, patches=rows, entry_bytes=size)
        cost = self.costs.touch(work)
        if self.costs.transactional:
            cost = total((cost, self.costs.premium(work, cost)))
        return Carry(entity, label, paths, work, cost)

    def _once(self, label: str, entity: str, times: float, each: float = 1.0, size: float = 0.0) -> Check:
        """So many entries, each checked or written so many times with a write, which makes a transaction of it."""
        home, facts, _ = self._home(entity)
        work = TouchWork(home, facts, checks=times * each, entry_bytes=size)
        cost = self.costs.touch(work)
        if self.costs.transactional:
            cost = total((cost, self.costs.premium(work, cost)))
        return Check(entity, label, times, cost)

    def _checks(self, part: Upkeep) -> Iterator[Upkeep]:
        """That something else is checked along makes a transaction of a write; it is paid for once for all views."""
        if part.checks:
            checked = sum(one.times for one in part.checks)
            most = sum(one.most for one in part.checks)
            yield Upkeep(TouchWork(part.work.view, part.work.facts), Cost(), checked, most_checks=most)


def _row_behind(model: Model, entity: str, role: str) -> Need:
    """The whole row that a reference leads to, as the store reads it."""
    target = model.entities[model.entities[entity].roles[role].entity]
    return row_of_role(model, entity, role, target.stored, True)


def _own_columns(model: Model, view: View) -> set[str]:
    """The columns of the entity that the view's key is made of; a reference's columns for a copy behind it."""
    found = set()
    for part in view.parts:
        if not part.path:
            continue
        path = path_of(part.path, model, view.entity)
        if path.roles:
            found |= set(model.entities[view.entity].roles[path.roles[0]].columns)
        else:
            found.add(path.column)
        found |= set(part.also)
    return found
