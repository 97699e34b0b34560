"""Writes to documents with embedded rows: all edits of one document are one atomic operation.

A parent with its children is one insert. A single child is pushed, patched through an array filter, or pulled. What
is more than that is a pipeline: stages that take the document's array, leave out or change elements, and append others.
Values stand behind `$literal` there, so that a text that begins with `$` stays a text. An array that keeps only the
first rows is always changed so: sorted and cut when all is in it, and the change counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keyplan.engines.mongodb.conditions import (
    alive,
    float_guard,
    guard_terms,
    needs_presence,
    test_terms,
)
from keyplan.engines.mongodb.layout import EXPIRES_FIELD, HERE, TOUCHED, Place
from keyplan.engines.mongodb.steps import Step
from keyplan.engines.mongodb.values import (
    ID,
    Document,
    Names,
    changed_words,
    document_encoder,
    encoder,
    fields_encoder,
    id_encoder,
    row_code,
    rows_decoder,
    source_of,
    tuple_encoder,
)
from keyplan.engines.rounds import Row
from keyplan.errors import UnsupportedError
from keyplan.plan.edits import Edit, Test
from keyplan.plan.view import VERSION

One = tuple[int, Place, Edit]
TOUCH = {"$inc": {TOUCHED: 1}}


class Family:
    """The documents of a view that embeds rows."""

    def __init__(self, root: Place) -> None:
        self.root = root
        self.roles = {child.array: child for child in root.children.values()}
        self.id = id_encoder(root.key)
        self.fields = document_encoder(root.stored, root.words)
        self.rows = rows_decoder(root.where, tuple(root.slots.values()), {})
        self.members = {id(child): _Member(child) for child in root.children.values()}
        self.encoders = {slot.path: encoder(slot) for slot in root.slots.values()}

    def entry(self, place: Place, edit: Edit, document: Document) -> Row | None:
        """The entry that an edit speaks of, in a document."""
        if not place.array:
            return self.rows([document])[0] if self.root.presence in document else None
        if place.limit is not None and edit.do == "check":
            return {VERSION: document.get(place.version)}
        member = self.members[id(place)]
        wanted = tuple(edit.key[len(place.parts) - place.own :])
        return next((row for key, row in member.pairs(document) if key == wanted), None)

    # Single writes

    def steps(self, group: Sequence[One], *, alone: bool, careful: bool) -> list[Step]:
        """The operation for all edits of one document, and what may tidy up behind it."""
        _, place, edit = group[0]
        root_key = edit.key[: len(place.parts) - place.own]
        step = Step(self.root.collection, self.id(root_key), tuple(one[0] for one in group))
        if not careful and self._is_new(group):
            step.kind, step.hopeful = "insert", True
            step.body = self._document(step.id, group)
            return [step]
        step.must = any(needs_presence(edit) for _, _, edit in group)
        step.conditions = [term for one in group for term in self._conditions(one, step)]
        # A document comes into being with any of its rows.
        step.upsert = any(edit.do == "put" for _, _, edit in group) and not any(
            needs_presence(edit) for _, _, edit in group
        )
        if any(edit.returning and edit.do == "delete" for _, _, edit in group):
            step.returns = "before"
        elif any(edit.returning and edit.do != "put" for _, _, edit in group):
            step.returns = "after"
        if all(edit.do == "check" for _, _, edit in group):
            return [self._checks(group, step, alone)]
        if len(group) == 1 and place.array and self._classic(place, edit, step):
            pass
        else:
            step.body = self.pipeline(group)
        steps = [step]
        if any(edit.do == "delete" for _, _, edit in group):
            empty: list[Document] = [{child.array: {"$in": [[], None]}} for child in self.roles.values()]
            clean = Step(self.root.collection, step.id, (), "delete", cleans=True)
            clean.conditions = [{self.root.presence: {"$exists": False}}, *empty]
            steps.append(clean)
        return steps

    def _is_new(self, group: Sequence[One]) -> bool:
        """A row that must not be there yet, with nothing but new children."""
        root = [edit for _, place, edit in group if not place.array]
        if len(root) != 1 or root[0].do != "put" or root[0].expect != "absent":
            return False
        for child in self.roles.values():
            if child.limit is not None and sum(place is child for _, place, _ in group) > child.limit:
                return False  # which of them stay is for the server to say
        return all(edit.do == "put" and not edit.tests and edit.expect != "present" for _, _, edit in group)

    def _document(self, key: Any, group: Sequence[One]) -> Document:
        document: Document = {ID: key}
        arrays: dict[str, list[Document]] = {array: [] for array in self.roles}
        for _, place, edit in group:
            if place.array:
                arrays[place.array].append(self.members[id(place)].fields(edit.values))
            else:
                document |= self._own(edit)
        return document | arrays

    def _own(self, edit: Edit) -> Document:
        """The fields of the parent's own row."""
        found = self.fields(edit.values)
        return found | {HERE: True} if self.root.presence == HERE else found

    def _conditions(self, one: One, step: Step) -> list[Document]:
        _, place, edit = one
        if place.limit is not None:
            return [_version_term(place, test) for test in edit.tests]
        if place.array:
            return self.members[id(place)].conditions(edit, step)
        presence = self.root.presence
        terms: list[Document] = []
        if edit.expect == "absent":
            if edit.alive_at is not None and place.expires:
                gone = [{presence: {"$exists": False}}, {EXPIRES_FIELD: {"$lte": edit.alive_at}}]
                return [{"$or": gone}]
            return [{presence: {"$exists": False}}]
        if needs_presence(edit):
            terms.append({presence: {"$exists": True}})
        if edit.alive_at is not None and place.expires:
            terms.append(alive(edit.alive_at))
        for test in edit.tests:
            terms += test_terms(place.slots[test.path], test)
        for path, amount in edit.adds.items():
            slot = place.slots[path]
            guards = guard_terms(slot, amount)
            if slot.type.kind == "float":
                guards = [{"$expr": float_guard(slot, amount, "$")}]  # type: ignore[arg-type]
            step.must = step.must or bool(guards)
            terms += guards
        return terms

    def _checks(self, group: Sequence[One], step: Step, alone: bool) -> Step:
        if any(edit.expect == "absent" for _, _, edit in group):
            if len(group) > 1 and step.must:
                step.kind, step.body = ("find", None) if alone else ("update", TOUCH)
                return step
            # Nothing may be there, or a document without that row: then the document is touched.
            step.kind, step.body = "absent", TOUCH
            return step
        step.kind, step.body = ("find", None) if alone else ("update", TOUCH)
        return step

    def _classic(self, place: Place, edit: Edit, step: Step) -> bool:
        """A push, array filter or pull, where that is all there is to do."""
        member = self.members[id(place)]
        key = member.key(edit)
        if not key or place.limit is not None:
            return False
        if edit.do == "put" and edit.expect == "absent" and not (edit.alive_at is not None and place.expires):
            step.body = {"$push": {place.array: member.fields(edit.values)}}
            return True
        if edit.do == "delete":
            step.body = {"$pull": {place.array: {name: {"$eq": value} for name, value in key.items()}}}
            return True
        if edit.do == "patch" and (edit.values or edit.adds):
            body = member.update(edit)
            if body is None:
                return False
            step.body = body
            step.arrays = [{f"e.{name}": {"$eq": value} for name, value in key.items()}]
            # An array filter on a missing array is an error, where nothing has to be done.
            step.conditions = [*step.conditions, {place.array: {"$elemMatch": member.ident(edit)}}]
            return True
        return False

    # Pipelines

    def pipeline(self, group: Sequence[One]) -> list[Document]:
        """The stages that do all edits, the parent's own row first."""
        stages: list[Document] = []
        for _, place, edit in group:
            if not place.array:
                stages += self._root_stages(edit)
        for array, child in self.roles.items():
            mine = [edit for _, place, edit in group if place is child and edit.do != "check"]
            stages += self.members[id(child)].stages(array, mine)
        return stages

    def _root_stages(self, edit: Edit) -> list[Document]:
        arrays: Document = {array: {"$ifNull": [f"${array}", []]} for array in self.roles}
        arrays |= {child.version: f"${child.version}" for child in self.roles.values() if child.version}
        if edit.do == "put":
            own = {name: {"$literal": value} for name, value in self._own(edit).items()}
            return [{"$replaceWith": {ID: f"${ID}", **own, **arrays}}]
        if edit.do == "delete":
            return [{"$replaceWith": {ID: f"${ID}", **arrays}}]
        if edit.do == "check":
            return []
        if edit.do != "patch":
            raise UnsupportedError(f"mongodb: no edit '{edit.do}' of a row that others are embedded in")
        sets: Document = {}
        unsets: list[str] = []
        for path, value in edit.values.items():
            slot = self.root.slots[path]
            if value is None and not (slot.type.is_collection and not slot.copied):
                unsets.append(slot.field)
            else:
                sets[slot.field] = {"$literal": [] if value is None else self.encoders[path](value)}
        for path, amount in edit.adds.items():
            slot = self.root.slots[path]
            sets[slot.field] = added(slot.type.kind, f"${slot.field}", self.encoders[path](amount))
        for name, found in changed_words(self.root.words, edit.values, edit.entry).items():
            sets[name] = {"$literal": found}
        if not needs_presence(edit):  # of a row that is not there, nothing is made
            missing = {"$eq": [{"$type": f"${self.root.presence}"}, "missing"]}
            sets = {name: {"$cond": [missing, "$$REMOVE", value]} for name, value in sets.items()}
        stages: list[Document] = [{"$set": sets}] if sets else []
        return [*stages, {"$unset": unsets}] if unsets else stages

    # Many documents

    def bulk(self, group: Sequence[One]) -> list[tuple[str, Document, Any]]:
        """The writes for puts and deletes of one document, whatever is there."""
        _, place, edit = group[0]
        key = self.id(edit.key[: len(place.parts) - place.own])
        puts = any(edit.do == "put" for _, _, edit in group)
        return [("upsert" if puts else "update", {ID: key}, self.pipeline(group))]


def _version_term(place: Place, test: Test) -> Document:
    """Nobody has changed the rows of a subset since they were read."""
    return {place.version: {"$exists": False} if test.value is None else {"$eq": test.value}}


def added(kind: str, value: str, amount: Any) -> Document:
    """The sum of a field and an amount; missing counts as 0."""
    total: Document = {"$add": [{"$ifNull": [value, 0.0 if kind == "float" else 0]}, amount]}
    if kind == "int" and abs(amount) >= 2**63:
        total["$add"][1] = {"$toDecimal": str(amount)}
        return {"$toLong": total}
    return total


class _Member:
    """The elements of one array."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.fields = fields_encoder(place.stored)
        # A part of the order may be the parent's, which tells no elements apart.
        own = [(n, slot) for n, slot in enumerate(place.key) if slot.field.partition(".")[0] != ID]
        self._places = [n for n, _ in own]
        self._names = [slot.field for _, slot in own]
        self._values = tuple_encoder([slot for _, slot in own])
        self._encoders = {slot.path: encoder(slot) for slot in place.slots.values()}
        names = Names()
        key = "".join(names.decode(slot, source_of(slot, "e")) + ", " for slot in place.own_key)
        row = row_code(names, tuple(place.slots.values()), "e")
        self.pairs: Callable[[Document], list[tuple[tuple[Any, ...], Row]]] = names.compile(
            f"lambda d: [(({key}), {{{row}}}) for e in d.get({place.array!r}, ())]"
        )

    def key(self, edit: Edit) -> Document:
        """The fields that tell the element from the others, with their values."""
        values = self._values([edit.key[n] for n in self._places])
        return dict(zip(self._names, values, strict=True))

    def ident(self, edit: Edit) -> Document:
        return {name: {"$eq": value} for name, value in self.key(edit).items()}

    def conditions(self, edit: Edit, step: Step) -> list[Document]:
        place = self.place
        inside: list[Document] = [self.ident(edit)]
        if edit.alive_at is not None and place.expires:
            inside.append(alive(edit.alive_at))
        if edit.expect == "absent":
            return [{place.array: {"$not": {"$elemMatch": {"$and": inside}}}}]
        terms: list[Document] = []
        for test in edit.tests:
            slot = place.slots[test.path]
            (terms if slot.field.partition(".")[0] == ID else inside).extend(test_terms(slot, test))
        guards: list[Document] = []
        for path, amount in edit.adds.items():
            slot = place.slots[path]
            inside_guards = guard_terms(slot, amount)
            step.must = step.must or bool(inside_guards) or slot.type.kind == "float"
            inside += inside_guards
            if slot.type.kind == "float":
                fits = float_guard(slot, amount, "$$e.")  # type: ignore[arg-type]
                other = {"$not": [self.matches(edit)]}
                every = {"$map": {"input": f"${place.array}", "as": "e", "in": {"$or": [other, fits]}}}
                guards.append({"$expr": {"$allElementsTrue": [every]}})
        if needs_presence(edit) or edit.adds:
            terms.append({place.array: {"$elemMatch": {"$and": inside}}})
        return [*terms, *guards]

    def matches(self, edit: Edit) -> Document:
        """An expression that is true for the element `$$e` of an edit."""
        terms = [{"$eq": [f"$$e.{name}", {"$literal": value}]} for name, value in self.key(edit).items()]
        return {"$and": terms}

    def matches_any(self, edits: Sequence[Edit]) -> Document:
        """An expression that is true for the elements `$$e` of some edits."""
        if len(edits) == 1:
            return self.matches(edits[0])
        keys = [list(self.key(edit).values()) for edit in edits]
        return {"$in": [[f"$$e.{name}" for name in self._names], {"$literal": keys}]}

    def update(self, edit: Edit) -> Document | None:
        """An update with `$[e]` for the element; None where the amount is beyond what `$inc` takes."""
        place = self.place
        sets: Document = {}
        unsets: Document = {}
        sums: Document = {}
        for path, value in edit.values.items():
            slot = place.slots[path]
            name = f"{place.array}.$[e].{slot.field}"
            if value is None and not (slot.type.is_collection and not slot.copied):
                unsets[name] = ""
            else:
                sets[name] = [] if value is None else self._encoders[path](value)
        for path, amount in edit.adds.items():
            slot = place.slots[path]
            if slot.type.kind == "int" and abs(amount) >= 2**63:  # type: ignore[arg-type]
                return None
            sums[f"{place.array}.$[e].{slot.field}"] = self._encoders[path](amount)
        return {name: body for name, body in (("$set", sets), ("$unset", unsets), ("$inc", sums)) if body}

    def stages(self, array: str, edits: Sequence[Edit]) -> list[Document]:
        """The stages for edits of elements: patches one by one, then what goes and what comes at once."""
        stages: list[Document] = []
        source = {"$ifNull": [f"${array}", []]}
        for edit in edits:
            if edit.do == "patch":
                changed = {"$cond": [self.matches(edit), self._patched(edit), "$$e"]}
                stages.append({"$set": {array: {"$map": {"input": source, "as": "e", "in": changed}}}})
        out = [edit for edit in edits if edit.do in ("put", "delete")]
        if out:
            staying = {"$not": [self.matches_any(out)]}
            kept: Document = {"$filter": {"input": source, "as": "e", "cond": staying}}
            new = [{"$literal": self.fields(edit.values)} for edit in self._staying(out)]
            found = {"$concatArrays": [kept, new]} if new else kept
            stages.append({"$set": {array: self._first(found) if new and self.place.limit is not None else found}})
        if stages and self.place.limit is not None:
            version = self.place.version
            stages.append({"$set": {version: {"$add": [{"$ifNull": [f"${version}", 0]}, 1]}}})
        return stages

    def _staying(self, edits: Sequence[Edit]) -> list[Edit]:
        """The puts, but for those of which it is certain that there are enough before them."""
        puts = [edit for edit in edits if edit.do == "put"]
        if self.place.limit is None or len(puts) <= self.place.limit:
            return puts
        for position in reversed(range(len(self.place.parts) - self.place.own, len(self.place.parts))):
            down = self.place.parts[position].descending
            puts.sort(key=lambda edit, position=position: edit.key[position], reverse=down)  # type: ignore[misc]
        return puts[: self.place.limit]

    def _first(self, elements: Document) -> Document:
        """As many elements as are kept, in their order; BSON sorts values as the language does."""
        parts = self.place.parts[len(self.place.parts) - self.place.own :]
        by = {part.slot.field: -1 if part.descending else 1 for part in parts}
        return {"$slice": [{"$sortArray": {"input": elements, "sortBy": by}}, self.place.limit]}

    def _patched(self, edit: Edit) -> Document:
        place = self.place
        sets: Document = {}
        unsets = []
        for path, value in edit.values.items():
            slot = place.slots[path]
            if value is None and not (slot.type.is_collection and not slot.copied):
                unsets.append(slot.field)
            else:
                sets[slot.field] = {"$literal": [] if value is None else self._encoders[path](value)}
        for path, amount in edit.adds.items():
            slot = place.slots[path]
            sets[slot.field] = added(slot.type.kind, f"$$e.{slot.field}", self._encoders[path](amount))
        found: Document = {"$mergeObjects": ["$$e", sets]}
        for name in unsets:
            found = {"$unsetField": {"field": name, "input": found}}
        return found
