"""Servers for the tests of this folder, started once and only if a test wants them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from keyplan.engines.dynamodb.credentials import Access, Address, resolve
from keyplan.engines.dynamodb.transport import Transport
from tests.engines.dynamodb.server import KINDS, Server
from tests.engines.fetch import FetchError


def _started(kind: str) -> Iterator[Server]:
    try:
        server = Server(kind).start()
    except FetchError as error:
        if "dynamodb" in os.environ.get("KEYPLAN_TEST_REQUIRE", ""):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def local() -> Iterator[Server]:
    yield from _started("local")


@pytest.fixture(scope="session")
def dynoxide() -> Iterator[Server]:
    yield from _started("dynoxide")


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Server:
    """Each server in turn."""
    found: Server = request.getfixturevalue(request.param)
    return found


_NUMBERS = itertools.count()


def new_table(access: Access) -> str:
    """An empty table with string keys PK and SK."""
    name = f"table-{next(_NUMBERS)}"
    transport = Transport(access)
    transport.send(
        "CreateTable",
        {
            "TableName": name,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": each, "AttributeType": "S"} for each in ("PK", "SK")],
            "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
        },
    )
    transport.close()
    return name


def access_to(url: str) -> Access:
    return resolve(Address("table", endpoint=url))
