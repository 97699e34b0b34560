"""A few rows of every entity as the items they would be in the table: the same for the same model and design.

Rows come from the model's own statistics, values behind references from the reference model, items from the codec;
so that keys and attributes are those of production.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from keyplan.data import Dataset
from keyplan.data.dataset import NOW
from keyplan.engines.dynamodb.layout import PK, SK, Layout, Place
from keyplan.engines.dynamodb.writes import Writer
from keyplan.model.entity import Entity
from keyplan.model.model import Model, path_of
from keyplan.model.values import truncate, truncated_type, words
from keyplan.plan.edits import Edit
from keyplan.plan.gaps import gap_text
from keyplan.plan.shards import shard_of
from keyplan.plan.types import measure_type, path_type
from keyplan.plan.view import COPIES, COUNT, Measure, Part
from keyplan.reference.aggregate import term_value
from keyplan.reference.arithmetic import summary
from keyplan.reference.evaluate import matching
from keyplan.reference.tables import Row, Tables

ROOTS, CHILDREN = 3, 6
"""Rows of an entity that refers to no other, and of one that does."""

Item = dict[str, dict[str, Any]]


def sample_rows(model: Model) -> Tables:
    """The rows, none of them expired."""
    dataset = Dataset(model, counts=sample_counts(model))
    tables = Tables(model)
    for name, row in dataset.all():
        tables.put(name, row)
    tables.forget_expired(NOW)
    return tables


def sample_counts(model: Model) -> dict[str, int]:
    """How many rows of each entity are asked for."""
    return {name: _count(entity) for name, entity in model.entities.items()}


def _count(entity: Entity) -> int:
    wanted = CHILDREN if any(field.target for field in entity.fields.values()) else ROOTS
    return min(wanted, max(1, round(entity.count)))


def sample_items(model: Model, places: Layout) -> dict[tuple[str, tuple[str, ...]], list[Item]]:
    """The items of every place in the table, in the order of their keys."""
    tables = sample_rows(model)
    writer = Writer(places)
    found = {}
    for name, place in places.places.items():
        if place.index is None:
            edits = list(_totals(model, tables, place) if place.view.measures else _entries(model, tables, place))
            writes = [write for request in writer.bulk(edits) for batch in request.batches for write in batch]
            items = [write["PutRequest"]["Item"] for write in writes]
            found[name] = sorted(items, key=lambda item: (item[PK]["S"].encode(), item[SK]["S"].encode()))
    return found


def _rows(tables: Tables, place: Place) -> list[Row]:
    """The rows that have entries in a place."""
    return matching(tables, place.entity, place.view.where if not place.at else (), {}, NOW)


def _entries(model: Model, tables: Tables, place: Place) -> Iterator[Edit]:
    paths = {path: path_of(path, model, place.entity) for path in place.slots}
    for row in _rows(tables, place):
        entry = {path: tables.single(place.entity, row, at) for path, at in paths.items()}
        for key in _keys(model, tables, place, row):
            yield Edit(place.view.name, "put", key, place.at, entry)


def _totals(model: Model, tables: Tables, place: Place) -> Iterator[Edit]:
    """One entry per group, with what its rows add up to."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in _rows(tables, place):
        for key in _keys(model, tables, place, row):
            groups.setdefault(key, []).append(row)
    for key, rows in groups.items():
        sums = {one.name: _total(model, tables, place, one, rows) for one in place.view.measures}
        yield Edit(place.view.name, "put", key, place.at, {**sums, COUNT: len(rows)})


def _total(model: Model, tables: Tables, place: Place, measure: Measure, rows: list[Row]) -> Any:
    if measure.term is None:
        return len(rows)
    values = [term_value(tables, place.entity, measure.term, row) for row in rows]
    present = [value for value in values if value is not None]
    if measure.how == "count":
        return len(present)
    return summary(measure.how, present, measure_type(model, place.view.entity, measure))


def _keys(model: Model, tables: Tables, place: Place, row: Row) -> Iterator[tuple[Any, ...]]:
    """The keys of the entries that a row has in a place."""
    entity = model.entities[place.view.entity]
    embed = place.view.embed_at(place.at)
    if embed is None:
        return product(*(_values(tables, place, row, part, {}, entity.key) for part in place.view.parts))
    # Embedded rows stand under their parent's key, which they know through their reference.
    seen = dict(zip(entity.key, entity.roles[embed.role].columns, strict=True))
    above = [_values(tables, place, row, part, seen, entity.key) for part in place.view.parts]
    own = model.entities[embed.entity].key
    return product(*above, *(_values(tables, place, row, part, {}, own) for part in embed.sort))


def _values(
    tables: Tables, place: Place, row: Row, part: Part, seen: Mapping[str, str], key: Sequence[str]
) -> list[Any]:
    """The values that a part of a key takes for a row: none if it is missing, several for elements and words."""

    def value(path: str) -> Any:
        return tables.single(place.entity, row, path_of(seen.get(path, path), tables.model, place.entity))

    if part.cut == COPIES:
        return list(range(part.ways))
    if part.ways > 1:
        return [shard_of([value(path) for path in key], part.ways)]
    if part.cut == "words":
        texts = [value(path) for path in (part.path, *part.also)]
        return sorted(frozenset().union(*(words(text) for text in texts if text is not None)))
    one = value(part.path)
    if part.or_missing:
        type, _ = path_type(tables.model, place.entity, part.path)
        cut = one if one is None or part.cut is None else truncate(one, part.cut)
        return [gap_text(truncated_type(type, part.cut) if part.cut else type, cut)]
    if one is None:
        return []
    if part.cut == "each":
        return sorted(one)
    return [one if part.cut is None else truncate(one, part.cut)]
