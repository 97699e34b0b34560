"""What is left to do behind a write: rows that began to copy meanwhile, and computed values read meanwhile.

Where the engine's writes can go on (`Codec.goes_on`), all of that is part of the write itself: nobody sees the one
without the other, and whoever ends in between has done nothing. Elsewhere it comes after it, and intents remember it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from keyplan.engines.codec import Codec
from keyplan.engines.rounds import Pause, Proc, Request
from keyplan.errors import ConflictError
from keyplan.model.model import Model
from keyplan.plan.edits import Edit
from keyplan.store.pump import Tally, counted
from keyplan.store.steps import sent
from keyplan.store.writing.changes import Batch, ChangedMeanwhileError, Name, RowChange, differing_columns
from keyplan.store.writing.intents import Intents
from keyplan.store.writing.mutate import Mutator
from keyplan.store.writing.rows import RowReader

CATCH_UP_ATTEMPTS = 50


class Afterwards:
    """Looks again at what others may have changed while a write was being worked out."""

    def __init__(self, model: Model, codec: Codec, mutator: Mutator, reader: RowReader, intents: Intents) -> None:
        self.model = model
        self.codec = codec
        self.mutator = mutator
        self.reader = reader
        self.intents = intents

    def watched(self, batch: Batch) -> list[RowChange]:
        """The changed rows that somebody may have begun to copy from; nobody has from a ghost that is held."""
        return [
            change
            for change in batch.changes
            if not change.follows
            and not (change.ghost and not self.codec.goes_on)
            and not change.blind
            and not change.is_new
            and any(watch.columns & differing_columns(change) for watch in self.mutator.places.watches[change.entity])
        ]

    def along(self, request: Request, batch: Batch, now: datetime, tally: Tally) -> Request:
        """The request of a batch, with what may be left to do as part of it, where the engine can do that and there is
        something; `tally` then says how much that was, the last time that it was tried."""

        def then() -> Proc[None]:
            tally.rounds = tally.requests = 0
            return counted(self.within(batch, now), tally)

        if not self.codec.goes_on:
            return request
        apart = list(dict.fromkeys((*batch.unchecked, *self.unguarded(batch), *batch.ghosts, *batch.leaving)))
        is_needed = batch.doubtful or apart or self.watched(batch)
        return self.codec.go_on(request, then, apart) if is_needed else request

    def unguarded(self, batch: Batch) -> list[Name]:
        """The new rows of which others could not check that there was none, because no entry is named by their key."""
        return [
            (change.entity, change.key)
            for change in batch.changes
            if change.old is None
            and change.expect == "absent"
            and not change.is_new
            and self.mutator.places.exact(change.entity) is None
        ]

    def within(self, batch: Batch, now: datetime) -> Proc[None]:
        """What is left to do, as part of the write: nobody who could be in the way is at work meanwhile."""
        seen = (yield from self.reader.by_key(batch.unchecked, now)) if batch.unchecked else {}
        if any(row is not None for row in seen.values()):
            raise ChangedMeanwhileError("others keep changing the same rows; try again")
        for name in self.unguarded(batch):
            if (yield from self.reader.has_several(*name, now)):
                raise ChangedMeanwhileError("others keep changing the same rows; try again")
        if not (yield from self.mutator.computed.are_still({**batch.ghosts, **batch.leaving}, (), now)):
            raise ChangedMeanwhileError("others keep changing the same rows; try again")
        watched = self.watched(batch)
        late = (yield from self.late(batch, watched, now)) if watched else []
        if late:
            again = yield from self.mutator.batch(late, now, watched)
            yield from self.write(again.edits)
        doubtful = batch.doubtful
        for change in (
            (yield from self.mutator.computed.again(doubtful, now, batch.changes[0].label)) if doubtful else ()
        ):
            again = yield from self.mutator.batch([change], now)
            yield from self.write(again.edits)

    def write(self, edits: Sequence[Edit]) -> Proc[None]:
        if not edits:
            return
        reply = yield from sent(self.codec, edits)
        if isinstance(reply, ConflictError):
            raise ChangedMeanwhileError("others keep changing the same rows; try again")
        if isinstance(reply, Exception):
            raise reply

    def late(self, batch: Batch, watched: list[RowChange], now: datetime) -> Proc[list[RowChange]]:
        """The rows that copy from changed ones, and were not found before."""
        return (yield from self.mutator.latecomers(watched, now, batch.changes))

    def catch_up(self, batch: Batch, now: datetime, others: Sequence[RowChange] = ()) -> Proc[None]:
        """Rows that began to copy from a changed row while it was being changed are brought up to date.

        All but those of `others`, which an intent was recorded for.
        """
        watched = [change for change in self.watched(batch) if not any(change is other for other in others)]
        if not watched:
            return
        for attempt in range(CATCH_UP_ATTEMPTS):
            if attempt:  # at first nobody else is thought to be at work, and the checks below say if somebody is
                watched = yield from self.still_ours(watched, now)
            late = yield from self.late(batch, watched, now)
            if not late:
                return
            chunks = self.intents.chunks
            beside = None
            if attempt or chunks.are_placed_anew(late):
                beside = yield from chunks.beside(now, watched)
            if (yield from chunks.write(watched, late, now, beside)):
                return
            yield Pause(random.random() * 0.02)

    def notice(self, batch: Batch, now: datetime) -> Proc[None]:
        """Rows that were not there, which the write could not test, and have come meanwhile: what it wrote is brought
        up to date. Whoever made them looks behind that for what points at them, so that one of both finds the other."""
        if not batch.unchecked:
            return
        rows = yield from self.reader.by_key(batch.unchecked, now)
        label = batch.changes[0].label if batch.changes else ""
        come = [RowChange(*name, None, row, label, expect="absent") for name, row in rows.items() if row is not None]
        if not come:
            return
        yield from self.catch_up(Batch([], come, {}), now)
        doubtful = [(kept, change.key) for change in come for kept in self.mutator.places.kept[change.entity]]
        yield from self.look_again(Batch([], come, {}, doubtful), now)

    def look_again(self, batch: Batch, now: datetime) -> Proc[None]:
        """Computed values that were found by reading rows: one may have come or gone while that was done."""
        doubtful = batch.doubtful
        for _ in range(CATCH_UP_ATTEMPTS):
            if not doubtful:
                return
            changes = yield from self.mutator.computed.again(doubtful, now, batch.changes[0].label)
            for change in changes:
                yield from self.bring_up(change, now)
            if changes:
                yield Pause(random.random() * 0.02)
            changed = {(change.entity, change.key) for change in changes}
            doubtful = [(kept, key) for kept, key in doubtful if (kept.entity, key) in changed]

    def bring_up(self, change: RowChange, now: datetime) -> Proc[None]:
        """Writes a computed value as it is found to be, and has what copies it follow; nothing is done if others are in
        the way."""
        try:
            batch = yield from self.mutator.batch([change], now)
            intents, late = self.intents.announced(batch)
            pending = self.intents.most is not None and len(batch.edits) + len(intents) > self.intents.most
            if pending:  # what copies it follows in chunks
                batch = yield from self.mutator.batch([change], now, followers=False)
            held = yield from self.intents.ghosts.hold(batch, now, followed=not pending)
        except ChangedMeanwhileError:
            return
        reply = yield from self.intents.ghosts.send([*batch.edits, *intents], held)
        if isinstance(reply, ConflictError):
            if intents:
                yield from self.intents.finish_all(now)
            return
        if isinstance(reply, Exception):
            raise reply
        for one in late:
            yield from self.intents.finish(one, now, () if pending else batch.changes)
        if not pending:
            yield from self.catch_up(batch, now, late)

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
