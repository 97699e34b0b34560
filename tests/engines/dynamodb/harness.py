"""One DynamoDB server for all tests, and a table per database.

DynamoDB Local, or dynoxide where quickness is asked for. `KEYPLAN_TEST_DYNAMODB=local` or `=dynoxide` takes one of them
for all, and an `http://` address there takes a server that is already running.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from types import MappingProxyType

from keyplan.engines.dynamodb.credentials import Address, resolve
from keyplan.engines.dynamodb.faults import MissingTableError, RefusedError
from keyplan.engines.dynamodb.layout import PK, RECORD_TAG, SK
from keyplan.engines.dynamodb.transport import Transport
from tests.engines import harness
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.software import can_run_dynoxide

BATCH = 25
"""Deletes in one request, at most (AWS, quotas of BatchWriteItem)."""

MOST_ITEMS = 500
"""Of a table with more of them, a new one is made as quickly as they are deleted."""

PROVISIONED_TABLES = 4
"""How many tables may keep the capacity that their design gave them."""


class Harness(harness.Harness):
    """Tables on one server in memory."""

    name = "dynamodb"
    # Capacity is only held for what is provisioned, and an account may provision 80,000 units in all.
    targets = MappingProxyType({"dynamodb": {"billing": "on_demand"}})
    other_targets = tuple(
        MappingProxyType({"dynamodb": {"billing": "on_demand", "partition_mb": size}}) for size in ("0.1", "0.5", "3")
    )

    def __init__(self, quick: bool = False) -> None:
        super().__init__(quick)
        self._server: Server | None = None
        self._soonest: Harness | None = None
        self._endpoint = ""
        self._numbers = itertools.count()
        self._tables: list[str] = []

    @property
    def soonest(self) -> Harness:
        if self.quick:
            return self
        if self._soonest is None:
            other = Harness(quick=True)
            other.start()
            self._soonest = other
        return self._soonest

    def start(self) -> None:
        wanted = os.environ.get("KEYPLAN_TEST_DYNAMODB", "dynoxide" if self.quick and can_run_dynoxide() else "local")
        if wanted.startswith("http"):
            self._endpoint = wanted
        else:
            self._server = Server(wanted).start()
            self._endpoint = self._server.url
        if wanted == "local":
            # dynoxide accepts keys of several attributes, but cannot query them.
            several = {"dynamodb": {"billing": "on_demand", "multi_attribute_keys": True}}
            self.other_targets = (*self.other_targets, MappingProxyType(several))
        # The servers accept any credentials, but a request has to be signed with some.
        os.environ.setdefault("AWS_ACCESS_KEY_ID", "local")
        os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "local")

    def stop(self) -> None:
        if self._soonest is not None:
            self._soonest.stop()
        if self._server is not None:
            self._server.stop()

    def url(self) -> str:
        if len(self._tables) >= PROVISIONED_TABLES:
            oldest = self._tables.pop(0)
            self.forget(self._url_of(oldest))
            self._release(oldest)
        self._tables.append(f"test-{os.getpid()}-{next(self._numbers)}")
        return self._url_of(self._tables[-1])

    def _url_of(self, table: str) -> str:
        return f"dynamodb://{table}?region=us-east-1&endpoint={self._endpoint}"

    def empty(self, url: str) -> bool:
        """Deletes every item but the record of the design; only of a small table that still has its capacity."""
        table = url.removeprefix("dynamodb://").partition("?")[0]
        if table not in self._tables:
            return False
        transport = Transport(resolve(Address(table, endpoint=self._endpoint)))
        scan = {
            "TableName": table,
            "ConsistentRead": True,
            "ProjectionExpression": "#pk, #sk",
            "ExpressionAttributeNames": {"#pk": PK, "#sk": SK},
        }
        page = transport.send("Scan", {**scan, "Limit": MOST_ITEMS})
        items = page["Items"]
        if "LastEvaluatedKey" in page:
            transport.close()
            return False
        gone = [key for key in items if not (key[PK] == {"S": RECORD_TAG} and key[SK]["S"].startswith("DESIGN#"))]
        for at in range(0, len(gone), BATCH):
            deletes = [{"DeleteRequest": {"Key": key}} for key in gone[at : at + BATCH]]
            reply = transport.send("BatchWriteItem", {"RequestItems": {table: deletes}})
            assert not reply.get("UnprocessedItems")
        transport.close()
        # What was used last is released last.
        self._tables.sort(key=table.__eq__)
        return True

    def spoil(self, url: str, entity: str, key: str, number: int, field: str) -> None:
        table = url.removeprefix("dynamodb://").partition("?")[0]
        transport = Transport(resolve(Address(table, endpoint=self._endpoint)))
        items = transport.send("Scan", {"TableName": table, "ConsistentRead": True})["Items"]
        (item,) = (
            one
            for one in items
            if one.get(key) == {"N": str(number)} and field in one and one[PK]["S"].startswith(f"{entity.upper()}#")
        )
        transport.send("PutItem", {"TableName": table, "Item": {**item, field: {"BOOL": True}}})
        transport.close()

    def _release(self, table: str) -> None:
        """Has a table paid by request: capacity is limited per account, by DynamoDB Local too."""
        transport = Transport(resolve(Address(table, endpoint=self._endpoint)))
        with suppress(MissingTableError, RefusedError):
            about = transport.send("DescribeTable", {"TableName": table})["Table"]
            if about.get("ProvisionedThroughput", {}).get("ReadCapacityUnits", 0) > 0:
                transport.send("UpdateTable", {"TableName": table, "BillingMode": "PAY_PER_REQUEST"})
        transport.close()
