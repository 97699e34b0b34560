"""Embedded rows mean what rows mean: generated programs on designs in which whatever can be embedded is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import keyplan
from keyplan.engines.mongodb import cost
from keyplan.engines.mongodb.layout import layout
from keyplan.engines.work import Cost, Rejection
from keyplan.plan.view import View
from tests.conformance import test_owned_rows as owned
from tests.conformance.pair import opened, parsed
from tests.conformance.test_generated import PHASES, run, statistics
from tests.engines.harness import Harness
from tests.strategies.families import families
from tests.strategies.programs import programs

EXAMPLES = max(10, int(os.environ.get("KEYPLAN_PROGRAMS", "300")) // 20)
DRAWN = {"families": families, "programs": programs}
"""Programs that read children, and any."""


def has_arrays(view: View) -> bool:
    return bool(view.embeds) and view.kind == "collection"


def is_cheap(view: View) -> bool:
    return has_arrays(view) or view.kind == "elements"


@pytest.fixture
def everything_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents with children are always possible, and cost next to nothing; nor do indexes over the children."""
    priced = cost.cost_model

    def cheap(model: Any) -> Any:
        costs = priced(model)
        for name in ("read", "touch"):
            usual = getattr(costs, name)
            setattr(costs, name, lambda work, usual=usual: Cost(1e-9) if is_cheap(work.view) else usual(work))
        fit, keep = costs.fit, costs.keep
        costs.fit = lambda view, facts: view if has_arrays(view) else fit(view, facts)
        costs.keep = lambda view, facts: 0.0 if has_arrays(view) else keep(view, facts)
        return costs

    monkeypatch.setattr(cost, "cost_model", cheap)


@pytest.mark.parametrize("drawn", DRAWN)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_embedded_rows_answer_as_the_reference(
    mongodb: Harness, everything_embedded: None, drawn: str, data: st.DataObject
) -> None:
    program = data.draw(DRAWN[drawn]())
    model = replace(data.draw(statistics(program.model)), targets=mongodb.targets)
    design = keyplan.design(model, "mongodb", advise=False)
    views = design.views.values()
    if not any(view.embeds for view in views):
        return
    COUNTED.append("elements" if any(view.kind == "elements" for view in views) else "embeds")
    run(program, model, mongodb.url(), design)


COUNTED: list[str] = []


@pytest.fixture(autouse=True)
def some_programs_embed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Otherwise they would say nothing."""
    before = len(COUNTED)
    yield
    if request.node.originalname == "test_embedded_rows_answer_as_the_reference":
        assert len(COUNTED) - before > (EXAMPLES / 5 if request.node.callspec.params["drawn"] == "families" else 0)


def test_embedded_rows_are_found_through_an_index_over_the_array(
    mongodb: Harness, everything_embedded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced = cost.cost_model

    def without_lines(model: Any) -> Any:
        costs = priced(model)
        fit = costs.fit
        alone = Rejection("lines are in their baskets here")
        costs.fit = lambda view, facts: (
            alone if (view.entity, view.kind) == ("Line", "collection") else fit(view, facts)
        )
        return costs

    monkeypatch.setattr(cost, "cost_model", without_lines)
    with opened(parsed(owned.MODEL), mongodb.url()) as pair:
        kinds = {(view.kind, view.entity) for view in pair.store.design.views.values()}
        assert ("elements", "Line") in kinds
        owned.test_lines_are_found_by_article_wherever_they_live(pair)
        pair.verified()


COPIED = """
keyplan: 1
name: copied
entities:
  Ant:
    count: 30
    fields: { k: "date, key", seen: timestamp }
  Cat:
    count: 30
    key: [k]
    fields: { k: Ant, l: "Ant, as cats, max 10M", b: decimal(2) }
patterns:
  by_b: { find: Cat, where: "b in :b", with: [l], rate: 0.01/s }
  ants: { find: Ant, with: [cats], rate: 0.01/s }
"""


def test_what_is_inside_documents_has_no_index_of_its_own(everything_embedded: None) -> None:
    """Rows are in documents of their own and in others as well, of which only the latter have what an index copies."""
    model = keyplan.parse_model(COPIED)
    # More than can be, so that they are worth an index.
    model = replace(model, entities=model.entities | {"Cat": replace(model.entities["Cat"], count=30e6)})
    design = keyplan.design(model, "mongodb", advise=False)
    assert any(view.entity == "Ant" and view.embeds for view in design.views.values())
    own = [view for view in design.views.values() if view.entity == "Cat" and view.kind == "index"]
    assert all(design.views[view.base].entity == "Cat" for view in own)
    layout(model, design)
