"""Expired rows are gone: for a Search, which of its entries are, and which of their copies.

Entries of an entity with a `ttl` hold `$expires`; copies through a reference to one hold `role.$expires`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import Select

Row = dict[str, Any]
Alive = Callable[[Row, datetime], bool]


def is_gone(row: Mapping[str, Any], now: datetime) -> bool:
    """Whether a row has expired."""
    expires = row.get(EXPIRES)
    return expires is not None and expires <= now


def compile_alive(
    model: Model, entity: str, takes: Sequence[str], given: Iterable[str], along: Mapping[str, Select]
) -> Alive | None:
    """A test that says whether an entry is there, and clears what it copied from rows that are not.

    None if nothing in the entries can expire.
    """
    own = EXPIRES in takes
    behind: list[tuple[str, list[str], bool]] = []
    for path in takes:
        if path.endswith("." + EXPIRES):
            role = path[: -len(EXPIRES) - 1]
            kept = _reference_columns(model, entity, role)
            below = [one for one in takes if one.startswith(role + ".") and one not in kept]
            lost = any(one.startswith(role + ".") and one not in kept for one in given)
            behind.append((path, below, lost))
    children = [name for name in along if _may_expire(model, model.entity_at(entity, (name,)), along[name])]
    if not own and not behind and not children:
        return None

    def alive(row: Row, now: datetime) -> bool:
        if own:
            expires = row[EXPIRES]
            if expires is not None and expires <= now:
                return False
        for path, below, lost in behind:
            expires = row[path]
            if expires is not None and expires <= now:
                if lost:
                    return False
                for one in below:
                    row[one] = None
        for name in children:
            row[name] = prune(row[name], now)
        return True

    return alive


def prune(rows: list[Row], now: datetime) -> list[Row]:
    """Embedded rows without the expired ones, at every depth."""
    kept = [row for row in rows if not is_gone(row, now)]
    for row in kept:
        for name, value in row.items():
            if isinstance(value, list):
                row[name] = prune(value, now)
    return kept


def _may_expire(model: Model, entity: str, select: Select) -> bool:
    if model.entities[entity].ttl is not None:
        return True
    return any(_may_expire(model, model.entity_at(entity, (name,)), inner) for name, inner in select.roles.items())


def _reference_columns(model: Model, entity: str, role: str) -> set[str]:
    """The paths of the reference itself, which stay when its target is gone."""
    chain = tuple(role.split("."))
    before = model.entity_at(entity, chain[:-1])
    return {".".join((*chain[:-1], column)) for column in model.entities[before].roles[chain[-1]].columns}
