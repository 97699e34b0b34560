"""What a write does to entries by computed values: those of the rows that its own rows belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from keyplan.design.candidates.homes import is_home
from keyplan.design.candidates.required import is_exact
from keyplan.design.needs.need import is_generated
from keyplan.design.statistics.spread import expected_entries
from keyplan.design.upkeep.effects import Demand, Effect, Upkeep
from keyplan.design.upkeep.extremes import chance_of_change
from keyplan.design.upkeep.keeping import Keeping
from keyplan.engines.work import Cost, TouchWork, ViewFacts
from keyplan.model.entity import Role
from keyplan.model.write import Write
from keyplan.plan.view import View


@dataclass(frozen=True)
class _Made:
    """What an effect changes of the values that are computed of the rows of one role."""

    columns: frozenset[str]
    parents: float
    """Rows whose values change, per row that is written: one, or two where rows are given from one to another."""
    rows: float
    is_lost: bool
    """The least or greatest of them may go."""
    share: float
    """Of these rows, those whose values become others: a least or greatest value stays what it is for most."""


class Recomputed(Keeping):
    """Rows that a view's computed values are made of."""

    def _recomputed(self, write: Write, effect: Effect, view: View, facts: ViewFacts) -> Iterator[Upkeep]:
        """Entries that move because computed values change, and the row in the home that holds them."""
        by_role: dict[str, list[str]] = {}
        for column, role in self._computed(view).items():
            by_role.setdefault(role.name, []).append(column)
        for name, columns in by_role.items():
            yield from self._recomputed_of(write, effect, view, facts, name, columns)
        for (role_name, name), some in self._computed_behind(view).items():
            target = self.model.entities[view.entity].roles[role_name].entity
            yield from self._kept_for(write, effect, view, facts, target, name, some)

    def _derived(self, write: Write, effect: Effect, view: View) -> Iterator[Effect]:
        """The changes of rows that a view copies computed values from, by what they are computed of."""
        for (role_name, name), columns in self._computed_behind(view).items():
            target = self.model.entities[view.entity].roles[role_name].entity
            made = self._made(write, effect, target, name, columns)
            if made is not None:
                most = made.parents * effect.most
                yield Effect(target, "update", made.rows * made.share, made.columns, True, most=most)

    def _made(self, write: Write, effect: Effect, entity: str, name: str, columns: Iterable[str]) -> _Made | None:
        """What an effect changes of some computed columns of an entity; None if nothing, or along with the rows."""
        here = self.model.entities[entity]
        role = here.roles[name]
        if effect.entity != role.entity or role.field in effect.parents_known:
            return None
        made = {column: computed for column in columns if (computed := here.columns[column].computed) is not None}
        if effect.kind == "update":
            made = {column: one for column, one in made.items() if effect.columns & {*role.columns, one.column}}
        if not made:
            return None
        parents = 2.0 if effect.columns & set(role.columns) else 1.0
        rows = parents * effect.times * self.statistics.present(role.entity, role.columns[0])
        is_lost = effect.kind != "create" and any(one.how in ("min", "max") for one in made.values())
        many = max(1.0, self.statistics.fan_out(entity, name))
        share = max(chance_of_change(self.model, write, effect, role, one, many) for one in made.values())
        return _Made(frozenset(made), parents, rows, is_lost, share)

    def _read_for(self, write: Write, effect: Effect, entity: str, name: str, made: _Made) -> tuple[Demand, ...]:
        """What has to be read to work out computed values of an entity: its rows, and perhaps all of their children."""
        role = self.model.entities[entity].roles[name]
        demands = [Demand(write.name, "old", entity, self._whole_row(entity), made.rows)]
        if not effect.old_known and effect.kind != "create":
            old = self._whole_row(effect.entity)
            demands.append(Demand(write.name, "old", effect.entity, old, effect.times))
        if made.is_lost:
            # The least or greatest goes as often as any other; then all of them are read, and once more.
            chance = min(1.0, 1 / max(1.0, self.statistics.fan_out(entity, name)))
            demands.append(self._children(write, role, 2 * made.rows * chance))
        return tuple(demands)

    def _children(self, write: Write, role: Role, times: float) -> Demand:
        need = self._dependents(role.entity, role.field)
        return Demand(write.name, "fan", f"{role.entity}.{role.field}", need, times)

    def _recomputed_of(
        self, write: Write, effect: Effect, view: View, facts: ViewFacts, name: str, columns: list[str]
    ) -> Iterator[Upkeep]:
        """The same of what is made of the rows of one role: however many values change, it is one entry, or as many as
        a row has there."""
        role = self.model.entities[view.entity].roles[name]
        yield from self._comes(write, effect, view, facts, view.entity, role)
        made = self._made(write, effect, view.entity, name, columns)
        if made is None:
            return
        touched = made.rows * min(1.0, self.view_facts.share(view)) * self._many(view)
        kept = self.kinds[view.kind].kept_by_engine
        # Where the value stays what it is, the row that has it is checked all the same, at the price of a change.
        stays = 0.0 if kept or not is_home(self.model, self.kinds, view) else touched * (1.0 - made.share)
        touched *= made.share
        decisive = {*(part.path for part in view.parts), *(str(condition.path) for condition in view.where)}
        moved = not decisive.isdisjoint(made.columns)
        work = TouchWork(
            view,
            facts,
            # An index that leads to whole rows is not changed by what it does not have in its key.
            patches=stays + (0.0 if moved or self.kinds[view.kind].holds_all else touched),
            moves=touched if moved else 0.0,
            entry_bytes=self._size(view, facts),
        )
        most = made.parents * effect.most * expected_entries(self.model, view)
        own = 0.0 if kept else 2 * touched + stays
        yield Upkeep(work, self.costs.touch(work), own, 0.0 if kept else 2 * most)
        if is_home(self.model, self.kinds, view) and is_exact(self.model, self.kinds, view):
            demands = self._read_for(write, effect, view.entity, name, made)
            yield Upkeep(TouchWork(view, facts), Cost(), 0.0, 0.0, demands)
        else:
            yield self._in_home(write, effect, view, facts, view.entity, name, made)

    def _kept_for(
        self, write: Write, effect: Effect, view: View, facts: ViewFacts, target: str, name: str, columns: Set[str]
    ) -> Iterator[Upkeep]:
        """Rows of another entity whose home holds what a view copies of it: whatever changes that changes them."""
        role = self.model.entities[target].roles[name]
        yield from self._comes(write, effect, view, facts, target, role)
        if effect.entity == target and effect.kind == "delete":
            # What is computed stays as long as there is something that it is computed of.
            yield Upkeep(TouchWork(view, facts), Cost(), 0.0, 0.0, (self._children(write, role, effect.times),))
        made = self._made(write, effect, target, name, columns)
        if made is not None:
            yield self._in_home(write, effect, view, facts, target, name, made)

    def _comes(
        self, write: Write, effect: Effect, view: View, facts: ViewFacts, entity: str, role: Role
    ) -> Iterator[Upkeep]:
        """Children may be there before their parent: they are read, and once more when it is there.

        Where the value is copied, nobody else may copy or change it until then, which takes an entry of its own if
        writes cannot go on."""
        if effect.entity != entity or effect.kind not in ("create", "replace") or is_generated(self.model, entity):
            return
        row = Demand(write.name, "old", entity, self._whole_row(entity), effect.times)
        demand = self._children(write, role, 2 * effect.times)
        held = []
        if entity != view.entity and not self.costs.goes_on:
            held.append(self._once(f"{entity}, held", entity, effect.times, 2.0))
        looks = self._looks(view, effect)
        yield Upkeep(TouchWork(view, facts), Cost(), 0.0, 0.0, (row, demand), checks=tuple(held), looks=looks)

    def _in_home(
        self, write: Write, effect: Effect, view: View, facts: ViewFacts, entity: str, name: str, made: _Made
    ) -> Upkeep:
        """The rows of an entity that have computed values along for a view, changed in their home."""
        label = f"{entity}: {', '.join(sorted(made.columns))}"
        carried = self._carried_along(entity, label, made.columns, made.rows)
        demands = self._read_for(write, effect, entity, name, made)
        most = made.parents * effect.most
        return Upkeep(TouchWork(view, facts), Cost(), made.rows, most, demands, carries=(carried,))
