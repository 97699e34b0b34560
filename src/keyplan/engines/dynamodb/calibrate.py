"""Measures the table of request latencies: what 99 of 100 requests of each kind stay under, from here.

Units and prices are AWS's and are not measured. The requests go to items of their own, which are deleted afterwards,
in the table of the URL; a table that does not exist is made for it, paid by request, and deleted again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from keyplan.engines.calibration import Calibration, highest
from keyplan.engines.dynamodb.faults import MissingTableError
from keyplan.engines.dynamodb.limits import MB
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.rounds import Pause, Proc
from keyplan.errors import KeyplanError

PARTITION = "KEYPLAN#CALIBRATE"
ITEMS = 100
TEXT = "x" * 400
SAMPLES = 200
PATIENCE = 60
"""Seconds that a new table may take to become active."""

Body = dict[str, Any]


def calibrate(told: Callable[[float], None]) -> Proc[Calibration]:
    """Measures each kind of request; `told` hears how far it is."""
    made = yield from _table()
    try:
        latencies = yield from _latencies(told)
    finally:
        yield from (_drop() if made else _clear())
    target = {"latencies": {name: float(f"{value:.3g}") for name, value in latencies.items()}}
    measured = f"milliseconds that 99 of 100 requests stay under, of {SAMPLES} each, one after the other"
    return Calibration("dynamodb", measured, target, {}, (), latencies)


def _one(operation: str, body: Body) -> Proc[Any]:
    (reply,) = yield [Request(operation, body)]
    if isinstance(reply, KeyplanError):
        raise reply
    return reply


def _table() -> Proc[bool]:
    """Whether a table had to be made."""
    try:
        yield from _one("DescribeTable", {})
        return False
    except MissingTableError:
        pass
    schema = [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}]
    types = [{"AttributeName": name, "AttributeType": "S"} for name in ("PK", "SK")]
    yield from _one(
        "CreateTable", {"KeySchema": schema, "AttributeDefinitions": types, "BillingMode": "PAY_PER_REQUEST"}
    )
    for _ in range(PATIENCE):
        about = yield from _one("DescribeTable", {})
        if about["Table"]["TableStatus"] == "ACTIVE":
            break
        yield Pause(1.0)
    return True


def _drop() -> Proc[None]:
    yield from _one("DeleteTable", {})


def _key(number: int) -> Body:
    return {"PK": {"S": PARTITION}, "SK": {"S": f"{number:04}"}}


def _clear() -> Proc[None]:
    for start in range(0, ITEMS, 25):
        deletes = [{"DeleteRequest": {"Key": _key(n)}} for n in range(start, start + 25)]
        yield from _one("BatchWriteItem", deletes)  # type: ignore[arg-type]


def _latencies(told: Callable[[float], None]) -> Proc[dict[str, float]]:
    def item(number: int) -> Body:
        return {**_key(number), "text": {"S": TEXT}}

    def batch(number: int) -> Any:
        return [{"PutRequest": {"Item": item((number * 25 + n) % ITEMS)}} for n in range(25)]

    def transaction(number: int) -> Body:
        return {"TransactItems": [{"Put": {"Item": item((number + n) % ITEMS)}} for n in range(2)]}

    condition = {"KeyConditionExpression": "PK = :p", "ExpressionAttributeValues": {":p": {"S": PARTITION}}}
    kinds: dict[str, tuple[str, Callable[[int], Any], int]] = {
        "batch_write_ms": ("BatchWriteItem", batch, 40),
        "put_ms": ("PutItem", lambda n: {"Item": item(n % ITEMS)}, SAMPLES),
        "get_ms": ("GetItem", lambda n: {"Key": _key(n % ITEMS)}, SAMPLES),
        "batch_get_ms": ("BatchGetItem", lambda n: {"Keys": [_key(each) for each in range(ITEMS)]}, SAMPLES),
        "query_ms": ("Query", lambda n: {**condition, "Limit": 20}, SAMPLES),
        "transact_write_ms": ("TransactWriteItems", transaction, SAMPLES),
    }
    found = {}
    for number, (name, (operation, make, count)) in enumerate(kinds.items()):
        told(number / (len(kinds) + 1))
        found[name] = yield from _timed(operation, make, count)
    whole = yield from _timed("Query", lambda n: dict(condition), 50)
    size = ITEMS * (len(TEXT) + 40) - 20 * (len(TEXT) + 40)
    found["ms_per_mb"] = max(0.0, whole - found["query_ms"]) / (size / MB)
    told(1.0)
    return found


def _timed(operation: str, make: Callable[[int], Any], count: int) -> Proc[float]:
    times = []
    for number in range(count):
        body = make(number)
        begun = time.perf_counter()
        yield from _one(operation, body)
        times.append(time.perf_counter() - begun)
    return highest(times) * 1000
