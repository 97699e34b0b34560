"""What each partition key value of a finished design takes at the peak, worked out from the design's document, apart
from the designer: by the units of each step and touch, and the shares of the hottest value that the model states.

It is made for models in which one value is the hottest of all calls, and columns or calls say how hot it is (`top`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from keyplan.design import document
from keyplan.model.model import Model
from keyplan.model.pattern import Traffic
from keyplan.plan.design import Design
from keyplan.plan.view import View

READS, WRITES = 3000.1, 1000.1
"""Units per second of one partition, and what the figures of a document are rounded by."""
Place = tuple[str, str]
"""A table or global index, and the partition key in it, with a `{}` for each value."""


@dataclass
class Taken:
    """What the hottest value of a partition key takes, by call and view."""

    reads: dict[tuple[str, str], float] = field(default_factory=dict)
    writes: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def too_hot(self) -> bool:
        return sum(self.reads.values()) > READS or sum(self.writes.values()) > WRITES

    @property
    def views(self) -> set[str]:
        """The views that take a part of it."""
        return {view for one in (self.reads, self.writes) for (_, view), units in one.items() if units}


def taken(model: Model, design: Design) -> dict[Place, Taken]:
    """What is taken of each place."""
    told = document(model, design)
    places = dict(_places(told))
    found = {place: Taken() for place in places.values()}
    for name, plan in told["patterns"].items():
        for step in plan.get("steps", ()):
            if "units" in step and _is_of_the_call(step):
                view = design.views[step["view"]]
                share = _share(model, view, model.patterns[name].traffic)
                ways = prod(part.ways for part in view.partition)
                _add(found[places[view.name]].reads, name, view, share * step["units"]["read units"] / ways)
    for name, write in told["writes"].items():
        for touch in write.get("touches", ()):
            view = design.views[touch["view"]]
            share = _share(model, view, model.writes[name].traffic)
            ways = prod(part.ways for part in view.partition)
            _add(found[places[view.name]].writes, name, view, share * touch["units"]["write units"] / ways)
    return found


def _add(to: dict[tuple[str, str], float], call: str, view: View, units: float) -> None:
    to[call, view.name] = to.get((call, view.name), 0.0) + units


def _places(told: Mapping[str, Any]) -> Iterator[tuple[str, Place]]:
    """Where the entries of each view lie; those of a local index lie beside the items of its table."""
    table = next(one["name"] for one in told["structures"] if one["kind"] == "table")
    for structure in told["structures"]:
        where = structure["name"] if structure["kind"] == "gsi" else table
        for view in structure["views"]:
            yield view["name"], (where, re.sub(r"\{[^}]*\}", "{}", view["stored"]["partition"]))


def _is_of_the_call(step: Mapping[str, Any]) -> bool:
    """Whether a step reads what the call asks for, and not what was found before."""
    return not any(re.search(r"\bits\b", text) for text in step["where"])


def _share(model: Model, view: View, traffic: Traffic) -> float:
    """Calls per second that come to the hottest value of a view's partition."""
    peak = traffic.rate * traffic.peak
    columns = {part.path for part in view.partition if part.path}
    here = model.entities[view.entity]
    if traffic.top is not None and columns:
        return peak * traffic.top
    if set(here.key) <= columns:
        return peak / (here.count or 1.0)
    stated = (here.fields[name].top for name in columns if name in here.fields)
    return peak * min((top for top in stated if top), default=1.0)
