"""Writes to packed views: entries come into their partition's document, change there, and go, one document at a time.

New entries are pushed, as long as none of them is there: one update, which makes the document if it has to. Where one
is there after all, whether it has expired or is to be replaced, the same edits are done again as a pipeline, which
leaves out the old one. Everything else is as with embedded rows, of a parent that has no row of its own.

Where rows expire, the document's own `_expires` is never before that of an entry. It may be later, after an entry was
deleted or expires sooner than it did; then the server deletes the document later, and nobody sees the difference.

Totals are kept in the same update (`totals.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from keyplan.engines.mongodb.families import Family, One
from keyplan.engines.mongodb.layout import EXPIRES_FIELD, HERE, Place
from keyplan.engines.mongodb.steps import Step
from keyplan.engines.mongodb.totals import Totals
from keyplan.engines.mongodb.values import ID, Document
from keyplan.model.entity import EXPIRES
from keyplan.plan.edits import Edit

NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""When a document expires that has an entry which never does."""


class PackedFamily(Family):
    """The documents of a packed view."""

    def __init__(self, place: Place) -> None:
        count = len(place.root_key)
        around = {part.slot.path: part.slot for part in place.parts[:count]}
        root = Place(place.view, (), place.entity, place.collection, place.parts[:count], around, presence=HERE)
        root.children[place.array] = place
        super().__init__(root)
        self.place = place
        self.member = self.members[id(place)]
        self.totals = Totals(place)

    def steps(self, group: Sequence[One], *, alone: bool, careful: bool) -> list[Step]:
        if not careful and all(_is_new(edit) for _, _, edit in group):
            return [self._push(group)]
        return super().steps(group, alone=alone, careful=careful)

    def _push(self, group: Sequence[One]) -> Step:
        """The new entries of one document, as long as none of them is there."""
        edits = [edit for _, _, edit in group]
        step = Step(self.root.collection, self._id_of(edits[0]), tuple(one[0] for one in group), upsert=True)
        idents = [self.member.ident(edit) for edit in edits]
        there = idents[0] if len(idents) == 1 else {"$or": idents}
        step.conditions = [{self.place.array: {"$not": {"$elemMatch": there}}}]
        elements = [self.member.fields(edit.values) for edit in edits]
        step.body = {"$push": {self.place.array: elements[0] if len(elements) == 1 else {"$each": elements}}}
        step.body |= self.totals.added(edits)
        if self.place.expires:
            step.body["$max"] = {**step.body.get("$max", {}), EXPIRES_FIELD: _latest(edits)}
        # An entry that is there need not be in the way: it may have expired, or is to be replaced.
        step.hopeful = any(edit.expect == "any" or edit.alive_at is not None for edit in edits)
        return step

    def _id_of(self, edit: Edit) -> Any:
        return self.id(edit.key[: len(self.root.parts)])

    def _classic(self, place: Place, edit: Edit, step: Step) -> bool:
        if self.totals and (edit.do != "patch" or not self.totals.paths.isdisjoint({*edit.values, *edit.adds})):
            return False
        if not super()._classic(place, edit, step):
            return False
        if place.expires and (edit.do == "put" or EXPIRES in edit.values):
            step.body = {**step.body, "$max": {EXPIRES_FIELD: _latest([edit])}}
        return True

    def pipeline(self, group: Sequence[One]) -> list[Document]:
        stages = super().pipeline(group)
        if self.place.expires and stages:
            each = {"$map": {"input": f"${self.place.array}", "as": "e", "in": {"$ifNull": ["$$e._expires", NEVER]}}}
            stages.append({"$set": {EXPIRES_FIELD: {"$ifNull": [{"$max": each}, f"${EXPIRES_FIELD}"]}}})
        return [*stages, self.totals.stage()] if self.totals and stages else stages

    # Many documents

    def whole(self, group: Sequence[One]) -> Document | None:
        """The document that puts of one partition come to where there is none yet; None if they are not all puts."""
        edits = [edit for _, _, edit in group]
        if any(edit.do != "put" for edit in edits):
            return None
        document = {ID: self._id_of(edits[0]), self.place.array: [self.member.fields(edit.values) for edit in edits]}
        return document | self.totals.fields(edits) | ({EXPIRES_FIELD: _latest(edits)} if self.place.expires else {})


def _is_new(edit: Edit) -> bool:
    return edit.do == "put" and edit.expect != "present" and not edit.tests


def _latest(edits: Iterable[Edit]) -> Any:
    """When the last of some entries expires."""
    return max(edit.values.get(EXPIRES) or NEVER for edit in edits)  # type: ignore[type-var]
