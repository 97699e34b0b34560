"""Unique sets that the engine itself keeps know nothing of expiry: the expired owner of a value has to be removed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from keyplan.engines.base import Proc
from keyplan.model.entity import EXPIRES
from keyplan.model.pattern import Condition, Outer, Path
from keyplan.plan.edits import Test
from keyplan.plan.steps import Search
from keyplan.store.changes import Batch, RowChange
from keyplan.store.expiry import is_gone
from keyplan.store.filter import Call
from keyplan.store.search import SearchNode

if TYPE_CHECKING:
    from keyplan.store.write import Writer

Row = dict[str, Any]


def expired_owners(writer: Writer, batch: Batch, now: datetime) -> Proc[list[RowChange]]:
    """Deletes of the expired rows that stand in the way of a batch which was refused."""
    found: dict[tuple[Any, ...], RowChange] = {}
    for change in list(batch.changes):
        entity = writer.model.entities[change.entity]
        if entity.ttl is None or change.new is None or change.follows:
            continue
        for view in writer.design.views.values():
            if view.entity != entity.name or not view.unique or not view.base:
                continue
            columns = [part.path for part in view.parts]
            wanted = {**change.new, **change.sets}
            if any(wanted.get(column) is None for column in columns):
                continue
            given = tuple(Condition(Path((), column), "=", (Outer(column),)) for column in columns)
            search = Search(view.name, given=given, takes=tuple(entity.stored))
            node = SearchNode(writer.model, writer.design, writer.executor.kinds, writer.codec, search)
            node.alive, node.drops = None, node.filter is not None  # gone for everybody else, but in the way
            (rows,) = yield from node.many(Call({}, now, strong=True), [wanted])
            for row in rows:
                key = tuple(row[column] for column in entity.key)
                if is_gone(row, now) and key != change.key:
                    seen = (Test(EXPIRES, "=", row[EXPIRES]),)
                    found[key] = RowChange(entity.name, key, row, None, change.label, tests=seen)
    return list(found.values())
