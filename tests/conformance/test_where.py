"""Which rows a `where` finds: operators, missing values, truncations, search, and paths to one and to many."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from tests.conformance.conftest import Both
from tests.conformance.pair import NOON, Pair, at, opened, parsed
from tests.conftest import Lend

MODEL = """
entities:
  Note:
    fields:
      id: int, key
      name: string(8), optional 50%
      rank: int, optional 50%
      state: enum(open 50%, done 30%, lost 20%), default open
      mood: enum(good 50%, bad 50%), optional 50%
      starred: bool, default false
      tags: set(string(4), avg 2)
      sizes: set(int, avg 2)
      title: string(20), default ''
      body: text(90), optional 50%
      made: timestamp, optional 50%
      due: date, optional 50%
      price: decimal(2), optional 50%
      weight: float, optional 50%
      owner: Owner, as notes, optional 50%
  Owner:
    fields:
      oid: int, key
      city: string(8), optional 50%
      boss: Owner, as staff, optional 50%
      note_count: count(notes)
      best: max(notes.rank)
patterns:
  eq: { find: Note, where: "rank = :x", order: id }
  lt: { find: Note, where: "rank < :x", order: id }
  le: { find: Note, where: "rank <= :x", order: id }
  gt: { find: Note, where: "rank > :x", order: id }
  ge: { find: Note, where: "rank >= :x", order: id }
  within: { find: Note, where: "rank between :low and :high", order: id }
  listed: { find: Note, where: "rank in :ranks[20]", order: id }
  spelt: { find: Note, where: "name in ('a', 'c''d')", order: id }
  literal: { find: Note, where: "rank >= -2 and rank < 3", order: id }
  unequal: { find: Note, where: "state != :x", order: id }
  unequal_optional: { find: Note, where: "mood != 'good'", order: id }
  not_starred: { find: Note, where: "starred != true", order: id }
  starts: { find: Note, where: "begins_with(name, :start)", order: id }
  starts_state: { find: Note, where: "begins_with(state, :start)", order: id }
  tagged: { find: Note, where: "contains(tags, :tag)", order: id }
  tagged_twice: { find: Note, where: "contains(tags, :one) and contains(tags, :other)", order: id }
  sized: { find: Note, where: "contains(sizes, :n)", order: id }
  named: { find: Note, where: present(name), order: id }
  nameless: { find: Note, where: missing(name), order: id }
  ownerless: { find: Note, where: missing(owner), order: id }
  found: { find: Note, where: "search(title, body, :words)", order: id }
  found_one: { find: Note, where: "search(title, :words)", order: id }
  on_day: { find: Note, where: day(made) = :day, order: id }
  in_week: { find: Note, where: week(made) = :day, order: id }
  in_month: { find: Note, where: month(due) = :day, order: id }
  in_year: { find: Note, where: year(made) = :day, order: id }
  in_hour: { find: Note, where: hour(made) = :moment, order: id }
  in_minute: { find: Note, where: minute(made) = :moment, order: id }
  days: { find: Note, where: "day(made) between :low and :high", order: id }
  since_month: { find: Note, where: month(due) >= :day, order: id }
  recent: { find: Note, where: "made >= ago('30d')", order: id }
  cheap: { find: Note, where: "price <= 9.99", order: id }
  heavy: { find: Note, where: "weight > :w", order: id }
  of_city: { find: Note, where: "owner.city = :city", order: id }
  of_boss: { find: Note, where: "owner.boss.city = :city", order: id }
  of_owner: { find: Note, where: "owner = :oid and rank >= :least", order: id }
  of_owner_key: { find: Note, where: "owner.oid = :oid", order: id }
  owners_of: { find: Owner, where: "notes.rank = :rank", order: oid }
  owners_same: { find: Owner, where: "notes.rank > :rank and notes.state = :state", order: oid }
  owners_many: { count: Owner, where: "notes.rank >= :rank" }
  owners_busy: { find: Owner, where: "note_count >= :n", order: oid }
  owners_best: { find: Owner, where: "best >= :n", order: oid }
  bosses_of: { find: Owner, where: "staff.notes.rank = :rank", order: oid }
  two_lists: { find: Owner, where: "notes.rank >= :rank and staff.city = :city", order: oid }
  two_lists_own:
    find: Owner
    where: notes.rank > :rank and notes.state = :state and staff.oid >= :oid and city = :city
    order: oid
  two_lists_far:
    find: Owner
    where: notes.rank >= :rank and boss.staff.oid = :oid and boss.city = :city
    order: oid
  two_lists_count: { count: Owner, where: "notes.rank >= :rank and staff.oid >= :oid" }
  tagged_owners: { find: Owner, where: "contains(notes.tags, :tag)", order: oid }
  both_tags: { find: Owner, where: "contains(notes.tags, :one) and contains(notes.tags, :other)", order: oid }
"""

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("Owner", {"oid": 1, "city": "Rome"}),
    ("Owner", {"oid": 2, "city": "Oslo", "boss": 1}),
    ("Owner", {"oid": 3, "boss": 9}),
    ("Owner", {"oid": 4, "city": "Rome", "boss": 2}),
    (
        "Note",
        {
            "id": 1,
            "name": "a",
            "rank": 10,
            "tags": ["x", "y"],
            "sizes": [1, -5],
            "title": "Blue Shirt",
            "body": "cotton, soft",
            "made": NOON,
            "due": date(2052, 5, 31),
            "price": "9.99",
            "weight": 1.5,
            "owner": 1,
        },
    ),
    (
        "Note",
        {
            "id": 2,
            "name": "Ab",
            "rank": 20,
            "state": "done",
            "mood": "good",
            "tags": ["x"],
            "title": "Blueish shirt",
            "made": NOON - timedelta(days=30),
            "due": date(2052, 6, 1),
            "price": "-3",
            "weight": -2.0,
            "owner": 1,
        },
    ),
    (
        "Note",
        {
            "id": 3,
            "name": "ab",
            "rank": 30,
            "starred": True,
            "mood": "bad",
            "title": "STRASSE",
            "body": "blue_shirt",
            "made": at("2052-05-13 00:00"),
            "due": date(2023, 12, 31),
            "owner": 2,
        },
    ),
    (
        "Note",
        {
            "id": 4,
            "name": "",
            "rank": -2,
            "state": "lost",
            "tags": ["z"],
            "sizes": [5],
            "made": at("2052-05-12 23:59:59.999"),
            "price": "10",
            "owner": 9,
        },
    ),
    ("Note", {"id": 5, "name": "c'd", "rank": 0, "tags": ["y"], "made": at("2023-12-31 23:00"), "owner": 4}),
    ("Note", {"id": 6, "state": "done", "owner": 3}),
    ("Note", {"id": 7, "rank": 20, "tags": ["x", "y"], "made": at("2052-05-15 12:59:59.999"), "weight": 0.0}),
    ("Note", {"id": -8, "rank": 20, "state": "done", "owner": 2, "name": "a\U0001f600", "tags": ["y"]}),
]


def found(rows: list[dict[str, Any]]) -> list[int]:
    return [next(iter(row.values())) for row in rows]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("eq", [-8, 2, 7]), ("lt", [1, 4, 5]), ("le", [-8, 1, 2, 4, 5, 7]), ("gt", [3]), ("ge", [-8, 2, 3, 7])],
)
def test_a_comparison_with_missing_is_false(reads: Pair, name: str, expected: list[int]) -> None:
    assert found(reads.same(name, x=20)) == expected


def test_between_is_inclusive(reads: Pair) -> None:
    assert found(reads.same("within", low=10, high=20)) == [-8, 1, 2, 7]


def test_reversed_bounds_find_nothing(reads: Pair) -> None:
    assert reads.same("within", low=20, high=10) == []
    assert reads.same("days", low=date(2052, 5, 15), high=date(2052, 5, 14)) == []


def test_duplicates_in_a_list_count_once(reads: Pair) -> None:
    assert found(reads.same("listed", ranks=[20, 10, 20, 99])) == [-8, 1, 2, 7]


def test_an_empty_list_finds_nothing(reads: Pair) -> None:
    assert reads.same("listed", ranks=[]) == []


def test_a_list_has_a_thousand_values_at_most(reads: Pair) -> None:
    assert found(reads.same("listed", ranks=[*range(1000), 5, 6])) == [-8, 1, 2, 3, 5, 7]
    assert "1001 different values" in reads.refused("listed", ranks=list(range(1001)))


def test_a_list_of_literals(reads: Pair) -> None:
    assert found(reads.same("spelt")) == [1, 5]


def test_literals(reads: Pair) -> None:
    assert found(reads.same("literal")) == [4, 5]
    assert found(reads.same("cheap")) == [1, 2]


def test_unequal_on_enum(reads: Pair) -> None:
    assert found(reads.same("unequal", x="open")) == [-8, 2, 4, 6]


def test_unequal_is_false_for_missing(reads: Pair) -> None:
    assert found(reads.same("unequal_optional")) == [3]


def test_unequal_on_bool(reads: Pair) -> None:
    assert found(reads.same("not_starred")) == [-8, 1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("start", "expected"),
    [("a", [-8, 1, 3]), ("A", [2]), ("", [-8, 1, 2, 3, 4, 5]), ("ab", [3]), ("a\U0001f600", [-8])],
)
def test_begins_with_is_about_code_points(reads: Pair, start: str, expected: list[int]) -> None:
    assert found(reads.same("starts", start=start)) == expected


def test_begins_with_on_enum(reads: Pair) -> None:
    assert found(reads.same("starts_state", start="lo")) == [4]


def test_contains(reads: Pair) -> None:
    assert found(reads.same("tagged", tag="y")) == [-8, 1, 5, 7]
    assert found(reads.same("sized", n=-5)) == [1]
    assert reads.same("tagged", tag="") == []


def test_two_contains_are_independent(reads: Pair) -> None:
    assert found(reads.same("tagged_twice", one="x", other="y")) == [1, 7]
    assert found(reads.same("tagged_twice", one="x", other="x")) == [1, 2, 7]


def test_present_and_missing(reads: Pair) -> None:
    assert found(reads.same("named")) == [-8, 1, 2, 3, 4, 5]
    assert found(reads.same("nameless")) == [6, 7]
    assert found(reads.same("ownerless")) == [7]


@pytest.mark.parametrize(
    ("words", "expected"),
    [("shirt BLUE", [1, 3]), ("blue soft", [1]), ("straße", [3]), ("shirt", [1, 2, 3]), ("shir", []), (" ,;", [])],
)
def test_search_wants_each_word_whole_in_some_field(reads: Pair, words: str, expected: list[int]) -> None:
    assert found(reads.same("found", words=words)) == expected


def test_search_in_one_field(reads: Pair) -> None:
    assert found(reads.same("found_one", words="shirt")) == [1, 2]


ACROSS = """
entities:
  File:
    fields:
      id: int, key
      name: string(12), optional 50%
      folder: Folder, as files, optional 50%
      note: string(9), optional 5%
  Folder: { fields: { fid: "int, key", name: string(12) } }
patterns:
  across: { find: File, where: "search(name, folder.name, :words)", order: id }
  there_or_here: { find: File, where: "search(folder.name, name, note, :words)", order: id }
  behind: { find: File, where: "search(folder.name, :words)", order: id }
writes:
  save: { upsert: File }
  rename: { update: Folder, set: [name], where: "fid = :fid" }
"""


def test_search_across_a_reference(both: Both) -> None:
    rows: list[tuple[str, dict[str, Any]]] = [
        ("Folder", {"fid": 1, "name": "old letters"}),
        ("File", {"id": 1, "name": "to ann", "folder": 1}),
        ("File", {"id": 2, "folder": 1}),
        ("File", {"id": 3, "name": "letters", "folder": 9}),
        ("File", {"id": 4, "name": "old letters"}),
    ]
    pair = both(ACROSS, rows)
    assert found(pair.same("across", words="ann letters")) == [1]
    assert found(pair.same("across", words="letters")) == [1, 2, 3, 4]
    assert found(pair.same("there_or_here", words="ann letters")) == [1]
    assert found(pair.same("there_or_here", words="letters")) == [1, 2, 3, 4]
    pair.same("rename", fid=1, name="bills")
    pair.same("save", id=3, name="ann", folder=1)
    assert found(pair.same("across", words="ann bills")) == [1, 3]
    assert found(pair.same("behind", words="bills")) == [1, 2, 3]


HERE_OR_THERE = """
entities:
  Person: { fields: { id: "int, key", last: string(8), since: "date, now" } }
  Page: { fields: { id: "int, key", who: Person, bio: "text(30), optional 50%" } }
patterns:
  words: { find: Page, where: "search(bio, who.last, :words)", order: who.since }
  named: { find: Page, where: "who.last = :last" }
  begun: { find: Page, where: "begins_with(bio, :start)", order: bio }
"""


def test_a_search_of_several_texts_says_of_none_that_it_is_there(both: Both) -> None:
    rows: list[tuple[str, dict[str, Any]]] = [
        ("Person", {"id": 1, "last": "fox"}),
        ("Page", {"id": 1, "who": 1, "bio": "red"}),
        ("Page", {"id": 2, "who": 9, "bio": "red fox"}),
        ("Page", {"id": 3, "who": 1}),
    ]
    pair = both(HERE_OR_THERE, rows)
    assert found(pair.same("words", words="fox")) == [1, 3, 2]
    assert found(pair.same("words", words="red")) == [1, 2]
    pair.same("named", last="fox")
    pair.same("begun", start="r")


@pytest.mark.parametrize(
    ("name", "argument", "expected"),
    [
        ("on_day", {"day": date(2052, 5, 15)}, [1, 7]),
        ("on_day", {"day": at("2052-05-15 23:59")}, [1, 7]),
        ("in_week", {"day": date(2052, 5, 19)}, [1, 3, 7]),
        ("in_week", {"day": date(2052, 5, 12)}, [4]),
        ("in_month", {"day": date(2052, 5, 1)}, [1]),
        ("in_year", {"day": date(2052, 12, 31)}, [1, 2, 3, 4, 7]),
        ("in_hour", {"moment": at("2052-05-15 12:30")}, [1, 7]),
        ("in_minute", {"moment": at("2052-05-15 12:00:59")}, [1]),
        ("days", {"low": date(2052, 5, 12), "high": date(2052, 5, 13)}, [3, 4]),
        ("since_month", {"day": date(2052, 5, 20)}, [1, 2]),
    ],
)
def test_truncations_truncate_their_argument_likewise(
    reads: Pair, name: str, argument: dict[str, Any], expected: list[int]
) -> None:
    assert found(reads.same(name, **argument)) == expected


def test_ago_counts_from_the_present(reads: Pair) -> None:
    assert found(reads.same("recent")) == [1, 2, 3, 4, 7]
    reads.clock.advance(milliseconds=1)
    assert found(reads.same("recent")) == [1, 3, 4, 7]
    reads.clock.advance(milliseconds=-1)


def test_floats_compare(reads: Pair) -> None:
    assert found(reads.same("heavy", w=-0.0)) == [1]
    assert found(reads.same("heavy", w=-5)) == [1, 2, 7]


def test_paths_over_references(reads: Pair) -> None:
    assert found(reads.same("of_city", city="Rome")) == [1, 2, 5]
    assert found(reads.same("of_boss", city="Rome")) == [-8, 3]
    assert found(reads.same("of_boss", city="Oslo")) == [5]


def test_the_key_behind_a_reference_is_in_the_row(reads: Pair) -> None:
    assert found(reads.same("of_owner_key", oid=9)) == [4]
    assert found(reads.same("of_owner", oid=1, least=15)) == [2]


def test_a_to_many_path_means_some_row(reads: Pair) -> None:
    assert found(reads.same("owners_of", rank=20)) == [1, 2]


def test_conditions_with_a_common_prefix_speak_of_the_same_row(reads: Pair) -> None:
    assert found(reads.same("owners_same", rank=15, state="done")) == [1, 2]
    assert found(reads.same("owners_same", rank=25, state="done")) == []


def test_conditions_on_several_lists_speak_of_rows_of_each(reads: Pair) -> None:
    assert found(reads.same("two_lists", rank=0, city="Oslo")) == [1]
    assert found(reads.same("two_lists", rank=0, city="Rome")) == [2]
    assert found(reads.same("two_lists", rank=99, city="Rome")) == []
    assert found(reads.same("two_lists_own", rank=0, state="done", oid=0, city="Rome")) == [1]
    assert found(reads.same("two_lists_own", rank=0, state="done", oid=0, city="Oslo")) == [2]
    assert found(reads.same("two_lists_own", rank=0, state="done", oid=3, city="Rome")) == []
    assert found(reads.same("two_lists_far", rank=0, oid=2, city="Rome")) == [2]
    assert found(reads.same("two_lists_far", rank=0, oid=4, city="Oslo")) == [4]
    assert reads.same("two_lists_count", rank=0, oid=0) == 2


def test_each_row_counts_once(reads: Pair) -> None:
    assert reads.same("owners_many", rank=0) == 3


def test_to_many_over_to_many(reads: Pair) -> None:
    assert found(reads.same("bosses_of", rank=20)) == [1]
    assert found(reads.same("bosses_of", rank=0)) == [2]


def test_computed_fields_in_where(reads: Pair) -> None:
    assert found(reads.same("owners_busy", n=2)) == [1, 2]
    assert found(reads.same("owners_busy", n=0)) == [1, 2, 3, 4]
    assert found(reads.same("owners_best", n=0)) == [1, 2, 4]


def test_contains_behind_a_to_many_role(reads: Pair) -> None:
    assert found(reads.same("tagged_owners", tag="y")) == [1, 2, 4]
    assert found(reads.same("both_tags", one="x", other="y")) == [1]


PARTS = """
entities:
  Part:
    count: 50M
    fields: { id: "int, key", shelf: "string(8), distinct 100k", maker: "string(8), distinct 100k", sheet: json(6000) }
patterns:
  of_shelf: { find: Part, where: "shelf = :v", select: [id], page: 1000, rate: 100/s }
  of_maker: { find: Part, where: "maker = :v", select: [id], page: 1000, rate: 100/s }
  both: { find: Part, where: "shelf = :v and maker = :w", order: id, page: 3, rate: 10/s }
writes:
  make: { create: Part, rate: 5/s }
  shelve: { update: Part, set: [shelf], where: "id = :id", rate: 200/s }
  buy: { update: Part, set: [maker], where: "id = :id", rate: 200/s }
  scrap: { delete: Part, where: "id = :id", rate: 1/s }
"""


def test_two_values_that_are_found_apart(lend: Lend) -> None:
    """Where each has a key of its own and rows are large, the keys that both find: one more key costs every change."""
    model, url = parsed(PARTS), lend(PARTS)
    rows = [(n, f"s{n % 2}", f"m{n % 3}") for n in range(40)]
    given = [("Part", {"id": n, "shelf": shelf, "maker": maker, "sheet": {"n": n}}) for n, shelf, maker in rows]
    with opened(model, url, given) as pair:
        for _ in range(2):
            for shelf in ("s0", "s1", "s9"):
                for maker in ("m0", "m2", "m9"):
                    pair.same("both", v=shelf, w=maker)
            pair.same("shelve", id=4, shelf="s9")
            pair.same("buy", id=4, maker="m9")
            pair.same("scrap", id=8)
        pair.verified()
