"""Updates that say by themselves that a row leaves a state: nothing of the row need be known to take away its entry
among those that are in it, unless views of other rows may have theirs in the same place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.pair import Pair, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  Ticket:
    count: 40M
    fields:
      ticket_id: int, key
      team: string(6), distinct 20k
      owner: string(6), distinct 50k
      kind: enum(bug 50%, wish 50%)
      state: enum(open 5%, held 5%, done 90%)
      rank: int, default 0
      due: date, optional 50%
patterns:
  ticket: { find: Ticket, where: "ticket_id = :id", rate: 5k/s }
  waiting: { find: Ticket, where: "state = 'open' and team = :team", order: rank, page: 3, rate: 900/s }
  held: { find: Ticket, where: "state = 'held' and owner = :owner", order: rank desc, page: 3, rate: 900/s }
MORE
writes:
  add: { create: Ticket, rate: 1/s }
  finish: { update: Ticket, set: { state: done }, where: "ticket_id = :id", rate: 50/s }
  finish_open: { update: Ticket, set: { state: done }, where: "ticket_id = :id", if: "state = 'open'", rate: 50/s }
  hold: { update: Ticket, set: { state: held }, where: "ticket_id = :id", rate: 1/s }
  turn: { update: Ticket, set: [state], where: "ticket_id = :id", rate: 1/s }
  let_go: { update: Ticket, set: { state: done, due: null }, where: "ticket_id = :id", rate: 1/s }
  rank: { update: Ticket, set: [rank], where: "ticket_id = :id", rate: 1/s }
"""
ALIKE = """
  bugs: { find: Ticket, where: "kind = 'bug' and state = 'open' and owner = :owner", order: rank, page: 3, rate: 900/s }
  wishes: { find: Ticket, where: "kind = 'wish' and owner = :owner", order: rank, page: 3, rate: 900/s }
  dated: { find: Ticket, where: "state = 'open' and owner = :owner and present(due)", order: due, page: 3, rate: 900/s }
  undated: { find: Ticket, where: "team = :team and missing(due)", order: rank, page: 3, rate: 900/s }
"""


@pytest.fixture(params=["", ALIKE], ids=["states", "shared places"])
def tickets(harness: Harness, request: pytest.FixtureRequest) -> Iterator[Pair]:
    with opened(parsed(MODEL.replace("MORE", request.param)), harness.url()) as pair:
        for number in range(12):
            pair.same(
                "add",
                ticket_id=number,
                team="red" if number % 2 else "blue",
                owner="ann" if number < 5 else "bob",
                kind="bug" if number % 4 < 2 else "wish",
                state=("open", "held", "done")[number % 3],
                rank=number % 5,
                due=None if number % 5 < 2 else f"2052-06-0{number % 9 + 1}",
            )
        yield pair
        everything(pair)
        pair.verified()


def everything(tickets: Pair) -> None:
    names = tickets.model.patterns.keys() - {"ticket"}
    for team in ("red", "blue"):
        for name in sorted(names & {"waiting", "undated"}):
            tickets.same(name, team=team)
    for owner in ("ann", "bob"):
        for name in sorted(names - {"waiting", "undated"}):
            tickets.same(name, owner=owner)


@pytest.mark.parametrize("write", ["finish", "hold", "let_go"])
def test_rows_leave_a_state(tickets: Pair, write: str) -> None:
    for number in range(13):  # one of them is not there
        tickets.same(write, id=number)
        everything(tickets)
        tickets.same("ticket", id=number)


def test_rows_leave_a_state_that_they_have_to_be_in(tickets: Pair) -> None:
    for number in range(12):
        if number % 3:
            tickets.conflict("finish_open", id=number)
        else:
            tickets.same("finish_open", id=number)
            tickets.conflict("finish_open", id=number)


def test_rows_come_back(tickets: Pair) -> None:
    for number in range(12):
        tickets.same("finish", id=number)
        tickets.same("rank", id=number, rank=9 - number)
        tickets.same("turn", id=number, state="open" if number % 2 else "held")
        everything(tickets)
