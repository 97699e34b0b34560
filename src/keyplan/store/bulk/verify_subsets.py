"""Comparing a subset with the rows that it should keep: the first ones of each parent, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from keyplan.engines.rounds import Proc
from keyplan.plan.edits import Edit
from keyplan.store.reading.expiry import compile_alive
from keyplan.store.writing.places import Place
from keyplan.store.writing.rows import Key, Row, World, differs
from keyplan.store.writing.subsets import in_order

if TYPE_CHECKING:
    from keyplan.store.bulk.verify import Verifier

SLACK = 4
"""How many times as many keys of a parent are gathered before those are left out that come too late."""
TOGETHER = 200
"""Missing rows that are read at once."""


class SubsetCheck:
    """Gathers the keys that a subset should keep, and then looks at what it does keep."""

    def __init__(self, verifier: Verifier, place: Place) -> None:
        assert place.limit is not None
        self.verifier = verifier
        self.core = verifier.core
        self.place = place
        self.limit = place.limit
        self.keys: dict[Key, list[Key]] = {}
        """Per parent."""

    def add(self, rows: Iterable[Row]) -> None:
        """Notes rows as their home has them."""
        for row in rows:
            for key in self.place.keys(row):
                found = self.keys.setdefault(self.place.parent_of(key), [])
                found.append(key)
                if len(found) > SLACK * self.limit:
                    found[:] = in_order(self.place, found)[: self.limit]

    def run(self) -> Proc[None]:
        """Looks at every entry, and for those that are not there."""
        place, result = self.place, self.verifier.result
        wanted = {key for keys in self.keys.values() for key in in_order(place, keys)[: self.limit]}
        seen: set[Key] = set()
        goes: list[Edit] = []
        comes: list[Edit] = []
        alive = compile_alive(self.core.model, place.entity, place.holds, (), {})

        def check(rows: list[Row]) -> Proc[None]:
            found = {place.key.of(row)[0]: row for row in rows}
            seen.update(found)
            entries = yield from self.entries([key for key in found if key in wanted])
            for key, row in found.items():
                if alive is not None:
                    alive(row, self.verifier.now)
                entry = entries.get(key)
                if entry is None:
                    result.note(place.view.name, "extra", key)
                    goes.append(Edit(place.view.name, "delete", key, place.at))
                elif any(differs(row.get(path), value) for path, value in entry.items()):
                    result.note(place.view.name, "wrong", key)
                    comes.append(Edit(place.view.name, "put", key, place.at, entry))

        result.views[place.view.name].entries += len(wanted)
        yield from self.verifier.scan(place, place.holds, check)
        missing = sorted(wanted - seen, key=repr)
        for start in range(0, len(missing), TOGETHER):
            entries = yield from self.entries(missing[start : start + TOGETHER])
            for key, entry in entries.items():
                result.note(place.view.name, "missing", key)
                comes.append(Edit(place.view.name, "put", key, place.at, entry))
        # What does not belong there goes first: it would take the place of what does.
        yield from self.verifier.mend([*goes, *comes])

    def entries(self, keys: list[Key]) -> Proc[dict[Key, Row]]:
        """What the entries under these keys should hold; those are left out whose rows are gone by now."""
        place, now = self.place, self.verifier.now
        entity = self.core.model.entities[place.entity]
        rows: dict[Key, Key] = {}
        for key in keys:
            values = {part.path: value for part, value in zip(place.key.parts, key, strict=True)}
            rows[key] = tuple(values[column] for column in entity.key)
        homes = yield from self.core.reader.by_key([(entity.name, key) for key in rows.values()], now)
        present = {key: row for key, at in rows.items() if (row := homes[entity.name, at]) is not None}
        world = World(self.core.model, self.core.reader, now)
        yield from world.fetch(
            (entity.name, row, path.roles, True) for row in present.values() for path in place.copies
        )
        full = {key: world.full(entity.name, row, place.copies, True) for key, row in present.items()}
        return {key: place.entry(row) for key, row in full.items() if key in place.keys(row)}
