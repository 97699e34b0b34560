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


def noted(store: Any) -> list[Any]:
    """All requests that a store sends from now on."""
    port: Any = store._port
    sent: list[Any] = []
    send = port.send

    def noting(requests: Any) -> Any:
        sent.extend(requests)
        return send(requests)

    port.send = noting
    return sent


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
        sent = noted(store)
        for name, arguments in calls:
            sent.clear()
            getattr(store, name)(**arguments)
            first = next(one for one in sent if getattr(one, "edits", ()))
            reads = [json.dumps(one.body, sort_keys=True) for one in sent[: sent.index(first)]]
            assert len(reads) == len(set(reads)), name  # a row that is wanted for several reasons is read once
            strong = [one.body.get("ConsistentRead", False) for one in sent[: sent.index(first)]]
            if name in MODEL.writes:
                steps = keyplan.explain(MODEL, design, name)["steps"][: len(strong)]
                assert ['"ConsistentRead": true' in step["words"] for step in steps] == strong, name
            operation, _, text = keyplan.explain(MODEL, design, name)["request"].partition(" ")
            assert operation == first.operation, name
            assert shapes(operation, json.loads(text)) == shapes(first.operation, first.body), name


def test_reads_say_whether_they_are_strong_and_rows_have_their_columns_in_order(dynoxide: Server) -> None:
    url = url_of(dynoxide.url)
    design = keyplan.design(MODEL, "dynamodb")
    keyplan.apply(MODEL, url, design=design)
    with keyplan.open(MODEL, url, design=design) as store:
        store.join(user_id=1, email="a@b", name="Ann")
        store.place(**ORDER, items=ITEMS)
        sent = noted(store)
        for name, argument in (("order", {"o": 5}), ("of_user", {"u": 1}), ("by_email", {"e": "a@b"})):
            sent.clear()
            answer = getattr(store, name)(**argument, consistency=MODEL.patterns[name].consistency)
            words = [step["words"] for step in keyplan.explain(MODEL, design, name)["steps"] if "words" in step]
            assert ['"ConsistentRead": true' in each for each in words] == [
                one.body.get("ConsistentRead", False) for one in sent
            ]
            if name == "of_user":
                assert list(answer.rows[0]) == ["order_id", "user", "status", "placed"]


def in_turn(requests: list[tuple[str, dict[str, Any]]]) -> list[list[tuple[str, ...]]]:
    """The shapes of requests, those that are the same one after the other once."""
    found: list[list[tuple[str, ...]]] = []
    for operation, body in requests:
        each = shapes(operation, body)
        if not found or found[-1] != each:
            found.append(each)
    return found


FAN_OUT = model_of(
    """
Author: { count: 10k, fields: { aid: 'int, key', name: string(20) } }
Post: { count: 5M, fields: { pid: 'int, key', by: 'Author, as posts', at: timestamp, text: string(200) } }
""",
    """
post: { find: Post, where: "pid = :pid", select: [pid, by.name, text], rate: 1k/s }
posts: { find: Post, where: "by = :aid", order: at desc, page: 20, rate: 100/s, consistency: strong }
""",
    """
join: { create: Author, rate: 1/s }
write: { create: Post, rate: 1/s }
rename: { update: Author, set: [name], where: "aid = :aid", rate: 1/day }
leave: { delete: Author, with: [posts], where: "aid = :aid", rate: 1/day }
blank: { update: Post, set: { text: gone }, where: "by = :aid", rate: 1/day, rows: 130 }
""",
)


def test_what_is_explained_of_a_fan_out_is_what_is_sent(dynoxide: Server) -> None:
    """More rows than one transaction can change: the requests of all of them, in their order."""
    url = url_of(dynoxide.url)
    design = keyplan.design(FAN_OUT, "dynamodb")
    keyplan.apply(FAN_OUT, url, design=design)
    with keyplan.open(FAN_OUT, url, design=design) as store:
        store.join(aid=1, name="Ann")
        store.load(("Post", {"pid": n, "by": 1, "at": WHEN, "text": "x"}) for n in range(130))
        sent = noted(store)
        for name, arguments in (("rename", {"name": "Bob"}), ("leave", {})):
            sent.clear()
            getattr(store, name)(aid=1, **arguments)
            written = [(one.operation, one.body) for one in sent if getattr(one, "edits", ())]
            told = keyplan.explain(FAN_OUT, design, name)["large"]
            said = [one["words"].partition(" ") for one in told]
            assert in_turn([(one[0], json.loads(one[2])) for one in said]) == in_turn(written), name
            assert [one["repeated"] for one in told].count(True) == 1
            assert len(written) > len(told) > 1


def test_how_often_the_request_of_a_wide_write_is_sent_is_told() -> None:
    design = keyplan.design(FAN_OUT, "dynamodb")
    told = keyplan.explain(FAN_OUT, design, "blank")
    assert told["each_of"] == 130
    assert told["request"].startswith("TransactWriteItems ")


def test_upserts_that_would_change_nothing_of_a_row_or_have_keys_of_several_columns_are_told() -> None:
    model = model_of(
        """
Account: { count: 1k, key: [name, number], fields: { name: string(9), number: int } }
Position: { count: 5k, key: [account, symbol], fields: { account: Account, symbol: string(5), held: int } }
Reading: { count: 1M, key: [at], fields: { at: timestamp, value: 'int, immutable' } }
""",
        'p: { find: Position, where: "account.name = :a and account.number = :n and symbol = :s", rate: 1/s }',
        """
hold: { upsert: Position, set: [held], rate: 1/s }
report: { upsert: Reading, rate: 1/s }
""",
    )
    design = keyplan.design(model, "dynamodb")
    assert keyplan.explain(model, design, "hold")["request"].startswith("UpdateItem ")
    assert keyplan.explain(model, design, "report")["request"].startswith("PutItem ")


def test_a_condition_is_told_of_the_row_that_it_is_of() -> None:
    """Events have a state as well, and change with their tickets, in one transaction with a seat of a certain state."""
    model = model_of(
        """
Event: { count: 10k, fields: { eid: 'int, key', title: string(20), state: 'enum(open, over)', sold: count(tickets) } }
Seat: { count: 1M, fields: { sid: 'int, key', state: 'enum(free 40%, held 60%), default free' } }
Ticket: { count: 1M, fields: { tid: 'int, key', event: 'Event, as tickets', price: int } }
""",
        """
event: { find: Event, where: "eid = :e", rate: 100/s, consistency: strong }
open_events: { find: Event, where: "state = 'open'", order: eid, page: 10, rate: 100/s, consistency: strong }
tickets: { find: Ticket, where: "tid = :t", with: [event.title], rate: 100/s, p99: 7ms }
free: { find: Seat, where: "state = 'free'", order: sid, page: 10, rate: 10/s }
""",
        """
sell: { update: Seat, set: { state: held }, where: "sid = :s", if: "state = 'free'", rate: 1/s }
issue: { create: Ticket, rate: 1/s }
make: { create: Seat, rate: 1/s }
rename: { update: Event, set: [title], where: "eid = :e", rate: 1/h }
""",
        "buy: [sell, issue]",
    )
    design = keyplan.design(model, "dynamodb")
    told = keyplan.explain(model, design, "buy")["request"]
    updates = [one["Update"] for one in json.loads(told.partition(" ")[2])["TransactItems"] if "Update" in one]
    of_event = [one for one in updates if one["Key"]["PK"].startswith("EVENT#{")]
    assert of_event
    assert [value for one in of_event for value in one["ExpressionAttributeValues"].values() if "'" in value] == []
    (of_seat,) = (one for one in updates if one["Key"]["PK"].startswith("SEAT"))
    assert "'free'" in of_seat["ExpressionAttributeValues"].values()
    made = json.loads(keyplan.explain(model, design, "make")["request"].partition(" ")[2])
    assert any(name.startswith("GSI") for name in made["Item"]), "a new seat is free"


def test_when_rows_expire_is_told_by_its_name() -> None:
    model = model_of(
        "Session: { count: 1M, ttl: 1h since seen, fields: { sid: 'uuid, key', seen: 'timestamp, now' } }",
        'session: { find: Session, where: "sid = :s", rate: 10/s }',
        "log_in: { create: Session, rate: 1/s }\n"
        'touch: { update: Session, set: { seen: now }, where: "sid = :s", rate: 1/s }',
    )
    design = keyplan.design(model, "dynamodb")
    for name in ("log_in", "touch"):
        told = keyplan.explain(model, design, name)["request"]
        assert "{$expires, in seconds}" in told
        assert not re.search(r"\d{10}", told), told
