"""Which rows a `where` finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import pytest

from keyplan.errors import ArgumentError
from keyplan.reference import Database
from tests.unit.reference.support import NOON, at, database, filled

NOTES = """
Note:
  count: 10
  fields:
    id: int, key
    name: string(8), optional 50%
    rank: int, optional 50%
    state: enum(open 50%, done 50%), default open
    starred: bool, default false
    tags: set(string(4), avg 2)
    made: timestamp, optional 50%
    due: date, optional 50%
"""


def notes(where: str, rows: Sequence[Mapping[str, Any]]) -> Database:
    return filled(
        NOTES, f"""found: {{ find: Note, where: "{where}", order: id }}""", [("Note", dict(row)) for row in rows]
    )


def ids(found: Any) -> list[int]:
    return [row["id"] for row in found.rows]


@pytest.mark.parametrize(
    ("op", "expected"),
    [("=", [2]), ("<", [1]), ("<=", [1, 2]), (">", [3]), (">=", [2, 3])],
)
def test_a_comparison_with_missing_is_false(op: str, expected: list[int]) -> None:
    rows: list[dict[str, Any]] = [{"id": 1, "rank": 10}, {"id": 2, "rank": 20}, {"id": 3, "rank": 30}, {"id": 4}]
    assert ids(notes(f"rank {op} :rank", rows).read("found", rank=20)) == expected


def test_unequal_is_false_for_missing_too() -> None:
    database, _ = _with_optional_state()
    database.load([("Note", {"id": 1, "state": "open"}), ("Note", {"id": 2, "state": "done"}), ("Note", {"id": 3})])
    assert ids(database.read("found", state="open")) == [2]


def _with_optional_state() -> tuple[Database, Any]:
    return database(
        "Note: { count: 1, fields: { id: 'int, key', state: 'enum(open 50%, done 50%), optional 50%' } }",
        'found: { find: Note, where: "state != :state", order: id }',
    )


def test_between_includes_its_bounds_and_reversed_ones_find_nothing() -> None:
    database = notes("rank between :low and :high", [{"id": number, "rank": number} for number in range(5)])
    assert ids(database.read("found", low=1, high=3)) == [1, 2, 3]
    assert ids(database.read("found", low=3, high=1)) == []


def test_in_takes_a_list_in_which_duplicates_count_once() -> None:
    database = notes("rank in :ranks", [{"id": number, "rank": number} for number in range(5)])
    assert ids(database.read("found", ranks=[3, 1, 3])) == [1, 3]
    assert ids(database.read("found", ranks=[])) == []


def test_in_takes_a_thousand_values_at_most() -> None:
    database = notes("rank in :ranks", [])
    assert ids(database.read("found", ranks=[*range(1000), 1, 2, 3])) == []
    with pytest.raises(ArgumentError, match="found: argument 'ranks': has 1001 different values"):
        database.read("found", ranks=list(range(1001)))


def test_in_takes_values_written_out() -> None:
    rows: list[dict[str, Any]] = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}]
    assert ids(notes("name in ('a', 'c')", rows).read("found")) == [1, 3]


def test_begins_with_is_about_code_points() -> None:
    rows: list[dict[str, Any]] = [{"id": 1, "name": "Ab"}, {"id": 2, "name": "ab"}, {"id": 3, "name": "a"}, {"id": 4}]
    assert ids(notes("begins_with(name, :start)", rows).read("found", start="a")) == [2, 3]
    assert ids(notes("begins_with(name, :start)", rows).read("found", start="")) == [1, 2, 3]


def test_present_and_missing() -> None:
    rows: list[dict[str, Any]] = [{"id": 1, "name": ""}, {"id": 2, "name": None}, {"id": 3}]
    assert ids(notes("present(name)", rows).read("found")) == [1]
    assert ids(notes("missing(name)", rows).read("found")) == [2, 3]


def test_two_contains_are_independent() -> None:
    rows: list[dict[str, Any]] = [{"id": 1, "tags": {"a", "b"}}, {"id": 2, "tags": {"a"}}, {"id": 3}]
    database = notes("contains(tags, :one) and contains(tags, :other)", rows)
    assert ids(database.read("found", one="a", other="b")) == [1]
    assert ids(database.read("found", one="a", other="a")) == [1, 2]


def test_search_wants_every_word_whole_in_some_field() -> None:
    database = filled(
        "Doc: { count: 9, fields: { id: 'int, key', title: string(20), body: 'text(90), optional 50%' } }",
        'found: { find: Doc, where: "search(title, body, :words)", order: id }',
        [
            ("Doc", {"id": 1, "title": "Blue Shirt", "body": "cotton, soft"}),
            ("Doc", {"id": 2, "title": "Blueish shirt"}),
            ("Doc", {"id": 3, "title": "STRASSE", "body": "blue_shirt"}),
        ],
    )
    assert ids(database.read("found", words="shirt BLUE")) == [1, 3]
    assert ids(database.read("found", words="blue soft")) == [1]
    assert ids(database.read("found", words="straße")) == [3]
    assert ids(database.read("found", words=" ,;")) == []


def test_truncations_are_utc_and_truncate_their_argument() -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1, "made": at("2024-05-13 00:00")},
        {"id": 2, "made": at("2024-05-19 23:59")},
        {"id": 3, "made": at("2024-05-20 00:00")},
        {"id": 4},
    ]
    week = notes("week(made) = :week", rows)
    assert ids(week.read("found", week=date(2024, 5, 13))) == [1, 2]
    assert ids(week.read("found", week=date(2024, 5, 17))) == [1, 2]
    assert ids(week.read("found", week=at("2024-05-17 09:30"))) == [1, 2]
    assert ids(notes("month(made) = :month", rows).read("found", month=date(2024, 5, 31))) == [1, 2, 3]
    assert ids(notes("day(made) >= :day", rows).read("found", day=at("2024-05-19 23:59"))) == [2, 3]
    assert ids(notes("hour(made) = :hour", rows).read("found", hour=at("2024-05-19 23:10"))) == [2]


def test_hours_are_asked_for_with_timestamps() -> None:
    with pytest.raises(ArgumentError, match="found: argument 'hour'"):
        notes("hour(made) = :hour", []).read("found", hour=date(2024, 5, 1))


def test_ago_counts_from_the_clock() -> None:
    rows: list[dict[str, Any]] = [{"id": 1, "made": at("2024-05-14 11:59")}, {"id": 2, "made": at("2024-05-14 12:00")}]
    assert ids(notes("made >= ago('1d')", rows).read("found")) == [2]


def test_ago_on_a_date_is_a_date() -> None:
    rows: list[dict[str, Any]] = [{"id": 1, "due": date(2024, 5, 13)}, {"id": 2, "due": date(2024, 5, 14)}]
    assert ids(notes("due >= ago('1d')", rows).read("found")) == [2]


def test_none_is_not_an_argument() -> None:
    with pytest.raises(ArgumentError, match="found: argument 'rank' is None"):
        notes("rank = :rank", []).read("found", rank=None)


def test_wrong_arguments_are_named() -> None:
    database = notes("rank = :rank", [])
    with pytest.raises(ArgumentError, match=r"found: unknown argument 'rnk'; did you mean 'rank'"):
        database.read("found", rnk=1)
    with pytest.raises(ArgumentError, match="found: missing argument 'rank'"):
        database.read("found")
    with pytest.raises(ArgumentError, match="found: argument 'rank': expected an int, got str"):
        database.read("found", rank="1")


SHOP = """
User:
  count: 10
  fields:
    id: int, key
    name: string(8), optional 50%
    boss: User, optional 50%, as staff, max 9
Order:
  count: 10
  fields:
    id: int, key
    user: User, as orders, optional 50%
    state: enum(open 50%, done 50%)
    total: int
"""

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("User", {"id": 1, "name": "ann"}),
    ("User", {"id": 2, "name": "bob", "boss": 1}),
    ("User", {"id": 3, "boss": 2}),
    ("Order", {"id": 10, "user": 1, "state": "open", "total": 5}),
    ("Order", {"id": 11, "user": 1, "state": "done", "total": 50}),
    ("Order", {"id": 12, "user": 2, "state": "open", "total": 50}),
    ("Order", {"id": 13, "user": 9, "state": "open", "total": 1}),
    ("Order", {"id": 14, "state": "open", "total": 1}),
]


def shop(entity: str, where: str) -> Database:
    return filled(SHOP, f"""found: {{ find: {entity}, where: "{where}", order: id }}""", ROWS)


def test_a_path_over_references_follows_them() -> None:
    assert ids(shop("Order", "user.name = 'ann'").read("found")) == [10, 11]
    assert ids(shop("User", "boss.boss.name = 'ann'").read("found")) == [3]


def test_a_path_through_a_missing_or_dangling_reference_is_missing() -> None:
    assert ids(shop("Order", "missing(user.name)").read("found")) == [13, 14]
    assert ids(shop("Order", "user = :user").read("found", user=9)) == [13]


def test_conditions_on_a_to_many_role_speak_of_the_same_row() -> None:
    found = shop("User", "orders.state = 'open' and orders.total = 50").read("found")
    assert ids(found) == [2]


def test_each_row_appears_once() -> None:
    assert ids(shop("User", "orders.total >= 1").read("found")) == [1, 2]


def test_missing_over_a_to_many_role_wants_some_row() -> None:
    assert ids(shop("User", "missing(staff.name)").read("found")) == [2]


def test_expired_rows_are_gone_for_paths() -> None:
    database_, clock = database(
        """
        User: { count: 1, fields: { id: 'int, key', name: string(8) }, ttl: 1h }
        Order: { count: 1, fields: { id: 'int, key', user: 'User, as orders' } }
        """,
        """named: { find: Order, where: "user.name = 'ann'", order: id }""",
    )
    database_.load([("User", {"id": 1, "name": "ann"}), ("Order", {"id": 10, "user": 1})])
    assert clock.now == NOON
    clock.advance(minutes=59)
    assert ids(database_.read("named")) == [10]
    clock.advance(minutes=1)
    assert ids(database_.read("named")) == []
