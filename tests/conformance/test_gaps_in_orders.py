"""Orders by a value that rows may lack: these come last, and a row changes sides when it gets its value or loses it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.pair import Pair, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  Member: { count: 500k, key: [team, email], fields: { team: "string(6), distinct 20k", email: string(20) } }
  Task:
    count: 40M
    fields:
      task_id: int, key
      assignee: Member, as tasks, optional 80%
      status: enum(todo 20%, done 80%)
      due: date, optional 50%
      points: int, default 0
      note_count: count(notes)
  Note: { count: 80M, fields: { note_id: "int, key", task: "Task, as notes", text: string(100) } }
patterns:
  tasks: { find: Task, where: "assignee.team = :t and assignee.email = :e", order: due desc, page: 2, rate: 2k/s }
  todo: { find: Task, where: "status = 'todo'", order: due, page: 3, rate: 500/s }
  idle: { find: Task, where: "missing(assignee.team) and status = 'todo'", order: task_id, rate: 500/s }
  task: { find: Task, where: "task_id = :id", rate: 5k/s }
writes:
  add: { create: Task, rate: 1/s }
  plan: { update: Task, set: [due], where: "task_id = :id", rate: 1/s }
  assign: { update: Task, set: [assignee], where: "task_id = :id", rate: 1/s }
  finish: { update: Task, set: { status: done }, where: "task_id = :id", rate: 1/s }
  finish_undated: { update: Task, set: { status: done, due: null }, where: "task_id = :id", rate: 1/s }
  earn: { update: Task, add: [points], where: "task_id = :id", rate: 1/s }
  drop: { delete: Task, where: "task_id = :id", rate: 1/s }
  remark: { create: Note, rate: 1/s }
"""


@pytest.fixture
def board(harness: Harness) -> Iterator[Pair]:
    """Figures of its own: so many tasks that each order has to be kept."""
    with opened(parsed(MODEL), harness.url()) as pair:
        for number in range(8):
            due = None if number % 3 == 0 else f"2052-06-0{number}"
            who = None if number % 4 == 0 else ("red", "ann" if number % 2 else "bob")
            pair.same("add", task_id=number, assignee=who, status="todo", due=due)
        yield pair
        everything(pair)
        pair.verified()


def everything(board: Pair) -> None:
    for email in ("ann", "bob", "eve"):
        board.same("tasks", t="red", e=email)
    board.same("todo")
    board.same("idle")
    board.same("task", id=1)


def test_rows_without_the_value_come_last(board: Pair) -> None:
    everything(board)


def test_a_row_changes_sides(board: Pair) -> None:
    board.same("plan", id=3, due="2052-06-05")
    board.same("plan", id=1, due=None)
    everything(board)
    board.same("assign", id=0, assignee=("red", "ann"))
    board.same("assign", id=5, assignee=None)
    board.same("assign", id=1, assignee=("red", "bob"))


def test_what_takes_a_row_out_of_one_order_leaves_it_in_the_others(board: Pair) -> None:
    board.same("finish", id=1)
    board.same("finish", id=3)
    board.same("finish_undated", id=2)
    everything(board)
    board.same("assign", id=3, assignee=None)
    board.same("drop", id=6)


def test_what_no_order_depends_on_changes_none(board: Pair) -> None:
    board.same("earn", id=3, points=2)
    board.same("earn", id=1, points=2)
    board.same("remark", note_id=1, task=3, text="late")
