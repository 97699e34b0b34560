"""Patterns that a model's entities allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from keyplan.model.entity import Column, Entity, Role
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from tests.strategies.conditions import (
    TEXTS,
    Names,
    Reach,
    by_columns,
    can_ask,
    condition,
    conditions,
    reaches,
    truncated,
)
from tests.strategies.domains import among, chance

GROUPED = ("string", "int", "decimal", "bool", "enum", "date", "timestamp", "uuid", "ulid", "bytes")
NUMERIC = ("int", "decimal", "float")
UNORDERED = ("json", "set", "list")


@st.composite
def patterns(draw: st.DrawFn, model: Model, most: int = 4) -> dict[str, Any]:
    """The `patterns` section."""
    return {f"read{number}": _pattern(draw, model) for number in range(1, draw(st.integers(1, most)) + 1)}


def _pattern(draw: st.DrawFn, model: Model) -> dict[str, Any]:
    entity = draw(st.sampled_from(list(model.entities.values())))
    kind = draw(among("one", "find", "find", "find", "find", "aggregate", "aggregate", "rank", "corner", "corner"))
    names = Names(draw)
    found: dict[str, Any]
    if kind == "corner":
        entity, found = _corner(draw, model, entity, names)
        return _find(draw, model, entity, found, bounds=("page", "page", "neither"))
    if kind == "one":
        keys = st.sampled_from([entity.key, *entity.unique])
        where = by_columns(draw(keys), names)
        if chance(draw, 5):
            where += conditions(draw, reaches(model, entity.name, deep=draw(among(0, 1))), 1, names)
        return {"find": entity.name, "where": " and ".join(where)} | _select(draw, model, entity)
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
        **_where(draw, model, entity, names, most=2),
    }


def _where(draw: st.DrawFn, model: Model, entity: Entity, names: Names, most: int) -> dict[str, Any]:
    """Mostly on own columns; over roles now and then."""
    deep = draw(among(0, 0, 1, 1, 2))
    choices = reaches(model, entity.name, deep=deep, many=draw(st.booleans()))
    found = conditions(draw, choices, most, names)
    return {"where": " and ".join(found)} if found else {}


def _corner(draw: st.DrawFn, model: Model, entity: Entity, names: Names) -> tuple[Entity, dict[str, Any]]:
    """What chance seldom makes: rows by lists of keys, by two lists of children, by texts here and there, by truncated
    moments, by what is computed, or with children of which something is computed."""
    kind = draw(among("keys", "lists", "texts", "children", "moments", "computed"))
    if kind in ("moments", "computed"):
        return _on_special(draw, model, entity, names, kind)
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
            reach for reach in reaches(model, entity.name, deep=draw(among(1, 1, 2))) if reach.column.type.kind in TEXTS
        ]
        picked = draw(st.lists(st.sampled_from(texts), min_size=1, max_size=3, unique_by=_path)) if texts else []
        where = [f"search({', '.join(reach.text for reach in picked)}, :{names()})"] if picked else []
    else:
        *first, last = entity.key
        where = [f"{column} {draw(among('=', 'in'))} :{names()}" for column in first]
        where.append(f"{last} in :{names()}")
    return entity, {"where": " and ".join(where)} if where else {}


def _on_special(
    draw: st.DrawFn, model: Model, entity: Entity, names: Names, kind: str
) -> tuple[Entity, dict[str, Any]]:
    """Rows by moments, mostly truncated, or by what is computed: of the entity, or of another that has such."""
    found: list[tuple[Entity, Reach]] = []
    for one in (entity, *model.entities.values()):
        for reach in reaches(model, one.name, deep=1, many=True):
            is_moment = reach.column.type.kind in ("date", "timestamp")
            if is_moment if kind == "moments" else reach.column.computed is not None and can_ask(reach):
                found.append((one, reach))
    if not found:
        return entity, _where(draw, model, entity, names, most=1)
    entity, reach = draw(st.sampled_from(found))
    moment = kind == "moments" and not chance(draw, 3)
    where = [truncated(draw, reach, names) if moment else condition(draw, reach, names)]
    where += conditions(draw, reaches(model, entity.name), 1, names)
    return entity, {"where": " and ".join(where)}


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
    bound = draw(among(*bounds))
    if bound == "page":
        found["page"] = draw(st.integers(1, 3))
    elif bound == "limit" and (order or chance(draw, 2)):
        found["limit"] = draw(st.integers(1, 3))
    return found | _select(draw, model, entity)


def _order(draw: st.DrawFn, model: Model, entity: Entity, at_least: int) -> str:
    deep = draw(among(0, 0, 0, 0, 0, 1, 1, 2))
    choices = [reach for reach in reaches(model, entity.name, deep=deep) if reach.column.type.kind not in UNORDERED]
    most = draw(among(2, 2, 2, 2, 3))
    terms = draw(st.lists(st.sampled_from(choices), min_size=at_least, max_size=most, unique_by=_path))
    return ", ".join(reach.text + draw(among("", " desc")) for reach in terms)


def _select(draw: st.DrawFn, model: Model, entity: Entity) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if chance(draw, 2):
        choices = [_field_path(model, entity, reach) for reach in reaches(model, entity.name, deep=2)]
        choices += [f"{role.name}.{name}" for role in _bounded(entity) for name in model.entities[role.entity].fields]
        found["select"] = draw(st.lists(st.sampled_from(choices), min_size=1, max_size=3, unique=True))
    if entity.roles and chance(draw, 1):
        single = [role.name for role in entity.roles.values() if role.most == 1]
        along = draw(
            st.lists(st.sampled_from([*sorted(entity.roles), *single * 2]), min_size=1, max_size=2, unique=True)
        )
        found["with"] = [_with(draw, model, entity, name) for name in along]
    counted = _counted(entity)
    if counted and "with" not in found and not chance(draw, 2):
        _with_counted(draw, model, entity, draw(st.sampled_from(counted)), found)
    return found


def _bounded(entity: Entity) -> list[Role]:
    """The roles that lead to many rows, all of which a row may have along."""
    return [role for role in entity.roles.values() if role.many and role.most is not None]


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
    if draw(st.booleans()):
        return name
    return {name: _first(draw, model, target) if not chance(draw, 2) else _all(draw, model, target)}


def _first(draw: st.DrawFn, model: Model, target: Entity, levels: int = 2) -> dict[str, Any]:
    found = {"order": _order(draw, model, target, at_least=1), "limit": draw(st.integers(1, 2))}
    return found | _below(draw, model, target, levels)


def _all(draw: st.DrawFn, model: Model, target: Entity, levels: int = 2) -> dict[str, Any]:
    """All children, in an order."""
    return {"order": _order(draw, model, target, at_least=1)} | _below(draw, model, target, levels)


def _below(draw: st.DrawFn, model: Model, target: Entity, levels: int) -> dict[str, Any]:
    """What is shown of children, some of it behind them: perhaps the first of their own children."""
    found: dict[str, Any] = {}
    if chance(draw, 4):
        found["select"] = draw(st.lists(st.sampled_from(sorted(target.fields)), min_size=1, max_size=2, unique=True))
    if target.roles and levels > 1 and chance(draw, 3):
        role = target.roles[draw(st.sampled_from(sorted(target.roles)))]
        child = model.entities[role.entity]
        if role.many and role.most != 1:
            made = _all if role.most is not None and chance(draw, 2) else _first
            found["with"] = [{role.name: made(draw, model, child, levels - 1)}]
        else:
            found["with"] = [role.name]
    return found


def _aggregate(draw: st.DrawFn, model: Model, entity: Entity, names: Names) -> dict[str, Any]:
    owners = [(one, column) for one in model.entities.values() for column in one.columns.values() if column.computed]
    if owners and chance(draw, 2):
        owner, column = draw(st.sampled_from(owners))
        return owned(draw, owner, column, names)
    own = reaches(model, entity.name, deep=draw(among(0, 0, 1)))
    numbers = [reach for reach in own if reach.column.type.kind in NUMERIC]
    ordered = [reach for reach in own if reach.column.type.kind not in UNORDERED]
    hows = ["count", "count", "min", "max"] + (["sum", "avg", "avg", "from", "from"] if numbers else [])
    how = draw(among(*hows))
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
    able = [reach for reach in ordered if reach.column.type.kind in GROUPED]
    able += [reach for reach in able if reach.column.type.kind in ("date", "timestamp") or reach.path.roles]
    groups = draw(st.lists(st.sampled_from(able), max_size=draw(among(2, 2, 2, 3)), unique_by=_path))
    if groups:
        found |= _grouped(draw, groups, computed)
    return found


def _grouped(draw: st.DrawFn, groups: list[Reach], computed: list[str]) -> dict[str, Any]:
    """`group`, and which of the groups in which order; an only one may be a list, as what it is named by is its own."""
    found: dict[str, Any] = {"group": {f"g{number}": _group(draw, reach) for number, reach in enumerate(groups)}}
    names = [*computed, *found["group"]]
    own = groups[0].text
    if len(groups) == 1 and found["group"]["g0"] == own and "." not in own and own not in computed:
        found["group"], names = [own], [*computed, own]
    if draw(st.booleans()):
        terms = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        found["order"] = ", ".join(name + draw(among("", " desc")) for name in terms)
    if chance(draw, 2):
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
    cut = draw(among(*cuts))
    return f"{cut}({reach.text})" if cut else reach.text


def _computes(draw: st.DrawFn, numbers: list[Reach]) -> dict[str, str]:
    found = {"n": "count()"}
    for number in range(draw(st.integers(1, 2))):
        one, other = draw(st.sampled_from(numbers)).text, draw(st.sampled_from(numbers)).text
        expressions = [one, f"{one} * {other}", f"{one} - {other}", f"({one} + 1) * {other}", f"2 * {one} + {other}"]
        how = draw(among("sum", "min", "max", "avg"))
        found[f"c{number}"] = f"{how}({draw(st.sampled_from(expressions))})"
    return found
