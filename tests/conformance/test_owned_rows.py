"""Rows that belong to others, wherever they live: found by a column of their own, and read with their owner."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.conformance.pair import NOON, Pair, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  Basket:
    count: 1M
    fields:
      basket_id: int, key
      owner: string(20)
      filled_at: timestamp
      paid_at: timestamp, optional 50%
  Line:
    count: 3M
    key: [basket, number]
    fields:
      basket: Basket, as lines, max 20
      number: int
      article: string(12), distinct 5000
      pieces: int
patterns:
  basket: { find: Basket, where: "basket_id = :basket", with: [lines], rate: 500/s }
  last_lines:
    find: Basket
    where: basket_id = :basket
    with: { lines: { order: pieces desc, limit: 2 } }
    rate: 500/s
  of_article: { find: Line, where: "article = :article", order: basket, page: 3, rate: 20/s }
  newest_of_article: { find: Line, where: "article = :article", order: basket desc, limit: 4, rate: 20/s }
  of_some: { find: Line, where: "article in :articles", rate: 5/s }
  with_lines: { find: Basket, where: "owner = :owner", order: filled_at desc, with: [lines], page: 2, rate: 200/s }
  with_largest:
    find: Basket
    where: owner = :owner and filled_at >= :since
    order: filled_at
    with: { lines: { order: pieces desc, limit: 1 } }
    page: 2
    rate: 200/s
  lately_filled: { find: Basket, where: "lines.article = :article", order: filled_at desc, page: 2, rate: 20/s }
  filled_between:
    find: Line
    where: article = :article and basket.filled_at between :start and :end
    order: basket.filled_at
    select: [basket, number, pieces, basket.filled_at, basket.owner]
    page: 2
    rate: 20/s
  owned_by: { find: Line, where: "article = :article and basket.owner = :owner", order: basket desc, rate: 20/s }
  paid:
    find: Line
    where: article = :article and basket.paid_at >= :since
    order: basket.paid_at desc
    page: 1
    rate: 20/s
writes:
  fill: { create: Basket, with: [lines], rate: 1/s }
  add: { create: Line, rate: 1/s }
  refill: { update: Basket, where: "basket_id = :basket", set: [filled_at], rate: 1/s }
  pay: { update: Basket, where: "basket_id = :basket", set: [paid_at], rate: 1/s }
  lose: { delete: Basket, where: "basket_id = :basket", rate: 1/s }
  swap: { update: Line, where: "basket = :basket and number = :number", set: [article], rate: 1/s }
  take_out: { delete: Line, where: "basket = :basket and number = :number", rate: 1/s }
  drop: { delete: Basket, where: "basket_id = :basket", with: [lines], rate: 1/s }
"""


@pytest.fixture
def pair(harness: Harness) -> Iterator[Pair]:
    with opened(parsed(MODEL), harness.url()) as found:
        yield found
        found.verified()


def test_lines_are_found_by_article_wherever_they_live(pair: Pair) -> None:
    for basket in range(6):
        lines = [
            {"number": number, "article": ("tea", "milk")[(basket + number) % 2], "pieces": number * 3 % 7}
            for number in range(4)
        ]
        filled = NOON + timedelta(hours=basket // 2)  # two at a time
        pair.same("fill", basket_id=basket, owner=f"o{basket % 3}", filled_at=filled, lines=lines)
    pair.same("add", basket=2, number=9, article="tea", pieces=1)
    pair.same("add", basket=77, number=1, article="tea", pieces=1)  # its basket is not there
    everything(pair)
    pair.same("swap", basket=1, number=1, article="salt")
    pair.same("swap", basket=3, number=1, article="milk")
    pair.same("take_out", basket=2, number=9)
    everything(pair)
    pair.same("refill", basket=0, filled_at=NOON + timedelta(hours=5))
    pair.same("pay", basket=4, paid_at=NOON)
    pair.same("pay", basket=1, paid_at=NOON + timedelta(minutes=1))
    everything(pair)
    pair.same("pay", basket=4, paid_at=None)
    pair.same("lose", basket=3)
    pair.same("drop", basket=0)
    everything(pair)


def everything(pair: Pair) -> None:
    for article in ("tea", "milk", "salt", "none"):
        pair.same("of_article", article=article)
        pair.same("newest_of_article", article=article)
        pair.same("lately_filled", article=article)
        for hours in (0, 1, 6):
            pair.same("filled_between", article=article, start=NOON, end=NOON + timedelta(hours=hours))
        pair.same("owned_by", article=article, owner="o1")
        pair.same("paid", article=article, since=NOON)
    pair.same("of_some", articles=["salt", "tea"])
    for owner in ("o0", "o1", "o2", "none"):
        pair.same("with_lines", owner=owner)
        pair.same("with_largest", owner=owner, since=NOON + timedelta(hours=1))
    for basket in (0, 1, 2, 77):
        pair.same("basket", basket=basket)
        pair.same("last_lines", basket=basket)
