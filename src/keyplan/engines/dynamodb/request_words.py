"""The request of a write as it is sent, for people: composed like any other, with templates in place of values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from keyplan.engines.dynamodb.keys import encode_timestamp
from keyplan.engines.dynamodb.layout import PK, SK, TTL, IndexKey, Place, Slot, intents_place, layout
from keyplan.engines.dynamodb.templates import index_templates, partition_template, sort_template
from keyplan.engines.dynamodb.values import expiry_seconds
from keyplan.engines.dynamodb.words import operand_words
from keyplan.engines.dynamodb.writes import compose
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import Literal
from keyplan.model.types import Type
from keyplan.model.write import Write
from keyplan.plan.design import Design
from keyplan.plan.edits import Edit, Test
from keyplan.plan.intents import INTENTS
from keyplan.plan.view import COUNT

_SECONDS = f"{{{EXPIRES}, in seconds}}"
_PLAIN = ("=", "!=", "<", "<=", ">", ">=", "begins_with")


@dataclass(frozen=True)
class _Said:
    """A value of which only the text matters."""

    text: str


class _ShownPlace(Place):
    leaves: bool = False
    """What is left there stood under values that are others now."""

    def key(self, values: Sequence[Any]) -> dict[str, Any]:
        key = {PK: partition_template(self), SK: sort_template(self)}
        return {name: text.replace("}", ", as it was}") for name, text in key.items()} if self.leaves else key


class _ShownIndex(IndexKey):
    def compose(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        return None if self.values(entry) is None else index_templates(self)


def request_words(model: Model, design: Design, writes: Sequence[Write], edits: Sequence[Edit]) -> str:
    """The operation and its body; what is the same for several rows or values is told once."""
    places = layout(model, design).places
    table = next(one.name for one in design.structures if one.kind == "table")
    told: dict[str, dict[str, Any]] = {}
    for edit in edits:
        place = intents_place() if edit.view == INTENTS else places[edit.view, edit.at]
        mine = [write for write in writes if write.entity == place.entity]
        adds = {path: operand_words(operand) for write in mine for path, operand in write.adds.items()}
        sets = {path: operand for write in mine for path, operand in write.sets.items() if isinstance(operand, Literal)}
        shown = _shown(place, edit, adds, sets)
        others = [one for one in edits if (one.view, one.at) == (edit.view, edit.at) and one.key != edit.key]
        shown.leaves = bool(others) and (edit.do == "delete" or edit.adds.get(COUNT) == -1)
        conditions = [pair for write in mine for pair in _conditions(model, write)]
        request = compose([shown], [_marked(edit, conditions)])
        together = request.operation == "TransactWriteItems"
        name, body = (
            next(iter(request.body["TransactItems"][0].items())) if together else (request.operation, request.body)
        )
        one = {name: {"TableName": table, **_plain(body, edit, adds)}}
        told.setdefault(json.dumps(one, sort_keys=True), one)
    items = list(told.values())
    if len(edits) == 1:
        ((operation, body),) = items[0].items()
        return _text(operation, body)
    short = {"PutItem": "Put", "UpdateItem": "Update", "DeleteItem": "Delete"}
    listed = [{short.get(name, name): body for name, body in one.items()} for one in items]
    for one in listed:
        for body in one.values():
            body.pop("ReturnValues", None)
    return _text("TransactWriteItems", {"TransactItems": listed, "ClientRequestToken": "{a new one for each call}"})


def _shown(place: Place, edit: Edit, adds: Mapping[str, str], sets: Mapping[str, Literal]) -> _ShownPlace:
    """A place that says templates for values."""
    found = _ShownPlace(**{one.name: getattr(place, one.name) for one in fields(place)})
    found.slots = {path: _slot(path, slot, edit, adds, sets) for path, slot in place.slots.items()}
    found.indexes = [_ShownIndex(index.place, index.values, index.paths, index.excludes) for index in place.indexes]
    return found


def _slot(path: str, slot: Slot, edit: Edit, adds: Mapping[str, str], sets: Mapping[str, Literal]) -> Slot:
    def encode(value: Any) -> Any:
        if value is None or isinstance(value, _Said):
            return None if value is None else value.text
        if path in edit.adds and value == edit.adds[path]:
            return str(value) if path == COUNT else adds.get(path, f"{{{path}}}")
        return operand_words(sets[path]) if path in sets and sets[path].value == value else f"{{{path}}}"

    kind = Type("string") if slot.type.kind == "bool" else slot.type
    return replace(slot, type=kind, encode=encode)


def _marked(edit: Edit, conditions: Sequence[tuple[str, str, str]]) -> Edit:
    """The edit with the texts of its tests: those of the write itself stand last, the others are of what was read."""
    left = list(conditions)
    tests: list[Test] = []
    for test in reversed(edit.tests):
        mine = next((one for one in reversed(left) if one[:2] == (test.path, test.op)), None)
        if mine is not None:
            left.remove(mine)
        if test.value is None or test.cut is not None or test.op not in _PLAIN:
            tests.append(test)
            continue
        text = mine[2] if mine is not None else f"{{{test.path}, as it was read}}"
        tests.append(replace(test, value=_Said(text)))
    return replace(edit, tests=tuple(reversed(tests)))


def _conditions(model: Model, write: Write) -> Iterator[tuple[str, str, str]]:
    key = model.entities[write.entity].key
    for condition in (*write.where, *write.condition):
        if str(condition.path) not in key and len(condition.operands) == 1:
            yield str(condition.path), condition.op, operand_words(condition.operands[0])


def _plain(body: Mapping[str, Any], edit: Edit, adds: Mapping[str, str]) -> dict[str, Any]:
    """The body without types, moments and limits by their names."""
    found = dict(body)
    if TTL in found.get("Item", {}):
        found["Item"] = {**found["Item"], TTL: _SECONDS}
    values = found.get("ExpressionAttributeValues")
    if values:
        found["ExpressionAttributeValues"] = {name: _value(value, edit, adds) for name, value in values.items()}
    return found


def _value(value: Any, edit: Edit, adds: Mapping[str, str]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    if kind == "S" and edit.alive_at is not None and text == encode_timestamp(edit.alive_at):
        return ":now"
    moments = [entry.get(EXPIRES) for entry in (edit.values, edit.fresh) if entry is not None]
    if kind == "N" and text in [str(expiry_seconds(one)) for one in moments if isinstance(one, datetime)]:
        return _SECONDS
    if kind == "N" and text != "0" and len(edit.adds) == 1:  # the greatest number that a sum may begin with
        ((path, amount),) = edit.adds.items()
        bound = Decimal(text) + Decimal(str(amount))
        return f"{bound:f} - ({adds.get(path, path)})"
    return text


def _text(operation: str, body: Mapping[str, Any]) -> str:
    return f"{operation} {json.dumps(body, ensure_ascii=False, indent=2)}"
