"""What a write does to entries by computed values: those of the rows that its own rows belong to."""

from __future__ import annotations

from collections.abc import Iterator

from keyplan.design.candidates.required import is_exact, is_home
from keyplan.design.needs.need import is_generated
from keyplan.design.upkeep.effects import Demand, Effect, Upkeep
from keyplan.design.upkeep.keeping import Keeping
from keyplan.engines.work import Cost, TouchWork, ViewFacts
from keyplan.model.write import Write
from keyplan.plan.view import View


class Recomputed(Keeping):
    """Rows that a view's computed values are made of."""

    def _recomputed(self, write: Write, effect: Effect, view: View, facts: ViewFacts) -> Iterator[Upkeep]:
        """Entries that move because computed values change, and the row in the home that holds them."""
        computed = self._computed(view)
        if not computed:
            return
        by_role: dict[str, list[str]] = {}
        for column, role in computed.items():
            by_role.setdefault(role.name, []).append(column)
        for name, columns in by_role.items():
            yield from self._recomputed_of(write, effect, view, facts, name, columns)

    def _recomputed_of(
        self, write: Write, effect: Effect, view: View, facts: ViewFacts, name: str, columns: list[str]
    ) -> Iterator[Upkeep]:
        """The same of what is made of the rows of one role: however many values change, it is one entry."""
        here = self.model.entities[view.entity]
        role = here.roles[name]
        fan = self._dependents(role.entity, role.field)
        label = f"{role.entity}.{role.field}"
        if (
            effect.entity == view.entity
            and effect.kind in ("create", "replace")
            and not is_generated(self.model, view.entity)
        ):
            # Children may be there before their parent: they are read, and once more when it is there.
            row = Demand(write.name, "old", view.entity, self._whole_row(view.entity), effect.times)
            demand = Demand(write.name, "fan", label, fan, 2 * effect.times)
            looks = self._looks(view, effect)
            yield Upkeep(TouchWork(view, facts), Cost(), 0.0, 0.0, (row, demand), looks=looks)
        if effect.entity != role.entity or role.field in effect.parents_known:
            return
        made = {column: computed for column in columns if (computed := here.columns[column].computed) is not None}
        if effect.kind == "update":
            made = {column: one for column, one in made.items() if effect.columns & {*role.columns, one.column}}
        if not made:
            return
        parents = 2.0 if effect.columns & set(role.columns) else 1.0
        rows = parents * effect.times * self.statistics.present(role.entity, role.columns[0])
        demands = [Demand(write.name, "old", view.entity, self._whole_row(view.entity), rows)]
        if not effect.old_known and effect.kind != "create":
            old = self._whole_row(effect.entity)
            demands.append(Demand(write.name, "old", effect.entity, old, effect.times))
        if effect.kind != "create" and any(one.how in ("min", "max") for one in made.values()):
            # The least or greatest goes as often as any other; then all of them are read, and once more.
            chance = min(1.0, 1 / max(1.0, self.statistics.fan_out(view.entity, name)))
            demands.append(Demand(write.name, "fan", label, fan, 2 * rows * chance))
        touched = rows * min(1.0, self.view_facts.share(view))
        decisive = {*(part.path for part in view.parts), *(str(condition.path) for condition in view.where)}
        moved = not decisive.isdisjoint(made)
        work = TouchWork(
            view,
            facts,
            # An index that leads to whole rows is not changed by what it does not have in its key.
            patches=0.0 if moved or self.kinds[view.kind].holds_all else touched,
            moves=touched if moved else 0.0,
            entry_bytes=self._size(view, facts),
        )
        kept = self.kinds[view.kind].kept_by_engine
        most = parents * effect.most
        yield Upkeep(work, self.costs.touch(work), 0.0 if kept else 2 * touched, 0.0 if kept else 2 * most)
        if is_home(self.model, self.kinds, view) and is_exact(self.model, self.kinds, view):
            yield Upkeep(TouchWork(view, facts), Cost(), 0.0, 0.0, tuple(demands))
        else:
            label = f"{view.entity}: {', '.join(sorted(made))}"
            carried = self._carried_along(view, label, frozenset(made), rows, exact=True)
            yield Upkeep(TouchWork(view, facts), Cost(), rows, most, tuple(demands), carries=(carried,))
