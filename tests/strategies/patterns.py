"""Patterns that a model's entities allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from keyplan.model.entity import Column, Entity
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from tests.strategies.conditions import TEXTS, Names, Reach, by_columns, can_ask, condition, conditions, reaches
from tests.strategies.domains import chance

GROUPED = ("string", "int", "decimal", "bool", "enum", "date", "timestamp", "uuid", "ulid", "bytes")
NUMERIC = ("int", "decimal", "float")
UNORDERED = ("json", "set", "list")


@st.composite
def patterns(draw: st.DrawFn, model: Model, most: int = 4) -> dict[str, Any]:
    """The `patterns` section."""
    return {f"read{number}": _pattern(draw, model) for number in range(1, draw(st.integers(1, most)) + 1)}


def _pattern(draw: st.DrawFn, model: Model) -> dict[str, Any]:
    entity = draw(st.sampled_from(list(model.entities.values())))
    kind = draw(
        st.sampled_from(["one", "find", "find", "find", "find", "aggregate", "aggregate", "rank", "corner", "corner"])
    )
    names = Names()
    found: dict[str, Any]
    if kind == "corner":
        entity, found = _corner(draw, model, entity, names)
        return _find(draw, model, entity, found, bounds=("page", "page", "neither"))
    if kind == "one":
        keys = st.sampled_from([entity.key, *entity.unique])
        found = {"find": entity.name, "where": " and ".join(by_columns(draw(keys), names))}
        return found | _select(draw, model, entity)
    if kind == "find":
        return _find(draw, model, entity, _where(draw, model, entity, names, most=3))
    if kind == "aggregate":
        return _aggregate(draw, model, entity, names)
    fields = dict.fromkeys(entity.columns[column].field for column in entity.key)
    whole = all(
        column.name in entity.key for column in entity.columns.values() if column.field in fields and not column.hidden
    )
    return {
        "rank": entity.name,
        "of": list(fields) if whole else " and ".join(by_columns(entity.key, names)),
        "order": _order(draw, model, entity, at_least=1),
        **_where(draw, model, entity, names, most=1),
    }


def _where(draw: st.DrawFn, model: Model, entity: Entity, names: Names, most: int) -> dict[str, Any]:
    """Mostly on own columns; over roles now and then."""
    deep = draw(st.sampled_from([0, 0, 1, 1, 2]))
    choices = reaches(model, entity.name, deep=deep, many=draw(st.booleans()))
    found = conditions(draw, choices, most, names)
    return {"where": " and ".join(found)} if found else {}


def _corner(draw: st.DrawFn, model: Model, entity: Entity, names: Names) -> tuple[Entity, dict[str, Any]]:
    """What chance seldom makes: rows by lists of keys, by two lists of children, by texts here and there, or with
    children of which something is computed."""
    kind = draw(st.sampled_from(["keys", "lists", "texts", "children"]))
    if kind == "children":
        counting = [one for one in model.entities.values() if _counted(one)]
        entity = draw(st.sampled_from(counting)) if counting else entity
        return entity, _where(draw, model, entity, names, most=1)
    if kind == "lists":
        several = [one for one in model.entities.values() if sum(role.many for role in one.roles.values()) > 1]
        entity = draw(st.sampled_from(several)) if several else entity
        behind: dict[str, list[Reach]] = {}
        for reach in reaches(model, entity.name, deep=2, many=True):
            if reach.path.roles and entity.roles[reach.path.roles[0]].many and can_ask(reach):
                behind.setdefault(reach.path.roles[0], []).append(reach)
        picked = [draw(st.sampled_from(found)) for found in list(behind.values())[-2:]]
        where = [condition(draw, reach, names) for reach in picked]
    elif kind == "texts":
        texts = [
            reach
            for reach in reaches(model, entity.name, deep=draw(st.sampled_from([1, 1, 2])))
            if reach.column.type.kind in TEXTS
        ]
        picked = draw(st.lists(st.sampled_from(texts), min_size=1, max_size=3, unique_by=_path)) if texts else []
        where = [f"search({', '.join(reach.text for reach in picked)}, :{names()})"] if picked else []
    else:
        *first, last = entity.key
        where = [f"{column} {draw(st.sampled_from(['=', 'in']))} :{names()}" for column in first]
        where.append(f"{last} in :{names()}")
    return entity, {"where": " and ".join(where)} if where else {}


def _path(reach: Reach) -> Path:
    return reach.path


def _find(
    draw: st.DrawFn,
    model: Model,
    entity: Entity,
    where: dict[str, Any],
    bounds: Sequence[str] = ("page", "limit", "neither"),
) -> dict[str, Any]:
    found: dict[str, Any] = {"find": entity.name, **where}
    order = _order(draw, model, entity, at_least=0)
    if order:
        found["order"] = order
    bound = draw(st.sampled_from(bounds))
    if bound == "page":
        found["page"] = draw(st.integers(1, 3))
    elif bound == "limit" and order:
        found["limit"] = draw(st.integers(1, 3))
    return found | _select(draw, model, entity)


def _order(draw: st.DrawFn, model: Model, entity: Entity, at_least: int) -> str:
    deep = draw(st.sampled_from([0, 0, 0, 1]))
    choices = [reach for reach in reaches(model, entity.name, deep=deep) if reach.column.type.kind not in UNORDERED]
    terms = draw(st.lists(st.sampled_from(choices), min_size=at_least, max_size=2, unique_by=lambda reach: reach.path))
    return ", ".join(reach.text + draw(st.sampled_from(["", " desc"])) for reach in terms)


def _select(draw: st.DrawFn, model: Model, entity: Entity) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if chance(draw, 2):
        choices = [_field_path(model, entity, reach) for reach in reaches(model, entity.name, deep=2)]
        found["select"] = draw(st.lists(st.sampled_from(choices), min_size=1, max_size=3, unique=True))
    if entity.roles and chance(draw, 1):
        along = draw(st.lists(st.sampled_from(sorted(entity.roles)), min_size=1, max_size=2, unique=True))
        found["with"] = [_with(draw, model, entity, name) for name in along]
    counted = _counted(entity)
    if counted and not chance(draw, 2):
        _with_counted(draw, model, entity, draw(st.sampled_from(counted)), found)
    return found


def _counted(entity: Entity) -> list[str]:
    """The roles of which something is computed, and all of which a row may have along."""
    computed = (column.computed for column in entity.columns.values() if column.computed is not None)
    return sorted({one.role for one in computed if (entity.roles[one.role].most or 0) > 1})


def _with_counted(draw: st.DrawFn, model: Model, entity: Entity, name: str, found: dict[str, Any]) -> None:
    """All children of a role beside what is computed of them; they may lack what that takes."""
    child = model.entities[entity.roles[name].entity]
    along = name if draw(st.booleans()) else f"{name}.{draw(st.sampled_from(sorted(child.fields)))}"
    found["with"] = [along]
    if "select" in found:
        of_role = [one.name for one in entity.columns.values() if one.computed and one.computed.role == name]
        found["select"] = sorted({*found["select"], *of_role})


def _field_path(model: Model, entity: Entity, reach: Reach) -> str:
    """A path that `select` takes: a composite reference is named as a whole."""
    owner = model.entities[model.entity_at(entity.name, reach.path.roles)]
    return ".".join((*reach.path.roles, owner.columns[reach.path.column].field))


def _with(draw: st.DrawFn, model: Model, entity: Entity, name: str) -> Any:
    """A role, a field behind it, or a role behind it."""
    role = entity.roles[name]
    target = model.entities[role.entity]
    if role.many and role.most is None:
        return {name: _first(draw, model, target)}
    if target.roles and chance(draw, 3):
        below = target.roles[draw(st.sampled_from(sorted(target.roles)))]
        path = f"{name}.{below.name}"
        return {path: _first(draw, model, model.entities[below.entity])} if below.many and below.most is None else path
    if not role.many or role.most == 1:
        if draw(st.booleans()):
            return f"{name}.{draw(st.sampled_from(sorted(target.fields)))}"
        return name
    return name if draw(st.booleans()) else {name: _first(draw, model, target)}


def _first(draw: st.DrawFn, model: Model, target: Entity) -> dict[str, Any]:
    return {"order": _order(draw, model, target, at_least=1), "limit": draw(st.integers(1, 2))}


def _aggregate(draw: st.DrawFn, model: Model, entity: Entity, names: Names) -> dict[str, Any]:
    owners = [(one, column) for one in model.entities.values() for column in one.columns.values() if column.computed]
    if owners and chance(draw, 2):
        owner, column = draw(st.sampled_from(owners))
        return owned(draw, owner, column, names)
    own = reaches(model, entity.name, deep=draw(st.sampled_from([0, 0, 1])))
    numbers = [reach for reach in own if reach.column.type.kind in NUMERIC]
    ordered = [reach for reach in own if reach.column.type.kind not in UNORDERED]
    hows = ["count", "count", "min", "max"] + (["sum", "avg", "from", "from"] if numbers else [])
    how = draw(st.sampled_from(hows))
    found: dict[str, Any]
    computed = [how]
    if how == "count":
        found = {"count": entity.name}
    elif how == "from":
        found = {"from": entity.name, "compute": _computes(draw, numbers)}
        computed = list(found["compute"])
    else:
        reach = draw(st.sampled_from(numbers if how in ("sum", "avg") else ordered))
        found = {how: f"{entity.name}.{reach.text}"}
    found |= _where(draw, model, entity, names, most=2)
    groups = draw(
        st.lists(
            st.sampled_from([reach for reach in ordered if reach.column.type.kind in GROUPED]),
            max_size=2,
            unique_by=lambda reach: reach.path,
        )
    )
    if groups:
        found["group"] = {f"g{number}": _group(draw, reach) for number, reach in enumerate(groups)}
        if draw(st.booleans()):
            name = draw(st.sampled_from([*computed, *found["group"]]))
            found["order"] = name + draw(st.sampled_from(["", " desc"]))
            if draw(st.booleans()):
                found["limit"] = draw(st.integers(1, 3))
    return found


def owned(draw: st.DrawFn, owner: Entity, column: Column, names: Names) -> dict[str, Any]:
    """The very aggregate that a computed column stands for, by itself or together with how many rows there are."""
    made = column.computed
    assert made is not None
    role = owner.roles[made.role]
    found: dict[str, Any] = {made.how: f"{role.entity}.{made.column}" if made.column else role.entity}
    if chance(draw, 1):
        found = {"from": role.entity, "compute": {"c0": f"{made.how}({made.column or ''})"}}
        found["compute"] |= {"c1": "count()"} if chance(draw, 1) else {}
    return found | {"where": " and ".join(by_columns(role.columns, names))}


def _group(draw: st.DrawFn, reach: Reach) -> str:
    kind = reach.column.type.kind
    if kind not in ("date", "timestamp"):
        return reach.text
    cuts = ["day", "week", "month", "year", ""] + (["hour", "minute"] if kind == "timestamp" else [])
    cut = draw(st.sampled_from(cuts))
    return f"{cut}({reach.text})" if cut else reach.text


def _computes(draw: st.DrawFn, numbers: list[Reach]) -> dict[str, str]:
    found = {"n": "count()"}
    for number in range(draw(st.integers(1, 2))):
        one, other = draw(st.sampled_from(numbers)).text, draw(st.sampled_from(numbers)).text
        expressions = [one, f"{one} * {other}", f"{one} - {other}", f"({one} + 1) * {other}", f"2 * {one} + {other}"]
        how = draw(st.sampled_from(["sum", "min", "max", "avg"]))
        found[f"c{number}"] = f"{how}({draw(st.sampled_from(expressions))})"
    return found
