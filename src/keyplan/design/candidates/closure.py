"""Candidate views: homes, guards and counters, and under every key that needs ask for what they want of it.

The family defines the space that optimality is claimed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from keyplan.design.candidates.carrying import carrying_homes
from keyplan.design.candidates.contents import Contents, expiry
from keyplan.design.candidates.counters import counters, finer, shared
from keyplan.design.candidates.embedding import embedding_homes
from keyplan.design.candidates.keys import Keys
from keyplan.design.candidates.sparse import is_within
from keyplan.design.candidates.windows import kept_for
from keyplan.design.needs.computed import is_followable, is_holdable
from keyplan.design.needs.need import Need, held_paths
from keyplan.design.statistics.derived import Statistics
from keyplan.design.statistics.weakly import remembered
from keyplan.engines.base import Kind
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition
from keyplan.plan.view import Part, View


class Candidates:
    """Collects the candidate views of one model on one engine."""

    def __init__(
        self, model: Model, statistics: Statistics, kinds: Mapping[str, Kind], *, carries: bool = False
    ) -> None:
        self.model = model
        self.statistics = statistics
        self.kinds = kinds
        self.carries = carries
        """What indexes copy, homes carry."""
        self.views: dict[tuple[object, ...], View] = {}
        self._copyable = remembered(self._is_copyable)
        self._embeddable = remembered(self._is_embeddable)
        self.own = [kind for kind in kinds.values() if not kind.kept_by_engine and not kind.families]
        self.embedding = [kind for kind in kinds.values() if kind.embeds]
        self.kept = [kind for kind in kinds.values() if kind.kept_by_engine]
        self._keys = Keys(model, statistics, self.own, self.kept, self._copyable)
        self._contents = Contents(model, statistics, kinds, self.own, self.kept, self._keys)

    def collect(self, needs: Iterable[Need]) -> list[View]:
        """Every candidate view for these needs, homes and guards included."""
        per_entity: dict[str, list[Need]] = {name: [] for name in self.model.entities}
        for need in needs:
            if need.implied:
                self._dangling(need)
            else:
                per_entity[need.entity].append(need)
        for entity, wants in per_entity.items():
            self._homes(entity)
            self._guards(entity, wants)
            for view in embedding_homes(self.model, self.embedding, entity, per_entity, self._embeddable):
                self._add(view)
            for view in self._found_by_key(entity, wants):
                self._add(view)
            by_window = [whole for need in wants for whole in kept_for(self.model, self.statistics, need)]
            kept = [view for need in (*wants, *by_window) for view in counters(self.model, self.own, need)]
            kept += shared(kept)
            for view in (*kept, *finer(kept)):
                self._add(view)
        if self.carries:
            for view in carrying_homes(self.model, self.kinds, self.views.values(), self._embeddable):
                self._add(view)
        return list(self.views.values())

    def _found_by_key(self, entity: str, needs: list[Need]) -> list[View]:
        """The views of an entity under keys that needs ask for; worked out once for the same needs, as a problem that
        differs from another in one pattern has most of them in common with it."""
        asked = (entity, tuple(needs), tuple(self.kinds.values()))
        known = self.statistics.candidates.get(asked)
        if known is None:
            shapes = self._keys.shapes(entity, needs)
            within = {where: _within(where, needs) for where in dict.fromkeys(shape.where for shape in shapes)}
            known = [view for shape in shapes for view in self._contents.of(shape, within[shape.where])]
            self.statistics.candidates[asked] = known
        return known

    def _homes(self, entity: str) -> None:
        """The entity's rows under its key, split into partition and sort at every place."""
        here = self.model.entities[entity]
        key = [Part(column) for column in here.key]
        for kind in self.own:
            splits = range(1, len(key) + 1) if kind.partitioned else [0]
            for split in splits:
                self._add(View("", entity, kind.name, tuple(key[:split]), tuple(key[split:]), here.stored))

    def _guards(self, entity: str, needs: list[Need]) -> None:
        """A view per unique set that refuses a second row with the same values; an index finds rows as well."""
        here = self.model.entities[entity]
        for columns in here.unique:
            parts = tuple(Part(column) for column in columns)
            indexes = [kind for kind in self.kept if kind.unique]
            holds = held_paths(self.model, entity, {*columns, *here.key, *expiry(self.model, entity)})
            if indexes:
                guard = View("", entity, indexes[0].name, (), parts, holds, unique=True)
                for copied in self._contents.carried_asked(guard, needs):
                    self._add(replace(guard, holds=held_paths(self.model, entity, {*holds, *copied})))
                continue
            for kind in self.own:
                if kind.unique:
                    partition = parts if kind.partitioned else ()
                    sort = () if kind.partitioned else parts
                    guard = View("", entity, kind.name, partition, sort, holds, unique=True)
                    for asked in dict.fromkeys(
                        (frozenset(), *self._contents.asked_of(guard, needs), frozenset(here.stored))
                    ):
                        self._add(replace(guard, holds=held_paths(self.model, entity, {*holds, *asked})))

    def _dangling(self, need: Need) -> None:
        """The rows that point at nothing, by what they point at: only their keys, since they are nearly never read."""
        here = self.model.entities[need.entity]
        columns = tuple(condition.path.column for condition in need.given)
        parts = tuple(Part(column) for column in columns)
        rest = tuple(Part(column) for column in here.key if column not in columns)
        holds = held_paths(self.model, need.entity, columns)
        for kind in self.own:
            partition, sort = (parts, rest) if kind.partitioned else ((), (*parts, *rest))
            self._add(View("", need.entity, kind.name, partition, sort, holds, (), need.implied))

    def _is_copyable(self, entity: str, text: str) -> bool:
        """Whether a view may hold the path: no more than two to-one roles away, and one if it is computed there."""
        path = path_of(text, self.model, entity)
        if self.model.is_many(entity, path.roles):
            return False
        if self.model.column(entity, path).computed is not None:
            if path.roles:
                return len(path.roles) == 1 and is_followable(self.model, self.statistics, entity, path)
            return is_holdable(self.model, self.statistics, entity, path.column)
        return len(path.roles) <= 2

    def _is_embeddable(self, entity: str, text: str) -> bool:
        """The same for rows with others inside: nothing that is computed behind a reference."""
        path = path_of(text, self.model, entity)
        is_plain = not path.roles or self.model.column(entity, path).computed is None
        return is_plain and self._copyable(entity, text)

    def _add(self, view: View) -> None:
        identity = (
            view.entity,
            view.kind,
            view.partition,
            view.sort,
            view.holds,
            view.embeds,
            view.where,
            view.measures,
            view.unique,
            view.packed,
        )
        if identity not in self.views:
            self.views[identity] = replace(view, name=f"v{len(self.views)}")


def _within(where: tuple[Condition, ...], needs: list[Need]) -> list[Need]:
    """The needs whose rows are all in views with this `where`."""
    return [need for need in needs if is_within(where, need.given, need.implied)] if where else needs
