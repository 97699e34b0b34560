"""A connection that looks from time to time whether the store's design is still the one; see `engines/lease.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class LeasedPort:
    """A port, sync, with all that it has besides."""

    def __init__(self, port: Port, lease: Lease) -> None:
        self._port = port
        self._lease = lease

    def send(self, round: Round) -> Sequence[Reply]:
        lease = self._lease
        if monotonic() >= lease.until:
            try:
                run(lease.look(), self._port)
            except KeyplanError as error:
                return [error] * len(round)
        if lease.held is not FREE:
            refused = lease.refused(round, name_of(self._port))
            if refused is not None:
                return [refused] * len(round)
        return self._port.send(round)

    def close(self) -> None:
        self._port.close()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name == "using":

            def using(options: Mapping[str, Any]) -> LeasedPort:
                return LeasedPort(found(options), self._lease)

            return using
        return found


class LeasedAsyncPort:
    """The same, async."""

    def __init__(self, port: AsyncPort, lease: Lease) -> None:
        self._port = port
        self._lease = lease

    async def send(self, round: Round) -> Sequence[Reply]:
        lease = self._lease
        if monotonic() >= lease.until:
            try:
                await run_async(lease.look(), self._port)
            except KeyplanError as error:
                return [error] * len(round)
        if lease.held is not FREE:
            refused = lease.refused(round, name_of(self._port))
            if refused is not None:
                return [refused] * len(round)
        return await self._port.send(round)

    async def close(self) -> None:
        await self._port.close()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name == "using":

            def using(options: Mapping[str, Any]) -> LeasedAsyncPort:
                return LeasedAsyncPort(found(options), self._lease)

            return using
        return found
