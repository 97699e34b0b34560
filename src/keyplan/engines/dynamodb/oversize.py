"""Rows that may become larger than an item: named at design time, with what to do, and refused when written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from keyplan.engines.dynamodb.limits import KB, LIMITS
from keyplan.model.model import Model, path_of
from keyplan.model.types import Type
from keyplan.model.values import average_bytes, most_bytes
from keyplan.plan.view import View

SPLIT = "move large values into an entity of their own with the same key, or keep them elsewhere"
"""What makes one large row two smaller ones."""


def oversized(model: Model, view: View) -> Iterator[str]:
    """What is wrong with the largest entries of a view, by the limits of their types, and what to do."""
    if view.measures or view.kind == "gsi":
        return  # an index projects what its items hold
    for entity, holds in ((view.entity, view.holds), *((embed.entity, embed.holds) for _, embed in view.nested())):
        sizes = _sizes(model, entity, holds)
        most, local = sum(sizes.values()), ","
        if view.kind == "lsi":
            # DynamoDB counts an item together with its entries in local indexes.
            most += sum(_sizes(model, entity, model.entities[entity].stored).values())
            local = ", its entry in a local index included,"
        if most > LIMITS.item_bytes:
            size = f"up to {most / KB:,.0f} KB by its types" if most < inf else "any size"
            yield (
                f"a row of '{entity}' may take {size}{local} and an item of dynamodb has {LIMITS.item_bytes // KB} KB: "
                f"a larger one is refused when it is written; {_advice(sizes, most)}"
            )


def _sizes(model: Model, entity: str, holds: Iterable[str]) -> dict[str, float]:
    """The greatest size of each attribute, its name included."""
    return {path: len(path) + _most(model.column(entity, path_of(path, model, entity)).type) for path in holds}


def _most(type: Type) -> float:
    if type.of is not None:
        return (type.most if type.most is not None else inf) * _most(type.of)
    if type.kind in ("string", "text", "bytes", "json"):
        return float(most_bytes(type))
    return average_bytes(type)


def _advice(sizes: dict[str, float], most: float) -> str:
    """The values to bound, those that nothing bounds first, until the rest fits."""
    named = []
    for path in sorted(sizes, key=lambda path: -sizes[path]):
        if most <= LIMITS.item_bytes:
            break
        named.append(f"'{path}'")
        most = sum(other for name, other in sizes.items() if f"'{name}'" not in named)
    return f"give {', '.join(named)} a smaller max, or {SPLIT}"
