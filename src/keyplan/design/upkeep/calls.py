"""How many requests a call of a write sends, and how many wait for each other: what the store does, step by step.

The program prices what a write touches and looks up, each by itself. Here the steps are put together as the store takes
them: keys of one entity are read in one batch, rows that were read are not read again, rows that repeat a value are
looked for before the write and once more behind it, and what does not fit into one request follows in chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

from keyplan.design.needs.computed import kept_by
from keyplan.design.needs.need import Need, dangling, dependents, is_generated, whole_row
from keyplan.design.needs.subsets import chance_of_refill, refill_need
from keyplan.design.statistics.derived import Statistics
from keyplan.design.statistics.together import is_read_to_return, shares_in_transactions
from keyplan.design.upkeep.kept import Kept, kept_entries
from keyplan.engines.base import Kind
from keyplan.engines.composed import told_values
from keyplan.engines.upserts import is_told_apart, needs_row
from keyplan.engines.work import CostModel
from keyplan.model.entity import EXPIRES, Role
from keyplan.model.model import Model
from keyplan.model.write import Children, Write, rows_along, written_along
from keyplan.plan.dangling import dangling_role
from keyplan.plan.steps import Figures
from keyplan.plan.view import View

ROWS_AT_ONCE = 25
"""Rows of a wide update or delete that the store writes in the same rounds."""

Chain = tuple[str, ...]
Lookup = Callable[[Need, float], Figures]
"""What looking for so many keys at once takes."""


@dataclass(frozen=True)
class _Rows:
    """Rows of one entity that a call changes."""

    entity: str
    times: float
    parent: str = ""
    """The reference to the row above, which is written by the same call."""
    below: bool = False


@dataclass
class _Count:
    requests: float = 0.0
    trips: int = 0
    seen: set[tuple[str, str]] = field(default_factory=set)
    """The references whose rows have been read."""

    def add(self, some: Iterable[Figures]) -> None:
        """Lookups of one round."""
        found = list(some)
        self.requests += sum(figures.requests for figures in found)
        self.trips += max((figures.trips for figures in found), default=0)


class WriteCalls:
    """Counts the calls of the writes of one choice of views."""

    def __init__(
        self,
        model: Model,
        statistics: Statistics,
        kinds: Mapping[str, Kind],
        costs: CostModel,
        views: Iterable[View],
        lookup: Lookup,
    ) -> None:
        self.model = model
        self.statistics = statistics
        self.costs = costs
        self.lookup = lookup
        self.kinds = kinds
        self.together = shares_in_transactions(model)
        self.kept: dict[str, list[Kept]] = {name: [] for name in model.entities}
        self.views = named = list(views)
        for view in named:
            # Rows that point at nothing come and go with what others read anyway.
            if not kinds[view.kind].kept_by_engine and dangling_role(model, view) is None:
                for one in kept_entries(model, view, named, kinds):
                    self.kept[one.entity].append(one)
        self.feeds: dict[str, dict[tuple[str, Role], set[str]]] = {name: {} for name in model.entities}
        """Per entity: whose rows keep values that are computed of it, by which role, and the columns they depend on."""
        for name, text, role in (
            (name, text, role)
            for view in named
            for name, some in kept_by(model, view).items()
            for text, role in some.items()
        ):
            computed = model.entities[name].columns[text].computed
            assert computed is not None
            columns = self.feeds[role.entity].setdefault((name, role), set(role.columns))
            columns |= {computed.column} if computed.column else set()
        self.computes: dict[str, dict[str, Role]] = {name: {} for name in model.entities}
        """Per entity: the computed columns that its rows keep, and what they are made of."""
        for view in named:
            for name, made in kept_by(model, view).items():
                self.computes[name] |= made
        self.watches: dict[str, dict[tuple[str, Chain], set[str]]] = {name: {} for name in model.entities}
        """Per entity: the rows that copy from it, as an entity and the references that lead here, and what they copy of
        it."""
        for entity, some in self.kept.items():
            for one in some:
                for path in one.copies:
                    for depth in range(1, len(path.roles) + 1):
                        chain = path.roles[:depth]
                        at = model.entity_at(entity, chain)
                        columns = {path.column}
                        if depth < len(path.roles):
                            columns = set(model.entities[at].roles[path.roles[depth]].columns)
                        self.watches[at].setdefault((entity, chain), set()).update(columns)

    def of(self, write: Write, found: Figures | None, entries: float) -> tuple[float, int]:
        """The requests and round trips of one call; `found` is what looking for the rows takes that it means,
        and `entries` what is written."""
        count = _Count()
        rows = 1.0
        if found is not None:
            count.requests, count.trips = found.requests, found.trips
            rows = 1.0 if write.by_key else max(1.0, write.rows or found.rows)
        one = _Count()
        changed = self._changed(write)
        self._old(write, changed, one, known=found is not None)
        self._snapshots(write, changed, one)
        if write.kind == "delete":
            self._cascade(write, one)
            self._cut_cascade(write, entries, one)
        watched = [(of, watch) for of in changed for watch in self._watching(write, of)]
        new = write.kind == "create"
        for of, watch in watched:
            if not self._goes_along(write, of, watch):
                one.add([self._chain(watch, of.times, new=new)])
        self._computed(write, changed, one)
        following = self._derived(write, changed)
        for of, watch in following:
            one.add([self._chain(watch, of.times)])
        self._copied(write, changed, [watch for _, watch in (*(watched if not new else ()), *following)], one)
        self._refilled(write, changed, one)
        self._made_of(write, changed, one)
        self._extended(write, changed, one)
        one.requests, one.trips = one.requests + 1, one.trips + 1  # the write itself
        self._behind(watched, entries, one, new=new)
        self._behind(following, entries, one, new=False)
        meeting = any(kept.recomputed or (kept.extended and not self.costs.extends) for kept in self.kept[write.entity])
        meeting = meeting or write.entity in written_along(self.model.entities, write)
        at_once = ceil(rows / (1 if meeting else ROWS_AT_ONCE))
        return count.requests + rows * one.requests, count.trips + at_once * one.trips

    def _computed(self, write: Write, changed: Iterable[_Rows], count: _Count) -> None:
        """The rows that keep values which are computed of those that change, unless they are written along."""
        wanted: dict[str, float] = {}
        for of in changed:
            update = write.kind == "update" and not of.below
            for (entity, role), columns in self.feeds[of.entity].items():
                if (update and not self._columns(write) & columns) or role.field == of.parent:
                    continue
                moved = update and bool(self._columns(write) & set(role.columns))
                wanted[entity] = wanted.get(entity, 0.0) + of.times * (2 if moved else 1)
        count.add(self.lookup(whole_row(self.model, entity), times) for entity, times in wanted.items())

    def _derived(self, write: Write, changed: Iterable[_Rows]) -> list[tuple[_Rows, tuple[str, Chain]]]:
        """Who repeats what is computed of the rows that change, and of which rows."""
        found: list[tuple[_Rows, tuple[str, Chain]]] = []
        for of in changed:
            update = write.kind == "update" and not of.below
            for entity, role in self.feeds[of.entity]:
                if role.field == of.parent:
                    continue
                made = {
                    column.name
                    for column in self.model.entities[entity].columns.values()
                    if column.computed is not None
                    and column.computed.role == role.name
                    and not (update and not self._columns(write) & {*role.columns, column.computed.column})
                }
                moved = update and bool(self._columns(write) & set(role.columns))
                rows = _Rows(entity, of.times * (2 if moved else 1))
                found += [(rows, watch) for watch, some in self.watches[entity].items() if some & made]
        return found

    def _refilled(self, write: Write, changed: Iterable[_Rows], count: _Count) -> None:
        """The subsets that rows leave, and the rows that follow where there are more."""
        for of in changed:
            for one in self.kept[of.entity]:
                if one.subset is None or not self._leaves(write, of, one):
                    continue
                entity, embed = one.subset
                many = max(1.0, self.statistics.fan_out(entity, embed.role))
                parents = of.times / (many if of.below else 1.0)
                chance = chance_of_refill(self.statistics, entity, embed, all_go=of.below)
                found = self.lookup(refill_need(self.model, entity, embed), 1.0)
                count.requests += parents * (1 + chance * found.requests)
                count.trips += 1 + (found.trips if chance >= 0.5 else 0)

    def _leaves(self, write: Write, of: _Rows, one: Kept) -> bool:
        """Whether rows may go from where they stand in a subset."""
        if write.kind == "delete":
            return True
        if write.kind == "update":
            return not of.below and bool(self._columns(write) & one.decides)
        columns = self.model.entities[of.entity].columns
        return write.kind != "create" and any(not columns[column].immutable for column in one.decides)

    def _made_of(self, write: Write, changed: Iterable[_Rows], count: _Count) -> None:
        """The rows that a new one's computed values are made of, if they may be there before it: read for each value,
        and once more, with the row itself, when it is there."""
        for of in changed if write.kind == "create" else ():
            if is_generated(self.model, of.entity):
                continue
            for role in self.computes[of.entity].values():
                children = self.lookup(dependents(self.model, role.entity, role.field), of.times)
                for figures in (children, self.lookup(whole_row(self.model, of.entity), of.times), children):
                    count.add([figures])
                if self._is_copied(of.entity, role):  # nobody else may copy or change it until it is there
                    count.add([children])
                    held = 0 if self.costs.goes_on else 1
                    count.requests, count.trips = count.requests + held * of.times, count.trips + held

    def _is_copied(self, entity: str, role: Role) -> bool:
        """Whether others repeat what is computed of the rows of a role."""
        columns = self.model.entities[entity].columns.values()
        made = {column.name for column in columns if column.computed is not None and column.computed.role == role.name}
        return any(some & made for some in self.watches[entity].values())

    def _extended(self, write: Write, changed: Iterable[_Rows], count: _Count) -> None:
        """The groups whose minima and maxima are read, where the engine does not extend them by itself."""
        read = 0.0
        for of in changed if not self.costs.extends else ():
            update = write.kind == "update" and not of.below
            for one in self.kept[of.entity]:
                if one.extended and not (update and not self._touches(one, self._columns(write))):
                    read += of.times
        count.requests += read
        count.trips += 1 if read >= 0.5 else 0

    # what is changed

    def _changed(self, write: Write) -> list[_Rows]:
        found = [_Rows(write.entity, 1.0)]
        for along in rows_along(self.model.entities, write):
            times = found[along.above].times * self.statistics.fan_out(along.parent, along.role.name)
            found.append(_Rows(along.role.entity, times, along.role.field, True))
        return found

    def _columns(self, write: Write) -> set[str]:
        """The columns that an update changes."""
        columns = {*write.sets, *write.adds}
        ttl = self.model.entities[write.entity].ttl
        return columns | {EXPIRES} if ttl is not None and ttl.since in columns else columns

    # what is read before

    def _old(self, write: Write, changed: Iterable[_Rows], count: _Count, known: bool) -> None:
        """The rows as they were, where something depends on them."""
        wanted: dict[str, float] = {}
        for of in changed:
            if self._needs_old(write, of) and not (of.below and write.kind == "delete") and not known:
                wanted[of.entity] = wanted.get(of.entity, 0.0) + of.times
        count.add(self.lookup(whole_row(self.model, entity), times) for entity, times in wanted.items())
        share = self.together.get(write.name, 0.0)
        if share and write.entity not in wanted and is_read_to_return(self.model, write, self.costs):
            found = self.lookup(whole_row(self.model, write.entity), 1.0)
            count.requests += share * found.requests
            count.trips += found.trips if share >= 0.5 else 0

    def _needs_old(self, write: Write, of: _Rows) -> bool:
        kept = self.kept[of.entity]
        if write.kind == "create":
            return False
        if write.kind == "delete" and write.children:
            return True
        returned = write.returns and not self.costs.returns_together
        changing = [one for one in kept if write.kind != "update" or self._touches(one, self._columns(write))]
        if returned and sum(one.many for one in changing if not one.groups) > 1:
            return True
        if write.kind == "change":
            blind = is_told_apart(self.model, write)
            return not blind or any(needs_row(self.model, self.kinds, write, view) for view in self.views)
        if write.kind == "update":
            columns = self._columns(write)
            if any(some & columns for some in self.watches[of.entity].values()):
                return True
            if any(some & columns for some in self.feeds[of.entity].values()):
                return True
            return any(self._depends(one, write, columns) for one in kept)
        if self.watches[of.entity] or self.feeds[of.entity]:
            return True
        if write.kind == "delete":
            return any(one.groups or one.key_copies or one.decides or one.subset for one in kept)
        here = self.model.entities[of.entity].columns
        return any(
            one.groups or one.unique or one.key_copies or any(not here[column].immutable for column in one.decides)
            for one in kept
        )

    def _depends(self, one: Kept, write: Write, columns: set[str]) -> bool:
        """Whether an update of these columns has to know the row that an entry belongs to."""
        given, told = {*write.sets, *self.model.entities[one.entity].key}, told_values(write)
        if any(key.needs_row(columns, given, told) for key in one.composed):
            return True
        if not self._touches(one, columns):
            return False
        whole = one.groups or one.key_copies or one.subset is not None
        return whole or bool(one.decides) or bool(columns & self._led_by(one))

    def _touches(self, one: Kept, columns: set[str]) -> bool:
        """Whether an update of these columns changes an entry."""
        return bool(columns & {*one.holds, *one.decides, *self._led_by(one)})

    def _led_by(self, one: Kept) -> set[str]:
        """The references that an entry copies values over."""
        roles = self.model.entities[one.entity].roles
        return {column for path in one.copies for column in roles[path.roles[0]].columns}

    def _snapshots(self, write: Write, changed: Iterable[_Rows], count: _Count) -> None:
        if write.kind not in ("create", "upsert"):
            return
        chains = [
            (of, path.roles)
            for of in changed
            for item in self.model.entities[of.entity].fields.values()
            if item.source is not None and (path := self.model.resolve(of.entity, item.source)).roles
        ]
        self._fetch(chains, count)

    def _fetch(self, chains: Iterable[tuple[_Rows, Chain]], count: _Count) -> None:
        """The rows behind references, level by level, keys of one entity in one batch."""
        levels: dict[int, dict[str, float]] = {}
        for rows, chain in dict.fromkeys(chains):
            entity, times = rows.entity, rows.times
            for depth, name in enumerate(chain):
                role = self.model.entities[entity].roles[name]
                times *= self.statistics.present(entity, role.columns[0])
                target = role.entity
                if not (depth == 0 and name == rows.parent) and (entity, name) not in count.seen:
                    count.seen.add((entity, name))
                    here = levels.setdefault(depth, {})
                    here[target] = here.get(target, 0.0) + min(times, self.statistics.rows(target))
                entity = target
        for depth in sorted(levels):
            wanted = levels[depth]
            count.add(self.lookup(whole_row(self.model, entity), times) for entity, times in wanted.items())

    def _cascade(self, write: Write, count: _Count) -> None:
        """The rows that go along, one level after the other, each role by itself."""
        level: list[tuple[str, Children, float]] = [(write.entity, write.children, 1.0)]
        while level:
            below: list[tuple[str, Children, float]] = []
            for entity, children, times in level:
                for name, deeper in children.items():
                    role = self.model.entities[entity].roles[name]
                    count.add([self.lookup(dependents(self.model, role.entity, role.field), times)])
                    below.append((role.entity, deeper, times * self.statistics.fan_out(entity, name)))
            level = below

    def _cut_cascade(self, write: Write, entries: float, count: _Count) -> None:
        """Rows of a cascade that do not fit into one request go first, in chunks; then all is looked up once more."""
        most = self.costs.atomic_most
        if not write.children or most is None or entries <= most:
            return
        below = sum(of.times for of in self._changed(write) if of.below)
        size = most // 2
        while size > 1 and size * entries / (below + 1) > most:
            size //= 2
        chunks = ceil(below / size - 1e-9)
        count.requests, count.trips = 2 * count.requests + chunks, 2 * count.trips + chunks

    # who follows

    def _watching(self, write: Write, of: _Rows) -> list[tuple[str, Chain]]:
        """Who repeats something that the write changes in these rows, or may have waited for them."""
        if of.below and write.kind == "update":
            return []
        if write.kind == "create":
            return [] if is_generated(self.model, of.entity) else list(self.watches[of.entity])
        columns = self._columns(write) if write.kind in ("update", "change") else None
        return [watch for watch, some in self.watches[of.entity].items() if columns is None or some & columns]

    def _goes_along(self, write: Write, of: _Rows, watch: tuple[str, Chain]) -> bool:
        """Whether the rows that repeat a value are found and deleted by the same call."""
        entity, chain = watch
        if write.kind != "delete" or of.below or len(chain) != 1:
            return False
        roles = (self.model.entities[write.entity].roles[name] for name in write.children)
        return any((role.entity, role.field) == (entity, chain[0]) for role in roles)

    def _chain(self, watch: tuple[str, Chain], times: float, *, new: bool = False) -> Figures:
        """Looking for the rows from which a chain of references leads to changed ones; at new ones, none does."""
        entity, chain = watch
        if new:
            found = self.lookup(dangling(self.model, self.model.entity_at(entity, chain[:-1]), chain[-1]), times)
            # Nothing is found, so that nothing has to be read for it.
            return Figures(found.requests, min(found.trips, max(1, ceil(found.requests / times - 1e-9))))
        requests, trips, rows = 0.0, 0, times
        for depth in reversed(range(len(chain))):
            owner = self.model.entity_at(entity, chain[:depth])
            found = self.lookup(dependents(self.model, owner, chain[depth]), rows)
            requests, trips = requests + found.requests, trips + found.trips
            rows *= self._pointing(owner, chain[depth])
        return Figures(requests, trips, rows)

    def _pointing(self, owner: str, name: str) -> float:
        """The mean number of rows that point at one."""
        role = self.model.entities[owner].roles[name]
        share = self.statistics.present(owner, role.columns[0])
        return self.statistics.rows(owner) * share / max(1.0, self.statistics.rows(role.entity))

    def _following(self, watch: tuple[str, Chain], times: float = 1.0) -> float:
        entity, chain = watch
        for depth in range(len(chain)):
            times *= self._pointing(self.model.entity_at(entity, chain[:depth]), chain[depth])
        return times

    def _copied(
        self, write: Write, changed: Iterable[_Rows], watches: Iterable[tuple[str, Chain]], count: _Count
    ) -> None:
        """What entries that are new, move or follow copy from other rows."""
        chains: list[tuple[_Rows, Chain]] = []
        for of in changed:
            for one in self.kept[of.entity]:
                if self._copies(write, of, one):
                    chains += [(of, path.roles) for path in one.copies]
        for watch in watches:
            entity, chain = watch
            followers = _Rows(entity, self._following(watch))
            if followers.times < 0.5 or (write.kind == "delete" and any(of.entity == entity for of in changed)):
                continue
            chains += [
                (followers, path.roles) for one in self.kept[entity] for path in one.copies if path.roles != chain
            ]
        self._fetch(chains, count)

    def _copies(self, write: Write, of: _Rows, one: Kept) -> bool:
        """Whether the values that an entry copies have to be looked up."""
        if not one.copies or (write.kind == "delete" and not one.key_copies) or (one.groups and write.kind == "delete"):
            return False
        if write.kind not in ("update", "change"):
            return True
        columns = self._columns(write)
        pointing = self._led_by(one)
        if one.groups:
            return bool(columns & pointing)
        if one.key_copies and columns & {*one.holds, *one.decides, *pointing}:
            return True
        if one.composes_copies(columns):
            return True
        return bool(columns & (one.decides | pointing))

    # what comes behind the write

    def _behind(
        self, watched: Iterable[tuple[_Rows, tuple[str, Chain]]], entries: float, count: _Count, *, new: bool
    ) -> None:
        """Rows that have begun to repeat a value meanwhile are looked for once more; what did not fit follows."""
        most = self.costs.atomic_entries
        groups: dict[int, list[tuple[_Rows, tuple[str, Chain]]]] = {}
        for of, watch in watched:
            groups.setdefault(id(of), []).append((of, watch))
        for pairs in groups.values():
            of = pairs[0][0]
            for _, watch in pairs:
                again = self._chain(watch, 1.0, new=new)
                count.requests += again.requests * of.times
                count.trips += again.trips if new else ceil(again.trips * of.times)
            if most is None or new:
                continue  # a row that is created has no intent
            rows = sum(self._following(watch) for _, watch in pairs)
            if entries > most:
                chunks, lookups = self._chunks(pairs, rows, most)
                count.requests += chunks + lookups
                count.trips += chunks + lookups
            count.requests += of.times  # the intent goes
            count.trips += ceil(of.times)

    def _chunks(self, pairs: Iterable[tuple[_Rows, tuple[str, Chain]]], rows: float, most: int) -> tuple[int, int]:
        """How many requests rows follow in, each with the lookup of what else they copy."""
        each = max((sum(one.many for one in self.kept[entity] if one.copies) for _, (entity, _) in pairs), default=1.0)
        size = most // 2
        while size > 1 and size * each + 1 > most:
            size //= 2
        chunks = ceil(rows / size)
        others = any(
            path.roles != chain for _, (entity, chain) in pairs for one in self.kept[entity] for path in one.copies
        )
        return chunks, chunks if others else 0
