"""A handful of rows for a model of any size: the generator's, with counts so small that every row can be looked at."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from keyplan.data import generate
from keyplan.model.entity import Entity
from keyplan.model.model import Model
from tests.examples_data.calls import row_arguments

NOW = datetime(2124, 7, 14, 12, 30, 15, 250_000, tzinfo=UTC)
"""The moment at which everything in these tests begins: to come, as servers delete what has expired by their clock."""

SMALLEST, LARGEST = 3, 250
OPTIONAL = 0.2


class Clock:
    """A clock that store and reference share, and that moves when it is told to."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self) -> None:
        """Goes on by a while, so that in the course of a test some rows expire."""
        self.now += timedelta(minutes=17, milliseconds=3)


def rows(model: Model, seed: int) -> list[tuple[str, dict[str, Any]]]:
    """Rows of every entity as a caller gives them to `load`, parents before their children."""
    counts = {name: small(entity.count) for name, entity in model.entities.items()}
    few = replace(model, entities={name: _few_values(entity) for name, entity in model.entities.items()})
    found = generate(few, counts=counts, seed=seed, now=NOW)
    return [(entity, row_arguments(model.entities[entity], row)) for entity, row in found]


def small(number: float) -> int:
    """A count that is small and keeps its place among the others: 40 becomes 3, 100k 22, 150M 161."""
    return max(SMALLEST, min(LARGEST, round(math.pow(number, 0.27))))


def _few_values(entity: Entity) -> Entity:
    """So few values of each field that rows share them, and rare fields often enough that some rows have them."""
    fields = {
        name: replace(
            field,
            distinct=None if field.distinct is None else small(field.distinct),
            optional=None if field.optional is None else max(field.optional, OPTIONAL),
        )
        for name, field in entity.fields.items()
    }
    return replace(entity, fields=fields)
