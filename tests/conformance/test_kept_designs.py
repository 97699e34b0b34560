"""A design that keeps what was made for another model answers as this one says.

The two models have the names of their entities and most of their fields in common; what a field is, what is unique,
what expires, what is computed and of what may all be otherwise. What is kept though it means something else by now
would refuse rows, or show and count those that are gone.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from keyplan.errors import DesignError
from keyplan.model.load import parse_model
from tests.conformance.test_generated import PHASES, run, statistics
from tests.engines.harness import Harness
from tests.strategies.behind import behind_models
from tests.strategies.designs import Designs
from tests.strategies.models import models
from tests.strategies.programs import behind_programs, programs, state_programs
from tests.strategies.states import state_models

EXAMPLES = int(os.environ.get("KEYPLAN_PROGRAMS", "300")) // 10
FAMILIES = ((programs(), models()), (behind_programs(), behind_models()), (state_programs(), state_models()))


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """What matters is the design: on the server that answers soonest."""
    return quick_harness


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_what_is_kept_of_another_model_answers_as_this_one_says(
    harness: Harness, designs: Designs, data: st.DataObject
) -> None:
    whole, other = data.draw(st.sampled_from(FAMILIES))
    program = data.draw(whole)
    model = replace(data.draw(statistics(program.model)), targets=harness.targets)
    before = replace(data.draw(statistics(parse_model(data.draw(other)))), targets=harness.targets)
    first = designs.of(before, harness.name)
    try:
        kept = designs.of(model, harness.name, keep=first)
    except DesignError:
        event("cannot be kept")  # with a reason, says the test of that
        return
    lost = [one.path for one in kept.findings if one.message.startswith("it cannot be kept: ")]
    event("everything is kept" if not lost else "some is kept" if len(lost) < len(first.views) else "nothing is kept")
    run(program, model, harness.url(), kept)
