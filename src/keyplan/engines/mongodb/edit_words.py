"""What a write does to a document, in mongosh for people: with `:columns` in place of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyplan.engines.mongodb.layout import EXPIRES_FIELD, OF, Place, layout
from keyplan.engines.mongodb.script import plain
from keyplan.engines.mongodb.values import Slot
from keyplan.engines.mongodb.words import test_of, value_of
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import Literal, Operand, Param, term_paths
from keyplan.model.write import Write
from keyplan.plan.design import Design
from keyplan.plan.steps import Touch
from keyplan.plan.view import COUNT


def edit_words(model: Model, design: Design, write: Write, touch: Touch) -> str:
    """The command for one document, or one element of an array; none for an index, which MongoDB keeps itself."""
    place = layout(model, design).places.get((touch.view, touch.at))
    if place is None:
        return ""
    name = f"db.{place.collection}"
    key = f"{{ _id: {_id(place)} }}"
    home = design.homes[write.entity] == (touch.view, touch.at)
    if place.array and touch.at:
        if touch.edit == "put" and write.kind == "create" and place.limit is None and place.entity != write.entity:
            return f"// with the document that is inserted: {{ {place.array}: [{_fields(place)}] }}"
        if home and touch.edit == "patch" and place.limit is None and (write.sets or write.adds):
            own = ", ".join(f"{slot.field}: :{slot.path}" for slot in place.own_key)
            found = f"{place.array}: {{ $elemMatch: {{ {', '.join((own, *_tests(place, write, False)))} }} }}"
            changes = _changes(model, place, write, f"{place.array}.$[row].")
            arrays = ", ".join(f'"row.{slot.field}": :{slot.path}' for slot in place.own_key)
            return f"{name}.updateOne({key[:-2]}, {found} }}, {changes}, {{ arrayFilters: [{{ {arrays} }}] }})"
        return _element(place, name, key, touch.edit)
    if place.packed:
        return _packed(place, name, key, touch.edit)
    if home:
        if touch.edit == "put" and write.kind == "create":
            return f"{name}.insertOne({{ _id: {_id(place)}, {_fields(place)[2:]})"
        read = design.writes[write.name].reads_row
        key = f"{{ {', '.join((f'_id: {_id(place)}', *_tests(place, write, read)))} }}"
        if touch.edit == "patch" and (write.sets or write.adds):
            upsert = ", { upsert: true }" if write.kind == "change" else ""
            return f"{name}.updateOne({key}, {_changes(model, place, write)}{upsert})"
    if touch.edit == "add":
        return f"{name}.updateOne({key}, {_sums(place)}, {{ upsert: true }})"
    if touch.edit == "delete":
        return f"{name}.deleteOne({key})"
    if touch.edit == "patch":
        return f"{name}.updateOne({key}, {{ $set: … }})"
    put = f"{name}.replaceOne({key}, {_fields(place)}, {{ upsert: true }})"
    return f"{name}.deleteOne({{ _id: … }})\n{put}" if touch.edit == "move" else put


def _tests(place: Place, write: Write, read: bool) -> Iterator[str]:
    """What has to hold for a document besides its key: the `if` of a write, and what it was worked out from."""
    for condition in write.condition:
        slot = place.slots.get(str(condition.path))
        if slot is not None:
            test = test_of(slot, condition)
            yield plain({slot.field: test["$eq"] if list(test) == ["$eq"] else test}, bare=True)[2:-2]
    if read:
        yield "… as it was read"


def _changes(model: Model, place: Place, write: Write, before: str = "") -> str:
    """The operators of an update, for what the write says and what the document copies by a reference that it sets."""
    by_operator: dict[str, list[str]] = {}

    def note(operator: str, slot: Slot, value: str) -> None:
        field = f'"{before}{slot.field}"' if before else slot.field
        by_operator.setdefault(operator, []).append(f"{field}: {value}")

    for column, operand in write.sets.items():
        slot = place.slots.get(column)
        if slot is not None:
            cleared = isinstance(operand, Literal) and operand.value is None
            note("$unset" if cleared else "$set", slot, '""' if cleared else _told(slot, operand))
    roles = {
        role.name
        for role in model.entities[write.entity].roles.values()
        if not role.many and {*role.columns} & {*write.sets}
    }
    for path, slot in place.slots.items():
        if "." in path and path.partition(".")[0] in roles and path not in write.sets:
            note("$set", slot, f":{path}")
    for column, operand in write.adds.items():
        slot = place.slots.get(column)
        if slot is not None:
            note("$inc", slot, _told(slot, operand))
    return _operators(by_operator)


def _told(slot: Slot, operand: Operand) -> str:
    sign = "-" if isinstance(operand, Param) and operand.negative else ""
    return f"{sign}{plain(value_of(slot, operand))}"


def _element(place: Place, name: str, key: str, edit: str) -> str:
    own = ", ".join(f"{slot.field}: :{slot.path}" for slot in place.own_key)
    if place.limit is not None:
        if edit == "delete":
            key = f"{{ _id: {_id(place)}, {place.version}: the one that was read }}"
        upsert = ", { upsert: true }" if edit == "put" else ""
        return f"{name}.updateOne({key}, [{{ $set: {_first(place, edit)} }}]{upsert})"
    if edit == "delete":
        return f"{name}.updateOne({key}, {{ $pull: {{ {place.array}: {{ {own} }} }} }})"
    if edit == "patch":
        return (
            f"{name}.updateOne({key}, {{ $set: {{ '{place.array}.$[row]…': … }} }}, {{ arrayFilters: [{{ {own} }}] }})"
        )
    return f"{name}.updateOne({key}, {{ $push: {{ {place.array}: {_fields(place)} }} }}, {{ upsert: true }})"


def _packed(place: Place, name: str, key: str, edit: str) -> str:
    """An entry in its partition's document; one that is there already is left out by a pipeline instead."""
    own = ", ".join(f"{slot.field}: :{slot.path}" for slot in place.own_key)
    if edit in ("delete", "patch"):
        if place.totals:
            rows = "without it" if edit == "delete" else "with its new values"
            return f"{name}.updateOne({key}, [{{ $set: {{ {place.array}: … {rows} }} }}, {{ $set: … the totals }}])"
        return _element(place, name, key, edit)
    new = f"{key[:-2]}, {place.array}: {{ $not: {{ $elemMatch: {{ {own} }} }} }} }}"
    push = f"{{ $push: {{ {place.array}: {_fields(place)} }}{_beside(place)} }}"
    push = f"{name}.updateOne({new}, {push}, {{ upsert: true }})"
    pull = f"{name}.updateOne({{ _id: … }}, {{ $pull: {{ {place.array}: {{ … }} }} }})"
    return f"{pull}\n{push}" if edit == "move" else push


def _beside(place: Place) -> str:
    """What is done for a new entry to the fields beside the array: when the last one expires, and the totals."""
    by_operator: dict[str, list[str]] = {"$max": [f"{EXPIRES_FIELD}: :{EXPIRES}"]} if place.expires else {}
    for measure, slot in place.totals.values():
        operator = f"${measure.how}" if measure.how in ("min", "max") else "$inc"
        value = (
            "1" if measure.how == "count" else f":{', :'.join(str(path) for path in sorted(term_paths(measure.term)))}"
        )
        by_operator.setdefault(operator, []).append(f"{slot.field}: {value}")
    return "".join(f", {how}: {{ {', '.join(some)} }}" for how, some in by_operator.items())


def _first(place: Place, edit: str) -> str:
    """The array of which the first rows are kept, as a stage of a pipeline sets it, and the count of its changes."""
    array, version = place.array, place.version
    own = ", ".join(f"{slot.field}: :{slot.path}" for slot in place.own_key)
    if edit == "patch":
        found = f"{{ $map: … its row {{ {own} }} … }}"
    else:
        parts = place.parts[len(place.parts) - place.own :]
        by = ", ".join(f"{part.slot.field}: {-1 if part.descending else 1}" for part in parts)
        rows = f'{{ $concatArrays: ["${array}", [{_fields(place)}]] }}'
        if edit == "delete":
            rows = f'{{ $concatArrays: ["${array}" without {{ {own} }}, [the next row]] }}'
        found = f"{{ $slice: [{{ $sortArray: {{ input: {rows}, sortBy: {{ {by} }} }} }}, {place.limit}] }}"
    return f'{{ {array}: {found}, {version}: {{ $add: ["${version}", 1] }} }}'


def _id(place: Place) -> str:
    slots = place.root_key
    if len(slots) == 1 and not place.tag:
        return f":{slots[0].path}"
    parts = [f"{slot.field.partition('.')[2]}: :{slot.path}" for slot in slots]
    if place.tag:
        parts.insert(place.shared, f'{OF}: "{place.tag}"')
    return f"{{ {', '.join(parts)} }}"


def _fields(place: Place) -> str:
    fields = ", ".join(f"{slot.field}: :{slot.path}" for slot in place.stored)
    return f"{{ {fields} }}"


def _sums(place: Place) -> str:
    keys = {part.slot.path for part in place.parts}
    by_operator: dict[str, list[str]] = {}
    for path, slot in place.slots.items():
        if path not in keys:
            operator = f"${place.extends.get(path, 'inc')}"
            value = "1" if path == COUNT else f":{path}"
            by_operator.setdefault(operator, []).append(f"{slot.field}: {value}")
    return _operators(by_operator)


def _operators(by_operator: Mapping[str, list[str]]) -> str:
    texts = ", ".join(f"{how}: {{ {', '.join(sets)} }}" for how, sets in by_operator.items())
    return f"{{ {texts} }}"
