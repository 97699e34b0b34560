"""Subsets: of the rows under one parent, only the first few are kept with it, and when one goes the next one comes.

What a subset keeps is exactly the first `limit` children of its parent, so that a shorter one says that there are no
more. A new child needs nothing to be known: the engine puts it in, sorts, and cuts. But one that goes, or moves to
another place in the order, may leave room for a row that only the child's own view knows. Then the subset is read, and
after it the rows that follow, and the write is done only if none of the parent's children has been written since:
every write of one counts up the subset's `VERSION`, whether the row is kept there or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from keyplan.engines.codec import Span
from keyplan.engines.rounds import Proc
from keyplan.model.model import Model
from keyplan.plan.edits import Edit, Test
from keyplan.plan.steps import Search
from keyplan.plan.view import VERSION
from keyplan.store.pump import gather
from keyplan.store.steps import answered
from keyplan.store.writing.changes import Work
from keyplan.store.writing.places import Place, Places
from keyplan.store.writing.rows import Key, Row, RowReader


class Subsets:
    """The subsets of one design."""

    def __init__(self, model: Model, places: Places, reader: RowReader) -> None:
        self.model = model
        self.all_places = places
        self.reader = reader
        limited = (place for some in places.of.values() for place in some if place.limit is not None)
        self.places = {(place.view.name, place.at): place for place in limited}

    def has(self, edit: Edit) -> bool:
        """Whether an edit is one of a subset."""
        return (edit.view, edit.at) in self.places

    def refill(self, work: Work) -> Proc[None]:
        """Adds what has to come where something goes, and the checks that nobody has changed anything meanwhile."""
        gone: dict[tuple[str, tuple[str, ...], Key], list[Edit]] = {}
        for edit in work.edits if self.places else ():
            place = self.places.get((edit.view, edit.at))
            if place is not None and edit.do == "delete":
                gone.setdefault((edit.view, edit.at, place.parent_of(edit.key)), []).append(edit)
        if gone:
            yield from gather([self._refill_one(work, self.places[at[:2]], at[2], some) for at, some in gone.items()])

    def _refill_one(self, work: Work, place: Place, parent: Key, gone: Sequence[Edit]) -> Proc[None]:
        kept, version = yield from self.read(place, parent)
        if not kept:
            return  # somebody else has taken away what is to go, which the write finds out
        number = gone[0].row
        work.edits.append(
            Edit(place.view.name, "check", parent, place.at, tests=(Test(VERSION, "=", version),), row=number)
        )
        # Of what is not kept nothing has to go, while that is so; one of them is left, which counts the change.
        vain = {edit.key for edit in gone[1:] if edit.key not in kept}
        if vain:
            where = (place.view.name, place.at, "delete")
            work.edits[:] = [e for e in work.edits if (e.view, e.at, e.do) != where or e.key not in vain]
        assert place.limit is not None
        if len(kept) < place.limit or kept.isdisjoint(edit.key for edit in gone):
            return
        rows = yield from self.first(place, parent, place.limit + len(gone), work)
        world, entity = work.world, place.entity
        key = self.model.entities[entity].key
        changed = [(world.changed.get((entity, tuple(row[c] for c in key)), (row, row))[1], row) for row in rows]
        after = [{**row, **new} for new, row in changed if new is not None]
        yield from world.fetch((entity, row, path.roles, True) for row in after for path in place.copies)
        put = {edit.key for edit in work.edits if (edit.view, edit.at, edit.do) == (place.view.name, place.at, "put")}
        for row in after:
            for at in place.keys(row):
                if place.parent_of(at) == parent and at not in kept and at not in put:
                    entry = place.entry(world.full(entity, row, place.copies, True))
                    work.check_sources(self.all_places, place.copies, entity, row, True, number)
                    work.edits.append(Edit(place.view.name, "put", at, place.at, entry, row=number))

    def read(self, place: Place, parent: Key) -> Proc[tuple[set[Key], Any]]:
        """The keys that a subset keeps, and its version."""
        paths = dict.fromkeys(part.path for part in place.key.parts)
        reader = self.reader.executor.codec.reader(Search(place.view.name, place.at, takes=(*paths, VERSION)))
        width = len(place.key.partition)
        asks = reader.ask([Span(parent[:width], parent[width:])], None, strong=True)
        kept: set[Key] = set()
        version: Any = None
        for _, answer in (yield from answered(reader, asks, place.view.name)):
            for row in answer.rows[0]:
                kept |= {*place.key.of(row)}
                version = row[VERSION]
        return kept, version

    def first(self, place: Place, parent: Key, limit: int, work: Work) -> Proc[list[Row]]:
        """The first children of a parent, from their own view."""
        embed = place.view.embed_at(place.at)
        assert embed is not None
        order = tuple((part.path, part.descending) for part in embed.sort)
        values = {part.path: value for part, value in zip(place.key.parts, parent, strict=False)}
        role = self.model.entities[place.view.entity].roles[embed.role]
        key = tuple(values[column] for column in role.columns)
        rows = yield from self.reader.first(place.view.entity, embed.role, key, order, limit, work.world.now)
        by_key = {at: row for row in rows for at in place.keys(row) if place.parent_of(at) == parent}
        return [by_key[at] for at in in_order(place, by_key)][:limit]


def in_order(place: Place, keys: Iterable[Key]) -> list[Key]:
    """Keys of one parent's rows in the order of the subset."""
    found = list(keys)
    start = len(place.view.parts)
    for position in reversed(range(start, len(place.key.parts))):
        down = place.key.parts[position].descending
        found.sort(key=lambda key, position=position: key[position], reverse=down)  # type: ignore[misc]
    return found
