"""Conditions on what a model has: paths, operators that fit their types, parameters and literals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from keyplan.model.entity import Column
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from tests.strategies.domains import chance, literal, values

ORDERED = ("string", "text", "bytes", "int", "decimal", "float", "enum", "date", "timestamp", "uuid", "ulid")
TEXTS = ("string", "text")


@dataclass(frozen=True)
class Reach:
    """A path from an entity, as text, and what stands at its end."""

    text: str
    path: Path
    column: Column
    many: bool


def reaches(model: Model, entity: str, *, deep: int = 0, many: bool = False) -> list[Reach]:
    """The paths from an entity: own columns, then those over at most so many roles."""
    found: dict[Path, Reach] = {}

    def walk(name: str, roles: tuple[str, ...]) -> None:
        here = model.entities[name]
        for column in here.columns.values():
            if not column.hidden:
                text = ".".join((*roles, column.name))
                path = model.resolve(entity, text)
                end = model.column(entity, path)
                found.setdefault(path, Reach(text, path, end, model.is_many(entity, path.roles)))
        if len(roles) < deep:
            for role in here.roles.values():
                if many or not role.many:
                    walk(role.entity, (*roles, role.name))

    walk(entity, ())
    return list(found.values())


class Names:
    """Fresh parameter names for one call."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"p{self.count}"


def by_columns(columns: Sequence[str], names: Names) -> list[str]:
    """Each column equal to a parameter."""
    return [f"{column} = :{names()}" for column in columns]


def conditions(draw: st.DrawFn, choices: Sequence[Reach], most: int, names: Names) -> list[str]:
    """Up to so many conditions on different paths."""
    usable = [reach for reach in choices if can_ask(reach)]
    if not usable or most == 0:
        return []
    picked = draw(st.lists(st.sampled_from(usable), max_size=most, unique_by=lambda reach: reach.path))
    found: list[str] = []
    for reach in picked:
        found.append(condition(draw, reach, names, usable))
        if reach.column.type.kind == "set" and chance(draw, 3):
            found.append(f"contains({reach.text}, :{names()})")
    return found


def can_ask(reach: Reach) -> bool:
    """Whether there is a condition on what stands at the end of a path."""
    return bool(_operators(reach))


def _operators(reach: Reach) -> list[str]:
    kind = reach.column.type.kind
    found: list[str] = []
    if kind == "set":
        return ["contains"]
    if kind in ORDERED:
        found += ["=", "=", "range", "between", "in"]
    if kind == "bool":
        found += ["=", "in"]
    if kind in ("enum", "bool"):
        found += ["!="]
    if kind in (*TEXTS, "enum"):
        found += ["begins_with"]
    if kind in TEXTS:
        found += ["search"]
    if kind in ("date", "timestamp"):
        found += ["cut", "ago"]
    if found and (reach.column.optional or reach.path.roles):
        found += ["present", "missing"]
    return found


def condition(draw: st.DrawFn, reach: Reach, names: Names, choices: Sequence[Reach] = ()) -> str:
    """One condition on a path; a search may take further texts from the choices."""
    op = draw(st.sampled_from(_operators(reach)))
    text, type = reach.text, reach.column.type

    def operand() -> str:
        if type.kind != "bytes" and chance(draw, 4):
            return literal(type, draw(values(type)))
        return f":{names()}"

    if op == "range":
        return f"{text} {draw(st.sampled_from(['>=', '<', '<=', '>']))} {operand()}"
    if op == "between":
        return f"{text} between {operand()} and {operand()}"
    if op == "in":
        if chance(draw, 3):
            listed: list[Any] = draw(st.lists(values(type), min_size=1, max_size=3))
            return f"{text} in ({', '.join(literal(type, value) for value in listed)})"
        return f"{text} in :{names()}"
    if op == "cut":
        cuts = ["day", "week", "month", "year"] + (["hour", "minute"] if type.kind == "timestamp" else [])
        return f"{draw(st.sampled_from(cuts))}({text}) {draw(st.sampled_from(['=', '>=', '<', 'in']))} :{names()}"
    if op == "ago":
        return f"{text} {draw(st.sampled_from(['>=', '<']))} ago('{draw(st.sampled_from(['1d', '30m', '2w']))}')"
    if op == "search":
        others = [other.text for other in choices if other is not reach and _joins(reach, other)]
        also = draw(st.lists(st.sampled_from(others), max_size=2, unique=True)) if others else []
        return f"search({', '.join((text, *also))}, :{names()})"
    if op in ("begins_with", "contains"):
        return f"{op}({text}, :{names()})"
    if op in ("present", "missing"):
        return f"{op}({text})"
    return f"{text} {op} {operand()}"


def _joins(reach: Reach, other: Reach) -> bool:
    """Whether both can be searched by one condition: as fields of one row, wherever to-one roles lead."""
    if other.column.type.kind not in TEXTS:
        return False
    return reach.path.roles == other.path.roles if reach.many or other.many else True
