"""The figures of the design document add up: the objective follows from them without the designer's help."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from keyplan.design import document
from keyplan.engines import BUILTIN, get_engine
from keyplan.errors import DesignError
from keyplan.model.model import Model
from tests.strategies.design import any_problems, proof
from tests.unit.design.lately import design
from tests.unit.design.nouns import model_of
from tests.unit.design.support import SOME_PLACES, designed, example

PER_SECOND = {"USD/month": 730 * 3600.0, "server ms/s": 1.0}
"""What a cost per call times calls per second has to be multiplied with, by the unit of the objective."""


def recomputed(told: dict[str, Any]) -> float:
    """Every call by its rate, what is stored, and what is carried for each structure."""
    per_second = PER_SECOND[told["objective"]["unit"]]
    calls = [call for call in (*told["patterns"].values(), *told["writes"].values()) if call["served"]]
    views = [view for structure in told["structures"] for view in structure["views"]]
    return float(
        sum(call["cost"] * call["rate"] for call in calls) * per_second
        + sum(view["storage"] for view in views)
        + told["objective"]["carrying"]
    )


def check(told: dict[str, Any]) -> None:
    """Totals, parts and the whole agree."""
    per_second = PER_SECOND[told["objective"]["unit"]]
    for name, call in (*told["patterns"].items(), *told["writes"].items()):
        if call["served"]:
            assert call["total"] == pytest.approx(call["cost"] * call["rate"] * per_second, rel=1e-6), name
    for structure in told["structures"]:
        for view in structure["views"]:
            assert view["storage"] <= view["cost"] * (1 + 1e-8), view["name"]  # of nine digits each
    assert told["objective"]["bound"] <= told["objective"]["value"]
    assert recomputed(told) == pytest.approx(told["objective"]["value"], rel=1e-6, abs=1e-9)


def late(told: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """The patterns whose plan is expected to take longer than they allow."""
    return {
        name: (call["p99_ms"], call["p99_budget_ms"])
        for name, call in told["patterns"].items()
        if call["served"] and call["p99_budget_ms"] is not None and call["p99_ms"] > call["p99_budget_ms"] * (1 + 1e-9)
    }


@pytest.mark.parametrize(("name", "engine"), SOME_PLACES)
def test_the_objective_of_an_example_follows_from_its_document(name: str, engine: str) -> None:
    model = example(name)
    told = document(model, designed(name, engine))
    check(told)
    assert late(told) == {}


@pytest.mark.thorough
@pytest.mark.parametrize("engine", BUILTIN)
@proof(100)
@given(model=any_problems())
def test_the_objective_of_a_generated_model_follows_from_its_document(engine: str, model: Model) -> None:
    try:
        found = design(model, get_engine(engine), advise=False)
    except DesignError:
        return  # what cannot be kept at all has no document
    told = document(model, found)
    check(told)
    assert late(told) == {}


def test_a_rank_is_within_its_budget_with_both_of_its_reads() -> None:
    """First the row whose rank is asked for, then the rows among which it ranks."""
    entities = "Score:\n  count: 1000\n  fields:\n    id: uuid, key\n    points: int\n"
    for budget, served in ((12, False), (20, True)):
        patterns = f"p: {{ rank: Score, of: id, order: points desc, rate: 1/s, p99: {budget}ms }}"
        model = model_of(entities, patterns)
        told = document(model, design(model, get_engine("dynamodb")))
        assert told["patterns"]["p"]["served"] is served
        assert late(told) == {}


def test_a_write_that_cannot_be_done_is_reported_and_not_paid_for() -> None:
    """Its rows cannot be found among so many; what it would do to views is no part of the objective."""
    entities = "Event:\n  count: 300M\n  fields:\n    id: uuid, key\n    kind: enum(a 50%, b 50%)\n    tag: string(9)\n"
    writes = """
      note: { create: Event, rate: 10/s }
      clear: { delete: Event, where: "search(tag, :words) and begins_with(tag, :start)", rows: 5, rate: 1/s, p99: 1ms }
    """
    model = model_of(entities, 'p: { find: Event, where: "id = :id", rate: 1/s }', writes)
    for engine in BUILTIN:
        told = document(model, design(model, get_engine(engine)))
        check(told)
