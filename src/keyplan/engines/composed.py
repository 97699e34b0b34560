"""Keys that we compose for views which an engine keeps over one of ours, and what of a row an update has to know for
them.

Such a key is written with the row's own entry: all of it or nothing. An update that gives all it is made of needs no
more. Nor does one by which the row has no entry from then on, as that which closes what an index of open rows has: it
takes the key away, whatever it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from keyplan.engines.base import Kind
from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Literal
from keyplan.model.predicate import compile_condition, operands
from keyplan.model.types import Type
from keyplan.model.write import Write
from keyplan.plan.view import View

_NEVER = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ComposedKey:
    """The key of a row's entry in a view that the engine keeps."""

    paths: frozenset[str]
    """What it is composed of, or depends on."""
    deciding: frozenset[str]
    """Of these, what decides whether there is an entry: conditions, and parts that may be missing."""
    where: tuple[tuple[Condition, Type], ...]
    """The conditions that can be told from one value of the row's own."""

    def needs_row(self, changed: Set[str], given: Set[str], told: Mapping[str, Any]) -> bool:
        """Whether an update has to know the row as it was: of what is `given` by it, some values are `told` before."""
        if not changed & self.paths or self.paths <= given:
            return False
        return not self.is_left(given, told)

    def is_left(self, given: Set[str], told: Mapping[str, Any]) -> bool:
        """Whether no row has an entry after an update that tells these values.

        All that decides on it has to be given. Views that share an attribute for their keys tell their rows apart by
        that, so that what stands there is the key of this view, or of one whose rows are other ones by the same
        columns: then the update changes that key, too.
        """
        if not self.deciding <= given:
            return False
        if any(told[path] is None for path in self.deciding & told.keys() if path not in self._tested):
            return True
        return any(
            not compile_condition(type, condition.op, condition.cut)(
                told[str(condition.path)], operands(condition, type, {}, _NEVER)
            )
            for condition, type in self.where
            if str(condition.path) in told
        )

    @property
    def _tested(self) -> set[str]:
        return {str(condition.path) for condition, _ in self.where}


def composed_keys(
    model: Model, views: Iterable[View], kinds: Mapping[str, Kind], base: str, entity: str
) -> tuple[ComposedKey, ...]:
    """The keys that we compose for the engine's own views over a base view."""
    return tuple(
        _composed_key(model, view)
        for view in views
        if view.base == base and view.entity == entity and kinds[view.kind].composed
    )


def told_values(write: Write) -> dict[str, Any]:
    """What rows have after an update, as far as the model itself says so."""
    return {column: operand.value for column, operand in write.sets.items() if isinstance(operand, Literal)}


def _composed_key(model: Model, view: View) -> ComposedKey:
    parts = {path for part in view.parts for path in (part.path, *part.also) if path}
    tested = {str(path) for condition in view.where for path in (condition.path, *condition.also)}
    columns = model.entities[view.entity].columns
    where = tuple(
        (condition, columns[str(condition.path)].type)
        for condition in view.where
        if str(condition.path) in columns
        and condition.op != "search"
        and all(isinstance(operand, Literal) for operand in condition.operands)
    )
    missing = {path for path in parts if may_be_missing(model, view.entity, path)}
    return ComposedKey(frozenset(parts | tested), frozenset(tested | missing), where)


def may_be_missing(model: Model, entity: str, path: str) -> bool:
    """Whether a row may lack a value: of its own, or because what is behind a reference lacks it or is not there."""
    column = model.entities[entity].columns.get(path)
    return column is None or column.optional or column.computed is not None
