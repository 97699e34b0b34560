"""The tag that a partition key begins with: whose rows are gathered under it."""

from __future__ import annotations

from collections.abc import Sequence

from keyplan.engines.dynamodb.layout import RECORD_TAG
from keyplan.model.model import Model, path_of
from keyplan.plan.view import Part, View


def partition_tag(model: Model, view: View) -> str:
    """Whose rows a partition gathers: the entity whose key it is, or else what it is made of."""
    parts = [part for part in view.partition if part.ways == 1]
    owner = _owner(model, view.entity, parts)
    if owner is not None:
        tag = owner.upper()
    else:
        tag = ".".join((view.entity, *(str(part).removesuffix(" desc") for part in parts))).upper()
    return f"{tag}." if tag == RECORD_TAG else tag


def _owner(model: Model, entity: str, parts: Sequence[Part]) -> str | None:
    """The entity whose key these parts are, through as many references as there are."""
    if not parts or any(part.cut or part.descending for part in parts):
        return None
    paths = [path_of(part.path, model, entity) for part in parts]
    if len({path.roles for path in paths}) > 1:
        return None
    here = model.entity_at(entity, paths[0].roles)
    columns = tuple(path.column for path in paths)
    for _ in model.entities:
        role = next(
            (one for one in model.entities[here].roles.values() if not one.many and one.columns == columns), None
        )
        if role is None:
            break
        here, columns = role.entity, model.entities[role.entity].key
    return here if columns == model.entities[here].key else None
