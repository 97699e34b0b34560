"""A few branches prove what the general solver proves."""

from __future__ import annotations

import pytest

from keyplan import design
from keyplan.design.problem.build import build_problem
from keyplan.design.program import branch
from keyplan.design.program.solve import solve
from keyplan.engines import get_engine
from tests.unit.design.nouns import model_of
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


HOT = """
Room: { count: 500, fields: { room_id: "int, key", name: string(20) } }
Message:
  count: 200M
  key: [room, seq]
  fields:
    room: Room, as messages
    seq: int
    stars: int
    state: enum(open 5%, done 95%)
    at: timestamp
    body: text(900)
"""
ASKED = """
some:
  find: Message
  where: "room = :room"
  order: stars desc
  page: 20
  select: [stars]
  rate: 200/s
  consistency: strong
opened: { find: Message, where: "room = :room and state = 'open'", order: at, page: 20, rate: 50/s }
by_at: { find: Message, where: "room = :room", order: at desc, page: 20, rate: 0.1/s, consistency: strong }
"""
WRITES = """
post: { create: Message, rate: 900/s }
drop: { delete: Message, where: "room = :room and seq = :seq", rate: 1/s }
"""


def test_what_the_solver_gives_up_by_one_method_is_solved_by_another() -> None:
    """Whole hot partitions could be read here, which costs so much more than all else that a run of the solver ended
    in an error."""
    assert design(model_of(HOT, ASKED, WRITES), "dynamodb").objective.gap == 0
