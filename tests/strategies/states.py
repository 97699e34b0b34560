"""Models about the states of rows: literal conditions on enums, bools and numbers, several of them on one column.

Few rows are in most of the states, so that designs keep views of these alone.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import yaml
from hypothesis import strategies as st

from keyplan.model.load import model_from
from keyplan.model.model import Model
from tests.strategies.conditions import Names, by_columns
from tests.strategies.domains import among, chance
from tests.strategies.models import DUMPER

STATE = "enum(x 0.1%, y 0.4%, z 99.5%)"
FLAG = "bool(true 1%)"
LITERALS = {"s": ("'x'", "'y'", "'z'"), "t": ("'x'", "'y'", "'z'"), "f": ("true", "false"), "n": ("0", "1", "2")}
MARKS = {"s": ("default z", "default x"), "t": ("default y",), "f": ("default true",), "n": ("default 1",)}
TYPES = {"s": STATE, "t": STATE, "f": FLAG, "n": "int, distinct 1000"}


@st.composite
def state_models(draw: st.DrawFn) -> str:
    """The text of a model of rows in states, and of what they belong to."""
    keyed = draw(among("k", "k", "s", "two"))
    fields: dict[str, str] = {"k": "int" + (", key" if keyed == "k" else "")}
    for name, type in TYPES.items():
        if keyed != "k" and name == "s":
            fields[name] = type
            continue
        mark = draw(among("", "optional 50%", "optional 50%", "default"))
        mark = draw(among(*MARKS[name])) if mark == "default" else mark
        fields[name] = f"{type}, {mark}" if mark else type
    fields["w"] = "string(4), distinct 100000"
    fields["r"] = "Bee, as ants" + draw(among("", ", max 50", ", optional 50%"))
    ant: dict[str, Any] = {"count": "30M", "fields": fields}
    if keyed != "k":
        ant["key"] = ["s", "k"] if keyed == "s" else ["k", "s"]
    if chance(draw, 3):
        fields["seen"] = "timestamp"
        ant["ttl"] = draw(among("1h", "30m since seen"))
    bee = {"count": "3M", "fields": {"b": "int, key", "name": "string(4)", **_computed(draw)}}
    data: dict[str, Any] = {"keyplan": 1, "name": "states", "entities": {"Ant": ant, "Bee": bee}}
    model = model_from(data)
    rivals = _rivals(draw, {name for name, text in fields.items() if "optional" in text}) if chance(draw, 1) else []
    patterns = [*rivals, *(_pattern(draw) for _ in range(draw(st.integers(0 if rivals else 2, 4))))]
    data["patterns"] = {f"read{number}": pattern for number, pattern in enumerate(patterns, 1)}
    data["writes"] = _writes(draw, model)
    by_key = " and ".join(by_columns(model.entities["Ant"].key, Names()))
    for name in sorted(
        {name for rival in rivals for name in rival["order"].split(", ")} - {*model.entities["Ant"].key}
    ):
        data["writes"][f"set_{name}"] = {"update": "Ant", "set": [name], "where": by_key}
    return str(yaml.dump(data, Dumper=DUMPER, sort_keys=False, allow_unicode=True, width=120))


def _computed(draw: st.DrawFn) -> dict[str, str]:
    return {"many": "count(ants)"} if chance(draw, 3) else {}


def _literal(draw: st.DrawFn, name: str) -> str:
    """A condition that names values itself, some of them twice."""
    op = draw(among("in", "in", "!=", "=", "!=") if name != "n" else among("in", "in", "="))
    if op == "in":
        listed = draw(st.lists(among(*LITERALS[name]), min_size=1, max_size=4))
        return f"{name} in ({', '.join(listed)})"
    return f"{name} {op} {draw(among(*LITERALS[name]))}"


def _given(draw: st.DrawFn, name: str, names: Names) -> str:
    """A condition on the same column whose values a call gives, or on whether it is there."""
    choices = [f"{name} = :{names()}", f"{name} in :{names()}"]
    choices += [f"{name} >= :{names()}", f"{name} < :{names()}"] if name != "f" else []
    choices += [f"{name} != :{names()}"] if name != "n" else []
    choices += [f"begins_with({name}, :{names()})"] if name in "st" else []
    return draw(st.sampled_from(choices))


def _where(draw: st.DrawFn, names: Names, least: int = 1) -> list[str]:
    found: list[str] = []
    for name in draw(st.lists(among(*"sstfn"), min_size=least, max_size=2, unique=True)):
        found.append(_literal(draw, name))
        if chance(draw, 2):
            found.append(_literal(draw, name))
        if chance(draw, 3):
            found.append(_given(draw, name, names))
    if chance(draw, 1):
        found.append(draw(st.sampled_from([f"w = :{names()}", f"r = :{names()}", f"w >= :{names()}"])))
    return list(draw(st.permutations(found)))


def _pattern(draw: st.DrawFn) -> dict[str, Any]:
    names = Names()
    kind = draw(among("find", "find", "find", "count", "group", "with"))
    where = {"where": " and ".join(_where(draw, names))}
    if kind == "count":
        return {"count": "Ant", **where}
    if kind == "group":
        return {"count": "Ant", **where, "group": {"g": draw(among(*"stfn"))}}
    if kind == "with":
        return {"find": "Bee", "where": f"b = :{names()}", "with": [{"ants": {"order": "n", "limit": 2}}]}
    found: dict[str, Any] = {"find": "Ant", **where}
    order = draw(st.lists(among(*"stfnwk"), max_size=2, unique=True))
    if order:
        found["order"] = ", ".join(name + draw(among("", " desc")) for name in order)
        found |= draw(st.sampled_from([{}, {"page": 1}, {"page": 2}, {"limit": 2}]))
    if chance(draw, 2):
        found["select"] = draw(st.sampled_from([["w"], ["k", "s"], ["n", "r.name"]]))
    return found


def _rivals(draw: st.DrawFn, optional: Set[str]) -> list[dict[str, Any]]:
    """Patterns of which no row answers two, each by other columns: the views for them may share a place."""
    name = draw(among(*"stfn"))
    states = [f"{name} = {value}" for value in LITERALS[name]]
    states += [f"missing({name})"] if name in optional else []
    if chance(draw, 2) and name in optional:
        states = [f"present({name})", f"missing({name})"]
    found = []
    for state in draw(st.permutations(states))[:3]:
        by = draw(among("w = :a", "r = :a", f"{name} = :a" if state.startswith("present") else "w = :a"))
        order = draw(st.permutations([one for one in "stfnwk" if one not in optional and one != name]))
        found.append({"find": "Ant", "where": f"{state} and {by}", "order": ", ".join(order[:2]), "page": 2})
    return found


def _writes(draw: st.DrawFn, model: Model) -> dict[str, Any]:
    found: dict[str, Any] = {"make_ant": {"create": "Ant"}, "make_bee": {"create": "Bee"}}
    ant = model.entities["Ant"]
    free = [name for name in (*"stfnwr", "seen") if name in ant.columns and name not in ant.key]
    for number in range(1, draw(st.integers(2, 4)) + 1):
        found[f"write{number}"] = _write(draw, list(ant.key), free, ant.columns)
    return found


def _write(draw: st.DrawFn, key: list[str], free: list[str], columns: Any) -> dict[str, Any]:
    names = Names()
    kind = draw(among("update", "update", "update", "upsert", "delete", "update rows", "delete rows"))
    if kind == "upsert":
        return {"upsert": "Ant"}
    by_key = " and ".join(by_columns(key, names))
    if kind in ("delete", "delete rows"):
        where = {"where": by_key} if kind == "delete" else {"where": " and ".join(_where(draw, names)), "rows": 3}
        return {"delete": "Ant", **where}
    sets: dict[str, Any] = {}
    for name in draw(st.lists(among(*free), min_size=1, max_size=2, unique=True)):
        literals: list[str | None] = [text.strip("'") for text in LITERALS.get(name, ())]
        literals += [None] if name in LITERALS and columns[name].optional else []
        sets[name] = draw(among(*literals)) if literals and chance(draw, 1) else f":{names()}"
    if kind == "update rows":
        return {"update": "Ant", "where": " and ".join(_where(draw, names)), "set": sets, "rows": 3}
    found = {"update": "Ant", "where": by_key, "set": sets}
    if chance(draw, 2):
        found["if"] = " and ".join(_where(draw, names))
    return found
