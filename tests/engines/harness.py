"""What a test needs of an engine: a server that runs as long as the tests do, and a fresh database for each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module


class Harness(ABC):
    """Subclassed as `Harness` in `tests/engines/<name>/harness.py`; one instance serves the whole run."""

    name: str
    targets: Mapping[str, Mapping[str, object]] = {}
    """What a model's `targets:` should say for many small databases on one test server."""

    other_targets: tuple[Mapping[str, Mapping[str, object]], ...] = ()
    """Further targets, for designs that differ: partitions that have to be cut, for one."""

    @abstractmethod
    def start(self) -> None:
        """Makes the server available; raises if that is impossible, with a message that says what is missing."""

    @abstractmethod
    def stop(self) -> None:
        """Ends what `start` started and removes what the tests left behind."""

    @abstractmethod
    def url(self) -> str:
        """The URL of a database that nobody has used yet."""


def harness_for(name: str) -> Harness:
    """The harness of an engine, not started."""
    harness: Harness = import_module(f"tests.engines.{name}.harness").Harness()
    return harness
