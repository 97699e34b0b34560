"""One MongoDB replica set for all tests, and a database per test.

`KEYPLAN_TEST_MONGODB` names a server that is already running: `mongodb://127.0.0.1:27017/?replicaSet=rs0`.
"""

from __future__ import annotations

import itertools
import os

from pymongo import MongoClient

from tests.engines import harness

KEPT = 8
"""Databases that stay while the tests run: each of their files takes handles and memory of the server."""


class Harness(harness.Harness):
    """Databases on one replica set."""

    name = "mongodb"

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._names: list[str] = []
        self._head = ""
        self._options = ""
        self._server = None
        self._client: MongoClient[dict[str, object]] | None = None

    def start(self) -> None:
        url = os.environ.get("KEYPLAN_TEST_MONGODB", "")
        head, _, self._options = url.partition("/?")
        self._head = head.rstrip("/")
        self._client = MongoClient(url, serverSelectionTimeoutMS=10_000)
        self._client.admin.command("ping")

    def stop(self) -> None:
        if self._client is not None:
            for name in self._names:
                self._client.drop_database(name)
            self._client.close()

    def url(self) -> str:
        assert self._client is not None
        if len(self._names) >= KEPT:
            self._client.drop_database(self._names.pop(0))
        self._names.append(f"test_{os.getpid()}_{next(self._numbers)}")
        return f"{self._head}/{self._names[-1]}?{self._options}"
