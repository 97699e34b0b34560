"""Edits as requests: one update of one document where that is enough, a transaction where it is not.

All edits of one document, of its own row and of the rows embedded in it, become a single operation, and what they
expect stands in its filter. An operation that finds nothing was refused; `refusal` says by which edit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from keyplan.engines.mongodb.conditions import (
    MOST_INT,
    alive,
    conflict,
    float_guard,
    guard_terms,
    needs_presence,
    test_terms,
    verdict,
)
from keyplan.engines.mongodb.families import Family, One
from keyplan.engines.mongodb.layout import EXPIRES_FIELD, TOUCHED, Layout, Place
from keyplan.engines.mongodb.limits import BULK
from keyplan.engines.mongodb.packed_writes import PackedFamily
from keyplan.engines.mongodb.steps import Step
from keyplan.engines.mongodb.values import (
    ID,
    Document,
    changed_words,
    document_encoder,
    encoder,
    id_encoder,
    rows_decoder,
    sum_fields,
)
from keyplan.engines.rounds import Reply, Row, Then
from keyplan.errors import KeyplanError, UnsupportedError, row_named
from keyplan.plan.edits import Edit

TOUCH = {"$inc": {TOUCHED: 1}}


@dataclass(slots=True)
class WriteRequest:
    """Edits that are done together or not at all."""

    edits: Sequence[Edit]
    places: Sequence[Place]
    steps: list[Step]
    writer: Writer
    careful: bool = False
    """Documents that were thought to be new may be there already."""
    then: Then | None = None
    """What is done behind the steps, before the commit."""
    apart: list[Step] = field(default_factory=list)
    """What makes it meet with others that name the same rows, in a transaction."""
    token: str | None = None
    """It is part of an `apply`, and done only as long as that has the database to itself (`fence.py`)."""

    @property
    def is_transaction(self) -> bool:
        more = self.then is not None or self.token is not None
        return more or len([step for step in self.steps if not step.cleans]) > 1

    def again(self) -> WriteRequest:
        """The same, for documents that are there already."""
        made = self.writer.compose(self.edits, careful=True)
        made.then, made.apart, made.token = self.then, self.apart, self.token
        return made

    def refusal(self, step: Step, document: Document | None) -> KeyplanError | None:
        """Why a step found nothing to do, by the document as it is now; None if it would succeed by now."""
        for number in step.edits:
            edit, place = self.edits[number], self.places[number]
            error = verdict(place, edit, number, self.writer.entry(place, edit, document))
            if error is not None:
                return error
        return None

    def is_vain(self, step: Step, document: Document | None) -> bool:
        """Whether there is nothing that the step's edits could change, and none of them minds."""
        return all(
            self.edits[number].expect == "any"
            and not self.edits[number].tests
            and self.edits[number].fresh is None
            and self.writer.entry(self.places[number], self.edits[number], document) is None
            for number in step.edits
        )

    def duplicate(self, step: Step, index: str) -> KeyplanError:
        """The error for a unique index that has the value already."""
        number = next((n for n in step.edits if not self.edits[n].at), step.edits[0])
        place = self.places[number]
        row = row_named(place.entity, self.edits[number].key)
        found = next((one for one in place.indexes if one.name == index), None)
        if found is None:
            return conflict(number, f"{row} exists already; give another key")
        listed = ", ".join(f"'{part.slot.path}'" for part in found.parts)
        return conflict(number, f"{row}: another row has the same {listed}; give another value")


@dataclass(slots=True)
class BulkRequest:
    """Writes of one collection that do not depend on each other: (kind, filter, document or update)."""

    collection: str
    writes: list[tuple[str, Document, Any]]
    fresh: list[Document] = field(default_factory=list)
    """Whole documents, which are inserted, and replaced where there is one already."""
    place: Place | None = None
    instead: list[tuple[str, Document, Any]] = field(default_factory=list)
    """What is done for each of them where there is a document already, if not that it is replaced."""
    token: str | None = None
    """As above."""


@dataclass
class _Codes:
    """The compiled functions of one place."""

    id: Callable[[Sequence[Any]], Any]
    fields: Callable[[Mapping[str, Any]], Document]
    rows: Callable[[Any], list[Row]]
    encoders: dict[str, Callable[[Any], Any]]


class Writer:
    """Edits to requests, for one layout."""

    def __init__(self, layout: Layout) -> None:
        self._places = layout.places
        self._codes: dict[int, _Codes] = {}
        self._families: dict[str, Family] = {}
        self._unique = {place.collection for place in layout.places.values() for one in place.indexes if one.unique}
        for place in layout.collections:
            if place.children:
                self._families[place.collection] = Family(place)
            elif place.packed:
                self._families[place.collection] = PackedFamily(place)

    def write(self, edits: Sequence[Edit]) -> WriteRequest:
        return self.compose(edits)

    def compose(self, edits: Sequence[Edit], *, careful: bool = False) -> WriteRequest:
        places = [self._place(edit) for edit in edits]
        steps: list[Step] = []
        grouped: dict[tuple[str, tuple[Any, ...]], list[int]] = {}
        for number, (edit, place) in enumerate(zip(edits, places, strict=True)):
            if place.collection in self._families:
                root = tuple(edit.key[: len(place.parts) - place.own])
                grouped.setdefault((place.collection, root), []).append(number)
        done: set[tuple[str, tuple[Any, ...]]] = set()
        alone = len(edits) == 1
        for number, (edit, place) in enumerate(zip(edits, places, strict=True)):
            family = self._families.get(place.collection)
            if family is None:
                steps.append(self._step(place, edit, number, alone))
                continue
            group = (place.collection, tuple(edit.key[: len(place.parts) - place.own]))
            if group not in done:
                done.add(group)
                mine = grouped[group]
                whole = len(mine) == len(edits)
                steps += family.steps([(n, places[n], edits[n]) for n in mine], alone=whole, careful=careful)
        if any(place.tag for place in places):
            # A row that moves to another `_id` goes before it comes, or a unique index would have it twice.
            steps.sort(key=lambda step: step.kind != "delete")
        for step in steps:
            step.in_turn = step.collection in self._unique
        return WriteRequest(edits, places, steps, self, careful)

    def apart(self, entity: str, key: Sequence[Any]) -> Step:
        """A document that comes and goes within a transaction, so that it meets with all that name the same row."""
        collection = next(place.collection for place in self._places.values() if place.entity == entity)
        return Step(collection, {"apart": entity, "key": repr(tuple(key))}, (), "absent")

    def entry(self, place: Place, edit: Edit, document: Document | None) -> Row | None:
        """The entry that an edit speaks of, in a document."""
        if document is None:
            return None
        family = self._families.get(place.collection)
        if family is not None:
            return family.entry(place, edit, document)
        return self._code(place).rows([document])[0]

    def wrote(self, request: WriteRequest, reply: Reply) -> list[Row | None]:
        if isinstance(reply, Exception):
            raise reply
        outcome: list[Row | None] = [None] * len(request.edits)
        for step, document in zip(request.steps, reply, strict=True):
            for number in step.edits:
                edit, place = request.edits[number], request.places[number]
                if not edit.returning:
                    continue
                if edit.do == "put":
                    outcome[number] = {path: edit.values.get(path) for path in place.slots}
                elif document is not None and (edit.do == "delete") == (step.returns == "before"):
                    outcome[number] = self.entry(place, edit, document)
        return outcome

    # One document without embedded rows

    def _step(self, place: Place, edit: Edit, number: int, alone: bool) -> Step:
        codes = self._code(place)
        step = Step(place.collection, codes.id(edit.key), (number,))
        if edit.do == "put":
            self._put(place, edit, step)
        elif edit.do == "patch":
            self._patch(place, edit, step)
        elif edit.do == "delete":
            self._refuse_absent(edit)
            step.kind = "delete"
            step.conditions = self._conditions(place, edit)
            step.must = needs_presence(edit)
            step.returns = "before" if edit.returning else ""
        elif edit.do == "add":
            self._add(place, edit, step)
        elif edit.do == "check":
            self._check(place, edit, step, alone)
        else:
            raise UnsupportedError(f"mongodb: no edit '{edit.do}'")
        return step

    def _refuse_absent(self, edit: Edit) -> None:
        if edit.expect == "absent":
            raise UnsupportedError(f"mongodb: an entry that must be absent cannot be the object of a '{edit.do}'")

    def _conditions(self, place: Place, edit: Edit) -> list[Document]:
        terms: list[Document] = []
        if edit.alive_at is not None and place.expires:
            terms.append(alive(edit.alive_at))
        for test in edit.tests:
            terms += test_terms(place.slots[test.path], test)
        return terms

    def _put(self, place: Place, edit: Edit, step: Step) -> None:
        document = {ID: step.id, **self._code(place).fields(edit.values)}
        step.body = document
        if needs_presence(edit):
            step.kind, step.must = "replace", True
            step.conditions = self._conditions(place, edit)
        elif edit.expect == "any":
            step.kind, step.upsert = "replace", True
        elif edit.alive_at is not None and place.expires:
            # Over an expired row; a living one is in the way of the insert that the upsert then tries.
            step.kind, step.upsert = "replace", True
            step.conditions = [{EXPIRES_FIELD: {"$lte": edit.alive_at}}]
        else:
            step.kind = "insert"

    def _patch(self, place: Place, edit: Edit, step: Step) -> None:
        self._refuse_absent(edit)
        codes = self._code(place)
        step.kind = "update"
        step.conditions = self._conditions(place, edit)
        step.must = needs_presence(edit)
        step.returns = "after" if edit.returning else ""
        sets: Document = {}
        unsets: Document = {}
        for path, value in edit.values.items():
            slot = place.slots[path]
            if value is None and slot.type.is_collection and not slot.copied:
                sets[slot.field] = []
            elif value is None:
                unsets[slot.field] = ""
            else:
                sets[slot.field] = codes.encoders[path](value)
        sets |= changed_words(place.words, edit.values, edit.entry)
        sums: Document = {}
        others: dict[str, Document] = {"min": {}, "max": {}}
        wide = False
        for path, amount in edit.adds.items():
            slot = place.slots[path]
            if path in place.extends:  # by one row of a call, and worked out anew because of another
                how = place.extends[path]
                known: list[Any] = [value for value in (edit.values.get(path), amount) if value is not None]
                target = sets if path in edit.values else others[how]
                target[slot.field] = codes.encoders[path](min(known) if how == "min" else max(known))
                unsets.pop(slot.field, None)
                continue
            sums |= sum_fields(slot, amount) if slot.high else {slot.field: codes.encoders[path](amount)}
            wide = wide or (slot.type.kind == "int" and not slot.sum and amount > MOST_INT)  # type: ignore[operator]
            guards = guard_terms(slot, amount)
            if slot.type.kind == "float" and not slot.sum:
                guards = [{"$expr": float_guard(slot, amount, "$")}]  # type: ignore[arg-type]
            step.must = step.must or bool(guards)
            step.conditions += guards
        if edit.fresh is not None:
            self._make(place, edit, step, sets, unsets, sums)
            return
        if wide:
            step.body = _pipeline(sets, unsets, sums)
            return
        bodies = {"$set": sets, "$unset": unsets, "$inc": sums, "$min": others["min"], "$max": others["max"]}
        step.body = {name: body for name, body in bodies.items() if body} or TOUCH

    def _make(self, place: Place, edit: Edit, step: Step, sets: Document, unsets: Document, sums: Document) -> None:
        """A patch of the document that is there, or else a new one: where one is there that the filter does not find,
        the insert that is then tried is in its way, and refused."""
        assert edit.fresh is not None
        step.upsert, step.must = True, False
        whole = self._code(place).fields(edit.fresh)
        new = {name: value for name, value in whole.items() if not (name in sets or name in unsets or name in sums)}
        starts = {name: whole[name] for name in sums if whole.get(name)}
        wide = any(isinstance(amount, int) and abs(amount) > MOST_INT for amount in sums.values())
        if starts or wide:
            step.body = _pipeline(sets, unsets, sums, starts, new)
            return
        bodies = {"$set": sets, "$unset": unsets, "$inc": sums, "$setOnInsert": new}
        step.body = {name: body for name, body in bodies.items() if body} or TOUCH

    def _add(self, place: Place, edit: Edit, step: Step) -> None:
        """A group of sums, made with zeros if absent; a smallest or greatest is extended, values are set."""
        if edit.expect != "any" or edit.tests:
            raise UnsupportedError("mongodb: an 'add' has no conditions")
        codes = self._code(place)
        sums: Document = {}
        others: dict[str, Document] = {"min": {}, "max": {}}
        for path, amount in edit.adds.items():
            slot = place.slots[path]
            target = others[place.extends[path]] if path in place.extends else sums
            target |= sum_fields(slot, amount) if slot.high else {slot.field: codes.encoders[path](amount)}
        sets = {place.slots[path].field: codes.encoders[path](value) for path, value in edit.values.items()}
        zeros: Document = {}
        for slot in place.stored:
            if slot.path not in place.extends and slot.field not in sums and slot.field not in sets:
                zero: Any = Decimal(0) if slot.type.kind == "decimal" else 0.0 if slot.type.kind == "float" else 0
                zeros[slot.field] = encoder(slot)(zero)
        step.kind, step.upsert = "update", True
        step.returns = "after" if edit.returning else ""
        bodies = {"$inc": sums, "$min": others["min"], "$max": others["max"], "$set": sets, "$setOnInsert": zeros}
        step.body = {name: body for name, body in bodies.items() if body} or TOUCH

    def _check(self, place: Place, edit: Edit, step: Step, alone: bool) -> None:
        if edit.expect == "absent":
            step.kind = "absent"
            if edit.alive_at is not None and place.expires:
                step.conditions = [{EXPIRES_FIELD: {"$lte": edit.alive_at}}]
                step.body = TOUCH
            return
        step.conditions = self._conditions(place, edit)
        step.must = needs_presence(edit)
        step.returns = "after" if edit.returning else ""
        if alone:
            step.kind = "find"
        else:
            step.kind, step.body = "update", TOUCH

    # Many documents

    def bulk(self, edits: Sequence[Edit]) -> list[BulkRequest]:
        """Puts and deletes by collection; of several edits of one entry the last one counts."""
        plain: dict[str, dict[tuple[Any, ...], tuple[str, Document, Any]]] = {}
        families: dict[str, dict[tuple[Any, ...], dict[Any, tuple[int, Place, Edit]]]] = {}
        for number, edit in enumerate(edits):
            if edit.do not in ("put", "delete"):
                raise UnsupportedError(f"mongodb: no '{edit.do}' in bulk")
            place = self._place(edit)
            if place.collection in self._families:
                root = tuple(edit.key[: len(place.parts) - place.own])
                mine = families.setdefault(place.collection, {}).setdefault(root, {})
                mine[edit.at, edit.key] = (number, place, edit)
                continue
            codes = self._code(place)
            key = codes.id(edit.key)
            write: tuple[str, Document, Any] = ("delete", {ID: key}, None)
            if edit.do == "put":
                write = ("replace", {ID: key}, {ID: key, **codes.fields(edit.values)})
            plain.setdefault(place.collection, {})[edit.key] = write
        requests = []
        for collection, writes in plain.items():
            requests += _chunks(collection, list(writes.values()))
        for collection, documents in families.items():
            family = self._families[collection]
            if isinstance(family, PackedFamily):
                requests += _packed(collection, family, [list(mine.values()) for mine in documents.values()])
                continue
            listed = [write for mine in documents.values() for write in family.bulk(list(mine.values()))]
            requests += _chunks(collection, listed)
        return requests

    def putter(self, view: str) -> Callable[[Sequence[Row]], list[BulkRequest]] | None:
        """A function from whole rows to requests."""
        place = self._places.get((view, ()))
        if place is None or place.children or place.packed or not place.parts:
            return None
        codes = self._code(place)
        paths = [slot.path for slot in place.key]
        fields, make = codes.fields, codes.id
        collection = place.collection

        def put(rows: Sequence[Row]) -> list[BulkRequest]:
            last: dict[tuple[Any, ...], Row] = {}
            for row in rows:
                last[tuple([row[path] for path in paths])] = row
            documents = [{ID: make(key), **fields(row)} for key, row in last.items()]
            return [
                BulkRequest(collection, [], documents[start : start + BULK], place)
                for start in range(0, len(documents), BULK)
            ]

        return put

    def _place(self, edit: Edit) -> Place:
        place = self._places.get((edit.view, edit.at))
        if place is None:
            raise UnsupportedError(f"view '{edit.view}': not a collection, so that nothing can be written to it")
        return place

    def _code(self, place: Place) -> _Codes:
        found = self._codes.get(id(place))
        if found is None:
            slots = tuple(place.slots.values())
            found = self._codes[id(place)] = _Codes(
                id_encoder(place.key, place.id_tag),
                document_encoder(place.stored, place.words),
                rows_decoder(place.where, slots, {}),
                {slot.path: encoder(slot) for slot in slots},
            )
        return found


def _chunks(collection: str, writes: list[tuple[str, Document, Any]]) -> list[BulkRequest]:
    return [BulkRequest(collection, writes[start : start + BULK]) for start in range(0, len(writes), BULK)]


def _packed(collection: str, family: PackedFamily, groups: Sequence[list[One]]) -> list[BulkRequest]:
    """Whole documents where there are only puts, which are put into those that are there; else updates of these."""
    listed = [(family.whole(group), family.bulk(group)) for group in groups]
    requests = _chunks(collection, [write for whole, writes in listed if whole is None for write in writes])
    fresh = [(whole, writes[0]) for whole, writes in listed if whole is not None]
    for start in range(0, len(fresh), BULK):
        some = fresh[start : start + BULK]
        documents, instead = [one for one, _ in some], [other for _, other in some]
        requests.append(BulkRequest(collection, [], documents, instead=instead))
    return requests


def _pipeline(
    sets: Document,
    unsets: Document,
    sums: Document,
    starts: Mapping[str, Any] = MappingProxyType({}),
    new: Mapping[str, Any] = MappingProxyType({}),
) -> list[Document]:
    """An update whose amount is beyond 64 bits, though the sum is not, or that begins a sum at another value than 0;
    what is `new` is set where there is nothing."""
    wide = {
        name: {"$toLong": {"$add": [{"$ifNull": [f"${name}", starts.get(name, 0)]}, Decimal(amount)]}}
        if isinstance(amount, int)
        else {"$add": [{"$ifNull": [f"${name}", starts.get(name, 0)]}, amount]}
        for name, amount in sums.items()
    }
    fresh = {name: {"$ifNull": [f"${name}", {"$literal": value}]} for name, value in new.items()}
    values = {name: {"$literal": value} for name, value in sets.items()}
    stages: list[Document] = [{"$set": {**fresh, **values, **wide}}]
    return [*stages, {"$unset": list(unsets)}] if unsets else stages
