"""What stands behind the lease of a store, where it has one: nearest to the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Behind:
    """Counts rounds, and does something when the next reply is there."""

    def __init__(self, store: Any) -> None:
        self.rounds = 0
        self.then: Callable[[], None] | None = None
        leased = store._port
        if hasattr(leased, "_lease"):
            self._port, leased._port = leased._port, self
        else:
            self._port, store._port = leased, self
        for name in store.model.patterns:
            getattr(store, name)._quick = None  # it has a port of its own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def _after(self) -> None:
        self.rounds += 1
        then, self.then = self.then, None
        if then is not None:
            then()

    def send(self, round: Sequence[Any]) -> Any:
        found = self._port.send(round)
        self._after()
        return found

    def send_while(self, round: Sequence[Any], against: Any) -> Any:
        found = self._port.send_while(round, against)
        self._after()
        return found

    def close(self) -> Any:
        return self._port.close()


class BehindAsync(Behind):
    """The same for asyncio."""

    async def send(self, round: Sequence[Any]) -> Any:
        found = await self._port.send(round)
        self._after()
        return found

    async def send_while(self, round: Sequence[Any], against: Any) -> Any:
        found = await self._port.send_while(round, against)
        self._after()
        return found
