"""Children of the row that a reference leads to: they wait for the reference, wherever it is read."""

from __future__ import annotations

from typing import Any

from tests.conformance.pair import Pair

MODEL = """
entities:
  Hall:
    fields: { hid: "int, key", title: string(8) }
  Shelf:
    fields: { sid: "int, key", hall: "Hall, as shelves, max 9, optional 80%", label: string(8), moved: timestamp }
  Book:
    fields:
      bid: int, key
      shelf: Shelf, as books, max 9, optional 80%
      name: string(8)
      isbn: string(8), unique
patterns:
  neighbours: { find: Book, where: "name = :name", with: [shelf.books] }
  neighbours_in_order: { find: Book, where: "name = :name", order: isbn, page: 2, with: [shelf.books] }
  by_label: { find: Book, where: "shelf.label = :label", with: [shelf.books, shelf.hall.shelves] }
  by_move: { find: Book, where: "shelf.moved = :moved", with: [shelf.books] }
  beyond: { find: Book, where: "name = :name", with: [shelf.hall.shelves] }
  only_these: { find: Book, where: "name = :name", select: [name], with: [shelf.hall.shelves] }
  by_isbn: { find: Book, where: "isbn = :isbn", with: [shelf.books, shelf.hall.shelves] }
writes:
  add_book: { upsert: Book }
  add_shelf: { upsert: Shelf }
"""

MOVED = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("Hall", {"hid": 1, "title": "low"}),
    ("Shelf", {"sid": 1, "hall": 1, "label": "a", "moved": MOVED[0]}),
    ("Shelf", {"sid": 2, "hall": 1, "label": "b", "moved": MOVED[1]}),
    ("Shelf", {"sid": 3, "hall": 9, "label": "a", "moved": MOVED[0]}),
    ("Shelf", {"sid": 4, "label": "a", "moved": MOVED[1]}),
    ("Book", {"bid": 1, "shelf": 1, "name": "x", "isbn": "1"}),
    ("Book", {"bid": 2, "shelf": 1, "name": "y", "isbn": "2"}),
    ("Book", {"bid": 3, "shelf": 2, "name": "x", "isbn": "3"}),
    ("Book", {"bid": 4, "shelf": 3, "name": "x", "isbn": "4"}),
    ("Book", {"bid": 5, "shelf": 4, "name": "x", "isbn": "5"}),
    ("Book", {"bid": 6, "shelf": 8, "name": "x", "isbn": "6"}),
    ("Book", {"bid": 7, "name": "x", "isbn": "7"}),
]


def test_the_children_of_the_row_that_a_found_row_refers_to(reads: Pair) -> None:
    rows = {row["bid"]: row for row in reads.same("neighbours", name="x")}
    assert [book["bid"] for book in rows[1]["shelf"]["books"]] == [1, 2]
    assert [book["bid"] for book in rows[3]["shelf"]["books"]] == [3]
    reads.same("neighbours_in_order", name="x")


def test_the_same_where_the_found_row_is_asked_for_by_what_it_refers_to(reads: Pair) -> None:
    assert len(reads.same("by_label", label="a")) == 4
    assert len(reads.same("by_move", moved=MOVED[0])) == 3


def test_children_behind_two_references(reads: Pair) -> None:
    rows = {row["bid"]: row for row in reads.same("beyond", name="x")}
    assert [shelf["sid"] for shelf in rows[1]["shelf"]["hall"]["shelves"]] == [1, 2]
    reads.same("only_these", name="x")
    for isbn in "1234567":
        reads.same("by_isbn", isbn=isbn)
