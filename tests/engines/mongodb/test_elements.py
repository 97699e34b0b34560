"""Indexes over arrays mean what views mean: generated questions about embedded rows, by their own columns and by those
of the row that they are in; and what the server has to do for them."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from keyplan.engines.mongodb import cost
from keyplan.engines.work import Cost, Rejection
from keyplan.errors import KeyplanError
from tests.conformance.pair import NOON, Pair, designed, opened, parsed
from tests.engines.harness import Harness
from tests.engines.mongodb.test_explain import Recorder, check

PROGRAMS = max(6, int(os.environ.get("KEYPLAN_PROGRAMS", "300")) // 15)
ARTICLES = ("tea", "milk", "salt")
OWNERS = ("ann", "bob", "bobby")

MODEL = """
entities:
  Basket:
    count: 1M
    key: [{key}]
    fields:
{columns}
      owner: string(20)
      filled_at: timestamp
      paid_at: timestamp, optional 50%
{ttl}
  Line:
    count: 3M
    key: [basket, number]
    fields:
      basket: Basket, as lines, max 20
      number: int
      article: string(12), distinct 5000{optional}
      pieces: int
patterns:
  basket: {{ find: Basket, where: "{named}", with: [lines], rate: 500/s }}
  owned: {{ find: Basket, where: "owner = :owner", order: filled_at desc, with: [lines], page: 2, rate: 100/s }}
{patterns}
writes:
  fill: {{ create: Basket, with: [lines], rate: 1/s }}
  add: {{ upsert: Line, rate: 1/s }}
  swap: {{ update: Line, where: "{lined} and number = :number", set: [article], rate: 1/s }}
  take_out: {{ delete: Line, where: "{lined} and number = :number", rate: 1/s }}
  refill: {{ update: Basket, where: "{named}", set: [filled_at, owner], rate: 1/s }}
  pay: {{ update: Basket, where: "{named}", set: [paid_at], rate: 1/s }}
  lose: {{ delete: Basket, where: "{named}", rate: 1/s }}
  drop: {{ delete: Basket, where: "{named}", with: [lines], rate: 1/s }}
"""

CONDITIONS = (
    "{basket}filled_at >= :since",
    "{basket}filled_at between :since and :until",
    "{basket}owner = :owner",
    "{basket}owner in :owners",
    "begins_with({basket}owner, :owner)",
    "{basket}paid_at > :since",
    "present({basket}paid_at)",
    "day({basket}filled_at) = :day",
)
ORDERS = ("{basket}filled_at", "{basket}filled_at desc", "{basket}paid_at desc", "{basket}owner, {basket}filled_at", "")


def patterns(source: random.Random) -> list[str]:
    """Questions about lines and about baskets by their lines."""
    found = []
    for number in range(4):
        entity = source.choice(("Line", "Line", "Basket"))
        basket, lines = ("basket.", "") if entity == "Line" else ("", "lines.")
        where = [source.choice((f"{lines}article = :article", f"{lines}article in :articles"))]
        where += [one.format(basket=basket) for one in source.sample(CONDITIONS, source.choice((0, 1, 1, 2)))]
        order = source.choice(ORDERS).format(basket=basket)
        select = ", select: [basket, number, basket.owner, basket.paid_at]" if number % 2 and entity == "Line" else ""
        size = source.choice(("page: 1", "page: 2", "page: 5", "limit: 3" if order else "page: 3"))
        asked = f', order: "{order}"' if order else ""
        text = " and ".join(dict.fromkeys(where))
        found.append(f'  p{number}: {{ find: {entity}, where: "{text}"{asked}{select}, {size}, rate: 50/s }}')
    return found


def model_text(source: random.Random) -> tuple[str, bool]:
    composite = source.random() < 0.5
    columns = "      shop: int\n      till: string(3)" if composite else "      basket_id: int"
    key = "shop, till" if composite else "basket_id"
    named = " and ".join(f"{column} = :{column}" for column in key.split(", "))
    lined = " and ".join(f"basket.{column} = :{column}" for column in key.split(", "))
    text = MODEL.format(
        key=key,
        columns=columns,
        ttl="    ttl: 2h since filled_at" if source.random() < 0.3 else "",
        optional=source.choice(("", ", optional 90%")),
        named=named,
        lined=lined,
        patterns="\n".join(patterns(source)),
    )
    return text, composite


@pytest.fixture
def lines_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines have no collection of their own, and what is in documents costs next to nothing."""
    priced = cost.cost_model

    def inside(model: Any) -> Any:
        costs: Any = priced(model)
        fit, read, touch = costs.fit, costs.read, costs.touch
        alone = Rejection("lines are in their baskets here")
        costs.fit = lambda view, facts: (
            alone if (view.entity, view.kind) == ("Line", "collection") else fit(view, facts)
        )
        costs.read = lambda work: _cheap(read(work)) if work.view.kind == "elements" else read(work)
        costs.touch = lambda work: _cheap(touch(work)) if work.view.kind == "elements" else touch(work)
        return costs

    monkeypatch.setattr(cost, "cost_model", inside)


def _cheap(cost: Cost) -> Cost:
    return replace(cost, cost=cost.cost / 1000)


def moment(source: random.Random) -> datetime:
    return NOON + timedelta(minutes=30 * source.randrange(6))


def change(source: random.Random, pair: Pair, composite: bool) -> None:
    """One write, on both sides; both may refuse it."""
    number = source.randrange(5)
    key: dict[str, Any] = {"shop": number // 2, "till": f"t{number}"} if composite else {"basket_id": number}
    line = {"number": source.randrange(5), "article": source.choice(ARTICLES)}
    name = source.choice(("fill", "fill", "fill", "add", "add", "swap", "take_out", "refill", "pay", "lose", "drop"))
    arguments: dict[str, Any] = dict(key)
    if name == "fill":
        lines = [{"number": n, "article": source.choice(ARTICLES), "pieces": n} for n in range(source.randrange(5))]
        arguments |= {"owner": source.choice(OWNERS), "filled_at": moment(source), "lines": lines}
    elif name == "add":
        arguments = {"basket": key if composite else number, **line, "pieces": 1}
    elif name in ("swap", "take_out"):
        arguments |= line if name == "swap" else {"number": line["number"]}
    elif name == "refill":
        arguments |= {"filled_at": moment(source), "owner": source.choice(OWNERS)}
    elif name == "pay":
        arguments["paid_at"] = source.choice((None, moment(source)))
    with suppress(KeyplanError):  # as the reference says
        pair.same(name, **arguments)


def ask(source: random.Random, pair: Pair) -> None:
    values = {
        "article": source.choice(ARTICLES),
        "articles": list(source.sample(ARTICLES, 2)),
        "since": NOON + timedelta(minutes=30 * source.randrange(3)),
        "until": NOON + timedelta(minutes=30 * source.randrange(2, 6)),
        "owner": source.choice(("bob", "ann")),
        "owners": list(source.sample(OWNERS, 2)),
        "day": NOON.date(),
    }
    for name, pattern in pair.model.patterns.items():
        if name != "basket":
            pair.same(name, **{key: value for key, value in values.items() if key in pattern.params})


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_lines_are_found_inside_their_baskets(mongodb: Harness, lines_inside: None, number: int) -> None:
    seed = random.randrange(10**9) if os.environ.get("KEYPLAN_RANDOM") else number
    print(f"seed {seed}")
    source = random.Random(seed)
    text, composite = model_text(source)
    with opened(parsed(text), mongodb.url()) as pair:
        for _ in range(6):
            for _ in range(4):
                change(source, pair, composite)
            ask(source, pair)
            if source.random() < 0.2:
                pair.clock.advance(minutes=45)
        pair.verified()


NEWEST = """
  newest:
    find: Line
    where: article = :article and basket.filled_at >= :since
    order: basket.filled_at desc
    page: 5
    rate: 50/s
"""


def test_the_server_examines_what_it_returns(mongodb: Harness, lines_inside: None) -> None:
    """A page of lines takes as many documents as it has lines, and one more where the page before ended in one."""
    text = MODEL.format(
        key="basket_id",
        columns="      basket_id: int",
        ttl="",
        optional="",
        named="basket_id = :basket_id",
        lined="basket = :basket_id",
        patterns=NEWEST,
    )
    with opened(parsed(text), mongodb.url()) as pair:
        for basket in range(40):
            lines = [{"number": n, "article": ARTICLES[n % 2], "pieces": n} for n in range(1 + basket % 4)]
            filled = NOON + timedelta(minutes=basket // 3)
            pair.same("fill", basket_id=basket, owner="ann", filled_at=filled, lines=lines)
        recorder = Recorder(pair.store)
        pair.same("newest", article="tea", since=NOON)
        finds = [find for find in recorder.finds if find.hint != "_id_"]
        assert len(finds) > 5
        for find in finds:
            assert 0 < find.limit <= 7  # a page, and one more to see whether there is a next, and where the last ended
            check(recorder.link, find)


def test_most_of_these_have_indexes_over_arrays_and_their_documents(lines_inside: None) -> None:
    seen = []
    for number in range(PROGRAMS):
        text, _ = model_text(random.Random(number))
        views = designed(parsed(text), "mongodb").views.values()
        seen.append(any("." in part.path for view in views if view.kind == "elements" for part in view.parts))
    assert sum(seen) > len(seen) / 2
