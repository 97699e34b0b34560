"""What a write does to the entries that its own rows have in a view: those that come, change, move and go."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from keyplan.design.candidates.homes import is_home
from keyplan.design.needs.need import rows_of_group
from keyplan.design.needs.subsets import chance_of_refill, refill_need
from keyplan.design.statistics.spread import expected_entries
from keyplan.design.upkeep.effects import Change, Check, Demand, Effect, Upkeep
from keyplan.design.upkeep.sources import Sources
from keyplan.engines.base import Kind
from keyplan.engines.composed import composed_keys, told_values
from keyplan.engines.work import Cost, TouchWork, ViewFacts, Work, total
from keyplan.model.entity import Role
from keyplan.model.model import path_of
from keyplan.model.write import Write
from keyplan.plan.dangling import dangling_role
from keyplan.plan.view import Embed, View


class OwnRows(Sources):
    """Rows of the view's own entity, or of one that is embedded in it."""

    def _direct(
        self, write: Write, effect: Effect, view: View, seen: View, facts: ViewFacts, at: tuple[str, ...]
    ) -> Upkeep | None:
        """What the write does to the entries that its own rows have; `seen` is the view as these rows see it."""
        kind = self.kinds[view.kind]
        many = self._many(seen) if not at else 1.0
        if kind.totals:
            change = self._summed(effect, seen)
        else:
            change = self._counted(effect, seen) if seen.measures else self._changed(write, effect, seen, kind)
        # An entry of ours that comes anew has all its copies read, whatever it was that moved it.
        anew = not kind.kept_by_engine and bool(change.moves or change.puts)
        reads = change.copies and not kind.inside and not self._follows_home(kind)
        demands, checks = self._copies(write, effect, seen, anew) if reads else ([], [])
        embed = view.embed_at(at)
        read = Cost()
        if embed is not None and embed.limit is not None:
            change, read, more, also = self._in_subset(write, effect, view, seen, facts, embed, change)
            demands, checks = demands + more, checks + also
        demands += self._next_extremes(write, effect, seen, facts, change) if not kind.kept_by_engine else []
        if (change.needs_old or self._is_returned(write, effect, view, kind, change)) and not effect.old_known:
            demands.append(Demand(write.name, "old", effect.entity, self._whole_row(effect.entity), effect.times))
        scale = effect.times
        inside = bool(at) and kind.one_value and self._parent_field(view, at) in effect.parents_known
        work = TouchWork(
            view,
            facts,
            change.puts * many * scale,
            change.patches * many * scale,
            change.moves * many * scale,
            change.deletes * many * scale,
            change.adds * scale,
            entry_bytes=self._size(view, facts, at),
            at=at,
            inside=inside,
        )
        touched = work.puts + work.patches + 2 * work.moves + work.deletes + work.adds
        if not touched and not demands:
            return None
        own = 0.0 if kind.kept_by_engine or inside else touched
        most = 0.0
        if own:
            per_row = max(1.0, touched / scale if scale else 1.0) * expected_entries(self.model, seen) / many
            most = ceil(per_row - 1e-9) * effect.most
            if seen.measures and effect.most > 1:
                most = min(most, ceil(per_row - 1e-9) * self._most_groups(effect, seen))
        cost = self.costs.touch(work) if touched else Cost()
        cost = total((cost, read)) if read.cost else cost
        return Upkeep(work, cost, own, most, tuple(demands), checks=tuple(checks))

    def _is_returned(self, write: Write, effect: Effect, view: View, kind: Kind, change: Change) -> bool:
        """Whether the row has to be known to be returned, because an entry besides its home's is written with it."""
        if not write.returns or self.costs.returns_together or effect.kind == "create" or effect.entity != write.entity:
            return False
        written = change.puts or change.patches or change.moves or change.deletes or change.adds
        return bool(written) and not kind.kept_by_engine and not is_home(self.model, self.kinds, view)

    def _next_extremes(
        self, write: Write, effect: Effect, view: View, facts: ViewFacts, change: Change
    ) -> list[Demand]:
        """The rows of a group, which are read where its least or greatest may be the one that goes: as any other."""
        if not change.adds or effect.kind == "create" or not view.recomputed:
            return []
        each = self.statistics.rows(view.entity) / max(1.0, facts.rows)
        need = rows_of_group(self.model, view)
        label = f"{view.entity} by {', '.join(str(part) for part in view.parts)}"
        return [Demand(write.name, "group", label, need, effect.times / max(1.0, each))]

    def _in_subset(
        self, write: Write, effect: Effect, view: View, seen: View, facts: ViewFacts, embed: Embed, change: Change
    ) -> tuple[Change, Cost, list[Demand], list[Check]]:
        """The change of an entry that may be kept or not, the read of those that are, and what the next one takes.

        All of it is one change of the parent's entry. What may have to be followed by the next row is read together
        with its siblings, and these after it where it was one of the first and there are more.
        """
        role = self.model.entities[view.entity].roles[embed.role]
        if effect.kind != "create" and (change.puts or change.patches or change.moves or change.deletes):
            needs_old = change.needs_old or effect.kind != "replace"
            change = replace(change, needs_old=needs_old)
        leaving = change.moves + change.deletes + (change.puts if effect.kind == "replace" and change.needs_old else 0)
        if not effect.columns & set(role.columns):
            change = replace(change, puts=change.puts + change.moves, moves=0.0)
        many = max(1.0, self.statistics.fan_out(view.entity, embed.role))
        along = role.field in effect.parents_known
        parents = leaving * effect.times / (many if along else 1.0)
        if not parents:
            return change, Cost(), [], []
        at = (embed.role,)
        kept = max(1.0, facts.embeds[embed.role].per_parent)
        size = self.costs.entry_bytes(view, facts, at)
        most = max(kept, facts.embeds[embed.role].most_per_parent)
        once = self.costs.read(Work(view, facts, True, 1.0, kept, most, size, True, at=at))
        units = {name: amount * parents for name, amount in once.units.items()}
        read = Cost(once.cost * parents, units, once.p99_ms)
        chance = chance_of_refill(self.statistics, view.entity, embed, all_go=along)
        need = refill_need(self.model, view.entity, embed)
        label = f"{view.entity}.{embed.role} by {', '.join(str(part) for part in embed.sort)}"
        demands = [Demand(write.name, "refill", label, need, parents * chance)]
        checks: list[Check] = []
        if effect.kind == "delete":
            next_one = replace(effect, kind="create", times=parents * chance, parents_known=frozenset())
            copied, checks = self._copies(write, next_one, seen, True)
            demands += copied
        return change, read, demands, checks

    def _parent_field(self, view: View, at: tuple[str, ...]) -> str:
        """The role by which the rows of an embed know their parent."""
        return self.model.entities[self.model.entity_at(view.entity, at[:-1])].roles[at[-1]].field

    def _most_groups(self, effect: Effect, view: View) -> float:
        """The most groups that the rows of one call are in, by what siblings share and by the values there are."""
        here = self.model.entities[view.entity]
        shared = {column for role in effect.parents_known for column in here.roles[role].columns}
        groups = 1.0
        for part in view.parts:
            if not part.path:
                continue
            path = path_of(part.path, self.model, view.entity)
            begins = here.roles[path.roles[0]].name in effect.parents_known if path.roles else path.column in shared
            if effect.siblings and begins:
                continue
            owner = self.model.entities[self.model.entity_at(view.entity, path.roles)]
            column = owner.columns[path.column]
            stated = owner.fields[column.field].distinct if column.field in owner.fields else None
            limited = column.type.kind in ("enum", "bool") or (stated and part.cut is None)
            values = self.statistics.distinct(view.entity, path, part.cut) if limited else float("inf")
            groups *= values + part.or_missing
        return groups

    def _counted(self, effect: Effect, view: View) -> Change:
        """What one row's change does to the groups of a view with measures."""
        if effect.kind == "create":
            return Change(adds=1.0, copies=True)
        if effect.kind == "delete":
            return Change(adds=1.0, needs_old=True)
        grouping = self._own_columns(view)
        if effect.kind == "replace" and grouping <= set(self.model.entities[view.entity].key):
            return Change(adds=1.0, needs_old=True, copies=True)  # what is replaced is in the same group
        if effect.kind == "replace" or effect.columns & grouping:
            return Change(adds=2.0, needs_old=True, copies=True)
        if effect.columns & self._decisive(view):
            return Change(adds=1.0, needs_old=True, copies=True)
        return Change()

    def _summed(self, effect: Effect, view: View) -> Change:
        """What one row's change does to totals that the engine keeps: a new row is added, else they are made anew."""
        if effect.kind in ("create", "replace"):
            return Change(adds=1.0)
        if effect.kind == "delete" or effect.columns & self._decisive(view):
            return Change(patches=1.0)
        return Change()

    def _changed(self, write: Write, effect: Effect, view: View, kind: Kind) -> Change:
        """What one row's change does to its entry."""
        here = self.model.entities[view.entity]
        role = dangling_role(self.model, view)
        if role is not None:
            return self._dangles(effect, view, role)
        decisive = self._decisive(view)
        before, after = self._flows.shares(write, effect, view)
        # An entry that we keep is found by its key, which the entity's alone may not tell, nor whether there is one.
        hidden = not kind.kept_by_engine and not decisive <= set(here.key)
        if effect.kind == "create":
            return Change(puts=after, copies=True)
        if effect.kind == "delete":
            return Change(deletes=before, needs_old=hidden)
        if effect.kind == "replace":
            movable = any(not here.columns[column].immutable for column in decisive)
            movable = movable or bool(self._computed(view))
            return Change(puts=after, needs_old=movable and not kind.kept_by_engine, copies=True)
        if effect.columns & decisive:
            both = min(before, after)
            # What is only tested does not move an entry: it stays where it is, and changes if it holds the value.
            stays = not effect.columns & self._own_columns(view)
            return Change(
                puts=max(0.0, after - before),
                patches=both if stays and effect.columns & self._carried(view) else 0.0,
                moves=0.0 if stays else both,
                deletes=max(0.0, before - after),
                needs_old=not kind.kept_by_engine or (kind.composed and self._is_kept_by_row(write, effect, view)),
                copies=True,
            )
        if effect.columns & self._carried(view):
            return Change(patches=max(before, 0.0), needs_old=hidden, copies=True)
        return Change()

    def _is_kept_by_row(self, write: Write, effect: Effect, view: View) -> bool:
        """Whether what becomes of an entry's key is told by the row as it was, and not by the update alone."""
        if write.kind != "update" or effect.entity != write.entity:
            return True
        (key,) = composed_keys(self.model, (view,), self.kinds, view.base, view.entity)
        given = {*write.sets, *self.model.entities[view.entity].key}
        return key.needs_row(effect.columns, given, told_values(write))

    def _dangles(self, effect: Effect, view: View, role: Role) -> Change:
        """What the change of a row does to its entry among those that point at nothing, where it has none as a rule.

        Whoever copies from the target looks at it anyway; whoever deletes the row does not.
        """
        here = self.model.entities[view.entity]
        if effect.kind == "replace":
            return Change(needs_old=any(not here.columns[column].immutable for column in role.columns))
        if effect.kind == "update" and effect.columns & {*role.columns, *view.holds}:
            return Change(needs_old=True, copies=not effect.columns & set(role.columns))
        return Change()
