"""Views of the rows in one of several states: what goes from one to another of these stays, what leaves them goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import keyplan
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
    assert "payment in ('open', 'failed')" in conditions  # all but 'paid'


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


SEVERAL = """
entities:
  Ride:
    count: 500M
    fields:
      ride_id: int, key
      status: enum(asked 0.01%, taken 0.01%, riding 0.03%, done 92%, off 7.95%), default asked
      fare: int, default 0
patterns:
  under_way: { find: Ride, where: "status != 'done' and status != 'off'", order: fare, rate: 500/s }
  by_state: { find: Ride, where: "status in ('taken', 'riding', 'asked')", order: status, page: 2, rate: 500/s }
  from_state: { find: Ride, where: "status != 'done' and status >= :s", order: status, page: 2, rate: 500/s }
  in_states: { find: Ride, where: "status != 'done' and status in :some", order: fare, rate: 500/s }
writes:
  ask: { create: Ride, rate: 5/s }
  become: { update: Ride, set: [status], where: "ride_id = :i", rate: 5/s }
"""


def test_several_conditions_on_one_state(harness: Harness) -> None:
    """All of them hold, whatever bounds the key besides."""
    states = ("asked", "taken", "riding", "done", "off")
    with opened(parsed(SEVERAL), harness.url()) as rides:
        sparse = [view for view in rides.store.design.views.values() if view.where]
        assert any(len(view.where) > len({one.path for one in view.where}) for view in sparse)
        assert any(str(one.path) == part.path for view in sparse for part in view.parts for one in view.where)
        for number in range(10):
            rides.same("ask", ride_id=number, status=states[number % 5], fare=10 - number)
        for shift in range(2):
            rides.same("under_way")
            rides.same("by_state")
            for state in states:
                rides.same("from_state", s=state)
                rides.same("in_states", some=[state, "asked"])
            rides.same("become", i=shift, status="done")
        rides.verified()


LISTED = {
    "price": ("decimal(2)", "1.50, 2.50"),
    "ratio": ("float", "0.5, 2.0"),
    "day": ("date", "'2052-05-14', '2052-05-15'"),
    "at": ("timestamp", "'2052-05-14T12:00:00Z', '2052-05-15T12:00:00.5Z'"),
    "token": ("uuid", "'00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002'"),
    "tag": ("string(4)", "'it''s', '$x'"),
    "digest": ("bytes(4)", "'AAE=', '/w=='"),
    "flag": ("bool(true 0.1%)", "true"),
    "number": ("int", "-1, 9223372036854775807"),
}


def test_values_of_every_type(harness: Harness) -> None:
    """A list of them is a condition of a view, which is found again as it was made."""
    fields = [f"      {name}: {type}, optional 99.9%" for name, (type, _) in LISTED.items()]
    reads = [f'  by_{name}: {{find: A, where: "{name} in ({some})", rate: 90/s}}' for name, (_, some) in LISTED.items()]
    text = ["entities:", "  A:", "    count: 500M", "    fields:", "      k: int, key", *fields, "patterns:", *reads]
    model = parsed("\n".join([*text, "writes:", "  make: { create: A, rate: 1/s }", ""]))
    with opened(model, harness.url()) as pair:
        assert sum(bool(view.where) for view in pair.store.design.views.values()) == len(LISTED)
        assert keyplan.apply(model, pair.url, design=pair.store.design) == []
        for number, name in enumerate(LISTED):
            column = model.entities["A"].columns[name]
            listed = [operand.value for operand in model.patterns[f"by_{name}"].where[0].operands]
            for place, value in enumerate((*listed, None)):
                pair.same("make", k=10 * number + place, **{column.name: value})
        for name in LISTED:
            assert len(pair.same(f"by_{name}")) == len(model.patterns[f"by_{name}"].where[0].operands)
        pair.verified()


GROWING = """
entities:
  Bill:
    count: 500M
    fields: {{ bill_id: "int, key", status: "enum({states})", fare: "int, default 0" }}
patterns:
  unpaid: {{ find: Bill, where: "status != 'paid'", order: fare, limit: 9, rate: 500/s }}
writes:
  ask: {{ create: Bill, rate: 1/s }}
  become: {{ update: Bill, set: [status], where: "bill_id = :i", rate: 1/s }}
"""


def test_an_enum_gets_another_state(harness: Harness) -> None:
    """The rows that are there stay, and those that come to be in it are among all but one state."""
    url = harness.url()
    before = parsed(GROWING.format(states="asked 0.1%, paid 99.9%"))
    after = parsed(GROWING.format(states="disputed 0.1%, asked 0.1%, paid 99.8%"))
    with opened(before, url) as bills:
        for number, status in enumerate(("asked", "paid", "paid")):
            bills.same("ask", bill_id=number, status=status)
        assert len(bills.same("unpaid")) == 1
        rows = [("Bill", row) for row in bills.database.rows["Bill"].values()]
    with opened(after, url) as bills:
        bills.database.load(rows)
        assert len(bills.same("unpaid")) == 1
        bills.same("become", i=1, status="disputed")
        assert len(bills.same("unpaid")) == 2
        bills.verified()
