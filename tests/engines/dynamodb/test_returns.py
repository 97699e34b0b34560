"""`return:` of a write of several items, with somebody else writing the row in the worst moments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import keyplan
from keyplan.engines.dynamodb.transport import Call
from keyplan.model.load import parse_model
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.faults.test_returns import MODEL


class Interrupted:
    """A transport that lets somebody else act right after each transaction, and once right before the first."""

    def __init__(self, inner: Any, act: Callable[[], None]) -> None:
        self.inner = inner
        self.act = act
        self.transactions = 0

    def send_all(self, calls: Sequence[Call]) -> Any:
        together = any(call.operation == "TransactWriteItems" for call in calls)
        if together and not self.transactions:
            self.act()
        replies = self.inner.send_all(calls)
        if together:
            self.transactions += 1
            self.act()
        return replies

    def close(self) -> None:
        self.inner.close()


def test_the_row_is_the_one_that_was_written(dynoxide: Server) -> None:
    """Somebody draws before our transaction, which is then refused and done anew, and behind it, before we answer."""
    url = url_of(dynoxide.url)
    model = replace(parse_model(MODEL), targets={"dynamodb": {"billing": "on_demand"}})
    keyplan.apply(model, url)
    with keyplan.open(model, url) as store, keyplan.open(model, url) as other:
        store.add_desk(desk_id="d", hall="h")
        seen: list[int] = []
        leased: Any = store._port
        port = leased._port
        port._transport = interrupted = Interrupted(port._transport, lambda: seen.append(other.draw(desk="d")["next"]))
        mine = store.draw(desk="d")["next"]
        assert interrupted.transactions == 2, "the first one met with the other's draw"
        port._transport = interrupted.inner
        assert sorted([*seen, mine]) == [1, 2, 3, 4]
        assert mine == 3, "the others drew 1 before it, 2 behind the refused one, and 4 behind the one that was done"
        assert store.desk(desk="d")["next"] == 4
