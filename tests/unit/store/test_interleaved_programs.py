"""The writes of generated programs by several writers, their requests in any order: every view ends true."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.conformance.test_generated import PHASES
from tests.faults.interleaved import interleave
from tests.naive import EVERYTHING
from tests.strategies.programs import Call, Program, programs
from tests.unit.store.support import memory_store

WRITERS = 3


@pytest.mark.thorough
@pytest.mark.parametrize("extras", list(EVERYTHING))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(program=programs(most_operations=14), seed=st.integers(0, 10**6), kills=st.sampled_from([0.0, 0.0, 0.01]))
def test_every_view_ends_true(extras: str, program: Program, seed: int, kills: float) -> None:
    """Everybody does all of the writes, but begins with another one. What is cut off, `verify` finishes."""
    writes = {*program.model.writes, *program.model.transactions}
    calls = [(one.name, dict(one.arguments)) for one in program.operations if isinstance(one, Call)]
    calls = [call for call in calls if call[0] in writes]
    assume(len(calls) > 1)
    store = memory_store(program.model, EVERYTHING[extras])
    store.load(program.rows)
    starts = [number * len(calls) // WRITERS for number in range(WRITERS)]
    interleave(store, [iter(calls[start:] + calls[:start]) for start in starts], len(calls), seed, kills)
    if kills:
        store.verify(repair=True)
    found = store.verify()
    assert found.ok, (seed, found.problems)
