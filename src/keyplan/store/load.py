"""Bulk load: rows of any entities in batches, meaning upsert, resumable after any batch.

Where a row can be put without knowing what it replaces, batches go out in the engine's own bulk form; otherwise they
are written as upserts, many rows in one atomic request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from keyplan.engines.base import Proc, Request
from keyplan.errors import ConflictError, UnsupportedError
from keyplan.model.entity import EXPIRES
from keyplan.model.new_row import NewRow, expiry
from keyplan.model.whole_row import WholeRows, whole_rows
from keyplan.plan.edits import Edit
from keyplan.store.blame import blame, job_of, started
from keyplan.store.core import Core
from keyplan.store.jobs import Job, Put

BULK = 5000
"""Rows per batch that go out without reading anything."""
TOGETHER = 200
"""Rows per batch that are upserted in one request, where the engine has no limit of its own."""


class Loading:
    """A load under way."""

    def __init__(self, core: Core, rows: Iterable[tuple[str, Mapping[str, Any]]], done: int = 0) -> None:
        self.core = core
        self.rows = iter(started(rows, done))
        self.done = done
        self.batch: list[tuple[str, Mapping[str, Any]]] = []
        self.together = TOGETHER
        self.ways: dict[str, Way] = {}
        for _ in islice(self.rows, done):
            pass

    def batches(self) -> Iterator[int]:
        """Takes the next batch; yields how many rows there will be when it is done."""
        while batch := list(islice(self.rows, BULK)):
            self.batch = batch
            count = self.done + len(batch)
            yield count
            self.done = count

    def blame(self, error: Exception) -> None:
        """Raises the error of the batch at hand with the number of the row that it is about, if it is about one."""
        blame(self.core, self.batch, self.done, error)

    def way(self, entity: str) -> Way:
        found = self.ways.get(entity)
        if found is None:
            found = self.ways[entity] = way_of(self.core, entity)
        return found


@dataclass(frozen=True)
class Way:
    """How rows of an entity are loaded."""

    is_bulk: bool = False
    """They can be put without reading anything."""
    make: WholeRows | None = None
    """From fields to columns, where nothing is out of the ordinary."""
    put: Callable[[Sequence[dict[str, Any]]], list[Request]] | None = None
    """Requests for rows that have an entry each in one view, and nowhere else."""


def way_of(core: Core, entity: str) -> Way:
    """The way of an entity; of an unknown one, the way on which that is found out."""
    if entity not in core.model.entities or not is_bulk(core, entity):
        return Way()
    places = core.places.of[entity]
    about = core.model.entities[entity]
    place = places[0]
    parts = place.key.parts
    plain = all(part.cut is None and part.ways == 1 for part in parts) and {part.path for part in parts} == {*about.key}
    if len(places) > 1 or place.at or place.where is not None or not plain:
        return Way(True)
    if any(field.source is not None for field in about.fields.values()):
        return Way(True)
    return Way(True, whole_rows(core.model, entity), core.codec.putter(place.view.name))


class Copied:
    """The rows that waiting ones will take snapshots of, so that they are not written before them."""

    def __init__(self, core: Core) -> None:
        self.model = core.model
        self.rows: set[tuple[str, tuple[Any, ...]]] = set()
        self.entities: set[str] = set()
        """Behind more than one reference, any row may be meant."""

    def note(self, job: Put) -> None:
        for path in job.new.sources.values():
            for depth in range(len(path.roles)):
                target = self.model.entity_at(job.entity.name, path.roles[: depth + 1])
                if depth:
                    self.entities.add(target)
                else:
                    columns = job.entity.roles[path.roles[0]].columns
                    self.rows.add((target, tuple([job.new.values[column] for column in columns])))

    def has(self, entity: str, key: tuple[Any, ...]) -> bool:
        return entity in self.entities or (entity, key) in self.rows

    def clear(self) -> None:
        self.rows.clear()
        self.entities.clear()


def load_rows(loading: Loading) -> Proc[None]:
    """Writes the current batch, in the order given."""
    core = loading.core
    now = core.clock()
    whole: dict[str, list[dict[str, Any]]] = {}
    bulk: dict[tuple[str, tuple[Any, ...]], Put] = {}
    slow: dict[tuple[str, tuple[Any, ...]], Job] = {}
    copied = Copied(core)
    for entity, run in groupby(loading.batch, key=itemgetter(0)):
        way = loading.way(entity)
        if way.put is not None:
            rows = _whole(core, way, entity, [fields for _, fields in run], now)
            key = core.model.entities[entity].key
            if slow and any(copied.has(entity, tuple([row[column] for column in key])) for row in rows):
                yield from upsert_all(loading, list(slow.values()), now)
                slow.clear()
                copied.clear()
            whole.setdefault(entity, []).extend(rows)
            continue
        for _, fields in run:
            job = job_of(core, entity, fields, now)
            place = (entity, job.key)
            if way.is_bulk and not job.new.sources:
                # An earlier version of the row waits to be written, or copies from it: they have to go first.
                if place in slow or copied.has(*place):
                    yield from upsert_all(loading, list(slow.values()), now)
                    slow.clear()
                    copied.clear()
                bulk[place] = job
            else:
                if job.new.sources and (whole or bulk):
                    yield from put_whole(loading, whole, now)
                    whole.clear()
                    yield from put_all(core, list(bulk.values()), now)
                    bulk.clear()
                if place in slow or len(slow) >= loading.together or _depends(job, slow):
                    yield from upsert_all(loading, list(slow.values()), now)
                    slow.clear()
                    copied.clear()
                copied.note(job)
                slow[place] = job
    yield from put_whole(loading, whole, now)
    if bulk:
        yield from put_all(core, list(bulk.values()), now)
    if slow:
        yield from upsert_all(loading, list(slow.values()), now)


def _depends(job: Put, waiting: Mapping[Any, Job]) -> bool:
    """Whether a snapshot may come from a row that is not written yet, through more than one reference."""
    return any(len(path.roles) > 1 for path in job.new.sources.values()) and bool(waiting)


def is_bulk(core: Core, entity: str) -> bool:
    """Whether rows of an entity can be put without reading anything."""
    return core.mutator.is_blind_replacement(entity) and not any(place.copies for place in core.places.of[entity])


def _whole(core: Core, way: Way, entity: str, run: list[Mapping[str, Any]], now: Any) -> list[dict[str, Any]]:
    """The columns of rows, at once where they are all ordinary, else one by one."""
    rows = way.make(run) if way.make is not None else None
    return rows if rows is not None else [job_of(core, entity, fields, now).new.values for fields in run]


def put_whole(loading: Loading, whole: Mapping[str, Sequence[dict[str, Any]]], now: Any) -> Proc[None]:
    """Puts rows that are nothing but one entry each."""
    core = loading.core
    for name, rows in whole.items():
        entity = core.model.entities[name]
        if entity.ttl is not None:
            for row in rows:
                row[EXPIRES] = expiry(entity, row, now)
        put = loading.way(name).put
        assert put is not None
        for request in put(rows):
            (reply,) = yield [request]
            if isinstance(reply, ConflictError):  # a unique value: row by row says which, and spares expired owners
                for row in rows:
                    new = NewRow(name, f"load: {name}", row)
                    yield from put_one(core, Put(core.model, entity, new.label, new.key(entity), new, True), now)
                break
            if isinstance(reply, Exception):
                raise reply


def put_all(core: Core, jobs: list[Put], now: Any) -> Proc[None]:
    """Puts rows in the engine's bulk form."""
    edits: list[Edit] = []
    for number, job in enumerate(jobs):
        core.writer.complete(_NOTHING_READ, job.new, now)
        for place in core.places.of[job.entity.name]:
            for key in place.keys(job.new.values):
                edits.append(Edit(place.view.name, "put", key, place.at, place.entry(job.new.values), row=number))
    for request in core.codec.bulk(edits):
        (reply,) = yield [request]
        if isinstance(reply, ConflictError):  # a unique value: row by row says which, and spares expired owners
            for job in jobs:
                yield from put_one(core, job, now)
            return
        if isinstance(reply, Exception):
            raise reply


def upsert_all(loading: Loading, jobs: list[Job], now: Any) -> Proc[None]:
    """Upserts rows together, fewer at once where the engine cannot do so many."""
    start = 0
    while start < len(jobs):
        some = jobs[start : start + loading.together]
        try:
            yield from loading.core.writer.commit(some, now)
        except UnsupportedError:
            if len(some) == 1:
                raise
            loading.together = max(1, len(some) // 2)
            continue
        except ConflictError:  # none of them was written; one by one says which it is
            for job in some:
                yield from put_one(loading.core, job, now)
        start += len(some)


def put_one(core: Core, job: Job, now: Any) -> Proc[None]:
    """Puts one row, of which the error then is."""
    try:
        yield from core.writer.commit([job], now)
    except ConflictError as error:
        error.place = (job.entity.name, job.key)
        raise


_NOTHING_READ: Any = None
"""Rows without snapshots need no world to be completed."""
