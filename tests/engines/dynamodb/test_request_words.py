"""What `explain` says that a write sends is what it sends: the same items, expressions and conditions."""

from __future__ import annotations

import json
import re
from typing import Any

import keyplan
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.unit.design.nouns import model_of

MODEL = model_of(
    """
User: { count: 1M, fields: { user_id: 'int, key', email: 'string(20), unique', name: string(20) } }
Order:
  count: 10M
  fields: { order_id: 'int, key', user: 'User, as orders', status: 'enum(open 10%, sent 90%)', placed: timestamp }
Item:
  count: 30M
  key: [order, line]
  fields: { order: 'Order, as items, max 20', line: int, product: Product, quantity: int }
Product: { count: 1k, fields: { sku: 'int, key', title: string(20), stock: int } }
""",
    """
order: { find: Order, where: "order_id = :o", with: [items], select: [order_id, user.name, status, items], rate: 100/s }
of_user: { find: Order, where: "user = :u", order: placed desc, page: 20, rate: 50/s, consistency: strong }
open_orders: { count: Order, where: "status = :s", rate: 100/s, consistency: strong }
by_email: { find: User, where: "email = :e", rate: 10/s, consistency: strong }
""",
    """
join: { create: User, rate: 1/s }
rename: { update: User, set: [name], where: "user_id = :id", rate: 1/h }
stock_up: { create: Product, rate: 1/h }
place: { create: Order, with: [items], rate: 1/s }
send: { update: Order, set: { status: sent }, where: "order_id = :id", if: "status = 'open'", rate: 1/s }
take: { update: Product, add: { stock: "-:n" }, where: "sku = :sku", if: "stock >= :n", rate: 3/s }
drop: { delete: Order, with: [items], where: "order_id = :id", rate: 1/h }
""",
    "checkout: [place, take x1 max 20]",
)
WHEN = "2030-01-01T00:00:00Z"
ORDER = {"order_id": 5, "user": 1, "status": "open", "placed": WHEN}
ITEMS = [{"line": 1, "product": 7, "quantity": 2}]


def shapes(operation: str, body: dict[str, Any]) -> list[tuple[str, ...]]:
    """The items of a request without their values, in any order."""
    if operation != "TransactWriteItems":
        return [shape(operation, body)]
    return sorted({shape(name, each) for one in body["TransactItems"] for name, each in one.items()})


def shape(name: str, body: dict[str, Any]) -> tuple[str, ...]:
    names = body.get("ExpressionAttributeNames", {})
    key = body.get("Key") or body["Item"]
    tags = [re.match(r"[A-Z.$]*", text if isinstance(text, str) else text["S"])[0] for text in (key["PK"], key["SK"])]  # type: ignore[index]
    said = [
        re.sub(r"#\d+", lambda found: names[found[0]], body.get(one, ""))
        for one in ("ConditionExpression", "UpdateExpression")
    ]
    said = [re.sub(r":\d+", "?", text) for text in said]
    return (name, *tags, *said, *sorted(body.get("Item", ())))


def test_what_is_explained_is_what_is_sent(dynoxide: Server) -> None:
    url = url_of(dynoxide.url)
    design = keyplan.design(MODEL, "dynamodb")
    keyplan.apply(MODEL, url, design=design)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("join", {"user_id": 1, "email": "a@b", "name": "Ann"}),
        ("stock_up", {"sku": 7, "title": "Cup", "stock": 100}),
        ("place", {**ORDER, "items": ITEMS}),
        ("rename", {"id": 1, "name": "Bob"}),
        ("send", {"id": 5}),
        ("take", {"sku": 7, "n": 2}),
        ("drop", {"id": 5}),
        ("checkout", {"place": {**ORDER, "items": ITEMS}, "take": [{"sku": 7, "n": 2}]}),
    ]
    with keyplan.open(MODEL, url, design=design) as store:
        port: Any = store._port
        sent: list[Any] = []
        send = port.send

        def noting(requests: Any) -> Any:
            sent.extend(requests)
            return send(requests)

        port.send = noting
        for name, arguments in calls:
            sent.clear()
            getattr(store, name)(**arguments)
            first = next(one for one in sent if getattr(one, "edits", ()))
            reads = [json.dumps(one.body, sort_keys=True) for one in sent[: sent.index(first)]]
            assert len(reads) == len(set(reads)), name  # a row that is wanted for several reasons is read once
            operation, _, text = keyplan.explain(MODEL, design, name)["request"].partition(" ")
            assert operation == first.operation, name
            assert shapes(operation, json.loads(text)) == shapes(first.operation, first.body), name
