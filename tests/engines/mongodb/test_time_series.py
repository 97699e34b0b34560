"""What native time-series collections refuse, for which no home can be one: see `docs/mongodb.md`.

The day a server allows one of these, its test fails, and the design space is to be looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pymongo import MongoClient, UpdateOne
from pymongo.errors import BulkWriteError, OperationFailure

from tests.engines.harness import Harness

AT = datetime(2026, 11, 16, 12, tzinfo=UTC)
KEY = {"sensor": 1, "at": AT}
ROW = {**KEY, "temperature": 20}
ILLEGAL, INVALID, VIEW, IN_TRANSACTION = 20, 72, 166, 263


@pytest.fixture
def series(mongodb: Harness) -> Iterator[Any]:
    with MongoClient[dict[str, Any]](mongodb.url()) as client:
        database = client.get_default_database()
        database.create_collection("series", timeseries={"timeField": "at", "metaField": "sensor"})
        database.series.insert_one(dict(ROW))
        yield database.series


def in_transaction(series: Any, act: Callable[[Any], object]) -> None:
    with series.database.client.start_session() as session, session.start_transaction():
        act(session)


REFUSED: dict[str, tuple[int, Callable[[Any], object]]] = {
    "a key that is there only once": (INVALID, lambda rows: rows.create_index([("sensor", 1), ("at", 1)], unique=True)),
    "a row changed": (INVALID, lambda rows: rows.update_one(KEY, {"$set": {"temperature": 21}})),
    "rows changed by more than their series": (INVALID, lambda rows: rows.update_many(KEY, {"$set": {"sensor": 2}})),
    "values of a series changed": (INVALID, lambda rows: rows.update_many({"sensor": 1}, {"$set": {"temperature": 2}})),
    "a row replaced": (INVALID, lambda rows: rows.replace_one(KEY, dict(ROW))),
    "a row put or replaced": (INVALID, lambda rows: rows.replace_one(KEY, dict(ROW), upsert=True)),
    "a row put unless it is there": (
        INVALID,
        lambda rows: rows.update_one(KEY, {"$setOnInsert": {"temperature": 2}}, upsert=True),
    ),
    "a series put or changed": (
        INVALID,
        lambda rows: rows.update_many({"sensor": 1}, {"$set": {"sensor": 1}}, upsert=True),
    ),
    "a row changed and returned": (VIEW, lambda rows: rows.find_one_and_update(KEY, {"$set": {"temperature": 2}})),
    "a row deleted": (ILLEGAL, lambda rows: rows.delete_one(KEY)),
    "rows deleted by more than their series": (INVALID, lambda rows: rows.delete_many(KEY)),
    "a row deleted and returned": (VIEW, lambda rows: rows.find_one_and_delete(KEY)),
    "a row that comes with others": (
        IN_TRANSACTION,
        lambda rows: in_transaction(rows, lambda session: rows.insert_one(dict(ROW), session=session)),
    ),
    "a series that goes with others": (
        IN_TRANSACTION,
        lambda rows: in_transaction(rows, lambda session: rows.delete_many({"sensor": 1}, session=session)),
    ),
    "rows that expire one by one": (INVALID, lambda rows: rows.create_index("expires", expireAfterSeconds=0)),
    "documents checked by a schema": (
        INVALID,
        lambda rows: rows.database.command("collMod", rows.name, validator={"temperature": {"$gt": 0}}),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(series: Any, what: str) -> None:
    code, act = REFUSED[what]
    with pytest.raises(OperationFailure) as refused:
        act(series)
    assert refused.value.code == code, refused.value


def test_a_bulk_of_upserts_is_refused(series: Any) -> None:
    with pytest.raises(BulkWriteError) as refused:
        series.bulk_write([UpdateOne(KEY, {"$set": {"temperature": 21}}, upsert=True)])
    assert [error["code"] for error in refused.value.details["writeErrors"]] == [INVALID]


def test_the_same_key_comes_twice_and_so_does_the_same_id(series: Any) -> None:
    """So that a create of a row that is there cannot be a conflict, and loading it again is another row."""
    for _ in range(2):
        series.insert_one({**ROW, "_id": "one"})
    assert series.count_documents(KEY) == 3
    assert series.count_documents({"_id": "one"}) == 2


def test_what_is_allowed_is_to_delete_a_whole_series(series: Any) -> None:
    series.insert_one({**ROW, "sensor": 2})
    assert series.delete_many({"sensor": 1}).deleted_count == 1
    assert series.count_documents({}) == 1
