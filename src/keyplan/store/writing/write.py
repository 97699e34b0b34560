"""Writes: from checked arguments to row changes, sent as one atomic request, worked out anew where others were faster.

There are no interactive transactions. What has to be known is read, the edits are sent with tests that it is still
so, and a refusal that comes from such a test means: read again, work out again, send again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from keyplan.engines.base import Codec, Pause, Proc
from keyplan.errors import ArgumentError, ConflictError, KeyplanError, UncertainError, UnsupportedError
from keyplan.model.arguments import Binder, Part
from keyplan.model.model import Model
from keyplan.model.new_row import NewId, NewRow, generate, row_from_arguments
from keyplan.model.pattern import Select
from keyplan.model.shape import shape, shape_created
from keyplan.model.write import Write
from keyplan.plan.design import Design
from keyplan.plan.edits import Edit, Test
from keyplan.store.pump import Tally, gather
from keyplan.store.reading.execute import ROOT, Executor, Runner
from keyplan.store.reading.filter import Call, Filter, compile_filter
from keyplan.store.writing.afterwards import Afterwards
from keyplan.store.writing.changes import Batch, ChangedMeanwhileError, RowChange
from keyplan.store.writing.guards import expired_owners, may_have_gone
from keyplan.store.writing.intents import Intents, Lightened
from keyplan.store.writing.jobs import Change, Delete, Job, Put, Update, Written, key_values
from keyplan.store.writing.mutate import Mutator
from keyplan.store.writing.row_changes import Reading, RowChanges
from keyplan.store.writing.rows import Key, Row, RowReader

ATTEMPTS = 30
"""How often a write is worked out anew before it gives up on rows that others keep changing."""
UNCERTAIN_ATTEMPTS = 4
WAITS = 20
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
        self.row_changes = RowChanges(model, mutator, reader)
        self.afterwards = Afterwards(model, codec, mutator, reader, self.intents)
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
                raise ConflictError(f"{prepared.label}: there is no such {prepared.write.entity}; check its key")
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
            raise ConflictError(f"{prepared.label}: there is no such {entity.name}; check what it is asked by")
        count = 0
        at_once = ROWS_AT_ONCE if not self.mutator.groups.meet(entity.name) else 1
        for start in range(0, len(keys), at_once):
            procs = [
                self.commit([self.job(write, prepared.label, call, key)], call.now, call.trace, known)
                for key in keys[start : start + at_once]
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
        reading: Reading = "needed"
        lost = False
        noted_as = ""
        last: list[Any] | None = None
        cleared: list[RowChange] = []
        repeated = False
        waited = 0
        attempt = -1
        while attempt < ATTEMPTS - 1:
            attempt += 1
            try:
                changes, seen = yield from self.row_changes.changes(jobs, now, reading, known if attempt == 0 else {})
            except ConflictError as error:
                if not lost:
                    raise
                yield from self.intents.finish_all(now)
                if all(isinstance(job, Put) and job.new.is_new for job in jobs):  # nobody else has such keys
                    return {(job.entity.name, job.key): job.new.values for job in jobs if isinstance(job, Put)}
                raise UncertainError(f"{error}; the reply to this write was lost, it may have done so") from None
            if not changes:
                if lost:  # as below: it was done
                    yield from self.intents.finish_all(now)
                return {}
            try:
                batch = yield from self.mutator.batch([*cleared, *changes], now, seen=seen)
            except ChangedMeanwhileError:
                if attempt == ATTEMPTS - 1:
                    raise
                reading = "all"
                yield Pause(random.random() * min(0.2, 0.002 * 2**attempt))
                continue
            if not batch.edits:
                if lost:  # it was done, and what follows it may not be
                    yield from self.intents.finish_all(now)
                return {(change.entity, change.key): change.new or change.old for change in changes}
            light: Lightened | None = None
            if self.is_unknown(batch):
                reading, attempt = "returned", attempt - 1
                continue
            intents, late = self.intents.announced(batch)
            others = len(intents) + self.held(batch)
            too_much = not self.intents.fits(batch, others)
            if too_much:
                if all(change.new is None for change in batch.changes if not (change.follows or change.derived)):
                    gone = yield from self.delete_some(batch, now, wait=waited < WAITS)
                    if gone == "some":
                        attempt -= 1  # progress, not a failure
                        continue
                    if gone == "refused":  # others have changed some of them, or have yet to move an entry
                        yield from self.intents.finish_all(now)
                        yield Pause(random.random() * min(0.2, 0.002 * 2**attempt))
                        waited += 1
                        continue
                light = self.intents.lightened(batch, others, jobs[0].label, noted_as)
                if light is not None:
                    batch, intents = light.batch, [*intents, *light.intents]
                    noted_as = light.copied.name if light.copied is not None else noted_as
            try:
                if too_much and light is None:
                    light = yield from self.intents.split(batch, now, jobs[0].label)
                    batch, intents = light.batch, light.intents
                else:
                    intents = [*intents, *(yield from self.intents.ghosts.hold(batch, now))]
            except ChangedMeanwhileError:
                if attempt == ATTEMPTS - 1:
                    raise
                reading = "all"
                yield Pause(random.random() * min(0.2, 0.002 * 2**attempt))
                continue
            edits = [*batch.edits, *intents]
            if len(edits) > 1 and not self.codec.returns_together:
                edits = [*self.told(batch, jobs), *intents]
            if waited >= WAITS:
                edits[: len(batch.edits)] = self.without_waiting(batch, edits[: len(batch.edits)])
            inside = Tally()
            request = self.afterwards.along(self.codec.write(edits), batch, now, inside)
            (reply,) = yield [request]
            if trace is not None:
                trace.append(traced(batch, inside))
            if not isinstance(reply, Exception):
                rows = self.outcome(batch, self.codec.wrote(request, reply))
                pending = light.pending if light is not None else ()
                for change in pending:
                    yield from self.intents.finish(change, now)
                for change in late if not pending else ():
                    yield from self.intents.finish(change, now, batch.changes)
                is_late = not self.codec.goes_on
                if not pending and is_late:
                    yield from self.afterwards.catch_up(batch, now, late)
                if light is not None:
                    yield from self.intents.make_up(light, now)
                if is_late:
                    yield from self.afterwards.look_again(batch, now)
                    yield from self.afterwards.notice(batch, now)
                if lost:  # what an attempt whose reply was lost may have left
                    yield from self.intents.finish_all(now)
                return rows
            if isinstance(reply, UncertainError):
                if attempt >= UNCERTAIN_ATTEMPTS or not all(job.repeatable for job in jobs):
                    raise reply
                yield from self.intents.ghosts.release(intents)
                lost = True
                if any(self.mutator.places.exact(job.entity.name) is None for job in jobs):
                    reading = "all"  # nothing refuses a row that is there already
                yield Pause(0.05 * (1 + random.random()) * 2**attempt)
                continue
            if not isinstance(reply, ConflictError):
                raise named(reply, batch)
            yield from self.intents.ghosts.release(intents)
            if isinstance(reply, ChangedMeanwhileError):  # what it had still to do could not be done
                reading = "all"
                yield Pause(random.random() * min(0.2, 0.002 * 2**attempt))
                continue
            number = getattr(reply, "edit", 0)
            if number >= len(batch.edits) and intents:
                yield from self.intents.finish_all(now)
                continue
            change = batch.changes[batch.edits[number].row] if number < len(batch.edits) else batch.changes[0]
            in_group = number < len(batch.edits) and self.mutator.groups.has(batch.edits[number])
            if lost and change.old is None and not in_group:
                yield from self.intents.finish_all(now)
                if change.is_new:
                    return {(one.entity, one.key): one.new for one in changes}
                raise UncertainError(
                    f"{change.label}: the reply was lost, and the row is there now; it may or may not be this one"
                )
            state = [(one.entity, one.key, one.old) for one in batch.changes]
            # A subset, or a value that is computed of siblings, is refused because of these, though the row that is
            # written, and even that value, may be as before: one came, and one went.
            edit = batch.edits[number] if number < len(batch.edits) else None
            contended = edit is not None and (
                in_group or bool(change.derived and edit.tests) or self.mutator.subsets.has(edit)
            )
            if number < len(batch.edits) and self.takes_what_lags(batch, batch.edits[number]):
                yield from self.intents.finish_all(now)
                contended = True
                waited += 1
            if not contended and (self.is_final(batch, number, jobs) or state == last):
                more = yield from expired_owners(self, batch, now)
                if not more and (repeated or not may_have_gone(self, batch)):
                    raise self.refusal(batch, number, reply)
                repeated = not more
                cleared = more
            last = state if reading == "all" and not contended else None
            if reading != "needed":
                yield Pause(random.random() * min(0.2, 0.002 * 2**attempt))
            reading = "all"
        raise ConflictError(f"{jobs[0].label}: others keep changing the same rows; try again")

    def takes_what_lags(self, batch: Batch, edit: Edit) -> bool:
        """Whether an edit takes away an entry that somebody else may have to move there first."""
        places = self.mutator.places.of[batch.changes[edit.row].entity]
        return edit.do == "delete" and any(
            (place.view.name, place.at) == (edit.view, edit.at) and place.lags for place in places
        )

    def without_waiting(self, batch: Batch, edits: Sequence[Edit]) -> list[Edit]:
        """The edits for entries that nobody seems to move any more: they need not be there. `verify` finds them."""
        return [replace(edit, expect="any", tests=()) if self.takes_what_lags(batch, edit) else edit for edit in edits]

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
            return ConflictError(f"{change.label}: another {change.entity} has the same {listed}; give another value")
        ours = any(view.unique and view.base and view.entity == change.entity for view in self.design.views.values())
        if edit.expect == "absent" and not ours:
            named_key = ", ".join(str(part) for part in change.key)
            return ConflictError(f"{_before(change)}{change.entity} '{named_key}' exists already; give another key")
        return ConflictError(f"{_before(change)}{reply}")  # the engine knows which of its indexes refused

    def held(self, batch: Batch) -> int:
        """How many edits go along with those of a batch to let ghosts go."""
        return 0 if self.codec.goes_on else len(batch.ghosts)

    def delete_some(self, batch: Batch, now: datetime, *, wait: bool) -> Proc[str]:
        """Deletes the children of a large cascade, the deepest first, as far as they are as they were read: some are
        gone, or that was refused, or there is none that can be deleted on its own.

        The row itself goes last, so that a cascade that was cut off can be done again.
        """
        most = self.codec.atomic_edits
        assert most is not None
        below = [change for change in batch.changes if not change.follows and not change.derived][1:]
        size, gone = most // 2, "none"
        while below and size:
            part = yield from self.mutator.batch(below[-size:], now)
            checks = self.intents.not_lagging(part, ())
            if not self.intents.fits(part, len(checks) + self.held(part)):
                size //= 2
                continue
            edits = [*(part.edits if wait else self.without_waiting(part, part.edits)), *checks]
            try:
                held = yield from self.intents.ghosts.hold(part, now)
            except ChangedMeanwhileError:
                return "some" if gone == "some" else "refused"
            reply = yield from self.intents.ghosts.send(edits, held)
            if isinstance(reply, ConflictError):
                return "some" if gone == "some" else "refused"
            if isinstance(reply, Exception):
                raise named(reply, part)
            yield from self.afterwards.catch_up(part, now, [change for change in part.changes if not change.derived])
            yield from self.afterwards.look_again(part, now)
            gone = "some"
            del below[-size:]
        return gone

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


def note(job: Job, written: set[tuple[str, Key]]) -> None:
    """Refuses a row that the same call writes already."""
    place = (job.entity.name, job.key)
    if place in written:
        raise ArgumentError(f"{job.label}: {job.name} is written twice in one call; leave one out")
    written.add(place)


def traced(batch: Batch, inside: Tally) -> dict[str, Any]:
    """A write as a step of what a call did."""
    views = ", ".join(dict.fromkeys(edit.view for edit in batch.edits))
    step: dict[str, Any] = {"op": "write", "view": views, "requests": 1 + inside.requests, "rows": len(batch.edits)}
    return step | {"inside": inside.rounds} if inside.rounds else step


def named(error: Exception, batch: Batch) -> Exception:
    """An engine's error with the name of the write in front: that of the edit which it is about, if it says so."""
    number = getattr(error, "edit", None)
    about = isinstance(number, int) and number < len(batch.edits)
    change = batch.changes[batch.edits[number].row if isinstance(number, int) and about else 0]
    if str(error).startswith(change.label):
        return error
    made = type(error)(f"{_before(change) if about else f'{change.label}: '}{error}")
    if about and isinstance(made, KeyplanError):
        made.place = (change.entity, change.key)
    return made


def prepare_parts(writer: Writer, parts: Sequence[Part], now: datetime) -> list[Prepared]:
    """The writes of one call of a transaction."""
    written: set[tuple[str, Key]] = set()
    return [writer.prepare(part.write, part.label, part.arguments, now, written) for part in parts]


def _before(change: RowChange) -> str:
    """The label of a change, before a message that begins with its row: a load need not name the entity twice."""
    return f"{change.label}: ".removesuffix(f"{change.entity}: ")
