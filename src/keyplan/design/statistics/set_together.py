"""Optional fields that are there together: whatever sets or clears one of them sets or clears the other."""

from __future__ import annotations

from collections.abc import Mapping

from keyplan.model.model import Model
from keyplan.model.pattern import Literal
from keyplan.model.write import Write


def fields_set_together(model: Model) -> dict[str, Mapping[str, int]]:
    """Per entity: the optional fields that writes give values to or take them from in company, and a number for each
    company. Of those that no update sets, nothing is known."""
    found: dict[str, Mapping[str, int]] = {}
    writes: dict[str, list[Write]] = {}
    for write in model.writes.values():
        if not write.children:
            writes.setdefault(write.entity, []).append(write)
    for entity in model.entities.values():
        changes: dict[str, set[tuple[str, bool]]] = {}
        for write in writes.get(entity.name, ()):
            for column in (*write.sets, *write.adds):
                operand = write.sets.get(column)
                clears = isinstance(operand, Literal) and operand.value is None
                if column in entity.columns:
                    changes.setdefault(entity.columns[column].field, set()).add((write.name, clears))
        optional = {name for name, field in entity.fields.items() if field.optional is not None}
        numbers: dict[frozenset[tuple[str, bool]], int] = {}
        companies = {
            name: numbers.setdefault(frozenset(some), len(numbers))
            for name, some in changes.items()
            if name in optional
        }
        many = list(companies.values())
        found[entity.name] = {name: number for name, number in companies.items() if many.count(number) > 1}
    return found
