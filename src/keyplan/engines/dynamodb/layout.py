"""Where each view of a design lies: the keys and attributes of its items, and the index entries they have.

Everything here follows from the model, the views and the tags that `pack` chose; codec, changes, words and emit all
read it. An item has

- `PK` and `SK`: a tag, and behind it the values of the view's partition and sort (`keys.py`),
- an attribute for every path that the view holds, named by the path,
- `GSI1PK`, `GSI1SK` …: the keys of its index entries, absent where it has none,
- of an index with several key attributes, `GSI1PK` and what cannot be a key as it is stored (`native.py`),
- `LSI1SK` …: the sort keys of its entries in local indexes, which have its `PK`,
- `ttl` beside `$expires`: the second after which DynamoDB may delete the item.

Rows that a view embeds are items of their own under their parent's `SK` (`ORDER#`, `ORDER#ITEM#…`; `families.py`), so
that one Query brings them together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

from keyplan.engines.composed import may_be_missing
from keyplan.engines.dynamodb.families import ABOVE_PARENT, children_prefix
from keyplan.engines.dynamodb.keys import KeyCodec, KeyPart
from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.engines.dynamodb.native import KeyAttribute, key_attributes
from keyplan.engines.dynamodb.sums import is_wide, joined, split
from keyplan.engines.dynamodb.values import attribute_decoder, attribute_encoder
from keyplan.engines.unreadable import guarded
from keyplan.errors import UnsupportedError
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Literal
from keyplan.model.predicate import compile_condition, operands
from keyplan.model.types import Type
from keyplan.model.values import truncate
from keyplan.plan.children import is_downwards
from keyplan.plan.design import Design, Structure
from keyplan.plan.intents import INTENT_MODEL, INTENT_VIEW
from keyplan.plan.shards import shard_of
from keyplan.plan.types import measure_type, part_type, path_type
from keyplan.plan.view import COUNT, Embed, Part, View

PK, SK, TTL = "PK", "SK", "ttl"
RECORD_TAG = "KEYPLAN"
"""The partition in which a table's own design is recorded; no view has it."""

_RESERVED = re.compile(r"(PK|SK|ttl|GSI[0-9]+(PK|SK|K[0-9]+)|LSI[0-9]+SK)_*")

Item = Mapping[str, dict[str, Any]]
Row = dict[str, Any]
Entry = Mapping[str, Any]


def attribute_name(path: str) -> str:
    """The attribute that holds a path: its own name, unless that is one of ours.

    >>> [attribute_name(path) for path in ("user.name", "ttl", "ttl_")]
    ['user.name', 'ttl_', 'ttl__']
    """
    return f"{path}_" if _RESERVED.fullmatch(path) else path


@dataclass(frozen=True)
class Slot:
    """One attribute of an item."""

    path: str
    attribute: str
    type: Type
    encode: Callable[[Any], dict[str, Any] | None] = field(repr=False, compare=False)
    decode: Callable[[dict[str, Any] | None], Any] = field(repr=False, compare=False)
    total: bool = False
    """A kept aggregate, which may pass the range of its type."""
    high: str = ""
    """A sum that may have more digits than a number: the attribute of its leading ones."""

    def attributes(self, value: Any) -> dict[str, dict[str, Any] | None]:
        """What its attributes have for a value, or what is added to them for an amount."""
        if not self.high:
            return {self.attribute: self.encode(value)}
        leading, rest = split(self.type, value) if value is not None else (0, None)
        return {self.attribute: self.encode(rest), self.high: {"N": str(leading)} if leading else None}

    def whole(self, value: Any, item: Item) -> Any:
        """A sum of an item, with the leading digits that it has there."""
        found = item.get(self.high)
        return value if found is None else joined(self.type, int(Decimal(found["N"])), value or 0)


@dataclass
class Place:
    """The items of one view or embed, or the entries of one view in an index."""

    view: View
    at: tuple[str, ...]
    entity: str
    partition: KeyCodec
    sort: KeyCodec
    slots: dict[str, Slot]
    """What can be read of an entry, and in a table what is stored, by path; key parts may stand in the key alone."""
    parts: tuple[str, ...]
    """The names of all parts, those of the partition first."""
    index: str | None = None
    local: bool = False
    """In an index over the table's own partition key."""
    native: NativeKey | None = None
    """In an index whose key is made of several attributes."""
    indexes: list[IndexKey] = field(default_factory=list)
    """The index entries that an item has."""
    children: dict[str, Place] = field(default_factory=dict)
    """Embeds by role."""
    backwards: bool = False
    """The entries are sorted downwards, but stored upwards: they are read backwards."""

    @property
    def pk(self) -> str:
        return PK if self.index is None or self.local else f"{self.index}PK"

    @property
    def sk(self) -> str:
        return SK if self.index is None else f"{self.index}SK"

    @property
    def width(self) -> int:
        """The number of partition parts."""
        return len(self.partition.parts)

    @property
    def expires(self) -> bool:
        return EXPIRES in self.slots

    def has(self, item: Item) -> bool:
        """Whether an item of the table is an entry here, by its keys."""
        return self.partition.begins(item[PK]["S"]) and self.sort.begins(item[SK]["S"])

    def key(self, values: Sequence[Any]) -> dict[str, dict[str, Any]]:
        """The primary key of the entry with these values of all parts."""
        width = self.width
        return {PK: {"S": self.partition.encode(values[:width])}, SK: {"S": self.sort.encode(values[width:])}}

    def decoder(self, takes: Sequence[str]) -> Callable[[Item], Row]:
        """The compiled function from an item to a row with exactly these paths."""
        plain = [(path, self.slots[path].attribute, self.slots[path].decode) for path in takes if path in self.slots]
        keyed = [path for path in takes if path not in self.slots]
        for path in keyed:
            if path not in self.parts:
                raise UnsupportedError(f"view '{self.view.name}' does not hold '{path}'")

        def where(item: Item) -> str:
            key = " and ".join(f"{name} {item[name]['S']!r}" for name in (PK, SK) if "S" in item.get(name, {}))
            return f"item of '{self.entity}' under {key or 'no key'}"

        def parts() -> list[tuple[str, Callable[[Item], Any]]]:
            return [(path, partial(_attribute, name, decode)) for path, name, decode in plain]

        wide = [slot for path in takes if (slot := self.slots.get(path)) is not None and slot.high]

        def finished(decode: Callable[[Item], Row]) -> Callable[[Item], Row]:
            return guarded((lambda item: _with_leading(wide, decode(item), item)) if wide else decode, where, parts)

        if not keyed:
            return finished(lambda item: {path: decode(item.get(name)) for path, name, decode in plain})
        places = {path: self.parts.index(path) for path in keyed}
        known = {path: (name, decode) for path, name, decode in plain}
        ordered = [(path, places.get(path, -1), *known.get(path, ("", _nothing))) for path in takes]
        pk, sk, partition, sort = self.pk, self.sk, self.partition.decode, self.sort.decode

        def decode_item(item: Item) -> Row:
            values = (*partition(item[pk]["S"]), *sort(item[sk]["S"]))
            return {
                path: decode(item.get(name)) if place < 0 else values[place] for path, place, name, decode in ordered
            }

        return finished(decode_item)


def _with_leading(wide: Sequence[Slot], row: Row, item: Item) -> Row:
    return {**row, **{slot.path: slot.whole(row[slot.path], item) for slot in wide}}


def _nothing(found: Any) -> Any:
    return None


def _attribute(name: str, decode: Callable[[Any], Any], item: Item) -> Any:
    return decode(item.get(name))


@dataclass
class NativeKey:
    """The key of an index that is made of several attributes."""

    tag: str
    """The value of the first of them, which all entries have."""
    attributes: tuple[KeyAttribute, ...]
    codecs: tuple[KeyCodec | None, ...]
    """Per part of the view: how it is encoded, unless it is stored as it is."""
    slots: tuple[Slot, ...]
    """Per part of the view: its attribute."""

    def encode(self, number: int, value: Any) -> dict[str, Any]:
        """The value of one part."""
        found = self.slots[number].encode(value)
        assert found is not None
        return found


@dataclass
class IndexKey:
    """How the key of an index entry is composed from an item's entry."""

    place: Place
    values: Callable[[Entry], tuple[Any, ...] | None]
    """The values of all parts, or None where the row has no entry."""
    paths: frozenset[str]
    """What decides the key."""
    excludes: Callable[[Entry, Set[str]], bool]
    """Whether a row has no entry, nor had one, by what is not among the paths that have changed."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that an item has for its entry alone."""
        if self.place.native is not None:
            return tuple(one.name for one in self.place.native.attributes if one.own)
        return (self.place.sk,) if self.place.local else (self.place.pk, self.place.sk)

    def compose(self, entry: Entry) -> dict[str, dict[str, Any]] | None:
        """The values of `attributes`, or None where the row has no entry."""
        values = self.values(entry)
        if values is None:
            return None
        place, width = self.place, self.place.width
        native = place.native
        if native is not None:
            parts = zip(native.attributes[1:], enumerate(values), strict=True)
            own = {one.name: native.encode(number, value) for one, (number, value) in parts if one.own}
            return {native.attributes[0].name: {"S": native.tag}, **own}
        found = {place.sk: {"S": place.sort.encode(values[width:])}}
        if not place.local:
            found[place.pk] = {"S": place.partition.encode(values[:width])}
        return found


@dataclass
class Index:
    """A global or local secondary index."""

    name: str
    projection: str
    attributes: tuple[str, ...]
    views: tuple[str, ...]
    local: bool = False
    native: tuple[KeyAttribute, ...] = ()
    """The key, where it is made of several attributes."""

    @property
    def keys(self) -> tuple[KeyAttribute, ...]:
        """The attributes of its key."""
        return self.native or (
            KeyAttribute(self.pk, "S", "HASH", not self.local),
            KeyAttribute(self.sk, "S", "RANGE", True),
        )

    @property
    def pk(self) -> str:
        return PK if self.local else f"{self.name}PK"

    @property
    def sk(self) -> str:
        return f"{self.name}SK"


@dataclass
class Layout:
    """All places of a design."""

    places: dict[tuple[str, tuple[str, ...]], Place]
    """By view and the roles that lead to an embed inside it."""
    indexes: tuple[Index, ...]
    """Global ones first."""

    @property
    def global_indexes(self) -> tuple[Index, ...]:
        return tuple(index for index in self.indexes if not index.local)

    @property
    def local_indexes(self) -> tuple[Index, ...]:
        return tuple(index for index in self.indexes if index.local)

    @property
    def expires(self) -> bool:
        """Whether any item may expire."""
        return any(place.expires for place in self.places.values() if place.index is None)


def layout(model: Model, design: Design) -> Layout:
    """The layout of a design."""
    places: dict[tuple[str, tuple[str, ...]], Place] = {}
    indexes = []
    for structure in design.structures:
        if structure.kind == "table":
            for name in structure.views:
                _table_places(model, design.views[name], _tags(structure, name), places)
    for structure in design.structures:
        if structure.kind in ("gsi", "lsi"):
            attributes: Any = structure.settings.get("attributes", ())
            projection = str(structure.settings["projection"])
            local = structure.kind == "lsi"
            index = Index(structure.name, projection, tuple(attributes), structure.views, local)
            indexes.append(index)
            for name in structure.views:
                view = design.views[name]
                base = places[_base(model, design, view)]
                place = _index_place(model, view, _tags(structure, name), structure.name, projection)
                if local:
                    place.local, place.partition = True, base.partition
                if structure.settings.get("native"):
                    index.native = _native(model, view, place, base)
                places[name, ()] = place
                base.indexes.append(_index_key(model, view, place, base))
    return Layout(places, tuple(indexes))


def intents_place() -> Place:
    """Where intents stand: beside the record of the design."""
    places: dict[tuple[str, tuple[str, ...]], Place] = {}
    _table_places(INTENT_MODEL, INTENT_VIEW, {"partition": "KEYPLAN", "sort": "INTENT"}, places)
    return places[INTENT_VIEW.name, ()]


def _tags(structure: Structure, view: str) -> Mapping[str, Any]:
    tags: Any = structure.settings["tags"]
    found: Mapping[str, Any] = tags[view]
    return found


def _base(model: Model, design: Design, view: View) -> tuple[str, tuple[str, ...]]:
    """The view and embed whose items an index view is made from."""
    home, at = design.homes.get(view.entity, (view.base, ()))
    if home == view.base:
        return home, tuple(at)
    base = design.views[view.base]
    if base.entity == view.entity:
        return view.base, ()
    roles = model.entities[base.entity].roles
    inside = [one.role for one in base.embeds if one.entity == view.entity]
    paths = tuple(part.path for part in view.partition if part.ways == 1)
    # A local index has the partition of its items, which tells two roles to the same entity apart.
    return view.base, (next((role for role in inside if roles[role].columns == paths), inside[0]),)


def _table_places(
    model: Model, view: View, tags: Mapping[str, Any], places: dict[tuple[str, tuple[str, ...]], Place]
) -> None:
    if view.embeds and view.sort:
        raise UnsupportedError(f"view '{view.name}': dynamodb embeds rows only where one parent is a whole partition")
    slots = {path: _slot(model, view.entity, path) for path in view.holds}
    if view.measures:
        slots[COUNT] = _total(COUNT, Type("int"))
        for measure in view.measures:
            total = _total(measure.name, measure_type(model, view.entity, measure))
            wide = is_wide(model, view, measure)
            slots[measure.name] = replace(total, high=f"{total.attribute}^") if wide else total
    # A parent ends in a separator, so that one beginning covers it and the children above it.
    sort = _sort_codec(model, view, view.sort, f"{tags['sort']}{ABOVE_PARENT if view.embeds else ''}")
    place = Place(
        view, (), view.entity, _partition_codec(model, view, str(tags["partition"])), sort, slots, _names(view.parts)
    )
    places[view.name, ()] = place
    for embed in view.embeds:
        _embed_place(model, place, embed, tags, places)


def _embed_place(
    model: Model,
    parent: Place,
    embed: Embed,
    tags: Mapping[str, Any],
    places: dict[tuple[str, tuple[str, ...]], Place],
) -> None:
    view = parent.view
    at = (*parent.at, embed.role)
    slots = {path: _slot(model, embed.entity, path) for path in embed.holds}
    if parent.at:
        raise UnsupportedError(f"view '{view.name}': dynamodb embeds rows one level deep")
    backwards = is_downwards(embed)
    stored = (replace(part, descending=False) if backwards else part for part in embed.sort)
    parts = [key_part(model, embed.entity, part) for part in stored]
    prefix = children_prefix(str(tags["sort"]), embed, tags["embeds"][".".join(at)])
    codec = KeyCodec(parts, prefix=prefix, name=embed.entity)
    names = (*parent.parts, *_names(embed.sort))
    places[view.name, at] = parent.children[embed.role] = Place(
        view, at, embed.entity, parent.partition, codec, slots, names, backwards=backwards
    )


def _index_place(model: Model, view: View, tags: Mapping[str, Any], index: str, projection: str) -> Place:
    names = _names(view.parts)
    # What the key itself says is not read from attributes, which an index need not project.
    held = view.holds if projection == "ALL" else [path for path in view.holds if path not in names]
    slots = {path: _slot(model, view.entity, path) for path in held}
    sort = _sort_codec(model, view, view.sort, str(tags["sort"]))
    return Place(
        view, (), view.entity, _partition_codec(model, view, str(tags["partition"])), sort, slots, names, index
    )


def _native(model: Model, view: View, place: Place, base: Place) -> tuple[KeyAttribute, ...]:
    """Gives a place a key of several attributes."""
    assert place.index is not None
    keys = tuple(key_attributes(model, view, place.index, attribute_name))
    codecs: list[KeyCodec | None] = []
    slots: list[Slot] = []
    for name, part, one in zip(place.parts, view.parts, keys[1:], strict=True):
        if not one.own:
            codecs.append(None)
            slots.append(base.slots[part.path])
        else:
            most = LIMITS.partition_key_bytes if one.role == "HASH" else LIMITS.sort_key_bytes
            codec = KeyCodec([key_part(model, view.entity, part)], prefix="#", most=most, name=view.entity)
            codecs.append(codec)
            slots.append(_encoded(name, one.name, codec))
        place.slots.setdefault(name, slots[-1])
    place.native = NativeKey(place.partition.prefix.rstrip("#"), keys, tuple(codecs), tuple(slots))
    return keys


def _encoded(path: str, attribute: str, codec: KeyCodec) -> Slot:
    def decode(found: dict[str, Any] | None) -> Any:
        return None if found is None else codec.decode(found["S"])[0]

    return Slot(path, attribute, codec.parts[0].type, lambda value: {"S": codec.encode((value,))}, decode)


def _partition_codec(model: Model, view: View, tag: str) -> KeyCodec:
    parts = [key_part(model, view.entity, part) for part in view.partition]
    prefix = f"{tag}#" if parts else tag
    return KeyCodec(parts, prefix=prefix, most=LIMITS.partition_key_bytes, name=view.entity)


def _sort_codec(model: Model, view: View, sort: Sequence[Part], tag: str) -> KeyCodec:
    parts = [key_part(model, view.entity, part) for part in sort]
    return KeyCodec(parts, prefix=f"{tag}#" if parts else tag, name=view.entity)


def _names(parts: Sequence[Part]) -> tuple[str, ...]:
    return tuple(str(part).removesuffix(" desc") if part.descending else str(part) for part in parts)


def _slot(model: Model, entity: str, path: str) -> Slot:
    type, _ = path_type(model, entity, path)
    if type.is_collection and path not in model.entities[entity].columns:
        return _copied_collection(path, type)
    return Slot(path, attribute_name(path), type, attribute_encoder(type), attribute_decoder(type))


def _copied_collection(path: str, type: Type) -> Slot:
    """A set or list of another row, which may be gone: then it is missing, and an empty one is NULL."""
    encode, decode = attribute_encoder(type), attribute_decoder(type)

    def encode_copy(value: Any) -> dict[str, Any] | None:
        return None if value is None else encode(value) or {"NULL": True}

    def decode_copy(found: dict[str, Any] | None) -> Any:
        return None if found is None else decode(None if "NULL" in found else found)

    return Slot(path, attribute_name(path), type, encode_copy, decode_copy)


def _total(path: str, type: Type) -> Slot:
    return Slot(path, attribute_name(path), type, attribute_encoder(type), attribute_decoder(type), True)


def key_part(model: Model, entity: str, part: Part) -> KeyPart:
    """A part of a view's key as the key codec takes it."""
    return KeyPart(part_type(model, entity, part), part.ways == 1 and part.descending)


def _index_key(model: Model, view: View, place: Place, base: Place) -> IndexKey:
    key = model.entities[view.entity].key
    paths = {path for part in view.parts for path in ((part.path, *part.also) if part.path else key)}
    paths |= {str(condition.path) for condition in view.where}
    for path in paths | set(view.holds):
        if path not in base.slots:
            raise UnsupportedError(f"view '{view.name}': the items of '{base.view.name}' do not carry '{path}'")
    values = [_part_value(part, key) for part in view.parts]
    # What rows never lack is not asked for until there is an entry: an update that takes it away may not know it.
    loose = [
        (part.path, value)
        for part, value in zip(view.parts, values, strict=True)
        if part.path and may_be_missing(model, view.entity, part.path)
    ]
    holds = [_condition(model, view.entity, condition) for condition in view.where]

    def composed(entry: Entry) -> tuple[Any, ...] | None:
        if not all(test(entry) for test in holds) or any(value(entry) is None for _, value in loose):
            return None
        found = tuple([value(entry) for value in values])
        return None if None in found else found

    conditions = [(str(condition.path), test) for condition, test in zip(view.where, holds, strict=True)]

    def excludes(entry: Entry, changed: Set[str]) -> bool:
        return any(path not in changed and not test(entry) for path, test in conditions) or any(
            path not in changed and value(entry) is None for path, value in loose
        )

    return IndexKey(place, composed, frozenset(paths), excludes)


def _part_value(part: Part, key: Sequence[str]) -> Callable[[Entry], Any]:
    if part.ways > 1:
        ways = part.ways
        return lambda entry: shard_of([entry[path] for path in key], ways)
    path, cut = part.path, part.cut
    if cut is None:
        return lambda entry: entry[path]

    def truncated(entry: Entry) -> Any:
        value = entry[path]
        return None if value is None else truncate(value, cut)

    return truncated


def _condition(model: Model, entity: str, condition: Condition) -> Callable[[Entry], bool]:
    if not all(isinstance(operand, Literal) for operand in condition.operands) or condition.op == "search":
        raise UnsupportedError(f"dynamodb: an index cannot have the condition '{condition}'")
    type, _ = path_type(model, entity, str(condition.path))
    test = compile_condition(type, condition.op, condition.cut)
    wanted = operands(condition, type, {}, None)  # type: ignore[arg-type]
    path = str(condition.path)
    return lambda entry: test(entry[path], wanted)
