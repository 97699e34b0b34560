"""A design that is applied over rows that are there: what it keeps besides is right at once, or when a second `apply`
has finished what the first was cut off at; or it is refused, and all is as it was."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import keyplan
from keyplan.engines import engine_for_url
from keyplan.engines.rounds import Pause
from keyplan.errors import DesignMismatchError, UnsupportedError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.store.bulk import apply as applying
from tests.conformance.test_generated import PHASES, difference, kept_sums, plan_of, statistics
from tests.engines.harness import Harness
from tests.strategies.designs import Designs
from tests.strategies.programs import Clock, Program, on_reference, play, programs

EXAMPLES = int(os.environ.get("KEYPLAN_PROGRAMS", "300")) // 30

MODEL = """
keyplan: 1
name: changed
entities:
  Score:
    count: 30M
    fields: { sid: "int, key", game: "int, distinct 1000", at: timestamp, points: int }
patterns:
  score: { find: Score, where: "sid = :sid", rate: 1/s }
"""
MORE = """
  top:
    from: Score
    compute: { low: min(points), high: max(points), n: count() }
    where: game = :game
    rows: 20k
    rate: 300/s
"""
WRITES = """
writes:
  make: { create: Score, rate: 0.1/s }
  drop: { delete: Score, where: "sid = :sid", rate: 0.01/s }
"""


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """What a design changes is made and taken away many times here: on the server that answers soonest."""
    return quick_harness


def test_sums_that_come_later_count_the_rows_that_were_there(harness: Harness) -> None:
    before, after = (
        replace(parse_model(text), targets=harness.targets) for text in (MODEL + WRITES, MODEL + MORE + WRITES)
    )
    url, noon = harness.url(), datetime(2052, 5, 15, 12, tzinfo=UTC)
    keyplan.apply(before, url)
    with keyplan.open(before, url) as store:
        for sid in range(5):
            store.make(sid=sid, game=sid % 2, at=noon + timedelta(hours=sid), points=sid * 10)
    steps = keyplan.apply(after, url)
    with keyplan.open(after, url) as store:
        kept = [view for view in store.design.views.values() if view.measures]
        assert bool(kept) == any(step.startswith("fill ") for step in steps)
        assert store.top(game=0) == {"low": 0, "high": 40, "n": 3}
        store.drop(sid=4)
        assert store.top(game=0) == {"low": 0, "high": 20, "n": 2}
        assert store.verify().ok


def test_what_is_cut_off_at_any_round_is_finished_by_the_next(harness: Harness) -> None:
    """Each attempt gets one round further than the one before."""
    before, after = (
        replace(parse_model(text), targets=harness.targets) for text in (MODEL + WRITES, MODEL + MORE + WRITES)
    )
    url, noon = harness.url(), datetime(2052, 5, 15, 12, tzinfo=UTC)
    keyplan.apply(before, url)
    with keyplan.open(before, url) as store:
        for sid in range(5):
            store.make(sid=sid, game=sid % 2, at=noon, points=sid * 10)
    apply_in_pieces(after, keyplan.design(after, harness.name, advise=False), url, list(range(30)))
    with keyplan.open(after, url) as store:
        assert store.top(game=0) == {"low": 0, "high": 40, "n": 3}
        assert store.verify().ok


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_a_design_changes_in_the_midst_of_a_program(harness: Harness, designs: Designs, data: st.DataObject) -> None:
    """Every answer is that of the reference, whichever design it comes from."""
    program = data.draw(programs())
    model = replace(data.draw(statistics(program.model)), targets=harness.targets)
    other = replace(data.draw(statistics(program.model)), targets=harness.targets)
    first = designs.of(model, harness.name)
    keeps = data.draw(st.booleans(), "keep")
    second = designs.of(other, harness.name, keep=first if keeps else None)
    dropped = {*first.unserved, *second.unserved}
    program = replace(program, operations=[one for one in program.operations if _name(one) not in dropped])
    when = data.draw(st.integers(0, len(program.operations)), "when")
    cuts = data.draw(st.lists(st.integers(0, 30), max_size=2), "cut off after so many rounds")
    run(program, [(model, first), (other, second)], harness.url(), when, cuts)


def _name(operation: Any) -> str:
    return getattr(operation, "name", "")


def run(program: Program, designs: list[tuple[Model, Design]], url: str, when: int, cuts: list[int]) -> None:
    clock = Clock()
    keyplan.apply(*designs[0][:1], url, design=designs[0][1])
    store: Any = keyplan.open(*designs[0][:1], url, clock=clock, new_id=clock.new_id)
    calls = 0

    def call(name: str, arguments: Mapping[str, Any], cursor: Any) -> Any:
        nonlocal calls, store
        calls += 1
        if calls == when + 1 and cursor is None:
            store = changed(store)
        more = {} if cursor is None else {"cursor": cursor}
        try:
            with kept_sums(store):
                return getattr(store, name)(**arguments, **more)
        except UnsupportedError as error:
            if "ask for less at once" not in str(error):
                raise
            reject()

    def load(rows: Any) -> Any:
        with kept_sums(store):
            return store.load(rows)

    def changed(before: Any) -> Any:
        before.close()
        model, design = designs[1]
        try:
            apply_in_pieces(model, design, url, cuts)
        except DesignMismatchError:
            model, design = designs[0]  # rows are not moved: all is as it was
        return keyplan.open(model, url, design=design, clock=clock, new_id=clock.new_id)

    try:
        expected = on_reference(program)
        found = play(program, call, load, clock)
        for operation, one, another in zip(program.operations, expected, found, strict=True):
            differs = difference(program.model, operation, one, another)
            assert differs is None, f"{operation}: {differs}\nplan: {plan_of(store, operation)}"
        checked = store.verify()
        assert checked.ok, checked.problems
    finally:
        store.close()


def apply_in_pieces(model: Model, design: Design, url: str, cuts: list[int]) -> None:
    """Applies a design, after attempts that were cut off."""
    for rounds in cuts:
        cut_off(model, design, url, rounds)
    keyplan.apply(model, url, design=design)


def cut_off(model: Model, design: Design, url: str, rounds: int) -> bool:
    """Applies a design up to so many rounds of requests; whether it came to its end."""
    engine = engine_for_url(url)
    port = engine.connect(url, model, design)
    attempt = applying.apply(model, engine, design)
    replies: Any = None
    try:
        for _ in range(rounds):
            round = attempt.send(replies)
            replies = () if isinstance(round, Pause) else port.send(round)
        attempt.close()
        return False
    except StopIteration:
        return True
    finally:
        port.close()
