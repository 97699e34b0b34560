"""Views of rows in one state and of rows in another, which have keys of their own: a row changes from one to the other,
and what only the other one's key is made of may change at any time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.pair import Pair, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  Job:
    count: 40M
    fields:
      job_id: int, key
      team: string(6), distinct 20k
      owner: string(6), distinct 50k
      state: enum(queued 5%, running 5%, done 80%, failed 10%)
      due: date, optional 50%
      rank: int, default 0
      tries: int, default 0
      ended: timestamp, optional 90%
patterns:
  job: { find: Job, where: "job_id = :id", rate: 5k/s }
  queued: { find: Job, where: "state = 'queued' and team = :team", order: rank, page: 3, rate: 900/s }
  failed: { find: Job, where: "state = 'failed' and owner = :owner", order: tries desc, page: 3, rate: 900/s }
  ended: { find: Job, where: "state in ('done', 'failed') and team = :team", order: ended desc, page: 3, rate: 900/s }
  dated: { find: Job, where: "owner = :owner and present(due)", order: [due, rank], page: 3, rate: 900/s }
  undated: { find: Job, where: "team = :team and missing(due)", order: tries, page: 3, rate: 900/s }
writes:
  add: { create: Job, rate: 1/s }
  replace: { upsert: Job, rate: 1/s }
  start: { update: Job, set: { state: running }, where: "job_id = :id", rate: 1/s }
  end: { update: Job, set: [state, ended], where: "job_id = :id", rate: 1/s }
  plan: { update: Job, set: [due], where: "job_id = :id", rate: 1/s }
  rank: { update: Job, set: [rank], where: "job_id = :id", rate: 1/s }
  again: { update: Job, add: { tries: 1 }, where: "job_id = :id", rate: 1/s }
  move: { update: Job, set: [team], where: "job_id = :id", rate: 1/s }
  give: { update: Job, set: [owner], where: "job_id = :id", rate: 1/s }
  drop: { delete: Job, where: "job_id = :id", rate: 1/s }
"""

MOMENT = "2052-06-0{}T10:00:00Z"


@pytest.fixture
def jobs(harness: Harness) -> Iterator[Pair]:
    """Figures of its own: so many jobs that each order has to be kept."""
    with opened(parsed(MODEL), harness.url()) as pair:
        for number, state in enumerate(("queued", "running", "done", "failed") * 2):
            pair.same(
                "add",
                job_id=number,
                team="red" if number % 2 else "blue",
                owner="ann" if number < 5 else "bob",
                state=state,
                due=None if number % 3 else f"2052-06-0{number + 1}",
                rank=number % 3,
                ended=MOMENT.format(number) if number % 4 > 1 else None,
            )
        yield pair
        everything(pair)
        pair.verified()


def everything(jobs: Pair) -> None:
    for team in ("red", "blue"):
        for name in ("queued", "ended", "undated"):
            jobs.same(name, team=team)
    for owner in ("ann", "bob"):
        for name in ("failed", "dated"):
            jobs.same(name, owner=owner)


@pytest.mark.parametrize("number", range(8))
def test_what_only_another_states_key_is_made_of_changes(jobs: Pair, number: int) -> None:
    jobs.same("rank", id=number, rank=7)
    everything(jobs)
    jobs.same("again", id=number)
    everything(jobs)
    jobs.same("move", id=number, team="red")
    jobs.same("give", id=number, owner="bob")


@pytest.mark.parametrize("number", range(8))
def test_rows_go_from_state_to_state(jobs: Pair, number: int) -> None:
    jobs.same("start", id=number)
    everything(jobs)
    jobs.same("end", id=number, state="failed", ended=MOMENT.format(9))
    everything(jobs)
    jobs.same("end", id=number, state="queued", ended=None)
    everything(jobs)
    jobs.same("end", id=number, state="done", ended=MOMENT.format(8))


def test_rows_get_and_lose_a_value(jobs: Pair) -> None:
    for number in range(8):
        jobs.same("plan", id=number, due="2052-07-01" if number % 3 else None)
    everything(jobs)


def test_rows_are_replaced_and_dropped(jobs: Pair) -> None:
    for number in range(6):
        jobs.same("replace", job_id=number, team="blue", owner="ann", state="failed" if number % 2 else "queued")
    everything(jobs)
    for number in range(3, 8):
        jobs.same("drop", id=number)
