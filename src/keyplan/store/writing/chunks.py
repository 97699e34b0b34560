"""Rows that follow others, in chunks: what copies a changed row is brought up to date behind the request that changed
it, so many entries at a time.

Where a key is made of copied values, an entry stands under what some row said before, until whoever changed that row
has moved it. Two of them may have an entry to move at the same time, each by another part of its key or of what it
holds, and neither would find it where the other has yet to put it. So a row whose entries are not where they are
thought to be is placed anew: from under whatever the rows behind it may have been, as the intents say that stand by
now, to where it belongs. The request checks that these intents still stand, and that there are no others. Then there
is one entry, at any time, and whoever finds it under what all rows say now has found the only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from keyplan.engines.rounds import Proc
from keyplan.errors import ConflictError, UnsupportedError
from keyplan.plan.edits import Edit, Test
from keyplan.plan.intents import INTENTS
from keyplan.store.writing.changes import Batch, ChangedMeanwhileError, RowChange, Source, differing_columns, merged
from keyplan.store.writing.copies import Copied

if TYPE_CHECKING:
    from keyplan.store.writing.intents import Intents, Left


@dataclass(frozen=True)
class Beside:
    """What others have yet to do, as far as entries may still stand under what rows were before."""

    changes: tuple[RowChange, ...] = ()
    past: tuple[Source, ...] = ()


class Chunks:
    """Writes followers, for one design on an engine whose atomic requests are limited."""

    def __init__(self, intents: Intents) -> None:
        self.intents = intents
        self.model = intents.model
        self.mutator = intents.mutator

    def are_placed_anew(self, followers: Sequence[RowChange]) -> bool:
        """Whether some of these rows have keys that several rows decide on, so that two may be about to move them."""
        places = self.mutator.places.of
        return any(
            place.lags and place.meets for entity in {one.entity for one in followers} for place in places[entity]
        )

    def beside(self, now: datetime, but: Sequence[RowChange] = (), left: Sequence[Left] | None = None) -> Proc[Beside]:
        """What intents say that stand by now; all but those of some changes."""
        if left is None:
            left = yield from self.intents.pending()
        mine = {(change.entity, change.key) for change in but}
        found = [one for one in left if isinstance(one, RowChange) and (one.entity, one.key) not in mine]
        gone = [(one.entity, one.key) for one in found if one.new is None]
        rows = yield from self.mutator.reader.by_key(gone, now)  # one that is created again may have looked for none
        changes = [replace(one, new=rows.get((one.entity, one.key), one.new)) for one in found]
        past = [source for one in left if isinstance(one, Copied) for source in one.sources]
        past += [source for one in left if isinstance(one, RowChange) for source in one.behind]
        return Beside(tuple(changes), tuple(past))

    def write(
        self, changes: Sequence[RowChange], followers: Sequence[RowChange], now: datetime, beside: Beside | None = None
    ) -> Proc[bool]:
        """Brings followers of changed rows up to date in atomic chunks; False if a row has changed meanwhile.

        They are placed anew if it is known what others have to do `beside`.
        """
        most = self.intents.most
        start, size = 0, max(1, (most or 2 * len(followers)) // 2)
        if beside is not None:
            followers = [replace(one, anew=True) for one in followers]
        beside = beside or Beside()
        past = [*beside.past, *(source for change in changes for source in change.behind)]
        names = {(change.entity, change.key) for change in (*changes, *beside.changes)}
        while start < len(followers):
            part = list(followers[start : start + size])
            try:
                batch = yield from self.mutator.batch(part, now, [*beside.changes, *changes], past=past)
                checks = self.checks(batch, changes, beside) if batch.edits else []
                edits = merged([*batch.edits, *checks], self.mutator.extreme_names)
                requests = [edits] if edits else []
                if most is not None and len(edits) + len(batch.ghosts) > most:
                    if size > 1:
                        size = max(1, size // 2)
                        continue
                    requests = self.apart(edits, most - len(batch.ghosts), changes[0].label)
                held = yield from self.intents.ghosts.hold(batch, now, but=names)
            except ChangedMeanwhileError:
                return False
            for request in requests:
                reply = yield from self.intents.ghosts.send(request, held if request is requests[-1] else ())
                if isinstance(reply, ConflictError):
                    yield from self.intents.ghosts.release(held)
                    return False
                if isinstance(reply, Exception):
                    raise reply
            start += size
        return True

    def apart(self, edits: Sequence[Edit], most: int, label: str) -> list[list[Edit]]:
        """The edits of one row in several requests: each place where its entries lag is one for itself."""
        checks = [edit for edit in edits if edit.do == "check"]
        lagging = {(one.view.name, one.at) for some in self.mutator.places.of.values() for one in some if one.lags}
        together: dict[tuple[str, tuple[str, ...]], list[Edit]] = {}
        for edit in edits:
            if edit.do != "check":
                place = (edit.view, edit.at)
                together.setdefault(place if place in lagging else ("", ()), []).append(edit)
        found: list[list[Edit]] = []
        for some in together.values():
            if not found or len(found[-1]) + len(some) > most:
                found.append(list(checks))
            found[-1] += some
        if any(len(some) > most for some in found):
            raise UnsupportedError(f"{label}: one row has more than {most} entries that follow it")
        return found

    def checks(self, batch: Batch, changes: Sequence[RowChange], beside: Beside) -> list[Edit]:
        """That everything which the entries of a chunk were worked out from is still so."""
        found = [self.unchanged(change) for change in changes if (change.entity, change.key) in batch.used]
        for change in beside.changes:
            if (change.entity, change.key) in batch.used:
                test = Test("text", "=", change.intent)
                name = (self.intents.name(change),)
                found.append(Edit(INTENTS, "check", name, expect="present", tests=(test,)))
                if not change.ghost:
                    found.append(self.unchanged(change))
        if self.intents.reader is not None:
            said = {(self.intents.name(change),) for change in (*changes, *beside.changes)}
            found += [edit for edit in self.intents.not_lagging(batch, ()) if edit.key not in said]
        return found

    def unchanged(self, change: RowChange) -> Edit:
        """A check that the row is what the intent says, as far as others copy from it: the rest may have changed since,
        without an intent. Of one that is not there, that the intent still says so."""
        if change.ghost:
            test = Test("text", "=", self.intents.text(change))
            return Edit(INTENTS, "check", (self.intents.name(change),), expect="present", tests=(test,))
        home = self.mutator.places.home(change.entity)
        row = change.new if change.new is not None else change.old
        assert row is not None
        key = home.keys(row)[0]
        if change.new is None:
            return Edit(home.view.name, "check", key, home.at, expect="absent")
        copied = {column for watch in self.mutator.places.watches[change.entity] for column in watch.columns}
        tests = tuple(
            Test(column, "=", change.new[column])
            for column in sorted(copied & differing_columns(change))
            if column in home.holds and column in change.new and column not in self.model.entities[change.entity].key
        )
        return Edit(home.view.name, "check", key, home.at, expect="present", tests=tests)
