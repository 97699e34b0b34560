"""From jobs to row changes: the old rows that are needed, the snapshots of new ones, and what a cascade takes along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from keyplan.engines.rounds import Proc
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.new_row import NewRow, copy_in, expiry
from keyplan.store.writing.changes import RowChange
from keyplan.store.writing.jobs import Change, Delete, Job, Put, Written
from keyplan.store.writing.mutate import Mutator
from keyplan.store.writing.rows import Key, Row, RowReader, World

Reading = Literal["needed", "returned", "all"]
"""The old rows that are read: those that something depends on, also those that are to be returned, or all."""


class RowChanges:
    """Reads what jobs need to say what they change."""

    def __init__(self, model: Model, mutator: Mutator, reader: RowReader) -> None:
        self.model = model
        self.mutator = mutator
        self.reader = reader

    def changes(
        self, jobs: Sequence[Job], now: datetime, reading: Reading, known: Mapping[tuple[str, Key], Row | None]
    ) -> Proc[tuple[list[RowChange], Mapping[tuple[str, Key], Row | None]]]:
        """The row changes of the jobs, from old rows read now where they are needed, and other rows that were read."""
        created = self.created(jobs, now) if reading != "all" else None
        if created is not None:
            return created, {}
        # A row that later ones of this write take a snapshot of has to be known whole.
        copying = max((n for n, job in enumerate(jobs) if _may_copy(job)), default=-1)
        blind = {
            n: change
            for n, job in enumerate(jobs)
            if not _is_read(job, reading)
            and (n > copying or isinstance(job, Put))
            and (change := job.blind(self.mutator))
        }
        wanted = [(job.entity.name, job.key) for n, job in enumerate(jobs) if n not in blind]
        old = {place: known[place] for place in wanted if place in known}
        unknown = [place for place in wanted if place not in known]
        if unknown:
            old |= yield from self.reader.by_key(unknown, now)
        fresh = [job.make() for job in jobs if isinstance(job, Change) and old.get((job.entity.name, job.key)) is None]
        fresh += [job.new for job in jobs if isinstance(job, Put)]
        world = World(self.model, self.reader, now)
        if any(new.sources for new in fresh):
            yield from self.fetch_sources(world, fresh)
        found: list[RowChange] = []
        for number, job in enumerate(jobs):
            if isinstance(job, Put):
                if job.new.sources:
                    # A row that is replaced is deleted first: it is nothing to copy from, not even for itself. One that
                    # is in the way of another is. And the rows before it in this write may lead to others than those
                    # that were there.
                    if job.replace:
                        world.changed[job.entity.name, job.key] = (old.get((job.entity.name, job.key)), None)
                    yield from self.fetch_sources(world, [job.new])
                self.complete(world, job.new, now)
            elif isinstance(job, Change) and job.fresh is not None:
                yield from self.fetch_sources(world, [job.fresh])
                self.complete(world, job.fresh, now)
            change = blind.get(number) or job.change(old.get((job.entity.name, job.key)))
            if change is not None:
                found.append(change)
                world.changed[change.entity, change.key] = (change.old, change.new)
            if isinstance(job, Delete) and job.write.children and not job.cascade and (change or job.taken_along):
                roles = [job.entity.roles[name] for name in job.write.children]
                if change is not None:
                    change.covered = frozenset((role.entity, role.field) for role in roles)
                found += yield from self.cascade(job, found, now)
        return found, world.seen

    def created(self, jobs: Sequence[Job], now: datetime) -> list[RowChange] | None:
        """The same where nothing at all has to be read: whole rows without snapshots, whatever was there before."""
        found: list[RowChange] = []
        for job in jobs:
            if not isinstance(job, Put) or job.new.sources:
                return None
            change = job.blind(self.mutator)
            if change is None:
                return None
            found.append(change)
        for job in jobs:
            if job.entity.ttl is not None:
                assert isinstance(job, Put)
                job.new.values[EXPIRES] = expiry(job.entity, job.new.values, now)
        return found

    def fetch_sources(self, world: World, fresh: Iterable[NewRow]) -> Proc[None]:
        yield from world.fetch(
            (new.entity, new.values, path.roles, True) for new in fresh for path in new.sources.values()
        )

    def complete(self, world: World, new: NewRow, now: datetime) -> None:
        """Fills in snapshots, and then the moment at which the row expires."""
        for column, path in list(new.sources.items()):
            value = new.values.get(path.column) if not path.roles else world.value(new.entity, new.values, path)
            copy_in(self.model, new, column, value)
        entity = self.model.entities[new.entity]
        if entity.ttl is not None:
            new.values[EXPIRES] = expiry(entity, new.values, now)

    def cascade(self, job: Delete, found: Sequence[RowChange], now: datetime) -> Proc[list[RowChange]]:
        """The deletes of all rows that the named roles lead to, at every depth."""
        result: list[RowChange] = []
        seen = {(change.entity, change.key) for change in found}
        level: list[tuple[str, list[Key], Mapping[str, Any]]] = [(job.entity.name, [job.key], job.write.children)]
        while level:
            below: list[tuple[str, list[Key], Mapping[str, Any]]] = []
            for entity, keys, roles in level:
                for name, inner in roles.items():
                    role = self.model.entities[entity].roles[name]
                    child = self.model.entities[role.entity]
                    lists = yield from self.reader.pointing_at(role.entity, role.field, keys, now)
                    rows = {tuple(row[column] for column in child.key): row for some in lists for row in some}
                    for key, row in rows.items():
                        if (child.name, key) not in seen:
                            seen.add((child.name, key))
                            result.append(RowChange(child.name, key, row, None, job.label, expect="present"))
                    if inner and rows:
                        below.append((child.name, list(rows), inner))
            level = below
        return result


def _is_read(job: Job, reading: Reading) -> bool:
    """Whether the old row is read, though what the job does might not depend on it."""
    return reading == "all" or (reading == "returned" and isinstance(job, Written) and job.returning)


def _may_copy(job: Job) -> bool:
    """Whether a job may create a row with snapshots."""
    if isinstance(job, Put):
        return bool(job.new.sources)
    return isinstance(job, Change) and any(item.source is not None for item in job.entity.fields.values())
