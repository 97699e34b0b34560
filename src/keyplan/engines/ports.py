"""What sends requests: the only thing that knows the driver, sync and async."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from keyplan.engines.rounds import Reply, Round
from keyplan.errors import KeyplanError


class Port(Protocol):
    """A live connection, sync. Where it has an attribute `where`, that is what messages call the database."""

    def send(self, round: Round) -> Sequence[Reply]: ...

    def close(self) -> None: ...


class AsyncPort(Protocol):
    """A live connection, async, with the same `where`."""

    async def send(self, round: Round) -> Sequence[Reply]: ...

    async def close(self) -> None: ...


Against = Callable[[Round], KeyplanError | None]
"""Says why a round is not to be sent now, or not to be gone on with, if that is so."""
AgainstAsync = Callable[[Round], Awaitable[KeyplanError | None]]


@runtime_checkable
class Renewing(Port, Protocol):
    """A port of an engine with `leases`. It may take long over a round, since it repeats and completes what it has
    sent: before everything that it sends but the first, it asks whether it may."""

    def send_while(self, round: Round, against: Against) -> Sequence[Reply]: ...


@runtime_checkable
class RenewingAsync(AsyncPort, Protocol):
    """The same, async."""

    async def send_while(self, round: Round, against: AgainstAsync) -> Sequence[Reply]: ...


@runtime_checkable
class Holding(Protocol):
    """A port that is told what a store keeps up (`Engine.upkeep`): from then on, requests are refused with a
    DesignMismatchError if the database no longer has that on record."""

    def hold(self, upkeep: str) -> None: ...


@runtime_checkable
class HoldingAsync(Protocol):
    """The same, async."""

    async def hold(self, upkeep: str) -> None: ...
