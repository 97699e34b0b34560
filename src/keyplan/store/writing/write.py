"""Writes: from checked arguments to row changes, sent as one atomic request, worked out anew where others were faster.

There are no interactive transactions. What has to be known is read, the edits are sent with tests that it is still
so, and a refusal that comes from such a test means: read again, work out again, send again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from keyplan.engines.codec import Codec
from keyplan.engines.rounds import Proc
from keyplan.errors import ArgumentError, ConflictError, KeyplanError, Refusal, UnsupportedError, some_refused
from keyplan.model.arguments import Binder, Part
from keyplan.model.entity import Entity
from keyplan.model.model import Model
from keyplan.model.new_row import NewId, NewRow, RowMaker, generate, row_maker
from keyplan.model.pattern import Condition, Select
from keyplan.model.predicate import operand_value
from keyplan.model.shape import shape, shape_created
from keyplan.model.write import Write, has_to_be_found, is_told_by_others, written_along, written_entities
from keyplan.plan.design import Design
from keyplan.store.pump import gather
from keyplan.store.reading.execute import ROOT, Executor, Runner
from keyplan.store.reading.filter import Call, Filter, compile_filter
from keyplan.store.writing.afterwards import Afterwards
from keyplan.store.writing.cascades import Cascades
from keyplan.store.writing.commit import Commit
from keyplan.store.writing.doubt import stopped
from keyplan.store.writing.intents import Intents
from keyplan.store.writing.jobs import Change, Delete, Job, Put, Update, Written, fixing, key_values
from keyplan.store.writing.mutate import Mutator
from keyplan.store.writing.refusals import Refusals
from keyplan.store.writing.returned import Returned, Rows
from keyplan.store.writing.row_changes import RowChanges
from keyplan.store.writing.rows import Key, Row, RowReader

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
    maker: RowMaker | None
    """Of a create or upsert."""
    binder: Binder | None
    """Of the others."""
    own: tuple[Condition, ...]
    """The conditions besides the key that the row itself tells about."""
    where: Filter | None
    condition: Filter | None
    find: Runner | None
    """What finds the rows, where their key does not say which are meant."""


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
        self.cascades = Cascades(self)
        self.refusals = Refusals(self)
        self.returned = Returned(self)
        self.compiled = {name: self.compile(write) for name, write in model.writes.items()}

    def compile(self, write: Write) -> _Compiled:
        entity = self.model.entities[write.entity]
        maker = row_maker(self.model, write.entity, write.children) if write.kind in ("create", "upsert") else None
        binder = Binder(self.model, write) if maker is None else None
        fixed = fixing(entity, write).values()
        own = tuple(one for one in write.where if self.tells(write, one) and not any(one is other for other in fixed))
        plan = self.design.writes.get(write.name)
        find = None
        if has_to_be_found(entity, write) and plan is not None and plan.find:
            find = self.executor.compile(plan.find)
        return _Compiled(
            maker,
            binder,
            own,
            compile_filter(self.model, write.entity, own),
            compile_filter(self.model, write.entity, write.condition),
            find,
        )

    def tells(self, write: Write, condition: Condition) -> bool:
        """Whether a row, as its home holds it, tells if a condition of a write holds.

        What is computed it may hold as well. But which rows are meant is found out before any is written, and what is
        computed of the rows that are written changes under way.
        """
        entity = self.model.entities[write.entity]
        if not is_told_by_others(entity, condition):
            return True
        kept = {one.column: one for one in self.mutator.places.kept[write.entity]}
        found = kept.get(condition.path.column) if not condition.path.roles and not condition.also else None
        return found is not None and found.child not in written_entities(self.model.entities, write)

    # Preparing: arguments are checked before anything is read

    def prepare(
        self, write: Write, label: str, arguments: Mapping[str, Any], now: datetime, written: set[tuple[str, Key]]
    ) -> Prepared:
        """Checks the arguments of one write; `written` holds the rows that the same call writes already."""
        compiled = self.compiled[write.name]
        entity = self.model.entities[write.entity]
        if compiled.maker is not None:
            new = compiled.maker.row(label, arguments, now, self.new_id)
            self.refuse_unserved(write, label)
            jobs = self.puts(new, write.kind == "upsert")
            for job in jobs:
                note(job, written)
            return Prepared(write, label, Call({}, now), jobs, new)
        assert compiled.binder is not None
        call = Call(compiled.binder(arguments, label), now)
        self.refuse_unserved(write, label)
        if not write.by_key:
            return Prepared(write, label, call, [])
        job = self.job(write, label, call, key_values(entity, write, call.args, now))
        note(job, written)
        return Prepared(write, label, call, [job])

    def refuse_unserved(self, write: Write, label: str) -> None:
        """Whatever rows there are: a call that is refused for some and not for others would tell nobody."""
        if write.name in self.design.unserved:
            reason = self.design.unserved[write.name].reason
            raise UnsupportedError(f"{label}: this design does not serve it: {reason}")

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
        return make(self.model, entity, label, key, write, call, compiled.own, compiled.where, compiled.condition)

    # Running

    def run(self, prepared: Prepared) -> Proc[Any]:
        """Does one write and returns its answer."""
        if not prepared.write.by_key:
            return (yield from self.run_wide(prepared))
        answers = yield from self.run_all([prepared])
        return answers[0]

    def run_all(self, prepared: Sequence[Prepared]) -> Proc[list[Any]]:
        """Does several writes together, or none of them."""
        known: dict[tuple[str, Key], Row | None] = {}
        for one in prepared:
            if self.compiled[one.write.name].find is not None:
                _, whole = yield from self.found(one)
                known |= whole
        jobs = [job for one in prepared for job in one.jobs]
        if not jobs:
            return [None for _ in prepared]
        rows = yield from self.commit(jobs, prepared[0].call.now, known)
        return [self.answer(one, rows) for one in prepared]

    def found(self, prepared: Prepared) -> Proc[tuple[list[Key], dict[tuple[str, Key], Row | None]]]:
        """The keys of the rows that a write means, and those of them that were read as a whole.

        A write by key whose row is not among them has nothing to do.
        """
        write, call = prepared.write, prepared.call
        find, entity = self.compiled[write.name].find, self.model.entities[write.entity]
        assert find is not None
        call.strong = True
        (rows,) = yield from find.many(call, ROOT)
        found = {tuple(row[column] for column in entity.key): row for row in rows}
        if not found:
            if write.condition:
                raise ConflictError(f"{prepared.label}: there is no such {entity.name}; check what it is asked by")
            prepared.jobs.clear()
        # What the search has read is the whole row, unless the home holds more than that.
        if self.mutator.places.carried(entity.name) or not set(entity.stored) <= set(find.provides):
            return list(found), {}
        return list(found), {(entity.name, key): {c: row[c] for c in entity.stored} for key, row in found.items()}

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
        """Every row that a `where` finds, each on its own: those that are refused stay as they were."""
        write, call = prepared.write, prepared.call
        keys, known = yield from self.found(prepared)
        entity = self.model.entities[write.entity]
        nested = write.entity in written_along(self.model.entities, write)
        # Rows that may be in each other's way are written one after another, in the order of their keys.
        apart = nested or _may_clash(entity, write, call) or self.mutator.groups.meet(write.entity)
        at_once = 1 if apart else ROWS_AT_ONCE
        keys.sort()
        written: set[tuple[str, Key]] = set()
        refused: list[tuple[str, Refusal]] = []
        for start in range(0, len(keys), at_once):
            jobs = [self.job(write, prepared.label, call, key) for key in keys[start : start + at_once]]
            for job in jobs:
                if isinstance(job, Delete) and (write.entity, job.key) in written:
                    job.taken_along, known[write.entity, job.key] = True, None
            failed: KeyplanError | None = None
            attempts = yield from gather(_attempted(self.commit([job], call.now, known)) for job in jobs)
            for job, done in zip(jobs, attempts, strict=True):
                if isinstance(done, ArgumentError | ConflictError):
                    refused.append((job.name, done))
                elif isinstance(done, KeyplanError):
                    failed = failed or done
                else:
                    written.update(done)
            if failed is not None:
                many = sum((write.entity, key) in written for key in keys)
                raise stopped(failed, prepared.label, many, len(keys))
        changed = sum((write.entity, key) in written for key in keys)
        if refused:
            raise some_refused(prepared.label, refused, changed)
        return changed

    def commit(
        self,
        jobs: Sequence[Job],
        now: datetime,
        known: Mapping[tuple[str, Key], Row | None] = MappingProxyType({}),
    ) -> Proc[Rows]:
        """Does the jobs in one atomic request; returns the rows that were written, as they are returned.

        Rows that are `known` are read again only if the engine refuses what follows from them.
        """
        return Commit(self, jobs, now, known).run()


def _attempted(proc: Proc[Rows]) -> Proc[Rows | KeyplanError]:
    """What a proc does, or why it fails: what is done of the other rows of a call has nothing to do with that."""
    try:
        return (yield from proc)
    except KeyplanError as error:
        return error


def _may_clash(entity: Entity, write: Write, call: Call) -> bool:
    """Whether rows of a write may take unique values from each other: those that it sets or adds to."""
    for columns in entity.unique:
        given = [column for column in columns if column in write.sets]
        values = [operand_value(write.sets[one], entity.columns[one].type, call.args, call.now) for one in given]
        if None not in values and (given or any(column in write.adds for column in columns)):
            return True
    return False


def note(job: Job, written: set[tuple[str, Key]]) -> None:
    """Refuses a row that the same call writes already."""
    place = (job.entity.name, job.key)
    if place in written:
        raise ArgumentError(f"{job.label}: {job.name} is written twice in one call; leave one out")
    written.add(place)


def prepare_parts(writer: Writer, parts: Sequence[Part], now: datetime) -> list[Prepared]:
    """The writes of one call of a transaction."""
    written: set[tuple[str, Key]] = set()
    return [writer.prepare(part.write, part.label, part.arguments, now, written) for part in parts]
