"""Unique sets that the engine itself keeps know nothing of expiry: the expired owner of a value has to be removed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from keyplan.engines.rounds import Proc
from keyplan.model.entity import EXPIRES
from keyplan.model.pattern import Condition, Outer, Path
from keyplan.plan.edits import Test
from keyplan.plan.steps import Search
from keyplan.plan.view import View
from keyplan.store.reading.expiry import is_gone
from keyplan.store.reading.filter import Call
from keyplan.store.reading.search import SearchNode
from keyplan.store.writing.changes import Batch, RowChange

if TYPE_CHECKING:
    from keyplan.store.writing.write import Writer

Row = dict[str, Any]


def expired_owners(writer: Writer, batch: Batch, now: datetime) -> Proc[list[RowChange]]:
    """Deletes of the expired rows that stand in the way of a batch which was refused."""
    found: dict[tuple[Any, ...], RowChange] = {}
    for change, view in list(_unique_among_expiring(writer, batch)):
        entity = writer.model.entities[change.entity]
        given = tuple(Condition(Path((), part.path), "=", (Outer(part.path),)) for part in view.parts)
        search = Search(view.name, given=given, takes=tuple(entity.stored))
        node = SearchNode(writer.model, writer.design, writer.executor.kinds, writer.codec, search)
        node.alive, node.drops = None, node.filter is not None  # gone for everybody else, but in the way
        (rows,) = yield from node.many(Call({}, now, strong=True), [_written(change)])
        for row in rows:
            key = tuple(row[column] for column in entity.key)
            if is_gone(row, now) and key != change.key:
                seen = (Test(EXPIRES, "=", row[EXPIRES]),)
                found[key] = RowChange(entity.name, key, row, None, change.label, tests=seen)
    return list(found.values())


def may_have_gone(writer: Writer, batch: Batch) -> bool:
    """Whether what a refused batch met with may have been an expired row, which the engine has removed since."""
    return any(True for _ in _unique_among_expiring(writer, batch))


def _unique_among_expiring(writer: Writer, batch: Batch) -> Iterator[tuple[RowChange, View]]:
    """The rows of a batch that want values of which the engine itself sees to it that no other row has them."""
    for change in batch.changes:
        if writer.model.entities[change.entity].ttl is None or change.new is None or change.follows:
            continue
        for view in writer.design.views.values():
            known = view.unique and view.base and view.entity == change.entity
            if known and all(_written(change).get(part.path) is not None for part in view.parts):
                yield change, view


def _written(change: RowChange) -> Row:
    return {**(change.new or {}), **change.sets}
