"""What a view lacks is had in the cheapest of several ways: with the row that keeps it, beside it, or by itself."""

from __future__ import annotations

from typing import Any

import pytest

from keyplan.design import design, document
from keyplan.engines import BUILTIN, get_engine
from keyplan.plan.steps import Beside, Extend, Fold
from keyplan.plan.walk import searches
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
  count: MANY
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


@pytest.mark.parametrize(("many", "most", "requests"), [("5M", "25", 1), ("20M", "25", 2), ("20M", "100000", 2)])
def test_the_first_of_many_children_are_not_cut_from_a_collection_that_is_read_whole(
    many: str, most: str, requests: int
) -> None:
    """The children of a giant would all be read for ten of them; where there are few, one request is best. Those of the
    other role stay with their parent."""
    writes = "review: { create: Review, rate: 2/s }\nadd: { create: Book, with: [authors], rate: 100/day }"
    found = plan(BOOK_PAGE, writes, "page", BOOKS.replace("MANY", many).replace("MOST", most))
    assert found["round_trips"] == 1
    assert sum(step["requests"] for step in found["steps"] if "requests" in step) == requests


VERSIONS = """
Doc:
  count: 1M
  fields:
    doc: uuid, key
    title: string(40)
    last_version: max(versions.n)
    first_saved: min(versions.at)
    version_count: count(versions)
    all_bytes: sum(versions.bytes)
Version:
  count: 20M
  key: [doc, n]
  ttl: 90d
  fields:
    doc: Doc, as versions
    n: int
    bytes: int
    at: timestamp, now
"""


@pytest.mark.parametrize("engine", BUILTIN)
def test_one_read_of_the_children_serves_all_that_is_computed_of_them(engine: str) -> None:
    """Rows that expire cannot be counted beforehand, so that they are read: once for all four."""
    patterns = 'doc: { find: Doc, where: "doc = :d", rate: 200/s }'
    found = design(model_of(VERSIONS, patterns, "save: { create: Version, rate: 20/s }"), get_engine(engine))
    assert [found.views[one.view].entity for one in searches(found.plans["doc"].node)] == ["Doc", "Version"]
    assert found.plans["doc"].figures.requests == 2


ORDERS = """
Order:
  count: 20M
  fields:
    order_id: uuid, key
    status: string(8)
    item_count: count(items)
    total: sum(items.price)
Item:
  count: 100M
  key: [order, line]
  fields: { order: "Order, as items, max 50", line: int, name: string(30), price: decimal(2) }
"""


@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize("asked", ["item_count, total, items.name, items.price", "item_count, total, items.name"])
def test_children_that_come_with_their_row_tell_what_is_computed_of_them(engine: str, asked: str) -> None:
    """Also where something more has to be taken of each for that."""
    patterns = f"""
    order: {{ find: Order, where: "order_id = :o", select: [status, {asked}], rate: 200/s }}
    item: {{ find: Item, where: "order = :o and line = :l", rate: 10/s }}
    """
    writes = "reprice: { update: Item, set: [price], where: 'order = :o and line = :l', rate: 100/s }"
    found = design(model_of(ORDERS, patterns, writes), get_engine(engine))
    plan = found.plans["order"]
    assert isinstance(plan.node, Extend)
    assert [tell.paths for tell in plan.node.tells] == [("item_count", "total")]
    of_items = [one for one in searches(plan.node) if found.views[one.view].entity == "Item" or one.along]
    assert len(of_items) == 1
    assert plan.figures.trips == 1


@pytest.mark.parametrize("engine", BUILTIN)
def test_some_children_do_not_tell_what_is_computed_of_all(engine: str) -> None:
    patterns = """
    order:
      find: Order
      where: order_id = :o
      select: [item_count, total]
      with: [{ items: { order: line, limit: 3 } }]
      rate: 200/s
    """
    writes = "reprice: { update: Item, set: [price], where: 'order = :o and line = :l', rate: 100/s }"
    node = design(model_of(ORDERS, patterns, writes), get_engine(engine)).plans["order"].node
    assert isinstance(node, Extend)
    assert not node.tells


FEED = """
Post:
  count: 100k
  fields:
    post_id: uuid, key
    text: string(200)
    like_count: count(likes)
    last_like: max(likes.at)
    sum: sum(likes.weight)
Like:
  count: 1M
  key: [post, fan]
  fields: { post: "Post, as likes, top 1%", fan: uuid, at: timestamp, weight: float }
Entry:
  count: 500M
  key: [reader, at]
  fields: { reader: "uuid, distinct 1M", at: timestamp, post: Post }
"""


@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize("asked", ["post.text, post.like_count", "post.text, post.like_count, post.last_like"])
def test_what_the_rows_behind_references_keep_comes_with_all_of_them_at_once(engine: str, asked: str) -> None:
    """Two round trips for a page; what is computed of posts that are gone is not part of a usual call."""
    patterns = f"""
    feed: {{ find: Entry, where: "reader = :r", order: at desc, page: 20, with: [{asked}], rate: 200/s }}
    post: {{ find: Post, where: "post_id = :p", select: [text, like_count, last_like], rate: 1k/s }}
    """
    model = model_of(FEED, patterns, "like: { create: Like, rate: 2/s }\nspread: { create: Entry, rate: 20/s }")
    found = design(model, get_engine(engine))
    plan = found.plans["feed"]
    entry, post, *gone = (found.views[one.view].entity for one in searches(plan.node))
    assert (entry, post, set(gone)) == ("Entry", "Post", {"Like"})
    assert (plan.figures.requests, plan.figures.trips) == (2, 2)
    assert [step["op"] for step in plan.steps if not step.get("if_gone")] == ["query", "batch_get"]


@pytest.mark.parametrize("engine", BUILTIN)
def test_what_no_row_can_keep_is_worked_out_beside_what_it_keeps(engine: str) -> None:
    """A sum of floats is kept nowhere: it is added up for each post, in the same round trip."""
    patterns = """
    feed: { find: Entry, where: "reader = :r", page: 20, with: [post.like_count, post.sum], rate: 200/s }
    post: { find: Post, where: "post_id = :p", select: [text, like_count, last_like], rate: 1k/s }
    """
    model = model_of(FEED, patterns, "like: { create: Like, rate: 2/s }\nspread: { create: Entry, rate: 20/s }")
    plan = design(model, get_engine(engine)).plans["feed"]
    assert plan.figures.trips == 2


EVENTS = """
Room: { count: 10k, fields: { room: "uuid, key", name: string(20) } }
Event:
  count: 50M
  fields:
    event: uuid, key
    room: Room, as events
    kind: string(8), distinct 5
    at: timestamp, now
"""


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_count_is_kept_and_the_last_one_looked_up_where_that_is_cheaper_than_reading_all(engine: str) -> None:
    """The greatest by what stands behind a reference is not kept, but it is the last of a key: no more is read."""
    patterns = """
    summary: { from: Event, where: "room.name = :r and kind = :k", compute: { n: count(), last: max(at) }, rate: 500/s }
    """
    found = design(model_of(EVENTS, patterns, "note: { create: Event, rate: 5/s }"), get_engine(engine))
    node = found.plans["summary"].node
    assert isinstance(node, Beside)
    assert all(isinstance(part, Fold) for part in node.parts)
    assert found.plans["summary"].figures.trips == 1
    assert found.plans["summary"].figures.requests == 2


@pytest.mark.parametrize("name", BUILTIN)
def test_the_bytes_of_children_that_come_along_are_read_as_well(name: str) -> None:
    model = model_of(
        AUCTIONS.replace("max 1000", "max 50"),
        'item: { find: Item, where: "item_id = :i", select: [name], with: [bids], rate: 10k/s }',
        "sell: { create: Item, with: [bids], rate: 1/s }",
    )
    found = document(model, design(model, get_engine(name)))["patterns"]["item"]
    assert found["bytes"] > 10 * (16 + 16 + 8)  # ten bids: their keys, the item's and the amounts
