"""A small design made by hand, so that layout, codec and port can be tested without the designer and the store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from keyplan.engines.codec import Codec, Span
from keyplan.engines.dynamodb import ENGINE
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.ports import Port
from keyplan.engines.rounds import Pause, Proc
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Literal, Path
from keyplan.plan.design import Design, Objective
from keyplan.plan.edits import Edit
from keyplan.plan.steps import Search
from keyplan.plan.view import Embed, Measure, Part, View
from tests.conformance import test_strong_orders as strong_orders
from tests.conformance.pair import parsed

MODEL = """
keyplan: 1
name: little
entities:
  User:
    count: 1k
    fields:
      user_id: uuid, key
      email: string(32), unique
      name: string(20)
  Order:
    count: 10k
    fields:
      order_id: int, key
      user: User, as orders
      status: enum(pending 10%, done 90%)
      total: decimal(2)
      weight: float, optional 50%
      stock: int, optional 50%
      created_at: timestamp
      day: date
      flagged: string(20), optional 1%
      gift: bool
      tags: set(string, avg 3)
      marks: list(int)
      extra: json(2000), optional 50%
      blob: bytes(20), optional 50%
      PK: string(5), optional 50%
      ttl: int, optional 50%
  Session:
    count: 1k
    ttl: 30m
    fields:
      session_id: int, key
      handle: string(10), unique
      hits: int, optional 50%
  Note:
    count: 1k
    key: [order, line]
    fields:
      order: Order, as notes, max 50
      line: int
      text: text(500)
patterns:
  all_orders: { find: Order, limit: 10, rate: 1/s }
"""

STORED = (
    *("order_id", "user", "status", "total", "weight", "stock", "created_at", "day", "flagged", "gift", "tags"),
    *("marks", "extra", "blob", "PK", "ttl"),
)
NOTE = ("order", "line", "text")


def parts(*names: str) -> tuple[Part, ...]:
    return tuple(Part(name.lstrip("-"), descending=name.startswith("-")) for name in names)


ORDERS = View("orders", "Order", "table", parts("order_id"), (), STORED, (Embed("notes", "Note", parts("line"), NOTE),))
BY_USER = View("by user", "Order", "table", parts("user"), parts("created_at", "order_id"), STORED)
BY_TOTAL = View("by total", "Order", "table", (), parts("-total", "order_id"), ("order_id", "total"))
BY_STATUS = View("by status", "Order", "gsi", parts("status"), parts("created_at", "order_id"), STORED, base="orders")
FLAGGED = View(
    "flagged",
    "Order",
    "gsi",
    (Part("flagged"), Part("", ways=3)),
    parts("order_id"),
    ("order_id", "flagged"),
    where=(Condition(Path((), "gift"), "=", (Literal(True),)),),
    base="orders",
)
BY_DAY = View("by day", "Order", "gsi", parts("day"), parts("order_id"), ("order_id", "day", "total"), base="orders")
TOTALS = View(
    "totals",
    "Order",
    "table",
    (Part("created_at", "day"),),
    parts("status"),
    (),
    measures=(Measure("sum", None, "sum(total)"),),
)
NOTES_BY_LINE = View("notes by line", "Note", "gsi", parts("line"), parts("order"), ("order", "line"), base="orders")
SESSIONS = View("sessions", "Session", "table", parts("session_id"), (), ("session_id", "handle", "hits", "$expires"))
HANDLES = View("handles", "Session", "table", parts("handle"), (), ("session_id", "handle", "$expires"), unique=True)
ALL = (ORDERS, BY_USER, BY_TOTAL, BY_STATUS, FLAGGED, BY_DAY, NOTES_BY_LINE, SESSIONS, HANDLES)


def little_model() -> Model:
    return parse_model(MODEL)


def rooms() -> Model:
    """The model of strong orders, whose design has local indexes."""
    return parsed(strong_orders.MODEL)


def design_of(model: Model, views: Sequence[View]) -> Design:
    """A design of these views; each entity's home is its first table, or the first embed that holds it."""
    homes: dict[str, tuple[str, tuple[str, ...]]] = {}
    for view in views:
        if not view.base and not view.measures and not view.unique:
            homes.setdefault(view.entity, (view.name, ()))
        for embed in view.embeds:
            homes.setdefault(embed.entity, (view.name, (embed.role,)))
    structures = ENGINE.pack(model, views, {})
    objective = Objective("USD/month", 0.0, 0.0, 0.0, len(views))
    named = {view.name: view for view in views}
    return Design(model.name, "dynamodb", named, structures, homes, {}, {}, {}, {}, objective)


def drive(proc: Proc[Any], port: Port) -> Any:
    """Runs a proc, its pauses included."""
    try:
        step = next(proc)
        while True:
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                step = proc.send(())
            else:
                step = proc.send(port.send(step))
    except StopIteration as done:
        return done.value


def apply(model: Model, design: Design, port: Port, lock: str = "lock 1") -> list[str]:
    """Applies a design; the summaries of what was done."""
    found = drive(ENGINE.inspect(model, design), port)
    steps = ENGINE.changes(model, design, lock, found)
    for step in steps:
        drive(step.run(), port)
    return [step.summary for step in steps]


@dataclass
class Lab:
    """A model, a design and a live table."""

    model: Model
    design: Design
    codec: Codec
    port: Port

    def read(
        self, search: Search, spans: Sequence[Span], limit: int | None = None, *, strong: bool = False
    ) -> list[list[dict[str, Any]]]:
        """The rows per span, continued to the end."""
        reader = self.codec.reader(search)
        found: list[list[dict[str, Any]]] = [[] for _ in spans]
        asks = reader.ask(spans, limit, strong=strong)
        while asks:
            more = []
            for ask, reply in zip(asks, self.port.send([ask.request for ask in asks]), strict=True):
                answer = reader.answer(ask, reply)
                for number, rows in zip(ask.spans, answer.rows, strict=True):
                    found[number] += rows
                if answer.more is not None:
                    more.append(answer.more)
            asks = more
        return found

    def write(self, *edits: Edit) -> list[dict[str, Any] | None]:
        request = self.codec.write(edits)
        return self.codec.wrote(request, self.port.send([request])[0])

    def bulk(self, *edits: Edit) -> None:
        for request in self.codec.bulk(edits):
            (reply,) = self.port.send([request])
            if isinstance(reply, Exception):
                raise reply

    def items(self) -> list[dict[str, Any]]:
        """Every item of the table but the design's record, as it is stored."""
        (reply,) = self.port.send([Request("Scan", {"ConsistentRead": True})])
        return [item for item in reply["Items"] if item["PK"]["S"] != "KEYPLAN"]


_TABLES = count()


def url_of(endpoint: str) -> str:
    """A table that nobody has used yet."""
    return f"dynamodb://lab-{next(_TABLES)}-{time.time_ns()}?region=us-east-1&endpoint={endpoint}"


@contextmanager
def lab(endpoint: str, views: Sequence[View] = ALL, model: Model | None = None) -> Iterator[Lab]:
    """A fresh table with a design of these views."""
    model = model or little_model()
    design = design_of(model, views)
    port = ENGINE.connect(url_of(endpoint), model, design)
    try:
        apply(model, design, port)
        yield Lab(model, design, ENGINE.codec(model, design), port)
    finally:
        port.close()
