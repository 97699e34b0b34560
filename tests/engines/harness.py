"""What a test needs of an engine: a server that runs as long as the tests do, and a fresh database for each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from importlib import import_module


class Harness(ABC):
    """Subclassed as `Harness` in `tests/engines/<name>/harness.py`; one instance serves the whole run."""

    name: str
    targets: Mapping[str, Mapping[str, object]] = {}
    """What a model's `targets:` should say for many small databases on one test server."""

    other_targets: tuple[Mapping[str, Mapping[str, object]], ...] = ()
    """Further targets, for designs that differ: partitions that have to be cut, for one."""

    def __init__(self, quick: bool = False) -> None:
        """With `quick`, the server that answers soonest where an engine has several: for tests that try every order."""
        self.quick = quick
        self._free: dict[Hashable, str] = {}

    @abstractmethod
    def start(self) -> None:
        """Makes the server available; raises if that is impossible, with a message that says what is missing."""

    @abstractmethod
    def stop(self) -> None:
        """Ends what `start` started and removes what the tests left behind."""

    @property
    def replicated(self) -> Harness:
        """The same engine on as many nodes as its users run it on, started: for what may depend on how these follow
        each other. Itself, where its rows are in one place only."""
        return self

    @property
    def soonest(self) -> Harness:
        """The same engine on the server that answers soonest, started."""
        return self

    @abstractmethod
    def url(self) -> str:
        """The URL of a database that nobody has used yet."""

    @abstractmethod
    def spoil(self, url: str, entity: str, key: str, number: int, field: str) -> None:
        """Has something else write what cannot be read into a field with a date, of the row with that number as key."""

    def empty(self, url: str) -> bool:
        """Removes every row and keeps all else; False, and nothing done, where a new database is as quick to make."""
        return False

    def borrow(self, what: Hashable) -> str:
        """A database without rows: one that was given back with the same words, else a new one.

        Whoever applies to it the design that it was given back with finds nothing to do."""
        return self._free.pop(what, None) or self.url()

    def give_back(self, what: Hashable, url: str) -> None:
        """Keeps a database, without its rows, for whoever wants the same design."""
        if what not in self._free and self.empty(url):
            self._free[what] = url

    def forget(self, url: str) -> None:
        """A database is no longer there."""
        self._free = {what: one for what, one in self._free.items() if one != url}


def harness_for(name: str, *, quick: bool = False) -> Harness:
    """The harness of an engine, not started."""
    harness: Harness = import_module(f"tests.engines.{name}.harness").Harness(quick)
    return harness
