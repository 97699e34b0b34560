"""What a view lacks is had in the cheapest of several ways: with the row that keeps it, beside it, or by itself."""

from __future__ import annotations

from typing import Any

import pytest

from keyplan.design import design, document
from keyplan.engines import get_engine
from tests.unit.design.nouns import model_of

AUCTIONS = """
Seller:
  count: 200k
  fields:
    seller_id: ulid, key
    name: string(20)
Item:
  count: 2M
  fields:
    item_id: ulid, key
    name: string(20)
    description: text(200)
    ends_at: timestamp
    seller: Seller, as items
    bid_count: count(bids)
    best_bid: max(bids.amount)
Bid:
  count: 20M
  fields:
    bid_id: ulid, key
    item: Item, as bids, max 1000
    amount: decimal(2)
"""


def plan(patterns: str, writes: str, name: str, entities: str) -> dict[str, Any]:
    """A pattern's plan in the document of the design on DynamoDB."""
    model = model_of(entities, patterns, writes)
    found: dict[str, Any] = document(model, design(model, get_engine("dynamodb")))["patterns"][name]
    return found


@pytest.mark.parametrize("order", ["", "order: ends_at, "])
def test_computed_values_come_with_the_row_that_keeps_them(order: str) -> None:
    patterns = f"""
    item: {{ find: Item, where: "item_id = :i", rate: 1k/s }}
    of_seller: {{ find: Item, where: "seller = :s and ends_at >= :now", {order}page: 25, rows: 3, rate: 10/s }}
    """
    writes = """
    bid: { create: Bid, rate: 10/s }
    sell: { create: Item, rate: 1/s }
    """
    found = plan(patterns, writes, "of_seller", AUCTIONS)
    assert sum(step["requests"] for step in found["steps"] if "requests" in step) <= 4
    assert not any(step["op"] == "aggregate" for step in found["steps"])


BOOKS = """
Book:
  count: 1M
  fields:
    isbn: string(13), key
    title: string(40)
Author:
  count: 3M
  key: [book, place]
  fields:
    book: Book, as authors, max 20
    place: int
    name: string(20)
Review:
  count: 20M
  fields:
    review_id: ulid, key
    book: Book, as reviews, max MOST
    text: text(400)
    at: timestamp, now
"""
BOOK_PAGE = """
page:
  find: Book
  where: isbn = :isbn
  with: [authors, { reviews: { order: at desc, limit: 10 } }]
  rate: 1k/s
reviews: { find: Review, where: "book = :isbn", order: at desc, page: 20, rate: 50/s }
"""


@pytest.mark.parametrize(("most", "requests"), [("25", 1), ("100000", 3)])
def test_the_first_of_many_children_are_not_cut_from_a_collection_that_is_read_whole(most: str, requests: int) -> None:
    """The children of a giant would all be read for ten of them; where there are few, one request is best."""
    writes = "review: { create: Review, rate: 2/s }\nadd: { create: Book, with: [authors], rate: 100/day }"
    found = plan(BOOK_PAGE, writes, "page", BOOKS.replace("MOST", most))
    assert found["round_trips"] == 1
    assert sum(step["requests"] for step in found["steps"] if "requests" in step) == requests
