"""Sums of products: they have the digits of all factors, more than some engines hold in one number, and stay exact."""

from __future__ import annotations

from typing import Any

from tests.conformance.conftest import Both
from tests.conformance.pair import Pair

MODEL = """
entities:
  Cell:
    fields:
      cid: int, key
      sheet: int, distinct 20
      wide: int
      tall: int, optional 90%
      price: decimal(6)
patterns:
  squares:
    from: Cell
    compute: { n: count(), all: sum(wide * wide), mean: avg(wide * wide) }
    where: sheet = :sheet
  areas: { from: Cell, compute: { all: sum(wide * tall), worth: sum(wide * price) }, group: [sheet] }
  cubes: { from: Cell, compute: { all: sum(wide * wide * price) }, where: "sheet = :sheet" }
writes:
  put: { upsert: Cell }
  alter: { update: Cell, set: [wide, price], where: "cid = :cid" }
  move: { update: Cell, set: [sheet], where: "cid = :cid" }
  widen: { update: Cell, add: [wide], where: "cid = :cid" }
  drop: { delete: Cell, where: "cid = :cid" }
"""
LEAST, MOST = -(2**63), 2**63 - 1
DEAR = "999999999999.999999"


def cell(number: int, wide: int, tall: int | None, price: str, sheet: int = 1) -> dict[str, Any]:
    return {"cid": number, "sheet": sheet, "wide": wide, "tall": tall, "price": price}


ROWS = [("Cell", cell(n, wide, tall, DEAR)) for n, (wide, tall) in enumerate([(LEAST, LEAST), (MOST, LEAST), (3, 5)])]
READS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"sheet": sheet}) for name in ("squares", "cubes") for sheet in (1, 2)),
    ("areas", {}),
]
WRITES: list[tuple[str, dict[str, Any]]] = [
    ("put", cell(5, LEAST, MOST, f"-{DEAR}")),
    ("put", cell(6, LEAST, LEAST, DEAR)),
    ("put", cell(6, MOST, None, "0.000001")),
    ("put", cell(7, 10**11, 10**11, "1", sheet=2)),
    ("put", cell(8, -(10**11), 10**11, "1", sheet=2)),
    ("alter", {"cid": 5, "wide": 1, "price": "-0.5"}),
    ("alter", {"cid": 5, "wide": LEAST, "price": f"-{DEAR}"}),
    ("move", {"cid": 0, "sheet": 2}),
    ("widen", {"cid": 1, "wide": -MOST}),
    ("widen", {"cid": 1, "wide": LEAST}),
    ("drop", {"cid": 0}),
    ("drop", {"cid": 5}),
    ("drop", {"cid": 6}),
]


def test_sums_of_products_stay_exact(both: Both) -> None:
    both(MODEL, ROWS).stays_right(WRITES, READS)


def test_they_are_kept_where_they_are_read_often(reads: Pair, size: str) -> None:
    """Otherwise the test above would say little."""
    kept = {measure.name for view in reads.store.design.views.values() for measure in view.measures}
    if size == "read":
        assert {"sum((wide * wide))", "sum((wide * tall))"} <= kept


SHELVES = """
entities:
  Shelf:
    ttl: 1d
    fields: { no: "int, key", pages: sum(books.pages), worst: min(books.grade), best: max(books.grade) }
  Book:
    key: [shelf, isbn]
    fields: { shelf: "Shelf, as books, max 50", isbn: string(4), pages: "int, optional", grade: "int, optional" }
patterns:
  shelf: { find: Shelf, where: "no = :n" }
  graded: { from: Book, compute: { pages: sum(pages), worst: min(grade), best: max(grade) }, where: "shelf = :n" }
writes:
  build: { upsert: Shelf }
  put: { upsert: Book }
  take: { update: Book, add: { pages: "-:n", grade: 3 }, where: "shelf = :s and isbn = :i", return: [pages, grade] }
"""


def test_the_one_amount_that_is_no_64_bit_number_is_added(both: Both) -> None:
    """Taking away the least number there is adds one more than the greatest: to a value, and to sums that are kept
    beside what is least and greatest."""
    pair = both(SHELVES, [("Shelf", {"no": 1})])
    for isbn, pages, grade in (("a", -5, 1), ("b", 7, 2)):
        pair.same("put", shelf=1, isbn=isbn, pages=pages, grade=grade)
    pair.same("take", s=1, i="a", n=LEAST)
    pair.agrees([("shelf", {"n": 1}), ("graded", {"n": 1})])
    pair.same("take", s=1, i="a", n=MOST)
    pair.agrees([("shelf", {"n": 1}), ("graded", {"n": 1})])
