"""Writes of many rows, some of which are refused: those stay as they were, and the others are written all the same."""

from __future__ import annotations

import re

import pytest

from keyplan.errors import ConflictError, RangeError
from tests.conformance.conftest import Both

MODEL = """
entities:
  Player:
    unique: [[league, number]]
    fields:
      player: int, key
      team: int
      score: int
      nick: string(8), unique, optional 50%
      league: int
      number: int
patterns:
  players: { find: Player, where: "team = :team", order: "score desc" }
  named: { find: Player, where: "nick = :nick" }
  placed: { find: Player, where: "league = :league and number = :number" }
writes:
  score_all: { update: Player, add: [score], where: "team = :team", rows: 3 }
  name_all: { update: Player, set: [nick], where: "team = :team", rows: 3 }
  move_all: { update: Player, set: [league], where: "team = :team", rows: 3 }
"""
MOST = 2**63 - 1
MANY = 60
"""More than are written in the same rounds."""
ROWS = [
    ("Player", {"player": number, "team": 1, "score": score, "nick": nick, "league": league, "number": place})
    for number, score, nick, league, place in [
        (1, 5, "ann", 1, 1),
        (2, MOST, "bob", 1, 2),
        (3, -7, None, 1, 3),
        (4, MOST - 1, None, 1, 4),
        (5, 0, None, 2, 4),
    ]
] + [
    (
        "Player",
        {"player": number, "team": 2, "score": MOST if number % 7 == 0 else number, "league": 3, "number": number},
    )
    for number in range(100, 100 + MANY)
]
READS = [
    ("players", {"team": 1}),
    ("players", {"team": 2}),
    *(("named", {"nick": nick}) for nick in ("ann", "bob", "cy")),
    *(("placed", {"league": league, "number": number}) for league in (1, 2, 3) for number in (1, 2, 3, 4, 103)),
]


@pytest.mark.parametrize("team", [1, 2])
def test_sums_out_of_range(both: Both, team: int) -> None:
    pair = both(MODEL, ROWS)
    if pair.serves("score_all"):
        with pytest.raises(RangeError) as caught:
            pair.same("score_all", team=team, score=1)
        refused = sum(row["score"] == MOST for _, row in ROWS if row["team"] == team)
        written = sum(row["team"] == team for _, row in ROWS) - refused
        assert re.search(rf"; {refused} rows? (was|were) refused, {written} written$", str(caught.value))
        assert "nothing was written" not in str(caught.value)
        pair.agrees(READS)
        pair.stays_right([("score_all", {"team": team, "score": -1})], READS)


def test_a_unique_value_goes_to_the_first_that_may_have_it(both: Both) -> None:
    pair = both(MODEL, ROWS)
    if pair.serves("name_all"):
        pair.conflict("name_all", team=1, nick="cy")
        pair.agrees(READS)
        pair.conflict("name_all", team=2, nick="cy")
        pair.agrees(READS)
        pair.stays_right([("name_all", {"team": 1, "nick": None})], READS)


def test_values_that_are_unique_together(both: Both) -> None:
    pair = both(MODEL, ROWS)
    if pair.serves("move_all"):
        with pytest.raises(ConflictError, match=r"; 1 row was refused, 4 written$"):
            pair.same("move_all", team=1, league=2)
        pair.agrees(READS)
        pair.stays_right([("move_all", {"team": 2, "league": 9})], READS)
