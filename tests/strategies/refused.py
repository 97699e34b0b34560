"""Models about writes of many rows, some of which are refused: sums that leave their range, values that others have."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import strategies as st

from tests.strategies.domains import among, chance
from tests.strategies.models import DUMPER

FOUND = ("v >= :a", "v < :a", "g = :a", "g in :a", "nest.name >= :a", "nest.total >= :a", "w begins", "missing(tag)")
CHANGES: tuple[dict[str, Any], ...] = (
    *({"add": ["v"]}, {"add": {"v": "1"}}, {"add": ["v"], "set": ["w"]}),
    *({"set": ["tag"]}, {"add": ["tag"]}, {"set": ["pair"]}, {"set": ["nest", "tag"]}),
)
READS: tuple[dict[str, Any], ...] = (
    {"find": "Ant", "where": "g = :a", "order": "v desc", "page": 5},
    {"find": "Ant", "where": "nest = :a", "page": 5},
    {"find": "Ant", "where": "v >= :a", "order": "v", "page": 5},
    {"find": "Ant", "where": "tag = :a"},
    {"find": "Ant", "where": "g = :a and pair = :b"},
    {"find": "Nest", "where": "n = :a", "with": ["ants"]},
    {"find": "Nest", "order": "total", "page": 3},
    {"sum": "Ant.v", "where": "g = :a"},
)


@st.composite
def refused_models(draw: st.DrawFn) -> str:
    """The text of a model whose writes mean many rows."""
    ant: dict[str, Any] = {
        "count": "30M",
        "unique": [["g", "pair"]],
        "fields": {
            "k": "int, key",
            "g": "int, distinct 1000",
            "v": "int",
            "w": "string(4)",
            "tag": "int, optional 50%, unique",
            "pair": "int, optional 50%",
            "nest": f"Nest, as ants, max 50{', optional 80%' if chance(draw, 1) else ''}",
        },
    }
    nest = {"count": "3M", "fields": {"n": "int, key", "name": "string(4)", "total": "count(ants)"}}
    reads = draw(st.lists(st.sampled_from(READS), min_size=2, max_size=4, unique_by=str))
    writes: dict[str, Any] = {"put_ant": {"upsert": "Ant"}, "put_nest": {"upsert": "Nest"}}
    for number, change in enumerate(draw(st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3, unique_by=str))):
        where = draw(among(*FOUND)).replace("w begins", "begins_with(w, :a)")
        writes[f"many{number}"] = {"update": "Ant", "where": where, "rows": 3, **change}
    data = {
        "keyplan": 1,
        "name": "refused",
        "entities": {"Ant": ant, "Nest": nest},
        "patterns": {f"read{number}": read for number, read in enumerate(reads)}
        | {"every": {"find": "Ant", "page": 7}},
        "writes": writes,
    }
    return str(yaml.dump(data, Dumper=DUMPER, sort_keys=False, allow_unicode=True, width=120))
