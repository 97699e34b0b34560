"""Models, drawn at random, whose rows copy what is computed behind their references; and workers that change few rows.

Kids belong to owls, by two references that may lead to the same one, and owls' values are computed of them. Mates copy
these values by two references as well, kids copy what they are counted in, owls what is computed for their boss. Any
of them may come before the others, expire, or have keys that are those of others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from keyplan.model.model import Model

NOON = datetime(2052, 5, 15, 12, 0, tzinfo=UTC)
FEW = 3
COMPUTED = (
    "count(kids)",
    "sum(kids.v)",
    "min(kids.v)",
    "max(kids.v)",
    "max(kids.at)",
    "count(wards)",
    "max(wards.v)",
    "sum(wards.v)",
    "count(mates)",
    "sum(mates.w)",
    "count(guests)",
    "count(staff)",
)
"""Of an owl: by either reference of a kid and of a mate, and by that of another owl."""


def model_text(seed: int) -> str:
    """The text of a model; the same number leads to the same one."""
    source = random.Random(seed)

    def one(*choices: Any) -> Any:
        return source.choice(choices)

    owl: dict[str, Any] = {"o": "int, key", "name": "string(4), default 'x'", "boss": "Owl, as staff, optional 50%"}
    owl_key = ["o"]
    if source.random() < 0.25:
        owl = {"zone": "int", **owl, "o": "int"}
        owl_key = ["zone", "o"]
    names = [f"c{number}" for number in range(one(1, 2, 3))]
    owl |= dict(zip(names, source.sample(COMPUTED, len(names)), strict=True))
    kid: dict[str, Any] = {
        "k": "int, key",
        "owl": f"Owl, as kids{one('', ', optional 80%')}",
        "ward": "Owl, as wards, optional 60%",
        "v": f"int{one('', ', default 1', ', optional 70%')}",
        "at": "timestamp, optional 80%",
        "tag": "string(3), optional 30%",
    }
    mate: dict[str, Any] = {
        "m": "int, key",
        "owl": f"Owl, as mates{one('', ', optional 80%', ', max 50')}",
        "host": "Owl, as guests, optional 60%",
        "w": "int, default 1",
        "p": "int",
        "tag": "string(3), optional 30%",
    }
    keys = {"Kid": ["k"], "Mate": ["m"], "Owl": owl_key}
    entities: dict[str, Any] = {
        "Owl": {"count": "1M", "fields": owl},
        "Kid": {"count": one("20M", "3M"), "fields": kid},
        "Mate": {"count": "3M", "fields": mate},
    }
    for name, fields, own in (("Kid", kid, "k"), ("Mate", mate, "m")):
        if "optional" not in fields["owl"] and source.random() < 0.4:
            fields[own] = "int"
            entities[name]["key"] = ["owl", own]
            keys[name] = ["owl", own]
    if len(owl_key) > 1:
        entities["Owl"]["key"] = owl_key
    for name in entities:
        if source.random() < 0.15:
            entities[name]["ttl"] = "30m since seen"
            entities[name]["fields"]["seen"] = "timestamp, optional 50%"
    patterns = {f"read{number}": _pattern(source, names) for number in range(one(2, 3, 4))}
    patterns = {
        name: {**about, "rate": one("2k/s", "2k/s", "2k/s", "2k/s", "20/s")} for name, about in patterns.items()
    }
    for name, key in keys.items():
        patterns[f"one_{name.lower()}"] = {
            "find": name,
            "where": _by_key(key, owl_key),
            "rate": one("2k/s", "1/s"),
        }
    patterns["kids_of"] = {"find": "Kid", "where": _by_key(["owl"], owl_key), "page": 3, "rate": "2k/s"}
    writes = {
        name: {**about, "rate": one("1/min", "1/min", "1/min", "1/min", "1/min", "1/s")}
        for name, about in _writes(keys, owl_key).items()
    }
    data = {"keyplan": 1, "name": "herd", "entities": entities, "patterns": patterns, "writes": writes}
    data["transactions"] = {
        "settle_in": ["put_kid x1 max 3", "put_owl x1 max 2"],
        "pass_on": ["put_mate", "give_kid x1 max 2"],
        "move_out": ["drop_owl", "give_kid", "put_kid x1 max 2"],
        "mix": ["name_owl", "mend_kid", "give_owl", "mend_mate", "drop_kid"],
    }
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120))


def _by_key(key: list[str], owl_key: list[str]) -> str:
    parts = [f"owl.{part}" if name == "owl" else name for name in key for part in (owl_key if name == "owl" else [""])]
    if len(owl_key) == 1:
        parts = [part.removesuffix(f".{owl_key[0]}") for part in parts]
    return " and ".join(f"{part} = :{part.replace('.', '_')}" for part in parts)


def _pattern(source: random.Random, names: list[str]) -> dict[str, Any]:
    def one(*choices: Any) -> Any:
        return source.choice(choices)

    entity = one("Mate", "Mate", "Mate", "Kid", "Kid", "Owl")
    roles = {"Mate": ["owl", "host"], "Kid": ["owl", "ward"], "Owl": ["boss"]}[entity]
    role, other = source.choice(roles), source.choice(roles)
    if source.random() < 0.15 and entity != "Owl":
        role += ".boss"
    column, second = source.choice(names), source.choice(names)
    own = {"Mate": one("p", "p", "tag"), "Kid": one("v", "tag"), "Owl": "name"}[entity]
    where = [] if source.random() < 0.1 else [f"{own} = :a"]
    if source.random() < 0.3:
        where.append(f"{role}.{column} {one('>=', '<', '=')} :b")
    if source.random() < 0.15:
        where.append(f"{one('present', 'missing')}({other}.{second})")
    found: dict[str, Any] = {"find": entity}
    if where:
        found["where"] = " and ".join(where)
    order = [f"{role}.{column}"]
    if source.random() < 0.3:
        order.append(f"{other}.{second}")
    order = [text for number, text in enumerate(order) if text not in order[:number]]
    found["order"] = ", ".join(text + one("", " desc") for text in order)
    found |= one({"page": 2}, {"page": 3}, {"limit": 2})
    if source.random() < 0.6:
        found["with"] = sorted({f"{role}.{column}", one(f"{role}.name", f"{other}.{second}")})
    return found


def _writes(keys: dict[str, list[str]], owl_key: list[str]) -> dict[str, Any]:
    kid, mate, owl = (_by_key(keys[name], owl_key) for name in ("Kid", "Mate", "Owl"))
    found: dict[str, Any] = {
        "put_kid": {"upsert": "Kid"},
        "make_kid": {"create": "Kid"},
        "mend_kid": {"update": "Kid", "set": ["v", "at"], "where": kid},
        "add_kid": {"update": "Kid", "add": ["v"], "where": kid},
        "give_kid": {"update": "Kid", "set": ["ward"], "where": kid},
        "drop_kid": {"delete": "Kid", "where": kid},
        "wide_kid": {"update": "Kid", "set": ["v"], "where": _by_key(["owl"], owl_key), "rows": 3},
        "void_kid": {"delete": "Kid", "where": _by_key(["owl"], owl_key), "rows": 3},
        "put_mate": {"upsert": "Mate"},
        "make_mate": {"create": "Mate"},
        "mend_mate": {"update": "Mate", "set": ["w", "p", "tag"], "where": mate},
        "give_mate": {"update": "Mate", "set": ["host"], "where": mate},
        "drop_mate": {"delete": "Mate", "where": mate},
        "put_owl": {"upsert": "Owl"},
        "make_owl": {"create": "Owl", "with": ["mates"]},
        "name_owl": {"update": "Owl", "set": ["name"], "where": owl},
        "give_owl": {"update": "Owl", "set": ["boss"], "where": owl},
        "drop_owl": {"delete": "Owl", "where": owl},
        "clear_owl": {"delete": "Owl", "with": ["kids", "mates"], "where": owl},
        "loose_owl": {"delete": "Owl", "with": ["wards"], "where": owl},
    }
    for name, entity in (("move_kid", "Kid"), ("move_mate", "Mate")):
        if "owl" not in keys[entity]:
            found[name] = {"update": entity, "set": ["owl"], "where": kid if entity == "Kid" else mate}
    return found


class Herd:
    """Arguments for a model's calls, all of them about few rows."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def rows(self, seed: int) -> list[tuple[str, dict[str, Any]]]:
        """Some rows of each entity; those that others refer to come last, and not all of them are there."""
        source = random.Random(seed)
        found: dict[tuple[Any, ...], tuple[str, dict[str, Any]]] = {}
        for entity in ("Kid", "Mate", "Owl"):
            keyed = {self.model.entities[entity].columns[column].field for column in self.model.entities[entity].key}
            for _ in range(5):
                row = self.row(source, entity)
                found[entity, *(row[name] for name in sorted(keyed))] = (entity, row)
        return list(found.values())

    def row(self, source: random.Random, entity: str, but: str = "") -> dict[str, Any]:
        """The fields of a row, without one."""
        fields = self.model.entities[entity].fields.items()
        return {name: self.value(source, entity, name) for name, one in fields if one.computed is None and name != but}

    def value(self, source: random.Random, entity: str, name: str) -> Any:
        field = self.model.entities[entity].fields[name]
        if field.optional is not None and source.random() < 0.2:
            return None
        if field.target is not None:
            key = tuple(_number(source, part) for part in self.model.entities[field.target].key)
            return key[0] if len(key) == 1 else key
        assert field.type is not None
        return _value(source, name, field.type.kind)

    def arguments(self, source: random.Random, name: str) -> dict[str, Any]:
        """Those of a write or a pattern."""
        call = self.model.writes.get(name) or self.model.patterns[name]
        if name in self.model.writes and call.kind in ("create", "upsert"):
            row = self.row(source, call.entity)
            if name == "make_owl":
                mates = [self.row(source, "Mate", "owl") for _ in range(source.randrange(3))]
                row["mates"] = list({mate["m"]: mate for mate in mates}.values())
            return row
        found: dict[str, Any] = {}
        fields = self.model.entities[call.entity].fields
        for param, type in call.params.items():
            field = param.partition(".")[0]
            if field in fields:
                found[field] = self.value(source, call.entity, field)
                if found[field] is None and name in self.model.patterns:
                    found[field] = _value(source, field, type.kind)
            else:
                found[param] = _value(source, param.rpartition("_")[2], type.kind)
        return found

    def steps(self, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Random writes without an end."""
        source = random.Random(seed)
        names = [
            *self.model.writes,
            *self.model.transactions,
            *self.model.transactions,
            "put_kid",
            "put_kid",
            "put_mate",
        ]
        while True:
            name = source.choice(names)
            if name in self.model.transactions:
                yield (
                    name,
                    {
                        part.write: [self.arguments(source, part.write) for _ in range(source.randrange(1, 3))]
                        if part.many
                        else self.arguments(source, part.write)
                        for part in self.model.transactions[name].parts
                    },
                )
            else:
                yield name, self.arguments(source, name)

    def reads(self) -> list[tuple[str, dict[str, Any]]]:
        """Calls of every pattern with whatever finds something."""
        source = random.Random(0)
        found: dict[str, tuple[str, dict[str, Any]]] = {}
        for name in self.model.patterns:
            for _ in range(60):
                arguments = self.arguments(source, name)
                found[f"{name} {arguments}"] = (name, arguments)
        return list(found.values())


def _value(source: random.Random, name: str, kind: str) -> Any:
    if kind == "timestamp":
        return NOON + timedelta(minutes=source.randrange(-20, 20))
    return source.choice("xy") if kind == "string" else _number(source, name)


def _number(source: random.Random, name: str) -> int:
    return source.randrange({"zone": 2, "k": 6, "m": 5}.get(name, FEW))
