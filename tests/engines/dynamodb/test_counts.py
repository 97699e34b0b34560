"""Requests, round trips and units of every pattern and write of every example, counted, against what the plan says.

A plan states means, and a call takes what its own rows take. So what is compared is the mean over many calls, each of
other keys, on a small database of generated rows. `docs/dynamodb.md` has the
table, with what differs and why.
"""

from __future__ import annotations

import pytest

import keyplan
from keyplan.design.needs import is_generated
from keyplan.model.load import load_model
from keyplan.model.model import Model
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.engines.dynamodb.workload import ROOT, Measured, Workload

EXAMPLES = sorted(path.stem for path in ROOT.glob("*.yaml"))
EXACT = 0.7
"""At least this share of an example's patterns and writes is counted as planned, to 2 %."""
FAR = 1
"""So many may take more than half as many requests or round trips again as planned, and one and a half: in small
databases a filter finds less than it would in large ones, and reads on."""
NEAR = 0.5
"""At least this share takes units within a third of the planned ones, or half a unit."""


KNOWN = {
    "flash_sale": {
        "take": "it returns a value and touches several items, so that its row is read first",
        "refund": "the same",
    },
    "shop": {
        "orders_by_product": "its filter reads on, page by page",
        "drop_order": "its items are looked up and deleted in rounds that the plan does not count",
        "describe": "entries of words that come and go are counted as one request",
    },
}
"""What is known to take more than planned, and is left out here: gaps of the plans, not of the measurement."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", EXAMPLES)
def test_counts_are_the_plans(name: str, dynoxide: Server) -> None:
    workload = Workload(load_model(ROOT / f"{name}.yaml"), url_of(dynoxide.url))
    try:
        warned = {one.path.removeprefix("writes.") for one in workload.design.findings if "reads every" in one.message}
        left_out = warned | _looking_back(workload.model) | KNOWN.get(name, {}).keys()
        found = [one for one in (*workload.reads(), *workload.writes()) if one.calls and one.name not in left_out]
        assert len(found) + len(left_out) >= 0.9 * (len(workload.design.plans) + len(workload.design.writes))
        off = [one for one in found if not _is_exact(one)]
        said = [f"{one.name}: {one.plan.requests:g}/{one.plan.trips} {one.requests:g}/{one.rounds:g}" for one in off]
        assert len(off) <= (1 - EXACT) * len(found), said
        assert len([one for one in off if _is_far(one)]) <= FAR, said
        near = [one for one in found if _is_near(one)]
        assert len(near) >= NEAR * len(found), [one.name for one in found if one not in near]
    finally:
        workload.close()


def _looking_back(model: Model) -> set[str]:
    """Creates under a key that is given: they look for rows that point at it already, which a plan leaves out."""
    return {
        write.name
        for write in model.writes.values()
        if write.kind == "create" and not is_generated(model, write.entity)
    }


def _is_exact(one: Measured) -> bool:
    return one.requests == pytest.approx(one.plan.requests, rel=0.02) and one.rounds == pytest.approx(one.plan.trips)


def _is_far(one: Measured) -> bool:
    pairs = ((one.plan.requests, one.requests), (one.plan.trips, one.rounds))
    return any(counted > 1.5 * planned + 1.5 for planned, counted in pairs)


def _is_near(one: Measured) -> bool:
    for unit in ("read units", "write units"):
        planned, counted = one.plan.units.get(unit, 0.0), one.units(unit)
        if abs(planned - counted) > max(0.5, planned / 3):
            return False
    return True


def test_pages_are_requests() -> None:
    """A query of many megabytes is planned as pages of one, each waiting for the one before."""
    plans = keyplan.design(load_model(ROOT / "shop.yaml"), "dynamodb").plans
    large = [plan.figures for plan in plans.values() if plan.figures.bytes > 50 * 2**20]
    assert large, "an example with a large read"
    for figures in large:
        assert figures.requests >= figures.bytes / 2**20 / 2
        assert figures.trips > 3
