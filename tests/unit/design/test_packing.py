"""Packed views: a partition as one value, where the engine has such values and it pays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from keyplan.design import design, document
from keyplan.design.problem.build import build_problem
from keyplan.design.problem.definition import INFEASIBLE
from keyplan.design.program.solve import solve
from keyplan.design.report.document_schema import document_schema
from keyplan.engines import BUILTIN, get_engine
from keyplan.engines.work import Work
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.model.pattern import Traffic
from keyplan.plan.lockfile import lock_text, read_lock
from tests.strategies.design import proof, timed_problems
from tests.unit.design.exhaustive import cost_table, restricted, some_views
from tests.unit.design.packing import PackingEngine
from tests.unit.design.test_recomputed import check

MODEL = parse_model("""
keyplan: 1
name: sensors
entities:
  Sensor: { count: 1k, fields: { sensor_id: 'uuid, key', name: string(20) } }
  Reading:
    count: 500M
    key: [sensor, at]
    fields:
      sensor: Sensor, as readings
      at: timestamp
      value: decimal(2)
patterns:
  day: { find: Reading, where: "sensor = :s and day(at) = :d", order: at, page: 2000, rate: 1/s }
  one: { find: Reading, where: "sensor = :s and at = :at", limit: 1, order: at, rate: 1/h }
writes:
  report: { create: Reading, rate: 16/s }
""")


def test_nothing_is_packed_without_an_engine_that_can() -> None:
    for engine in BUILTIN:
        views = build_problem(MODEL, get_engine(engine)).problem.views.values()
        if not any(kind.packs for kind in get_engine(engine).kinds.values()):
            assert not any(view.packed for view in views)


def test_values_are_as_large_as_they_may_be() -> None:
    built = build_problem(MODEL, PackingEngine())
    packed = [view for view in built.problem.views.values() if view.packed]
    assert packed
    for view in packed:
        facts = built.problem.facts[view.name]
        size = built.problem.costs.entry_bytes(view, facts) * facts.hottest_rows
        assert size <= 400 * 1024
        # A sensor's readings of all time are too much for a value; those of an hour are not.
        assert [part.cut for part in view.partition if part.cut] == ["hour"] or "at" in map(str, view.partition)


def test_every_length_of_time_that_is_small_enough_is_a_candidate() -> None:
    """What is written into a large value may walk over it, and many small ones take many reads: the program decides."""
    rarer = replace(MODEL.entities["Reading"], count=10e6)
    report = replace(MODEL.writes["report"], traffic=Traffic(0.3))
    model = replace(MODEL, entities={**MODEL.entities, "Reading": rarer}, writes={"report": report})
    views = build_problem(model, PackingEngine()).problem.views.values()
    cuts = {part.cut for view in views if view.packed for part in view.partition if part.cut}
    assert {"day", "hour"} <= cuts
    assert "year" not in cuts


def test_a_read_takes_whole_values() -> None:
    built = build_problem(MODEL, PackingEngine())
    works: list[Work] = []
    for need, (ways, _) in built.options.ways._prepared.items():
        works += [way.work for way in ways if way.match.view.packed and need.entity == "Reading"]
    assert works
    assert all(work.entries == pytest.approx(work.facts.per_partition) for work in works)
    assert any(work.get for work in works)


def test_the_program_packs_where_entries_are_appended_and_not_where_values_are_written_anew() -> None:
    appended = design(MODEL, PackingEngine())
    anew = design(MODEL, PackingEngine(appends=False))
    assert any(view.packed for view in appended.views.values())
    assert not any(view.packed for view in anew.views.values())
    assert appended.objective.value < anew.objective.value
    told = document(MODEL, appended)
    check(told)
    packed = [view for structure in told["structures"] for view in structure["views"] if view["packed"]]
    assert [view["bucket"] for view in packed] == ["hour"]
    assert "packed" in str(document_schema())
    assert read_lock(lock_text(MODEL, appended), MODEL).views == appended.views


@proof(50)
@given(model=timed_problems(), seed=st.integers(0, 2**16), appends=st.booleans())
def test_the_program_is_exact_with_packed_values(model: Model, seed: int, appends: bool) -> None:
    problem = build_problem(model, PackingEngine(appends=appends)).problem
    names = some_views(problem, 12, seed)
    if names is None:
        event("more views needed than a table holds")
        return
    problem = restricted(problem, names)
    cheapest = float(cost_table(problem).min())
    solution = solve(problem)
    assert (solution is None) == (cheapest == INFEASIBLE)
    if solution is not None:
        event("packed" if any(problem.views[name].packed for name in solution.chosen) else "not packed")
        assert solution.value == pytest.approx(cheapest, rel=1e-6)
