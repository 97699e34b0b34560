"""What somebody would write for the table of `tests/bench/orders.yaml` with boto3, PynamoDB and aiodynamo.

Each of them reads and writes the very items that the store reads and writes, and returns rows with UUID, Decimal and
datetime. The libraries are put into the cache directory when they are first wanted, never into the project's venv.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.engines import fetch

PACKAGES = ("aiodynamo==26.4", "aiohttp==3.14.5", "boto3==1.44.0", "pynamodb==6.1.0")
REGION = "us-east-1"
INDEX = "GSI1"

Row = dict[str, Any]


def install() -> None:
    """Makes the libraries importable here, ahead of whatever else there is of what they need."""

    def build(directory: Path) -> None:
        quiet = ["--quiet", "--disable-pip-version-check"]
        fetch.run([sys.executable, "-m", "pip", "install", *quiet, "--target", "lib", *PACKAGES], directory)

    name = "rivals-dynamodb-" + "-".join(package.replace("==", "-") for package in PACKAGES)
    sys.path.insert(0, str(fetch.once(name, build) / "lib"))


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def moment_text(value: datetime) -> str:
    return value.isoformat(timespec="milliseconds")[:-6] + "Z"


def keys(row: Row) -> dict[str, str]:
    """The key attributes of an order."""
    order, customer = str(row["order_id"]), str(row["customer"])
    return {
        "PK": f"ORDER#{order}",
        "SK": "ORDER",
        "GSI1PK": f"CUSTOMER#{customer}",
        "GSI1SK": f"ORDER#{moment_text(row['created_at'])}#{order}",
    }


def item(row: Row) -> dict[str, Any]:
    """An order as DynamoDB takes it."""
    made: dict[str, Any] = {name: {"S": text} for name, text in keys(row).items()}
    made |= {
        "order_id": {"S": str(row["order_id"])},
        "customer": {"S": str(row["customer"])},
        "status": {"S": row["status"]},
        "total": {"N": str(row["total"])},
        "paid": {"BOOL": row["paid"]},
        "created_at": {"S": moment_text(row["created_at"])},
    }
    if row["note"] is not None:
        made["note"] = {"S": row["note"]}
    return made


def told_by_key(partition: str, sort: str) -> Row:
    """What stands in the key of the index, whose entries therefore do not have it besides."""
    _, created, order_id = sort.split("#")
    customer = partition.removeprefix("CUSTOMER#")
    return {"order_id": UUID(order_id), "customer": UUID(customer), "created_at": moment(created)}


def order(found: dict[str, Any]) -> Row:
    """An item as it comes from DynamoDB."""
    note = found.get("note")
    if "order_id" in found:
        told = {
            "order_id": UUID(found["order_id"]["S"]),
            "customer": UUID(found["customer"]["S"]),
            "created_at": moment(found["created_at"]["S"]),
        }
    else:
        told = told_by_key(found["GSI1PK"]["S"], found["GSI1SK"]["S"])
    return {
        **told,
        "status": found["status"]["S"],
        "total": Decimal(found["total"]["N"]),
        "paid": found["paid"]["BOOL"],
        "note": None if note is None else note["S"],
    }


class Boto3:
    """The low-level client, which is the fastest of boto3; safe to share between threads."""

    name = "boto3"

    def __init__(self, endpoint: str, table: str, in_flight: int) -> None:
        import boto3  # type: ignore[import-not-found,import-untyped,unused-ignore]
        from botocore.config import Config  # type: ignore[import-not-found,import-untyped,unused-ignore]

        config = Config(max_pool_connections=in_flight)
        access = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        self.client: Any = boto3.client("dynamodb", REGION, endpoint_url=endpoint, config=config, **access)
        self.table = table

    def get(self, order_id: UUID) -> Row | None:
        key = {"PK": {"S": f"ORDER#{order_id}"}, "SK": {"S": "ORDER"}}
        found = self.client.get_item(TableName=self.table, Key=key).get("Item")
        return None if found is None else order(found)

    def query(self, customer_id: UUID) -> list[Row]:
        found = self.client.query(
            TableName=self.table,
            IndexName=INDEX,
            KeyConditionExpression="GSI1PK = :pk AND begins_with(GSI1SK, :sk)",
            ExpressionAttributeValues={":pk": {"S": f"CUSTOMER#{customer_id}"}, ":sk": {"S": "ORDER#"}},
            ScanIndexForward=False,
            Limit=20,
        )
        return [order(one) for one in found["Items"]]

    def put(self, row: Row) -> None:
        condition = "attribute_not_exists(PK)"
        self.client.put_item(TableName=self.table, Item=item(row), ConditionExpression=condition)


class Pynamo:
    """A PynamoDB model."""

    name = "PynamoDB"

    def __init__(self, endpoint: str, table: str, in_flight: int) -> None:
        self.model = _pynamo_model(endpoint, table, in_flight)

    def get(self, order_id: UUID) -> Row | None:
        try:
            return self.row(self.model.get(f"ORDER#{order_id}", "ORDER"))
        except self.model.DoesNotExist:
            return None

    def query(self, customer_id: UUID) -> list[Row]:
        condition = self.model.GSI1SK.startswith("ORDER#")
        found = self.model.by_customer.query(
            f"CUSTOMER#{customer_id}", condition, scan_index_forward=False, limit=20, page_size=20
        )
        return [self.row(one) for one in found]

    def put(self, row: Row) -> None:
        made = self.model(**keys(row), **row)
        made.save(condition=self.model.PK.does_not_exist())

    @staticmethod
    def row(found: Any) -> Row:
        names = ("order_id", "customer", "status", "total", "paid", "created_at", "note")
        row = {name: getattr(found, name) for name in names}
        return row if row["order_id"] is not None else row | told_by_key(found.GSI1PK, found.GSI1SK)


def _pynamo_model(endpoint: str, table: str, in_flight: int) -> Any:
    from pynamodb.attributes import (  # type: ignore[import-not-found,unused-ignore]
        Attribute,
        BooleanAttribute,
        UnicodeAttribute,
    )
    from pynamodb.constants import NUMBER, STRING  # type: ignore[import-not-found,unused-ignore]
    from pynamodb.indexes import AllProjection, GlobalSecondaryIndex  # type: ignore[import-not-found,unused-ignore]
    from pynamodb.models import Model  # type: ignore[import-not-found,unused-ignore]

    def converted(kind: str, to: Callable[[Any], str], back: Callable[[str], Any]) -> Any:
        return type(
            "Converted",
            (Attribute,),
            {
                "attr_type": kind,
                "serialize": lambda self, value: to(value),
                "deserialize": lambda self, value: back(value),
            },
        )

    uuid_attribute = converted(STRING, str, UUID)

    class ByCustomer(GlobalSecondaryIndex):  # type: ignore[misc]
        class Meta:
            index_name = INDEX
            projection = AllProjection()
            read_capacity_units = write_capacity_units = 1

        GSI1PK = UnicodeAttribute(hash_key=True)
        GSI1SK = UnicodeAttribute(range_key=True)

    class Order(Model):  # type: ignore[misc]
        class Meta:
            table_name = table
            host = endpoint
            region = REGION
            aws_access_key_id = aws_secret_access_key = "local"
            max_pool_connections = in_flight

        PK = UnicodeAttribute(hash_key=True)
        SK = UnicodeAttribute(range_key=True)
        GSI1PK = UnicodeAttribute()
        GSI1SK = UnicodeAttribute()
        order_id = uuid_attribute()
        customer = uuid_attribute()
        status = UnicodeAttribute()
        total = converted(NUMBER, str, Decimal)()
        paid = BooleanAttribute()
        created_at = converted(STRING, moment_text, moment)()
        note = UnicodeAttribute(null=True)
        by_customer = ByCustomer()

    return Order


class Aiodynamo:
    """aiodynamo over aiohttp."""

    name = "aiodynamo"

    def __init__(self, endpoint: str, table: str, session: Any) -> None:
        from aiodynamo.client import URL, Client  # type: ignore[import-not-found,unused-ignore]
        from aiodynamo.credentials import Key, StaticCredentials  # type: ignore[import-not-found,unused-ignore]
        from aiodynamo.expressions import F, HashKey, RangeKey  # type: ignore[import-not-found,unused-ignore]
        from aiodynamo.http.aiohttp import AIOHTTP  # type: ignore[import-not-found,unused-ignore]
        from aiodynamo.models import Select  # type: ignore[import-not-found,unused-ignore]

        access = StaticCredentials(Key("local", "local"))
        self.client = Client(AIOHTTP(session), access, REGION, endpoint=URL(endpoint), numeric_type=Decimal)
        self.table = table
        self.absent = F("PK").does_not_exist()
        self.hash_key, self.range_key = HashKey, RangeKey
        self.projected = Select.all_projected_attributes

    async def get(self, order_id: UUID) -> Row | None:
        from aiodynamo.errors import ItemNotFound  # type: ignore[import-not-found,unused-ignore]

        try:
            return self.row(await self.client.get_item(self.table, {"PK": f"ORDER#{order_id}", "SK": "ORDER"}))
        except ItemNotFound:
            return None

    async def query(self, customer_id: UUID) -> list[Row]:
        condition = self.hash_key("GSI1PK", f"CUSTOMER#{customer_id}") & self.range_key("GSI1SK").begins_with("ORDER#")
        found = self.client.query(
            self.table, condition, index=INDEX, scan_forward=False, limit=20, select=self.projected
        )
        return [self.row(one) async for one in found]

    async def put(self, row: Row) -> None:
        made = {
            **keys(row),
            "order_id": str(row["order_id"]),
            "customer": str(row["customer"]),
            "status": row["status"],
            "total": row["total"],
            "paid": row["paid"],
            "created_at": moment_text(row["created_at"]),
        }
        if row["note"] is not None:
            made["note"] = row["note"]
        await self.client.put_item(self.table, made, condition=self.absent)

    @staticmethod
    def row(found: dict[str, Any]) -> Row:
        if "order_id" in found:
            told = {
                "order_id": UUID(found["order_id"]),
                "customer": UUID(found["customer"]),
                "created_at": moment(found["created_at"]),
            }
        else:
            told = told_by_key(found["GSI1PK"], found["GSI1SK"])
        return {
            **told,
            "status": found["status"],
            "total": found["total"],
            "paid": found["paid"],
            "note": found.get("note"),
        }
