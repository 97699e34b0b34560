"""A connection that looks from time to time whether the store's design is still the one; see `engines/lease.py`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from keyplan.engines import lease
from keyplan.engines.base import Engine
from keyplan.engines.elapsed import elapsed
from keyplan.engines.lease import Held
from keyplan.engines.ports import Renewing, RenewingAsync
from keyplan.engines.rounds import Proc, Reply, Round
from keyplan.errors import DesignMismatchError, KeyplanError, UnavailableError
from keyplan.store.naming import name_of
from keyplan.store.pump import run, run_async

_AGAIN = 1.0
"""Seconds until a store that was stopped looks again."""
_PROMPT = 1.0
"""Seconds within which the record is read, as a rule: a request that follows is on its way in time."""
_LOOKS = 3
"""How often it is read again that took longer to be read than it can be believed."""
FREE = Held()


class Seen(NamedTuple):
    """What the record said."""

    held: Held
    since: float
    """A moment before it was read."""
    until: float
    """When it is no longer believed."""


class Lease:
    """What was seen of the record last; shared by all ports on one connection.

    Whatever is asked of it is asked of one `Seen`, which is replaced as a whole: others may look meanwhile."""

    def __init__(self, engine: Engine, upkeep: str, since: float) -> None:
        """`since` is a moment before the record was read."""
        self.engine = engine
        self.seen = Seen(FREE, since, since + lease.TERM)
        self._upkeep = upkeep
        self._failed: tuple[float, KeyplanError] | None = None

    def look(self) -> Proc[Seen]:
        """Reads the record again, until the answer is fresh: the server, the network or this process may have stood
        still behind it, for longer than whoever applies a design waits."""
        for _ in range(_LOOKS):
            since = elapsed()
            try:
                held = yield from self.engine.look(self._upkeep)
            except KeyplanError as error:
                self._failed = elapsed(), error
                raise
            believed = lease.TERM if held == FREE else min(lease.TERM, _AGAIN)
            found = Seen(FREE if held == FREE else held, since, since + believed)
            if since >= self.seen.since:  # otherwise, another one has looked since
                self.seen = found
            if elapsed() - since < max(lease.TERM, _PROMPT):
                return self.seen
        raise UnavailableError("the record of the design takes too long to be read; try again")

    def known(self, begun: float) -> Seen | None:
        """What somebody else has seen who has looked since this moment, and is still to be believed; the error of one
        who could not is raised."""
        if elapsed() < self.seen.until:
            return self.seen
        if self._failed is not None and self._failed[0] >= begun:
            raise self._failed[1]
        return None

    def refused(self, held: Held, round: Round, where: str) -> DesignMismatchError | None:
        """Why a round is not to be sent."""
        why = held.stop
        if not why and not all(map(self.engine.is_read, round)):
            why = held.stop_writes
        return DesignMismatchError(f"{where}: {why}" if where else why) if why else None


class _Leased:
    """What both colours have in common: all that the port itself has besides."""

    def __init__(self, port: Any, lease: Lease) -> None:
        self._port = port
        self._lease = lease

    def _refused(self, seen: Seen, round: Round) -> KeyplanError | None:
        return None if seen.held is FREE else self._lease.refused(seen.held, round, name_of(self._port))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name == "using":
            return lambda options: self._beside(found(options))
        return found

    def _beside(self, port: Any) -> Any:
        """Another port on the same connection."""
        raise NotImplementedError


class LeasedPort(_Leased):
    """A port, sync."""

    def __init__(self, port: Renewing, lease: Lease, looking: threading.Lock | None = None) -> None:
        super().__init__(port, lease)
        self._looking = looking or threading.Lock()

    def _beside(self, port: Renewing) -> LeasedPort:
        return LeasedPort(port, self._lease, self._looking)

    def send(self, round: Round) -> Sequence[Reply]:
        refused = self._against(round)
        if refused is not None:
            return [refused] * len(round)
        sent: Sequence[Reply] = self._port.send_while(round, self._against)
        return sent

    def _against(self, round: Round) -> KeyplanError | None:
        """Why a round is not to be sent now."""
        seen = self._lease.seen
        if elapsed() >= seen.until:
            try:
                seen = self._looked()
            except KeyplanError as error:
                return error
        return self._refused(seen, round)

    def _looked(self) -> Seen:
        """One looks for all threads that wait for it."""
        begun = elapsed()
        with self._looking:
            known = self._lease.known(begun)
            return run(self._lease.look(), self._port) if known is None else known

    def close(self) -> None:
        self._port.close()


class LeasedAsyncPort(_Leased):
    """A port, async."""

    def __init__(self, port: RenewingAsync, lease: Lease, looking: asyncio.Lock | None = None) -> None:
        super().__init__(port, lease)
        self._looking = looking or asyncio.Lock()

    def _beside(self, port: RenewingAsync) -> LeasedAsyncPort:
        return LeasedAsyncPort(port, self._lease, self._looking)

    async def send(self, round: Round) -> Sequence[Reply]:
        refused = await self._against(round)
        if refused is not None:
            return [refused] * len(round)
        sent: Sequence[Reply] = await self._port.send_while(round, self._against)
        return sent

    async def _against(self, round: Round) -> KeyplanError | None:
        """Why a round is not to be sent now."""
        seen = self._lease.seen
        if elapsed() >= seen.until:
            try:
                seen = await self._looked()
            except KeyplanError as error:
                return error
        return self._refused(seen, round)

    async def _looked(self) -> Seen:
        """One looks for all calls that wait for it; the next one, if that is cancelled."""
        begun = elapsed()
        async with self._looking:
            known = self._lease.known(begun)
            return await run_async(self._lease.look(), self._port) if known is None else known

    async def close(self) -> None:
        await self._port.close()
