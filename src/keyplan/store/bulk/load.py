"""Bulk load: rows of any entities in batches, meaning upsert, resumable after any batch.

Where a row can be put without knowing what it replaces, batches go out in the engine's own bulk form. Other rows are
first taken to be new, which most rows of a load are, and written together on the condition that they are (`fresh`).
What turns out to exist, and what the engine cannot do so many of, is written as upserts, many in one atomic request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from keyplan.engines.rounds import Proc, Request
from keyplan.errors import ArgumentError, ConflictError, KeyplanError, RangeError, UncertainError, UnsupportedError
from keyplan.model.entity import EXPIRES, Entity
from keyplan.model.new_row import NewRow, expiry, generate
from keyplan.model.whole_row import WholeRows, whole_rows
from keyplan.plan.edits import Edit
from keyplan.store.bulk.blame import blame, job_of, started
from keyplan.store.bulk.keys import Keys
from keyplan.store.bulk.looked_for import Missing, is_scanned, looked_for
from keyplan.store.core import Core
from keyplan.store.writing.changes import Batch
from keyplan.store.writing.fresh import FreshRows, key_of
from keyplan.store.writing.jobs import Put
from keyplan.store.writing.rows import World

BULK = 5000
"""Rows per batch that go out without reading anything."""
TOGETHER = 200
"""Rows per batch that are upserted in one request, where the engine has no limit of its own."""

Row = dict[str, Any]
Key = tuple[Any, ...]


class Loading:
    """A load under way."""

    def __init__(self, core: Core, rows: Iterable[tuple[str, Mapping[str, Any]]], done: int | None, told: bool) -> None:
        """`told`: somebody hears how far it is, to go on from there if it is cut off; with `done`, this one does so."""
        goes_on = told or done is not None
        done = 0 if done is None else done
        self.core = core
        self.rows = iter(started(rows, done))
        new_id = core.writer.new_id
        self.keys = Keys(core.model, new_id, derived=goes_on and new_id is generate)
        self.done = done
        self.batch: list[tuple[str, Mapping[str, Any]]] = []
        self.together = TOGETHER
        self.ways: dict[str, Way] = {}
        self.missing: Missing = {}
        """Rows of the batch at hand that are known not to be there, of entities whose rows only a scan finds."""
        self.doubted: set[str] = set()
        """Entities some of whose rows were there already, so that it is asked before rows are taken to be new."""
        there = self.keys.passed(islice(self.rows, done))
        if there < done:
            raise ArgumentError(
                f"load: 'done' leaves out {done} rows, and there are only {there}; "
                "give the same rows, and the number that the interrupted load named"
            )

    def batches(self) -> Iterator[int]:
        """Takes the next batch; yields how many rows there will be when it is done."""
        while batch := list(islice(self.rows, BULK)):
            self.batch = batch
            self.keys.begin(batch)
            count = self.done + len(batch)
            yield count
            self.done = count

    def blame(self, error: Exception) -> None:
        """Raises the error of the batch at hand with the number of the row that it is about, if it is about one."""
        blame(self.core, self.keys, self.batch, self.done, error)

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
    fresh: FreshRows | None = None
    """Edits for rows that are taken to be new."""
    scanned: bool = False
    """Only a scan tells whether a row is there."""


def way_of(core: Core, entity: str) -> Way:
    """The way of an entity; of an unknown one, the way on which that is found out."""
    if entity not in core.model.entities:
        return Way()
    make = whole_rows(core.model, entity)
    if not is_bulk(core, entity):
        # Only where any number of edits can be done at once, and where a row that exists stands in the way of another.
        able = core.codec.atomic_edits is None and core.places.exact(entity) is not None
        able = able and not core.places.feeds[entity] and not core.places.kept[entity]
        able = able and not _copies_computed(core, entity)
        fresh = FreshRows(core.model, core.mutator, core.codec, entity) if able else None
        return Way(make=make, fresh=fresh, scanned=is_scanned(core, entity))
    places = core.places.of[entity]
    about = core.model.entities[entity]
    place = places[0]
    parts = place.key.parts
    plain = all(part.is_plain for part in parts) and {part.path for part in parts} == {*about.key}
    if len(places) > 1 or place.at or place.where is not None or not plain:
        return Way(True, make)
    return Way(True, make, core.codec.putter(place.view.name))


def _copies_computed(core: Core, entity: str) -> bool:
    """Whether a place of an entity copies what is computed, which is there even where a row is not."""
    paths = [path for place in core.places.of[entity] for path in place.copies]
    return any(core.model.column(entity, path).computed is not None for path in paths)


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


class Waiting:
    """The rows of a batch that are not written yet, by the way they will be."""

    def __init__(self, loading: Loading, now: datetime) -> None:
        self.loading = loading
        self.core = loading.core
        self.now = now
        self.whole: dict[str, list[Row]] = {}
        self.bulk: dict[tuple[str, Key], Put] = {}
        self.fresh: dict[str, dict[Key, Row]] = {}
        self.slow: dict[tuple[str, Key], Put] = {}
        self.copied = Copied(loading.core)

    def write_quick(self) -> Proc[None]:
        """Writes everything that waits for nothing but company."""
        yield from put_whole(self.loading, self.whole, self.now)
        self.whole.clear()
        if self.bulk:
            yield from put_all(self.core, list(self.bulk.values()), self.now)
            self.bulk.clear()
        size = self.core.codec.rows_at_once
        for entity, found in self.fresh.items():
            rows = list(found.values())
            for start in range(0, len(rows), size):
                yield from put_fresh(self.loading, entity, rows[start : start + size], self.now)
        self.fresh.clear()

    def write_slow(self) -> Proc[None]:
        if self.slow:
            yield from upsert_all(self.loading, list(self.slow.values()), self.now)
            self.slow.clear()
            self.copied.clear()

    def is_after_slow(self, entity: Entity, keys: Sequence[Key]) -> bool:
        """Whether slow rows have to be written before these: earlier versions of them, what copies from them, those
        that may have had the same unique values, and those that change their keys if they are wrong and put right."""
        ordered = entity.unique or self.loading.keys.are_chained(entity.name)
        if ordered and any(name == entity.name for name, _ in self.slow):
            return True
        name = entity.name
        return any((name, key) in self.slow or self.copied.has(name, key) for key in keys)

    def add_rows(self, entity: str, way: Way, rows: list[Row]) -> Proc[None]:
        """Adds rows that are complete but for the moment at which they expire."""
        about = self.core.model.entities[entity]
        if about.ttl is not None:
            for row in rows:
                row[EXPIRES] = expiry(about, row, self.now)
        key = key_of(about.key)
        if self.slow and self.is_after_slow(about, [key(row) for row in rows]):
            yield from self.write_slow()
        if way.put is not None:
            self.whole.setdefault(entity, []).extend(rows)
        elif way.is_bulk:
            for row in rows:
                job = _put(self.core, entity, row)
                if about.unique and (entity, job.key) in self.bulk:
                    yield from self.write_quick()
                self.bulk[entity, job.key] = job
        else:
            assert way.fresh is not None
            for row in rows:
                # Of two versions the later one stays, as if both had been written; unless the earlier one had a unique
                # value which a row between them has now.
                if about.unique and key(row) in self.fresh.get(entity, ()):
                    yield from self.write_quick()
                self.fresh.setdefault(entity, {})[key(row)] = row

    def add_job(self, job: Put) -> Proc[None]:
        """Adds a row that takes snapshots, or cannot be written in any quicker way."""
        place = (job.entity.name, job.key)
        if job.new.sources or job.key in self.fresh.get(job.entity.name, ()):
            yield from self.write_quick()
        if place in self.slow or len(self.slow) >= self.loading.together or _depends(job, self.slow):
            yield from self.write_slow()
        self.copied.note(job)
        self.slow[place] = job


def load_rows(loading: Loading) -> Proc[None]:
    """Writes the current batch, in the order given."""
    core = loading.core
    waiting = Waiting(loading, core.clock())
    scanned = {entity for entity in {entity for entity, _ in loading.batch} if loading.way(entity).scanned}
    loading.missing = yield from looked_for(core, loading.keys, loading.batch, loading.done, scanned, waiting.now)
    batch, number = loading.batch, loading.done
    if number == 0 and loading.keys.derived and any(loading.keys.left_out(*row) for row in batch):
        # All these keys depend on the first row of the load. Until it is written, it may be wrong, and put right.
        yield from write_rows(waiting, batch[:1], number)
        batch, number = batch[1:], 1
    yield from write_rows(waiting, batch, number)


def write_rows(waiting: Waiting, rows: Sequence[tuple[str, Mapping[str, Any]]], number: int) -> Proc[None]:
    """Writes rows, which come after so many others."""
    loading, core = waiting.loading, waiting.core
    for entity, run in groupby(rows, key=itemgetter(0)):
        way = loading.way(entity)
        given = [fields for _, fields in run]
        before, number = number, number + len(given)
        whole = way.make(given) if way.make is not None else None
        quick = way.is_bulk or way.fresh is not None
        if whole is not None and quick:
            yield from waiting.add_rows(entity, way, whole)
            continue
        for place, fields in enumerate(given, before + 1):
            job = job_of(core, loading.keys, place, (entity, fields), waiting.now)
            if quick and not job.new.sources:
                yield from waiting.add_rows(entity, way, [job.new.values])
            else:
                yield from waiting.add_job(job)
    yield from waiting.write_quick()
    yield from waiting.write_slow()


def _put(core: Core, entity: str, row: Row) -> Put:
    """The upsert of a row whose columns are known."""
    about = core.model.entities[entity]
    new = NewRow(entity, f"load: {entity}", row)
    return Put(core.model, about, new.label, new.key(about), new, True)


def _depends(job: Put, waiting: Mapping[Any, Put]) -> bool:
    """Whether a snapshot may come from a row that is not written yet, through more than one reference."""
    return any(len(path.roles) > 1 for path in job.new.sources.values()) and bool(waiting)


def is_bulk(core: Core, entity: str) -> bool:
    """Whether rows of an entity can be put without reading anything."""
    return core.mutator.is_blind_replacement(entity) and not any(place.copies for place in core.places.of[entity])


def put_whole(loading: Loading, whole: Mapping[str, Sequence[Row]], now: datetime) -> Proc[None]:
    """Puts rows that are nothing but one entry each."""
    for name, rows in whole.items():
        put = loading.way(name).put
        assert put is not None
        about = loading.core.model.entities[name]
        if about.unique and len(set(map(key_of(about.key), rows))) < len(rows):
            yield from _one_by_one(loading.core, name, rows, now)  # a value that is free in the end may be taken before
            continue
        for request in put(rows):
            (reply,) = yield [request]
            if isinstance(reply, ConflictError):  # a unique value: row by row says which, and spares expired owners
                yield from _one_by_one(loading.core, name, rows, now)
                break
            if isinstance(reply, Exception):
                raise reply


def _one_by_one(core: Core, entity: str, rows: Sequence[Row], now: datetime) -> Proc[None]:
    for row in rows:
        yield from put_one(core, _put(core, entity, row), now)


def put_fresh(loading: Loading, entity: str, rows: list[Row], now: datetime) -> Proc[None]:
    """Puts rows that are taken to be new; those that are not, and those in whose way something is, as upserts."""
    core = loading.core
    for _ in range(2):
        if entity in loading.doubted:
            key = key_of(core.model.entities[entity].key)
            known = yield from core.reader.by_key([(entity, key(row)) for row in rows], now)
            old = [row for row in rows if known[entity, key(row)] is not None]
            if core.model.entities[entity].unique and old:
                old = rows  # unique values go from row to row in the order of the load
            yield from upsert_all(loading, [_put(core, entity, row) for row in old], now)
            rows = [row for row in rows if known[entity, key(row)] is None] if old is not rows else []
        if not rows:
            return
        done = yield from _create(loading, entity, rows, now)
        if done:
            return
        loading.doubted.add(entity)
    yield from upsert_all(loading, [_put(core, entity, row) for row in rows], now)


def _create(loading: Loading, entity: str, rows: list[Row], now: datetime) -> Proc[bool]:
    """Writes rows together if they all are new; else nothing is written."""
    core, label = loading.core, f"load: {entity}"
    fresh = loading.way(entity).fresh
    assert fresh is not None
    world = World(core.model, core.reader, now)
    if fresh.clash(rows):
        return False
    following = yield from fresh.followers(rows, label, world)
    if following:
        return False
    request, unchecked = yield from fresh.request(rows, world)
    afterwards, seen = core.writer.afterwards, Batch([], [], {}, unchecked=unchecked)

    def then() -> Proc[None]:
        yield from afterwards.within(seen, now)
        yield from fresh.catch_up(rows, label, now, afterwards.within)

    if core.codec.goes_on and (fresh.watches or unchecked):
        request = core.codec.go_on(request, then, unchecked)
    (reply,) = yield [request]
    if isinstance(reply, ConflictError | RangeError | UncertainError):
        return False  # upserts find out what is there, may be done twice, and say which row is to blame
    if isinstance(reply, Exception):
        raise reply if str(reply).startswith(label) else type(reply)(f"{label}: {reply}")
    if not core.codec.goes_on:
        yield from fresh.catch_up(rows, label, now, afterwards.catch_up)
        yield from afterwards.notice(seen, now)
    return True


def put_all(core: Core, jobs: list[Put], now: Any) -> Proc[None]:
    """Puts rows in the engine's bulk form."""
    edits: list[Edit] = []
    for number, job in enumerate(jobs):
        core.writer.row_changes.complete(_NOTHING_READ, job.new, now)
        for place in core.places.of[job.entity.name]:
            for key in place.keys(job.new.values):
                edits.append(Edit(place.view.name, "put", key, place.at, place.entry(job.new.values), row=number))
    for request in core.codec.bulk(edits):
        (reply,) = yield [request]
        if isinstance(reply, ConflictError):  # a unique value: row by row says which, and spares expired owners
            for job in jobs:
                yield from put_one(core, job, now)
            return
        if isinstance(reply, KeyplanError):
            about = getattr(reply, "edit", None)
            if isinstance(about, int):
                job = jobs[edits[about].row]
                reply.place, reply.version = (job.entity.name, job.key), job.new.values
            raise reply


def upsert_all(loading: Loading, jobs: Sequence[Put], now: Any) -> Proc[None]:
    """Upserts rows together, fewer at once where the engine cannot do so many."""
    start = 0
    while start < len(jobs):
        some = jobs[start : start + loading.together]
        try:
            yield from loading.core.writer.commit(some, now, known=loading.missing)
        except UnsupportedError:
            if len(some) == 1:
                raise
            loading.together = max(1, len(some) // 2)
            continue
        except ConflictError:  # none of them was written; one by one says which it is
            for job in some:
                yield from put_one(loading.core, job, now)
        except KeyplanError as error:
            error.version = next((job.new.values for job in some if error.place == (job.entity.name, job.key)), None)
            raise
        for job in some:
            loading.missing.pop((job.entity.name, job.key), None)  # it is there now, for later versions of it
        start += len(some)


def put_one(core: Core, job: Put, now: Any) -> Proc[None]:
    """Puts one row, of which the error then is."""
    try:
        yield from core.writer.commit([job], now)
    except ConflictError as error:
        error.place, error.version = (job.entity.name, job.key), job.new.values
        raise


_NOTHING_READ: Any = None
"""Rows without snapshots need no world to be completed."""
