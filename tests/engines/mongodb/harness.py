"""One MongoDB replica set for all processes of a test run, and a database per test.

A single node, for whatever looks at documents and requests, and three of them where `replicated` is asked for: each of
these does all the work. `KEYPLAN_TEST_MONGODB=1` takes a single one for all, `=3` three, and a `mongodb://` address
there takes a server that is already running.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

from pymongo import MongoClient, WriteConcern
from pymongo.uri_parser import parse_uri

from keyplan.engines.mongodb.layout import RECORD_COLLECTION
from tests.engines import harness
from tests.engines.mongodb.server import Shared

NODES = 3
"""Of a replica set that survives the loss of one."""

KEPT = 64
"""Databases that stay while the tests run: each takes files and memory of the server, and a whole test file may use one
until its end."""

LIFETIME_SECONDS = 5
"""What a process that was killed in the middle of a transaction has locked is free again after so long; the server's
default is a minute."""


CALMLY = "serverMonitoringMode=poll"
"""Stores ask each node now and then how it is, in place of a second connection to each by which it says so itself: no
node of this server ever goes, and tests open thousands of stores."""

NUMBERS = itertools.count()
"""Names are given once per process: one server is behind every harness in it."""


class Harness(harness.Harness):
    """Databases on one replica set."""

    name = "mongodb"

    def __init__(self, quick: bool = False, nodes: int = 1) -> None:
        super().__init__(quick)
        self._wanted = os.environ.get("KEYPLAN_TEST_MONGODB", str(nodes))
        self._replicated: Harness | None = None
        self._names: list[str] = []
        self._server: Shared | None = None
        self._url = ""
        self._client: MongoClient[dict[str, Any]] | None = None

    def start(self) -> None:
        if self._wanted.startswith("mongodb"):
            self._url = self._wanted
        else:
            self._server = Shared(nodes=int(self._wanted)).start()
            self._url = f"{self._server.url}&{CALMLY}"
        self._client = MongoClient(self._url, serverSelectionTimeoutMS=30_000)
        self._client.admin.command("ping")
        for host, port in self._client.nodes:
            with MongoClient(host, port, directConnection=True) as node:
                node.admin.command({"setParameter": 1, "transactionLifetimeLimitSeconds": LIFETIME_SECONDS})

    @property
    def replicated(self) -> Harness:
        if self._replicated is None:
            other = Harness(nodes=NODES)
            if other._wanted == self._wanted:
                return self
            other.start()
            self._replicated = other
        return self._replicated

    def stop(self) -> None:
        if self._replicated is not None:
            self._replicated.stop()
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
            oldest = self._names.pop(0)
            self.forget(self._url_of(oldest))
            self._client.drop_database(oldest)
        self._names.append(f"test_{os.getpid()}_{next(NUMBERS)}")
        return self._url_of(self._names[-1])

    def _url_of(self, name: str) -> str:
        return self._url.replace("/?", f"/{name}?")

    def empty(self, url: str) -> bool:
        """Deletes every document but the record of the design: to make collections and indexes, on every node, takes a
        hundred times as long."""
        assert self._client is not None
        database = self._client[parse_uri(url)["database"]]
        names = [name for name in database.list_collection_names() if name != RECORD_COLLECTION]
        for name in names:
            # The last one waits for a majority, and with it all before it.
            concern = WriteConcern("majority" if name == names[-1] else 1)
            database.get_collection(name, write_concern=concern).delete_many({})
        # What was used last is dropped last.
        self._names.sort(key=database.name.__eq__)
        return True

    def spoil(self, url: str, entity: str, key: str, number: int, field: str) -> None:
        assert self._client is not None
        database = self._client[parse_uri(url)["database"]]
        collection = database.get_collection(entity, write_concern=WriteConcern("majority"))
        change = {"$set": {field: "no"}}
        done = collection.update_one({"_id": number, field: {"$exists": True}}, change, bypass_document_validation=True)
        assert done.modified_count == 1
