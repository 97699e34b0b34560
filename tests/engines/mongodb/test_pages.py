"""Pages that are larger than a reply of the server, in both colours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from keyplan.engines.mongodb.operations import Find, Found
from keyplan.engines.mongodb.port import MongoAsyncPort, MongoPort
from tests.conftest import started
from tests.engines.harness import Harness

LARGE = 300_000
MANY = 120


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    for server in started("mongodb"):
        yield filled(server)


def filled(server: Harness) -> str:
    url = server.url()
    with MongoClient[dict[str, Any]](url) as client:
        documents = [{"_id": number, "text": "x" * LARGE} for number in range(MANY)]
        client.get_default_database()["things"].insert_many(documents)
    return url


def check(url: str, replies: Any) -> None:
    (found,) = replies
    assert isinstance(found, Found)
    assert [document["_id"] for document in found.documents] == list(range(MANY))
    with MongoClient[dict[str, Any]](url) as client:
        assert not open_cursors(client)


def open_cursors(client: MongoClient[dict[str, Any]]) -> list[Any]:
    """Those over our collection alone: others use the server too."""
    name = client.get_default_database().name
    ask = [{"$currentOp": {"idleCursors": True, "allUsers": True}}, {"$match": {"ns": f"{name}.things"}}]
    return [found for found in client.admin.aggregate(ask) if found.get("cursor")]


def test_a_cursor_left_open_is_seen(url: str) -> None:
    with MongoClient[dict[str, Any]](url) as client:
        cursor = client.get_default_database()["things"].find({}, batch_size=2)
        next(cursor)
        assert open_cursors(client)
        cursor.close()
        assert not open_cursors(client)


FIND = Find("things", {}, sort=[("_id", 1)], limit=MANY, hint="_id_")


def test_a_page_beyond_one_reply_is_whole(url: str) -> None:
    port = MongoPort(url)
    check(url, port.send([FIND]))
    port.close()


def test_a_page_beyond_one_reply_is_whole_async(url: str) -> None:
    async def ask() -> Any:
        port = MongoAsyncPort(url)
        found = await port.send([FIND])
        await port.close()
        return found

    check(url, asyncio.run(ask()))
