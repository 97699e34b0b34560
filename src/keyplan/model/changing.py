"""Which values may ever change: what no write of a model touches need not be looked at twice."""

from __future__ import annotations

from keyplan.model.model import Model
from keyplan.model.write import Children


def changing_columns(model: Model) -> dict[str, frozenset[str]]:
    """Per entity: the columns that the writes of a model may change in a row that is there."""
    found: dict[str, set[str]] = {name: set() for name in model.entities}

    def whole(entity: str, children: Children, *, goes: bool) -> None:
        columns = model.entities[entity].columns.values()
        found[entity] |= {column.name for column in columns if goes or not column.immutable}
        for name, deeper in children.items():
            whole(model.entities[entity].roles[name].entity, deeper, goes=goes)

    for name, entity in model.entities.items():
        if entity.ttl is not None:
            whole(name, {}, goes=True)
    for write in model.writes.values():
        if write.kind in ("delete", "upsert"):
            whole(write.entity, write.children, goes=write.kind == "delete")
        else:
            found[write.entity] |= {*write.sets, *write.adds}
    return {name: frozenset(columns) for name, columns in found.items()}
