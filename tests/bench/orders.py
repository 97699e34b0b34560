"""Rows for `orders.yaml`, the model that the client benchmarks run."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

MODEL = Path(__file__).with_name("orders.yaml")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


def new_id(source: random.Random) -> UUID:
    return UUID(bytes=source.randbytes(16), version=4)


def orders(source: random.Random, customers: list[UUID], count: int) -> list[tuple[str, Row]]:
    """New orders, as `load` takes them."""
    return [
        (
            "Order",
            {
                "order_id": new_id(source),
                "customer": source.choice(customers),
                "status": source.choice(("pending", "shipped", "delivered")),
                "total": Decimal(source.randrange(10**6)).scaleb(-2),
                "paid": source.random() < 0.9,
                "created_at": EPOCH + timedelta(seconds=source.randrange(1_600_000_000, 1_700_000_000)),
                "note": "leave at the door" if source.random() < 0.1 else None,
            },
        )
        for _ in range(count)
    ]
