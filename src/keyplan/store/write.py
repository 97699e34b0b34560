"""Writes: from checked arguments to row changes, sent as one atomic request, worked out anew where others were faster.

There are no interactive transactions. What has to be known is read, the edits are sent with tests that it is still
so, and a refusal that comes from such a test means: read again, work out again, send again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from keyplan.engines.base import Codec, Pause, Proc
from keyplan.errors import ArgumentError, ConflictError, UncertainError, UnsupportedError
from keyplan.model.arguments import Binder, Part
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.new_row import NewId, NewRow, copy_in, expiry, generate, row_from_arguments
from keyplan.model.pattern import Select
from keyplan.model.shape import shape, shape_created
from keyplan.model.write import Write
from keyplan.plan.design import Design
from keyplan.plan.edits import Edit, Test
from keyplan.store.changes import Batch, RowChange, differing_columns, merged
from keyplan.store.copies import Copied
from keyplan.store.execute import ROOT, Executor, Runner
from keyplan.store.filter import Call, Filter, compile_filter
from keyplan.store.guards import expired_owners
from keyplan.store.intents import Intents
from keyplan.store.jobs import Change, Delete, Job, Put, Update, Written, key_values
from keyplan.store.mutate import Mutator
from keyplan.store.pump import gather
from keyplan.store.rows import Key, Row, RowReader, World

ATTEMPTS = 30
"""How often a write is worked out anew before it gives up on rows that others keep changing."""
UNCERTAIN_ATTEMPTS = 4
CATCH_UP_ATTEMPTS = 50
STRAYED_ATTEMPTS = 20
"""How often a write waits for an entry that somebody else has yet to move, which takes them a moment."""
ROWS_AT_ONCE = 25
"""Rows of a wide update or delete that are written in the same rounds."""


@dataclass
class Prepared:
    """A write whose arguments have been checked, ready to run."""

    write: Write
    label: str
    call: Call
    jobs: list[Job]
    new: NewRow | None = None


@dataclass
class _Compiled:
    binder: Binder | None
    where: Filter | None
    """The conditions besides the key, on own columns."""
    condition: Filter | None
    find: Runner | None


class Writer:
    """The writes of one design."""

    def __init__(
        self,
        model: Model,
        design: Design,
        executor: Executor,
        codec: Codec,
        mutator: Mutator,
        reader: RowReader,
        new_id: NewId = generate,
    ) -> None:
        self.model = model
        self.design = design
        self.executor = executor
        self.codec = codec
        self.mutator = mutator
        self.reader = reader
        self.new_id = new_id
        self.intents = Intents(model, mutator, codec)
        self.compiled = {name: self.compile(write) for name, write in model.writes.items()}

    def compile(self, write: Write) -> _Compiled:
        entity = self.model.entities[write.entity]
        binder = None if write.kind in ("create", "upsert") else Binder(self.model, write)
        extra = [
            condition
            for condition in write.where
            if not condition.path.roles
            and entity.columns[condition.path.column].computed is None
            and not (write.by_key and condition.op == "=" and condition.path.column in entity.key)
        ]
        plan = self.design.writes.get(write.name)
        wide = any(
            condition.path.roles or entity.columns[condition.path.column].computed is not None
            for condition in write.where
        )
        find = None
        if write.kind in ("update", "delete") and (wide or not write.by_key) and plan is not None and plan.find:
            find = self.executor.compile(plan.find)
        return _Compiled(
            binder,
            compile_filter(self.model, write.entity, extra),
            compile_filter(self.model, write.entity, write.condition),
            find,
        )

    # Preparing: arguments are checked before anything is read

    def prepare(
        self, write: Write, label: str, arguments: Mapping[str, Any], now: datetime, written: set[tuple[str, Key]]
    ) -> Prepared:
        """Checks the arguments of one write; `written` holds the rows that the same call writes already."""
        compiled = self.compiled[write.name]
        entity = self.model.entities[write.entity]
        if compiled.binder is None:
            new = row_from_arguments(
                self.model, label, write.entity, arguments, now=now, children=write.children, new_id=self.new_id
            )
            jobs = self.puts(new, write.kind == "upsert")
            for job in jobs:
                note(job, written)
            return Prepared(write, label, Call({}, now), jobs, new)
        call = Call(compiled.binder(arguments, label), now)
        if not write.by_key:
            return Prepared(write, label, call, [])
        job = self.job(write, label, call, key_values(entity, write, call.args, now))
        note(job, written)
        return Prepared(write, label, call, [job])

    def puts(self, new: NewRow, replace: bool) -> list[Job]:
        """The jobs of a new row and its children."""
        entity = self.model.entities[new.entity]
        jobs: list[Job] = [Put(self.model, entity, new.label, new.key(entity), new, replace)]
        for name, rows in new.children.items():
            role = entity.roles[name]
            # A key that has a generated one in it is as new as that.
            named_after = new.is_new and set(role.columns) <= set(self.model.entities[role.entity].key)
            for child in rows:
                child.is_new = child.is_new or named_after
                jobs += self.puts(child, replace)
        return jobs

    def job(self, write: Write, label: str, call: Call, key: Key) -> Job:
        compiled = self.compiled[write.name]
        entity = self.model.entities[write.entity]
        make: type[Written] = {"update": Update, "delete": Delete, "change": Change}[write.kind]
        return make(self.model, entity, label, key, write, call, compiled.where, compiled.condition)

    # Running

    def run(self, prepared: Prepared) -> Proc[Any]:
        """Does one write and returns its answer."""
        if not prepared.write.by_key:
            return (yield from self.run_wide(prepared))
        answers = yield from self.run_all([prepared])
        return answers[0]

    def run_all(self, prepared: Sequence[Prepared]) -> Proc[list[Any]]:
        """Does several writes together, or none of them."""
        jobs = [job for one in prepared for job in one.jobs]
        for one in prepared:
            if self.compiled[one.write.name].find is not None:
                yield from self.located(one)
        rows = yield from self.commit(jobs, prepared[0].call.now, prepared[0].call.trace)
        return [self.answer(one, rows) for one in prepared]

    def located(self, prepared: Prepared) -> Proc[None]:
        """A write by key with conditions on other rows: whether they hold is found out by its plan."""
        find = self.compiled[prepared.write.name].find
        assert find is not None
        prepared.call.strong = True
        (rows,) = yield from find.many(prepared.call, ROOT)
        if not rows:
            if prepared.write.condition:
                raise ConflictError(f"{prepared.label}: there is no such {prepared.write.entity}")
            prepared.jobs.clear()

    def answer(self, prepared: Prepared, rows: Mapping[tuple[str, Key], Row | None]) -> Any:
        """What a write returns."""
        write = prepared.write
        if not write.returns:
            return shape_created(self.model, prepared.new) if prepared.new is not None else None
        if not prepared.jobs:
            return None
        job = prepared.jobs[0]
        row = rows.get((job.entity.name, job.key))
        return None if row is None else shape(self.model, write.entity, Select(write.returns), row)

    def run_wide(self, prepared: Prepared) -> Proc[int]:
        """Every row that a `where` finds, each on its own."""
        write, call = prepared.write, prepared.call
        find = self.compiled[write.name].find
        if find is None:
            raise UnsupportedError(f"{prepared.label}: the design does not say how to find its rows")
        entity = self.model.entities[write.entity]
        call.strong = True
        (rows,) = yield from find.many(call, ROOT)
        found = {tuple(row[column] for column in entity.key): row for row in rows}
        keys = list(found)
        # What the search has read is the whole row, unless the home holds more than that.
        whole = not self.mutator.places.carried(entity.name) and set(entity.stored) <= set(find.provides)
        known = {(entity.name, key): {c: row[c] for c in entity.stored} for key, row in found.items()} if whole else {}
        if write.condition and not keys:
            raise ConflictError(f"{prepared.label}: there is no such {entity.name}")
        count = 0
        for start in range(0, len(keys), ROWS_AT_ONCE):
            procs = [
                self.commit([self.job(write, prepared.label, call, key)], call.now, call.trace, known)
                for key in keys[start : start + ROWS_AT_ONCE]
            ]
            done = yield from gather(procs)
            count += sum(1 for rows_done in done if rows_done)
        return count

    def commit(
        self,
        jobs: Sequence[Job],
        now: datetime,
        trace: list[dict[str, Any]] | None = None,
        known: Mapping[tuple[str, Key], Row | None] = MappingProxyType({}),
    ) -> Proc[dict[tuple[str, Key], Row | None]]:
        """Does the jobs in one atomic request; returns the rows that were written, as they are returned.

        Rows that are `known` are read again only if the engine refuses what follows from them.
        """
        reading = lost = False
        noted_as = ""
        last: list[Any] | None = None
        cleared: list[RowChange] = []
        strayed = 0
        attempt = -1
        while attempt < ATTEMPTS - 1:
            attempt += 1
            try:
                changes, seen = yield from self.changes(jobs, now, reading, known if attempt == 0 else {})
            except ConflictError as error:
                if not lost:
                    raise
                raise UncertainError(f"{error}; the reply to this write was lost, it may have done so") from None
            if not changes:
                return {}
            batch = yield from self.mutator.batch([*cleared, *changes], now, seen=seen)
            if not batch.edits:
                if lost:  # it was done, and what follows it may not be
                    yield from self.intents.finish_all(now)
                return {(change.entity, change.key): change.new or change.old for change in changes}
            pending: list[RowChange] = []
            copied: Copied | None = None
            if self.is_unknown(batch):
                reading, attempt = True, attempt - 1
                continue
            intents, late = self.intents.announced(batch)
            if self.is_too_much(batch, intents):
                if all(change.new is None for change in batch.changes if not change.follows):
                    finished = yield from self.delete_some(batch, now)
                    if finished:
                        attempt -= 1  # progress, not a failure
                        continue
                unchecked = self.intents.copies.unchecked(batch, len(intents), jobs[0].label, noted_as)
                if unchecked is not None:
                    batch, noted, copied = unchecked
                    intents, noted_as = [*intents, noted], copied.name
                else:
                    batch, intents, pending = yield from self.intents.split(batch, now, jobs[0].label)
            edits = [*batch.edits, *intents]
            if len(edits) > 1 and not self.codec.returns_together:
                edits = [*self.told(batch, jobs), *intents]
            if strayed >= STRAYED_ATTEMPTS:
                edits[: len(batch.edits)] = [self.wherever(batch, edit) for edit in edits[: len(batch.edits)]]
            request = self.codec.write(edits)
            (reply,) = yield [request]
            if trace is not None:
                views = ", ".join(dict.fromkeys(edit.view for edit in batch.edits))
                trace.append({"op": "write", "view": views, "requests": 1, "rows": len(batch.edits)})
            if not isinstance(reply, Exception):
                rows = self.outcome(batch, self.codec.wrote(request, reply))
                for change in pending:
                    yield from self.intents.finish(change, now)
                done = {(change.entity, change.key) for change in batch.changes}
                for change in late if not pending else ():
                    yield from self.intents.finish(change, now, done)
                if not pending:
                    yield from self.catch_up(batch, now, late)
                if copied is not None:
                    yield from self.intents.copies.confirm(copied, now)
                yield from self.look_again(batch, now)
                return rows
            if isinstance(reply, UncertainError):
                if attempt >= UNCERTAIN_ATTEMPTS or not all(job.repeatable for job in jobs):
                    raise reply
                lost = True
                yield Pause(0.05 * (1 + random.random()) * 2**attempt)
                continue
            if not isinstance(reply, ConflictError):
                raise named(reply, batch)
            number = getattr(reply, "edit", 0)
            if number >= len(batch.edits) and intents:
                yield from self.intents.finish_all(now)
                continue
            change = batch.changes[batch.edits[number].row] if number < len(batch.edits) else batch.changes[0]
            if lost and change.old is None:
                if change.is_new:
                    yield from self.intents.finish_all(now)
                    return {(one.entity, one.key): one.new for one in changes}
                raise UncertainError(
                    f"{change.label}: the reply was lost, and the row is there now; it may or may not be this one"
                )
            state = [(one.entity, one.key, one.old) for one in batch.changes]
            # A subset is refused because of siblings of the row that is written, which stays as it was.
            contended = number < len(batch.edits) and self.mutator.subsets.has(batch.edits[number])
            if number < len(batch.edits) and self.may_stray(batch, batch.edits[number]):
                yield from self.intents.finish_all(now)
                contended = True
                strayed += 1
            if not contended and (self.is_final(batch, number, jobs) or state == last):
                more = yield from expired_owners(self, batch, now)
                if not more:
                    raise self.refusal(batch, number, reply)
                cleared = more
            last = state if reading and not contended else None
            if reading:
                yield Pause(random.random() * min(0.2, 0.002 * 2**attempt))
            reading = True
        raise ConflictError(f"{jobs[0].label}: others keep changing the same rows; try again")

    def may_stray(self, batch: Batch, edit: Edit) -> bool:
        """Whether an edit takes away an entry that may have to be moved there first, by somebody else."""
        places = self.mutator.places.of[batch.changes[edit.row].entity]
        return edit.do == "delete" and any(
            (place.view.name, place.at) == (edit.view, edit.at) and self.mutator.is_elsewhere(place) for place in places
        )

    def wherever(self, batch: Batch, edit: Edit) -> Edit:
        """The edit without that condition: whoever was to move the entry seems to be gone. `verify` finds it."""
        return replace(edit, expect="any", tests=()) if self.may_stray(batch, edit) else edit

    def is_unknown(self, batch: Batch) -> bool:
        """Whether a row is to be returned that neither was read nor can be returned by the engine."""
        return (
            not self.codec.returns_together
            and len(batch.edits) > 1
            and any(change.returning and change.blind for change in batch.changes)
        )

    def told(self, batch: Batch, jobs: Sequence[Job]) -> list[Edit]:
        """The edits, such that what is returned is known here: the old values it comes from are tested by the write."""
        edits = list(batch.edits)
        returns = {
            (job.entity.name, job.key): set(job.write.returns)
            for job in jobs
            if isinstance(job, Written) and job.returning
        }
        for number, place in batch.homes.items():
            change, edit = batch.changes[number], edits[place]
            if edit.do == "put" or change.old is None:
                continue
            home = self.mutator.places.home(change.entity)
            tested = {test.path for test in edit.tests if test.op == "="}
            wanted = returns.get((change.entity, change.key), set()) - set(self.model.entities[change.entity].key)
            more = [
                Test(column, "=", change.old[column])
                for column in sorted(wanted - tested)
                if column in home.holds and column in change.old
            ]
            edits[place] = replace(edit, tests=(*edit.tests, *more), returning=False)
        return edits

    def is_final(self, batch: Batch, number: int, jobs: Sequence[Job]) -> bool:
        """Whether a refusal is the write's own fault, so that trying again cannot help."""
        edit = batch.edits[number]
        change = batch.changes[edit.row]
        if edit.do != "put" or change.follows:
            return False
        if self.is_guard(edit, change):
            return True
        return any(
            isinstance(job, Put) and not job.replace and (job.entity.name, job.key) == (change.entity, change.key)
            for job in jobs
        )

    def is_guard(self, edit: Edit, change: RowChange) -> bool:
        """Whether an edit takes a unique value, other than the row's own key."""
        view = self.design.views[edit.view]
        exact = self.mutator.places.exact(change.entity)
        return view.unique and not (exact is not None and exact.view is view)

    def refusal(self, batch: Batch, number: int, reply: ConflictError) -> ConflictError:
        edit = batch.edits[number]
        change = batch.changes[edit.row]
        if self.is_guard(edit, change):
            listed = ", ".join(f"'{part.path}'" for part in self.design.views[edit.view].parts)
            return ConflictError(f"{change.label}: another {change.entity} has the same {listed}")
        ours = any(view.unique and view.base and view.entity == change.entity for view in self.design.views.values())
        if edit.expect == "absent" and not ours:
            named_key = ", ".join(str(part) for part in change.key)
            return ConflictError(f"{change.label}: {change.entity} '{named_key}' exists already")
        return ConflictError(f"{change.label}: {reply}")  # the engine knows which of its indexes refused

    def is_too_much(self, batch: Batch, intents: Sequence[Edit]) -> bool:
        """Whether the engine cannot do so many edits at once."""
        most = self.codec.atomic_edits
        return most is not None and len(batch.edits) + len(intents) > most

    def delete_some(self, batch: Batch, now: datetime) -> Proc[bool]:
        """Deletes some of the children of a large cascade, the deepest first; False if there is nothing to split.

        The row itself goes last, so that a cascade that was cut off can be done again.
        """
        most = self.codec.atomic_edits
        assert most is not None
        below = [change for change in batch.changes if not change.follows and not change.derived][1:]
        size = min(len(below), most // 2)
        while size:
            part = yield from self.mutator.batch(below[-size:], now)
            if len(part.edits) <= most:
                (reply,) = yield [self.codec.write(part.edits)]
                if isinstance(reply, Exception) and not isinstance(reply, ConflictError):
                    raise named(reply, part)
                yield from self.look_again(part, now)
                return True
            size //= 2
        return False

    def outcome(self, batch: Batch, entries: Sequence[Row | None]) -> dict[tuple[str, Key], Row | None]:
        rows: dict[tuple[str, Key], Row | None] = {}
        for number, change in enumerate(batch.changes):
            if change.follows:
                continue
            row = change.new if change.new is not None else change.old
            if number in batch.homes:
                row = entries[batch.homes[number]] or row
            rows[change.entity, change.key] = row
        return rows

    def catch_up(self, batch: Batch, now: datetime, others: Sequence[RowChange] = ()) -> Proc[None]:
        """Rows that began to copy from a changed row while it was being changed are brought up to date.

        All but those of `others`, which an intent was recorded for.
        """
        done = {(change.entity, change.key) for change in batch.changes}
        watched = [
            change
            for change in batch.changes
            if not change.follows
            and not change.derived
            and not change.blind
            and not change.is_new
            and not any(change is other for other in others)
            and any(watch.columns & differing_columns(change) for watch in self.mutator.places.watches[change.entity])
        ]
        if not watched:
            return
        for attempt in range(CATCH_UP_ATTEMPTS):
            if attempt:  # at first nobody else is thought to be at work, and the checks below say if somebody is
                watched = yield from self.still_ours(watched, now)
            world = World(self.model, self.reader, now)
            for change in watched:
                world.changed[change.entity, change.key] = (change.old, change.new)
            found = yield from self.mutator.followers(world, watched)
            late = [replace(change, late=True) for change in found if (change.entity, change.key) not in done]
            if not late:
                return
            again = yield from self.mutator.batch(late, now, watched)
            if not again.edits:
                return
            unchanged = [self.intents.unchanged(change) for change in watched]
            (reply,) = yield [self.codec.write(merged([*again.edits, *unchanged], self.mutator.extreme_names))]
            if not isinstance(reply, Exception):
                return
            if not isinstance(reply, ConflictError):
                raise reply
            yield Pause(random.random() * 0.02)

    def look_again(self, batch: Batch, now: datetime) -> Proc[None]:
        """Computed values that were found by reading rows: one may have come or gone while that was done."""
        for kept, key in batch.doubtful:
            for _ in range(CATCH_UP_ATTEMPTS):
                change = yield from self.mutator.computed.again(kept, key, now, batch.changes[0].label)
                if change is None:
                    break
                again = yield from self.mutator.batch([change], now)
                (reply,) = yield [self.codec.write(again.edits)]
                if isinstance(reply, Exception) and not isinstance(reply, ConflictError):
                    raise reply
                yield Pause(random.random() * 0.02)

    def still_ours(self, changes: Sequence[RowChange], now: datetime) -> Proc[list[RowChange]]:
        """The changes whose values still stand; whoever has changed a row since brings up to date what copies it.

        Where a row came or went, that is not enough if it is there by now: those that came to copy it meanwhile are not
        among those that were noted to point at nothing, or still are, and nobody else knows.
        """
        rows = yield from self.reader.by_key([(change.entity, change.key) for change in changes], now)
        result = []
        for change in changes:
            row = rows[change.entity, change.key]
            if row is not None and (change.old is None or change.new is None):
                result.append(replace(change, new=row))
                continue
            columns = differing_columns(change) if change.new is not None else ()
            if (row is None) == (change.new is None) and all(
                row is not None and change.new is not None and row.get(column) == change.new.get(column)
                for column in columns
            ):
                result.append(change)
        return result

    # Reading what jobs need

    def changes(
        self, jobs: Sequence[Job], now: datetime, reading: bool, known: Mapping[tuple[str, Key], Row | None]
    ) -> Proc[tuple[list[RowChange], Mapping[tuple[str, Key], Row | None]]]:
        """The row changes of the jobs, from old rows read now where they are needed, and other rows that were read."""
        # A row that later ones of this write take a snapshot of has to be known whole.
        copying = max((n for n, job in enumerate(jobs) if isinstance(job, Put) and job.new.sources), default=-1)
        blind = {
            n: change
            for n, job in enumerate(jobs)
            if not reading and (n > copying or isinstance(job, Put)) and (change := job.blind(self.mutator))
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
                self.complete(world, job.new, now)
            elif isinstance(job, Change) and job.fresh is not None:
                self.complete(world, job.fresh, now)
            change = blind.get(number) or job.change(old.get((job.entity.name, job.key)))
            if change is not None:
                found.append(change)
                world.changed[change.entity, change.key] = (change.old, change.new)
                if isinstance(job, Delete) and job.write.children and not job.cascade:
                    roles = [job.entity.roles[name] for name in job.write.children]
                    change.covered = frozenset((role.entity, role.field) for role in roles)
                    found += yield from self.cascade(job, found, now)
        return found, world.seen

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


def note(job: Job, written: set[tuple[str, Key]]) -> None:
    """Refuses a row that the same call writes already."""
    place = (job.entity.name, job.key)
    if place in written:
        raise ArgumentError(f"{job.label}: {job.name} is written twice in one call; leave one out")
    written.add(place)


def named(error: Exception, batch: Batch) -> Exception:
    """An engine's error with the name of the write in front."""
    label = batch.changes[0].label
    if str(error).startswith(label):
        return error
    return type(error)(f"{label}: {error}")


def prepare_parts(writer: Writer, parts: Sequence[Part], now: datetime) -> list[Prepared]:
    """The writes of one call of a transaction."""
    written: set[tuple[str, Key]] = set()
    return [writer.prepare(part.write, part.label, part.arguments, now, written) for part in parts]
