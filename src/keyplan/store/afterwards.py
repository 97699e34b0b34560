"""What is left to do behind a write: rows that began to copy meanwhile, and computed values read meanwhile."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from keyplan.engines.base import Codec, Pause, Proc
from keyplan.errors import ConflictError
from keyplan.model.model import Model
from keyplan.store.changes import Batch, ChangedMeanwhileError, RowChange, differing_columns, merged
from keyplan.store.intents import Intents
from keyplan.store.mutate import Mutator
from keyplan.store.rows import RowReader, World

CATCH_UP_ATTEMPTS = 50


class Afterwards:
    """Looks again at what others may have changed while a write was being worked out."""

    def __init__(self, model: Model, codec: Codec, mutator: Mutator, reader: RowReader, intents: Intents) -> None:
        self.model = model
        self.codec = codec
        self.mutator = mutator
        self.reader = reader
        self.intents = intents

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
            found = yield from self.mutator.followers(world, watched, done=batch.changes)
            late = [replace(change, late=True) for change in found if (change.entity, change.key) not in done]
            if not late:
                return
            unchanged = [self.intents.unchanged(change) for change in watched]
            try:
                again = yield from self.mutator.batch(late, now, watched)
                edits = merged([*again.edits, *unchanged], self.mutator.extreme_names)
            except ChangedMeanwhileError:
                yield Pause(random.random() * 0.02)
                continue
            if not again.edits:
                return
            (reply,) = yield [self.codec.write(edits)]
            if not isinstance(reply, Exception):
                return
            if not isinstance(reply, ConflictError):
                raise reply
            yield Pause(random.random() * 0.02)

    def look_again(self, batch: Batch, now: datetime) -> Proc[None]:
        """Computed values that were found by reading rows: one may have come or gone while that was done."""
        doubtful = batch.doubtful
        for _ in range(CATCH_UP_ATTEMPTS):
            if not doubtful:
                return
            changes = yield from self.mutator.computed.again(doubtful, now, batch.changes[0].label)
            for change in changes:
                try:
                    again = yield from self.mutator.batch([change], now)
                except ChangedMeanwhileError:
                    continue
                (reply,) = yield [self.codec.write(again.edits)]
                if isinstance(reply, Exception) and not isinstance(reply, ConflictError):
                    raise reply
            if changes:
                yield Pause(random.random() * 0.02)
            changed = {(change.entity, change.key) for change in changes}
            doubtful = [(kept, key) for kept, key in doubtful if (kept.entity, key) in changed]

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
