"""Writes of rows of which other rows tell whether they are meant: behind references, below roles, by what is computed.

Which rows are meant is found out once, before any of them is written: what a write does to one of them does not decide
about the next.
"""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Both

MODEL = """
entities:
  Team:
    fields:
      team: int, key
      name: string(8)
      note: text(20), optional 50%
      rank: int
      captain: Player, as captain_of, optional 50%
      above: Team, as below, optional 50%
      players_now: count(players)
      best: max(players.score)
      under: count(below)
  Player:
    fields:
      player: int, key
      name: string(8)
      score: int
      bio: text(20), optional 50%
      team: Team, as players, max 50, optional 80%
      led: count(captain_of)
patterns:
  a_team: { find: Team, where: "team = :team" }
  teams: { find: Team, where: "rank >= :rank", order: rank }
  a_player: { find: Player, where: "player = :player" }
  players: { find: Player, where: "name = :name" }
  of_captain: { find: Team, where: "captain = :player" }
writes:
  put_team: { upsert: Team }
  put_player: { upsert: Player }
"""
# A design for all of these writes takes three times as long to find as one for each kind of them.
KEYED = (
    MODEL
    + """\
  shut: { delete: Team, where: "team = :team and players_now = 0" }
  rename_empty: { update: Team, set: [name], where: "team = :team and players_now = :n" }
  raise_best: { update: Team, add: {rank: 1}, where: "team = :team and best >= :score", return: [rank] }
  rename_led: { update: Team, set: [name], where: "team = :team and captain.score >= :score" }
  close_led: { delete: Team, where: "team = :team and captain.name = :name", return: [name] }
  raise_if: { update: Team, add: {rank: 1}, where: "team = :team and captain.name = :name", if: "rank < :most" }
  score_of: { update: Player, add: {score: 1}, where: "player = :player and captain_of.rank >= :rank" }
  tell_of: { update: Player, set: [name], where: "player = :player and search(bio, team.note, :words)" }
transactions:
  both: [rename_led, score_of]
"""
)
WIDE = (
    MODEL
    + """\
  close_empty: { delete: Team, where: "players_now = :n", rows: 3 }
  rank_full: { update: Team, set: [rank], where: "players_now >= :n and rank < :below", rows: 3 }
  score_team: { update: Player, add: {score: 1}, where: "team.name = :name", rows: 3 }
  leave_full: { update: Player, set: {team: null}, where: "team.players_now >= :n", rows: 3 }
  join_led: { update: Player, set: [team], where: "team.captain.name = :name", rows: 3 }
  drop_players: { delete: Player, where: "team.best >= :score and score < :below", rows: 3 }
  rank_led: { update: Team, add: {rank: 1}, where: "captain.team.name = :name", rows: 3 }
  rename_with: { update: Team, set: [name], where: "players.score >= :score", rows: 3 }
  shift: { update: Team, set: [above], where: "under >= :n", rows: 3 }
  shift_below: { update: Team, set: [above], where: "above.under >= :n", rows: 3 }
  rename_below: { update: Team, set: [name], where: "above.name = :old", rows: 3 }
  close_with: { delete: Team, with: [players], where: "captain.led >= :n", rows: 3 }
  tell_all: { update: Player, set: [name], where: "search(bio, team.note, :words)", rows: 3 }
"""
)
CASCADES = (
    MODEL
    + """\
  close_below: { delete: Team, with: [below], where: "rank < :rank", rows: 3 }
  close_deep: { delete: Team, with: [below.below], where: "rank < :rank", rows: 3 }
  close_upper: { delete: Team, with: [below], where: "rank >= :rank", rows: 3 }
"""
)
ROWS = [
    ("Player", {"player": 1, "name": "ann", "score": 5, "bio": "red fox", "team": 1}),
    ("Player", {"player": 2, "name": "bob", "score": 9, "bio": None, "team": 1}),
    ("Player", {"player": 3, "name": "cy", "score": 2, "bio": "blue", "team": 2}),
    ("Player", {"player": 4, "name": "ann", "score": 7, "bio": None, "team": None}),
    ("Player", {"player": 5, "name": "dee", "score": 7, "bio": None, "team": 9}),
    ("Team", {"team": 1, "name": "one", "note": "fox trot", "rank": 3, "captain": 1, "above": None}),
    ("Team", {"team": 2, "name": "two", "note": None, "rank": 2, "captain": 1, "above": 1}),
    ("Team", {"team": 3, "name": "three", "note": "red", "rank": 1, "captain": 4, "above": 2}),
    ("Team", {"team": 4, "name": "one", "note": None, "rank": 1, "captain": 8, "above": 3}),
]
READS = [
    *(("a_team", {"team": number}) for number in range(1, 5)),
    *(("a_player", {"player": number}) for number in range(1, 6)),
    ("teams", {"rank": 0}),
    ("players", {"name": "ann"}),
    ("of_captain", {"player": 1}),
]
BY_KEY = [
    ("shut", {"team": 1}),
    ("shut", {"team": 7}),
    ("rename_empty", {"team": 1, "n": 0, "name": "x"}),
    ("rename_empty", {"team": 1, "n": 2, "name": "y"}),
    ("raise_best", {"team": 1, "score": 10}),
    ("raise_best", {"team": 1, "score": 9}),
    ("raise_best", {"team": 3, "score": 0}),
    ("rename_led", {"team": 2, "score": 6, "name": "z"}),
    ("rename_led", {"team": 2, "score": 5, "name": "q"}),
    ("rename_led", {"team": 4, "score": 0, "name": "w"}),
    ("raise_if", {"team": 2, "name": "ann", "most": 9}),
    ("score_of", {"player": 1, "rank": 4}),
    ("score_of", {"player": 1, "rank": 2}),
    ("score_of", {"player": 2, "rank": 0}),
    ("tell_of", {"player": 1, "words": "red trot", "name": "m"}),
    ("tell_of", {"player": 2, "words": "fox", "name": "n"}),
    ("tell_of", {"player": 3, "words": "fox", "name": "o"}),
    ("both", {"rename_led": {"team": 2, "score": 99, "name": "a"}, "score_of": {"player": 1, "rank": 0}}),
    ("both", {"rename_led": {"team": 2, "score": 0, "name": "b"}, "score_of": {"player": 3, "rank": 0}}),
    ("close_led", {"team": 2, "name": "bob"}),
    ("close_led", {"team": 2, "name": "ann"}),
    ("shut", {"team": 3}),
]
OF_MANY = [
    ("rank_full", {"n": 1, "below": 3, "rank": 4}),
    ("score_team", {"name": "one"}),
    ("rank_led", {"name": "one"}),
    ("rename_with", {"score": 9, "name": "best"}),
    ("tell_all", {"words": "fox", "name": "fox"}),
    ("rename_below", {"old": "best", "name": "best"}),
    ("shift", {"n": 1, "above": 4}),
    ("shift_below", {"n": 1, "above": 2}),
    ("join_led", {"name": "fox", "team": 3}),
    ("leave_full", {"n": 2}),
    ("drop_players", {"score": 2, "below": 5}),
    ("close_with", {"n": 2}),
    ("close_empty", {"n": 0}),
    ("close_empty", {"n": 0}),
]


def test_writes_of_one_row_of_which_others_tell(both: Both) -> None:
    pair = both(KEYED, ROWS)
    writes = [one for one in BY_KEY if one[0] == "both" or pair.serves(one[0])]
    pair.stays_right(writes, READS)


def test_a_condition_is_refused_where_others_say_no(both: Both) -> None:
    pair = both(KEYED, ROWS)
    if pair.serves("raise_if"):
        pair.conflict("raise_if", team=2, name="bob", most=9)
        pair.conflict("raise_if", team=2, name="ann", most=0)
        pair.conflict("raise_if", team=7, name="ann", most=9)
        pair.agrees(READS)


def test_writes_of_many_rows_of_which_others_tell(both: Both) -> None:
    pair = both(WIDE, ROWS)
    pair.stays_right([one for one in OF_MANY if pair.serves(one[0])], READS)


@pytest.mark.parametrize("name", ["close_below", "close_deep", "close_upper"])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_rows_that_are_meant_and_below_others_that_are(both: Both, name: str, rank: int) -> None:
    pair = both(CASCADES, ROWS)
    if pair.serves(name):
        pair.stays_right([(name, {"rank": rank})], READS)
