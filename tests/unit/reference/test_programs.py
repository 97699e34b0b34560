"""Generated models load, and `reference` runs generated programs with nothing but the documented errors."""

from __future__ import annotations

import contextlib
import io
import re

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
    assert _in_order(output.getvalue()) == _in_order("\n".join(expected) + "\n")


def _in_order(printed: str) -> str:
    """The text with the members of sets in one order: equal ones that were made differently are printed in others."""

    def ordered(found: re.Match[str]) -> str:
        return f"frozenset({{{', '.join(sorted(found[1].split(', ')))}}})"

    return re.sub(r"frozenset\(\{([^{}]*)\}\)", ordered, printed)
