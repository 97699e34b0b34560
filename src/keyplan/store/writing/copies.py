"""Rows that copy from more others than one atomic request can check: written first, compared afterwards.

Usually a write checks, in the same request, that the rows which it copies values from are still as they were read. An
order of fifty products has fifty of them, which together with its own entries may be more than the engine does at once.
Then the checks are left out, and an intent is written along that says what was copied from which rows. Afterwards these
are read again: if one has changed meanwhile, the copies follow it as those of any other row do. Whoever changes one
later finds the new rows and takes them along. So the copies end equal to their sources, after a crash as well, since
`settle`, `verify` and writers that come upon intents do the same.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from keyplan.engines.rounds import Pause, Proc
from keyplan.model.values import from_json
from keyplan.plan.edits import Edit
from keyplan.plan.intents import INTENTS
from keyplan.store.steps import sent
from keyplan.store.writing.changes import Batch, RowChange, Source
from keyplan.store.writing.rows import Key, Row

if TYPE_CHECKING:
    from keyplan.store.writing.intents import Intents

ATTEMPTS = 20
LONGEST = 300_000
"""Characters of an intent: all of it has to fit into one entry."""


@dataclass(frozen=True)
class Copied:
    """Rows that were written, and what they copied from."""

    name: str
    label: str
    rows: tuple[Source, ...]
    """With what decides where their entries stand; nothing, where none can be left behind."""
    sources: tuple[Source, ...]


class Copies:
    """Leaves out checks where there are too many, and makes up for it."""

    def __init__(self, intents: Intents) -> None:
        self.intents = intents
        self.model = intents.model
        self.mutator = intents.mutator

    def unchecked(self, batch: Batch, others: int, label: str, name: str) -> tuple[Batch, Edit, Copied] | None:
        """The batch without its checks of other rows, the intent to be written along, and what that says; None if that
        is not enough. `others` is the number of edits that have to go along anyway; `name` is that of an intent that an
        earlier attempt may have left."""
        most = self.intents.most
        assert most is not None
        # What a row pointed at before, and had no entry by, has to stay so: afterwards nobody could tell.
        copied_from = {entry for entry, (*name, _) in batch.sources.items() if tuple(name) not in batch.lagging}
        left = [edit for edit in batch.edits if edit.do == "check" and _entry(edit) in copied_from]
        if not left or len(batch.edits) - len(left) + others + 1 > most:
            return None
        dropped = {_entry(edit) for edit in left}
        edits = [edit for edit in batch.edits if edit.do != "check" or _entry(edit) not in dropped]
        rows = tuple(
            (change.entity, change.key, self.placing(change.entity, change.new))
            for change in batch.changes
            if change.new is not None
        )
        sources = tuple(batch.sources[entry] for entry in dropped)
        copied = Copied(name or f"copies {secrets.token_hex(16)}", label, rows, sources)
        text = self.text(copied)
        if len(text) > LONGEST:
            return None
        homes = {edit.row: number for number, edit in enumerate(edits) if edit.returning}
        intent = Edit(INTENTS, "put", (copied.name,), values={"row": copied.name, "text": text})
        return replace(batch, edits=edits, homes=homes), intent, copied

    def text(self, copied: Copied) -> str:
        return json.dumps(
            {
                "name": copied.name,
                "label": copied.label,
                "rows": self.sources_text(copied.rows),
                "sources": self.sources_text(copied.sources),
            },
            separators=(",", ":"),
        )

    def read(self, data: dict[str, Any]) -> Copied:
        """What an intent says of the entities that there still are."""
        rows = [(*row, None)[:3] for row in data["rows"]]
        return Copied(data["name"], data["label"], self.read_sources(rows), self.read_sources(data["sources"]))

    def placing(self, entity: str, row: Row) -> Row | None:
        """What decides where entries of a row stand that may be left behind."""
        columns = self.mutator.places.placing(entity)
        lags = any(place.lags for place in self.mutator.places.of[entity])
        return {column: row.get(column) for column in (*self.model.entities[entity].key, *columns)} if lags else None

    def sources_text(self, sources: Sequence[Source]) -> list[Any]:
        intents = self.intents
        return [[entity, intents.key_text(entity, key), intents.to_text(entity, row)] for entity, key, row in sources]

    def read_sources(self, sources: Sequence[Any]) -> tuple[Source, ...]:
        return tuple(
            (entity, self.key(entity, key), self.intents.from_text(entity, row))
            for entity, key, row in sources
            if entity in self.model.entities
        )

    def key(self, entity: str, values: Sequence[Any]) -> Key:
        about = self.model.entities[entity]
        return tuple(from_json(about.columns[c].type, value) for c, value in zip(about.key, values, strict=True))

    def confirm(self, copied: Copied, now: datetime) -> Proc[bool]:
        """Compares what was copied with what is there now, lets copies follow, and forgets the intent; False if others
        were always faster."""
        for _ in range(ATTEMPTS):
            found = yield from self.mutator.reader.by_key([(entity, key) for entity, key, _ in copied.sources], now)
            changed = [
                RowChange(entity, key, seen, found[entity, key], copied.label)
                for entity, key, seen in copied.sources
                if self.differs(entity, seen, found[entity, key])
            ]
            followers = (yield from self.followers(copied, changed, now)) if changed else []
            beside = (yield from self.intents.chunks.beside(now, changed)) if followers else None
            finished = yield from self.intents.chunks.write(changed, followers, now, beside)
            if finished:
                reply = yield from sent(self.intents.codec, [Edit(INTENTS, "delete", (copied.name,))])
                if isinstance(reply, Exception):
                    raise reply
                return True
            yield Pause(0.02)
        return False

    def differs(self, entity: str, seen: Row | None, found: Row | None) -> bool:
        """Whether something that others copy is not as it was."""
        if seen is None or found is None:
            return seen is not found
        columns = {column for watch in self.mutator.places.watches[entity] for column in watch.columns}
        return any(seen.get(column) != found.get(column) for column in columns)

    def followers(self, copied: Copied, changes: Sequence[RowChange], now: datetime) -> Proc[list[RowChange]]:
        """The rows of the write that may copy from changed ones; those that do not have nothing to follow."""
        watching = {watch.entity for change in changes for watch in self.mutator.places.watches[change.entity]}
        wanted = [one for one in copied.rows if one[0] in watching]
        rows = yield from self.mutator.reader.by_key([(entity, key) for entity, key, _ in wanted], now)
        return [
            RowChange(entity, key, row, row, copied.label, follows=True, late=True, was=was)
            for entity, key, was in wanted
            if (row := rows[entity, key]) is not None or was is not None
        ]


def _entry(edit: Edit) -> tuple[str, tuple[str, ...], Key]:
    return (edit.view, edit.at, edit.key)
