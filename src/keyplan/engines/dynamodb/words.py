"""A search in DynamoDB's own words, for people: the request as JSON, with `:parameters` in place of values.

Keys read as templates: `USER#{:user_id}` is the tag and behind it, encoded, the value of the parameter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from keyplan.engines.base import Access
from keyplan.engines.dynamodb.family_reads import FamilyRange
from keyplan.engines.dynamodb.keys import ABOVE
from keyplan.engines.dynamodb.layout import NativeKey, Place, layout
from keyplan.model.model import Model
from keyplan.model.pattern import RANGES, Ago, Condition, Literal, Now, Operand, Outer, Param
from keyplan.plan.design import Design
from keyplan.plan.steps import Search
from keyplan.plan.view import COPIES, Part

_BOUNDS = (*RANGES, "=")


def words(model: Model, design: Design, search: Search, first: int | None = None, *, strong: bool = False) -> str:
    """The operation and its body; conditions that are tested on each row are named behind it."""
    place = layout(model, design).places[search.view, search.at]
    table = next(one.name for one in design.structures if one.kind == "table")
    reading = _Reading(model, place, search)
    operation, body = reading.request()
    most = first if reading.family is None else reading.family.limit
    if most is not None and operation == "Query":
        body["Limit"] = most
    if strong and (place.index is None or place.local):
        body["ConsistentRead"] = True
    lines = [f"{operation} {json.dumps({'TableName': table, **body}, ensure_ascii=False, indent=2)}"]
    later = [condition for condition in search.given if condition not in reading.used] + list(search.filter)
    if later:
        lines.append(f"then tested on each row: {' and '.join(map(_plain, later))}")
    return "\n".join(lines)


def access(model: Model, design: Design, search: Search, *, many: bool) -> Access:
    """The operation, the condition on the key with its tags, and the index.

    `PK = USER#{user_id} and SK between ORDER#{start} and ORDER#{end}`
    """
    place = layout(model, design).places[search.view, search.at]
    operation, body = _Reading(model, place, search).request()
    index = body.get("IndexName", "table")
    if operation in ("GetItem", "BatchGetItem"):
        key = body["Key"] if operation == "GetItem" else body["Keys"][0]
        text = " and ".join(f"{name} = {value}" for name, value in key.items())
        return Access("BatchGetItem" if many else operation, _named(text), index)
    text = body.get("KeyConditionExpression") or body["FilterExpression"]
    text = text.replace(" AND ", " and ").replace(" BETWEEN ", " between ")
    values = body["ExpressionAttributeValues"]
    text = re.sub(r":\w+", lambda name: values[name[0]], text)
    if body.get("ScanIndexForward") is False:
        text += ", backwards"
    return Access(operation, _named(text), index)


def _named(text: str) -> str:
    """Parameters without their colons, which say nothing inside braces."""
    return re.sub(r":(?=[A-Za-z_])", "", text)


class _Reading:
    """Works out which parts of the key the conditions give."""

    def __init__(self, model: Model, place: Place, search: Search) -> None:
        self.place = place
        self.search = search
        self.used: list[Condition] = []
        self.parts = _parts(model, place)
        self.family = FamilyRange(model, place, search) if search.along else None

    def request(self) -> tuple[str, dict[str, Any]]:
        place, search = self.place, self.search
        width = place.width
        fixed: list[str] = []
        for part in self.parts:
            text = self.fixed(part, len(fixed) < width)
            if text is None:
                break
            fixed.append(text)
        body: dict[str, Any] = {}
        if place.index is not None:
            body["IndexName"] = place.index
        if place.native is not None and len(fixed) >= width:
            return "Query", body | self.native(place.native, fixed)
        if len(fixed) < width:
            self.used.clear()
            values = {":pk": place.partition.prefix}
            if self.family is not None:
                test = self.along(self.family, values)
            else:
                test, values[":sk"] = f"begins_with({place.sk}, :sk)", place.sort.prefix
            test = f"begins_with({place.pk}, :pk) AND {test}"
            return "Scan", {**body, "FilterExpression": test, "ExpressionAttributeValues": values}
        pk, sk = place.partition.prefix + "#".join(fixed[:width]), place.sort.prefix + "#".join(fixed[width:])
        if len(fixed) == len(self.parts) and place.index is None and not search.along:
            key = {"PK": pk, "SK": sk}
            if self.is_many:
                return "BatchGetItem", {"Keys": [key, "…"]}
            return "GetItem", {"Key": key}
        values = {":pk": pk}
        if self.family is not None:
            condition = self.along(self.family, values)
        elif len(fixed) == len(self.parts):
            condition, values[":sk"] = f"{place.sk} = :sk", sk
        else:
            stem = sk + "#" if len(fixed) > width else sk
            condition = self.range(self.parts[len(fixed)], stem, values)
        body |= {
            "KeyConditionExpression": f"{place.pk} = :pk AND {condition}",
            "ExpressionAttributeValues": values,
        }
        if self.family.backwards if self.family is not None else search.descending != place.backwards:
            body["ScanIndexForward"] = False
        return "Query", body

    def along(self, family: FamilyRange, values: dict[str, str]) -> str:
        """The condition on the sort key of a row and its children."""
        bounds: dict[str, Any] = {}
        condition = family.condition(self.place, bounds)
        values |= {name: one["S"].replace(ABOVE, "…") for name, one in bounds.items()}
        return condition

    def native(self, key: NativeKey, fixed: Sequence[str]) -> dict[str, Any]:
        """The conditions on a key of several attributes."""
        names = [one.name for one in key.attributes]
        values = {":pk": key.tag}
        terms = [f"{names[0]} = :pk"]
        for number, text in enumerate(fixed, 1):
            values[f":{number}"] = text
            terms.append(f"{names[number]} = :{number}")
        if len(fixed) < len(self.parts):
            bounds: dict[str, str] = {}
            term = self.range(self.parts[len(fixed)], "", bounds, names[len(fixed) + 1])
            if bounds and any(bounds.values()):
                values |= bounds
                terms.append(term)
        body: dict[str, Any] = {"KeyConditionExpression": " AND ".join(terms), "ExpressionAttributeValues": values}
        if self.search.descending:
            body["ScanIndexForward"] = False
        return body

    @property
    def is_many(self) -> bool:
        return any(condition.op == "in" for condition in self.used)

    def on(self, part: Part) -> list[Condition]:
        return [condition for condition in self.search.given if str(condition.path) == part.path]

    def fixed(self, part: Part, enumerated: bool) -> str | None:
        """The value of a part that the conditions fix; shards and times in between are tried one by one."""
        if part.cut == COPIES:
            return f"{{any of {part.ways} copies}}"
        if part.ways > 1:
            return f"{{each of {part.ways} shards}}"
        for condition in self.on(part):
            if condition.op in ("=", "in", "contains", "search") and condition.cut in (None, part.cut):
                if condition.cut == part.cut or part.cut in ("each", "words"):
                    self.used.append(condition)
                text = operand_words(condition.operands[0])
                if condition.op == "in":
                    return f"{{each of {text}}}" if len(condition.operands) == 1 else f"{{{_list(condition.operands)}}}"
                if part.cut == "words":
                    return f"{{each word of {text}}}"
                is_cut = part.cut not in (None, "each") and condition.cut is None
                return f"{{{part.cut}({text})}}" if is_cut else f"{{{text}}}"
        if enumerated and part.cut and any(condition.op in _BOUNDS for condition in self.on(part)):
            return f"{{each {part.cut} of {part.path}}}"
        return None

    def range(self, part: Part, stem: str, values: dict[str, str], sk: str = "") -> str:
        """The condition on the sort key, of which the beginning is fixed."""
        sk = sk or self.place.sk
        low, high = "", ""
        for condition in self.on(part):
            if condition.op not in _BOUNDS or condition in self.used:
                continue
            self.used.append(condition)
            first, last = operand_words(condition.operands[0]), operand_words(condition.operands[-1])
            if condition.op == "begins_with":
                values[":sk"] = f"{stem}{{{first}}}"
                return f"begins_with({sk}, :sk)"
            if condition.op in ("=", "between", ">", ">="):
                low = first
            if condition.op in ("=", "between", "<", "<="):
                high = last
        if not low and not high:
            values[":sk"] = stem
            return f"begins_with({sk}, :sk)"
        if part.descending and not self.place.backwards:
            low, high = high, low
        values[":low"] = f"{stem}{{{low}}}" if low else stem
        values[":high"] = f"{stem}{{{high}}}" if high else f"{stem}…"
        return f"{sk} BETWEEN :low AND :high"


def _parts(model: Model, place: Place) -> list[Part]:
    """The parts of a place's key, in the paths of its own rows."""
    view = place.view
    embed = view.embed_at(place.at)
    if embed is None:
        return list(view.parts)
    role = model.entities[view.entity].roles[place.at[-1]]
    seen: Mapping[str, str] = dict(zip(model.entities[view.entity].key, role.columns, strict=True))
    return [*(Part(seen.get(part.path, part.path), part.cut, part.ways) for part in view.parts), *embed.sort]


def operand_words(operand: Operand) -> str:
    """A value of a call, by its name."""
    match operand:
        case Param(name=name, negative=negative):
            return f"-:{name}" if negative else f":{name}"
        case Literal(value=value):
            return f"'{value}'" if isinstance(value, str) else str(value)
        case Ago(ms=ms):
            return f":now - {ms} ms"
        case Now():
            return ":now"
        case Outer(path=path):
            return f":{path}"


def _list(operands: Sequence[Operand]) -> str:
    return ", ".join(map(operand_words, operands))


def _plain(condition: Condition) -> str:
    left = f"{condition.cut}({condition.path})" if condition.cut else str(condition.path)
    return " ".join((left, condition.op, *map(operand_words, condition.operands)))
