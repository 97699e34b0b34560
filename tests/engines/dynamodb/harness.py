"""One DynamoDB server for all tests, and a table per database.

DynamoDB Local by default; `KEYPLAN_TEST_DYNAMODB=dynoxide` takes the faster one, and an `http://` address there takes
a server that is already running.
"""

from __future__ import annotations

import itertools
import os
from types import MappingProxyType

from tests.engines import harness
from tests.engines.dynamodb.server import Server


class Harness(harness.Harness):
    """Tables on one server in memory."""

    name = "dynamodb"
    # Capacity is only held for what is provisioned, and an account may provision 80,000 units in all.
    targets = MappingProxyType({"dynamodb": {"billing": "on_demand"}})

    def __init__(self) -> None:
        self._server: Server | None = None
        self._endpoint = ""
        self._numbers = itertools.count()

    def start(self) -> None:
        wanted = os.environ.get("KEYPLAN_TEST_DYNAMODB", "local")
        if wanted.startswith("http"):
            self._endpoint = wanted
        else:
            self._server = Server(wanted).start()
            self._endpoint = self._server.url
        # The servers accept any credentials, but a request has to be signed with some.
        os.environ.setdefault("AWS_ACCESS_KEY_ID", "local")
        os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "local")

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    def url(self) -> str:
        return f"dynamodb://test-{os.getpid()}-{next(self._numbers)}?region=us-east-1&endpoint={self._endpoint}"
