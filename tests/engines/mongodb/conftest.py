"""The servers of the run, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from keyplan.engines.mongodb import cost
from keyplan.engines.work import Cost, Rejection, ViewFacts
from keyplan.plan.view import View
from tests.conftest import started
from tests.engines.harness import Harness


@pytest.fixture(scope="session")
def mongodb() -> Iterator[Harness]:
    """One node, started once per process; several processes share one server."""
    yield from started("mongodb")


@pytest.fixture(scope="session")
def replica_set() -> Iterator[Harness]:
    """Three nodes, for what depends on which of them answers."""
    for harness in started("mongodb"):
        yield harness.replicated


def cheap_children(monkeypatch: pytest.MonkeyPatch, refused: Callable[[View], str]) -> None:
    """Views that have children with their rows cost next to nothing, but for those that are refused for a reason."""
    priced = cost.cost_model

    def cheap(model: Any) -> Any:
        costs = priced(model)
        for name in ("read", "touch"):
            usual = getattr(costs, name)
            setattr(costs, name, lambda work, usual=usual: Cost(1e-9) if work.view.embeds else usual(work))
        fit, keep = costs.fit, costs.keep

        def fits(view: View, facts: ViewFacts) -> View | Rejection:
            found: View | Rejection = Rejection(refused(view)) if refused(view) else fit(view, facts)
            return found

        costs.fit = fits
        costs.keep = lambda view, facts: 0.0 if view.embeds else keep(view, facts)
        return costs

    monkeypatch.setattr(cost, "cost_model", cheap)


@pytest.fixture
def first_children_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents have the first children of their rows."""

    def refused(view: View) -> str:
        return "all of them are apart here" if any(embed.limit is None for embed in view.embeds) else ""

    cheap_children(monkeypatch, refused)


@pytest.fixture
def children_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children are documents beside those of their rows, and no document has an array of them."""

    def refused(view: View) -> str:
        return "children are beside their parents here" if view.embeds and view.kind != "shared" else ""

    cheap_children(monkeypatch, refused)
