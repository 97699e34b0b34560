"""Time as a test wants it to pass, for leases and for whoever waits for them: hours of it cost nothing."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from keyplan.engines import lease
from keyplan.store import lease as stores
from keyplan.store import open as opening
from keyplan.store import pump

MOST = 0.02
"""Seconds that a pause really takes: servers that are waited for do something meanwhile."""


class OwnTime:
    """A clock that goes on when it is told to, or when an `apply` waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, term: float, grace: float) -> None:
        self.now = time.monotonic()
        monkeypatch.setattr(lease, "TERM", term)
        monkeypatch.setattr(lease, "GRACE", grace)
        for module in (stores, opening):
            monkeypatch.setattr(module, "elapsed", lambda: self.now)
        monkeypatch.setattr(pump, "time", SimpleNamespace(sleep=self.sleep))

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        time.sleep(min(seconds, MOST))

    def passes(self, seconds: float) -> None:
        self.now += seconds
