"""What keeping a view true costs: for each write and view, the entries touched and the rows that must be read first.

A view's entries change when a row of its entity changes, when a row that it copies from changes (fan-out), and when
rows that it counts come and go. What has to be read for that becomes a *demand*: a need that the view raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from math import ceil, inf

from keyplan.design.computed import computed_of
from keyplan.design.facts import Facts
from keyplan.design.flows import Flows
from keyplan.design.match import child_view
from keyplan.design.needs import Need, dangling, dependents, is_generated, row_of_role, whole_row
from keyplan.design.required import is_exact, is_home
from keyplan.design.statistics import ASSUMED_WORDS, Statistics
from keyplan.design.subsets import chance_of_refill, refill_need
from keyplan.design.upkeep import Carry, Change, Demand, Effect, Upkeep
from keyplan.design.ways import MANY_MORE
from keyplan.engines.base import Kind, composed_keys
from keyplan.engines.work import Cost, CostModel, TouchWork, ViewFacts, Work, total
from keyplan.model.changing import changing_columns
from keyplan.model.entity import EXPIRES, Entity, Role
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Path, term_paths
from keyplan.model.write import Children, Write
from keyplan.plan.dangling import dangling_role
from keyplan.plan.view import COPIES, Embed, Part, View


class Maintenance:
    """Prices upkeep."""

    def __init__(
        self,
        model: Model,
        statistics: Statistics,
        facts: Facts,
        kinds: Mapping[str, Kind],
        costs: CostModel,
        *,
        finds_embedded: bool = True,
    ) -> None:
        self.model = model
        self.statistics = statistics
        self.view_facts = facts
        self.kinds = kinds
        self.costs = costs
        self.finds_embedded = finds_embedded
        self._effects: dict[str, list[Effect]] = {}
        self._changing = changing_columns(model)
        self._flows = Flows(model, statistics, facts)
        # What is the same for all writes is worked out once per view.
        self._copied = cache(self._copied_paths)
        self._chains = cache(self._copying_chains)
        self._ways = cache(self._copying_ways)
        self._computed = cache(partial(computed_of, model))
        self._own_columns = cache(partial(_own_columns, model))
        self._decisive = cache(self._decisive_columns)
        self._seen = cache(partial(child_view, model))
        self._home = cache(self._home_of)
        self._sizes: dict[tuple[View, tuple[str, ...]], float] = {}

    def reach(self, view: View) -> set[str]:
        """The entities whose rows have something to do with the entries of a view."""
        behind = {self.model.entity_at(owner, chain) for owner, chain in self._ways(view)}
        behind |= {role.entity for role in self._computed(view).values()}
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
        known = not write.by_key or write.kind == "change"
        found = [Effect(write.entity, kind, times, columns, known)]

        def walk(entity: str, children: Children, times: float, most: float) -> None:
            for name, deeper in children.items():
                role = self.model.entities[entity].roles[name]
                here = times * self.statistics.fan_out(entity, name)
                limit = most * (role.most or float("inf"))
                known = frozenset({role.field})
                found.append(Effect(role.entity, kind, here, columns, True, known, limit, most == 1.0))
                walk(role.entity, deeper, here, limit)

        walk(write.entity, write.children, times, 1.0)
        return found

    def of(self, write: Write, view: View, facts: ViewFacts) -> list[Upkeep]:
        """Everything that the write does to the view."""
        found: list[Upkeep] = []
        for effect in self.effects(write):
            places: list[tuple[tuple[str, ...], View]] = []
            if effect.entity == view.entity:
                places.append(((), view))
            for at, embed in view.nested():
                if embed.entity == effect.entity:
                    places.append((at, self._seen(view, at)))
            direct = (self._direct(write, effect, view, seen, facts, at) for at, seen in places)
            for part in direct:
                if part is not None:
                    found.append(part)
                    found.extend(self._checks(part, effect))
            fan = self._look_back if effect.kind == "create" else self._fan_out
            found.extend(fan(write, effect, view, facts))
            found.extend(self._recomputed(write, effect, view, facts))
        return found

    # rows of the view's own entity

    def _direct(
        self, write: Write, effect: Effect, view: View, seen: View, facts: ViewFacts, at: tuple[str, ...]
    ) -> Upkeep | None:
        """What the write does to the entries that its own rows have; `seen` is the view as these rows see it."""
        kind = self.kinds[view.kind]
        many = self.view_facts.multiplicity(seen) if not at else 1.0
        change = self._counted(effect, seen) if seen.measures else self._changed(write, effect, seen, kind)
        # An entry of ours that comes anew has all its copies read, whatever it was that moved it.
        anew = not kind.kept_by_engine and bool(change.moves or change.puts)
        demands = self._copies(write, effect, seen, anew) if change.copies and not kind.inside else []
        embed = view.embed_at(at)
        read = Cost()
        if embed is not None and embed.limit is not None:
            change, read, more = self._in_subset(write, effect, view, seen, facts, embed, change)
            demands += more
        demands += self._next_extremes(write, effect, seen, change)
        if change.needs_old and not effect.old_known:
            demands.append(Demand(write.name, "old", effect.entity, whole_row(self.model, effect.entity), effect.times))
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
            per_row = max(1.0, touched / scale if scale else 1.0) * self._most_multiplicity(seen) / many
            most = ceil(per_row - 1e-9) * effect.most
            if seen.measures and effect.most > 1:
                most = min(most, ceil(per_row - 1e-9) * self._most_groups(effect, seen))
        cost = self.costs.touch(work) if touched else Cost()
        return Upkeep(work, total((cost, read)) if read.cost else cost, own, most, tuple(demands))

    def _next_extremes(self, write: Write, effect: Effect, view: View, change: Change) -> list[Demand]:
        """The rows of a group, which are read where its least or greatest may be the one that goes: as any other."""
        if not change.adds or effect.kind == "create" or all(one.how not in ("min", "max") for one in view.measures):
            return []
        columns = tuple(part.path for part in view.parts)
        role = next(r for r in self.model.entities[view.entity].roles.values() if not r.many and r.columns == columns)
        each = self.statistics.rows(view.entity) / max(1.0, self.statistics.rows(role.entity))
        need = dependents(self.model, view.entity, role.name)
        return [Demand(write.name, "fan", f"{view.entity}.{role.name}", need, effect.times / max(1.0, each))]

    def _in_subset(
        self, write: Write, effect: Effect, view: View, seen: View, facts: ViewFacts, embed: Embed, change: Change
    ) -> tuple[Change, Cost, list[Demand]]:
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
            return change, Cost(), []
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
        if effect.kind == "delete":
            next_one = replace(effect, kind="create", times=parents * chance, parents_known=frozenset())
            demands += self._copies(write, next_one, seen, True)
        return change, read, demands

    def _size(self, view: View, facts: ViewFacts, at: tuple[str, ...] = ()) -> float:
        """The average bytes of an entry, or of one embedded in it."""
        if (view, at) not in self._sizes:
            self._sizes[(view, at)] = self.costs.entry_bytes(view, facts, at)
        return self._sizes[(view, at)]

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

    def _checks(self, part: Upkeep, effect: Effect) -> Iterator[Upkeep]:
        """The checks that rows which values are copied from are still as they were read, in the same request."""
        copied = [demand for demand in part.demands if demand.what == "copy" and self._may_change(demand.need)]
        checks = sum(demand.times for demand in copied)
        if checks and self.costs.transactional:
            work = TouchWork(part.work.view, part.work.facts, checks=checks)
            yield Upkeep(work, self.costs.touch(work), checks, most_checks=len(copied) * effect.most)

    def _may_change(self, need: Need) -> bool:
        """Whether some write changes, in a row that is there, what is copied from it."""
        columns = self.model.entities[need.entity].columns
        return any(text not in columns or text in self._changing[need.entity] for text in need.wants)

    def _counted(self, effect: Effect, view: View) -> Change:
        """What one row's change does to the groups of a view with measures."""
        if effect.kind == "create":
            return Change(adds=1.0, copies=True)
        if effect.kind == "delete":
            return Change(adds=1.0, needs_old=True)
        grouping = self._own_columns(view)
        if effect.kind == "replace" or effect.columns & grouping:
            return Change(adds=2.0, needs_old=True, copies=True)
        if effect.columns & self._decisive(view):
            return Change(adds=1.0, needs_old=True, copies=True)
        return Change()

    def _changed(self, write: Write, effect: Effect, view: View, kind: Kind) -> Change:
        """What one row's change does to its entry."""
        here = self.model.entities[view.entity]
        role = dangling_role(self.model, view)
        if role is not None:
            return self._dangles(effect, view, role)
        decisive = self._decisive(view)
        before, after = self._flows.shares(write, effect, view)
        # An entry that we keep is found by its key, which the entity's key alone may not tell.
        hidden = not kind.kept_by_engine and not self._own_columns(view) <= set(here.key)
        if effect.kind == "create":
            return Change(puts=after, copies=True)
        if effect.kind == "delete":
            return Change(deletes=before, needs_old=hidden)
        if effect.kind == "replace":
            movable = any(not here.columns[column].immutable for column in decisive)
            movable = movable or bool(self._computed(view))
            return Change(puts=after, needs_old=movable and not kind.kept_by_engine, copies=True)
        if effect.columns & decisive:
            return Change(
                puts=max(0.0, after - before),
                moves=min(before, after),
                deletes=max(0.0, before - after),
                needs_old=not kind.kept_by_engine or (kind.composed and not self._is_given(write, effect, view)),
                copies=True,
            )
        if effect.columns & self._carried(view, kind):
            return Change(patches=max(before, 0.0), needs_old=hidden, copies=True)
        return Change()

    def _is_given(self, write: Write, effect: Effect, view: View) -> bool:
        """Whether an update gives all that the key of an entry is composed of."""
        if write.kind != "update" or effect.entity != write.entity:
            return False
        (paths,) = composed_keys((view,), self.kinds, view.base, view.entity)
        return paths <= {*write.sets, *self.model.entities[view.entity].key}

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

    def _decisive_columns(self, view: View) -> set[str]:
        """The own columns that decide whether and where a row has an entry, and what it adds to a group."""
        found = set(self._own_columns(view))
        for condition in view.where:
            found |= self._own_side(view.entity, condition.path)
        for measure in view.measures:
            for path in term_paths(measure.term):
                found |= self._own_side(view.entity, path)
        return found

    def _own_side(self, entity: str, path: Path) -> set[str]:
        """The own columns that a value depends on: itself, or the reference that leads to it."""
        roles = self.model.entities[entity].roles
        return set(roles[path.roles[0]].columns) if path.roles else {path.column}

    def _most_multiplicity(self, view: View) -> float:
        """The most entries that a row has: by the limit of a set, or a few times the usual number of words."""
        most = 1.0
        for part in view.parts:
            if part.cut == "each":
                kind = self.model.entities[view.entity].columns[part.path].type
                most *= kind.most or MANY_MORE * max(1.0, kind.size)
            elif part.cut == "words":
                most *= MANY_MORE * ASSUMED_WORDS * (1 + len(part.also))
            elif part.cut == COPIES:
                most *= part.ways
        return most

    def _carried(self, view: View, kind: Kind) -> set[str]:
        """The own columns whose change rewrites an entry."""
        if kind.holds_all:
            return set()
        return {text for text in view.holds if text in self.model.entities[view.entity].columns}

    def _copies(self, write: Write, effect: Effect, view: View, anew: bool) -> list[Demand]:
        """The rows whose values are copied into a new or re-pointed entry."""
        here = self.model.entities[view.entity]
        wants: dict[str, set[str]] = {}
        for text in sorted(self._copied(view)):
            path = path_of(text, self.model, view.entity)
            role = path.roles[0]
            if role in effect.parents_known and len(path.roles) == 1:
                continue
            if effect.kind == "update" and not anew and not set(here.roles[role].columns) & effect.columns:
                continue
            wants.setdefault(role, set()).add(text[len(role) + 1 :])
        found = []
        for role, paths in wants.items():
            need = row_of_role(self.model, view.entity, role, paths, True)
            label = f"{view.entity}.{role}: {', '.join(sorted(paths))}"
            times = effect.times * self.statistics.present(view.entity, here.roles[role].columns[0])
            found.append(Demand(write.name, "copy", label, need, times))
        return found

    def _copied_paths(self, view: View) -> set[str]:
        """The paths behind references that a view holds, is keyed by, tests or counts."""
        texts = {text for text in view.holds if path_of(text, self.model, view.entity).roles}
        texts |= {part.path for part in view.parts if part.path and path_of(part.path, self.model, view.entity).roles}
        texts |= {str(condition.path) for condition in view.where if condition.path.roles}
        for measure in view.measures:
            texts |= {str(path) for path in term_paths(measure.term) if path.roles}
        return texts

    # rows that the view's computed columns are made of

    def _recomputed(self, write: Write, effect: Effect, view: View, facts: ViewFacts) -> Iterator[Upkeep]:
        """Entries that move because computed values change, and the row in the home that holds them."""
        by_role: dict[str, list[str]] = {}
        for column, role in self._computed(view).items():
            by_role.setdefault(role.name, []).append(column)
        for name, columns in by_role.items():
            yield from self._recomputed_of(write, effect, view, facts, name, columns)

    def _recomputed_of(
        self, write: Write, effect: Effect, view: View, facts: ViewFacts, name: str, columns: list[str]
    ) -> Iterator[Upkeep]:
        """The same of what is made of the rows of one role: however many values change, it is one entry."""
        here = self.model.entities[view.entity]
        role = here.roles[name]
        fan = dependents(self.model, role.entity, role.field)
        label = f"{role.entity}.{role.field}"
        if effect.entity == view.entity and effect.kind in ("create", "replace") and not _is_generated(here):
            # Children may be there before their parent: they are read, and once more when it is there.
            row = Demand(write.name, "old", view.entity, whole_row(self.model, view.entity), effect.times)
            demand = Demand(write.name, "fan", label, fan, 2 * effect.times)
            yield Upkeep(TouchWork(view, facts), Cost(), 0.0, 0.0, (row, demand))
        if effect.entity != role.entity or role.field in effect.parents_known:
            return
        made = {column: computed for column in columns if (computed := here.columns[column].computed) is not None}
        if effect.kind == "update":
            made = {column: one for column, one in made.items() if effect.columns & {*role.columns, one.column}}
        if not made:
            return
        parents = 2.0 if effect.columns & set(role.columns) else 1.0
        rows = parents * effect.times * self.statistics.present(role.entity, role.columns[0])
        demands = [Demand(write.name, "old", view.entity, whole_row(self.model, view.entity), rows)]
        if not effect.old_known and effect.kind != "create":
            old = whole_row(self.model, effect.entity)
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

    def _carried_along(self, view: View, label: str, paths: frozenset[str], rows: float, *, exact: bool) -> Carry:
        """Rows of a view's entity changed in their home, for what the view has of them."""
        home, facts, size = self._home(view.entity)
        work = TouchWork(home, facts, patches=rows, entry_bytes=size)
        cost = self.costs.touch(work)
        if self.costs.transactional:
            cost = total((cost, self.costs.premium(work, cost)))
        return Carry(view.entity, label, paths, exact, work, cost)

    def _home_of(self, entity: str) -> tuple[View, ViewFacts, float]:
        """Whole rows under their key, with the bytes of an entry."""
        here = self.model.entities[entity]
        kind = next(kind for kind in self.kinds.values() if not kind.kept_by_engine)
        home = View("", here.name, kind.name, tuple(Part(column) for column in here.key), (), here.stored)
        facts = self.view_facts.of(home)
        return home, facts, self.costs.entry_bytes(home, facts)

    # rows that the view copies from

    def _fan_out(self, write: Write, effect: Effect, view: View, facts: ViewFacts) -> Iterator[Upkeep]:
        """Entries that repeat a value of the changed row.

        Each lookup is made twice: before the write, and after it for rows that have begun to copy meanwhile.
        """
        kind = self.kinds[view.kind]
        for chain, columns in self._chains_to(view, effect.entity).items():
            changed = columns & effect.columns if effect.kind == "update" else columns
            if not changed:
                continue
            if kind.inside:
                yield from self._owner_changed(write, effect, view, facts, chain[0], changed)
                continue
            found = self._followers(write, effect, view.entity, chain)
            if found is None:
                continue
            demands, rows, between = found
            yield from self._passed(view, facts, between)
            keyed = {part.path for part in view.parts}
            prefix = ".".join(chain) + "."
            moved = any(prefix + column in keyed for column in changed)
            touched = rows * min(1.0, self.view_facts.share(view))
            if effect.kind == "delete" and any(c.op == "missing" and c.path.roles == chain for c in view.where):
                touched = rows  # those that pointed at it have nothing there any more
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
            cost = self.costs.touch(work) if touched else Cost()
            yield from self._noted(effect, view, facts)
            yield Upkeep(work, cost, own, demands=tuple(demands), most_following=most)
            if kind.kept_by_engine and self.costs.carries and rows:
                # What an index has of other rows is in the items that it is an index of, and changed there.
                paths = frozenset(f"{prefix}{column}" for column in changed)
                label = f"{view.entity}.{prefix}{'+'.join(sorted(changed))}"
                carried = self._carried_along(view, label, paths, rows, exact=False)
                yield Upkeep(TouchWork(view, facts), Cost(), rows, carries=(carried,))
        for at, embed in view.nested() if self.finds_embedded else ():
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
                continue
            demands, rows, between = found
            yield from self._passed(view, facts, between)
            # A subset does not know whom its rows refer to by now: their homes are asked.
            checks = rows if embed.limit is not None else 0.0
            size = self._size(view, facts, at)
            work = TouchWork(view, facts, patches=rows, checks=checks, entry_bytes=size, at=at)
            most = self._most_followers(effect, embed.entity, chain)
            cost = self.costs.touch(work) if rows else Cost()
            yield from self._noted(effect, view, facts)
            yield Upkeep(work, cost, rows, demands=tuple(demands), most_following=most)

    def _noted(self, effect: Effect, view: View, facts: ViewFacts) -> Iterator[Upkeep]:
        """The intent that is put with a write whose copies follow, twice the price, and deleted behind it, once."""
        if self.costs.atomic_entries is not None:
            noted = TouchWork(view, facts, checks=effect.times * 1.5)
            yield Upkeep(noted, self.costs.touch(noted), effect.times)

    def _followers(
        self, write: Write, effect: Effect, entity: str, chain: tuple[str, ...]
    ) -> tuple[list[Demand], float, float] | None:
        """The lookups of the rows that copy through a chain of references, how many there are, and how many rows that
        may point elsewhere are between them and the changed one; None if they are deleted by the same call."""
        rows, between = effect.times, 0.0
        demands = []
        steps = []
        for role in chain:
            steps.append((entity, role))
            entity = self.model.entities[entity].roles[role].entity
        if self._goes_along(write, effect, *steps[-1]):
            return None
        for owner, role in reversed(steps):
            need = dependents(self.model, owner, role)
            demands.append(Demand(write.name, "fan", f"{owner}.{role}", need, 2 * rows))
            target = self.model.entities[owner].roles[role].entity
            share = self.statistics.present(owner, self.model.entities[owner].roles[role].columns[0])
            rows *= self.statistics.rows(owner) * share / max(1.0, self.statistics.rows(target))
            if (owner, role) != steps[0] and self._changing[owner] & set(
                self.model.entities[owner].roles[role].columns
            ):
                between += rows
        return demands, rows, between

    def _passed(self, view: View, facts: ViewFacts, between: float) -> Iterator[Upkeep]:
        """The checks that rows between a value and those that repeat it still point there."""
        if between and self.costs.transactional:
            work = TouchWork(view, facts, checks=between)
            yield Upkeep(work, self.costs.touch(work), between)

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
                yield Upkeep(TouchWork(view, facts), Cost(), 0.0, 0.0, (demand,))
        role = dangling_role(self.model, view)
        goes = role is not None and not self._changing[role.entity].isdisjoint(self.model.entities[role.entity].key)
        if role is not None and role.entity == effect.entity and goes and self.costs.atomic_entries is not None:
            # Rows come here only when the delete of their target is finished: that nobody is about to do so is checked.
            checked = TouchWork(view, facts, checks=effect.times)
            yield Upkeep(checked, self.costs.touch(checked), effect.times)

    def _copying_ways(self, view: View) -> set[tuple[str, tuple[str, ...]]]:
        """The references through which rows of the view, or embedded in it, come by what they copy: (entity, chain)."""
        found = set()
        for entity, texts in ((view.entity, self._copied(view)), *((e.entity, e.holds) for _, e in view.nested())):
            for text in texts:
                roles = path_of(text, self.model, entity).roles
                found |= {(entity, roles[:depth]) for depth in range(1, len(roles) + 1)}
        return found

    def _goes_along(self, write: Write, effect: Effect, owner: str, role: str) -> bool:
        """Whether the rows that point at a deleted one are deleted by the same call."""
        if effect.kind != "delete" or effect.entity != write.entity:
            return False
        roles = (self.model.entities[write.entity].roles[name] for name in write.children)
        return any((child.entity, child.field) == (owner, role) for child in roles)

    def _chains_to(self, view: View, entity: str) -> dict[tuple[str, ...], set[str]]:
        """The role chains through which the view copies columns of an entity."""
        chains = self._chains(view).items()
        return {roles: columns for roles, columns in chains if self.model.entity_at(view.entity, roles) == entity}

    def _copying_chains(self, view: View) -> dict[tuple[str, ...], set[str]]:
        """The role chains through which the view copies columns."""
        found: dict[tuple[str, ...], set[str]] = {}
        for text in sorted(self._copied(view)):
            path = path_of(text, self.model, view.entity)
            found.setdefault(path.roles, set()).add(path.column)
        return found


def _is_generated(entity: Entity) -> bool:
    """Whether new rows have keys that nobody can have referred to."""
    return any(
        entity.columns[column].type.kind in ("uuid", "ulid") and column in entity.fields for column in entity.key
    )


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
