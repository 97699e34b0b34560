"""A small design made by hand, so that the codec and the port can be tested without the designer and the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keyplan.engines.codec import Codec, Span
from keyplan.engines.ports import Port
from keyplan.engines.rounds import Proc
from keyplan.engines.sqlite import ENGINE
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.design import Design, Objective
from keyplan.plan.edits import Edit
from keyplan.plan.steps import Search
from keyplan.plan.view import View

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
      order_id: ulid, key
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
      extra: json(20), optional 50%
      blob: bytes(20), optional 50%
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


@dataclass
class Lab:
    """A model, a design and a live port."""

    model: Model
    design: Design
    codec: Codec
    port: Port

    def read(self, search: Search, spans: Sequence[Span], limit: int | None = None) -> list[list[dict[str, Any]]]:
        """The rows per span, continued to the end."""
        reader = self.codec.reader(search)
        found: list[list[dict[str, Any]]] = [[] for _ in spans]
        asks = reader.ask(spans, limit, strong=True)
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

    def query(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        reply = self.port.send([(text, values)])[0]
        if isinstance(reply, Exception):
            raise reply
        rows: list[tuple[Any, ...]] = reply
        return rows


def little_model() -> Model:
    return parse_model(MODEL)


def design_of(model: Model, views: Sequence[View]) -> Design:
    """A design of these views; each entity's home is its first view that is a table without measures."""
    homes: dict[str, tuple[str, tuple[str, ...]]] = {}
    for view in views:
        if not view.base and not view.measures and not view.unique:
            homes.setdefault(view.entity, (view.name, ()))
    structures = ENGINE.pack(model, views, {})
    objective = Objective("server ms/s", 0.0, 0.0, 0.0, len(views))
    named = {view.name: view for view in views}
    return Design(model.name, "sqlite", named, structures, homes, {}, {}, {}, {}, objective)


def drive(proc: Proc[Any], port: Port) -> Any:
    """Runs a proc that never pauses."""
    try:
        round = next(proc)
        while True:
            assert isinstance(round, list)
            round = proc.send(port.send(round))
    except StopIteration as done:
        return done.value


def apply(model: Model, design: Design, port: Port, lock: str = "lock 1") -> list[str]:
    """Applies a design; the summaries of what was done."""
    found = drive(ENGINE.inspect(model, design), port)
    steps = ENGINE.changes(model, design, lock, found)
    for step in steps:
        drive(step.run(), port)
    return [step.summary for step in steps]


def lab(views: Sequence[View], url: str = "sqlite::memory:", model: Model | None = None) -> Lab:
    model = model or little_model()
    design = design_of(model, views)
    port = ENGINE.connect(url, model, design)
    apply(model, design, port)
    return Lab(model, design, ENGINE.codec(model, design), port)
