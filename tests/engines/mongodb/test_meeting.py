"""Two transactions that meet: one begins to copy what the other one changes, between any two of its operations.

`tests/faults` sends whole requests in turn. Here another write comes in the middle of one, which MongoDB allows: the
one sees what was there when its transaction began, and only what both of them write makes them meet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from keyplan.engines.mongodb.exchange import exchange
from keyplan.engines.mongodb.port import MongoPort
from keyplan.engines.mongodb.transport import ERRORS
from keyplan.engines.mongodb.writes import WriteRequest
from keyplan.errors import ConflictError, ThrottledError
from keyplan.store.pump import run
from keyplan.store.store import Store
from tests.engines.harness import Harness
from tests.faults import test_unguarded as unguarded
from tests.faults.applied import two_stores
from tests.faults.test_cut_off import MODEL, call, do, rows
from tests.noting import noting

OPERATIONS = (2, 3, 5, 7, 9)
PAIRS = [("join", "add"), ("rename", "come"), ("leave", "put"), ("lower", "add")]


class HeldUp:
    """A port that lets others do something before one of the operations of a write."""

    def __init__(self, port: MongoPort, at: int, meanwhile: Callable[[], Any]) -> None:
        self.port = port
        self.left = at
        self.meanwhile: Callable[[], Any] | None = meanwhile

    def send(self, round: Sequence[Any]) -> Sequence[Any]:
        return [self.write(one) if isinstance(one, WriteRequest) else self.port.send([one])[0] for one in round]

    def write(self, request: WriteRequest) -> Any:
        steps = exchange(self.port._link, request)
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    time.sleep(step)
                    step = steps.send(None)
                    continue
                self.left -= 1
                if self.left < 0 and self.meanwhile is not None:
                    meanwhile, self.meanwhile = self.meanwhile, None
                    meanwhile()
                try:
                    value = step()
                except ERRORS as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(value)
        except StopIteration as done:
            return done.value

    def close(self) -> None:
        self.port.close()


def once(store: Store, name: str, arguments: dict[str, Any]) -> None:
    """Calls without patience: whoever is in the way is held up until this has ended."""
    core = store._core
    prepared = core.writer.prepare(core.model.writes[name], name, arguments, core.clock(), set())
    with suppress(ConflictError, ThrottledError):
        run(core.writer.run(prepared), store._port)


@pytest.fixture
def stores(mongodb: Harness) -> Iterator[tuple[Store, Store]]:
    with two_stores(mongodb, mongodb.url(), MODEL, noting) as found:
        yield found


@pytest.mark.timeout(120)
def test_whoever_begins_to_copy_within_a_transaction_is_seen_or_meets_it(stores: tuple[Store, Store]) -> None:
    store, other = stores
    port: Any = store._port
    number = played = 0
    for name, meanwhile in PAIRS:
        for at in OPERATIONS:
            number += 10
            store.load(rows(number, there=name != "join"))
            between = call(meanwhile, number)
            held = HeldUp(port, at, lambda between=between: once(other, *between))  # type: ignore[misc]
            store._port = held
            do(store, *call(name, number))
            store._port = port
            played += held.meanwhile is None
    assert played > len(PAIRS) * len(OPERATIONS) / 2
    found = store.verify()
    assert found.ok, found.problems


UNGUARDED = [("save", "add"), ("add", "save"), ("move", "save"), ("save", "drop")]


@pytest.mark.timeout(120)
def test_rows_that_nothing_stands_for_under_their_key_alone_meet_as_well(mongodb: Harness) -> None:
    """One makes a row that the other one sees not to be there: neither sees the other's transaction."""
    with two_stores(mongodb, mongodb.url(), unguarded.MODEL, unguarded.by_rank) as (store, other):
        port: Any = store._port
        number = played = 0
        for name, meanwhile in UNGUARDED:
            for at in (1, 3, 5, 7, 9):
                number += 10
                store.load(unguarded.first(number))
                between = unguarded.WRITES[meanwhile](number)
                held = HeldUp(port, at, lambda between=between: once(other, *between))  # type: ignore[misc]
                store._port = held
                do(store, *unguarded.WRITES[name](number))
                store._port = port
                played += held.meanwhile is None
        assert played > len(UNGUARDED) * 5 / 2
        found = store.verify()
        assert found.ok, found.problems
