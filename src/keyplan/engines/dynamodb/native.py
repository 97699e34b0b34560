"""Keys of several attributes for global indexes: `targets: {dynamodb: {multi_attribute_keys: true}}`.

Since November 2025 a global index may have up to four attributes in its partition key and four in its sort key. Then
numbers, ids and times of an item are key parts as they are stored, and nothing is composed of them. Two things remain
ours. `GSI1PK`, the tag, is always the first attribute: an item is in the index exactly if it has it, whatever else its
attributes are. And what cannot be a key as it is stored (a text, which may be empty; an enum, a shard, a truncation)
stands in an attribute of its own, `GSI1K2`, encoded as in a composed key.

An index of native keys serves one view, because another one has other attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.engines.dynamodb.targets import multi_attribute_keys
from keyplan.model.model import Model, path_of
from keyplan.plan.view import Part, View

SCALARS = {"int": "N", "decimal": "N", "uuid": "S", "ulid": "S", "date": "S", "timestamp": "S"}
"""The types whose stored form is a key with the order of the values, and is never empty."""


@dataclass(frozen=True)
class KeyAttribute:
    """One attribute of an index's key."""

    name: str
    type: str
    """S or N."""
    role: str
    """HASH or RANGE."""
    own: bool
    """An attribute that exists for the index alone; otherwise the item has it anyway."""


def is_native(model: Model, view: View) -> bool:
    """Whether a view is kept under attributes as they are stored."""
    if view.kind != "gsi" or not multi_attribute_keys(model):
        return False
    if any(part.descending or part.cut in ("each", "words") for part in view.parts):
        return False
    most = LIMITS.index_key_attributes
    if len(view.partition) >= most or not 0 < len(view.sort) <= most:
        return False  # the tag takes one place of the partition key
    return any(scalar(model, view, part) for part in view.parts)


def scalar(model: Model, view: View, part: Part) -> str | None:
    """The type under which a part of the key is stored as it is; None where it has to be encoded."""
    if part.cut is not None or part.ways > 1:
        return None
    # DynamoDB refuses any item whose attribute of that name has another type, be it in the index or not.
    kinds = {kind for entity in model.entities if (kind := _kind(model, entity, part.path))}
    return SCALARS.get(kinds.pop()) if len(kinds) == 1 else None


def _kind(model: Model, entity: str, path: str) -> str | None:
    """The kind of the values that items of an entity may have in the attribute of a path."""
    try:
        return model.column(entity, path_of(path, model, entity)).type.kind
    except KeyError:
        return None


def key_attributes(model: Model, view: View, index: str, attribute: Any) -> list[KeyAttribute]:
    """The whole key of a native index; `attribute` names the one that holds a path."""
    found = [KeyAttribute(f"{index}PK", "S", "HASH", True)]
    for number, part in enumerate(view.parts, 1):
        role = "HASH" if number <= len(view.partition) else "RANGE"
        stored = scalar(model, view, part)
        if stored is not None:
            found.append(KeyAttribute(attribute(part.path), stored, role, False))
        else:
            found.append(KeyAttribute(f"{index}K{number}", "S", role, True))
    return found


def in_words(keys: Sequence[KeyAttribute]) -> str:
    """`GSI1PK, customer; placed_at, order_id`."""
    sides = ([one.name for one in keys if one.role == role] for role in ("HASH", "RANGE"))
    return "; ".join(", ".join(side) for side in sides)
