"""Rows that belong to others, wherever they live: found by a column of their own, and read with their owner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.pair import Pair, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  Basket:
    count: 1M
    fields:
      basket_id: int, key
      owner: string(20)
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
writes:
  fill: { create: Basket, with: [lines], rate: 1/s }
  add: { create: Line, rate: 1/s }
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
        pair.same("fill", basket_id=basket, owner=f"o{basket}", lines=lines)
    pair.same("add", basket=2, number=9, article="tea", pieces=1)
    pair.same("add", basket=77, number=1, article="tea", pieces=1)  # its basket is not there
    everything(pair)
    pair.same("swap", basket=1, number=1, article="salt")
    pair.same("swap", basket=3, number=1, article="milk")
    pair.same("take_out", basket=2, number=9)
    everything(pair)
    pair.same("drop", basket=0)
    everything(pair)


def everything(pair: Pair) -> None:
    for article in ("tea", "milk", "salt", "none"):
        pair.same("of_article", article=article)
        pair.same("newest_of_article", article=article)
    pair.same("of_some", articles=["salt", "tea"])
    for basket in (0, 1, 2, 77):
        pair.same("basket", basket=basket)
        pair.same("last_lines", basket=basket)
