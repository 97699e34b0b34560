"""The entries that the store keeps of a row itself, as far as a write has to know of them: where each stands, what it
repeats, and what depends on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from keyplan.engines.base import Kind
from keyplan.engines.composed import ComposedKey, composed_keys
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Path, term_paths
from keyplan.plan.view import COPIES, Embed, View


@dataclass(frozen=True)
class Kept:
    """Entries of an entity's rows that the store keeps itself: a view, or an embed in one."""

    entity: str
    holds: frozenset[str]
    decides: frozenset[str]
    """Own columns, those of the entity's key left out, that decide under which keys a row stands."""
    copies: tuple[Path, ...]
    key_copies: bool
    composed: tuple[ComposedKey, ...]
    """The keys under which the engine's own views over this one have the row."""
    groups: bool
    extended: bool
    """Groups keep a minimum or maximum."""
    recomputed: bool
    """It is worked out anew when a row goes."""
    unique: bool
    many: float
    """Entries per row: more than one where it is one for each of several values."""
    subset: tuple[str, Embed] | None = None
    """Only the first children of each row of an entity have an entry."""

    def composes_copies(self, columns: Set[str]) -> bool:
        """Whether a key that depends on some of these columns is composed of copied values as well."""
        copies = {str(path) for path in self.copies}
        return any(columns & key.paths and copies & key.paths for key in self.composed)


def kept_entries(model: Model, view: View, views: Sequence[View], kinds: Mapping[str, Kind]) -> Iterator[Kept]:
    """A view that the store keeps, and its embeds, as their rows see them."""
    embeds = [(embed.entity, embed.holds, _embed_key(model, view, embed), at) for at, embed in view.nested()]
    parts = tuple(path for part in view.parts for path in (part.path, *part.also) if path)
    for entity, holds, key, at in ((view.entity, view.holds, parts, ()), *embeds):
        embed = view.embed_at(at)
        here = model.entities[entity]
        decides, terms = set(key), set()
        if not at:
            decides |= {str(path) for condition in view.where for path in (condition.path, *condition.also)}
            terms = {str(path) for measure in view.measures for path in term_paths(measure.term)}
        paths = [path_of(text, model, entity) for text in dict.fromkeys((*holds, *sorted(decides | terms)))]
        copies = tuple(path for path in paths if path.roles)
        many = 1.0
        for part in view.parts if not at else ():
            many *= part.ways if part.cut == COPIES else 1
            if part.cut in ("each", "words"):
                many *= 2.0
        yield Kept(
            entity,
            frozenset(holds),
            frozenset(text for text in decides | terms if text in here.columns and text not in here.key),
            copies,
            any(str(path) in decides | terms for path in copies),
            composed_keys(model, views, kinds, view.name, entity),
            bool(view.measures) and not at,
            bool(view.extended) and not at,
            bool(view.recomputed) and not at,
            view.unique and not at,
            many,
            (view.entity, embed) if embed is not None and embed.limit is not None else None,
        )


def _embed_key(model: Model, view: View, embed: Embed) -> tuple[str, ...]:
    """The paths that the rows of an embed stand under; those of a subset may be pointed at another parent."""
    sort = tuple(part.path for part in embed.sort)
    return sort if embed.limit is None else (*model.entities[view.entity].roles[embed.role].columns, *sort)
