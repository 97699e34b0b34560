"""Rows that count in more groups than one atomic request can add to: cut off anywhere, somebody adds the rest, once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import keyplan
from keyplan.errors import UncertainError
from keyplan.model.load import parse_model
from keyplan.store.pump import run
from keyplan.store.store import Store
from tests.conftest import Lend
from tests.engines.harness import Harness
from tests.faults.applied import applied, made_on
from tests.faults.faulty import Fault, FaultyPort, dropped, lost, throttled
from tests.faults.test_intents import cut_off

MODEL = """
keyplan: 1
name: boxes
entities:
  Box: { count: 1M, fields: { id: "string(6), key", label: "string(10)" } }
  Thing:
    count: 8M
    key: [box, line]
    fields:
      box: Box, as things, max 60
      line: int
      shop: string(6), distinct 2000
      colour: string(6), distinct 2000
      price: decimal(2)
patterns:
  box: { find: Box, where: "id = :id", with: [things], rate: 1/s }
  shops: { count: Thing, where: "shop = :shop", rate: 1k/s }
  spent:
    from: Thing
    compute: { many: count(), price: sum(price) }
    where: colour = :colour
    rate: 1k/s
writes:
  pack: { create: Box, with: [things], rate: 1/s }
  repack: { upsert: Box, with: [things], rate: 1/day }
  drop: { delete: Box, with: [things], where: "id = :id", rate: 1/day }
"""
THINGS = [
    {"line": line, "shop": f"s{line % 50}", "colour": f"c{line % 45}", "price": f"{line}.25"} for line in range(60)
]


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """Every call is cut off at every request."""
    return quick_harness


@pytest.fixture
def url(harness: Harness, lend: Lend) -> str:
    """A database to which the design is applied."""
    found = lend(MODEL)
    applied(harness, found, MODEL)
    return found


@pytest.fixture
def store(harness: Harness, url: str) -> Any:
    with keyplan.open(made_on(harness, MODEL)[0], url) as store:
        yield store


def check(store: Store, boxes: int) -> None:
    """Every sum is what that many boxes of the same things come to."""
    assert store.verify().ok
    for shop, many in Counter(thing["shop"] for thing in THINGS).items():
        assert store.shops(shop=shop) == boxes * many
    prices = sum(store.spent(colour=f"c{number}")["price"] for number in range(45)) if boxes else 0
    assert prices == boxes * sum(float(str(thing["price"])) for thing in THINGS)


def test_the_design_keeps_the_counts(harness: Harness) -> None:
    """Else there is nothing here that could be late."""
    _, design = made_on(harness, MODEL)
    assert any(view.measures for view in design.views.values())


def test_every_thing_counts(store: Store) -> None:
    for number in range(3):
        store.pack(id=f"b{number}", label="x", things=THINGS)
    check(store, 3)
    store.repack(id="b0", label="y", things=THINGS)
    check(store, 3)
    store.drop(id="b1")
    check(store, 2)


@pytest.mark.parametrize("end", ["settle", "verify", "pack"])
def test_whoever_is_cut_off(store: Store, end: str) -> None:
    """A box is there with all that it adds, or not at all, when the next one is done."""
    rounds, boxes = 0, 0
    while cut_off(store, rounds, "pack", id=f"b{rounds}", label="x", things=THINGS):
        if end == "settle":
            store.settle()
        elif end == "pack":
            store.pack(id=f"p{rounds}", label="x", things=THINGS)
            boxes += 1
        boxes += store.box(id=f"b{rounds}") is not None
        check(store, boxes)
        rounds += 1
    assert rounds > 0


@pytest.mark.parametrize("fault", [lost, dropped, throttled])
def test_whichever_reply_does_not_come(store: Store, fault: Fault) -> None:
    """Every sum is added once, by the call that says that it is done."""
    port = FaultyPort(store)
    calls: dict[str, dict[str, Any]] = {
        "pack": {"label": "x", "things": THINGS},
        "repack": {"label": "y", "things": [{**thing, "shop": "s1"} for thing in THINGS]},
        "drop": {},
    }
    for number in range(20):
        left = 0
        for name, arguments in calls.items():
            port.writes = [*([_sent] * number), fault]
            try:
                getattr(store, name)(id="b", **arguments)
            except UncertainError:  # of a key that was given
                assert name == "pack"
                assert fault is not throttled
            assert not pending(store)
            left += len(port.writes)
            port.writes = []
            assert store.verify().ok
        store.drop(id="b")
        check(store, 0)
        if left >= len(calls):
            return
    raise AssertionError("it never ends")


def _sent(send: Any) -> Any:
    return send()


def pending(store: Store) -> list[Any]:
    return run(store._core.writer.intents.pending(), store._port)


def test_a_changed_design_counts_what_was_owed(harness: Harness) -> None:
    """Of a store that ended before it had added all, a new design fills some sums from the rows; the others follow."""
    more = MODEL.replace("  shops: {", '  lines: { count: Thing, where: "line = :line", rate: 1k/s }\n  shops: {')
    changed = replace(parse_model(more), targets=harness.targets)
    url = harness.url()  # none that is lent: another design is applied to it
    model, before = applied(harness, url, MODEL)
    rounds = 0
    with keyplan.open(model, url) as store:
        while store.box(id="b") is None:  # until it is there, and as little as possible is done behind that
            cut_off(store, rounds, "pack", id="b", label="x", things=THINGS)
            rounds += 1
    design = keyplan.design(changed, harness.name, keep=before)
    keyplan.apply(changed, url, design=design, wait=False)
    with keyplan.open(changed, url) as other:
        assert other.lines(line=7) == 1
        check(other, 1)
