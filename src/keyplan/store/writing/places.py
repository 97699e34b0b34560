"""Places: every view, and embed inside a view, that keyplan itself has to keep true when rows of an entity change.

A place turns a row into the entries it has there. Rows come with the values that the place copies through references
(`user.name`) already in them; `World` (world.py) puts them in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from keyplan.engines.base import Kind
from keyplan.engines.composed import ComposedKey, composed_keys
from keyplan.engines.upserts import is_told_apart, needs_row
from keyplan.errors import DesignError
from keyplan.model.changing import changing_columns
from keyplan.model.entity import Role
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Path, term_paths
from keyplan.model.types import Type
from keyplan.plan.dangling import dangling_role
from keyplan.plan.design import Design
from keyplan.plan.terms import compile_term
from keyplan.plan.view import COPIES, COUNT, Embed, Measure, View
from keyplan.store.reading.filter import Call, Holds, compile_filter
from keyplan.store.reading.keys import Key, KeyPart, key_of

Row = dict[str, Any]
_ALWAYS = datetime(1, 1, 1, tzinfo=UTC)


@dataclass
class Place:
    """Where rows of one entity have entries."""

    view: View
    at: tuple[str, ...]
    entity: str
    key: Key
    holds: tuple[str, ...]
    where: Holds | None
    home: bool
    exact: bool
    """The key is made of the entity's key alone, so that a row that is not there can be named, too."""
    copies: tuple[Path, ...]
    """Paths through references, held or in the key."""
    key_copies: bool
    lasting: frozenset[str]
    """Copies from rows that expire: what an entry holds may outlive the row that it came from."""
    own: frozenset[str]
    """Own columns that an entry depends on; a change of others does not concern this place."""
    deciding: frozenset[str]
    """Own columns, key parts of the entity left out, that decide which entries there are."""
    composed: tuple[ComposedKey, ...]
    """The keys under which the engine's own views over this one have the row."""
    measures: tuple[tuple[Measure, Any], ...] = ()
    """With the function that works out each one's expression."""
    extremes: bool = False
    limit: int | None = None
    """Of the rows under one parent, only the first so many have an entry: see `subsets.py`."""
    dangling: Role | None = None
    """The reference whose rows without a target are those that have an entry here."""

    @cached_property
    def composing(self) -> frozenset[str]:
        """Paths that the engine's own views over this one compose their keys of."""
        return frozenset().union(*(key.paths for key in self.composed))

    @cached_property
    def keyed(self) -> frozenset[str]:
        """Paths whose values are in the key as they are."""
        return frozenset(
            part.path for part in self.key.parts if part.cut is None and part.ways == 1 and part.gaps is None
        )

    @cached_property
    def lags(self) -> bool:
        """Whether an entry may stand under another key than its row says for now: the copied part of it has changed in
        the row behind, and whoever did that has yet to move the entry. Only after that can it be taken away."""
        return self.key_copies and not (self.measures or self.dangling or self.limit)

    @cached_property
    def key_paths(self) -> tuple[Path, ...]:
        """The copies that a key is made of, or that decide whether there is one."""
        decides = {path for part in self.key.parts for path in part.paths}
        decides |= {str(path) for condition in self.view.where for path in (condition.path, *condition.also)}
        return tuple(path for path in self.copies if str(path) in decides)

    @cached_property
    def meets(self) -> bool:
        """Whether several rows decide on a key, so that an entry may lag behind more than one of them."""
        ways = {path.roles for path in self.key_paths}
        return len(ways) > 1 or any(len(way) > 1 for way in ways)

    def keys(self, row: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The keys of the entries that a row has here."""
        if self.where is not None and not self.where(row):
            return []
        return self.key.of(row)

    def entry(self, row: Mapping[str, Any]) -> Row:
        """What an entry holds of a row, as far as it is known."""
        return {path: row[path] for path in self.holds if path in row}

    def parent_of(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """Of the key of an embedded entry, the part that is the parent's."""
        return key[: len(self.view.parts)]

    def amounts(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What a row contributes to each measure; missing contributions are left out."""
        found: dict[str, Any] = {COUNT: 1}
        for measure, value in self.measures:
            if measure.term is None:
                found[measure.name] = 1
                continue
            amount = value(row)
            if amount is not None:
                found[measure.name] = 1 if measure.how == "count" else amount
        return found


@dataclass
class Watch:
    """Rows of `entity` copy `columns` of the row that `roles` lead to."""

    entity: str
    roles: tuple[str, ...]
    columns: frozenset[str]


@dataclass(frozen=True)
class Kept:
    """A computed column that the home of its entity holds, because a key is made of it or others copy it."""

    entity: str
    column: str
    how: str
    child: str
    role: str
    """The child's reference, and its columns."""
    columns: tuple[str, ...]
    term: str | None
    """The child's column that is summed or compared."""
    type: Type


@dataclass
class Places:
    """All places of a design, by entity, and who copies from whom."""

    of: dict[str, list[Place]] = field(default_factory=dict)
    watches: dict[str, list[Watch]] = field(default_factory=dict)
    """By the entity that is copied from."""
    marks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Per entity: the paths behind references that decide in which groups its rows count, and how much. The home holds
    them as well: what a row is counted under is what its home says, whatever the row behind has become since, so that
    it leaves that group exactly once."""
    marked_by: dict[str, frozenset[str]] = field(default_factory=dict)
    """Per entity: the columns of the references that its marks begin with."""
    changing: dict[str, frozenset[str]] = field(default_factory=dict)
    """Per entity: the columns that some write of the model changes or takes away, in rows that are there."""

    leaving: frozenset[str] = frozenset()
    """The entities whose rows some write deletes, or that expire."""
    kept: dict[str, list[Kept]] = field(default_factory=dict)
    """Per entity: the computed columns that its home holds."""
    copied: dict[str, list[Kept]] = field(default_factory=dict)
    """Per entity: those of them that rows of others copy. Behind a reference they have a value even where it leads to
    no row, as they depend on the key alone."""
    feeds: dict[str, list[Kept]] = field(default_factory=dict)
    """Per entity: the computed columns of other rows that its rows change."""
    beyond: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    """Per entity: what stands behind references of its rows and is in the keys of entries of others, which copy it by
    way of them."""
    made: frozenset[str] = frozenset()
    """The upserts with `set` or `add` that are left to the engine, whether there is a row or not."""

    def carried(self, entity: str) -> tuple[str, ...]:
        """What a home holds besides the stored columns because something is worked out from it at a write."""
        return (*self.marks[entity], *(kept.column for kept in self.kept[entity]))

    def may_return(self, entity: str) -> bool:
        """Whether rows may be gone and come again that others are noted to point at while they are not there."""
        noted = any(place.dangling and place.dangling.entity == entity for some in self.of.values() for place in some)
        return noted and entity in self.leaving

    def placing(self, entity: str) -> list[str]:
        """The columns of a row, its key left out, that decide where those of its entries stand that may lag."""
        return sorted({column for place in self.of[entity] if place.lags for column in place.deciding})

    def home(self, entity: str) -> Place:
        return next(place for place in self.of[entity] if place.home)

    def exact(self, entity: str) -> Place | None:
        """The place by which a row is known to exist or not."""
        found = [place for place in self.of[entity] if place.exact and not place.measures]
        return next((place for place in found if place.home), found[0] if found else None)


def find_places(model: Model, design: Design, kinds: Mapping[str, Kind]) -> Places:
    """The places of all entities."""
    places = Places({name: [] for name in model.entities}, {name: [] for name in model.entities})
    places.changing = changing_columns(model)
    places.leaving = frozenset(name for name, about in model.entities.items() if places.changing[name] & {*about.key})
    places.kept = {name: [] for name in model.entities}
    places.copied = {name: [] for name in model.entities}
    places.feeds = {name: [] for name in model.entities}
    for view in design.views.values():
        if view.base:
            continue
        for at, embed in _levels(view):
            place = _place(model, design, kinds, view, at, embed)
            places.of[place.entity].append(place)
    for entity, found in places.of.items():
        if not any(place.home for place in found):
            raise DesignError(f"the design has no home for '{entity}'")
        found.sort(key=lambda place: not place.home)
        _watch(model, entity, found, places)
        _mark(model, entity, found, places)
    for entity, found in places.of.items():
        _keep(model, entity, found, places)
    places.beyond = _beyond(model, places)
    views = design.views.values()
    places.made = frozenset(
        name
        for name, write in model.writes.items()
        if is_told_apart(model, write) and not any(needs_row(model, kinds, write, view) for view in views)
    )
    return places


def _beyond(model: Model, places: Places) -> dict[str, tuple[Path, ...]]:
    found: dict[str, dict[Path, None]] = {name: {} for name in model.entities}
    for place in (one for some in places.of.values() for one in some if one.lags):
        for path in place.key_paths:
            for depth in range(1, len(path.roles)):
                found[model.entity_at(place.entity, path.roles[:depth])][Path(path.roles[depth:], path.column)] = None
    return {name: tuple(some) for name, some in found.items()}


def _keep(model: Model, entity: str, found: list[Place], places: Places) -> None:
    """Notes the computed columns that a home holds, and whose rows they depend on."""
    about = model.entities[entity]
    home = places.home(entity)
    for column in about.columns.values():
        computed = column.computed
        copied = any(column.name in watch.columns for watch in places.watches[entity])
        if computed is None or not (copied or any(column.name in place.own for place in found)):
            continue
        if column.name not in home.holds:
            raise DesignError(
                f"view '{home.view.name}' has to hold '{column.name}', which a key is made of, or which others copy"
            )
        role = about.roles[computed.role]
        kept = Kept(
            entity, column.name, computed.how, role.entity, role.field, role.columns, computed.column, column.type
        )
        places.kept[entity].append(kept)
        places.copied[entity] += [kept] if copied else []
        places.feeds[role.entity].append(kept)
    places.changing[entity] |= {kept.column for kept in places.kept[entity]}


def _mark(model: Model, entity: str, found: list[Place], places: Places) -> None:
    """Notes what rows are counted under, and that their home holds it."""
    marks = {str(path): path for place in found if place.measures for path in place.copies}
    home = places.home(entity)
    for text in marks:
        if text not in home.holds:
            raise DesignError(f"view '{home.view.name}' has to hold '{text}', which rows of '{entity}' are counted by")
    places.marks[entity] = tuple(sorted(marks))
    roles = model.entities[entity].roles
    places.marked_by[entity] = frozenset(column for path in marks.values() for column in roles[path.roles[0]].columns)


def _levels(view: View) -> Iterator[tuple[tuple[str, ...], Embed | None]]:
    yield (), None
    yield from view.nested()


def _known_path(model: Model, entity: str, text: str) -> Path:
    try:
        return path_of(text, model, entity)
    except KeyError:
        raise DesignError(f"the design names a path '{text}' that the model does not have") from None


def _place(
    model: Model, design: Design, kinds: Mapping[str, Kind], view: View, at: tuple[str, ...], embed: Embed | None
) -> Place:
    key = key_of(model, view, at)
    entity = model.entities[key.entity]
    holds = embed.holds if embed is not None else view.holds
    where = compile_filter(model, key.entity, view.where) if embed is None else None
    if embed is not None and view.where:
        raise DesignError(f"view '{view.name}' embeds rows and has a condition, which cannot be kept true")
    decides = {path for part in key.parts for path in part.paths}
    decides |= {str(path) for condition in view.where for path in (condition.path, *condition.also)}
    terms = {str(path) for measure in view.measures for path in term_paths(measure.term)}
    copies = tuple(
        path
        for path in (_known_path(model, key.entity, text) for text in dict.fromkeys((*holds, *sorted(decides | terms))))
        if path.roles
    )
    references = {column for path in copies for column in entity.roles[path.roles[0]].columns}
    mutable = {path for path in decides | terms | references if path in entity.columns and path not in entity.key}
    own = {path for path in {*holds, *decides, *terms} if path in entity.columns} | references
    home_view, home_at = design.homes[key.entity]
    limit = embed.limit if embed is not None else None
    return Place(
        view=view,
        at=at,
        entity=key.entity,
        key=key,
        holds=tuple(holds),
        where=where(Call({}, _ALWAYS), {}) if where is not None else None,
        home=(view.name, at) == (home_view, tuple(home_at)),
        exact=not view.where and limit is None and all(_is_exact(part, entity.key) for part in key.parts),
        copies=copies,
        key_copies=any(str(path) in decides | terms for path in copies),
        lasting=frozenset(str(path) for path in copies if _expires(model, key.entity, path)),
        own=frozenset(own),
        deciding=frozenset(mutable),
        composed=composed_keys(model, design.views.values(), kinds, view.name, key.entity),
        measures=tuple((one, compile_term(one.term) if one.term else None) for one in view.measures),
        extremes=any(one.how in ("min", "max") for one in view.measures),
        limit=limit,
        dangling=dangling_role(model, view) if embed is None else None,
    )


def _expires(model: Model, entity: str, path: Path) -> bool:
    depths = range(1, len(path.roles) + 1)
    return any(model.entities[model.entity_at(entity, path.roles[:depth])].ttl is not None for depth in depths)


def _is_exact(part: KeyPart, key: tuple[str, ...]) -> bool:
    if part.cut == COPIES:
        return False
    return part.ways > 1 or (part.cut not in ("each", "words") and part.path in key)


def _watch(model: Model, entity: str, found: list[Place], places: Places) -> None:
    """Notes whom the places of an entity copy from."""
    watched: dict[tuple[str, ...], set[str]] = {}
    for place in found:
        for path in place.copies:
            watched.setdefault(path.roles, set()).add(path.column)
            for depth in range(1, len(path.roles)):
                before = model.entity_at(entity, path.roles[:depth])
                columns = model.entities[before].roles[path.roles[depth]].columns
                watched.setdefault(path.roles[:depth], set()).update(columns)
    for roles, some in watched.items():
        target = model.entity_at(entity, roles)
        places.watches[target].append(Watch(entity, roles, frozenset(some)))
