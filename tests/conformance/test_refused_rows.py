"""Writes of many rows, some of which are refused: those stay as they were, and the others are written all the same."""

from __future__ import annotations

import re

import pytest

from keyplan.errors import ConflictError, RangeError, UnavailableError, UncertainError
from tests.conformance.conftest import Both
from tests.faults.faulty import FaultyPort, unavailable

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


@pytest.mark.parametrize("before", [0, 30])
def test_a_server_that_is_gone_after_some_rows(both: Both, before: int) -> None:
    """Whoever adds once more adds twice to the rows that are written; where none is, it is safe."""
    pair = both(MODEL, ROWS)
    if pair.serves("score_all"):
        port = FaultyPort(pair.store)
        port.writes = [lambda send: send()] * before + [unavailable] * MANY
        with pytest.raises(UncertainError if before else UnavailableError) as caught:
            pair.store.score_all(team=2, score=1)
        port.writes = []
        rows = {row["player"]: row["score"] for row in pair.store.players(team=2)}
        written = sum(rows[row["player"]] == row["score"] + 1 for _, row in ROWS if row["team"] == 2)
        assert (written > 0) == (before > 0)
        if before:
            assert f": {written} of {MANY} rows are written, and others may not be (" in str(caught.value)


def test_values_that_nobody_has_are_in_nobodys_way(both: Both) -> None:
    """Rows that only lose a unique value are written in the same rounds, as all others are."""
    pair = both(MODEL, ROWS)
    if pair.serves("name_all"):
        sent: list[int] = []
        for nick in ("zoe", None):
            port = FaultyPort(pair.store)
            if nick is None:
                pair.same("name_all", team=2, nick=None)
            else:
                pair.conflict("name_all", team=2, nick=nick)
            sent.append(port.rounds)
            pair.store._port = port.port
        assert sent[1] < sent[0] / 3
