"""Views of the rows in one of several states: what goes from one to another of these stays, what leaves them goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.pair import Pair, opened, parsed
from tests.engines.harness import Harness

MODEL = """
entities:
  Ride:
    count: 500M
    fields:
      ride_id: int, key
      rider: string(8), distinct 5M
      driver: string(8), distinct 300k, optional 99%
      status: enum(asked 0.01%, taken 0.01%, riding 0.03%, done 92%, off 7.95%), default asked
      payment: enum(open 0.1%, failed 0.1%, paid 99.8%), optional 99%
      fare: int, default 0
patterns:
  current: { find: Ride, where: "rider = :r and status in ('asked', 'taken', 'riding')", order: fare, rate: 500/s }
  on_the_way: { find: Ride, where: "rider = :r and status in ('taken', 'riding')", order: fare, rate: 1/s }
  driving: { find: Ride, where: "driver = :d and status in ('taken', 'riding')", rate: 500/s }
  unpaid: { find: Ride, where: "payment != 'paid'", order: fare, limit: 4, rate: 20/s }
writes:
  ask: { create: Ride, rate: 5/s }
  take: { update: Ride, set: { status: taken, driver: ":d" }, where: "ride_id = :i", if: "status = 'asked'", rate: 5/s }
  become: { update: Ride, set: [status], where: "ride_id = :i", rate: 5/s }
  cost: { update: Ride, set: [fare], where: "ride_id = :i", rate: 5/s }
  pay: { update: Ride, set: [payment], where: "ride_id = :i", rate: 5/s }
  drop: { delete: Ride, where: "rider = :r and status in ('asked', 'off')", rows: 1, rate: 1/day }
"""


@pytest.fixture
def rides(harness: Harness) -> Iterator[Pair]:
    with opened(parsed(MODEL), harness.url()) as pair:
        for number in range(6):
            pair.same("ask", ride_id=number, rider="ann" if number % 2 else "bob", fare=10 - number)
        yield pair
        everything(pair)
        pair.verified()


def everything(rides: Pair) -> None:
    for rider in ("ann", "bob", "eve"):
        rides.same("current", r=rider)
        rides.same("on_the_way", r=rider)
    rides.same("driving", d="dan")
    rides.same("unpaid")


def test_the_view_is_of_these_rows_only(rides: Pair) -> None:
    conditions = {str(one) for view in rides.store.design.views.values() for one in view.where}
    assert "status in ('asked', 'taken', 'riding')" in conditions
    assert "payment != 'paid'" in conditions


def test_from_state_to_state(rides: Pair) -> None:
    rides.same("take", i=1, d="dan")
    rides.same("take", i=2, d="dan")
    everything(rides)
    for state in ("riding", "done", "asked", "off"):
        rides.same("become", i=1, status=state)
        everything(rides)
    rides.same("cost", i=2, fare=99)
    rides.same("drop", r="bob")
    rides.same("drop", r="ann")
    everything(rides)


def test_all_but_one_value(rides: Pair) -> None:
    for number, payment in ((1, "open"), (2, "failed"), (3, "paid"), (4, None), (1, "failed"), (2, "paid"), (1, None)):
        rides.same("pay", i=number, payment=payment)
        rides.same("unpaid")
