"""What a write does to a document, in mongosh for people: with `:columns` in place of values."""

from __future__ import annotations

from keyplan.engines.mongodb.layout import EXPIRES_FIELD, OF, Place, layout
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import term_paths
from keyplan.plan.design import Design
from keyplan.plan.steps import Touch
from keyplan.plan.view import COUNT


def edit_words(model: Model, design: Design, touch: Touch) -> str:
    """The command for one document, or one element of an array; none for an index, which MongoDB keeps itself."""
    place = layout(model, design).places.get((touch.view, touch.at))
    if place is None:
        return ""
    name = f"db.{place.collection}"
    key = f"{{ _id: {_id(place)} }}"
    if place.array and touch.at:
        return _element(place, name, key, touch.edit)
    if place.packed:
        return _packed(place, name, key, touch.edit)
    if touch.edit == "add":
        return f"{name}.updateOne({key}, {_sums(place)}, {{ upsert: true }})"
    if touch.edit == "delete":
        return f"{name}.deleteOne({key})"
    if touch.edit == "patch":
        return f"{name}.updateOne({key}, {{ $set: … }})"
    put = f"{name}.replaceOne({key}, {_fields(place)}, {{ upsert: true }})"
    return f"{name}.deleteOne({{ _id: … }})\n{put}" if touch.edit == "move" else put


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
    texts = ", ".join(f"{how}: {{ {', '.join(sets)} }}" for how, sets in by_operator.items())
    return f"{{ {texts} }}"
