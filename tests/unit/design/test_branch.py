"""A few branches prove what the general solver proves."""

from __future__ import annotations

import pytest

from keyplan.design.problem.build import build_problem
from keyplan.design.program import branch
from keyplan.design.program.solve import solve
from keyplan.engines import get_engine
from tests.unit.design.support import example


@pytest.mark.parametrize(
    ("name", "engine"), [("messaging", "dynamodb"), ("messaging", "mongodb"), ("hotel", "mongodb")]
)
def test_branches_and_the_general_solver_agree(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = build_problem(example(name), get_engine(engine)).problem
    found = solve(problem)
    monkeypatch.setattr(branch, "BRANCHES", 0)
    assert solve(problem) == found
    monkeypatch.setattr(branch, "BRANCHES", 2)  # begun, and given up
    assert solve(problem) == found
