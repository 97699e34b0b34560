"""The order in which a model lists what it asks is nobody's business: the design costs the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyplan.engines import BUILTIN, get_engine
from keyplan.errors import DesignError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from tests.strategies.design import any_problems, behind_problems, proof
from tests.unit.design.lately import design
from tests.unit.design.nouns import model_of

DEPOTS = """
Depot:
  count: 100k
  fields:
    depot_id: int, key
    region: string(10), distinct 500
    a: count(parcels)
    b: sum(parcels.x)
    c: count(vans)
Parcel: { count: 1M, fields: { parcel_id: "uuid, key", x: int, depot: "Depot, as parcels" } }
Van: { count: 1M, fields: { van_id: "uuid, key", depot: "Depot, as vans" } }
"""
WRITES = """
send: { create: Parcel, rate: 1/s }
buy: { create: Van, rate: 9/s }
"""


def designed(model: Model, engine: str) -> Design | None:
    try:
        return design(model, get_engine(engine), advise=False)
    except DesignError:
        return None


def cost_the_same(one: Model, other: Model, engine: str) -> None:
    """Neither is cheaper than what the other says that nothing is cheaper than."""
    first, second = designed(one, engine), designed(other, engine)
    if first is None or second is None:
        assert first is second
        return
    assert first.unserved.keys() == second.unserved.keys()
    here, there = first.objective, second.objective
    assert max(here.bound - there.value, there.bound - here.value) <= 1e-6 * max(1.0, abs(here.value))


@pytest.mark.parametrize("engine", BUILTIN)
@proof(15)
@given(
    selects=st.lists(st.sets(st.sampled_from("abc"), min_size=1, max_size=2), min_size=3, max_size=3),
    rates=st.lists(st.sampled_from(["1000/s", "1000/s", "1/day"]), min_size=3, max_size=3),
)
@example(selects=[{"a"}, {"b"}, {"c"}], rates=["1000/s", "1000/s", "1/day"])
def test_any_order_of_what_is_selected_costs_the_same(engine: str, selects: list[set[str]], rates: list[str]) -> None:
    where = 'find: Depot, where: "region = :r"'
    asked = [
        f"p{number}: {{ {where}, select: [{', '.join(sorted(some))}], rate: {rate} }}"
        for number, (some, rate) in enumerate(zip(selects, rates, strict=True))
    ]
    first, *others = (model_of(DEPOTS, "\n".join(order), WRITES) for order in permutations(asked))
    for other in others:
        cost_the_same(first, other, engine)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", BUILTIN)
@proof(20)
@given(model=st.one_of(any_problems(2), behind_problems()))
def test_patterns_and_writes_from_behind_cost_the_same(engine: str, model: Model) -> None:
    patterns, writes = (dict(reversed(named.items())) for named in (model.patterns, model.writes))
    cost_the_same(model, replace(model, patterns=patterns, writes=writes), engine)
