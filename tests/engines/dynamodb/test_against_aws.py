"""Gaps of AWS's own modelling tools and samples, each a test that keyplan does not have it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import keyplan
from keyplan.engines.dynamodb import ENGINE
from keyplan.engines.dynamodb.cost import cost_model
from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.work import TouchWork, ViewFacts, Work
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.view import View
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import BY_STATUS, little_model, url_of
from tests.examples_data.designs import EXAMPLES, designed, example


def facts(rows: float = 1e6, size: float = 200.0) -> ViewFacts:
    return ViewFacts(rows, 10.0, 50.0, {"status": size}, 1000.0, 100.0, 1.0, 1.0, row_bytes=size)


def on_demand(model: Model) -> Model:
    return replace(model, targets={"dynamodb": {"billing": "on_demand"}})


def test_an_empty_answer_is_not_a_success(dynoxide: Server) -> None:
    """AWS's validator runs each access pattern and calls it valid when no error comes back, even if nothing is found.

    Here an answer that lacks what the rows imply is a problem that `verify` names, and repairs.
    """
    text = """
keyplan: 1
name: pets
entities:
  Pet:
    count: 1M
    fields: { pet_id: "string(8), key", owner: "string(8)", name: "string(10)" }
patterns:
  pet: { find: Pet, where: "pet_id = :pet", rate: 100/s }
  pets_of: { find: Pet, where: "owner = :owner", order: name, limit: 10, rate: 100/s, consistency: strong }
writes:
  adopt: { create: Pet, rate: 1/s }
"""
    model, url = on_demand(parse_model(text)), url_of(dynoxide.url)
    keyplan.apply(model, url)
    with keyplan.open(model, url) as store:
        store.adopt(pet_id="rex", owner="ann", name="Rex")
        assert len(store.pets_of(owner="ann")) == 1
        (scanned,) = store._port.send([Request("Scan", {})])
        copies = [item for item in scanned["Items"] if "ann" in item["PK"]["S"]]
        assert copies, "the rows of an owner have items of their own"
        for item in copies:
            store._port.send([Request("DeleteItem", {"Key": {name: item[name] for name in ("PK", "SK")}})])
        assert store.pets_of(owner="ann") == [], "no error, and nothing found"
        found = store.verify()
        assert not found.ok
        assert "rex" in str(found.problems)
        store.verify(repair=True)
        assert [row["pet_id"] for row in store.pets_of(owner="ann")] == ["rex"]


def test_a_changed_index_key_is_charged_twice() -> None:
    """AWS's cost tool charges a write that changes the key of an index once; DynamoDB deletes one entry, puts another.

    `test_units.py` sees it in ConsumedCapacity ('move in one index').
    """
    costs = cost_model(little_model())
    size = 300.0
    stays = costs.touch(TouchWork(BY_STATUS, facts(), patches=1.0, entry_bytes=size))
    moves = costs.touch(TouchWork(BY_STATUS, facts(), moves=1.0, entry_bytes=size))
    assert stays.units == {"write units": 1.0}
    assert moves.units == {"write units": 2.0}
    assert moves.cost == pytest.approx(2 * stays.cost)


def test_an_index_has_no_batches() -> None:
    """A BatchGetItem takes the keys of a table; through an index, each key is a Query."""
    costs = cost_model(little_model())
    work = Work(BY_STATUS, facts(), True, 4.0, 1.0, 1.0, 200.0)
    assert costs.read(work).requests == 4
    assert costs.read(replace(work, view=replace(BY_STATUS, kind="table"))).requests == 1


def test_a_page_is_a_request() -> None:
    """AWS's cost tool ignores that a Query ends after 1 MB: the next page is another request, which waits for it."""
    costs = cost_model(little_model())
    work = Work(BY_STATUS, facts(), False, 1.0, 50_000.0, 50_000.0, 200.0)
    cost = costs.read(work)
    pages = -(-50_000 * 200 // LIMITS.page_bytes)
    assert (cost.requests, cost.trips) == (pages, pages)
    assert cost.p99_ms > pages * 5
    assert cost.units["read units"] == pytest.approx(50_000 * 200 / 4096 / 2, rel=0.01)
    few = costs.read(replace(work, entries=10.0, most_entries=10.0))
    assert (few.requests, few.trips) == (1, 1)


def unique(model: Model, view: View) -> bool:
    return {*model.entities[view.entity].key} <= {part.path for part in view.parts}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_key_of_the_table_tells_rows_apart(name: str) -> None:
    """Two of AWS's sample schemas have keys that different rows share, so that one overwrites the other."""
    model, design = example(name), designed(name, "dynamodb")
    for view in design.views.values():
        if not view.unique and not view.measures:
            assert unique(model, view), f"{view.name}: {view.parts}"


def test_equal_scores_stand_side_by_side(dynoxide: Server) -> None:
    """AWS's leaderboard is keyed (game_id, score): the second player with the same score replaces the first."""
    model = on_demand(example("leaderboard"))
    url = url_of(dynoxide.url)
    keyplan.apply(model, url)
    with keyplan.open(model, url) as store:
        players = [store.join(name=f"p{n}")["player_id"] for n in range(3)]
        for player in players:
            store.set_points(board="chess", player_id=player, points=100)
        store.settle()
        found = store.top_ten(board="chess")
        assert sorted(row["player"]["name"] for row in found) == ["p0", "p1", "p2"]
        assert len(found) == 3
        assert store.verify().ok


RECURRING = """
keyplan: 1
name: recurring
entities:
  Payment:
    count: 100M
    fields:
      payment_id: ulid, key
      account: string(12)
      due: date
      amount: decimal(2)
patterns:
  payment: { find: Payment, where: "payment_id = :id", rate: 100/s }
  due_on: { find: Payment, where: "due = :day", rate: 1/min }
writes:
  schedule: { create: Payment, rate: RATE/s }
"""


@pytest.mark.parametrize(("rate", "spread"), [(100, False), (6000, True)])
def test_a_key_by_date_is_spread_when_it_is_hot(rate: int, spread: bool) -> None:
    """AWS's RecurringPayments sample partitions two indexes by date, so that all writes of a day meet in one partition.

    Here such a key gets the shards that the peak needs, and none where it needs none.
    """
    text = RECURRING.replace("RATE", str(rate)).replace("due: date", "due: date, top 90%")
    model = parse_model(text)
    design = keyplan.design(model, "dynamodb")
    assert not design.unserved
    (view,) = [one for one in design.views.values() if one.partition and one.partition[0].path == "due"]
    shards = [part.ways for part in view.partition if part.ways > 1]
    assert bool(shards) == spread
    if spread:
        assert rate * 0.9 / shards[0] <= LIMITS.partition_writes_per_second
        assert design.plans["due_on"].figures.requests >= shards[0], "reads gather from all of them"


def test_the_engine_says_which_tables_are_beyond_the_quota() -> None:
    """A table gets 40,000 units per second unless AWS raises that, which is better known before the first throttle."""
    model = parse_model(RECURRING.replace("RATE", "90k"))
    design = keyplan.design(model, "dynamodb")
    said = [one for one in ENGINE.findings(model, design) if "quota" in one.message]
    assert said
    assert said[0] in design.findings
    assert said[0].evidence["quota"] == LIMITS.table_units_per_second
    calm = parse_model(RECURRING.replace("RATE", "10"))
    assert not [one for one in ENGINE.findings(calm, keyplan.design(calm, "dynamodb")) if "quota" in one.message]
