"""Models that load: entities first, then calls drawn from what those entities allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import yaml
from hypothesis import strategies as st

from keyplan.model.load import model_from
from tests.strategies.domains import among, chance
from tests.strategies.patterns import patterns
from tests.strategies.writes import transactions, writes

DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""A tenth of the time that a program takes to be drawn, where it is written in C."""

MOST_ROWS = 100
NAMES = ("Ant", "Bee", "Cat", "Dog")
KEY_TYPES = ("int", "string(4)", "uuid", "ulid", "enum(x 50%, y 50%)", "date", "timestamp", "decimal(2)", "bytes(4)")
ORDERED_TYPES = (
    *("int", "string(4)", "enum(x 60%, y 30%, z 10%)", "bool", "timestamp", "date", "decimal(2)"),
    *("float", "text(20)", "uuid", "ulid", "bytes(4)"),
)
OTHER_TYPES = ("set(string(4), avg 2)", "set(int, avg 2, max 9)", "list(int, avg 2)", "json(20)")
UNIQUE_TYPES = ("int", "string(4)", "enum(x 60%, y 30%, z 10%)", "date", "decimal(2)", "uuid")
DEFAULTS = {
    "int": "1",
    "string(4)": "b",
    "enum(x 60%, y 30%, z 10%)": "y",
    "bool": "true",
    "decimal(2)": "1.50",
    "date": "2124-05-14",
}


@dataclass
class Sketch:
    """An entity in the making: its fields as type and marks."""

    name: str
    key: list[str] = field(default_factory=list)
    fields: dict[str, list[str]] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    unique: list[list[str]] = field(default_factory=list)
    ttl: str | None = None

    def plain(self, name: str) -> str | None:
        """The type of a field that is neither a reference nor computed."""
        return None if name in self.targets or "(" in name else self.fields[name][0]

    def has_one_part(self, known: Mapping[str, Sketch]) -> bool:
        """Whether a reference to it is one value, which can be copied as such."""
        if len(self.key) > 1 or "." in self.key[0]:
            return False
        target = self.targets.get(self.key[0])
        return target is None or known[target].has_one_part(known)

    def values(self, part: str, known: Mapping[str, Sketch], counts: Mapping[str, int]) -> int:
        """How many values a field, or a part of a reference's key, has among the rows."""
        head, _, rest = part.partition(".")
        if head in self.targets:
            rows = counts.get(self.targets[head], MOST_ROWS)
            return min(rows, known[self.targets[head]].values(rest, known, counts)) if rest else rows
        kind = self.fields[head][0]
        return kind.count(",") + 1 if kind.startswith("enum") else MOST_ROWS

    def room(self, known: Mapping[str, Sketch], counts: Mapping[str, int]) -> int:
        """How many rows there can be, at most 100: the key and each unique set have as many values."""
        sets = [self.key, *self.unique, *([name] for name, parts in self.fields.items() if "unique" in parts)]
        rooms = [prod(self.values(part, known, counts) for part in parts) for parts in sets]
        rooms += [counts[self.targets[name]] for name, parts in self.fields.items() if "max 1" in parts]
        return min(MOST_ROWS, *rooms)

    def dump(self, count: int) -> dict[str, Any]:
        found: dict[str, Any] = {"count": count}
        if len(self.key) == 1 and "." not in self.key[0]:
            self.fields[self.key[0]].append("key")
        else:
            found["key"] = self.key
        found["fields"] = {name: ", ".join(parts) for name, parts in self.fields.items()}
        if self.unique:
            found["unique"] = self.unique
        if self.ttl is not None:
            found["ttl"] = self.ttl
        return found


@st.composite
def models(draw: st.DrawFn, most_entities: int = 4, passing: bool = False) -> str:
    """The text of a valid model."""
    data: dict[str, Any] = {"keyplan": 1, "name": "generated", "entities": draw(entities(most_entities, passing))}
    model = model_from(data)
    data["patterns"] = draw(patterns(model))
    data["writes"] = draw(writes(model_from(data)))
    found = draw(transactions(model_from(data)))
    if found:
        data["transactions"] = found
    return yaml.dump(data, Dumper=DUMPER, sort_keys=False, allow_unicode=True, width=120)


@st.composite
def entities(draw: st.DrawFn, most: int, passing: bool = False) -> dict[str, Any]:
    """The `entities` section."""
    count = draw(among(*[1, 2, 2, 3, 3, 4][: most + 2]))
    sketches: list[Sketch] = []
    for name in NAMES[:count]:
        sketches.append(_entity(draw, name, sketches))
    if passing and count > 1 and not chance(draw, 3):
        _let_pass(draw, *sketches[:2])
    if count > 1 and chance(draw, 4):
        _close_circle(draw, sketches)
    for sketch in sketches:
        _add_computed(draw, sketch, sketches)
    known = {sketch.name: sketch for sketch in sketches}
    counts: dict[str, int] = {}
    for sketch in sketches:
        counts[sketch.name] = sketch.room(known, counts)
    return {sketch.name: sketch.dump(counts[sketch.name]) for sketch in sketches}


def _entity(draw: st.DrawFn, name: str, earlier: list[Sketch]) -> Sketch:
    sketch = Sketch(name)
    _add_key(draw, sketch, earlier)
    for number in range(draw(st.integers(0, 4))):
        _add_field(draw, sketch, "abcd"[number])
    if earlier and chance(draw, 1):
        target = draw(st.sampled_from(earlier)).name
        mark = draw(among("", "", "", "", "", "unique", "unique", "immutable"))
        _add_reference(draw, sketch, "r", target, optional=draw(st.booleans()), only=mark == "unique")
        sketch.fields["r"] += [mark] if mark else []
    if chance(draw, 5):
        _add_reference(draw, sketch, "up", name, optional=True)
    passing = any(other.ttl for other in earlier if other.name in sketch.targets.values())
    if chance(draw, 1 if passing else 4):
        _add_snapshot(draw, sketch, earlier)
    own = [one for one in sketch.fields if sketch.plain(one) in UNIQUE_TYPES and one not in sketch.key]
    if own and "r" in sketch.targets and chance(draw, 3):
        own.insert(0, "r")
    if len(own) > 1 and chance(draw, 5):
        sketch.unique.append(own[: draw(among(2, 2, 3))])
    _add_ttl(draw, sketch)
    return sketch


def _add_key(draw: st.DrawFn, sketch: Sketch, earlier: list[Sketch]) -> None:
    shapes = ["one", "one", "two"] + (["child", "child", "same", "link"] if earlier else [])
    shape = draw(among(*shapes))
    key_type = among(*KEY_TYPES)
    if shape in ("child", "same", "link"):
        target = draw(st.sampled_from(earlier))
        _add_reference(draw, sketch, "k", target.name, optional=False, only=shape == "same")
        sketch.key.append("k")
        if shape == "link" and len(target.key) > 1 and all(part not in target.targets for part in target.key):
            sketch.key = [f"k.{target.key[0]}"]  # a part of the reference only
    else:
        sketch.fields["k"] = [draw(key_type)]
        sketch.key.append("k")
    if shape in ("two", "child"):
        sketch.fields["l"] = [draw(key_type)]
        sketch.key.append("l")
    elif shape == "link":
        other = draw(st.sampled_from(earlier))
        _add_reference(draw, sketch, "l", other.name, optional=False)
        sketch.key.append("l")


def _add_reference(
    draw: st.DrawFn, sketch: Sketch, name: str, target: str, *, optional: bool, only: bool = False
) -> None:
    """A reference, mostly with the name of its other side; `only` if there is at most one such row per target."""
    parts = [target]
    if not chance(draw, 3):
        parts.append(f"as {sketch.name.lower()}_{name}")
        most = draw(among("max 1", "max 1", "max 50", None) if only else among("max 50", None))
        parts += [most] if most else []
    if optional:
        parts.append("optional 50%")
    sketch.fields[name] = parts
    sketch.targets[name] = target


def _add_field(draw: st.DrawFn, sketch: Sketch, name: str) -> None:
    kind = draw(among(*ORDERED_TYPES, *ORDERED_TYPES, *OTHER_TYPES))
    marks = ["plain", "optional", "plain"]
    marks += ["default"] if kind in DEFAULTS else []
    marks += ["unique", "unique optional"] if kind in UNIQUE_TYPES else []
    marks += ["now", "now", "now optional"] if kind in ("timestamp", "date") else []
    marks += ["immutable", "immutable optional"] if kind in ORDERED_TYPES else []
    marks += ["default optional"] if kind in DEFAULTS else []
    if kind.startswith(("set", "list")):
        marks = ["plain"]
    mark = draw(among(*marks))
    said = {"optional": "optional 50%", "default": f"default {DEFAULTS.get(kind)}"}
    sketch.fields[name] = [kind, *(said.get(word, word) for word in mark.split() if word != "plain")]


def _close_circle(draw: st.DrawFn, sketches: list[Sketch]) -> None:
    """Two entities that refer to each other: the captain of a team, who plays in it. Some rows of the one that then
    comes first copy from the other."""
    pairs = [
        (first, last)
        for number, last in enumerate(sketches)
        for first in sketches[:number]
        if first.name in last.targets.values()
    ]
    if not pairs:
        return
    first, last = draw(st.sampled_from(pairs))
    _add_reference(draw, first, "back", last.name, optional=not chance(draw, 4))
    if chance(draw, 3):
        _add_snapshot(draw, first, sketches, along="back")


def _add_snapshot(draw: st.DrawFn, sketch: Sketch, others: list[Sketch], along: str | None = None) -> None:
    """A field that copies a field or a reference behind a reference (that one, or any), or behind two of them."""
    known = {other.name: other for other in (*others, sketch)}
    paths = [(reference, known[target]) for reference, target in sketch.targets.items() if along in (None, reference)]
    if chance(draw, 2):
        paths = [(f"{path}.{name}", known[target]) for path, other in paths for name, target in other.targets.items()]
    choices = [
        (f"{path}.{name}", other.fields[name][0], other.targets.get(name))
        for path, other in paths
        for name in other.fields
        if name not in other.key and (name not in other.targets or known[other.targets[name]].has_one_part(known))
    ]
    if choices:
        source, kind, target = draw(st.sampled_from(choices))
        optional = [] if kind.startswith(("set", "list")) else draw(st.sampled_from([["optional 50%"], []]))
        name = "copy" if along is None else f"copy_{along}"
        sketch.fields[name] = [kind, *optional, f"from {source}"]
        if target is not None:
            sketch.targets[name] = target


def _add_ttl(draw: st.DrawFn, sketch: Sketch) -> None:
    """Most rows live for ever; those that do not may have expired before they come."""
    if chance(draw, 5):
        sketch.fields["seen"] = ["timestamp", *draw(st.sampled_from([["optional 50%"], ["now"], []]))]
    moments = [name for name, parts in sketch.fields.items() if parts[0] == "timestamp"]
    choices: list[str | None] = [None, None, None, "1h"]
    choices += [f"30m since {name}" for name in moments]
    sketch.ttl = draw(among(*choices))


def _let_pass(draw: st.DrawFn, parent: Sketch, child: Sketch) -> None:
    """Makes parents expire, many of them before they come, and children copy from them."""
    parent.fields["seen"] = ["timestamp"]
    parent.ttl = "30m since seen"
    if parent.name not in child.targets.values():
        _add_reference(draw, child, "r", parent.name, optional=False)
    reference = next(name for name, target in child.targets.items() if target == parent.name)
    sources = [name for name in parent.fields if name not in parent.targets and name not in parent.key]
    source = draw(st.sampled_from(sources))
    kind = parent.fields[source][0]
    optional = [] if kind.startswith(("set", "list")) else ["optional 50%"]
    child.fields["kept"] = [kind, *optional, f"from {reference}.{source}"]


def _add_computed(draw: st.DrawFn, sketch: Sketch, sketches: list[Sketch]) -> None:
    """Computed fields over the roles that lead back from here: mostly none or one, sometimes two."""
    choices: list[str] = []
    for child in sketches:
        for reference, target in child.targets.items():
            role = next((part[3:] for part in child.fields[reference] if part.startswith("as ")), None)
            if target != sketch.name or role is None:
                continue
            choices.append(f"count({role})")
            for name, parts in child.fields.items():
                if name not in child.targets and parts[0] in ("int", "decimal(2)", "float"):
                    choices.append(f"sum({role}.{name})")
                if name not in child.targets and parts[0] in ORDERED_TYPES:
                    choices += [f"min({role}.{name})", f"max({role}.{name})"]
    if choices and chance(draw, 2):
        for name in ("n", "m") if chance(draw, 3) else ("n",):
            sketch.fields[name] = [draw(st.sampled_from(choices))]
