"""How large values, items and index entries are on average, in the form that the codec stores them in.

`values.py` says what an item that is there takes; this says the same of one that the model only describes. A test holds
the one against the other, over every example.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from keyplan.engines.dynamodb.layout import PK, SK, TTL, attribute_name
from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.engines.dynamodb.native import is_native, scalar
from keyplan.engines.dynamodb.projection import INDEXES, projection_of
from keyplan.engines.work import ViewFacts, average_part_bytes
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model, path_of
from keyplan.model.types import Type
from keyplan.model.values import average_bytes, average_length
from keyplan.plan.view import View

TEXT = {"uuid": 36.0, "ulid": 26.0, "date": 10.0, "timestamp": 24.0}
"""What has a text of one length, as an attribute and in a key."""
NUMBERS = {"int": 4.0, "decimal": 5.0, "float": 6.0}
"""A number of six digits, one of seven with a fraction among them, and a measured one of nine: a byte for two of them,
and one."""
NUMBERS_IN_KEYS = {"int": 7.0, "decimal": 9.0, "float": 16.0, "bool": 1.0}
"""The same numbers as texts whose order is that of the numbers."""
CUT_TEXT = {"year": 10.0, "month": 10.0, "week": 10.0, "day": 10.0, "hour": 24.0, "minute": 24.0}
"""A date, or the moment that something begins at."""
MUCH = 0.1
"""The share of whole rows that has to be spared for their attributes to be named: a further field of the model is then
one of the index as well, which has to be made anew for it."""
KEY_NAMES = len("GSI1PK") + len("GSI1SK")


def value_bytes(type: Type) -> float:
    """The average size of a value as an attribute has it.

    >>> [value_bytes(Type(kind)) for kind in ("uuid", "timestamp", "bool", "int")]
    [36.0, 24.0, 1.0, 4.0]
    """
    if type.of is not None:
        listed = type.kind == "list" or type.of.kind == "bool"
        return average_length(type) * (value_bytes(type.of) + listed) + 3 * listed
    return TEXT.get(type.kind) or NUMBERS.get(type.kind) or average_bytes(type)


def field_bytes(path: str, type: Type) -> float:
    """The average size of an attribute: its name and its value. What expires has the second besides, rounded up."""
    expires = len(TTL) + 6.0 if path == EXPIRES else 0.0
    return len(attribute_name(path).encode()) + value_bytes(type) + expires


def key_bytes(type: Type, cut: str | None) -> float:
    """The average size of a value within the text of a key."""
    if cut in CUT_TEXT:
        return CUT_TEXT[cut]
    if cut == "words":
        return average_part_bytes(type, cut)
    if cut == "each" and type.of is not None:
        return key_bytes(type.of, None)
    if type.kind == "bytes":
        return 2 * average_bytes(type)
    return TEXT.get(type.kind) or NUMBERS_IN_KEYS.get(type.kind) or average_bytes(type)


def entry_bytes(model: Model, view: View, facts: ViewFacts, at: tuple[str, ...] = ()) -> float:
    """The average size of an item or of an index entry: names and values, and the keys with their tags.

    A tag is taken to be as long as the name of the entity: some say more of what a key is made of, which should not be
    a reason for other keys. An item has, besides, the keys of its entries in indexes: these are with the index,
    `index_key_bytes`.
    """
    if view.kind in INDEXES:
        return _index_entry(model, view, facts)
    tags = 2 * len(view.entity) + (len(".TOTALS") if view.measures else 0)
    names = len(PK) + len(SK)
    if at:
        embed = facts.embeds[".".join(at)]
        tags = 2 * len(model.entity_at(view.entity, at))
        return names + tags + embed.key_bytes + facts.key_bytes + sum(embed.value_bytes.values())
    return names + tags + facts.key_bytes + bool(view.embeds) + sum(facts.value_bytes.values())


def index_key_bytes(model: Model, view: View, facts: ViewFacts) -> float:
    """The attributes that an item has for its entry in an index alone."""
    if is_native(model, view):
        encoded = [part for part in view.parts if scalar(model, view, part) is None]
        each = sum(len("GSI1K2") + 1 + part_bytes(model, view.entity, [part]) for part in encoded)
        return len("GSI1PK") + len(view.entity) + each
    tags = len(view.entity) * (1 if view.kind == "lsi" else 2)
    key = facts.key_bytes - (facts.partition_bytes if view.kind == "lsi" else 0.0)
    return (KEY_NAMES / 2 if view.kind == "lsi" else KEY_NAMES) + tags + key


def home_bytes(model: Model, view: View, facts: ViewFacts) -> float:
    """The average size of the item that an index entry is of, under the key of its entity and for no index."""
    key = model.entities[view.entity].key
    return len(PK) + len(SK) + 2 * len(view.entity) + part_bytes(model, view.entity, key) + facts.row_bytes


def _index_entry(model: Model, view: View, facts: ViewFacts) -> float:
    """The entry's own key, that of its item, and what is projected."""
    base = home_bytes(model, view, facts) - facts.row_bytes
    projected = facts.value_bytes
    if (projection_of(model, view) != "ALL" or is_named(model, view)) and not is_native(model, view):
        keyed = {part.path for part in view.parts if part.cut is None}
        projected = {path: size for path, size in projected.items() if path not in keyed}
    return index_key_bytes(model, view, facts) + base + sum(projected.values())


def is_named(model: Model, view: View) -> bool:
    """Whether whole rows are projected attribute by attribute, without those that stand in the key of the entry, nor
    what items have for other indexes: where these are much of them, and there are not too many names."""
    keyed = {part.path for part in view.parts if part.cut is None}
    sizes = {
        path: field_bytes(path, model.column(view.entity, path_of(path, model, view.entity)).type)
        for path in view.holds
    }
    if is_native(model, view) or len(sizes.keys() - keyed) > LIMITS.included_attributes_of_one:
        return False
    spared = sum(size for path, size in sizes.items() if path in keyed)
    return spared >= MUCH * sum(sizes.values())


def spread_bytes(model: Model, view: View, facts: ViewFacts, at: tuple[str, ...] = ()) -> float:
    """How far the largest of the usual entries are from the smallest: texts, sets and the like are from half of their
    average to one and a half of it, each by itself."""
    if view.measures and not at:
        return 0.0
    entity = model.entity_at(view.entity, at)
    values = facts.embeds[".".join(at)].value_bytes if at else facts.value_bytes
    sizes = (size for path, size in values.items() if _varies(model.column(entity, path_of(path, model, entity)).type))
    return sqrt(sum(size * size for size in sizes))


def _varies(type: Type) -> bool:
    return type.of is not None or type.kind in ("string", "text", "bytes", "json")


def part_bytes(model: Model, entity: str, parts: Sequence[object]) -> float:
    """The average size of parts of a key, with what stands before each."""
    found = 0.0
    for part in parts:
        path, cut = (part, None) if isinstance(part, str) else (part.path, part.cut)  # type: ignore[attr-defined]
        found += 1 + (key_bytes(model.column(entity, path_of(path, model, entity)).type, cut) if path else 2.0)
    return found
