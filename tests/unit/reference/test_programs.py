"""Generated models load, and `reference` runs generated programs with nothing but the documented errors."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import HealthCheck, given, settings

from keyplan.model.load import parse_model
from tests.strategies import Program, models, programs
from tests.strategies.programs import on_reference

SLOW = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.thorough
@SLOW
@given(models())
def test_generated_models_load(text: str) -> None:
    model = parse_model(text)
    assert model.patterns
    assert model.writes


@pytest.mark.thorough
@SLOW
@given(programs())
def test_generated_programs_run(program: Program) -> None:
    outcomes = on_reference(program)
    assert len(outcomes) == len(program.operations)


@settings(SLOW, max_examples=20)
@given(programs())
def test_a_described_program_is_a_script_that_does_the_same(program: Program) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(program.describe(), {})
    expected = [
        f"{operation} -> {outcome}"
        for operation, outcome in zip(program.operations, on_reference(program), strict=True)
    ]
    # Letter by letter, in any order: equal sets that were made differently are not printed in the same order.
    printed = output.getvalue().splitlines()
    assert list(map(sorted, printed)) == list(map(sorted, "\n".join(expected).splitlines()))
