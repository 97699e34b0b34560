"""Where each view of a design lies in MongoDB: collections, the fields of their documents, embedded rows, and indexes.

Everything here follows from the model, the views and the names that `pack` chose; codec, changes and emit all read it.
A document has

- `_id`: the value of the view's key, or where it has several parts a document of them, in their order. BSON compares
  documents field by field, so that the index on `_id` is sorted as the view is. What stands there stands nowhere else;
- a field for every other path that the view holds, named like the path (`user.name` is `user_name`);
- `_expires` where rows expire, `_count` and its like where it counts a group;
- an array per embedded role, with a document per child row, without what the parent's `_id` says already; where it
  keeps only the first rows, `_comments_version` or its like counts the changes.

A packed view has a document per partition instead: its `_id` is made of the partition's values alone, and the array
`rows` has an element per entry, without what the `_id` says already. `_expires` then stands in the elements and, not
before that of any of them, in the document, which the server deletes when its last entry has expired. Totals of the
entries (`_count`, `sum_value`) stand beside the array.

A shared collection has documents of two entities: rows, and the children of one role beside them. Every `_id` there is
a document that begins with the parent's key, and goes on with `of`, which says what the document is. A child's goes on
with its place among its siblings, so that a range of `_id`s is a row with its children, in the order of these. The
parent's `of` begins with `!` or, where its children are read backwards, with `~`, so that reads begin with it.

A child row may be there before its parent, or outlive it. Then its document has no row of the parent: the field
`Place.presence` tells, which every row of the parent has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from keyplan.engines.mongodb.states import by_column, partial_filter
from keyplan.engines.mongodb.totals import total_slot
from keyplan.engines.mongodb.values import ID, Slot
from keyplan.errors import UnsupportedError
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.types import Type
from keyplan.plan.design import Design, Structure
from keyplan.plan.names import part_name
from keyplan.plan.types import measure_type, part_type, path_type
from keyplan.plan.view import COUNT, Embed, Measure, Part, View

HERE = "_row"
"""The field that says that a parent's row is there, where no column does."""
TOUCHED = "_touched"
"""What a check inside a transaction changes, so that it meets with whoever changes the document."""
EXPIRES_FIELD = "_expires"
ROWS = "rows"
"""The array of a packed view's document."""
ID_INDEX = "_id_"
OF = "of"
"""The field of a shared collection's `_id`s that says what the document is."""
RECORD_COLLECTION = "keyplan_design"

_OURS = {ID, HERE, TOUCHED, EXPIRES_FIELD}


@dataclass(frozen=True)
class KeyPart:
    """One part of a key: the slot that holds its value, and its direction."""

    slot: Slot
    descending: bool = False
    many: bool = False
    """One entry per element of an array."""


@dataclass
class Place:
    """The documents of one view, or the elements of one array in them."""

    view: View
    at: tuple[str, ...]
    entity: str
    collection: str
    parts: tuple[KeyPart, ...]
    """Of an embed: those of the parent's `_id`, then those of the embed's sort."""
    slots: dict[str, Slot]
    """Every path that can be read, and is stored."""
    array: str = ""
    """An embed or a packed view: the field of the array."""
    own: int = 0
    """An embed or a packed view: how many parts stand in the element itself."""
    limit: int | None = None
    """An embed that keeps only the first so many rows: in the order of its own parts."""
    version: str = ""
    """With a limit: the field of the document that counts the changes of these rows."""
    owner: str = ""
    """An embed: the reference by which its rows know the row whose document they are in."""
    children: dict[str, Place] = field(default_factory=dict)
    beside: dict[str, Place] = field(default_factory=dict)
    """A shared collection's rows: their children, documents of their own."""
    tag: str = ""
    """In a shared collection: what its documents have as `of`, behind the `shared` first parts of the `_id`."""
    shared: int = 0
    backwards: bool = False
    """Children beside their parent that are sorted downwards: the collection is read backwards for them."""
    presence: str = ""
    """With children: the field that every row has."""
    extends: dict[str, str] = field(default_factory=dict)
    """Measures that are extended rather than added to: path to min or max."""
    indexes: list[Index] = field(default_factory=list)
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Fields with the words of texts, and the paths of these texts."""
    totals: dict[str, tuple[Measure, Slot]] = field(default_factory=dict)
    """A packed view: the measures of all entries of a document, by name, and their fields."""
    partial: bool = False
    """Documents hold more than this: it is the totals of a packed view alone."""
    order: Index | None = None
    """Where the key has parts in both directions: the index that is sorted so."""

    @property
    def where(self) -> str:
        """As errors name it."""
        return f"collection '{self.collection}'"

    @property
    def key(self) -> tuple[Slot, ...]:
        return tuple(part.slot for part in self.parts)

    @property
    def id_tag(self) -> tuple[int, str, str] | None:
        """Where an `_id` says what its document is, under which name, and how; None if it need not."""
        return (self.shared, OF, self.tag) if self.tag else None

    @property
    def only_these(self) -> dict[str, Any]:
        """The condition on documents that they are this place's, where others are in the same collection."""
        return {f"{ID}.{OF}": {"$eq": self.tag}} if self.tag else {}

    @property
    def together(self) -> tuple[Place, ...]:
        """The places whose documents are in the collection."""
        return (self, *self.beside.values())

    @property
    def own_key(self) -> tuple[Slot, ...]:
        """An embed: the parts that tell its elements apart within a document."""
        return self.key[len(self.parts) - self.own :]

    @property
    def own_ways(self) -> tuple[bool, ...]:
        """An embed: for each of these parts, whether it is sorted downwards."""
        return tuple(part.descending for part in self.parts[len(self.parts) - self.own :])

    @property
    def root_key(self) -> tuple[Slot, ...]:
        """The parts of the `_id`."""
        return self.key[: len(self.parts) - self.own]

    @property
    def stored(self) -> tuple[Slot, ...]:
        """The slots that have a field of their own, outside the `_id`."""
        return tuple(slot for slot in self.slots.values() if slot.field.partition(".")[0] != ID)

    @property
    def expires(self) -> bool:
        return EXPIRES in self.slots

    @property
    def packed(self) -> bool:
        """Whether a document holds all entries of a partition."""
        return bool(self.array) and not self.at


@dataclass
class Index:
    """An index that MongoDB keeps over a collection."""

    view: View
    name: str
    place: Place
    parts: tuple[KeyPart, ...]
    partial: dict[str, Any]
    """The condition of a partial index, which every query through it repeats."""
    unique: bool = False
    inner: Place | None = None
    """Over the elements of an array: their place."""

    @property
    def keys(self) -> list[tuple[str, int]]:
        return [(part.slot.field, -1 if part.descending else 1) for part in self.parts]

    def is_like(self, other: Index) -> bool:
        """Whether MongoDB could not tell one from the other."""
        return (list(self.fields.items()), self.partial, self.unique) == (
            list(other.fields.items()),
            other.partial,
            other.unique,
        )

    @property
    def fields(self) -> dict[str, int]:
        """The index's own key. MongoDB takes the `_id` alone for its own index, which cannot be partial."""
        found = dict(self.keys)
        if list(found) == [ID]:
            found |= dict.fromkeys(sorted(self.partial), 1)
        return found


@dataclass
class Layout:
    """All places and indexes of a design."""

    places: dict[tuple[str, tuple[str, ...]], Place]
    """By view and the roles that lead to an embed inside it."""
    indexes: dict[str, Index]
    """By view."""
    totals: dict[str, Place]
    """By view: the documents of a packed one, as groups with their measures."""

    @property
    def collections(self) -> list[Place]:
        """A place per collection, of whole documents; others may be `beside` it."""
        return [place for place in self.places.values() if not place.at]


def layout(model: Model, design: Design) -> Layout:
    """The layout of a design."""
    return arrange(model, design.views, design.structures, design.homes)


def arrange(
    model: Model,
    views: Mapping[str, View],
    structures: Iterable[Structure],
    homes: Mapping[str, tuple[str, tuple[str, ...]]],
) -> Layout:
    places: dict[tuple[str, tuple[str, ...]], Place] = {}
    indexes: dict[str, Index] = {}
    totals: dict[str, Place] = {}
    listed = [(views[name], structure) for structure in structures for name in structure.views]
    for view, structure in listed:
        if not view.base:
            for place in _collection(model, view, structure.name):
                places[view.name, place.at] = place
    for view, structure in listed:
        if view.base and view.measures:
            totals[view.name] = _totals(model, view, places[view.base, ()])
        elif view.base:
            base = places[view.base, _base_at(views, homes, view)]
            made = _over_elements(view, structure, base, places) if base.array else _index(model, view, structure, base)
            base = made.place
            same = next((one for one in base.indexes if one.is_like(made)), None)
            if same is not None:  # two views that come to one index: MongoDB has it once
                made.name = same.name
            elif list(made.fields) == [ID]:
                made.name = ID_INDEX  # there already
            else:
                base.indexes.append(made)
            indexes[view.name] = made
    return Layout(places, indexes, totals)


def _base_at(
    views: Mapping[str, View], homes: Mapping[str, tuple[str, tuple[str, ...]]], view: View
) -> tuple[str, ...]:
    """The roles that lead to the rows which an index view is of."""
    home, at = homes.get(view.entity, (view.base, ()))
    if home == view.base:
        return tuple(at)
    if views[view.base].entity == view.entity:
        return ()
    return next((one.role,) for one in views[view.base].embeds if one.entity == view.entity)


class FieldNames:
    """Names for the fields of one document, each once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*_OURS, *taken}

    def of(self, path: str) -> str:
        """A name that reads like the path, and that MongoDB takes for a name and never for a path or operator."""
        if path == EXPIRES:
            return EXPIRES_FIELD
        name = f"_{path[1:]}" if path.startswith("$") else path
        name = re.sub(r"\W+", "_", name)
        name = name.rstrip("_") if path.endswith(")") else name
        while name in self._taken or not name:
            name += "_"
        self._taken.add(name)
        return name


def _packed(model: Model, view: View, name: str) -> Place:
    """A document per partition, with its entries in an array."""
    if view.embeds or view.measures or view.unique or not view.partition or not view.sort:
        raise UnsupportedError(f"view '{view.name}': entries are packed by partition, and embed nothing")
    if any(part.cut or part.ways > 1 or part.path not in view.holds for part in view.sort):
        raise UnsupportedError(f"view '{view.name}': packed entries are told apart by plain values that they hold")
    around, inside = FieldNames(), FieldNames()
    slots: dict[str, Slot] = {}
    parts = []
    for part in view.partition:
        path = part_name(part)
        where = ID if len(view.partition) == 1 else f"{ID}.{around.of(path)}"
        slots[path] = Slot(path, where, part_type(model, view.entity, part), nullable=False)
        parts.append(KeyPart(slots[path]))
    for path in view.holds:
        if path not in slots:
            slots[path] = _slot(model, view.entity, path, inside)
    for part in view.sort:  # what has no value there has no entry
        slots[part.path] = replace(slots[part.path], nullable=False)
        parts.append(KeyPart(slots[part.path], part.descending))
    return Place(view, (), view.entity, name, tuple(parts), slots, array=ROWS, own=len(view.sort))


def _totals(model: Model, view: View, place: Place) -> Place:
    """Totals beside the entries of a packed view, and its documents as groups that have them."""
    if not place.packed or tuple(place.view.partition) != view.parts:
        raise UnsupportedError(f"view '{view.name}': totals are kept by the partitions of a packed view")
    names = FieldNames((place.array, *(slot.field for _, slot in place.totals.values())))
    for measure in view.measures:
        if measure.name not in place.totals:
            place.totals[measure.name] = (measure, total_slot(model, view.entity, measure, names.of(measure.name)))
    parts = place.parts[: len(place.root_key)]
    slots = {part.slot.path: part.slot for part in parts}
    slots |= {measure.name: place.totals[measure.name][1] for measure in view.measures}
    return Place(view, (), view.entity, place.collection, parts, slots, partial=True)


def _collection(model: Model, view: View, name: str) -> list[Place]:
    if view.packed:
        return [_packed(model, view, name)]
    if view.kind == "shared":
        return _shared(model, view, name)
    if view.embeds and view.measures:
        raise UnsupportedError(f"view '{view.name}': groups embed nothing")
    inner, outer = FieldNames(), FieldNames(embed.role for embed in view.embeds)
    slots: dict[str, Slot] = {}
    single = len(view.parts) == 1
    parts = []
    for part in view.parts:
        path = part_name(part)
        where = ID if single else f"{ID}.{inner.of(path)}"
        slots[path] = Slot(path, where, part_type(model, view.entity, part), nullable=False)
        parts.append(KeyPart(slots[path], part.descending))
    extends = {}
    if view.measures:
        slots[COUNT] = Slot(COUNT, outer.of(COUNT), Type("int"), nullable=False)
        for measure in view.measures:
            type = measure_type(model, view.entity, measure)
            if measure.how in ("min", "max"):
                extends[measure.name] = measure.how
            wide = measure.how == "sum" and type.kind in ("int", "decimal")
            if measure.name not in slots:
                nullable = measure.how in ("min", "max")
                made = Slot(measure.name, outer.of(measure.name), type, nullable, wide)
                if wide:
                    made = replace(made, high=outer.of(f"{measure.name} high"))
                slots[measure.name] = made
    for path in view.holds:
        if path not in slots:
            slots[path] = _slot(model, view.entity, path, outer)
    place = Place(view, (), view.entity, name, tuple(parts), slots, extends=extends)
    if len({part.descending for part in parts}) > 1:
        place.order = Index(view, "key_order", place, place.parts, {})
    elif any(part.descending for part in parts):
        raise UnsupportedError(f"view '{view.name}': an `_id` is sorted upwards; read it the other way round")
    if view.embeds:
        always = (
            slot.field
            for slot in place.stored
            if not slot.nullable and not slot.type.is_collection and slot.path in model.entities[view.entity].columns
        )
        place.presence = next(always, HERE)
    return [place, *(_embed(model, place, embed, outer) for embed in view.embeds)]


def _shared(model: Model, view: View, name: str) -> list[Place]:
    """Rows, and behind each of them those of one role, as documents of one collection."""
    if len(view.embeds) != 1 or view.measures or view.where or view.unique:
        raise UnsupportedError(f"view '{view.name}': a collection is shared by rows and by those of one role")
    (embed,) = view.embeds
    if embed.embeds or embed.limit is not None or len({part.descending for part in embed.sort}) != 1:
        raise UnsupportedError(f"view '{view.name}': children are beside their parent in one order, all of them")
    role = model.entities[view.entity].roles[embed.role]
    seen = dict(zip(model.entities[view.entity].key, role.columns, strict=True))
    inner = FieldNames((OF,))
    first = [(part.path, f"{ID}.{inner.of(part.path)}", part_type(model, view.entity, part)) for part in view.parts]
    own = {path: Slot(path, where, type, nullable=False) for path, where, type in first}
    common = {seen[path]: Slot(seen[path], where, type, nullable=False) for path, where, type in first}
    rest = {part.path: f"{ID}.{inner.of(part.path)}" for part in embed.sort}
    for part in embed.sort:
        common[part.path] = Slot(part.path, rest[part.path], part_type(model, embed.entity, part), nullable=False)
    backwards = embed.sort[0].descending
    parent = Place(view, (), view.entity, name, tuple(map(KeyPart, own.values())), own)
    parent.tag, parent.shared = f"{'~' if backwards else '!'}{view.entity}", len(own)
    child = Place(view, (embed.role,), embed.entity, name, tuple(map(KeyPart, common.values())), common)
    child.tag, child.shared, child.backwards = embed.entity, len(own), backwards
    parent.beside[embed.role] = child
    for place, holds in ((parent, view.holds), (child, embed.holds)):
        names = FieldNames()
        place.slots = {**place.slots}
        for path in holds:
            if path not in place.slots:
                place.slots[path] = _slot(model, place.entity, path, names)
    return [parent, child]


def _slot(model: Model, entity: str, path: str, names: FieldNames) -> Slot:
    type, nullable = path_type(model, entity, path)
    copied = type.is_collection and path not in model.entities[entity].columns
    return Slot(path, names.of(path), type, nullable, copied=copied)


def _embed(model: Model, parent: Place, embed: Embed, outer: FieldNames) -> Place:
    if embed.embeds:
        raise UnsupportedError(f"view '{parent.view.name}': rows are embedded one level deep")
    role = model.entities[parent.entity].roles[embed.role]
    seen = dict(zip(model.entities[parent.entity].key, role.columns, strict=True))
    names = FieldNames()
    slots: dict[str, Slot] = {}
    parts = []
    for part in parent.parts:
        if part.slot.path not in seen:
            raise UnsupportedError(f"view '{parent.view.name}': rows are embedded under their parent's key alone")
        path = seen[part.slot.path]
        slots[path] = Slot(path, part.slot.field, part.slot.type, nullable=False)
        parts.append(KeyPart(slots[path], part.descending))
    for path in embed.holds:
        if path not in slots:
            slots[path] = _slot(model, embed.entity, path, names)
    for one in embed.sort:
        parts.append(KeyPart(slots[one.path], one.descending))
    place = Place(parent.view, (embed.role,), embed.entity, parent.collection, tuple(parts), slots)
    place.array, place.own, place.owner = embed.role, len(embed.sort), role.field
    if embed.limit is not None:
        place.limit, place.version = embed.limit, outer.of(f"${embed.role}_version")
    parent.children[embed.role] = place
    return place


def _index(model: Model, view: View, structure: Structure, place: Place) -> Index:
    parts = []
    partial: dict[str, Any] = {}
    for part in view.parts:
        if part.ways > 1 or part.cut not in (None, "each", "words") or part.path not in place.slots:
            raise UnsupportedError(f"view '{view.name}': a mongodb index cannot have the part '{part}'")
        if part.cut == "words":
            parts.append(KeyPart(_words(place, part), many=True))
            continue
        slot = place.slots[part.path]
        made = slot
        if part.cut == "each":
            made = Slot(part_name(part), slot.field, part_type(model, view.entity, part), nullable=False)
        elif slot.nullable:
            partial[slot.field] = {"$exists": True}
        parts.append(KeyPart(made, part.descending, part.cut == "each"))
    for path, conditions in by_column(view).items():
        slot = place.slots[path]
        partial[slot.field] = partial_filter(view, slot, conditions)
    if place.presence:
        partial.setdefault(place.presence, {"$exists": True})
    partial |= place.only_these
    return Index(view, structure.name, place, tuple(parts), partial, view.unique)


def _words(place: Place, part: Part) -> Slot:
    """The array that holds the words of some texts."""
    paths = (part.path, *part.also)
    name = re.sub(r"\W+", "_", "_".join(("_words", *paths)))
    taken = {slot.field for slot in place.stored} | set(place.children)
    while name in taken or place.words.get(name, paths) != paths:
        name += "_"
    place.words[name] = paths
    return Slot(part_name(part), name, Type("string"), nullable=False)


def _over_elements(
    view: View, structure: Structure, inner: Place, places: Mapping[tuple[str, tuple[str, ...]], Place]
) -> Index:
    """An index over a field of an array's elements and fields of their document, and the `_id` behind them.

    Elements whose owner's row is not there have no entry where one of its fields is in the key.
    """
    width = len(inner.key)
    if view.kind != "elements" or tuple(part.path for part in view.sort[-width:]) != tuple(s.path for s in inner.key):
        raise UnsupportedError(
            f"view '{view.name}': rows inside others are found by one field, in the order of the key"
        )
    document = places[inner.view.name, ()]
    parts = []
    partial: dict[str, Any] = {}
    for part in view.parts[:-width]:
        # Elements may have a copy of the owner's field, because they are counted by it: the document's own is meant.
        owners = part.path.startswith(f"{inner.owner}.") and part.path.partition(".")[2] in document.slots
        if part.path in inner.slots and not owners:
            slot = inner.slots[part.path]
            parts.append(KeyPart(Slot(slot.path, f"{inner.array}.{slot.field}", slot.type, nullable=False), many=True))
            continue
        slot = owner_slot(document, inner, part.path)
        partial[slot.field] = {"$exists": True}
        parts.append(KeyPart(replace(slot, nullable=False)))
    if sum(part.many for part in parts) != 1:
        raise UnsupportedError(f"view '{view.name}': rows inside others are found by one field of theirs")
    parts.append(KeyPart(Slot(ID, ID, Type("string"), nullable=False)))
    return Index(view, structure.name, document, tuple(parts), partial, inner=inner)


def owner_slot(document: Place, inner: Place, path: str) -> Slot:
    """The slot of a column of the row that embedded rows are in, under the path by which they know it."""
    role, _, column = path.partition(".")
    if role != inner.owner or column not in document.slots:
        raise UnsupportedError(f"view '{inner.view.name}' does not hold '{path}' with its '{inner.array}'")
    return replace(document.slots[column], path=path)
