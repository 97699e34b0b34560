"""Bulk load: rows of any entities in batches, meaning upsert, resumable after any batch.

Where a row can be put without knowing what it replaces, batches go out in the engine's own bulk form; otherwise they
are written as upserts, many rows in one atomic request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from keyplan.engines.base import Proc
from keyplan.errors import ArgumentError, ConflictError, UnsupportedError, nearest
from keyplan.model.new_row import row_from_arguments
from keyplan.plan.edits import Edit
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
        self.rows = iter(rows)
        self.done = done
        self.batch: list[tuple[str, Mapping[str, Any]]] = []
        self.together = TOGETHER
        for _ in islice(self.rows, done):
            pass

    def batches(self) -> Iterator[int]:
        """Takes the next batch; yields how many rows there will be when it is done."""
        while batch := list(islice(self.rows, BULK)):
            self.batch = batch
            count = self.done + len(batch)
            yield count
            self.done = count


def load_rows(loading: Loading) -> Proc[None]:
    """Writes the current batch, in the order given."""
    core = loading.core
    now = core.clock()
    bulk: dict[tuple[str, tuple[Any, ...]], Put] = {}
    slow: dict[tuple[str, tuple[Any, ...]], Job] = {}
    for entity, fields in loading.batch:
        job = _job(core, entity, fields, now)
        place = (entity, job.key)
        if is_bulk(core, entity) and not job.new.sources:
            if place in slow:  # an earlier version of the row waits to be written: it has to go first
                yield from upsert_all(loading, list(slow.values()), now)
                slow.clear()
            bulk[place] = job
        else:
            if job.new.sources and bulk:
                yield from put_all(core, list(bulk.values()), now)
                bulk.clear()
            if place in slow or len(slow) >= loading.together or _depends(job, slow):
                yield from upsert_all(loading, list(slow.values()), now)
                slow.clear()
            slow[place] = job
    if bulk:
        yield from put_all(core, list(bulk.values()), now)
    if slow:
        yield from upsert_all(loading, list(slow.values()), now)


def _job(core: Core, entity: str, fields: Mapping[str, Any], now: Any) -> Put:
    about = core.model.entities.get(entity)
    if about is None:
        raise ArgumentError(f"load: no entity '{entity}'{nearest(str(entity), list(core.model.entities))}")
    if not isinstance(fields, Mapping):
        raise ArgumentError(f"load: {entity}: expected a mapping of fields, got {fields.__class__.__name__}")
    new = row_from_arguments(core.model, f"load: {entity}", entity, fields, now=now, new_id=core.writer.new_id)
    return Put(core.model, about, new.label, new.key(about), new, True)


def _depends(job: Put, waiting: Mapping[Any, Job]) -> bool:
    """Whether a snapshot may come from a row that is not written yet, through more than one reference."""
    return any(len(path.roles) > 1 for path in job.new.sources.values()) and bool(waiting)


def is_bulk(core: Core, entity: str) -> bool:
    """Whether rows of an entity can be put without reading anything."""
    return core.mutator.is_blind_replacement(entity) and not any(place.copies for place in core.places.of[entity])


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
                yield from core.writer.commit([job], now)
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
        start += len(some)


_NOTHING_READ: Any = None
"""Rows without snapshots need no world to be completed."""
