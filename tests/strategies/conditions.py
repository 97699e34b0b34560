"""Conditions on what a model has: paths, operators that fit their types, parameters and literals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from keyplan.model.entity import Column
from keyplan.model.model import Model
from keyplan.model.pattern import Path
from keyplan.model.types import Type
from tests.strategies.domains import among, chance, literal, values

ORDERED = ("string", "text", "bytes", "int", "decimal", "float", "enum", "date", "timestamp", "uuid", "ulid")
TEXTS = ("string", "text")
PREFIXES = ("'a'", "'x'", "'red'", "''")


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
    """Parameter names for one call: fresh ones, or such as stand elsewhere in it for a value of the same type."""

    def __init__(self, draw: st.DrawFn | None = None) -> None:
        self.draw = draw
        self.count = 0
        self.known: dict[str, list[str]] = {}

    def __call__(self, type: Type | None = None) -> str:
        same = self.known.setdefault(str(type), [])
        if type is not None and same and self.draw is not None and chance(self.draw, 5):
            return self.draw(st.sampled_from(same))
        self.count += 1
        same.append(f"p{self.count}")
        return same[-1]


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
        if chance(draw, 3 if reach.column.type.kind == "set" else 8):
            found.append(condition(draw, reach, names, usable))  # two on one path: both ends of a range, say
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
    op = draw(among(*_operators(reach)))
    text, type = reach.text, reach.column.type

    def operand(type: Type = type) -> str:
        if type.kind != "bytes" and chance(draw, 4):
            return literal(type, draw(values(type)))
        if type.kind in ("date", "timestamp") and chance(draw, 6):
            return _ago(draw)
        return f":{names(type)}"

    if op == "range":
        return f"{text} {draw(among('>=', '<', '<=', '>'))} {operand()}"
    if op == "between":
        return f"{text} between {operand()} and {operand()}"
    if op == "in":
        if chance(draw, 3):
            listed: list[Any] = draw(st.lists(values(type), min_size=1, max_size=3))
            return f"{text} in ({', '.join(literal(type, value) for value in listed)})"
        return f"{text} in :{names()}{draw(among('', '', '[3]'))}"
    if op == "cut":
        return truncated(draw, reach, names)
    if op == "ago":
        return f"{text} {draw(among('>=', '<', '>', '<='))} {_ago(draw)}"
    if op == "search":
        others = [other.text for other in choices if other is not reach and _joins(reach, other)]
        also = draw(st.lists(st.sampled_from(others), max_size=2, unique=True)) if others else []
        words = "'red'" if chance(draw, 5) else f":{names()}"
        return f"search({', '.join((text, *also))}, {words})"
    if op == "begins_with":
        return f"begins_with({text}, {draw(among(*PREFIXES)) if chance(draw, 4) else f':{names()}'})"
    if op == "contains":
        assert type.of is not None
        return f"contains({text}, {operand(type.of)})"
    if op in ("present", "missing"):
        return f"{op}({text})"
    return f"{text} {op} {operand()}"


def truncated(draw: st.DrawFn, reach: Reach, names: Names) -> str:
    """A truncation compared with moments, which are truncated likewise."""
    type = reach.column.type
    cuts = ["day", "week", "month", "year"] + (["hour", "minute"] if type.kind == "timestamp" else [])
    cut = f"{draw(among(*cuts))}({reach.text})"

    def operand() -> str:
        if chance(draw, 5):
            return draw(st.sampled_from([_ago(draw), literal(type, draw(values(type)))]))
        return f":{names()}"

    op = draw(among("=", "=", ">=", "<", "in", "between"))
    if op == "between":
        return f"{cut} between {operand()} and {operand()}"
    return f"{cut} in :{names()}" if op == "in" else f"{cut} {op} {operand()}"


def _ago(draw: st.DrawFn) -> str:
    return f"ago('{draw(among('1d', '30m', '2w'))}')"


def _joins(reach: Reach, other: Reach) -> bool:
    """Whether both can be searched by one condition: as fields of one row, wherever to-one roles lead."""
    if other.column.type.kind not in TEXTS:
        return False
    return reach.path.roles == other.path.roles if reach.many or other.many else True
