"""No partition key value of a finished design takes more than a partition has, whoever reads or writes there: worked
out anew from the document of the design, on generated models with one value that most calls are about."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from hypothesis import event, given

import keyplan
from keyplan.design import design
from keyplan.engines.dynamodb import ENGINE
from keyplan.engines.dynamodb.templates import stored_keys
from keyplan.model.model import Model
from keyplan.plan.design import Design
from tests.engines.dynamodb.partitions import READS as READ_UNITS
from tests.engines.dynamodb.partitions import WRITES as WRITE_UNITS
from tests.engines.dynamodb.partitions import taken
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.strategies.crowds import crowded_problems
from tests.strategies.design import proof
from tests.unit.design.nouns import model_of

TOO_HOT = ("write units/s at the peak, a partition", "together read the hottest key", "key, which ")


def warned(found: Design) -> set[str]:
    """The views that findings call too hot."""
    texts = [one.message for one in found.findings if any(text in one.message for text in TOO_HOT)]
    return {name for text in texts for name in re.findall(r"'([^']*)'", text)}


def tags(model: Model, found: Design) -> dict[str, str]:
    """Per view: its partition key up to the first value."""
    return {name: key.partition("#")[0] for (name, at), (key, _) in stored_keys(model, found).items() if not at}


def is_numbered(tag: str) -> bool:
    return re.search(r"\.\d+$", tag) is not None


@proof(150)
@given(model=crowded_problems())
def test_no_partition_takes_more_than_it_has(model: Model) -> None:
    found = design(model, ENGINE, advise=False)
    assert found.objective.gap == 0
    if any(map(is_numbered, tags(model, found).values())):
        event("views that would share a key are too hot together")
    if any(part.cut == "copies" for view in found.views.values() for part in view.partition):
        event("there are copies for reading")
    for one in taken(model, found).values():
        for units, limit in ((one.reads, READ_UNITS), (one.writes, WRITE_UNITS)):
            if sum(units.values()) > limit:
                event("something is too hot by itself, and told")
                takers = [found.views[name] for (_, name), amount in units.items() if amount]
                (alone,) = {view.base if view.kind == "lsi" else view.name for view in takers}
                assert alone in warned(found)
    assert not [one for one in found.findings if "key, which " in one.message]
    for tag in set(filter(is_numbered, tags(model, found).values())):
        # Only what would be too hot is kept apart.
        plain = tag.rpartition(".")[0]
        assert plain in tags(model, found).values()


SHOPS = """
Shop: { count: 10k, fields: { shop: "string(10), key", name: string(20) } }
Order:
  count: 5M
  fields: { number: "int, key", shop: "Shop, as orders, top 90%", at: timestamp, total: int }
Payment:
  count: 5M
  fields: { payment: "int, key", shop: "Shop, as payments, top 90%", at: timestamp, amount: int }
"""
READS = """
shop: {{ find: Shop, where: "shop = :shop", rate: {rate}, top: 90% }}
orders: {{ find: Order, where: "shop = :shop", order: at desc, page: 5, rate: {rate}, top: 90% }}
payments: {{ find: Payment, where: "shop = :shop", order: at desc, page: 5, rate: {rate}, top: 90% }}
"""
WRITES = """
open_shop: {{ create: Shop, rate: 1/s }}
order: {{ create: Order, rate: {rate} }}
pay: {{ create: Payment, rate: {rate} }}
"""


def shops(reads: str, writes: str) -> Model:
    return model_of(SHOPS, READS.format(rate=reads), WRITES.format(rate=writes))


def of_shops(model: Model, found: Design) -> list[str]:
    """The tags of whatever is kept by shop."""
    by_shop = [name for name, view in found.views.items() if [part.path for part in view.partition][:1] == ["shop"]]
    return sorted(tags(model, found)[name] for name in by_shop)


def test_views_share_keys_as_long_as_they_are_not_too_hot_together() -> None:
    cool = shops("100/s", "10/s")
    assert of_shops(cool, design(cool, ENGINE)) == ["SHOP", "SHOP", "SHOP"]
    read = shops("4500/s", "10/s")  # of each, 2,025 of 3,000 units
    assert of_shops(read, design(read, ENGINE)) == ["SHOP", "SHOP", "SHOP.2"]
    written = shops("10/s", "600/s")  # of each, 540 of 1,000 units
    assert of_shops(written, design(written, ENGINE)) == ["SHOP", "SHOP", "SHOP.2"]


def test_kept_views_keep_their_keys_and_what_is_too_hot_is_told() -> None:
    cool, hot = shops("100/s", "10/s"), shops("4500/s", "600/s")
    before = design(cool, ENGINE)
    kept = design(hot, ENGINE, keep=before)
    assert of_shops(hot, kept) == ["SHOP", "SHOP", "SHOP"]
    found = [one for one in kept.findings if "key, which " in one.message]
    assert [re.sub(r".* is (\w+ [\d.]+) times.*", r"\1", one.message) for one in found] == ["read 1.4", "written 1.1"]
    assert all(one.views & warned(kept) for one in taken(hot, kept).values() if one.too_hot)
    apart = design(hot, ENGINE)
    assert of_shops(cool, design(cool, ENGINE, keep=apart)) == of_shops(hot, apart) == ["SHOP", "SHOP", "SHOP.2"]


def test_rows_are_found_under_keys_that_were_parted_when_loads_grew(dynoxide: Server) -> None:
    url = url_of(dynoxide.url)
    cool, hot = shops("100/s", "10/s"), shops("4500/s", "600/s")

    def answers(store: Any) -> tuple[Any, ...]:
        at = {"shop": "s"}
        return store.shop(**at), list(store.orders(**at)), list(store.payments(**at))

    keyplan.apply(cool, url)
    with keyplan.open(cool, url) as store:
        store.open_shop(shop="s", name="Books")
        for number in range(3):
            moment = datetime(2026, 11, 1 + number, tzinfo=UTC)
            store.order(number=number, shop="s", at=moment, total=number)
            store.pay(payment=number, shop="s", at=moment, amount=number)
        before = answers(store)
    keyplan.apply(hot, url)
    with keyplan.open(hot, url) as store:
        assert answers(store) == before
        assert [len(one) for one in before[1:]] == [3, 3]
        assert store.verify().ok
