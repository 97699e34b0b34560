"""The shard key of each collection, chosen from what its reads and writes fix, and checked for two faults.

A read that fixes the shard key goes to one shard, any other to all of them. A key whose values grow with time sends
every insert to the last chunk: it is hashed. A value that holds a large share of the documents cannot be split: the
`_id` is put behind it. Emitted only: no sharded cluster runs in our tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from keyplan.engines.mongodb.layout import Place, layout
from keyplan.engines.mongodb.values import ID, Document, Slot
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.steps import Search
from keyplan.plan.walk import searches

GROWING = ("timestamp", "date", "ulid")
"""Types whose new values are above the old ones."""
FEW = 1000.0
"""With fewer values than this, chunks of a cluster cannot be spread evenly."""
HOT = 0.01
"""A value with this share of the documents is more than a chunk can well be."""


@dataclass(frozen=True)
class Choice:
    """A shard key, and why."""

    collection: str
    key: Document
    because: tuple[str, ...]
    problems: tuple[str, ...] = ()


def shard_keys(model: Model, design: Design) -> list[Choice]:
    """A choice per collection, in their order."""
    return [_choice(model, design, place) for place in layout(model, design).collections]


def _choice(model: Model, design: Design, place: Place) -> Choice:
    if place.beside:
        return _shared(place)
    rates = _fixed_rates(model, design, place)
    total = sum(rate for rate, _ in rates) or 1.0
    scores: dict[str, float] = {ID: 0.0}
    for rate, fixed in rates:
        for name in fixed:
            scores[name] = scores.get(name, 0.0) + rate
    refused = {name: why for name in scores if name != ID and (why := _unfit(model, place, name))}
    # On ties the `_id`: it is in every document, never changes, and has as many values as there are documents.
    able = [name for name in scores if name not in refused]
    best = max(able, key=lambda name: (round(scores[name], 9), name == ID, name))
    because = [f"{scores[best] / total:.0%} of the calls that come to it fix '{best}'"]
    better = [name for name in refused if scores[name] > scores[best]]
    because += [f"{scores[name] / total:.0%} fix '{name}', but it {refused[name]}" for name in sorted(better)]
    slots = list(place.root_key) if best == ID else [_slot(place, best)]
    key: Document = {best: 1}
    if slots and slots[0].type.kind in GROWING:
        key = {best: "hashed"}
        what = "its values grow" if len(slots) == 1 else f"it begins with '{slots[0].path}', which grows"
        because.append(f"{what} with time, so that it is hashed")
    elif best != ID:
        distinct, hottest = _spread(model, place, slots[0].path)
        if distinct < rows_of(model, place) or hottest > HOT:
            key = {best: 1, ID: 1}
            because.append("several documents have the same value, so that '_id' splits them further")
    return Choice(place.collection, key, tuple(because), _refused(place, key))


def _shared(place: Place) -> Choice:
    """By the `_id`, which begins with the key that rows and their children are found by together."""
    first = place.root_key[0]
    because = ["a range of '_id's is a row with its children, in one chunk as a rule"]
    if first.type.kind not in GROWING:
        return Choice(place.collection, {ID: 1}, tuple(because), _refused(place, {ID: 1}))
    because = [f"it begins with '{first.path}', which grows with time, so that it is hashed"]
    problem = "a row and its children are on several shards then, all of which are asked for them"
    return Choice(place.collection, {ID: "hashed"}, tuple(because), (problem, *_refused(place, {ID: "hashed"})))


def _refused(place: Place, key: Document) -> tuple[str, ...]:
    """The unique indexes that a sharded collection cannot have."""
    return tuple(
        f"the unique index '{index.name}' does not begin with the shard key, and a sharded collection refuses it: "
        "leave the collection unsharded, or keep the values in one of their own"
        for one in place.together
        for index in one.indexes
        if index.unique and [name for name, _ in index.keys][: len(key)] != list(key)
    )


def _slot(place: Place, name: str) -> Slot:
    return next(slot for slot in place.slots.values() if slot.field == name)


def rows_of(model: Model, place: Place) -> float:
    return float(model.entities[place.entity].count or 1000)


def _unfit(model: Model, place: Place, name: str) -> str:
    """Why a field is no shard key; empty if it may be one."""
    path = _slot(place, name).path
    column = model.entities[place.entity].columns.get(path)
    if column is None or column.optional:
        return "may be missing"
    distinct, hottest = _spread(model, place, path)
    if distinct < FEW:
        return f"has only {distinct:.0f} values"
    if hottest > HOT:
        return f"has {hottest:.0%} of the documents under one value"
    for write in model.writes.values():
        if write.entity == place.entity and write.kind in ("update", "change") and path in (*write.sets, *write.adds):
            return f"is changed by '{write.name}'"
    return ""


def _spread(model: Model, place: Place, path: str) -> tuple[float, float]:
    """How many values a column has, and the share of the commonest, as far as the model says."""
    entity = model.entities[place.entity]
    column = entity.columns.get(path)
    if column is None:
        return FEW, 0.0
    told = entity.fields[column.field]
    if told.type is not None and told.type.kind == "enum":
        shares = [share or 1 / len(told.type.values) for _, share in told.type.values]
        return float(len(shares)), max(shares)
    if told.type is not None and told.type.kind == "bool":
        return 2.0, 0.5
    rows = float(model.entities[told.target].count or 1000) if told.target else float(entity.count or 1000)
    distinct = told.distinct or rows
    return distinct, told.top or 1 / max(1.0, distinct)


def _fixed_rates(model: Model, design: Design, place: Place) -> list[tuple[float, set[str]]]:
    """Per search of a pattern on the collection, and per write: how often, and which fields it fixes by equality."""
    views = {place.view.name: place, **{index.view.name: place for index in place.indexes}}
    found: list[tuple[float, set[str]]] = []
    for name, plan in design.plans.items():
        rate = model.patterns[name].traffic.rate
        for search in searches(plan.node):
            if search.view in views:
                found.append((rate, _fixed(place, search)))
    for write in model.writes.values():
        if write.entity == place.entity and write.by_key and write.kind != "create":
            found.append((write.traffic.rate, {ID}))
    return found


def _fixed(place: Place, search: Search) -> set[str]:
    equal = {str(condition.path) for condition in search.given if condition.op in ("=", "in") and not condition.cut}
    fields = {slot.field for path, slot in place.slots.items() if path in equal and slot.field.partition(".")[0] != ID}
    fields = set() if place.packed else fields  # of entries inside an array there is no shard key
    parts = place.root_key
    # A range of compound `_id`s lies in few chunks, unless they are hashed because their first part grows.
    whole = bool(parts) and all(slot.path in equal for slot in parts)
    if whole or (parts and parts[0].path in equal and parts[0].type.kind not in GROWING):
        fields.add(ID)
    return fields
