"""Generated programs in which rows copy from others that have expired, some of them before they came."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance.test_generated import EXAMPLES, PHASES, run, statistics
from tests.engines.sqlite.harness import Harness
from tests.strategies.programs import programs


@pytest.mark.thorough
@settings(max_examples=max(1, EXAMPLES // 3), deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_programs_with_rows_that_pass(data: st.DataObject) -> None:
    harness = Harness()
    harness.start()
    try:
        program = data.draw(programs(passing=True))
        run(program, data.draw(statistics(program.model)), harness.url())
    finally:
        harness.stop()
