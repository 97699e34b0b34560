"""Whatever ways are chosen below a goal, it keeps within the time that is left for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from keyplan.design import design, document
from keyplan.design.options.goals import NO_LIMIT_MS, Goal, Option
from keyplan.design.problem.build import build_problem
from keyplan.engines import BUILTIN, get_engine
from keyplan.errors import DesignError
from keyplan.model.model import Model
from tests.strategies.design import problems, proof
from tests.unit.design.nouns import model_of


def slowest_way(goal: Goal) -> float:
    """The p99 of a goal if it, and every goal below, is reached in its slowest way."""
    return _slowest_way(goal, {})


def _slowest_way(goal: Goal, known: dict[int, float]) -> float:
    """Many options come to the same goals, whose own is then `known`."""
    if goal.number not in known:
        known[goal.number] = max((_slowest(option, known) for option in goal.options), default=0.0)
    return known[goal.number]


def _slowest(option: Option, known: dict[int, float]) -> float:
    early = [_slowest_way(sub.goal, known) for sub in option.subs if sub.early]
    late = [_slowest_way(sub.goal, known) for sub in option.subs if not sub.early and not sub.if_gone]
    if option.kind in ("drive", "then"):
        return sum(late)
    return max([option.cost.p99_ms, *early]) + max(late, default=0.0)


@pytest.mark.parametrize("engine", BUILTIN)
@proof(60)
@given(model=problems())
def test_the_slowest_choice_is_within_the_budget(engine: str, model: Model) -> None:
    for root in build_problem(model, get_engine(engine)).problem.roots:
        if root.goal.budget_ms < NO_LIMIT_MS:
            assert slowest_way(root.goal) <= root.goal.budget_ms * (1 + 1e-9), root.name


@pytest.mark.parametrize("engine", BUILTIN)
@proof(10)
@given(model=problems(2))
def test_time_that_nobody_needs_costs_nothing(engine: str, model: Model) -> None:
    """Ways that come one after the other were given a share of the time, however much of it there was: with a view that
    is fast and dear among the candidates, the cheap ones were too slow beside it."""
    here = get_engine(engine)
    free = replace(model, patterns={name: replace(one, p99_ms=None) for name, one in model.patterns.items()})
    roots = build_problem(free, here).problem.roots
    slowest: dict[str, float] = {}
    for root in (root for root in roots if root.kind in ("pattern", "target")):
        slowest[root.name] = slowest.get(root.name, 0.0) + slowest_way(root.goal)
    timed = {name: replace(one, p99_ms=8.0 * slowest[name]) for name, one in free.patterns.items() if name in slowest}
    try:
        expected = design(free, here, advise=False)
    except DesignError:
        return
    found = design(replace(free, patterns={**free.patterns, **timed}), here, advise=False)
    assert found.objective.value == pytest.approx(expected.objective.value, rel=1e-6)
    assert found.unserved.keys() == expected.unserved.keys()


BLOG = """
Post:
  count: 1M
  fields:
    post_id: uuid, key
    made_at: timestamp
    title: string(40)
Tag:
  count: 5M
  key: [post, word]
  fields:
    post: Post, as tags, max 20
    word: string(12), distinct 50
"""


def test_a_page_over_children_reads_no_more_than_its_limit_times_what_each_parent_has() -> None:
    """Newest posts with a tag: 100,000 of them, of which a page of ten is read."""
    pattern = 'p: { find: Post, where: "tags.word = :word", order: made_at desc, limit: 10, rate: 100/s, p99: 100ms }'
    model = model_of(BLOG, pattern)
    for engine in BUILTIN:
        told = document(model, design(model, get_engine(engine)))["patterns"]["p"]
        assert told["served"], engine
        assert told["p99_ms"] < 50


SUBSCRIPTIONS = """
Subscription:
  count: 3M
  fields:
    subscription_id: ulid, key
    active: bool(true 80%), default true
    pays_on: date, distinct 31
    terms: string(200)
"""


@pytest.mark.parametrize(("p99", "notes"), [("", 1), (", p99: 100ms", 0)])
def test_what_is_slow_because_nothing_is_stated_is_told(p99: str, notes: int) -> None:
    patterns = f"""
    due: {{ find: Subscription, where: "pays_on = :d and active = true", page: 1000, rate: 200/day{p99} }}
    others: {{ find: Subscription, where: "active = :a", page: 10, rate: 1/s }}
    """
    writes = """
    subscribe: { create: Subscription, rate: 10k/day }
    pay: { update: Subscription, set: [pays_on], where: "subscription_id = :id", rate: 100k/day }
    """
    found = design(model_of(SUBSCRIPTIONS, patterns, writes), get_engine("dynamodb"))
    told = [finding for finding in found.findings if "no p99 is stated" in finding.message]
    assert len(told) == notes


PRODUCTS = """
Product: { count: 10k, fields: { sku: "string(8), key", stock: int } }
Sale:
  count: 1M
  fields: { sale_id: "ulid, key", product: "Product, as sales", amount: int }
"""


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_write_takes_as_long_as_its_lookups_and_the_writing(engine: str) -> None:
    patterns = 'product: { find: Product, where: "sku = :sku", rate: 10/s }'
    writes = """
    add: { create: Product, rate: 1/s }
    sell: { create: Sale, rate: 1/s }
    take: { update: Product, add: [stock], where: "sku = :sku", rate: 1/s%s }
    """
    made = design(model_of(PRODUCTS, patterns, writes % ""), get_engine(engine))
    assert all(plan.figures.p99_ms > 0 for plan in made.writes.values())
    assert not [finding for finding in made.findings if finding.path.startswith("writes.")]
    hurried = design(model_of(PRODUCTS, patterns, writes % ", p99: 1ms"), get_engine(engine))
    told = ["where p99 is 1 ms" in finding.message for finding in hurried.findings if finding.path == "writes.take"]
    assert told == [True] * (made.writes["take"].figures.p99_ms > 1)


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_write_that_keeps_more_takes_longer(engine: str) -> None:
    entities = PRODUCTS.replace("stock: int", "stock: int, sold: sum(sales.amount)")
    patterns = "best: { find: Product, order: sold desc, limit: 10, rate: 100/s }"
    writes = "sell: { create: Sale, rate: 1/s }"
    alone = design(
        model_of(PRODUCTS, "sale: { find: Sale, where: 'sale_id = :id', rate: 1/s }", writes), get_engine(engine)
    )
    kept = design(model_of(entities, patterns, writes), get_engine(engine))
    assert kept.writes["sell"].figures.p99_ms > alone.writes["sell"].figures.p99_ms


LEDGER = """
Account: { count: 3M, fields: { account_id: "uuid, key" } }
Entry:
  count: 4G
  fields:
    entry_id: ulid, key
    account: Account, as entries, skew zipf 0.7
    amount: decimal(2)
    at: timestamp, now
"""


@pytest.mark.parametrize(("p99", "notes"), [("", 1), (", p99: 50ms", 0)])
def test_a_sum_that_is_slow_only_where_there_are_many_rows_is_told(p99: str, notes: int) -> None:
    """The busiest account has thousands of times as many entries as the usual one."""
    patterns = f"""
    statement: {{ find: Entry, where: "account = :a and at between :x and :y", order: at, page: 50, rate: 300/s }}
    turnover: {{ sum: Entry.amount, where: "account = :a and month(at) = :m", rate: 2/s{p99} }}
    """
    model = model_of(LEDGER, patterns, "book: { create: Entry, rate: 5M/day }")
    found = design(model, get_engine("dynamodb"))
    assert not found.unserved
    told = [one for one in found.findings if "may be of far more rows than the usual" in one.message]
    assert len(told) == notes
    assert any(view.measures for view in found.views.values()) != bool(notes)


@pytest.mark.parametrize(
    ("asks", "reason", "change"),
    [
        ("page: 20, p99: 5ms", "takes 8", "raise p99 to"),
        ("page: 20, consistency: strong", "no view that is read strongly", "set consistency to eventual"),
    ],
)
def test_the_reason_is_of_what_the_change_would_change(asks: str, reason: str, change: str) -> None:
    """Other views would be too hot, or too large for one partition: that is not what is in the way."""
    where = "user = :u" if "p99" in asks else "at >= :t"
    model = model_of(
        "Event: { count: 500M, fields: { event_id: 'ulid, key', user: 'string(8), distinct 1M', at: timestamp } }\n",
        f'p: {{ find: Event, where: "{where}", order: at desc, {asks}, rate: 100/s }}',
    )
    found = design(model, get_engine("dynamodb")).unserved["p"]
    assert reason in found.reason
    assert found.change.startswith(change)
