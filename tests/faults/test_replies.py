"""Throttling is waited out within a budget; after a lost reply only what can be repeated is."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from keyplan.errors import ConflictError, ThrottledError, UnavailableError, UncertainError
from keyplan.store import pump
from keyplan.store.reading.quick import quick_read
from tests.conformance.pair import SIZES, Pair, opened, parsed
from tests.conftest import Lend
from tests.engines.harness import Harness
from tests.faults.faulty import Fault, FaultyPort, dropped, lost, throttled, unavailable

MODEL = """
entities:
  User:
    fields:
      uid: uuid, key
      email: string(8), unique
      name: string(8), default x
      spent: sum(orders.total)
      made: count(orders)
  Order:
    fields:
      oid: uuid, key
      user: User, as orders
      status: enum(open, done), default open
      total: int, default 1
      tags: set(string(4), avg 1)
  Product:
    fields:
      sku: string(4), key
      stock: int, default 10
patterns:
  user: { find: User, where: "uid = :uid" }
  by_email: { find: User, where: "email = :email" }
  orders: { find: Order, where: "user = :uid", order: total, page: 9, select: [oid, total, user.name] }
  tagged: { find: Order, where: "contains(tags, :tag)", order: total, page: 9, select: [total] }
  by_status: { count: Order, group: [status] }
  product: { find: Product, where: "sku = :sku" }
writes:
  join: { create: User }
  put_user: { upsert: User }
  rename: { update: User, set: [name], where: "uid = :uid" }
  mail: { update: User, set: [email], where: "uid = :uid" }
  leave: { delete: User, where: "uid = :uid" }
  leave_back: { delete: User, where: "uid = :uid", return: [name] }
  order: { create: Order }
  put_order: { upsert: Order }
  change: { update: Order, set: [status, total, tags], where: "oid = :oid" }
  pay: { update: Order, set: { status: done }, where: "oid = :oid", if: "status = 'open'" }
  cancel: { delete: Order, where: "oid = :oid" }
  add: { update: Product, add: [stock], where: "sku = :sku" }
  bump: { upsert: Product, add: { stock: 1 }, where: "sku = :sku" }
transactions:
  buy: [order, add]
  open_two: [join, order]
"""
UID = "00000000-0000-0000-0000-00000000000a"
OID = "00000000-0000-0000-0000-00000000000b"
NEW = "00000000-0000-0000-0000-00000000000c"
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("User", {"uid": UID, "email": "a"}),
    ("Order", {"oid": OID, "user": UID, "total": 5, "tags": ["a"]}),
    ("Product", {"sku": "p"}),
]

REPEATABLE: list[tuple[str, dict[str, Any]]] = [
    ("join", {"email": "n"}),
    ("put_user", {"uid": UID, "email": "z"}),
    ("put_user", {"uid": NEW, "email": "z"}),
    ("rename", {"uid": UID, "name": "new"}),
    ("mail", {"uid": UID, "email": "z"}),
    ("leave", {"uid": UID}),
    ("order", {"user": UID, "total": 3, "tags": ["a", "b"]}),
    ("put_order", {"oid": OID, "user": UID, "total": 7}),
    ("put_order", {"oid": NEW, "user": UID, "total": 7}),
    ("change", {"oid": OID, "status": "done", "total": 9, "tags": ["b"]}),
    ("cancel", {"oid": OID}),
    ("open_two", {"join": {"email": "n"}, "order": {"user": UID, "total": 2}}),
]
UNSAFE: list[tuple[str, dict[str, Any]]] = [
    ("add", {"sku": "p", "stock": 3}),
    ("bump", {"sku": "p"}),
    ("bump", {"sku": "q"}),
    ("pay", {"oid": OID}),
    ("leave_back", {"uid": UID}),
    ("buy", {"order": {"oid": NEW, "user": UID}, "add": {"sku": "p", "stock": -1}}),
]


@pytest.fixture
def harness(quick_harness: Harness) -> Harness:
    """Every call is cut off at every request."""
    return quick_harness


@pytest.fixture(params=SIZES)
def pair(request: pytest.FixtureRequest, lend: Lend, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """A store whose pauses take no time."""
    monkeypatch.setattr(pump, "time", SimpleNamespace(sleep=lambda seconds: None))
    with opened(parsed(MODEL, request.param), lend(MODEL, request.param), ROWS) as found:
        yield found


def answers(pair: Pair) -> None:
    """Everything that can be asked, as the reference says, and every view as its rows imply."""
    for uid in (UID, NEW):
        pair.same("user", uid=uid)
        pair.same("orders", uid=uid)
    for email in ("a", "n", "z"):
        pair.same("by_email", email=email)
    for tag in ("a", "b"):
        pair.same("tagged", tag=tag)
    if pair.serves("by_status"):
        pair.same("by_status")
    for sku in ("p", "q"):
        pair.same("product", sku=sku)
    pair.verified()


@pytest.mark.parametrize(("name", "arguments"), [*REPEATABLE, *UNSAFE])
def test_a_throttled_write_is_sent_again(pair: Pair, name: str, arguments: dict[str, Any]) -> None:
    port = FaultyPort(pair.store)
    port.writes = [throttled, throttled, throttled]
    pair.same(name, **arguments)
    assert port.writes == []
    answers(pair)


@pytest.mark.parametrize(("name", "arguments"), [*REPEATABLE, *UNSAFE])
def test_beyond_the_budget_the_error_comes_out_and_nothing_was_written(
    pair: Pair, name: str, arguments: dict[str, Any]
) -> None:
    port = FaultyPort(pair.store)
    port.writes = [throttled] * 1000
    with pytest.raises(ThrottledError):
        getattr(pair.store, name)(**arguments)
    assert 900 < len(port.writes) < 998
    port.writes = []
    answers(pair)


def test_a_throttled_read_is_sent_again(pair: Pair) -> None:
    port = FaultyPort(pair.store)
    port.reads = [throttled, throttled]
    pair.same("orders", uid=UID)
    port.reads = [throttled, throttled]
    pair.same("user", uid=UID)
    assert port.reads == []


def test_an_engine_that_is_not_there_is_said_at_once(pair: Pair) -> None:
    port = FaultyPort(pair.store)
    port.writes = [unavailable]
    with pytest.raises(UnavailableError):
        pair.store.rename(uid=UID, name="z")
    port.reads = [unavailable]
    with pytest.raises(UnavailableError):
        pair.store.orders(uid=UID)
    answers(pair)


def test_so_it_is_on_the_short_way(pair: Pair) -> None:
    """It gives other errors to the general way; to ask once more here would double the time that the caller waits."""
    port = FaultyPort(pair.store)
    method: Any = pair.store.product
    method._quick = quick_read(method._read, port)
    assert method._quick is not None
    port.reads = [unavailable]
    with pytest.raises(UnavailableError):
        pair.store.product(sku="p")
    assert port.sent == 1
    answers(pair)


@pytest.mark.parametrize("fault", [lost, dropped])
@pytest.mark.parametrize(("name", "arguments"), REPEATABLE)
def test_after_a_lost_reply_what_can_be_repeated_is(
    pair: Pair, name: str, arguments: dict[str, Any], fault: Fault
) -> None:
    """Done once, whether the first request was done or not; counters included."""
    port = FaultyPort(pair.store)
    port.writes = [fault]
    pair.same(name, **arguments)
    assert port.writes == []
    answers(pair)


@pytest.mark.parametrize(("name", "arguments"), UNSAFE)
def test_after_a_lost_reply_add_if_and_return_are_uncertain(pair: Pair, name: str, arguments: dict[str, Any]) -> None:
    port = FaultyPort(pair.store)
    port.writes = [dropped]
    with pytest.raises(UncertainError):
        getattr(pair.store, name)(**arguments)
    answers(pair)
    port.writes = [lost]
    with pytest.raises(UncertainError):
        getattr(pair.store, name)(**arguments)
    pair.database.call(name, **arguments)  # it was done, once
    answers(pair)


def test_a_create_with_a_given_key_is_not_taken_for_its_own(pair: Pair) -> None:
    """Somebody else may have made the row: that it is there now says nothing."""
    port = FaultyPort(pair.store)
    port.writes = [lost]
    with pytest.raises((UncertainError, ConflictError)):
        pair.store.join(uid=NEW, email="n")
    pair.database.call("join", uid=NEW, email="n")
    answers(pair)


def test_replies_that_stay_lost_are_uncertain(pair: Pair) -> None:
    port = FaultyPort(pair.store)
    port.writes = [dropped] * 100
    with pytest.raises(UncertainError):
        pair.store.rename(uid=UID, name="z")
    assert 90 < len(port.writes) < 99
    port.writes = []
    answers(pair)
