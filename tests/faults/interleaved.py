"""Several writers whose requests reach the engine in an order that is drawn, one at a time.

Processes that run at once meet in few of the orders that there are, and never twice in the same. Here every call is a
generator of requests, so that one process can go on with any of them at any point, or leave one where it is, as a kill
would. The same number leads to the same order.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from keyplan.engines.rounds import Pause
from keyplan.errors import ArgumentError, ConflictError, UncertainError, UnsupportedError
from keyplan.store.store import Store

Call = tuple[str, dict[str, Any]]
_OPEN: Any = object()


class Writer:
    """Calls one after the other, as a generator; and where it is now."""

    def __init__(self, store: Store, calls: Iterable[Call]) -> None:
        self.proc = _one_by_one(store, calls)
        self.requests: Sequence[Any] = ()
        self.replies: list[Any] = []
        self.ended = False
        self.go_on(None)

    def go_on(self, replies: Sequence[Any] | None) -> None:
        try:
            step = self.proc.send(replies)
        except StopIteration:
            self.ended = True
            return
        self.requests = () if isinstance(step, Pause) else step
        self.replies = [_OPEN] * len(self.requests)

    def one_more(self, store: Store, source: random.Random) -> None:
        """Sends one of the requests that are open; those of one round may be done in any order."""
        left = [number for number, reply in enumerate(self.replies) if reply is _OPEN]
        if left:
            number = source.choice(left)
            (self.replies[number],) = store._port.send([self.requests[number]])
        if len(left) <= 1:
            self.go_on(self.replies)


def _one_by_one(store: Store, calls: Iterable[Call]) -> Generator[Any, Any, None]:
    core = store._core
    for name, arguments in calls:
        transaction = core.model.transactions.get(name)
        # Refused as a whole, or done or not if its reply was lost.
        with suppress(ConflictError, ArgumentError, UnsupportedError, UncertainError):
            if transaction is not None:
                yield from core.transact(transaction, arguments)
            else:
                yield from core.write(core.model.writes[name], arguments)


def interleave(store: Store, writers: Sequence[Iterator[Call]], each: int, seed: int, kills: float = 0.0) -> None:
    """Lets writers do so many calls each; with this chance, per request, one is left where it is."""
    source = random.Random(seed)
    state = random.getstate()
    random.seed(seed)  # what a write does of its own accord by chance: how long it waits
    try:
        going = [Writer(store, islice(calls, each)) for calls in writers]
        while going := [writer for writer in going if not writer.ended]:
            writer = source.choice(going)
            if source.random() < kills:
                writer.proc.close()
                writer.ended = True
            else:
                writer.one_more(store, source)
    finally:
        random.setstate(state)
