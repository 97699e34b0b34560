"""One MongoDB replica set for all processes of a test run, and a database per test.

Three nodes by default; `KEYPLAN_TEST_MONGODB=1` takes a single one, which is faster, and a `mongodb://` address there
takes a server that is already running.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

from pymongo import MongoClient

from tests.engines import harness
from tests.engines.mongodb.server import Shared

KEPT = 64
"""Databases that stay while the tests run: each takes files and memory of the server, and a whole test file may use one
until its end."""

LIFETIME_SECONDS = 5
"""What a process that was killed in the middle of a transaction has locked is free again after so long; the server's
default is a minute."""


NUMBERS = itertools.count()
"""Names are given once per process: one server is behind every harness in it."""


class Harness(harness.Harness):
    """Databases on one replica set."""

    name = "mongodb"

    def __init__(self) -> None:
        self._names: list[str] = []
        self._server: Shared | None = None
        self._url = ""
        self._client: MongoClient[dict[str, Any]] | None = None

    def start(self) -> None:
        wanted = os.environ.get("KEYPLAN_TEST_MONGODB", "3")
        if wanted.startswith("mongodb"):
            self._url = wanted
        else:
            self._server = Shared(nodes=int(wanted)).start()
            self._url = self._server.url
        self._client = MongoClient(self._url, serverSelectionTimeoutMS=30_000)
        self._client.admin.command("ping")
        for host, port in self._client.nodes:
            with MongoClient(host, port, directConnection=True) as node:
                node.admin.command({"setParameter": 1, "transactionLifetimeLimitSeconds": LIFETIME_SECONDS})

    def stop(self) -> None:
        if self._client is not None:
            if self._server is None:
                for name in self._names:
                    self._client.drop_database(name)
            self._client.close()
        if self._server is not None:
            self._server.stop()

    def url(self) -> str:
        assert self._client is not None
        if len(self._names) >= KEPT:
            self._client.drop_database(self._names.pop(0))
        self._names.append(f"test_{os.getpid()}_{next(NUMBERS)}")
        return self._url.replace("/?", f"/{self._names[-1]}?")
