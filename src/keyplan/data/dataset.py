"""A dataset: the rows of all entities of a model, parents before children where that is possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import repeat

from keyplan.data.domain import DAY_MS, EPOCH, Span
from keyplan.data.layout import Layout
from keyplan.data.numbers import MOST_ROWS
from keyplan.data.rows import Row, Rows
from keyplan.data.snapshots import snapshots
from keyplan.errors import ArgumentError, nearest
from keyplan.model.entity import Entity
from keyplan.model.model import Model
from keyplan.model.types import Type
from keyplan.model.values import canonical

NOW = datetime(2025, 1, 1, tzinfo=UTC)
"""The present of a dataset that is not told another: the same data every day."""
RETENTION_MS = 90 * DAY_MS


def generate(
    model: Model,
    *,
    scale: float = 1.0,
    seed: int = 0,
    counts: Mapping[str, int] | None = None,
    now: datetime | None = None,
    as_arguments: bool = False,
) -> Iterator[tuple[str, Row]]:
    """Rows for a model as (entity, row), with the statistics it states; the same for the same arguments everywhere.

    `scale` multiplies the model's counts, `counts` replaces them by entity. Rows come one by one and none is kept.
    They have their stored columns, or with `as_arguments` the fields that calls take.
    """
    return Dataset(model, scale=scale, seed=seed, counts=counts, now=now).all(as_arguments=as_arguments)


class Dataset:
    """The rows that `generate` gives, and single ones by number.

    The number of rows may be less than asked for where keys, unique fields or a `max` leave no room for more.
    Not to be shared between threads.
    """

    def __init__(
        self,
        model: Model,
        *,
        scale: float = 1.0,
        seed: int = 0,
        counts: Mapping[str, int] | None = None,
        now: datetime | None = None,
    ) -> None:
        present = canonical(Type("timestamp"), NOW if now is None else now)
        assert isinstance(present, datetime)
        wanted = _wanted(model, scale, counts or {})
        copies = snapshots(model)
        end = (present - EPOCH) // (EPOCH.resolution * 1000)
        self.entities = _order(model)
        self.parts: dict[str, Rows] = {}
        for name in self.entities:
            layout = Layout(model.entities[name], wanted[name], wanted, *_spans(model.entities[name], end), seed)
            wanted[name] = layout.rows
            self.parts[name] = Rows(model, layout, self.parts, copies, seed)
        for part in self.parts.values():
            part.compile_references()
        for part in self.parts.values():
            part.compile_columns()

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each entity has."""
        return {name: part.count for name, part in self.parts.items()}

    def all(self, *, as_arguments: bool = False) -> Iterator[tuple[str, Row]]:
        for name in self.entities:
            yield from zip(repeat(name), self.parts[name].rows(as_arguments=as_arguments))

    def rows(self, entity: str, start: int = 0, stop: int | None = None) -> Iterator[Row]:
        """The rows of one entity, from one number up to another."""
        return self.parts[entity].rows(start, stop)

    def row(self, entity: str, number: int) -> Row:
        return self.parts[entity].row(number)

    def key(self, entity: str, number: int) -> tuple[object, ...]:
        """The key columns of one row."""
        return self.parts[entity].key(number)


def _wanted(model: Model, scale: float, counts: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(scale, int | float) or not 0 < scale < float("inf"):
        raise ArgumentError(f"scale: expected a number above 0, got {scale!r}")
    for name, count in counts.items():
        if name not in model.entities:
            raise ArgumentError(f"counts: no entity '{name}'{nearest(name, list(model.entities))}")
        if count < 0:
            raise ArgumentError(f"counts: '{name}' cannot have {count} rows; give 0 or more")
    return {
        name: min(counts[name] if name in counts else max(1, round(entity.count * scale)), MOST_ROWS)
        for name, entity in model.entities.items()
    }


def _spans(entity: Entity, end: int) -> tuple[Span, Span]:
    """Where creation times and the field a `ttl` counts from lie. A few rows are expired already."""
    if entity.ttl is None:
        return Span(end - RETENTION_MS, end), Span(end - RETENTION_MS, end)
    alive = Span(end - entity.ttl.ms * 51 // 50, end)
    return (alive, alive) if entity.ttl.since is None else (Span(end - RETENTION_MS, end), alive)


def _order(model: Model) -> list[str]:
    """Targets before those that refer to them; where references go in a circle, optional ones yield first."""
    done: list[str] = []
    rest = list(model.entities)
    while rest:
        ready = rest[0]
        for strictness in (_any, _required, _in_key):
            free = [name for name in rest if strictness(model.entities[name]) <= {*done, name}]
            if free:
                ready = free[0]
                break
        done.append(ready)
        rest.remove(ready)
    return done


def _any(entity: Entity) -> set[str]:
    return {field.target for field in entity.fields.values() if field.target is not None}


def _required(entity: Entity) -> set[str]:
    return {field.target for field in entity.fields.values() if field.target is not None and field.optional is None}


def _in_key(entity: Entity) -> set[str]:
    fields = [entity.fields[entity.columns[name].field] for name in entity.key]
    return {field.target for field in fields if field.target is not None}
