"""Cascades that are too large for one request: their rows go in chunks, the deepest first."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from keyplan.engines.rounds import Proc
from keyplan.errors import ConflictError, UncertainError
from keyplan.store.writing.changes import Batch, ChangedMeanwhileError
from keyplan.store.writing.doubt import Doubt
from keyplan.store.writing.refusals import named

if TYPE_CHECKING:
    from keyplan.store.writing.write import Writer


class Cascades:
    """Deletes what stands below a row, for one design on an engine whose atomic requests are limited."""

    def __init__(self, writer: Writer) -> None:
        self.codec = writer.codec
        self.mutator = writer.mutator
        self.intents = writer.intents
        self.afterwards = writer.afterwards

    def delete_some(self, batch: Batch, now: datetime, doubt: Doubt, *, wait: bool) -> Proc[str]:
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
            intents, late = self.intents.announced(part)
            if not self.intents.fits(part, len(intents) + self.intents.held(part)):
                size //= 2
                continue
            edits = [*(part.edits if wait else self.mutator.lagging.without_waiting(part, part.edits)), *intents]
            try:
                held = yield from self.intents.ghosts.hold(part, now)
            except ChangedMeanwhileError:
                return "some" if gone == "some" else "refused"
            reply = yield from self.intents.ghosts.send(edits, held)
            if isinstance(reply, ConflictError):
                return "some" if gone == "some" else "refused"
            if isinstance(reply, Exception) and not isinstance(reply, UncertainError):
                raise named(reply, part)
            for change in late:  # rows may have begun to copy from it meanwhile
                yield from self.intents.finish(change, now, part.changes)
            yield from self.afterwards.catch_up(part, now, late)
            yield from self.afterwards.look_again(part, now)
            if isinstance(reply, UncertainError):
                yield from self.intents.ghosts.release(held)
                raise named(reply, part)
            doubt.is_begun = True
            gone = "some"
            del below[-size:]
        return gone
