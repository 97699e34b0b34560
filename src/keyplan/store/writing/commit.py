"""A commit: jobs worked out, sent as one atomic request, and worked out anew where others were faster."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from keyplan.engines.rounds import Pause, Proc, Reply, Request
from keyplan.errors import ConflictError, EngineError, KeyplanError, UncertainError
from keyplan.plan.edits import Edit
from keyplan.store.pump import Tally
from keyplan.store.steps import is_asked, note, views_of
from keyplan.store.writing.changes import Batch, ChangedMeanwhileError, RowChange
from keyplan.store.writing.doubt import Doubt
from keyplan.store.writing.guards import expired_owners, may_have_gone
from keyplan.store.writing.intents import Lightened
from keyplan.store.writing.jobs import Job, Put
from keyplan.store.writing.refusals import named
from keyplan.store.writing.returned import Rows
from keyplan.store.writing.row_changes import Reading
from keyplan.store.writing.rows import Key, Row

if TYPE_CHECKING:
    from keyplan.store.writing.write import Writer

ATTEMPTS = 30
"""How often a write is worked out anew before it gives up on rows that others keep changing."""
UNCERTAIN_ATTEMPTS = 4
WAITS = 20
"""How often a write waits for an entry that somebody else has yet to move, which takes them a moment."""


@dataclass
class Sent:
    """A request, and what it was made of."""

    request: Request
    batch: Batch
    intents: Sequence[Edit]
    """What goes along with it."""
    late: Sequence[RowChange]
    """The rows that others are looked for behind it that copy from them."""
    light: Lightened | None
    """If it was too large: what was left out."""
    inside: Tally


class Commit:
    """Some jobs on their way."""

    def __init__(
        self,
        writer: Writer,
        jobs: Sequence[Job],
        now: datetime,
        known: Mapping[tuple[str, Key], Row | None] = MappingProxyType({}),
    ) -> None:
        """Rows that are `known` are read again only if the engine refuses what follows from them."""
        self.writer = writer
        self.codec = writer.codec
        self.mutator = writer.mutator
        self.intents = writer.intents
        self.afterwards = writer.afterwards
        self.jobs = jobs
        self.now = now
        self.known = known
        self.attempt = -1
        self.reading: Reading = "needed"
        self.doubt = Doubt()
        """A reply may not have arrived: then an earlier attempt may have done it all."""
        self.noted_as = ""
        """The name of the intent for copies that such an attempt may have left."""
        self.last: list[Any] | None = None
        """The rows as they were when the attempt before was refused."""
        self.cleared: list[RowChange] = []
        """Expired rows that are in the way."""
        self.repeated = False
        self.waited = 0

    def run(self) -> Proc[Rows]:
        """Does the jobs in one atomic request; returns the rows that were written, as they are returned."""
        try:
            return (yield from self.tried())
        except KeyplanError as error:
            told = self.doubt.about(error, self.jobs[0].label)
            if told is error:
                raise
            raise told from error

    def tried(self) -> Proc[Rows]:
        """Works the jobs out and sends them, again and again if need be."""
        while self.attempt < ATTEMPTS - 1:
            self.attempt += 1
            known = self.known if self.attempt == 0 else {}
            try:
                changes, seen = yield from self.writer.row_changes.changes(self.jobs, self.now, self.reading, known)
            except ConflictError as error:
                return (yield from self.refused_as_read(error))
            if not changes:
                return (yield from self.nothing_left(changes))
            try:
                batch = yield from self.mutator.batch([*self.cleared, *changes], self.now, seen=seen)
                if not batch.edits:
                    return (yield from self.nothing_left(changes))
                sent = yield from self.made(batch)
            except ChangedMeanwhileError:
                if self.attempt == ATTEMPTS - 1:
                    raise
                yield from self.again()
                continue
            if sent is None:
                continue
            (reply,) = yield [sent.request]
            if is_asked():
                inside = {"inside": sent.inside.rounds} if sent.inside.rounds else {}
                note("write", views_of(sent.batch.edits), 1 + sent.inside.requests, len(sent.batch.edits), **inside)
            if not isinstance(reply, Exception):
                return (yield from self.done(sent, reply))
            if isinstance(reply, UncertainError):
                yield from self.unanswered(sent, reply)
            elif isinstance(reply, ConflictError):
                rows = yield from self.refused(sent, reply, changes)
                if rows is not None:
                    return rows
            else:
                raise named(reply, sent.batch)
        raise ConflictError(f"{self.jobs[0].label}: others keep changing the same rows; try again")

    def again(self) -> Proc[None]:
        """Reads everything again in a moment."""
        self.reading = "all"
        yield self.pause()

    def pause(self) -> Pause:
        return Pause(random.random() * min(0.2, 0.002 * 2**self.attempt))

    # Before the request

    def refused_as_read(self, error: ConflictError) -> Proc[Rows]:
        """The rows say that the write is not to be; an earlier attempt may have made them so."""
        if not self.doubt.is_lost:
            raise error
        yield from self.finish_lost()
        puts = [job for job in self.jobs if isinstance(job, Put) and job.new.is_new]
        if len(puts) == len(self.jobs):  # nobody else has such keys
            return {(job.entity.name, job.key): job.new.values for job in puts}
        raise UncertainError(f"{error}; the reply to this write was lost, it may have done so") from None

    def nothing_left(self, changes: Sequence[RowChange]) -> Proc[Rows]:
        """The rows as they are: there is nothing to be done, or an earlier attempt has done it."""
        yield from self.finish_lost()
        return {(change.entity, change.key): change.new or change.old for change in changes}

    def finish_lost(self) -> Proc[None]:
        """If an attempt whose reply was lost has done it, what follows that may not be done."""
        if self.doubt.is_lost:
            yield from self.intents.finish_all(self.now)

    def made(self, batch: Batch) -> Proc[Sent | None]:
        """The request for a batch; None if something else had to be done first, and it is to be worked out anew."""
        if self.writer.returned.is_unknown(batch):
            self.reading, self.attempt = "returned", self.attempt - 1
            return None
        light: Lightened | None = None
        intents, late = self.intents.announced(batch)
        others = len(intents) + self.intents.held(batch)
        too_much = not self.intents.fits(batch, others)
        if too_much:
            if (yield from self.is_deleting(batch)):
                return None
            light = self.intents.lightened(batch, others, self.jobs[0].label, self.noted_as)
            if light is not None:
                batch, intents = light.batch, [*intents, *light.intents]
                self.noted_as = light.copied.name if light.copied is not None else self.noted_as
        if too_much and light is None:
            light = yield from self.intents.split(batch, self.now, self.jobs[0].label)
            batch, intents = light.batch, light.intents
        else:
            intents = [*intents, *(yield from self.intents.ghosts.hold(batch, self.now))]
        edits = batch.edits
        if len(edits) + len(intents) > 1 and not self.codec.returns_together:
            edits = self.writer.returned.told(batch, self.jobs)
        if self.waited >= WAITS:
            edits = self.mutator.lagging.without_waiting(batch, edits)
        inside = Tally()
        request = self.afterwards.along(self.codec.write([*edits, *intents]), batch, self.now, inside)
        return Sent(request, batch, intents, late, light, inside)

    def is_deleting(self, batch: Batch) -> Proc[bool]:
        """Deletes rows of a cascade that is too large, if it is one and that is possible; says whether it was tried."""
        if any(change.new is not None for change in batch.changes if not (change.follows or change.derived)):
            return False
        try:
            gone = yield from self.writer.cascades.delete_some(batch, self.now, self.doubt, wait=self.waited < WAITS)
        except UncertainError:
            # The row itself is still there, and goes last: what is gone by now is not found again.
            repeatable = len(self.jobs) == 1 or all(job.repeatable for job in self.jobs)
            if self.attempt >= UNCERTAIN_ATTEMPTS or not repeatable:
                raise
            self.doubt.is_lost, self.reading = True, "all"
            yield self.longer_pause()
            return True
        if gone == "some":
            self.attempt -= 1  # progress, not a failure
        elif gone == "refused":  # others have changed some of them, or have yet to move an entry
            yield from self.intents.finish_all(self.now)
            yield self.pause()
            self.waited += 1
        return gone in ("some", "refused")

    # Behind it

    def done(self, sent: Sent, reply: Reply) -> Proc[Rows]:
        """Does what is left to do behind the request."""
        batch, light = sent.batch, sent.light
        rows: Rows = self.writer.returned.outcome(batch, self.codec.wrote(sent.request, reply))
        self.doubt.is_done = True
        pending = light.pending if light is not None else ()
        for change in pending:
            yield from self.intents.finish(change, self.now)
        for change in sent.late if not pending else ():
            yield from self.intents.finish(change, self.now, batch.changes)
        is_late = not self.codec.goes_on
        if not pending and is_late:
            yield from self.afterwards.catch_up(batch, self.now, sent.late)
        if light is not None:
            yield from self.intents.make_up(light, self.now)
        if is_late:
            yield from self.afterwards.look_again(batch, self.now)
            yield from self.afterwards.notice(batch, self.now)
        yield from self.finish_lost()
        return rows

    def unanswered(self, sent: Sent, reply: UncertainError) -> Proc[None]:
        """Nobody knows whether it was done: it is tried again, if doing it twice is the same as doing it once."""
        if self.attempt >= UNCERTAIN_ATTEMPTS or not all(job.repeatable for job in self.jobs):
            with suppress(EngineError):  # if it was done, what follows it is
                yield from self.intents.finish_all(self.now)
            raise reply
        yield from self.intents.ghosts.release(sent.intents)
        self.doubt.is_lost = True
        if any(self.mutator.places.exact(job.entity.name) is None for job in self.jobs):
            self.reading = "all"  # nothing refuses a row that is there already
        yield self.longer_pause()

    def longer_pause(self) -> Pause:
        return Pause(0.05 * (1 + random.random()) * 2**self.attempt)

    def refused(self, sent: Sent, reply: ConflictError, changes: Sequence[RowChange]) -> Proc[Rows | None]:
        """Finds out why, and whether trying again can help; the rows, if it was done before."""
        batch = sent.batch
        yield from self.intents.ghosts.release(sent.intents)
        if isinstance(reply, ChangedMeanwhileError):  # what it had still to do could not be done
            yield from self.again()
            return None
        number = getattr(reply, "edit", 0)
        edit = batch.edits[number] if number < len(batch.edits) else None
        if edit is None and sent.intents:
            yield from self.intents.finish_all(self.now)
            return None
        change = batch.changes[edit.row if edit is not None else 0]
        in_group = edit is not None and self.mutator.groups.has(edit)
        if self.doubt.is_lost and change.old is None and not in_group:
            yield from self.finish_lost()
            if change.is_new:
                return {(one.entity, one.key): one.new for one in changes}
            raise UncertainError(
                f"{change.label}: the reply was lost, and the row is there now; it may or may not be this one"
            )
        # A subset, or a value that is computed of siblings, is refused because of these, though the row that is
        # written, and even that value, may be as before: one came, and one went.
        contended = edit is not None and (
            in_group or bool(change.derived and edit.tests) or self.mutator.subsets.has(edit)
        )
        if edit is not None and edit.expect == "present" and self.mutator.lagging.concerns(batch, edit):
            yield from self.intents.finish_all(self.now)
            contended = True
            self.waited += 1
        # Rows that values are copied from as well: while others change these, each attempt meets another one.
        state = [*((one.entity, one.key, one.old) for one in batch.changes), *batch.sources.values()]
        if not contended and (self.writer.refusals.is_final(batch, number, self.jobs) or state == self.last):
            yield from self.clear_the_way(batch, number, reply)
        self.last = state if self.reading == "all" and not contended else None
        if self.reading != "needed":
            yield self.pause()
        self.reading = "all"
        return None

    def clear_the_way(self, batch: Batch, number: int, reply: ConflictError) -> Proc[None]:
        """Has expired rows deleted along with the next attempt; if there are none that were not deleted along with this
        one already, the refusal is the last word."""
        more = yield from expired_owners(self.writer, batch, self.now)
        before = [(one.entity, one.key, one.old) for one in self.cleared]
        in_vain = all((one.entity, one.key, one.old) in before for one in more)
        if in_vain and (self.repeated or not may_have_gone(self.writer, batch)):
            raise self.writer.refusals.refusal(batch, number, reply)
        self.repeated = in_vain
        self.cleared = more
