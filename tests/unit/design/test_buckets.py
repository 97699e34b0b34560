"""Time buckets as the designer sees them: the largest that fits, by a directory where nothing bounds them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from keyplan.design import document
from keyplan.design.candidates.facts import Facts
from keyplan.design.candidates.forms import Forms
from keyplan.design.needs.need import by_known, row_by_key
from keyplan.design.options.extras import outer_paths
from keyplan.design.options.walks import walks
from keyplan.design.problem.build import build_problem
from keyplan.design.problem.definition import INFEASIBLE
from keyplan.design.program.solve import solve
from keyplan.design.statistics.buckets import bucket_of, rounds_of_a_walk
from keyplan.design.statistics.derived import Statistics
from keyplan.engines import get_engine
from keyplan.engines.work import Rejection
from keyplan.errors import ArgumentError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.steps import Drive, Search
from keyplan.plan.view import Part
from tests.strategies.design import proof, timed_problems
from tests.unit.design.exhaustive import cost_table, restricted, some_views
from tests.unit.design.lately import design
from tests.unit.design.nouns import matched, view
from tests.unit.design.nouns import model_of as nouns_model
from tests.unit.design.support import ROOT
from tests.unit.design.test_recomputed import check

TEXT = """
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
  p: { find: Reading, where: "sensor = :s and at between :a and :b", order: at, page: 100, rows: 1440, rate: 20/s }
  MORE
writes:
  report: { create: Reading, rate: 16/s }
targets: { dynamodb: { partition_mb: SIZE } }
"""
LATEST = '  latest: { find: Reading, where: "sensor = :s", order: at desc, limit: 20, rate: RATE, p99: 50ms }'


def model_of(size: str = "150", latest: str = "") -> Model:
    more = LATEST.replace("RATE", latest).strip() if latest else ""
    return parse_model(TEXT.replace("MORE", more).replace("SIZE", size))


def forms_of(model: Model) -> Forms:
    engine = get_engine("dynamodb")
    return Forms(model, Facts(model, Statistics(model)), engine.kinds, engine.costs(model))


@pytest.mark.parametrize(
    ("size", "cut"), [("100000", None), ("1000", None), ("150", "month"), ("10", "day"), ("0.2", "hour")]
)
def test_the_largest_bucket_that_fits(size: str, cut: str | None) -> None:
    model = model_of(size)
    forms = forms_of(model)
    found = forms.of(view(model, "sensor | at", entity="Reading"))
    assert not isinstance(found, Rejection)
    cuts = [bucket.cut for form, _ in found if (bucket := bucket_of(form)) is not None]
    assert cuts == ([cut] if cut else [])
    # Each form is within the size, and there are two of them at most: shards, where few are enough, and buckets.
    assert all(not forms.too_large(form, facts) for form, facts in found)
    assert len(found) <= 2


def test_there_are_as_many_shards_as_are_enough_and_no_more() -> None:
    """The number of its shard makes a key longer: entries that would fit without it may need one more."""
    for size in range(20, 120):
        model = model_of(str(size))
        forms = forms_of(model)
        found = forms.of(view(model, "sensor | at", entity="Reading"))
        assert not isinstance(found, Rejection)
        ((ways, sharded),) = [
            (part.ways, form)
            for form, _ in found
            if bucket_of(form) is None
            for part in form.partition
            if part.ways > 1
        ]
        fewer = replace(sharded, partition=(*sharded.partition[:-1], Part("", ways=ways - 1)))
        assert forms.too_large(fewer, forms.facts.of(fewer)), size


def test_what_no_bucket_makes_small_enough_is_no_candidate() -> None:
    model = model_of("0.001")
    forms = forms_of(model)
    found = forms.of(view(model, "sensor | at", entity="Reading"))
    assert isinstance(found, Rejection)
    assert "largest partition" in found.reason
    (reason,) = (one.reason for one in design(model, get_engine("dynamodb")).unserved.values())
    assert "largest partition" in reason


def test_a_range_between_two_moments_reads_the_buckets_it_runs_over() -> None:
    model = model_of()
    days = matched(model, view(model, "sensor, day(at) | at", entity="Reading"))
    years = matched(model, view(model, "sensor, year(at) | at", entity="Reading"))
    assert days is not None
    assert years is not None
    # 1440 rows of 500,000 within 362 days are a day's worth.
    assert days.buckets == pytest.approx(1 + 1440 / 500_000 * 361.7, rel=0.01)
    assert years.buckets < days.buckets
    assert days.most_buckets == pytest.approx(363, rel=0.01)
    assert days.walks
    assert days.ordered


def test_a_bound_on_one_side_leaves_the_buckets_open() -> None:
    model = parse_model(TEXT.replace("at between :a and :b", "at > :a").replace("MORE", "").replace("SIZE", "150"))
    assert matched(model, view(model, "sensor, day(at) | at", entity="Reading")) is None


def test_the_latest_rows_are_found_by_a_directory() -> None:
    model = model_of("150", latest="1000/s")
    found = design(model, get_engine("dynamodb"))
    node = found.plans["latest"].node
    assert isinstance(node, Drive)
    assert isinstance(node.outer, Search)
    assert node.ordered
    directory = found.views[node.outer.view]
    assert [str(part) for part in directory.parts] == ["sensor", "month(at)"]
    assert [measure.name for measure in directory.measures] == ["$count"]
    assert node.outer.descending
    # The range needs no directory: it says by itself which months there are.
    assert isinstance(found.plans["p"].node, Search)
    told = document(model, found)
    buckets = {one["bucket"] for structure in told["structures"] for one in structure["views"]}
    assert buckets == {None, "month"}
    check(told)


def test_the_program_weighs_a_directory_against_shards() -> None:
    """A directory costs every write, shards cost every read."""
    read = design(model_of("150", latest="1000/s"), get_engine("dynamodb"))
    written = design(model_of("150", latest="1/h"), get_engine("dynamodb"))
    assert any(view.measures for view in read.views.values())
    assert not any(view.measures for view in written.views.values())
    ways = [part.ways for view in written.views.values() for part in view.partition if part.ways > 1]
    assert ways, "the rare pattern is served from shards"


def test_a_walk_to_one_row_takes_nothing_more_from_its_pointer() -> None:
    """Only a search by itself is told what else the row that it is made for has of the one that is looked for."""
    entities = """
Ticket: { count: 1k, fields: { ticket_id: "uuid, key" } }
Note:
  count: 5M
  key: [ticket, number]
  fields: { ticket: "Ticket, as notes", number: uuid, at: timestamp, agent: int, text: text(900) }
"""
    model = nouns_model(entities, 'p: { find: Note, where: "ticket = :t", order: [at, agent], page: 9 }')
    bucketed = view(model, "ticket, month(at) | at, agent, number", entity="Note")
    need = replace(row_by_key(model, "Note", ["text"]), known=frozenset({"agent"}))
    found = list(walks(model, Statistics(model), forms_of(model).directories(bucketed), need))
    assert found
    for walk in found:
        asked = by_known(walk.inner, bucketed.parts)
        assert outer_paths(asked) == {"ticket", "number", "month(at)"}


def test_a_walk_takes_more_rounds_the_more_buckets_may_be_empty() -> None:
    rounds = [rounds_of_a_walk(buckets) for buckets in (1, 2, 8, 31, 32, 100, 1000)]
    assert rounds == sorted(rounds)
    assert rounds[0] == 1
    assert rounds[-1] > 60


def test_a_size_that_is_none_is_refused() -> None:
    for size in ("'-1'", "many", "0"):
        with pytest.raises(ArgumentError, match="partition_mb"):
            design(model_of(size), get_engine("dynamodb"))


DESIGN_IT = """
import json, sys
from keyplan.design import design, document
from keyplan.engines import get_engine
from tests.unit.design.test_buckets import model_of
for size, rate in (("150", "1000/s"), ("150", "1/h"), ("10", "10/s")):
    model = model_of(size, rate)
    told = document(model, design(model, get_engine("dynamodb")))
    del told["objective"]["seconds"]
    print(json.dumps(told))
"""


@pytest.mark.thorough
def test_two_processes_make_the_same_document() -> None:
    command = [sys.executable, "-c", DESIGN_IT]
    path = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    runs = [
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            check=True,
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout
    assert b"month(at)" in runs[0].stdout


@proof(60)
@given(model=timed_problems(), seed=st.integers(0, 2**16))
def test_the_program_is_exact_with_buckets_and_directories(model: Model, seed: int) -> None:
    problem = build_problem(model, get_engine("dynamodb")).problem
    names = some_views(problem, 12, seed)
    if names is None:
        event("more views needed than a table holds")
        return
    problem = restricted(problem, names)
    cheapest = float(cost_table(problem).min())
    solution = solve(problem)
    assert (solution is None) == (cheapest == INFEASIBLE)
    if solution is not None:
        assert solution.value == pytest.approx(cheapest, rel=1e-6)


@proof(60)
@given(model=timed_problems())
def test_the_objective_follows_from_the_document(model: Model) -> None:
    found = design(model, get_engine("dynamodb"))
    told = document(model, found)
    if not any(name in model.writes for name in found.unserved):
        check(told)
