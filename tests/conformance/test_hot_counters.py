"""Counters of rows that come faster than one entry can be added to: kept in parts where that is needed, read as one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.pair import Pair, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  Product:
    count: 10k
    fields:
      sku: string(12), key
      name: string(20)
  Vote:
    count: 10M
    fields:
      vote_id: int, key
      product: Product, as votes, top 60%
      stars: int
      day: date
patterns:
  votes: { count: Vote, where: "product = :sku", rate: 20000/s, top: 1%, consistency: strong }
  stars: { from: Vote, compute: { all: sum(stars), many: count() }, where: "product = :sku", rate: 5000/s, top: 1% }
  by_day: { from: Vote, where: "product = :sku", group: [day], compute: { all: sum(stars) }, rate: 5000/s, top: 1% }
  vote: { find: Vote, where: "vote_id = :vote_id", rate: 1/s }
writes:
  add_product: { create: Product, rate: 1/h }
  cast: { create: Vote, rate: 5000/s }
  change: { update: Vote, where: "vote_id = :vote_id", set: [stars], rate: 1/s }
  take_back: { delete: Vote, where: "vote_id = :vote_id", rate: 1/s }
"""


@pytest.fixture
def shop(harness: Harness) -> Iterator[Pair]:
    with opened(parsed(MODEL), harness.url()) as pair:
        for sku in ("a", "b"):
            pair.same("add_product", sku=sku, name=sku)
        for number in range(12):
            sku, day = "ab"[number % 3 == 0], f"2052-05-0{1 + number % 2}"
            pair.same("cast", vote_id=number, product=sku, stars=number % 5, day=day)
        yield pair
        pair.verified()


def everything(shop: Pair) -> None:
    for sku in ("a", "b", "none"):
        for name in ("votes", "stars", "by_day"):
            shop.same(name, sku=sku)


def test_parts_add_up(shop: Pair) -> None:
    everything(shop)
    assert shop.same("votes", sku="b") == 4


def test_changes_reach_the_part_of_their_row(shop: Pair) -> None:
    shop.same("change", vote_id=3, stars=100)
    shop.same("change", vote_id=4, stars=-100)
    everything(shop)


def test_groups_end_with_their_last_row(shop: Pair) -> None:
    for number in (0, 3, 6):
        shop.same("take_back", vote_id=number)
        everything(shop)
    shop.same("take_back", vote_id=9)
    everything(shop)
    assert shop.same("votes", sku="b") == 0
