"""Ghosts: rows that are not there, for which something is computed all the same that others copy.

A computed value depends on the key alone: members of a talk that is gone still have the moment of its last message. Of
a row that is there its home holds the value, and whoever copies or changes it tests that it is as it was read. For a
ghost there is nothing to be tested. Where writes can go on, they look again before they are done, and are kept apart by
its name. Elsewhere an entry among the intents holds it: it is put first, then the value is looked at once more, and the
write itself takes the entry away, provided that it is still there. Nobody else can copy or change the value meanwhile.
Whoever comes upon the same entry again and again takes it away; if somebody is still at work with it, that one begins
anew.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from keyplan.engines.rounds import Proc, Reply
from keyplan.errors import ConflictError, UncertainError
from keyplan.plan.edits import Edit, Test
from keyplan.plan.intents import INTENTS
from keyplan.store.steps import sent
from keyplan.store.writing.changes import Batch, ChangedMeanwhileError, Name, RowChange

if TYPE_CHECKING:
    from keyplan.store.writing.intents import Intents

PATIENCE = 5
"""How often an entry is come upon before it is taken to be left."""
MOST_SEEN = 1000


@dataclass(frozen=True)
class Hold:
    """An entry that holds a ghost."""

    name: str
    text: str


class Ghosts:
    """Holds ghosts until a write is done, on an engine whose writes cannot go on."""

    def __init__(self, intents: Intents) -> None:
        self.intents = intents
        self.codec = intents.codec
        self.seen: dict[str, int] = {}
        """How often we came upon what somebody else holds, by its text."""

    def hold(
        self, batch: Batch, now: datetime, *, followed: bool = True, but: Collection[Name] = ()
    ) -> Proc[list[Edit]]:
        """The edits that have to go along with a batch that has to do with ghosts; others may have to be waited for.

        All that copy from one which changes have to be in it if they are `followed`. Some may be held already (`but`).
        """
        ghosts = {name: ghost for name, ghost in batch.ghosts.items() if name not in but}
        if not ghosts or self.codec.goes_on:
            return []
        token = secrets.token_hex(16)
        text = json.dumps({"held": token})
        names = [self.intents.named(*name) for name in ghosts]
        put = [Edit(INTENTS, "put", (name,), values={"row": name, "text": text}, expect="absent") for name in names]
        most = self.intents.most or len(put)
        mine = [_release(name, text) for name in names]
        for start in range(0, len(put), most):
            reply = yield from sent(self.codec, put[start : start + most])
            if isinstance(reply, ConflictError | UncertainError):
                yield from self.release(mine[: start + most])
                yield from self.intents.finish_all(now)
                raise ChangedMeanwhileError("others keep changing the same rows; try again")
            if isinstance(reply, Exception):
                raise reply
        still = yield from self.intents.mutator.computed.are_still(ghosts, batch.changes, now)
        if not still or (followed and (yield from self.has_more(batch.changes, now))):
            yield from self.release(mine)
            raise ChangedMeanwhileError("others keep changing the same rows; try again")
        return mine

    def has_more(self, changes: Sequence[RowChange], now: datetime) -> Proc[bool]:
        """Whether rows that are not among these changes copy from a ghost that is."""
        ghosts = [change for change in changes if change.ghost]
        return bool(ghosts) and bool((yield from self.intents.mutator.latecomers(ghosts, now, changes, written=False)))

    def send(self, edits: Sequence[Edit], held: Sequence[Edit]) -> Proc[Reply]:
        """Writes edits together with those that let ghosts go; if that is refused, they are let go all the same."""
        reply = yield from sent(self.codec, [*edits, *held])
        if isinstance(reply, ConflictError):
            yield from self.release(held)
        return reply

    def release(self, edits: Sequence[Edit]) -> Proc[None]:
        """Lets go what is still held for some edits."""
        for edit in edits:
            if edit.view == INTENTS and edit.tests:
                gone = Edit(INTENTS, "delete", edit.key, expect="present", tests=edit.tests)
                reply = yield from sent(self.codec, [gone])
                if isinstance(reply, Exception) and not isinstance(reply, ConflictError | UncertainError):
                    raise reply

    def is_left(self, hold: Hold) -> bool:
        """Whether somebody seems to have left an entry: whoever is at work takes it away within a few requests."""
        self.seen[hold.text] = self.seen.get(hold.text, 0) + 1
        if len(self.seen) > MOST_SEEN:
            del self.seen[next(iter(self.seen))]
        return self.seen.get(hold.text, 0) > PATIENCE

    def forget(self, hold: Hold) -> Proc[None]:
        """Takes an entry away that somebody has left."""
        yield from self.release([_release(hold.name, hold.text)])

    def turned(self, held: Sequence[Edit], change: RowChange) -> list[Edit]:
        """The edits such that what holds a ghost becomes the intent of a change of it."""
        intent = self.intents.record(change)
        return [
            replace(intent, expect="present", tests=edit.tests) if edit.key == intent.key else edit for edit in held
        ]


def _release(name: str, text: str) -> Edit:
    return Edit(INTENTS, "delete", (name,), expect="present", tests=(Test("text", "=", text),))
