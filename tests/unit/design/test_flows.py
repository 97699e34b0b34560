"""How often writes meet rows that have an entry: sparse views are priced by what enters and leaves them."""

from __future__ import annotations

import pytest

from keyplan import parse_model
from keyplan.design import design
from keyplan.engines import get_engine
from keyplan.plan.design import Design

GAMES = """
keyplan: 1
name: games
entities:
  Game:
    count: 20M
    fields:
      game_id: ulid, key
      map: string(12), distinct 10
      open: int, optional 1%
      state: enum(waiting 2%, running 8%, over 90%), default waiting
      owner: string(10)
      score: int
patterns:
  open_games: {{ find: Game, where: "present(open)", order: open desc, limit: 20, rate: 50/s }}
  waiting: {{ find: Game, where: "state = 'waiting'", order: score, limit: 20, rate: 50/s }}
  of_owner: {{ find: Game, where: "owner = :owner", limit: 20, rate: 50/s }}
writes:
  make: {{ create: Game, rate: 5/s }}
  {writes}
"""


def designed(writes: str) -> Design:
    return design(parse_model(GAMES.format(writes=writes)), get_engine("dynamodb"))


def touched(found: Design, write: str, part: str) -> float:
    """The entries that a call touches in the index whose key begins with a part."""
    names = {view.name for view in found.views.values() if view.base and any(one.path == part for one in view.parts)}
    (entries,) = [touch.puts + touch.deletes for touch in found.writes[write].touches if touch.view in names]
    return entries


@pytest.mark.parametrize(
    ("writes", "entries"),
    [
        # every set gives a value; nobody says that it is taken away, and there are as many sets as games
        ('fill: { update: Game, set: [open], where: "game_id = :g", rate: 5/s }', 1.01),
        # twenty sets for each game: nearly always the game was open before, so that the entry moves
        ('fill: { update: Game, set: [open], where: "game_id = :g", rate: 100/s }', 1.95),
        # the row is known to have none
        ('fill: { update: Game, set: [open], where: "game_id = :g", if: "missing(open)", rate: 100/s }', 1.0),
        # or to have one
        ('fill: { update: Game, set: [open], where: "game_id = :g", if: "open >= 1", rate: 5/s }', 2.0),
        # nobody takes away what is not there
        (
            'fill: { update: Game, set: { open: null }, where: "game_id = :g", rate: 5/s }\n'
            '  show: { update: Game, set: [open], where: "game_id = :g", rate: 5/s }',
            1.0,
        ),
    ],
)
def test_a_value_that_is_set_is_there_afterwards(writes: str, entries: float) -> None:
    assert touched(designed(writes), "fill", "open") == pytest.approx(entries, rel=0.02)


COURIERS = """
keyplan: 1
name: orders
entities:
  Order:
    count: 20M
    fields: {{ order_id: "ulid, key", courier: "string(8), distinct 10k, optional {share}", at: timestamp }}
patterns:
  of_courier: {{ find: Order, where: "courier = :c", order: at desc, limit: 20, rate: 50/s }}
writes:
  place: {{ create: Order, rate: 10/s }}
  take: {{ update: Order, set: [courier], where: "order_id = :o", rate: {rate} }}
"""


@pytest.mark.parametrize(
    ("share", "rate", "placed", "taken"),
    [
        ("97%", "9/s", 0.097, 1.097),  # nine of ten get theirs later
        ("97%", "5/s", 0.47, 1.47),
        ("97%", "1/s", 0.87, 1.87),  # few get another one, or theirs later
        ("97%", "40/s", 0.097, 1.75),  # each gets one, and three others after it
        ("2%", "1/day", 0.02, 1.02),
    ],
)
def test_what_updates_give_is_not_there_at_first(share: str, rate: str, placed: float, taken: float) -> None:
    found = design(parse_model(COURIERS.format(share=share, rate=rate)), get_engine("dynamodb"))
    assert touched(found, "take", "courier") == pytest.approx(taken, rel=0.01)
    assert sum(touch.puts for touch in found.writes["place"].touches) == pytest.approx(1 + placed, rel=0.01)


OPEN = """
keyplan: 1
name: open
entities:
  Level: {{ count: 100, fields: {{ level_id: "int, key", since: "timestamp, optional 50%" }} }}
  Game: {{ count: 5M, fields: {{ game_id: "uuid, key", map: "string(16), distinct 10", {fields} }} }}
patterns:
  open_games: {{ find: Game, where: "map = :map and present(open_at)", order: open_at, limit: 20, rate: 20/s }}
writes:
  make: {{ create: Game, rate: 1/s }}
  {writes}
"""
CLEARS = 'start: { update: Game, set: { open_at: null }, where: "game_id = :g", rate: 1/s }'
REOPENS = CLEARS + '\n  reopen: { update: Game, set: [open_at], where: "game_id = :g", rate: 0.9/s }'


@pytest.mark.parametrize(
    ("fields", "writes", "made", "started"),
    [
        # the moment of a create is there at first, and who starts a game clears it
        ("open_at: 'timestamp, now, optional 0.1%'", CLEARS, 1.0, 1.0),
        # as many are cleared as are made: each had a value, whoever gave it
        ("open_at: 'timestamp, optional 0.1%'", CLEARS, 1.0, 1.0),
        # what is copied in is there as often as where it comes from
        ("level: Level, open_at: 'timestamp, from level.since, optional 0.1%'", CLEARS, 0.5, 0.5),
        # most are given theirs again
        ("open_at: 'timestamp, optional 0.1%'", REOPENS, 0.1, 1.0),
        # nobody clears it
        ("open_at: 'timestamp, optional 0.1%'", CLEARS.replace("1/s", "0.001/s"), 0.001, 1.0),
    ],
)
def test_what_updates_clear_was_there_at_first(fields: str, writes: str, made: float, started: float) -> None:
    found = design(parse_model(OPEN.format(fields=fields, writes=writes)), get_engine("dynamodb"), advise=False)
    (name,) = [view.name for view in found.views.values() if any(part.path == "open_at" for part in view.parts)]
    calls = {
        write: sum(t.puts + t.deletes for t in plan.touches if t.view == name) for write, plan in found.writes.items()
    }
    assert calls["make"] == pytest.approx(made, rel=0.02)
    assert calls["start"] == pytest.approx(started, rel=0.02)


def test_what_enters_a_state_leaves_it() -> None:
    """All games begin by waiting, so that each is waiting when it is started, though 2 % are at any moment."""
    found = designed('start: { update: Game, set: { state: running }, where: "game_id = :g", rate: 5/s }')
    assert touched(found, "start", "score") == pytest.approx(1.0)
    many = designed('start: { update: Game, set: { state: running }, where: "game_id = :g", rate: 50/s }')
    assert touched(many, "start", "score") == pytest.approx(0.1)


def test_an_index_key_that_a_call_gives_whole_needs_no_old_row() -> None:
    """`owner` is all that its index key is made of besides the game's key; of a map's there would be more."""
    found = designed('sell: { update: Game, set: [owner], where: "game_id = :g", rate: 5/s }')
    assert found.writes["sell"].figures.requests == 1
    assert not found.writes["sell"].reads_row
    both = designed('sell: { update: Game, set: [score], where: "game_id = :g", rate: 5/s }')
    assert both.writes["sell"].figures.requests == 2


def test_children_lie_in_the_order_they_are_asked_for_on_their_own() -> None:
    model = parse_model("""
keyplan: 1
name: help
entities:
  Case: { count: 5M, fields: { case_id: "ulid, key", title: string(40) } }
  Note:
    count: 25M
    fields:
      note_id: ulid, key
      case: Case, as notes, max 500
      at: timestamp, now
      text: text(300)
patterns:
  whole: { find: Case, where: "case_id = :c", with: [notes], rate: 20/s }
  notes: { find: Note, where: "case = :c", order: at desc, limit: 20, rate: 50/s }
writes:
  begin: { create: Case, rate: 1/s }
  tell: { create: Note, rate: 5/s }
""")
    found = design(model, get_engine("dynamodb"))
    (embed,) = [embed for view in found.views.values() for embed in view.embeds]
    assert [part.path for part in embed.sort] == ["at", "note_id"]
    assert not [view for view in found.views.values() if view.base]


def test_an_upsert_that_repeats_values_may_say_so() -> None:
    model = """
keyplan: 1
name: feed
entities:
  Entry:
    count: 100M
    key: [user, post]
    fields: {{ user: "string(10), distinct 1M", post: string(10), at: "timestamp{mark}", text: string(100) }}
patterns:
  feed: {{ find: Entry, where: "user = :u", order: at desc, limit: 20, rate: 5k/s }}
writes:
  deliver: {{ upsert: Entry, rate: 1k/s }}
"""
    found = design(parse_model(model.format(mark="")), get_engine("dynamodb"))
    (note,) = [finding for finding in found.findings if finding.path == "writes.deliver"]
    assert "mark 'at' of 'Entry' immutable" in note.fix
    marked = design(parse_model(model.format(mark=", immutable")), get_engine("dynamodb"))
    cost = marked.objective.value - marked.objective.carrying
    assert note.evidence["would_cost"] == pytest.approx(cost)
    assert not [finding for finding in marked.findings if finding.path == "writes.deliver"]


def test_finer_groups_answer_a_coarser_count() -> None:
    """Tasks by state, in the partition of their project, are all its tasks, too: one counter for both."""
    model = parse_model("""
keyplan: 1
name: tasks
entities:
  Project: { count: 200k, fields: { project_id: "ulid, key", name: string(40), tasks_made: count(tasks) } }
  Task:
    count: 50M
    fields:
      task_id: ulid, key
      project: Project, as tasks, top 60%
      state: enum(todo 15%, doing 5%, done 80%), default todo
patterns:
  project: { find: Project, where: "project_id = :p", rate: 1k/s, p99: 20ms }
  open_tasks: { count: Task, where: "project = :p and state = 'todo'", rate: 1k/s, p99: 20ms }
  task: { find: Task, where: "task_id = :t", rate: 1/s }
writes:
  make: { create: Task, rate: 20/s }
  move: { update: Task, set: [state], where: "task_id = :t", rate: 20/s }
""")
    found = design(model, get_engine("dynamodb"))
    (counter,) = [view for view in found.views.values() if view.measures]
    assert [part.path for part in counter.partition] == ["project"]
    assert [part.path for part in counter.sort] == ["state"]
