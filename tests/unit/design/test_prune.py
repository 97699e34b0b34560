"""(ii) Dropping views that another one replaces never makes a design dearer."""

from __future__ import annotations

import sys

import pytest
from hypothesis import event, given

from keyplan.design.problem.prune import replaceable
from keyplan.design.program.cheapest import cheapest
from keyplan.design.program.solve import Solution, solve
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.model import Model
from tests.strategies.design import any_problems, proof
from tests.strategies.designs import Lately
from tests.unit.design.support import PLACES, example

solving = sys.modules[solve.__module__]


def _solutions(model: Model, engine: str) -> tuple[Solution | None, Solution | None, int]:
    """The cheapest design with and without pruning, and how many views were dropped."""
    built, pruned = cheapest(model, get_engine(engine))
    problem = built.problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solving, "replaceable", lambda _: set())
        whole = solve(problem)
    dropped = len(replaceable(problem))
    return pruned, whole, dropped


solutions = Lately(_solutions).of
"""The same, of a model that is drawn several times in a row once."""


@pytest.mark.parametrize("engine", BUILTIN)
@proof(60)
@given(model=any_problems(2))
def test_pruned_is_as_cheap_as_unpruned(engine: str, model: Model) -> None:
    pruned, whole, dropped = solutions(model, engine)
    event("some views dropped" if dropped else "none dropped")
    assert (pruned and pruned.value) == pytest.approx(whole and whole.value, rel=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "engine"), PLACES)
def test_examples_lose_views_and_no_money(name: str, engine: str) -> None:
    """The larger program may leave a gap, which it tells, where the smaller one leaves none."""
    pruned, whole, dropped = solutions(example(name), engine)
    assert pruned is not None
    assert whole is not None
    assert dropped or name not in ("shop", "blog", "hotel", "messaging")
    assert whole.bound * (1 - 1e-6) <= pruned.value <= whole.value * (1 + 1e-6)
    assert pruned.gap <= whole.gap + 1e-6
