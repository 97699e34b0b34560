"""Computed fields that are kept: as parts of keys, or to be read with their row; which can be, and why others cannot.

The home of the entity holds such a value then, and every write of the rows that it is made of changes it there.
"""

from __future__ import annotations

from keyplan.design.needs.need import Need
from keyplan.design.statistics.derived import Statistics, peak_rate
from keyplan.model.entity import Role
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import RANGES, Path
from keyplan.plan.view import View

MOST_WRITERS = 10.0
"""Writes per second of one row's children that go on beside each other: each takes some 10 ms on a server that answers
within milliseconds, so that about one in ten meets another and begins anew."""

MOST_FOLLOWERS = 1000.0
"""Rows that copy a computed value of the usual row: more would be moved by each write for seconds."""


def unkeyable(model: Model, entity: str, path: Path) -> str:
    """Why a computed field cannot be part of a key; empty if it can, or is not computed at all."""
    computed = model.column(entity, path).computed
    if computed is None:
        return ""
    name = f"'{entity}.{path}'"
    if len(path.roles) > 1:
        return f"{name} is computed behind more than one reference, and no key follows it there"
    here = model.entities[model.entity_at(entity, path.roles)]
    child = model.entities[here.roles[computed.role].entity]
    if child.ttl is not None:
        return (
            f"{name} cannot be part of a key: rows of '{child.name}' expire, and nobody would be there to take them off"
        )
    if here.ttl is not None:
        return f"{name} cannot be part of a key: rows of '{here.name}' expire"
    if computed.column is not None and child.columns[computed.column].computed is not None:
        return f"{name} cannot be part of a key: it is computed of what is computed itself"
    if computed.how == "sum" and here.columns[path.column].type.kind == "float":
        return f"{name} cannot be part of a key: a sum of floats that is added to and taken from drifts"
    return ""


def is_keyable(model: Model, entity: str, path: Path) -> bool:
    """Whether a path can be part of a key as far as computing is concerned."""
    return not unkeyable(model, entity, path)


def is_holdable(model: Model, statistics: Statistics, entity: str, column: str) -> bool:
    """Whether a computed field may be kept with its row to save working it out: not where its writers would meet.

    Whoever writes a child tests that the value is as it was read, and begins anew if it is not.
    """
    computed = model.entities[entity].columns[column].computed
    assert computed is not None
    if not is_keyable(model, entity, Path((), column)):
        return False
    role = model.entities[entity].roles[computed.role]
    hottest = min(statistics.hottest_share(role.entity, Path((), one)) for one in role.columns)
    rates = (
        peak_rate(write.traffic) * times * max(write.traffic.top or 0.0, hottest)
        for write, times in statistics.written(role.entity)
    )
    return sum(rates) <= MOST_WRITERS


def is_followable(model: Model, statistics: Statistics, entity: str, path: Path) -> bool:
    """Whether rows may copy a computed field over one reference: not where too many would follow each change."""
    role = model.entities[entity].roles[path.roles[0]]
    share = statistics.present(entity, role.columns[0])
    each = statistics.rows(entity) * share / max(1.0, statistics.rows(role.entity))
    return each <= MOST_FOLLOWERS and is_holdable(model, statistics, role.entity, path.column)


def computed_of(model: Model, view: View) -> dict[str, Role]:
    """The computed columns that a view holds, tests or is keyed by, with the role that each is made of."""
    here = model.entities[view.entity]
    found = {}
    tested = (str(condition.path) for condition in view.where)
    for text in dict.fromkeys((*view.holds, *(part.path for part in view.parts), *tested)):
        column = here.columns.get(text)
        if column is not None and column.computed is not None:
            found[text] = here.roles[column.computed.role]
    return found


Behind = tuple[str, str]
"""A to-one role of an entity, and the to-many role behind it that something is computed of."""


def computed_behind(model: Model, view: View) -> dict[Behind, set[str]]:
    """The computed columns behind references that a view holds, tests or is keyed by, by what they are made of."""
    found: dict[Behind, set[str]] = {}
    tested = (str(condition.path) for condition in view.where)
    for text in dict.fromkeys((*view.holds, *(part.path for part in view.parts), *tested)):
        if "." not in text:
            continue
        path = path_of(text, model, view.entity)
        computed = model.column(view.entity, path).computed if len(path.roles) == 1 else None
        if computed is not None:
            found.setdefault((path.roles[0], computed.role), set()).add(path.column)
    return found


def kept_by(model: Model, view: View) -> dict[str, dict[str, Role]]:
    """Per entity: the computed columns that its home holds for a view, with the role that each is made of."""
    found = {view.entity: computed_of(model, view)}
    for (role, name), columns in computed_behind(model, view).items():
        target = model.entities[model.entities[view.entity].roles[role].entity]
        found[target.name] = found.get(target.name, {}) | dict.fromkeys(sorted(columns), target.roles[name])
    return found


def asked_in_keys(model: Model, need: Need) -> list[str]:
    """The computed columns that a need wants rows ordered or bounded by."""
    paths = [term.path for term in need.order]
    paths += [c.path for c in need.given if c.op in (*RANGES, "=", "in")]
    return [
        path.column
        for path in dict.fromkeys(paths)
        if not path.roles and model.column(need.entity, path).computed is not None
    ]


def refusals(model: Model, need: Need) -> list[str]:
    """Why computed columns that a need orders or bounds by are in no key."""
    paths = [term.path for term in need.order]
    paths += [c.path for c in need.given if c.op in (*RANGES, "=", "in")]
    able = (path for path in dict.fromkeys(paths) if not model.is_many(need.entity, path.roles))
    found = (unkeyable(model, need.entity, path) for path in able)
    return [text for text in found if text]
