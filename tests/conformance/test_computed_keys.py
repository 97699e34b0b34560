"""Orders and ranges by computed fields: the rows move when what they are computed of changes."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from keyplan.design.needs.computed import computed_of
from keyplan.errors import RangeError
from tests.conformance.conftest import Both
from tests.conformance.pair import Pair, at

MODEL = """
entities:
  Player:
    fields:
      pid: int, key
      team: string(4), distinct 50
      name: string(8), default 'x'
      score: sum(games.points)
      played: count(games)
      last: max(games.at)
      worst: min(games.points)
  Game:
    fields:
      gid: int, key
      player: Player, as games, optional 90%
      points: int, optional 90%
      at: timestamp, optional 90%
patterns:
  player: { find: Player, where: "pid = :pid" }
  top: { find: Player, order: score desc, limit: 3 }
  bottom: { find: Player, order: "score, name desc", page: 2 }
  busiest: { find: Player, where: "team = :team and played >= :n", order: played desc, limit: 3 }
  never: { find: Player, where: "team = :team and played = 0" }
  latest: { find: Player, where: "team = :team", order: last desc, page: 2, select: [name, last] }
  poor: { find: Player, where: "worst < :points", select: [name, worst] }
writes:
  join: { create: Player }
  replace: { upsert: Player }
  rename: { update: Player, set: [name, team], where: "pid = :pid" }
  leave: { delete: Player, where: "pid = :pid" }
  quit: { delete: Player, with: [games], where: "pid = :pid" }
  play: { create: Game }
  again: { upsert: Game }
  correct: { update: Game, set: [points, at], where: "gid = :gid" }
  bonus: { update: Game, add: [points], where: "gid = :gid" }
  give: { update: Game, set: [player], where: "gid = :gid" }
  cancel: { delete: Game, where: "gid = :gid" }
transactions:
  debut: [join, play x2 max 4]
"""

ROWS: list[tuple[str, dict[str, Any]]] = [
    *(("Player", {"pid": n, "team": "ab"[n % 2]}) for n in range(6)),
    *(("Game", {"gid": n, "player": n % 4, "points": n * 3 % 7, "at": at(f"2052-05-0{1 + n}")}) for n in range(9)),
    ("Game", {"gid": 20, "player": 9, "points": 4, "at": at("2052-05-20")}),
    ("Game", {"gid": 21, "points": 4}),
]

READS: list[tuple[str, dict[str, Any]]] = [
    ("player", {"pid": 1}),
    ("top", {}),
    ("bottom", {}),
    ("busiest", {"team": "a", "n": 1}),
    ("never", {"team": "b"}),
    ("latest", {"team": "a"}),
    ("latest", {"team": "b"}),
    ("poor", {"points": 3}),
]

WRITES: list[tuple[str, dict[str, Any]]] = [
    ("play", {"gid": 30, "player": 5, "points": 50, "at": at("2052-06-01")}),
    ("play", {"gid": 31, "player": 5}),
    ("play", {"gid": 32, "player": 77, "points": 1}),
    ("join", {"pid": 9, "team": "b"}),
    ("join", {"pid": 77, "team": "a", "name": "late"}),
    ("correct", {"gid": 30, "points": -5, "at": at("2052-04-01")}),
    ("correct", {"gid": 8, "points": None, "at": None}),
    ("bonus", {"gid": 1, "points": 100}),
    ("give", {"gid": 1, "player": 2}),
    ("give", {"gid": 2, "player": None}),
    ("give", {"gid": 21, "player": 0}),
    ("cancel", {"gid": 7}),
    ("cancel", {"gid": 3}),
    ("again", {"gid": 4, "player": 3, "points": 9}),
    ("again", {"gid": 60, "player": 3, "points": 1, "at": at("2052-07-01")}),
    ("replace", {"pid": 3, "team": "a", "name": "new"}),
    ("replace", {"pid": 88, "team": "a"}),
    ("rename", {"pid": 0, "name": "zero", "team": "b"}),
    ("debut", {"join": {"pid": 40, "team": "a"}, "play": [{"gid": n, "player": 40, "points": n} for n in (70, 71)]}),
    ("leave", {"pid": 2}),
    ("join", {"pid": 2, "team": "a"}),
    ("quit", {"pid": 5}),
]


def test_rows_move_with_what_they_are_computed_of(both: Both) -> None:
    both(MODEL, ROWS).stays_right(WRITES, READS)


def test_rows_that_are_loaded_again_count_once(both: Both) -> None:
    pair = both(MODEL, ROWS)
    pair.load(ROWS)
    pair.agrees(READS)
    pair.load([("Game", {"gid": 0, "player": 5, "points": 1000})])
    pair.agrees(READS)


def test_views_are_keyed_by_computed_fields_where_rows_are_many(reads: Pair, size: str) -> None:
    """Otherwise the tests above would say little."""
    keyed = {part.path for view in reads.store.design.views.values() for part in view.parts}
    if size == "read":
        assert {"score", "played", "last", "worst"} <= keyed
        assert not {"top", "busiest", "latest"} & set(reads.store.design.unserved)


def test_a_kept_sum_beyond_its_range_is_refused_and_nothing_is_written(both: Both) -> None:
    """Where no view keeps the sum, it is exact beyond any range, as the reference has it."""
    pair = both(MODEL, ROWS)
    game = {"gid": 30, "player": 1, "points": 2**63 - 1, "at": None}
    is_kept = any("score" in computed_of(pair.model, view) for view in pair.store.design.views.values())
    if is_kept:
        for write in (partial(pair.store.play, **game), partial(pair.store.load, [("Game", game)])):
            with pytest.raises(
                RangeError, match=r"'Player\.score' would leave the range of a key; nothing was written"
            ):
                write()
    else:
        pair.same("play", **game)
        pair.same("player", pid=1)
        pair.same("cancel", gid=30)
    pair.agrees(READS)
    pair.verified()
