"""Views of rows that point at nothing: a reference may be written before the row that it leads to.

When that row is created under a key that somebody gave it, whatever copies from it has to be found. Such a view holds
just those rows, by what they point at. A row enters it when it is written while its target is not there, or when the
target is deleted, and leaves it when the target comes, or when it points elsewhere. So it is nearly always empty.
"""

from __future__ import annotations

from keyplan.model.entity import Role
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition, Path
from keyplan.plan.view import View


def absence(model: Model, entity: str, role: str) -> Condition | None:
    """The condition that a reference leads to no row; None if no value tells, or nobody notes that it has gone.

    A column that every row has is missing only with its row. Of a key, the reference itself holds a copy that stays;
    a path through the reference means the row's own. Where the key has several parts, the two are spelt alike, and
    another column has to tell: one that no write changes, so that nobody has to follow it otherwise.
    """
    step = model.entities[entity].roles[role]
    target = model.entities[step.entity]
    if step.many or target.ttl is not None:
        return None
    if len(target.key) == 1 and target.key[0] in target.columns and f"{role}.{target.key[0]}" not in step.columns:
        return Condition(Path((role,), target.key[0]), "missing")
    changed = set[str]()
    for write in model.writes.values():
        if write.kind == "upsert" and (write.entity == target.name or write.children):
            changed |= set(target.columns)
        elif write.entity == target.name:
            changed |= {*write.sets, *write.adds}
    for column in target.columns.values():
        may_lack = column.optional or column.hidden or column.computed or column.type.is_collection
        if not (may_lack or column.name in target.key) and (column.immutable or column.name not in changed):
            return Condition(Path((role,), column.name), "missing")
    return None


def dangling_role(model: Model, view: View) -> Role | None:
    """The reference whose rows without a target are what a view holds, by that reference; None for other views."""
    if len(view.where) != 1 or len(view.where[0].path.roles) != 1:
        return None
    if view.measures or view.unique or view.embeds or view.packed or view.base:
        return None
    name = view.where[0].path.roles[0]
    if view.where[0] != absence(model, view.entity, name):
        return None
    role = model.entities[view.entity].roles[name]
    plain = {part.path for part in view.parts if part.cut is None}
    own = all(not path_of(text, model, view.entity).roles for text in (*filter(None, plain), *view.holds))
    whole = all(part.cut is None or part.ways > 1 for part in view.parts)
    return role if own and whole and set(role.columns) <= plain else None
