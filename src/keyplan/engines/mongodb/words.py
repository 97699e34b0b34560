"""A search in mongosh's words, for people: with `:parameters` in place of values."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from keyplan.engines.base import Access
from keyplan.engines.mongodb.bounds import id_range
from keyplan.engines.mongodb.layout import OF, Index, Layout, Place, layout, owner_slot
from keyplan.engines.mongodb.script import Parameter, plain
from keyplan.engines.mongodb.values import ID, Document, Slot, encoder
from keyplan.model.model import Model
from keyplan.model.pattern import Ago, Condition, Literal, Now, Operand, Outer, Param
from keyplan.model.types import Type
from keyplan.plan.children import first_of
from keyplan.plan.design import Design
from keyplan.plan.names import part_name
from keyplan.plan.steps import Search
from keyplan.plan.view import Part

WIDTH = 96
_ANY = Slot("", "", Type("string"))
_COMPARE = {"=": "$eq", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte", "in": "$in"}


def words(model: Model, design: Design, search: Search, first: int | None = None) -> str:
    """The find that a search comes to. Conditions that are tested here are named behind it."""
    return _find(model, design, search).text(first)


def access(model: Model, design: Design, search: Search, *, many: bool) -> Access:
    """The collection and method, the filter, and the index."""
    find = _find(model, design, search)
    operation = "find" if find.ranged or many else "findOne"
    return Access(operation, find.shown(find.filter), find.index.name if find.index is not None else "_id")


def _find(model: Model, design: Design, search: Search) -> _Find | _PackedFind:
    places = layout(model, design)
    place = places.places.get((search.view, search.at))
    return _PackedFind(place, search) if place is not None and place.packed else _Find(model, places, search)


class _PackedFind:
    """Documents by their partitions, whose entries are cut out here."""

    index = None

    def __init__(self, place: Place, search: Search) -> None:
        self.place = place
        self.search = search
        self.ranged = False
        """Several documents are read."""
        values = [self._part(part) for part in place.view.partition]
        slots = place.root_key
        key: Any = values[0]
        if len(slots) > 1:
            key = {slot.field.partition(".")[2]: value for slot, value in zip(slots, values, strict=True)}
        self.filter: Document = {ID: {"$in": [key, Parameter("…")]} if self.ranged else key} if search.given else {}

    def _part(self, part: Part) -> Any:
        """The value of a part of the `_id`, or the first of several."""
        if part.ways > 1:
            return Parameter(f":{part_name(part).replace(' ', '_')}")
        some = [one for one in self.search.given if str(one.path) == part.path]
        same = next((one for one in some if one.cut == part.cut and one.op in ("=", "in")), None)
        if same is not None:
            self.ranged = self.ranged or same.op == "in"
            return value_of(_ANY, same.operands[0])
        self.ranged = self.ranged or not any(one.op == "=" and one.cut is None for one in some)
        value = plain(value_of(_ANY, some[0].operands[0])) if some else "…"
        return Parameter(f"{part.cut}({value})")

    def text(self, first: int | None) -> str:
        place, search = self.place, self.search
        taken = {slot.field for slot in (*(place.slots[path] for path in search.takes), *place.own_key)}
        told = [self.shown(self.filter)]
        if not {slot.field for slot in place.stored} <= taken:
            inside = sorted(name for name in taken if name.partition(".")[0] != ID)
            told.append(self.shown({f"{place.array}.{name}": 1 for name in inside}))
        many = self.ranged or not self.filter
        text = f"db.{place.collection}.{'find' if many else 'findOne'}({', '.join(told)})"
        text = "\n".join(wrap(text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False))
        if many:
            text += '\n  .hint("_id_")'
        own = {part.slot.path for part in place.parts[len(place.root_key) :]}
        cut = [one for one in search.given if str(one.path) in own]
        of = f" with {' and '.join(map(_plain, cut))}" if cut else ""
        text += f"\n// then the '{place.array}' of each document{of}"
        if search.order:
            text += f", by {', '.join(f'{one.path} desc' if one.descending else str(one.path) for one in search.order)}"
        if first is not None:
            text += f", the first {first} of each"
        if search.filter:
            text += f"\n// then tested on each row: {' and '.join(map(_plain, search.filter))}"
        return text

    def shown(self, document: Document) -> str:
        return plain(document, bare=True)


class _Find:
    def __init__(self, model: Model, places: Layout, search: Search) -> None:
        self.search = search
        self.index: Index | None = places.indexes.get(search.view)
        place = places.totals.get(search.view) or (
            self.index.place if self.index is not None else places.places[search.view, search.at]
        )
        self.inner: Place | None = None
        if place.at and place.array:
            self.inner, place = place, places.places[search.view, ()]
        if self.index is not None:
            self.inner = self.index.inner
        self.place: Place = place
        self.filter: Document = dict(self.index.partial) if self.index is not None else {}
        self.later: list[Condition] = list(search.filter)
        seen = self.inner or place
        by_path = {part.slot.path: part.slot for part in (self.index.parts if self.index is not None else seen.parts)}
        fixed: dict[str, Any] = {}
        for condition in search.given:
            named = f"{condition.cut}({condition.path})" if condition.cut else str(condition.path)
            tried = {"contains": f"each({named})", "search": f"words({named})"}.get(condition.op, named)
            slot = by_path.get(tried) or seen.slots.get(named)
            inside = self.inner is not None and slot is not None and slot.field.partition(".")[0] != ID
            inside = inside and tried not in by_path
            if slot is None or inside:
                self.later.append(condition)
            else:
                fixed[slot.field] = {**fixed.get(slot.field, {}), **test_of(slot, condition)}
        for name, condition in self.filter.items():
            if name in fixed and "$exists" not in condition:
                fixed[name] = {**condition, **fixed[name]}
        self.filter |= self._by_id(fixed)
        keys = {part.slot.field for part in (self.index.parts if self.index is not None else place.parts)}
        given = {name for name, test in fixed.items() if "$eq" in test}
        self.family = bool(place.beside) and self.index is None and bool(search.along)
        """The children come behind the row, `first` of them at most."""
        self.first: int | None = None
        if self.family:
            (select,) = search.along.values()
            self.first = first_of(model, place.entity, place.view.embeds[0], select)
        self.ranged = self.family or not keys <= given
        self.given = given
        ordered = {str(one.path) for one in search.order[:1]}
        self.merged = [
            slot.field
            for path, slot in by_path.items()
            if search.order and path not in ordered and "$in" in fixed.get(slot.field, {}) and self.index is not None
        ]
        """Each value has its own find, and what they bring is merged: such a field is not in their order."""

    def _by_id(self, fixed: Document) -> Document:
        parts = [part.slot.field for part in self.place.parts]
        if self.place.tag and self.index is None:
            parts.insert(self.place.shared, f"{ID}.{OF}")
            if not (self.place.beside and self.search.along):
                fixed = {**fixed, f"{ID}.{OF}": {"$eq": self.place.tag}}
        if self.index is None and len(parts) > 1:
            fixed = id_range(parts, fixed)
        return {name: test["$eq"] if list(test) == ["$eq"] else test for name, test in fixed.items()}

    def text(self, first: int | None) -> str:
        search, place = self.search, self.place
        if self.inner is None:
            fields = [slot.field for path in search.takes if (slot := place.slots.get(path)) is not None]
        else:
            fields = [_seen(place, self.inner, path) for path in search.takes]
        fields += [place.children[role].array for role in search.along if role in place.children]
        projection = {} if self.family else dict.fromkeys(fields, 1)
        method = "find" if self.ranged and (self.inner is None or self.index is not None) else "findOne"
        told = ", ".join(self.shown(each) for each in (self.filter, projection) if each or each is self.filter)
        text = f"db.{place.collection}.{method}({told})"
        text = "\n".join(wrap(text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False))
        if method == "find":
            order = self.index.keys if self.index is not None else [(ID, 1)]
            backwards = place.backwards or any(child.backwards for child in place.beside.values() if self.family)
            way = -1 if search.descending != (backwards and self.index is None) else 1
            fixed = {*self.given, *self.merged}
            sort = {name: direction * way for name, direction in order if name not in fixed}
            if (search.order or self.family) and sort:
                text += f"\n  .sort({self.shown(sort)})"
            if self.family:
                first = None if self.first is None else self.first + 1
            if first is not None and (self.family or self.inner is None):
                text += f"\n  .limit({first})"
            if self.index is not None:
                text += f'\n  .hint("{self.index.name}")'
        if self.merged:
            text += f"\n// once for each value of {' and '.join(self.merged)}, merged in this order"
        if self.later:
            text += f"\n// then tested on each row: {' and '.join(map(_plain, self.later))}"
        return text

    def shown(self, document: Document) -> str:
        return plain(document, bare=True)


def _seen(document: Place, inner: Place, path: str) -> str:
    """The field of an embedded row's value, which may be its owner's."""
    slot = inner.slots.get(path)
    if slot is None:
        return owner_slot(document, inner, path).field
    return slot.field if slot.field.partition(".")[0] == ID else f"{inner.array}.{slot.field}"


def test_of(slot: Slot, condition: Condition) -> Document:
    values = [value_of(slot, operand) for operand in condition.operands]
    op = condition.op
    if op in ("contains", "search"):
        return {"$eq": values[0]}
    if op == "in" and not (len(values) == 1 and isinstance(condition.operands[0], Param)):
        return {"$in": values}
    if op in _COMPARE:
        return {_COMPARE[op]: values[0]}
    if op == "between":
        return {"$gte": values[0], "$lte": values[1]}
    if op == "begins_with":
        return {"$gte": values[0], "$lt": Parameter(f"{plain(values[0])}…")}
    return {"$exists": op == "present"}


def value_of(slot: Slot, operand: Operand) -> Any:
    match operand:
        case Literal(value=value):
            return encoder(slot)(value) if slot.type.of is None else value
        case Param(name=name):
            return Parameter(f":{name}")
        case Ago(ms=ms):
            return Parameter(f"now - {ms} ms")
        case Now():
            return Parameter(":now")
        case Outer(path=path):
            return Parameter(f":{path.lstrip('$')}")


def _plain(condition: Condition) -> str:
    left = f"{condition.cut}({condition.path})" if condition.cut else str(condition.path)
    texts = [
        repr(operand.value) if isinstance(operand, Literal) else plain(value_of(_ANY, operand))
        for operand in condition.operands
    ]
    return " ".join((left, condition.op, *texts))
