"""(ii) Dropping views that another one replaces never makes a design dearer."""

from __future__ import annotations

import sys

import pytest
from hypothesis import event, given

from keyplan.design.problem.prune import replaceable
from keyplan.design.program.cheapest import cheapest
from keyplan.design.program.solve import solve
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.model import Model
from tests.strategies.design import any_problems, proof
from tests.unit.design.support import PLACES, example

solving = sys.modules[solve.__module__]


def values(model: Model, engine: str) -> tuple[float | None, float | None, int]:
    """What the cheapest design costs with and without pruning, and how many views were dropped."""
    problem = cheapest(model, get_engine(engine))[0].problem
    pruned = solve(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solving, "replaceable", lambda _: set())
        whole = solve(problem)
    dropped = len(replaceable(problem))
    return (pruned and pruned.value, whole and whole.value, dropped)


@pytest.mark.parametrize("engine", BUILTIN)
@proof(60)
@given(model=any_problems(2))
def test_pruned_is_as_cheap_as_unpruned(engine: str, model: Model) -> None:
    pruned, whole, dropped = values(model, engine)
    event("some views dropped" if dropped else "none dropped")
    assert pruned == pytest.approx(whole, rel=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "engine"), PLACES)
def test_examples_lose_views_and_no_money(name: str, engine: str) -> None:
    pruned, whole, dropped = values(example(name), engine)
    assert dropped or name not in ("shop", "blog", "hotel", "messaging")
    assert pruned == pytest.approx(whole, rel=1e-6)
