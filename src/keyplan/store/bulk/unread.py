"""Rows that `verify` cannot read: told of one by one, and passed over, with all that depends on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy

from keyplan.engines.codec import Answer, Ask, Codec, Reader
from keyplan.engines.rounds import Reply
from keyplan.engines.unreadable import UnreadableError
from keyplan.model.model import Model
from keyplan.plan.steps import Search
from keyplan.store.core import Core
from keyplan.store.writing.places import Place
from keyplan.store.writing.rows import Key, Row

Note = Callable[[str, str, Key | None], None]
"""Of which view, what is wrong, and the key of the row, if that can be read."""


class Unread:
    """What could not be read so far."""

    def __init__(self, model: Model, note: Note) -> None:
        self._model = model
        self._note = note
        self._homes: dict[tuple[str, tuple[str, ...]], str] = {}
        self._keys: dict[str, set[Key | None]] = {}
        self._said: set[tuple[str, object]] = set()

    def passing(self, core: Core) -> Core:
        """The same core, which passes over what it cannot read."""
        self._homes = {
            (view, tuple(at)): entity for entity, (view, at) in core.design.homes.items() if entity in core.places.of
        }
        return Core(core.model, core.design, core.engine, core.clock, codec=self._codec(core.codec))

    def _codec(self, codec: Codec) -> Codec:
        made = copy(codec)

        def reader(search: Search) -> Reader:
            found = codec.reader(search)
            one = copy(found)

            def answer(ask: Ask, reply: Reply) -> Answer:
                try:
                    return found.answer(ask, reply)
                except UnreadableError:
                    return found.sift(ask, reply, lambda error: self.add(search, error))

            one.answer = answer  # type: ignore[method-assign]
            return one

        made.reader = reader  # type: ignore[method-assign]
        return made

    def add(self, search: Search, error: UnreadableError) -> None:
        """Notes a row, once."""
        entity = self._homes.get((search.view, tuple(search.at)))
        key: Key | None = None
        if entity is not None:
            columns = self._model.entities[entity].key
            if all(error.values.get(column) is not None for column in columns):
                key = tuple(error.values[column] for column in columns)
            self._keys.setdefault(entity, set()).add(key)
        self.say(search.view, str(error), key)

    def lost(self, entity: str, view: str, what: str) -> None:
        """Notes a row that has no key."""
        self._keys.setdefault(entity, set()).add(None)
        self.say(view, what, None)

    def say(self, view: str, what: str, key: Key | None) -> None:
        if (view, key or what) not in self._said:
            self._said.add((view, key or what))
            self._note(view, what, key)

    def is_any(self, entity: str) -> bool:
        """Whether rows of an entity could not be read."""
        return entity in self._keys

    def has(self, entity: str, key: Key) -> bool:
        """Whether a row may be there, and cannot be read."""
        return not {key, None}.isdisjoint(self._keys.get(entity, ()))

    def unsure(self, place: Place) -> list[str]:
        """The paths of a view that lead through rows of which some could not be read."""
        if not self._keys:
            return []
        found = []
        for path in place.copies:
            entity = place.entity
            for role in path.roles:
                entity = self._model.entities[entity].roles[role].entity
                if entity in self._keys:
                    found.append(str(path))
                    break
        return found

    def certain(self, place: Place, rows: Iterable[Row]) -> list[bool]:
        """Of which rows the entries are: nothing that they repeat may stand in a row that cannot be read."""
        unsure = self.unsure(place)
        return [not any(row.get(path) is None for path in unsure) for row in rows]
