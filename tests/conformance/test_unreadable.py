"""Values that something else wrote, and that are not what the model says: `verify` names each, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import keyplan
from keyplan.errors import StorageError
from keyplan.model.load import parse_model
from tests.engines.harness import Harness

MODEL = """
keyplan: 1
name: ledger
entities:
  Account:
    count: 100k
    fields:
      account_id: int, key
      since: date
      name: string(8)
      entries: count(bookings)
  Booking:
    count: 10M
    fields:
      booking_id: int, key
      account: Account, as bookings
      noted: date
      amount: decimal(2)
      day: date
      tags: set(string(4), avg 2, max 5)
patterns:
  account: { find: Account, where: "account_id = :id", rate: 900/s }
  booking: { find: Booking, where: "booking_id = :id", select: [amount, account.name], rate: 900/s }
  tagged: { find: Booking, where: "contains(tags, :tag)", order: day desc, page: 5, rate: 900/s }
  by_name: { find: Booking, where: "account.name = :name", order: day, page: 5, rate: 900/s }
  total: { sum: Booking.amount, where: "account = :account and day = :day", rows: 2k, rate: 900/s }
writes:
  open_account: { create: Account, rate: 0.1/s }
  book: { create: Booking, rate: 0.1/s }
  rename: { update: Account, set: [name], where: "account_id = :id", rate: 1/day }
"""
DAY = "2052-05-15"


@pytest.fixture
def opened(harness: Harness) -> Iterator[tuple[Any, str]]:
    model, url = replace(parse_model(MODEL), targets=harness.targets), harness.url()
    keyplan.apply(model, url)
    with keyplan.open(model, url) as store:
        for number in range(3):
            store.open_account(account_id=number, since=DAY, name=f"a{number}")
        for number in range(12):
            store.book(
                booking_id=number, account=number % 3, noted=DAY, amount=number, day=DAY, tags={"x", f"t{number}"}
            )
        assert store.verify().ok
        yield store, url


@pytest.mark.parametrize("repair", [False, True])
def test_verify_names_what_it_cannot_read_and_goes_on(harness: Harness, opened: tuple[Any, str], repair: bool) -> None:
    store, url = opened
    harness.spoil(url, "Booking", "booking_id", 4, "noted")
    harness.spoil(url, "Account", "account_id", 1, "since")
    found = store.verify(repair=repair)
    homes = {entity: view for entity, (view, _) in store.design.homes.items()}
    for entity, number, field in (("Booking", 4, "noted"), ("Account", 1, "since")):
        (line,) = [one for one in found.problems if one.startswith(f"{homes[entity]}: unreadable entry ({number})")]
        assert f"the stored value of '{field}' is not what the model says" in line
    assert not found.ok
    assert found.unreadable == 2, found.problems
    assert found.rows == 3 + 12 - 2
    assert not any(one.missing or one.wrong or one.extra for one in found.views.values()), found.problems
    assert found.repaired == 0


def test_nothing_of_such_a_row_is_lost_by_a_repair(harness: Harness, opened: tuple[Any, str]) -> None:
    store, url = opened
    harness.spoil(url, "Booking", "booking_id", 4, "noted")
    store.verify(repair=True)
    assert [row["booking_id"] for row in store.tagged(tag="t5")] == [5]
    with pytest.raises(StorageError, match="is not what the model says"):
        store._run(store._core.reader.by_key([("Booking", (4,))], store._core.clock()))
