"""Aggregates over ranges of time from what is kept of whole windows, and from the rows at both ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from keyplan.plan.design import Design
from keyplan.plan.steps import Fold, Windows
from tests.conformance.test_generated import PHASES, run
from tests.engines.harness import Harness
from tests.strategies.designs import Designs
from tests.strategies.programs import Program
from tests.strategies.windows import windowed_programs

EXAMPLES = max(10, int(os.environ.get("KEYPLAN_PROGRAMS", "300")) // 12)
USED: list[str] = []


def windows_of(design: Design) -> dict[str, Windows]:
    """The patterns that are answered by windows."""
    nodes = {name: plan.node for name, plan in design.plans.items()}
    return {n: node.rows for n, node in nodes.items() if isinstance(node, Fold) and isinstance(node.rows, Windows)}


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(program=windowed_programs())
def test_windows_answer_as_the_reference(harness: Harness, designs: Designs, program: Program) -> None:
    model = replace(program.model, targets=harness.targets)
    design = designs.of(model, harness.name)
    USED.extend(windows_of(design))
    run(program, model, harness.url(), design)


@pytest.fixture(autouse=True)
def some_are_answered_by_windows(request: pytest.FixtureRequest) -> Iterator[None]:
    """Otherwise the programs would say nothing."""
    before = len(USED)
    yield
    if request.node.originalname == "test_windows_answer_as_the_reference":
        assert len(USED) - before > EXAMPLES / 10
