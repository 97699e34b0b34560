"""Totals: measures of the entries of a packed document, in fields beside the array.

A document that gets new entries alone has them added (`$inc`, `$min`, `$max`) by the update that pushes them. Any other
change of a document is a pipeline, and its last stage works all totals out anew from the array as it is then: what
leaves may have been the least, and what is replaced has been counted. So the totals are always those of the array, of
entries that have expired as well; `FIRST_EXPIRES` tells from when on they are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from keyplan.engines.mongodb.values import ID, Document, Slot, encoder
from keyplan.model.model import Model
from keyplan.model.pattern import Term, term_paths
from keyplan.model.types import Type
from keyplan.plan.edits import Edit
from keyplan.plan.terms import compile_term, plus
from keyplan.plan.types import measure_type
from keyplan.plan.view import COUNT, Measure

if TYPE_CHECKING:
    from keyplan.engines.mongodb.layout import Place

_OPERATORS = {"+": "$add", "-": "$subtract", "*": "$multiply"}


def total_slot(model: Model, entity: str, measure: Measure, field: str) -> Slot:
    """Where a total stands, and as what."""
    if measure.name == COUNT:
        return Slot(COUNT, field, Type("int"), nullable=False)
    type = measure_type(model, entity, measure)
    return Slot(measure.name, field, type, measure.how in ("min", "max"), measure.how == "sum")


class Totals:
    """The totals of one packed place."""

    def __init__(self, place: Place, names: Container[str] | None = None) -> None:
        """All of them, or those of these names."""
        self._place = place
        self._all = [
            (measure, slot, encoder(slot), compile_term(measure.term) if measure.term else None)
            for name, (measure, slot) in place.totals.items()
            if names is None or name in names
        ]
        self.paths = frozenset(str(path) for measure, *_ in self._all for path in term_paths(measure.term))
        """What they depend on of each entry."""

    def __bool__(self) -> bool:
        return bool(self._all)

    # New entries

    def added(self, edits: Sequence[Edit]) -> Document:
        """The operators of an update that add new entries."""
        body: Document = {"$inc": {}, "$min": {}, "$max": {}}
        for measure, slot, encode, value in self._all:
            found = _amount(measure, value, edits)
            if found is not None:
                body[{"min": "$min", "max": "$max"}.get(measure.how, "$inc")][slot.field] = encode(found)
        return {operator: fields for operator, fields in body.items() if fields}

    def fields(self, edits: Sequence[Edit]) -> Document:
        """The totals of a document that has these entries alone."""
        amounts = ((slot, encode, _amount(measure, value, edits)) for measure, slot, encode, value in self._all)
        return {slot.field: encode(found) for slot, encode, found in amounts if found is not None}

    # Whatever is there

    def stage(self) -> Document:
        """The stage of a pipeline that works them out from the array."""
        found = {slot.field: self._expression(measure) for measure, slot, *_ in self._all}
        nullable = {slot.field for _, slot, *_ in self._all if slot.nullable}
        return {
            "$set": {
                name: {"$ifNull": [expression, "$$REMOVE"]} if name in nullable else expression
                for name, expression in found.items()
            }
        }

    def are_wrong(self) -> Document:
        """A filter for documents whose totals are not those of their entries."""
        terms = [
            {"$ne": [{"$ifNull": [f"${slot.field}", None]}, self._expression(measure)]}
            for measure, slot, *_ in self._all
        ]
        return {"$expr": {"$or": terms}}

    def _expression(self, measure: Measure) -> Document:
        rows = {"$ifNull": [f"${self._place.array}", []]}
        if measure.term is None:
            return {"$size": rows}
        exact = measure.how == "sum"
        each = {"$map": {"input": rows, "as": "e", "in": self._term(measure.term, exact=exact)}}
        if exact:
            return {"$toDecimal": {"$sum": each}}
        if measure.how == "count":
            return {"$size": {"$filter": {"input": each, "as": "v", "cond": {"$gt": ["$$v", None]}}}}
        return {f"${measure.how}": each}

    def _term(self, term: Term, *, exact: bool) -> Any:
        """An expression over the entry `$$e`; numbers as decimals, whose sums and products do not overflow."""
        if term.path is not None:
            field = self._place.slots[str(term.path)].field
            found: Any = f"${field}" if field.partition(".")[0] == ID else f"$$e.{field}"
        elif term.left is None or term.right is None:
            assert isinstance(term.number, int | Decimal)
            found = {"$literal": Decimal(term.number)}
        else:
            sides = [self._term(side, exact=True) for side in (term.left, term.right)]
            return {_OPERATORS[term.op]: sides}
        return {"$toDecimal": found} if exact else {"$ifNull": [found, None]}


def _amount(measure: Measure, value: Callable[[Mapping[str, Any]], Any] | None, edits: Sequence[Edit]) -> Any:
    """What entries come to; None for a minimum or maximum of nothing."""
    if value is None:
        return len(edits)
    found = [one for one in (value(edit.values) for edit in edits) if one is not None]
    if measure.how == "count":
        return len(found)
    if measure.how == "sum":
        total: Any = Decimal(0)
        for one in found:
            total = plus(total, one)
        return total
    pick: Any = min if measure.how == "min" else max
    return pick(found, default=None)
