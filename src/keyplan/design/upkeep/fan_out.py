"""What a write does to entries that repeat values of its rows: they are looked up, and follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from keyplan.design.needs.need import dangling, is_generated
from keyplan.design.statistics.spread import expected_entries
from keyplan.design.upkeep.effects import Check, Demand, Effect, Upkeep
from keyplan.design.upkeep.keeping import Keeping
from keyplan.engines.work import Cost, TouchWork, ViewFacts
from keyplan.model.model import path_of
from keyplan.model.write import Write
from keyplan.plan.dangling import dangling_role
from keyplan.plan.view import Embed, View


class FanOut(Keeping):
    """Rows that a view copies from."""

    def _fan_out(self, write: Write, effect: Effect, view: View, facts: ViewFacts) -> Iterator[Upkeep]:
        """Entries that repeat a value of the changed row.

        Each lookup is made twice: before the write, and after it for rows that have begun to copy meanwhile.
        """
        kind = self.kinds[view.kind]
        for chain, columns in self._chains_by_entity(view).get(effect.entity, {}).items():
            changed = columns & effect.columns if effect.kind == "update" else columns
            if not changed:
                continue
            if kind.inside:
                yield from self._owner_changed(write, effect, view, facts, chain[0], changed)
                continue
            follows = self._follows_home(kind)
            found = self._followers(write, effect, view.entity, chain)
            if found is None:
                yield from self._looked_for_again(write, effect, view, facts, (view.entity, chain), noted=not follows)
                continue
            demands, rows, between = found
            noted = []
            if not follows:
                noted = [*self._passed(effect, view.entity, chain, between), *self._noted(effect)]
            keyed = {part.path for part in view.parts}
            prefix = ".".join(chain) + "."
            moved = any(prefix + column in keyed for column in changed)
            touched = rows * min(1.0, self.view_facts.share(view))
            if effect.kind == "delete" and any(c.op == "missing" and c.path.roles == chain for c in view.where):
                touched = rows  # those that pointed at it have nothing there any more
            touched *= 1.0 if view.measures else self._many(view)
            work = TouchWork(
                view,
                facts,
                # Of a row that counts, the home says under what, so that it is changed as well.
                patches=0.0 if moved and not view.measures else touched,
                moves=touched if moved and not view.measures else 0.0,
                adds=2 * touched if view.measures else 0.0,
                entry_bytes=self._size(view, facts),
            )
            own = 0.0 if kind.kept_by_engine else touched
            most = self._most_followers(effect, view.entity, chain) * (2 if work.moves else 1)
            most *= 1.0 if view.measures else expected_entries(self.model, view)
            most = 0.0 if follows else most
            cost = self.costs.touch(work) if touched else Cost()
            looks = self._looks(view, effect)
            yield Upkeep(work, cost, own, demands=tuple(demands), most_following=most, checks=tuple(noted), looks=looks)
        for at, embed in view.nested():
            yield from self._embedded_fan_out(write, effect, view, facts, at, embed)

    def _embedded_fan_out(
        self, write: Write, effect: Effect, view: View, facts: ViewFacts, at: tuple[str, ...], embed: Embed
    ) -> Iterator[Upkeep]:
        """Rows inside others that repeat a value of the changed row."""
        copied: dict[tuple[str, ...], set[str]] = {}
        for text in embed.holds:
            path = path_of(text, self.model, embed.entity)
            if path.roles and self.model.entity_at(embed.entity, path.roles) == effect.entity:
                copied.setdefault(path.roles, set()).add(path.column)
        for chain, columns in sorted(copied.items()):
            if effect.kind == "update" and not columns & effect.columns:
                continue
            found = self._followers(write, effect, embed.entity, chain)
            if found is None:
                yield from self._looked_for_again(write, effect, view, facts, (embed.entity, chain))
                continue
            demands, rows, between = found
            if self.scans_embedded:
                fans = [replace(one, need=replace(one.need, scanned=True)) for one in demands if one.what == "fan"]
                demands = [*(one for one in demands if one.what != "fan"), *fans]
            noted = [*self._passed(effect, embed.entity, chain, between), *self._noted(effect)]
            # A subset does not know whom its rows refer to by now: their homes are asked.
            checks = rows if embed.limit is not None else 0.0
            size = self._size(view, facts, at)
            work = TouchWork(view, facts, patches=rows, checks=checks, entry_bytes=size, at=at)
            most = self._most_followers(effect, embed.entity, chain)
            cost = self.costs.touch(work) if rows else Cost()
            looks = self._looks(view, effect)
            yield Upkeep(
                work, cost, rows, demands=tuple(demands), most_following=most, checks=tuple(noted), looks=looks
            )

    def _looked_for_again(
        self,
        write: Write,
        effect: Effect,
        view: View,
        facts: ViewFacts,
        copying: tuple[str, tuple[str, ...]],
        *,
        noted: bool = True,
    ) -> Iterator[Upkeep]:
        """Rows that are deleted with the one that they copy from: others may have begun to copy from it meanwhile."""
        entity, chain = copying
        if len(chain) == 1:
            need = self._dependents(entity, chain[0])
            demand = Demand(write.name, "fan", f"{entity}.{chain[0]}", need, effect.times)
            checks = tuple(self._noted(effect)) if noted else ()
            looks = self._looks(view, effect)
            yield Upkeep(TouchWork(view, facts), Cost(), 0.0, demands=(demand,), checks=checks, looks=looks)

    def _noted(self, effect: Effect) -> Iterator[Check]:
        """The intent that is put with a write whose copies follow, twice the price, and deleted behind it, once."""
        if self.costs.atomic_entries is not None:
            yield self._once(f"{effect.entity}, noted", effect.entity, effect.times, 1.5)

    def _followers(
        self, write: Write, effect: Effect, entity: str, chain: tuple[str, ...]
    ) -> tuple[list[Demand], float, float] | None:
        """The lookups of the rows that copy through a chain of references, how many there are, and how many rows that
        may point elsewhere are between them and the changed one; None if they are deleted by the same call."""
        rows, between = effect.times, 0.0
        demands = []
        if not effect.old_known:  # what they repeat until now is what they are looked for with
            demands.append(Demand(write.name, "old", effect.entity, self._whole_row(effect.entity), effect.times))
        steps = []
        for role in chain:
            steps.append((entity, role))
            entity = self.model.entities[entity].roles[role].entity
        if self._goes_along(write, effect, *steps[-1]):
            return None
        for owner, role in reversed(steps):
            need = self._dependents(owner, role)
            demands.append(Demand(write.name, "fan", f"{owner}.{role}", need, 2 * rows))
            target = self.model.entities[owner].roles[role].entity
            share = self.statistics.present(owner, self.model.entities[owner].roles[role].columns[0])
            rows *= self.statistics.rows(owner) * share / max(1.0, self.statistics.rows(target))
            if (owner, role) != steps[0] and self._changing[owner] & set(
                self.model.entities[owner].roles[role].columns
            ):
                between += rows
        return demands, rows, between

    def _passed(self, effect: Effect, entity: str, chain: tuple[str, ...], between: float) -> Iterator[Check]:
        """The checks that rows between a value and those that repeat it still point there."""
        if between and self.costs.transactional:
            yield self._once(f"{entity}.{'.'.join(chain)}, between", effect.entity, between)

    def _most_followers(self, effect: Effect, entity: str, chain: tuple[str, ...]) -> float:
        """The most rows that copy through a chain of references from what a call changes, by the `max` of each."""
        most = effect.most
        for name in chain:
            role = self.model.entities[entity].roles[name]
            back = (one for one in self.model.entities[role.entity].roles.values() if one.many)
            most *= next((one.most for one in back if one.entity == entity and one.field == name and one.most), inf)
            entity = role.entity
        return most

    def _owner_changed(
        self, write: Write, effect: Effect, view: View, facts: ViewFacts, owner: str, changed: set[str]
    ) -> Iterator[Upkeep]:
        """Entries over rows inside another one, whose key has a column of that one."""
        keyed = {part.path for part in view.parts}
        if not any(f"{owner}.{column}" in keyed for column in changed):
            return
        if self._goes_along(write, effect, view.entity, owner):
            return
        many = self.statistics.rows(view.entity) / max(1.0, self.statistics.rows(effect.entity))
        touched = effect.times * many * min(1.0, self.view_facts.share(view))
        gone = effect.kind == "delete"
        work = TouchWork(view, facts, moves=0.0 if gone else touched, deletes=touched if gone else 0.0)
        yield Upkeep(work, self.costs.touch(work), 0.0)

    def _look_back(self, write: Write, effect: Effect, view: View, facts: ViewFacts) -> Iterator[Upkeep]:
        """The lookups for rows that have pointed at a new one before it was there, before the write and behind it.

        In the ordinary course there are none, and of a key that is generated nobody can know.
        """
        if is_generated(self.model, effect.entity) or self.kinds[view.kind].inside:
            return
        for owner, chain in self._ways(view):
            if self.model.entity_at(owner, chain) == effect.entity:
                holder = self.model.entity_at(owner, chain[:-1])
                need = dangling(self.model, holder, chain[-1])
                demand = Demand(write.name, "fan", f"{holder}.{chain[-1]}", need, 2 * effect.times)
                yield Upkeep(TouchWork(view, facts), Cost(), 0.0, 0.0, (demand,), looks=self._looks(view, effect))
        role = dangling_role(self.model, view)
        goes = role is not None and not self._changing[role.entity].isdisjoint(self.model.entities[role.entity].key)
        if role is not None and role.entity == effect.entity and goes and self.costs.atomic_entries is not None:
            # Rows come here only when the delete of their target is finished: that nobody is about to do so is checked.
            checked = TouchWork(view, facts, checks=effect.times)
            yield Upkeep(checked, self.costs.touch(checked), effect.times)

    def _goes_along(self, write: Write, effect: Effect, owner: str, role: str) -> bool:
        """Whether the rows that point at a deleted one are deleted by the same call."""
        if effect.kind != "delete" or effect.entity != write.entity:
            return False
        roles = (self.model.entities[write.entity].roles[name] for name in write.children)
        return any((child.entity, child.field) == (owner, role) for child in roles)
