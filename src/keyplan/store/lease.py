"""A connection that looks from time to time whether the store's design is still the one; see `engines/lease.py`."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

from keyplan.engines import lease
from keyplan.engines.base import AsyncPort, Engine, Port, Proc, Reply, Round
from keyplan.engines.lease import Held
from keyplan.errors import DesignMismatchError, KeyplanError
from keyplan.store.naming import name_of
from keyplan.store.pump import run, run_async

_AGAIN = 1.0
"""Seconds until a store that was stopped looks again."""
FREE = Held()


class Lease:
    """What was seen of the record, and until when it is believed; shared by all ports on one connection."""

    def __init__(self, engine: Engine, upkeep: str, seen: float) -> None:
        """`seen` is a moment before the record was read."""
        self.engine = engine
        self.until = seen + lease.TERM
        self.held = FREE
        self._upkeep = upkeep

    def look(self) -> Proc[None]:
        """Reads the record again."""
        seen = monotonic()
        self.held = yield from self.engine.look(self._upkeep)
        self.until = seen + (lease.TERM if self.held == FREE else min(lease.TERM, _AGAIN))

    def refused(self, round: Round, where: str) -> DesignMismatchError | None:
        """Why a round is not to be sent."""
        why = self.held.stop
        if not why and not all(map(self.engine.is_read, round)):
            why = self.held.stop_writes
        return DesignMismatchError(f"{where}: {why}" if where else why) if why else None


class _Leased:
    """What both colours have in common: all that the port itself has besides."""

    def __init__(self, port: Any, lease: Lease) -> None:
        self._port = port
        self._lease = lease

    def _refused(self, round: Round) -> list[Reply] | None:
        """The replies to a round that is not to be sent."""
        if self._lease.held is FREE:
            return None
        refused = self._lease.refused(round, name_of(self._port))
        return None if refused is None else [refused] * len(round)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name == "using":
            return lambda options: type(self)(found(options), self._lease)
        return found


class LeasedPort(_Leased):
    """A port, sync."""

    def __init__(self, port: Port, lease: Lease) -> None:
        super().__init__(port, lease)

    def send(self, round: Round) -> Sequence[Reply]:
        if monotonic() >= self._lease.until:
            try:
                run(self._lease.look(), self._port)
            except KeyplanError as error:
                return [error] * len(round)
        sent: Sequence[Reply] = self._refused(round) or self._port.send(round)
        return sent

    def close(self) -> None:
        self._port.close()


class LeasedAsyncPort(_Leased):
    """A port, async."""

    def __init__(self, port: AsyncPort, lease: Lease) -> None:
        super().__init__(port, lease)

    async def send(self, round: Round) -> Sequence[Reply]:
        if monotonic() >= self._lease.until:
            try:
                await run_async(self._lease.look(), self._port)
            except KeyplanError as error:
                return [error] * len(round)
        sent: Sequence[Reply] = self._refused(round) or await self._port.send(round)
        return sent

    async def close(self) -> None:
        await self._port.close()
