"""Validators: what `$jsonSchema` says about the documents of a collection, whoever writes them."""

from __future__ import annotations

from typing import Any

from keyplan.engines.mongodb.layout import EXPIRES_FIELD, HERE, TOUCHED, Place
from keyplan.engines.mongodb.values import ID, Document, Slot, native


def validator(place: Place) -> Document:
    """The validator of a collection."""
    return {"$jsonSchema": document_schema(place)}


def document_schema(place: Place) -> Document:
    """The schema of a view's documents, by the types of the fields and whether they may be missing."""
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
    alone = {"properties": {name: {} for name in (ID, TOUCHED, *place.children)}, "additionalProperties": False}
    return {**schema, "required": [ID], "anyOf": [{"required": required}, alone]}


def element_schema(child: Place) -> Document:
    """The schema of an embedded row."""
    properties = {slot.field: value_schema(slot) for slot in child.stored}
    required = [slot.field for slot in child.stored if not slot.nullable]
    found: Document = {"bsonType": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": required} if required else found


def _id_schema(place: Place) -> Document:
    if not place.parts:
        return {"enum": ["all"]}
    if len(place.parts) == 1:
        return value_schema(place.parts[0].slot)
    names = [part.slot.field.partition(".")[2] for part in place.parts]
    properties = {name: value_schema(part.slot) for name, part in zip(names, place.parts, strict=True)}
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


def expiry_index(place: Place) -> Document | None:
    """The index by which the server deletes rows some time after they have expired.

    A document that holds children is not deleted with its own row: they may outlive it.
    """
    if not place.expires or place.children:
        return None
    return {"key": {EXPIRES_FIELD: 1}, "name": "expiry", "expireAfterSeconds": 0}
