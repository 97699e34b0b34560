"""In which order rows come, and how pages follow each other."""

from __future__ import annotations

from typing import Any

import pytest

from keyplan.errors import ArgumentError, CursorError
from keyplan.reference import Database
from tests.unit.reference.support import filled

GAMES = (
    "Game: { count: 9, key: [team, id], fields: { team: string(4), id: int, score: 'int, optional 50%', level: int } }"
)


def games(pattern: str, scores: dict[tuple[str, int], tuple[int | None, int]]) -> Database:
    rows = [
        ("Game", {"team": team, "id": number, "score": score, "level": level})
        for (team, number), (score, level) in scores.items()
    ]
    return filled(GAMES, f"found: {pattern}", rows)


def keys(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{row['team']}{row['id']}" for row in rows]


SCORES: dict[tuple[str, int], tuple[int | None, int]] = {
    ("a", 1): (5, 1),
    ("a", 2): (5, 2),
    ("b", 1): (7, 1),
    ("b", 2): (None, 2),
    ("c", 1): (None, 1),
}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("score", ["a1", "a2", "b1", "b2", "c1"]),
        ("score desc", ["b1", "a2", "a1", "c1", "b2"]),
        ("level desc, score", ["a2", "b2", "a1", "b1", "c1"]),
        ("level, score desc", ["b1", "a1", "c1", "a2", "b2"]),
    ],
)
def test_missing_comes_last_and_ties_follow_the_last_direction(order: str, expected: list[str]) -> None:
    found = games(f"{{ find: Game, order: '{order}', limit: 9 }}", SCORES).read("found")
    assert keys(found) == expected


def test_limit_cuts() -> None:
    assert keys(games("{ find: Game, order: score, limit: 2 }", SCORES).read("found")) == ["a1", "a2"]


def test_strings_order_by_code_point() -> None:
    database = filled(
        "Word: { count: 9, fields: { word: 'string(4), key' } }",
        "found: { find: Word, order: word, limit: 9 }",
        [("Word", {"word": word}) for word in ["b", "a", "B", "é", "", "\U0001f600", "\uffee"]],
    )
    assert [row["word"] for row in database.read("found")] == ["", "B", "a", "b", "é", "\uffee", "\U0001f600"]


def test_a_walk_over_pages_gives_every_row_once() -> None:
    database = games("{ find: Game, order: score desc, page: 2 }", SCORES)
    first = database.read("found")
    second = database.read("found", cursor=first.cursor)
    third = database.read("found", cursor=second.cursor)
    assert [keys(page.rows) for page in (first, second, third)] == [["b1", "a2"], ["a1", "c1"], ["b2"]]
    assert third.cursor is None


def test_the_cursor_is_none_exactly_when_the_page_is_short() -> None:
    database = games("{ find: Game, order: id, page: 5 }", SCORES)
    full = database.read("found")
    assert len(full.rows) == 5
    assert full.cursor is not None
    assert database.read("found", cursor=full.cursor) == ([], None)


def test_a_walk_survives_the_loss_of_the_row_it_stopped_at() -> None:
    database = games("{ find: Game, order: score, page: 2 }", SCORES)
    first = database.read("found")
    database.tables.remove("Game", ("a", 2))
    assert keys(database.read("found", cursor=first.cursor).rows) == ["b1", "b2"]


def test_without_order_a_walk_still_gives_every_row_once() -> None:
    database = games("{ find: Game, page: 3 }", SCORES)
    first = database.read("found")
    second = database.read("found", cursor=first.cursor)
    assert sorted(keys(first.rows) + keys(second.rows)) == ["a1", "a2", "b1", "b2", "c1"]


def test_a_page_has_a_hundred_rows_if_nothing_is_said() -> None:
    scores: dict[tuple[str, int], tuple[int | None, int]] = {("a", number): (number, 1) for number in range(101)}
    found = games("{ find: Game, where: 'level = 1' }", scores).read("found")
    assert len(found.rows) == 100


def test_foreign_cursors_are_refused() -> None:
    database = games("{ find: Game, order: score, page: 2 }", SCORES)
    with pytest.raises(CursorError):
        database.read("found", cursor="somewhere")
    with pytest.raises(ArgumentError, match="cursor"):
        games("{ find: Game, order: score, limit: 2 }", SCORES).read("found", cursor=(1,))


def test_order_by_a_path() -> None:
    database = filled(
        """
        Team: { count: 1, fields: { id: 'string(4), key', city: string(4) } }
        Player: { count: 1, fields: { id: 'int, key', team: 'Team, optional 50%' } }
        """,
        "found: { find: Player, order: team.city desc, limit: 9 }",
        [
            ("Team", {"id": "a", "city": "x"}),
            ("Team", {"id": "b", "city": "y"}),
            *[("Player", {"id": number, "team": team}) for number, team in enumerate(["a", "b", None, "gone"])],
        ],
    )
    assert [row["id"] for row in database.read("found")] == [1, 0, 3, 2]


def test_rank_counts_the_rows_before() -> None:
    database = games(
        "{ rank: Game, of: [team, id], order: score desc, where: 'level = :level' }",
        SCORES,
    )
    assert database.read("found", team="b", id=1, level=1) == 1
    assert database.read("found", team="a", id=1, level=1) == 2
    assert database.read("found", team="c", id=1, level=1) == 3
    assert database.read("found", team="a", id=2, level=1) is None
    assert database.read("found", team="z", id=1, level=1) is None
