"""A port that refuses, loses or withholds chosen requests, without knowing what any engine sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keyplan.errors import EngineError, ThrottledError, UnavailableError, UncertainError
from keyplan.store.store import Store

Fault = Callable[[Callable[[], Any]], Any]
"""Gets the function that really sends the request; answers with a reply or an error."""


def throttled(send: Callable[[], Any]) -> EngineError:
    """Refused for want of capacity: nothing was done."""
    return ThrottledError("the test: too fast")


def unavailable(send: Callable[[], Any]) -> EngineError:
    """Not reached: nothing was done."""
    return UnavailableError("the test: nobody there")


def lost(send: Callable[[], Any]) -> EngineError:
    """Done, but the reply does not arrive."""
    send()
    return UncertainError("the test: no reply; it may have been done")


def dropped(send: Callable[[], Any]) -> EngineError:
    """Not done, but nobody can know."""
    return UncertainError("the test: no reply; it may have been done")


class FaultyPort:
    """Stands between a store and its port; the next requests meet with the faults given to `writes` or `reads`."""

    def __init__(self, store: Store) -> None:
        self.port = store._port
        self.writes: list[Fault] = []
        self.reads: list[Fault] = []
        self.sent = self.rounds = 0
        self.made: dict[int, Any] = {}
        codec: Any = store._core.codec
        write = codec.write

        def note(edits: Any) -> Any:
            request = write(edits)
            self.made[id(request)] = request  # kept alive, so that no other gets its id
            return request

        codec.write = note
        store._port = self
        for name in store.model.patterns:
            method = getattr(store, name)
            if getattr(method, "_quick", None) is not None:
                method._quick = None  # it has a port of its own

    def send(self, round: Sequence[Any]) -> list[Any]:
        self.rounds += 1
        return [self.one(request) for request in round]

    def one(self, request: Any) -> Any:
        self.sent += 1
        faults = self.writes if id(request) in self.made else self.reads

        def really() -> Any:
            return self.port.send([request])[0]

        return faults.pop(0)(really) if faults else really()

    def close(self) -> None:
        self.port.close()
