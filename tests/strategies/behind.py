"""Models about what is computed behind references: rows are ordered, bounded and shown by what others add up to.

Cats belong to owls, and so do bats, of which the owls' values are computed. Any of them may come before the others.
"""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import strategies as st

from tests.strategies.conditions import Names
from tests.strategies.domains import among, chance
from tests.strategies.models import DUMPER

ENTITIES = {"bats": "Bat", "cats": "Cat", "staff": "Owl"}
COMPUTED = ("count({role})", "sum({role}.v)", "max({role}.v)", "min({role}.v)", "max({role}.at)")


@st.composite
def behind_models(draw: st.DrawFn, owned: bool = False, wide: bool = True) -> str:
    """The text of a model of rows that refer to others, for which something is computed; `owned`: just that is asked
    for; `wide`: some writes are of all rows that something behind them is true of."""
    optional = draw(among("", ", optional 50%", ", max 50"))
    cat: dict[str, Any] = {
        "count": "30M",
        "fields": {"k": "int", "w": "string(4), distinct 100000", "owl": f"Owl, as cats{optional}", "v": "int"},
    }
    if optional != ", optional 50%" and chance(draw, 2):
        cat["key"] = ["owl", "k"]
    else:
        cat["fields"]["k"] = "int, key"
    marks = ["", ", optional 50%", ", max 50"]
    bat = {"b": "int, key", "owl": f"Owl, as bats{draw(among(*marks))}"}
    bat |= {"v": f"int{draw(among('', ', optional 50%'))}", "at": "timestamp, optional 80%"}
    owl = {"o": draw(among("int, key", "int, key", "uuid, key")), "name": "string(4)"}
    owl["boss"] = "Owl, as staff, optional 50%"
    if chance(draw, 2):
        owl["pet"] = "Cat, as fans, optional 70%"  # a cat of somebody: round and round it goes
    bounded = [role for role, sketch in (("bats", bat), ("cats", cat["fields"])) if "max 50" in sketch["owl"]]
    for name in ("n", "m")[: draw(st.integers(1, 2))]:
        # Of the cats themselves as well: then those that copy a value are what it is computed of.
        role = draw(among("bats", "bats", "cats", "staff"))
        choices = COMPUTED if role == "bats" else COMPUTED[:4] if role == "cats" else COMPUTED[:1]
        owl[name] = draw(among(*choices)).format(role=role)
    columns: list[str] = [name for name in ("n", "m") if name in owl]
    data: dict[str, Any] = {
        "keyplan": 1,
        "name": "behind",
        "entities": {"Owl": {"count": "3M", "fields": owl}, "Cat": cat, "Bat": {"count": "30M", "fields": bat}},
        "writes": _writes(draw, cat.get("key", ["k"]), columns, "pet" in owl, wide),
    }
    along = [role for role in bounded if any(f"({role}" in owl[name] for name in columns)]
    shown = chance(draw, 1)
    if owned:
        made = [owl[name] for name in columns]
        data["patterns"] = {"read0": {"find": "Owl", "where": "o = :a"}}
        data["patterns"] |= {f"read{number}": _owned(draw, made) for number in range(1, 4)}
        return str(yaml.dump(data, Dumper=DUMPER, sort_keys=False, allow_unicode=True, width=120))
    data["patterns"] = {
        f"read{number}": _shown(draw, columns, along, [owl[name] for name in columns])
        if shown
        else _pattern(draw, columns)
        for number in range(1, draw(st.integers(2, 4)) + 1)
    }
    return str(yaml.dump(data, Dumper=DUMPER, sort_keys=False, allow_unicode=True, width=120))


def _shown(draw: st.DrawFn, columns: list[str], along: list[str], made: list[str]) -> dict[str, Any]:
    """Nothing is found by what is computed, but it is shown, or tested after all: so the rows behind may keep it, or
    children `along` tell it."""
    names = Names()
    children = [draw(st.sampled_from([f"{one}.v", one])) for one in along if not chance(draw, 2)]
    if chance(draw, 5):
        return {"find": "Owl", "where": f"o = :{names()}"} | ({"with": children} if children else {})
    if chance(draw, 4):
        return _owned(draw, made)
    entity, role = draw(among(("Cat", "owl"), ("Cat", "owl"), ("Cat", "owl"), ("Owl", "boss")))
    own = draw(among("w", "k") if entity == "Cat" else among("name", "o"))
    found: dict[str, Any] = {"find": entity, "where": f"{own} = :{names()}"}
    if chance(draw, 5):
        found["where"] += f" and {role}.{draw(among(*columns))} >= :{names()}"
    path = draw(among(role, role, f"{role}.boss"))
    found["with"] = [f"{path}.{column}" for column in columns] + ([f"{path}.name"] if chance(draw, 1) else [])
    found["with"] += [f"{path}.{one}" for one in children]
    if chance(draw, 1):
        found |= {"order": "v" if entity == "Cat" else "name desc", "page": 2}
    return found


def _owned(draw: st.DrawFn, made: list[str]) -> dict[str, Any]:
    """The aggregate that one of the computed columns stands for, or all of them that are of the same rows."""
    texts = dict.fromkeys(draw(st.permutations(made)))
    role = _role(next(iter(texts)))
    reference = "boss" if role == "staff" else "owl"
    same = [text.replace(f"{role}.", "").replace(role, "") for text in texts if _role(text) == role]
    computes = {f"c{number}": text for number, text in enumerate(same[: draw(st.integers(1, 2))])}
    return {"from": ENTITIES[role], "compute": computes, "where": f"{reference} = :{Names()()}"}


def _role(text: str) -> str:
    """What `sum(bats.v)` is computed of."""
    return text.partition("(")[2].rstrip(")").partition(".")[0]


def _pattern(draw: st.DrawFn, columns: list[str]) -> dict[str, Any]:
    names = Names()
    if chance(draw, 5):
        return {"find": "Bat", "where": f"owl = :{names()}", "page": 2}
    column = draw(among(*columns))
    entity, role = draw(among(("Cat", "owl"), ("Cat", "owl"), ("Cat", "owl"), ("Owl", "boss")))
    own = draw(among("w", "owl") if entity == "Cat" else among("name", "boss"))
    where = [] if chance(draw, 6) else [f"{own} = :{names()}"]
    if chance(draw, 2):
        where.append(f"{role}.{draw(among(*columns))} {draw(among('>=', '<', '='))} :{names()}")
    if chance(draw, 6):
        where.append(f"{draw(among('present', 'missing'))}({role}.{column})")
    found: dict[str, Any] = {"find": entity}
    if where:
        found["where"] = " and ".join(where)
    if not chance(draw, 3):
        order = [f"{role}.{column}", *(draw(st.sampled_from([[], ["v"]])) if entity == "Cat" else [])]
        found["order"] = ", ".join(text + draw(among("", " desc")) for text in order)
    found |= draw(st.sampled_from([{"page": 1}, {"page": 2}, {"limit": 2} if "order" in found else {"page": 3}]))
    if chance(draw, 1):
        found["with"] = draw(st.sampled_from([[f"{role}.{column}"], [f"{role}.name", f"{role}.{column}"]]))
    return found


def _writes(draw: st.DrawFn, key: list[str], columns: list[str], circle: bool, wide: bool) -> dict[str, Any]:
    by_key = " and ".join(f"{column} = :{column}" for column in key)
    choices: dict[str, dict[str, Any]] = {
        "put_cat": {"upsert": "Cat"},
        "put_owl": {"upsert": "Owl"},
        "put_bat": {"upsert": "Bat"},
        "name_owl": {"update": "Owl", "set": ["name"], "where": "o = :o"},
        "give_owl": {"update": "Owl", "set": ["boss"], "where": "o = :o"},
        "drop_owl": {"delete": "Owl", "where": "o = :o"},
        "clear_owl": {"delete": "Owl", "with": ["bats"], "where": "o = :o"},
        "mend_bat": {"update": "Bat", "set": ["v", "at"], "where": "b = :b"},
        "add_bat": {"update": "Bat", "add": ["v"], "where": "b = :b"},
        "give_bat": {"update": "Bat", "set": ["owl"], "where": "b = :b"},
        "drop_bat": {"delete": "Bat", "where": "b = :b"},
        "mend_cat": {"update": "Cat", "set": ["v", "w"], "where": by_key},
        "drop_cat": {"delete": "Cat", "where": by_key},
    }
    if "owl" not in key:
        choices["give_cat"] = {"update": "Cat", "set": ["owl"], "where": by_key}
    if circle:
        choices["pet_owl"] = {"update": "Owl", "set": ["pet"], "where": "o = :o"}
    choices |= {f"many{number}": _wide(draw, columns, circle) for number in range(4 if wide else 0)}
    taken = draw(st.lists(among(*choices), min_size=3, max_size=6, unique=True))
    made = {"make_cat": {"create": "Cat"}, "make_owl": {"create": "Owl"}, "make_bat": {"create": "Bat"}}
    return {**made, **{name: choices[name] for name in taken}}


def _wide(draw: st.DrawFn, columns: list[str], circle: bool) -> dict[str, Any]:
    """A write of all rows that something behind them, or what is computed of others, is true of. Often it changes just
    that: for the rows that it comes to later, too."""
    n = draw(among(*columns))
    tests = {
        "Cat": [
            "owl.name = :a",
            f"owl.{n} >= :a",
            f"owl.{n} = :a and w >= :b",
            "owl.boss.name = :a",
            "owl.bats.v < :a",
        ],
        "Owl": [
            f"{n} = :a",
            f"{n} >= :a",
            "bats.v >= :a",
            "boss.name = :a",
            f"boss.{n} >= :a",
            "cats.v = :a and name = :b",
        ],
        "Bat": ["owl.name = :a", f"owl.{n} >= :a", "owl.cats.v = :a and v >= :b"],
    }
    if circle:
        tests["Cat"] += ["fans.name = :a", f"fans.{n} = :a", "owl.pet.v = :a"]
        tests["Owl"] += ["pet.v = :a", "pet.owl.name = :a", f"pet.owl.{n} = :a"]
    entity = draw(among(*tests))
    found = {"where": draw(among(*tests[entity])), "rows": 3}
    if chance(draw, 2):
        along = {"with": draw(st.sampled_from([["bats"], ["staff"], ["cats", "bats"]]))} if entity == "Owl" else {}
        return {"delete": entity, **found, **(along if chance(draw, 1) else {})}
    changes: dict[str, list[dict[str, Any]]] = {
        "Cat": [{"set": ["v"]}, {"add": {"v": "1"}}, {"set": {"w": ":c"}}],
        "Owl": [{"set": ["name"]}, {"set": {"name": ":c"}}, {"set": ["boss"]}, {"set": {"boss": None}}],
        "Bat": [{"set": ["v"]}, {"add": {"v": "-:c"}}, {"set": ["owl"]}],
    }
    return {"update": entity, **found, **draw(st.sampled_from(changes[entity]))}
