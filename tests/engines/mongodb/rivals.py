"""What somebody would write for the collection of `tests/bench/orders.yaml` with pymongo, MongoEngine and Beanie.

Each of them reads the very documents that the store reads and writes. pymongo's rows are plain dicts with UUID, Decimal
and datetime, as the store's are; the others return documents of their own, with the same values. The libraries are put
into the cache directory when they are first wanted, never into the project's venv.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions
from bson.decimal128 import Decimal128
from pymongo import DESCENDING, MongoClient

from tests.engines import fetch

PACKAGES = ("beanie==2.2.0", "mongoengine==0.29.3")
COLLECTION, INDEX = "Order", "customer_created_at"
FIELDS = ("order_id", "customer", "status", "total", "paid", "created_at", "note")

Row = dict[str, Any]


def install() -> None:
    """Makes the libraries importable here; pymongo stays the one of the project."""

    def build(directory: Path) -> None:
        quiet = ["--quiet", "--disable-pip-version-check"]
        fetch.run([sys.executable, "-m", "pip", "install", *quiet, "--target", "lib", *PACKAGES], directory)

    name = "rivals-mongodb-" + "-".join(package.replace("==", "-") for package in PACKAGES)
    sys.path.append(str(fetch.once(name, build) / "lib"))


def document(row: Row) -> dict[str, Any]:
    """An order as MongoDB takes it."""
    made = {
        "_id": row["order_id"],
        "customer": row["customer"],
        "status": row["status"],
        "total": Decimal128(row["total"]),
        "paid": row["paid"],
        "created_at": row["created_at"],
    }
    if row["note"] is not None:
        made["note"] = row["note"]
    return made


def order(found: dict[str, Any]) -> Row:
    """A document as it comes from MongoDB."""
    return {
        "order_id": found["_id"],
        "customer": found["customer"],
        "status": found["status"],
        "total": found["total"].to_decimal(),
        "paid": found["paid"],
        "created_at": found["created_at"],
        "note": found.get("note"),
    }


class Raw:
    """pymongo by hand."""

    name = "pymongo"

    def __init__(self, url: str) -> None:
        options: CodecOptions[Any] = CodecOptions(tz_aware=True, uuid_representation=UuidRepresentation.STANDARD)
        self.client: MongoClient[dict[str, Any]] = MongoClient(url, w="majority")
        self.orders = self.client.get_default_database().with_options(codec_options=options)[COLLECTION]

    def get(self, key: UUID) -> Row | None:
        found = self.orders.find_one({"_id": key})
        return None if found is None else order(found)

    def page(self, customer: UUID) -> list[Row]:
        cursor = self.orders.find({"customer": customer}, hint=INDEX)
        return [order(each) for each in cursor.sort([("created_at", DESCENDING), ("_id", DESCENDING)]).limit(20)]

    def load(self, rows: list[Row]) -> None:
        self.orders.insert_many([document(row) for row in rows], ordered=False)


class Engine:
    """MongoEngine."""

    name = "MongoEngine"

    def __init__(self, url: str) -> None:
        import mongoengine as me  # type: ignore[import-not-found,unused-ignore]

        me.connect(host=url, uuidRepresentation="standard", tz_aware=True)

        class Order(me.Document):  # type: ignore[misc,name-defined,unused-ignore]
            order_id = me.UUIDField(primary_key=True)
            customer = me.UUIDField(required=True)
            status = me.StringField(choices=("pending", "shipped", "delivered"))
            total = me.Decimal128Field(required=True)
            paid = me.BooleanField(required=True)
            created_at = me.DateTimeField(required=True)
            note = me.StringField()
            meta = {"collection": COLLECTION, "auto_create_index": False}  # noqa: RUF012

        self.orders = Order

    def get(self, key: UUID) -> Any:
        return self.orders.objects(order_id=key).first()

    def page(self, customer: UUID) -> list[Any]:
        return list(self.orders.objects(customer=customer).order_by("-created_at", "-order_id").hint(INDEX).limit(20))


class Beanie:
    """Beanie, on the async client of pymongo."""

    name = "Beanie"

    async def start(self, url: str) -> None:
        from datetime import datetime

        import beanie  # type: ignore[import-not-found,unused-ignore]
        from pymongo import AsyncMongoClient

        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url, tz_aware=True, uuidRepresentation="standard")

        class Order(beanie.Document):  # type: ignore[misc,name-defined,unused-ignore]
            id: UUID
            customer: UUID
            status: str
            total: beanie.DecimalAnnotation
            paid: bool
            created_at: datetime
            note: str | None = None

            class Settings:
                name = COLLECTION

        Order.model_rebuild(_types_namespace={"UUID": UUID, "beanie": beanie, "datetime": datetime, "Decimal": Decimal})
        self.client = client
        await beanie.init_beanie(database=client.get_default_database(), document_models=[Order])
        self.orders = Order

    async def get(self, key: UUID) -> Any:
        return await self.orders.get(key)

    async def page(self, customer: UUID) -> list[Any]:
        found = self.orders.find({"customer": customer}).sort([("created_at", -1), ("_id", -1)]).limit(20)
        listed: list[Any] = await found.to_list()
        return listed


def plain(found: Any) -> Row:
    """A document of a rival as a row, to be compared with ours."""
    row = {name: getattr(found, name, None) for name in FIELDS}
    return {**row, "order_id": getattr(found, "order_id", None) or found.id}
