"""Which values may ever change: what no write of a model touches need not be looked at twice."""

from __future__ import annotations

from keyplan.model.model import Model
from keyplan.model.write import written_entities


def changing_columns(model: Model) -> dict[str, frozenset[str]]:
    """Per entity: the columns that the writes of a model may change in a row that is there."""
    found: dict[str, set[str]] = {name: set() for name in model.entities}
    for name, entity in model.entities.items():
        if entity.ttl is not None:
            found[name] |= set(entity.columns)
    for write in model.writes.values():
        if write.kind in ("delete", "upsert"):
            for name in written_entities(model.entities, write):
                columns = model.entities[name].columns.values()
                found[name] |= {column.name for column in columns if write.kind == "delete" or not column.immutable}
        else:
            found[write.entity] |= {*write.sets, *write.adds}
    return {name: frozenset(columns) for name, columns in found.items()}
