"""The replica set of the run, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from keyplan.engines.mongodb import cost
from keyplan.engines.work import Cost, Rejection, ViewFacts
from keyplan.plan.view import View
from tests.conftest import started
from tests.engines.harness import Harness


@pytest.fixture(scope="session")
def mongodb() -> Iterator[Harness]:
    """Started once per process; several processes share one server."""
    yield from started("mongodb")


@pytest.fixture
def first_children_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents with the first children of a row cost next to nothing, and no others have any."""
    priced = cost.cost_model

    def cheap(model: Any) -> Any:
        costs = priced(model)
        for name in ("read", "touch"):
            usual = getattr(costs, name)
            setattr(costs, name, lambda work, usual=usual: Cost(1e-9) if work.view.embeds else usual(work))
        fit, keep = costs.fit, costs.keep

        def fits(view: View, facts: ViewFacts) -> View | Rejection:
            if any(embed.limit is None for embed in view.embeds):
                return Rejection("all of them are apart here")
            found: View | Rejection = fit(view, facts)
            return found

        costs.fit = fits
        costs.keep = lambda view, facts: 0.0 if view.embeds else keep(view, facts)
        return costs

    monkeypatch.setattr(cost, "cost_model", cheap)
