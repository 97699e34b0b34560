"""The key of a view as rows see it: the parts of a view, or of an embed inside it, in paths of the rows stored there.

An embed's rows stand under the key of their parent, which they know through their reference: the part `order_id` of a
view of orders is the column `order` of an item. So one list of parts, in the row's own paths, serves reading
(`given` conditions), writing (which entries does a row have) and resuming (where does a row stand).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from keyplan.errors import DesignError
from keyplan.model.model import Model, path_of
from keyplan.model.types import Type
from keyplan.model.values import truncate, truncated_type, words
from keyplan.plan.gaps import gap_text
from keyplan.plan.shards import shard_of
from keyplan.plan.view import COPIES, Part, View


@dataclass(frozen=True)
class KeyPart:
    """One part of a key, from the side of the row."""

    path: str
    cut: str | None = None
    ways: int = 1
    descending: bool = False
    also: tuple[str, ...] = ()
    hashed: tuple[str, ...] = ()
    """A shard: the paths whose values are hashed."""
    gaps: Type | None = None
    """The type of the values, where a missing one has a place of its own and all of them are kept as text."""

    def values(self, row: Mapping[str, Any]) -> list[Any]:
        """The values that this part takes for a row: none if it is missing, several for elements and words."""
        if self.cut == COPIES:
            return list(range(self.ways))
        if self.ways > 1:
            key = [row[path] for path in self.hashed]
            return [] if None in key else [shard_of(key, self.ways)]
        if self.cut == "words":
            texts = [row.get(path) for path in (self.path, *self.also)]
            return sorted(frozenset().union(*[words(text) for text in texts if text is not None]))
        value = row.get(self.path)
        if self.gaps is not None:
            cut = value if value is None or self.cut is None else truncate(value, self.cut)
            return [gap_text(self.gaps, cut)]
        if value is None:
            return []
        if self.cut is None:
            return [value]
        if self.cut == "each":
            return list(value)
        return [truncate(value, self.cut)]

    @property
    def is_plain(self) -> bool:
        """Whether it is a value of the row as it stands there."""
        return self.cut is None and self.ways == 1 and self.gaps is None

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that decide its value."""
        if self.cut == COPIES:
            return ()
        return self.hashed if self.ways > 1 else (self.path, *self.also)


@dataclass(frozen=True)
class Key:
    """The parts under which rows of `entity` are stored."""

    entity: str
    partition: tuple[KeyPart, ...]
    sort: tuple[KeyPart, ...]

    @cached_property
    def parts(self) -> tuple[KeyPart, ...]:
        return (*self.partition, *self.sort)

    @cached_property
    def _paths(self) -> tuple[str, ...] | None:
        """The paths of all parts, if each is a value of the row as it stands there."""
        return tuple(part.path for part in self.parts) if all(part.is_plain for part in self.parts) else None

    def of(self, row: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The keys of all entries that a row has, the view's `where` left aside."""
        if self._paths is not None:
            key = tuple([row.get(path) for path in self._paths])
            return [] if None in key else [key]
        values = [part.values(row) for part in self.parts]
        return list(product(*values))


def key_of(model: Model, view: View, at: tuple[str, ...] = ()) -> Key:
    """The key of a view's own entries, or of those of an embed inside it."""
    entity = view.entity
    hashed = model.entities[entity].key
    partition = [_plain(model, entity, part, hashed) for part in view.partition]
    sort = [_plain(model, entity, part, hashed) for part in view.sort]
    here: Any = view
    for name in at:
        embed = next((one for one in here.embeds if one.role == name), None)
        if embed is None:
            raise DesignError(f"view '{view.name}' has no embed '{name}'")
        role = model.entities[entity].roles[name]
        key = model.entities[entity].key
        seen = dict(zip(key, role.columns, strict=True))
        partition = [_from_child(view, part, seen) for part in partition]
        sort = [_from_child(view, part, seen) for part in sort]
        entity = embed.entity
        hashed = model.entities[entity].key
        sort += [_plain(model, entity, part, hashed) for part in embed.sort]
        here = embed
    return Key(entity, tuple(partition), tuple(sort))


def _plain(model: Model, entity: str, part: Part, hashed: tuple[str, ...]) -> KeyPart:
    if part.ways > 1:
        return KeyPart("", part.cut, part.ways, False, (), hashed)
    gaps = group_type(model, entity, part) if part.or_missing else None
    return KeyPart(part.path, part.cut, 1, part.descending, part.also, (), gaps)


def group_type(model: Model, entity: str, part: Part) -> Type:
    """The type of the values of a part that may be truncated."""
    type = model.column(entity, path_of(part.path, model, entity)).type
    return truncated_type(type, part.cut) if part.cut else type


def _from_child(view: View, part: KeyPart, seen: Mapping[str, str]) -> KeyPart:
    """A part of the parent's key in the child's paths."""
    try:
        return KeyPart(
            seen[part.path] if part.path else "",
            part.cut,
            part.ways,
            part.descending,
            tuple(seen[path] for path in part.also),
            tuple(seen[path] for path in part.hashed),
        )
    except KeyError as missing:
        raise DesignError(
            f"view '{view.name}' embeds rows under a key with {missing}, which they do not know"
        ) from None
