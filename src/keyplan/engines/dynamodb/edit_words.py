"""What a write does to an item, in DynamoDB's own words, for people: keys as templates, attributes by name."""

from __future__ import annotations

import json
from typing import Any

from keyplan.engines.dynamodb.layout import PK, SK, layout
from keyplan.engines.dynamodb.templates import index_templates, partition_template, sort_template
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.steps import Touch


def edit_words(model: Model, design: Design, touch: Touch) -> str:
    """The operation and its body for one item; none for an index, which DynamoDB keeps itself."""
    place = layout(model, design).places[touch.view, touch.at]
    if place.index is not None:
        return ""
    table = next(one.name for one in design.structures if one.kind == "table")
    key = {PK: partition_template(place), SK: sort_template(place)}
    if touch.edit == "delete":
        return _told("DeleteItem", {"TableName": table, "Key": key})
    if touch.edit == "add":
        sums = [slot.attribute for path, slot in place.slots.items() if path not in place.parts]
        adds = ", ".join(f"{name} :{name}" for name in sums)
        return _told("UpdateItem", {"TableName": table, "Key": key, "UpdateExpression": f"ADD {adds}"})
    if touch.edit == "patch":
        return _told("UpdateItem", {"TableName": table, "Key": key, "UpdateExpression": "SET …"})
    item: dict[str, Any] = dict(key)
    for index in place.indexes:
        item |= index_templates(index)
    item |= {slot.attribute: f"{{{path}}}" for path, slot in place.slots.items()}
    put = _told("PutItem", {"TableName": table, "Item": item})
    return (
        f"{_told('DeleteItem', {'TableName': table, 'Key': {PK: '…', SK: '…'}})}\n{put}"
        if touch.edit == "move"
        else put
    )


def _told(operation: str, body: dict[str, Any]) -> str:
    return f"{operation} {json.dumps(body, ensure_ascii=False, indent=2)}"
