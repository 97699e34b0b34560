"""What keeping a view true costs: for each write and view, the entries touched and the rows that must be read first.

A view's entries change when a row of its entity changes, when a row that it copies from changes (fan-out), and when
rows that it counts come and go. What has to be read for that becomes a *demand*: a need that the view raises.
"""

from __future__ import annotations

from collections.abc import Iterator

from keyplan.design.upkeep.effects import Demand, Effect, Upkeep
from keyplan.design.upkeep.fan_out import FanOut
from keyplan.design.upkeep.own_rows import OwnRows
from keyplan.design.upkeep.recomputed import Recomputed
from keyplan.engines.upserts import is_told_apart, needs_row
from keyplan.engines.work import Cost, TouchWork, ViewFacts
from keyplan.model.entity import EXPIRES
from keyplan.model.write import Write, rows_along
from keyplan.plan.view import View


class Maintenance(OwnRows, FanOut, Recomputed):
    """Prices upkeep."""

    def reach(self, view: View) -> set[str]:
        """The entities whose rows have something to do with the entries of a view."""
        behind = {self.model.entity_at(owner, chain) for owner, chain in self._ways(view)}
        behind |= self._made_of(view)
        return {view.entity, *(embed.entity for _, embed in view.nested()), *behind}

    def effects(self, write: Write) -> list[Effect]:
        """The rows that one call changes, children included."""
        found = self._effects.get(write.name)
        if found is None:
            found = self._effects[write.name] = self._effects_of(write)
        return found

    def _effects_of(self, write: Write) -> list[Effect]:
        kinds = {"create": "create", "upsert": "replace", "change": "update", "update": "update", "delete": "delete"}
        kind = kinds[write.kind]
        columns = frozenset((*write.sets, *write.adds))
        ttl = self.model.entities[write.entity].ttl
        if ttl is not None and ttl.since in columns:
            columns |= {EXPIRES}
        times = 1.0 if write.by_key else (write.rows or 1.0)
        known = not write.by_key or write.kind == "change" or (write.kind == "delete" and bool(write.children))
        found, most = [Effect(write.entity, kind, times, columns, known)], [1.0]
        for along in rows_along(self.model.entities, write):
            above, role, parents = found[along.above], along.role, most[along.above]
            here = above.times * self.statistics.fan_out(along.parent, role.name)
            most.append(parents * (role.most or float("inf")))
            fixed = frozenset({role.field})
            found.append(Effect(role.entity, kind, here, columns, True, fixed, most[-1], parents == 1.0, above))
        return found

    def of(self, write: Write, view: View, facts: ViewFacts) -> list[Upkeep]:
        """Everything that the write does to the view."""
        found: list[Upkeep] = []
        for effect in self.effects(write):
            places: list[tuple[tuple[str, ...], View]] = []
            if effect.entity == view.entity:
                places.append(((), view))
            for at, embed in view.nested() if view.embeds else ():
                if embed.entity == effect.entity:
                    places.append((at, self._seen(view, at)))
            for at, seen in places:
                part = self._direct(write, effect, view, seen, facts, at)
                if part is not None:
                    found.append(part)
            fan = self._look_back if effect.kind == "create" else self._fan_out
            found.extend(fan(write, effect, view, facts))
            found.extend(self._recomputed(write, effect, view, facts))
            for derived in self._derived(write, effect, view):
                found.extend(self._fan_out(write, derived, view, facts))
        found.extend(self._not_by_the_engine(write, view, facts))
        return [*found, *(one for part in found for one in self._checks(part))]

    def _not_by_the_engine(self, write: Write, view: View, facts: ViewFacts) -> Iterator[Upkeep]:
        """The row as it was, where an upsert with `set` or `add` could be left to the engine but for this view."""
        if is_told_apart(self.model, write) and needs_row(self.model, self.kinds, write, view):
            demand = Demand(write.name, "old", write.entity, self._whole_row(write.entity))
            yield Upkeep(TouchWork(view, facts), Cost(), 0.0, demands=(demand,))
