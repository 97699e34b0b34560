"""Calls that are made together with others, or that touch a further item only sometimes: what the plan says they take
on average is what they take."""

from __future__ import annotations

import random

import pytest

import keyplan
from keyplan.model.model import Model
from keyplan.store.store import Store
from tests.engines.dynamodb.meter import Metered, Taken
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.unit.design.nouns import model_of

SHOP = """
Product: { count: 10k, fields: { sku: "string(12), key", stock: int } }
Order: { count: 1M, fields: { order_id: "string(12), key", total: decimal(2) } }
"""
SHOP_READS = """
product: { find: Product, where: "sku = :sku", rate: 100/s }
order: { find: Order, where: "order_id = :order_id", rate: 100/s }
"""
SHOP_WRITES = """
list_product: { create: Product, rate: 1/h }
place: { create: Order, rate: 10/s }
take: { update: Product, add: { stock: "-:n" }, where: "sku = :sku", if: "stock >= :n", return: [stock], rate: 40/s }
"""

TICKETS = """
Ticket: { count: 100k, fields: { ticket_id: "int, key", text: string(40), flagged: "bool(true 5%)" } }
"""
TICKET_READS = """
ticket: { find: Ticket, where: "ticket_id = :ticket_id", rate: 100/s, consistency: strong }
flagged: { find: Ticket, where: "flagged = true", order: ticket_id, page: 20, rate: 100/s, consistency: strong }
"""
TICKET_WRITES = """
open_ticket: { create: Ticket, rate: 100/s }
"""


class Opened:
    """A store with a meter."""

    def __init__(self, model: Model, server: Server) -> None:
        self.design = keyplan.design(model, "dynamodb")
        url = url_of(server.url)
        keyplan.apply(model, url, design=self.design)
        self.store: Store = keyplan.open(model, url, design=self.design)
        self.meter = Metered(self.store._port, model, self.design)

    def take(self, name: str, **arguments: object) -> Taken:
        self.meter.reset()
        getattr(self.store, name)(**arguments)
        return self.meter.reset()

    def planned(self, write: str) -> dict[str, float]:
        return dict(self.design.writes[write].figures.units)


@pytest.mark.parametrize(("rate", "share"), [("10/s", 0.75), ("4/s", 0.3)])
def test_a_transaction_takes_what_the_plans_of_its_writes_say(rate: str, share: float, dynoxide: Server) -> None:
    """`take` is called alone and together; its plan is the mean of both, as the model says how often each is."""
    checkout = f"checkout: {{ writes: [place, {{ write: take, usual: 3, max: 9 }}], rate: {rate} }}"
    here = Opened(model_of(SHOP, SHOP_READS, SHOP_WRITES, checkout), dynoxide)
    for number in range(3):
        here.store.list_product(sku=f"p{number}", stock=100)
    alone = here.take("take", sku="p0", n=1)
    together = here.take(
        "checkout",
        place={"order_id": "o1", "total": "9.90"},
        take=[{"sku": f"p{number}", "n": 1} for number in range(3)],
    )
    here.store.close()
    assert together.write == {"": 8.0}, "four items, each twice"
    assert sum(together.read.values()) == 3.0, "what is returned is read first"
    assert (alone.write, dict(alone.read)) == ({"": 1.0}, {})
    assert here.planned("take") == pytest.approx({"write units": 1 + share, "read units": share})
    assert here.planned("place")["write units"] == pytest.approx(2.0 if share == 0.75 else 1.4)


def test_an_item_that_few_rows_have_makes_a_transaction_of_these_alone(dynoxide: Server) -> None:
    here = Opened(model_of(TICKETS, TICKET_READS, TICKET_WRITES), dynoxide)
    sparse = [view for view in here.design.views.values() if view.where]
    assert [view.kind for view in sparse] == ["table"], "an index is not strongly read"
    source, calls = random.Random(4), 400
    taken = 0.0
    for number in range(calls):
        flagged = source.random() < 0.05
        taken += sum(here.take("open_ticket", ticket_id=number, text="x" * 40, flagged=flagged).write.values())
    here.store.close()
    assert here.planned("open_ticket")["write units"] == pytest.approx(1.15), "one, or four of them in a transaction"
    assert taken / calls == pytest.approx(1.15, abs=0.05)
