"""Validators: what `$jsonSchema` says about the documents of a collection, whoever writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from keyplan.engines.mongodb.layout import EXPIRES_FIELD, HERE, OF, TOUCHED, Place
from keyplan.engines.mongodb.values import ID, Document, Slot, native
from keyplan.model.types import Type


def validator(place: Place) -> Document:
    """The validator of a collection."""
    return {"$jsonSchema": document_schema(place)}


def document_schema(place: Place) -> Document:
    """The schema of a view's documents, by the types of the fields and whether they may be missing."""
    if place.packed:
        return _packed_schema(place)
    if place.beside:
        # What a document is, its `_id` says: it can be one of them only.
        return {"bsonType": "object", "oneOf": [_own_schema(one) for one in place.together]}
    return _own_schema(place)


def _own_schema(place: Place) -> Document:
    """The schema of one sort of documents."""
    properties: Document = {ID: _id_schema(place)}
    required = [ID]
    for slot in place.stored:
        properties[slot.field] = value_schema(slot)
        if slot.high:
            properties[slot.high] = {"bsonType": "decimal"}
        if not slot.nullable:
            required.append(slot.field)
    for child in place.children.values():
        properties[child.array] = {"bsonType": "array", "items": element_schema(child)}
        if child.limit is not None:
            properties[child.array]["maxItems"] = child.limit
            properties[child.version] = {"bsonType": ["int", "long"]}
    for name in place.words:
        properties[name] = {"bsonType": "array", "items": {"bsonType": "string"}}
        required.append(name)
    if place.presence == HERE:
        properties[HERE] = {"bsonType": "bool"}
        required.append(HERE)
    properties[TOUCHED] = {"bsonType": ["int", "long"]}
    schema: Document = {"bsonType": "object", "properties": properties, "additionalProperties": False}
    if not place.children:
        return {**schema, "required": required}
    # Children may be there without their parent: then it has no field at all but theirs.
    versions = [child.version for child in place.children.values() if child.version]
    names = (ID, TOUCHED, *place.children, *versions)
    alone = {"properties": {name: {} for name in names}, "additionalProperties": False}
    return {**schema, "required": [ID], "anyOf": [{"required": required}, alone]}


def _packed_schema(place: Place) -> Document:
    """The schema of documents that hold the entries of a partition each."""
    properties: Document = {ID: _id_schema(place), place.array: {"bsonType": "array", "items": element_schema(place)}}
    if place.expires:
        properties[EXPIRES_FIELD] = {"bsonType": "date"}
    properties[TOUCHED] = {"bsonType": ["int", "long"]}
    required = [ID, place.array, *([EXPIRES_FIELD] if place.expires else [])]
    for _, slot in place.totals.values():
        properties[slot.field] = value_schema(slot)
        required += [] if slot.nullable else [slot.field]
    return {"bsonType": "object", "properties": properties, "additionalProperties": False, "required": required}


def element_schema(child: Place) -> Document:
    """The schema of an embedded row, or of a packed entry."""
    properties = {slot.field: value_schema(slot) for slot in child.stored}
    required = [slot.field for slot in child.stored if not slot.nullable]
    found: Document = {"bsonType": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": required} if required else found


def _id_schema(place: Place) -> Document:
    slots = place.root_key
    if not slots:
        return {"enum": ["all"]}
    if len(slots) == 1 and not place.tag:
        return value_schema(slots[0])
    names = [slot.field.partition(".")[2] for slot in slots]
    properties = {name: value_schema(slot) for name, slot in zip(names, slots, strict=True)}
    if place.tag:
        names.insert(place.shared, OF)
        properties[OF] = {"enum": [place.tag]}
    return {"bsonType": "object", "properties": properties, "required": names, "additionalProperties": False}


def value_schema(slot: Slot) -> Document:
    """The schema of one field."""
    type = slot.type
    if type.of is not None:
        inner = value_schema(Slot("", "", type.of))
        return {"bsonType": "array", "items": inner, **({"uniqueItems": True} if type.kind == "set" else {})}
    if type.kind == "enum":
        return {"enum": [name for name, _ in type.values]}
    names: Any = slot.native.bson if slot.sum else native(type).bson
    return {"bsonType": names[0] if len(names) == 1 else list(names)}


def stored_type(type: Type) -> str:
    """A type as far as it says how values are stored: those of an enum are texts, and may come to be more."""
    if type.of is not None:
        return f"{type.kind}({stored_type(type.of)})"
    return "enum" if type.kind == "enum" else str(type)


def lost_values(before: Any, after: Any, field: str = "") -> Iterator[tuple[str, list[Any]]]:
    """By field: the values of enums that one validator allows and the other one does not."""
    if isinstance(before, list) and isinstance(after, list):
        for old, new in zip(before, after, strict=False):
            yield from lost_values(old, new, field)
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return
    for name in before:
        old, new = before[name], after.get(name)
        if name == "enum" and isinstance(old, list) and isinstance(new, list):
            gone = [value for value in old if value not in new]
            if gone:
                yield field, gone
        elif name == "properties" and isinstance(old, Mapping) and isinstance(new, Mapping):
            for inner, schema in old.items():
                yield from lost_values(schema, new.get(inner), inner)
        else:
            yield from lost_values(old, new, field)


def newly_required(before: Any, after: Any) -> Iterator[str]:
    """The fields that documents may lack by one validator and not by the other one."""
    if isinstance(before, list) and isinstance(after, list):
        for old, new in zip(before, after, strict=False):
            yield from newly_required(old, new)
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return
    for name, new in after.items():
        if name == "required" and isinstance(new, list):
            yield from (field for field in new if field not in before.get(name, ()))
        elif name in before:
            yield from newly_required(before[name], new)


def expiry_index(place: Place) -> Document | None:
    """The index by which the server deletes rows some time after they have expired, packed ones together.

    A document that holds children is not deleted with its own row: they may outlive it.
    """
    if place.children or not any(one.expires for one in place.together):
        return None
    return {"key": {EXPIRES_FIELD: 1}, "name": "expiry", "expireAfterSeconds": 0}
