"""Requests as the codec makes them: without the table's name, which only the port knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

READS = frozenset(
    (
        "BatchGetItem",
        "DescribeContinuousBackups",
        "DescribeEndpoints",
        "DescribeLimits",
        "DescribeTable",
        "DescribeTimeToLive",
        "GetItem",
        "ListTables",
        "ListTagsOfResource",
        "Query",
        "Scan",
        "TransactGetItems",
    )
)
"""Operations that change nothing, so that a lost reply is no harm."""


@dataclass(slots=True)
class Request:
    """One operation; of a batch, `body` is what stands under the table's name.

    `repeatable`: doing it twice has the effect of doing it once.
    """

    operation: str
    body: Any
    repeatable: bool = True

    def filled(self, table: str) -> dict[str, Any]:
        """The body as DynamoDB takes it."""
        if self.operation in ("BatchGetItem", "BatchWriteItem"):
            return {"RequestItems": {table: self.body}}
        body: dict[str, Any] = self.body
        if self.operation == "TransactWriteItems":
            for item in body["TransactItems"]:
                for one in item.values():
                    one["TableName"] = table
        else:
            body["TableName"] = table
        return body


def is_read(request: object) -> bool:
    """Whether a request changes nothing."""
    return isinstance(request, Request) and request.operation in READS
