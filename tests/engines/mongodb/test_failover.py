"""The primary killed in the middle of writes: nothing that was acknowledged is lost, and what was in flight has a clear
outcome; then too few nodes for a majority, and a process that dies inside a transaction."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

import keyplan
from keyplan.errors import KeyplanError, ThrottledError, UnavailableError, UncertainError
from tests.engines.fetch import FetchError
from tests.engines.mongodb.packing import packed_design
from tests.engines.mongodb.server import Server
from tests.naive import Extras

MODEL = keyplan.parse_model("""
keyplan: 1
name: bank
entities:
  Account:
    count: 100
    fields:
      number: int, key
      balance: int, default 0
  Entry:
    count: 10k
    fields:
      entry_id: string(20), key
      account: Account, as entries
      amount: int
patterns:
  account: { find: Account, where: "number = :number", rate: 100/s, consistency: strong }
  entry: { find: Entry, where: "entry_id = :entry_id", rate: 10/s, consistency: strong }
  entries: { find: Entry, where: "account = :account", order: entry_id, rate: 10/s, consistency: strong }
writes:
  open_account: { create: Account, rate: 1/s }
  deposit: { update: Account, add: [balance], where: "number = :number", rate: 10/s }
  note: { create: Entry, rate: 10/s }
transactions:
  pay: [deposit, note]
""")
WRITERS = 4


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    try:
        started = Server(nodes=3).start()
    except FetchError as error:
        if "mongodb" in os.environ.get("KEYPLAN_TEST_REQUIRE", ""):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    yield started
    started.stop()


class Writer(threading.Thread):
    """Pays into an account of its own, one after the other, and notes how each payment ended."""

    def __init__(self, store: keyplan.Store, number: int) -> None:
        super().__init__()
        self.store = store
        self.number = number
        self.done: list[str] = []
        self.unknown: list[str] = []
        self.refused: list[str] = []
        self.stop = False

    def run(self) -> None:
        count = 0
        while not self.stop:
            count += 1
            name = f"{self.number}-{count}"
            entry = {"entry_id": name, "account": self.number, "amount": 1}
            try:
                self.store.pay(deposit={"number": self.number, "balance": 1}, note=entry)
                self.done.append(name)
            except UncertainError:
                self.unknown.append(name)
            except (UnavailableError, ThrottledError):
                self.refused.append(name)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("packed", [False, True])
def test_the_primary_killed_under_writes(server: Server, packed: bool) -> None:
    """Once with a document per row, and once with all rows of an entity in two documents, where the writers meet."""
    url = server.url_of(f"bank_{packed}")
    design = packed_design(MODEL, Extras(packed_homes=True)) if packed else keyplan.design(MODEL, "mongodb")
    keyplan.apply(MODEL, url, design=design)
    with keyplan.open(MODEL, url, design=design) as store:
        for number in range(WRITERS):
            store.open_account(number=number)
        writers = [Writer(store, number) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        _until(lambda: all(len(writer.done) > 5 for writer in writers))
        killed = server.primary()
        server.kill(killed)
        before = [len(writer.done) for writer in writers]
        _until(lambda: all(len(w.done) > b + 5 for w, b in zip(writers, before, strict=True)))
        for writer in writers:
            writer.stop = True
        for writer in writers:
            writer.join()
        server.restart(killed)
        for writer in writers:
            there = {row["entry_id"] for row in store.entries.all(account=writer.number)}
            missing = set(writer.done) - there
            assert not missing, f"acknowledged, but lost: {missing}"
            assert not there & set(writer.refused), "refused, but done"
            assert there <= {*writer.done, *writer.unknown}
            # The two halves of a payment stand or fall together.
            assert store.account(number=writer.number)["balance"] == len(there)
        assert store.verify().ok


def _until(condition: object, seconds: float = 100.0) -> None:
    assert callable(condition)
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "the writers do not get on"
        time.sleep(0.05)


@pytest.mark.timeout(240)
def test_without_a_majority_nothing_is_acknowledged(server: Server) -> None:
    url = server.url_of("bank2")
    keyplan.apply(MODEL, url)
    with keyplan.open(MODEL, f"{url}&serverSelectionTimeoutMS=2000&wTimeoutMS=1500") as store:
        store.open_account(number=1)
        first = server.primary()
        others = [number for number in range(3) if number != first]
        for number in others:
            server.kill(number)
        with pytest.raises(KeyplanError) as caught:
            store.open_account(number=2)
        assert isinstance(caught.value, UncertainError | UnavailableError)
        server.restart(*others)
    with keyplan.open(MODEL, url) as store:
        assert store.account(number=1) is not None
        store.open_account(number=3)
