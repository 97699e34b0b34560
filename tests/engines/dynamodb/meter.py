"""A port that counts what it sends and adds up what the server says it took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from keyplan.engines.dynamodb.layout import PK, SK, Index, Item, layout
from keyplan.engines.dynamodb.port import DynamoDBPort
from keyplan.engines.dynamodb.transport import Call
from keyplan.engines.dynamodb.values import item_bytes
from keyplan.engines.ports import Port
from keyplan.model.model import Model
from keyplan.plan.design import Design
from tests.engines.dynamodb.units import index_write_units, write_units

MEASURED = frozenset(
    (
        *("GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems"),
        *("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"),
    )
)

Units = dict[str, float]
"""By index; the table is ''."""


@dataclass
class Taken:
    """What some calls took: units per table and index, requests and rounds of them."""

    read: Units = field(default_factory=lambda: defaultdict(float))
    write: Units = field(default_factory=lambda: defaultdict(float))
    operations: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    replies: list[Any] = field(default_factory=list)
    rounds: int = 0

    @property
    def requests(self) -> int:
        return len(self.operations)


class Metered:
    """A transport behind which every operation asks for its consumed capacity."""

    def __init__(self, port: Port, model: Model | None = None, design: Design | None = None) -> None:
        port = getattr(port, "_port", port)  # a store looks at the record from time to time, before this one
        assert isinstance(port, DynamoDBPort)
        self._inner = port._transport
        port._transport = self  # type: ignore[assignment]
        self.taken = Taken()
        self._indexes = layout(model, design).indexes if model is not None and design is not None else None

    def reset(self) -> Taken:
        """Begins anew; what was counted so far."""
        taken, self.taken = self.taken, Taken()
        return taken

    def send_all(self, calls: Sequence[Call]) -> list[Any]:
        self.taken.rounds += 1
        for call in calls:
            assert isinstance(call.body, dict)
            if call.operation in MEASURED:
                call.body["ReturnConsumedCapacity"] = "INDEXES"
            self.taken.operations.append(call.operation)
            self.taken.bodies.append(call.body)
        together = {n: self._items(call) for n, call in enumerate(calls) if call.operation == "TransactWriteItems"}
        replies = self._inner.send_all(calls)
        for n, before in together.items() if self._indexes is not None else ():
            reply = replies[n]
            if not isinstance(reply, Exception):
                self._transacted(before, self._items(calls[n]))
                reply.pop("ConsumedCapacity")
        for call, reply in zip(calls, replies, strict=True):
            self.taken.replies.append(reply)
            if not isinstance(reply, Exception):
                is_read = call.operation in ("GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems")
                _add(self.taken.read if is_read else self.taken.write, reply.get("ConsumedCapacity"))
        return replies

    def _items(self, call: Call) -> list[Item]:
        """The items that a transaction is about, as they are now."""
        assert isinstance(call.body, dict)
        found = []
        for item in call.body["TransactItems"]:
            ((_, one),) = item.items()
            key = one["Key"] if "Key" in one else {name: one["Item"][name] for name in (PK, SK)}
            body = {"TableName": one["TableName"], "Key": key, "ConsistentRead": True}
            found.append(self._inner.send("GetItem", body).get("Item", {}))
        return found

    def _transacted(self, before: Sequence[Item], after: Sequence[Item]) -> None:
        """The units of a transaction by AWS's formula, from its items: what emulators report is wrong."""
        for old, new in zip(before, after, strict=True):
            self.taken.write[""] += write_units(item_bytes(old), item_bytes(new), transaction=True)
            for index in self._indexes or ():
                keys = (f"{index.name}PK", f"{index.name}SK")
                self.taken.write[index.name] += index_write_units(entry(index, old), entry(index, new), keys)

    def close(self) -> None:
        self._inner.close()


def entry(index: Index, item: Item) -> Item | None:
    """What an index holds of an item, if anything."""
    keys = (f"{index.name}PK", f"{index.name}SK")
    if not all(key in item for key in keys):
        return None
    if index.projection == "ALL":
        return item
    return {name: value for name, value in item.items() if name in (*keys, PK, SK, *index.attributes)}


def _add(units: Units, found: Any) -> None:
    for one in found if isinstance(found, list) else [found] if found else []:
        indexes: dict[str, Any] = one.get("GlobalSecondaryIndexes", {}) | one.get("LocalSecondaryIndexes", {})
        for name, each in indexes.items():
            units[name] += each["CapacityUnits"]
        units[""] += one["Table"]["CapacityUnits"]
