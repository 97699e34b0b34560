"""Writes that converge: a row that more others copy from than one atomic request can change.

The row itself is written first, in one request with an *intent* that says what it was and what it is now. Then the
entries that repeat its values follow in chunks, each atomic, each checking that the row still is what the intent says.
Then the intent goes. Whoever finds an intent in the way (another writer of the same row, `settle`, `verify`) finishes
it first, so that after a crash at any point the views end equal to their homes.

A write that fits into one request together with all that follows it records an intent as well: rows may have begun to
copy the old values between the lookup and the write, and have to be looked for once more behind it.

Two may work on one intent at once: every edit is absolute, so that doing it twice does no harm, and a chunk of somebody
who is late fails its check once the row has changed again, which it cannot before the intent was finished.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from keyplan.engines.codec import Codec, Span
from keyplan.engines.rounds import Pause, Proc
from keyplan.errors import AccessError, ConflictError, KeyplanError, ThrottledError, UnavailableError
from keyplan.model.model import Model
from keyplan.model.values import from_json, to_json
from keyplan.plan.edits import Edit, Test
from keyplan.plan.intents import INTENTS
from keyplan.plan.steps import Search
from keyplan.store.steps import answered, sent
from keyplan.store.writing.changes import Batch, RowChange, differing_columns
from keyplan.store.writing.chunks import Chunks
from keyplan.store.writing.copies import Copied, Copies
from keyplan.store.writing.ghosts import Ghosts, Hold
from keyplan.store.writing.mutate import Mutator
from keyplan.store.writing.places import Kept
from keyplan.store.writing.rows import Key, Row
from keyplan.store.writing.sums import Owed, Sums
from keyplan.store.writing.too_many import too_many

ATTEMPTS = 20
Left = RowChange | Copied | Owed | Hold
"""What an intent stands for."""


@dataclass
class Lightened:
    """A batch without what can be done behind its request."""

    batch: Batch
    intents: list[Edit]
    """What is recorded along with it."""
    copied: Copied | None = None
    """What it copies, to be compared behind it."""
    owes: bool = False
    """Whether its sums are added behind it."""
    pending: list[RowChange] = field(default_factory=list)
    """The rows that others follow later."""


class Intents:
    """Records intents and finishes them, for one design on an engine whose atomic requests are limited."""

    def __init__(self, model: Model, mutator: Mutator, codec: Codec) -> None:
        self.model = model
        self.mutator = mutator
        self.codec = codec
        self.most = codec.atomic_edits
        mutator.lagging.remembers = self.most is not None
        self.copies = Copies(self)
        self.sums = Sums(self)
        self.ghosts = Ghosts(self)
        self.chunks = Chunks(self)
        kept = self.most is not None or (not codec.goes_on and any(mutator.places.copied.values()))
        self.reader = codec.reader(Search(INTENTS, takes=("row", "text"))) if kept else None

    def watched(self, batch: Batch) -> list[RowChange]:
        """The changed rows that others copy from."""
        watches = self.mutator.places.watches
        return [
            change
            for change in batch.changes
            if not (change.follows or change.blind or change.is_new or change.ghost)
            and any(watch.columns & differing_columns(change) for watch in watches[change.entity])
        ]

    def announced(self, batch: Batch) -> tuple[list[Edit], list[RowChange]]:
        """Intents for rows that others copy from, and these rows; the edits fail where another's intent is in the way.

        A row that comes has one if others were seen to point at it already: more of them may have come meanwhile. If
        there were none, it has none. But it may be one that somebody has just deleted, and the rows that copied from it
        have yet to be told so.
        """
        if self.most is None:
            return [], []
        watched = self.watched(batch)
        late = [change for change in watched if change.old is not None or self.is_awaited(change, batch)]
        edits = [self.record(change) for change in late]
        followed = any(change.follows or change.recopied for change in batch.changes)
        for change in watched:
            if (change.entity, change.key) in batch.ghosts or any(change is one for one in late):
                continue  # it is held, or has an intent itself, so that nobody else's is there
            if followed or self.mutator.places.may_return(change.entity):
                edits.append(Edit(INTENTS, "check", (self.name(change),), expect="absent"))
        return [*edits, *self.not_lagging(batch, edits)], late

    def is_awaited(self, change: RowChange, batch: Batch) -> bool:
        """Whether some rows of a batch seem to have pointed at one that comes with it, which nobody holds."""
        ways = {(watch.entity, watch.roles) for watch in self.mutator.places.watches[change.entity]}
        return (change.entity, change.key) not in batch.ghosts and any(
            (one.entity, way) in ways for one in batch.changes if one.follows or one.recopied for way in one.by
        )

    def not_lagging(self, batch: Batch, others: Iterable[Edit]) -> list[Edit]:
        """Checks that nobody has entries to take away that a batch would have to take away otherwise; of `others`, each
        says so already for the row that it names."""
        if self.codec.goes_on:
            return []
        said = {edit.key for edit in others}
        names = [(self.named(*name),) for name in batch.lagging if name not in batch.ghosts]
        return [Edit(INTENTS, "check", name, expect="absent") for name in dict.fromkeys(names) if name not in said]

    def name(self, change: RowChange) -> str:
        return self.named(change.entity, change.key)

    def named(self, entity: str, key: Key) -> str:
        return json.dumps([entity, *self.key_text(entity, key)], ensure_ascii=True, separators=(",", ":"))

    def record(self, change: RowChange) -> Edit:
        """The edit that records what is about to be done."""
        name = self.name(change)
        return Edit(INTENTS, "put", (name,), values={"row": name, "text": self.text(change)}, expect="absent")

    def text(self, change: RowChange) -> str:
        told: dict[str, Any] = {
            "entity": change.entity,
            "label": change.label,
            "old": self.to_text(change.entity, change.old),
            "new": self.to_text(change.entity, change.new),
        }
        if change.before is not None:
            told["before"] = self.to_text(change.entity, change.before)
        if change.behind:
            told["behind"] = self.copies.sources_text(change.behind)
        return json.dumps(told | {"ghost": True} if change.ghost else told, separators=(",", ":"), sort_keys=True)

    def to_text(self, entity: str, row: Row | None) -> dict[str, Any] | None:
        columns = self.model.entities[entity].columns
        if row is None:
            return None
        known = {name: value for name, value in row.items() if value is not None and name in columns}
        return {name: to_json(columns[name].type, value) for name, value in known.items()}

    def from_text(self, entity: str, row: dict[str, Any] | None) -> Row | None:
        if row is None:
            return None
        columns = self.model.entities[entity].columns
        return {
            name: from_json(columns[name].type, row[name]) if name in row else None
            for name in (*self.model.entities[entity].stored, *(kept.column for kept in self.computed(entity)))
        }

    def computed(self, entity: str) -> list[Kept]:
        """The computed columns that others copy."""
        return self.mutator.places.copied[entity]

    def key_text(self, entity: str, key: Key) -> list[Any]:
        about = self.model.entities[entity]
        return [to_json(about.columns[c].type, value) for c, value in zip(about.key, key, strict=True)]

    # beginning

    def lightened(self, batch: Batch, others: int, label: str, noted_as: str) -> Lightened | None:
        """A batch that is too large for a request in which `others` go along, without checks of what it copies, without
        its sums, or without both; None if that is not enough. `noted_as` is the name of an intent of its copies that
        an earlier attempt may have left."""
        unchecked = self.copies.unchecked(batch, others, label, noted_as)
        if unchecked is not None:
            fewer, noted, copied = unchecked
            return Lightened(fewer, [noted], copied)
        left_out = self.sums.left_out(batch, label)
        if left_out is None:
            return None
        fewer, owing = left_out
        if self.fits(fewer, others + 1):
            return Lightened(fewer, [owing], owes=True)
        unchecked = self.copies.unchecked(fewer, others + 1, label, noted_as)
        if unchecked is None:
            return None
        fewest, noted, copied = unchecked
        return Lightened(fewest, [owing, noted], copied, owes=True)

    def fits(self, batch: Batch, others: int) -> bool:
        """Whether the engine can do a batch at once, with so many others."""
        return self.most is None or len(batch.edits) + others <= self.most

    def held(self, batch: Batch) -> int:
        """How many edits go along with those of a batch to let ghosts go."""
        return 0 if self.codec.goes_on else len(batch.ghosts)

    def split(self, batch: Batch, now: datetime, label: str) -> Proc[Lightened]:
        """The rows themselves, without those that follow them."""
        assert self.most is not None
        direct = [change for change in batch.changes if not change.follows and not change.derived]
        alone = yield from self.mutator.batch(direct, now, followers=False)
        watched, ghosts = self.watched(alone), [change for change in alone.changes if change.ghost]
        intents = [self.record(change) for change in watched if (change.entity, change.key) not in alone.ghosts]
        intents += self.not_lagging(alone, intents)
        others = len(intents) + len(alone.ghosts)
        light: Lightened | None = Lightened(alone, [])
        if not self.fits(alone, others):
            light = self.lightened(alone, others, label, "")
        if light is None or not (watched or ghosts):
            raise too_many(self.mutator.places, alone, others, len(batch.edits), self.most, label)
        held = yield from self.ghosts.hold(alone, now, followed=False)
        for change in (*watched, *ghosts):
            held = self.ghosts.turned(held, change)
        return replace(light, intents=[*light.intents, *intents, *held], pending=[*watched, *ghosts])

    # finishing

    def pending(self) -> Proc[list[Left]]:
        """The intents that somebody left behind."""
        if self.reader is None:
            return []
        asks = self.reader.ask([Span(())], None, strong=True)
        answers = yield from answered(self.reader, asks, INTENTS)
        return [self.read(row["row"], row["text"]) for _, answer in answers for rows in answer.rows for row in rows]

    def read(self, name: str, text: str) -> Left:
        """The change that an intent stands for; of an entity that another design has had here, nothing but its name."""
        data = json.loads(text)
        if "held" in data:
            return Hold(name, text)
        if "sums" in data:
            return self.sums.read(name, text)
        if "rows" in data:
            return self.copies.read(data)
        entity = data["entity"]
        if entity not in self.model.entities:
            return Copied(name, data["label"], (), ())
        old, new = self.from_text(entity, data["old"]), self.from_text(entity, data["new"])
        known = new or old
        assert known is not None
        key: Key = tuple(known[column] for column in self.model.entities[entity].key)
        ghost, before = "ghost" in data, self.from_text(entity, data.get("before"))
        return RowChange(
            entity,
            key,
            old,
            new,
            data["label"],
            derived=ghost,
            ghost=ghost,
            before=before,
            behind=self.copies.read_sources(data.get("behind", ())),
            intent=text,
        )

    def finish_all(self, now: datetime) -> Proc[None]:
        """Finishes what others left behind, as far as they let us; who holds a ghost is waited for at first."""
        for one in (yield from self.pending()):
            yield from self.finish_one(one, now)

    def finish_for_good(self, now: datetime) -> Proc[None]:
        """Finishes all that others left behind."""
        for one in (yield from self.pending()):
            if not (yield from self.finish_one(one, now, waits=False)):
                told = "what it changed keeps changing, and is not followed everywhere yet"
                label = "" if isinstance(one, Hold) else f"{one.label}: "
                raise ConflictError(f"{label}{told}; try again, or repair it with `verify`")

    def finish_what_can_be(self, now: datetime) -> Proc[list[Left]]:
        """Finishes what others left behind; returns what cannot be, whatever is in the way but the engine itself."""
        found: list[Left] = []
        for one in (yield from self.pending()):
            try:
                finished = yield from self.finish_one(one, now, waits=False)
            except (ThrottledError, UnavailableError, AccessError):
                raise
            except KeyplanError:
                finished = False
            found += [] if finished else [one]
        return found

    def finish_one(self, one: Left, now: datetime, *, waits: bool = True) -> Proc[bool]:
        """Finishes an intent; False if others were always faster, and it stays for whoever comes next."""
        if isinstance(one, Hold):
            if not waits or self.ghosts.is_left(one):
                yield from self.ghosts.forget(one)
            return True
        if isinstance(one, Owed):
            return (yield from self.sums.pay(one))
        if isinstance(one, Copied):
            return (yield from self.copies.confirm(one, now))
        return (yield from self.finish(one, now))

    def forget(self, left: Sequence[Left]) -> Proc[None]:
        """Takes intents away that there is nothing left to do for."""
        for one in left:
            if not isinstance(one, Hold):
                is_change = isinstance(one, RowChange)
                tests = (Test("text", "=", one.intent),) if isinstance(one, RowChange) else ()
                name = self.name(one) if isinstance(one, RowChange) else one.name
                edit = Edit(INTENTS, "delete", (name,), expect="present" if is_change else "any", tests=tests)
                reply = yield from sent(self.codec, [edit])
                if isinstance(reply, Exception) and not isinstance(reply, ConflictError):
                    raise reply

    def make_up(self, light: Lightened, now: datetime) -> Proc[None]:
        """Does what was left out of a request, but for rows that follow."""
        if light.copied is not None:
            yield from self.copies.confirm(light.copied, now)
        if light.owes:
            yield from self.sums.pay_all()

    def finish(self, change: RowChange, now: datetime, batch: Sequence[RowChange] = ()) -> Proc[bool]:
        """Brings all that copies from a row up to date, but for what a batch has done, and forgets the intent; False if
        others were always faster."""
        left: list[Left] | None = None
        text = change.intent or self.text(change)
        for _ in range(ATTEMPTS):
            late = yield from self.mutator.latecomers([change], now, batch)
            beside = None
            if left is not None or self.chunks.are_placed_anew(late):
                beside = yield from self.chunks.beside(now, [change], left)
            finished = yield from self.chunks.write([change], late, now, beside)
            if finished:
                # Somebody else may have finished it, and the next one of the row may stand there.
                done = Edit(INTENTS, "delete", (self.name(change),), expect="present", tests=(Test("text", "=", text),))
                reply = yield from sent(self.codec, [done])
                if isinstance(reply, Exception) and not isinstance(reply, ConflictError):
                    raise reply
                return True
            left = yield from self.pending()
            if not any(isinstance(one, RowChange) and one.intent == text for one in left):
                return True  # somebody else has finished it
            if change.new is None:
                # One that is created looks for no intent, if nobody is known to copy from it: it may be there again.
                rows = yield from self.mutator.reader.by_key([(change.entity, change.key)], now)
                change = replace(change, new=rows[change.entity, change.key])
            yield Pause(0.02)
        return False
