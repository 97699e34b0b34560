"""Generated programs on the memory double answer as `reference` does, and leave every view true."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.conformance.test_generated import PHASES, difference
from tests.naive import EVERYTHING
from tests.strategies.programs import Program, on_reference, programs
from tests.unit.store.support import on_store


@pytest.mark.thorough
@pytest.mark.parametrize("extras", list(EVERYTHING))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(program=programs())
def test_programs(extras: str, program: Program) -> None:
    expected = on_reference(program)
    found, store = on_store(program, EVERYTHING[extras])
    for operation, want, got in zip(program.operations, expected, found, strict=True):
        differs = difference(program.model, operation, want, got)
        assert differs is None, f"{operation}: {differs}"
    report = store.verify()
    assert report.ok, report
