"""What structures are thought to cost by being there: a further index or copy has to save a share of the whole.

People have to know each of them, watch it and wait for it; a design that is a few cents cheaper is not worth one more.
Nor are a few cents worth it that callers wait for one request after the other, where one would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keyplan.design.options.goals import goal_cost
from keyplan.design.problem.definition import Root
from keyplan.design.upkeep.effects import Upkeep
from keyplan.engines.base import Kind
from keyplan.engines.work import CostModel, Couplings, LinearRow, ViewFacts
from keyplan.model.model import Model
from keyplan.plan.dangling import dangling_role
from keyplan.plan.view import View

WAIT_WORTH = 0.02
"""The share of the whole that is to be saved if every call of every pattern takes one more round trip."""
CALLED = ("pattern", "target")
"""The roots that somebody waits for who has called a pattern."""


def least_cost(
    costs: CostModel,
    views: Mapping[str, View],
    facts: Mapping[str, ViewFacts],
    roots: Sequence[Root],
    required: Sequence[tuple[str, list[str]]],
    upkeep: Mapping[tuple[str, str], Sequence[Upkeep]],
    rates: Mapping[str, float],
) -> float:
    """What every design costs at least: each read in the best way of all, and what is required where it costs least to
    keep and to write."""
    reads = sum(root.rate * goal_cost(root.goal) for root in roots if root.always) * costs.per_second
    kept = {name: costs.keep(view, facts[name]) for name, view in views.items()}
    for (write, name), parts in upkeep.items():
        if write in rates:
            kept[name] += rates[write] * costs.per_second * sum(part.cost.cost for part in parts)
    return reads + sum(min((kept[name] for name in names), default=0.0) for _, names in required)


def waiting_cost(costs: CostModel, roots: Sequence[Root], least: float) -> float:
    """What a further round trip of a call is thought to cost: a share of the whole, if every call had one."""
    calls = sum(root.rate for root in roots if root.kind in CALLED)
    return WAIT_WORTH * least / (calls * costs.per_second) if calls else 0.0


def at_least_worth(own: Couplings, least: float) -> dict[str, tuple[float, float, bool]]:
    """The engine's variables, each dearer by the share of the whole that it has to save; those that are dearer by
    themselves stay so."""
    found = {}
    for name, (cost, most, integer) in own.variables.items():
        found[name] = (cost + own.worth.get(name, 0.0) * least, most, integer)
    return found


def copies_of_rows(model: Model, kinds: Mapping[str, Kind], views: Mapping[str, View], cost: float) -> Couplings:
    """Per entity, what each view with its rows that we keep ourselves, inside others or not, costs beyond the first:
    there is more to keep true.

    One of rows that point at nothing is none: there are hardly any.
    """
    variables = {}
    rows = []
    kept: dict[str, list[str]] = {}
    for name, view in views.items():
        own = not (kinds[view.kind].kept_by_engine or view.measures or view.unique)
        if own and dangling_role(model, view) is None:
            for entity in dict.fromkeys((view.entity, *(embed.entity for _, embed in view.nested()))):
                kept.setdefault(entity, []).append(name)
    for entity, names in kept.items():
        if len(names) > 1:
            variables[f"copies.{entity}"] = (cost, float(len(names)), True)
            rows.append(LinearRow({**dict.fromkeys(names, 1.0), f"copies.{entity}": -1.0}, high=1.0))
    return Couplings(variables, rows)


def is_covering(model: Model, kinds: Mapping[str, Kind], view: View) -> bool:
    """Whether parts stand behind the entity's key, where they sort nothing and only spare the way to the row."""
    paths = [part.path for part in view.parts]
    return kinds[view.kind].covers and set(model.entities[view.entity].key) <= set(paths[:-1])
