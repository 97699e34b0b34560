"""Short ways to write models, views and matches in tests."""

from __future__ import annotations

from textwrap import dedent, indent

from keyplan.design.candidates.facts import Facts
from keyplan.design.candidates.match import Match, match
from keyplan.design.needs.need import Need, need_of_pattern
from keyplan.design.statistics.derived import Statistics
from keyplan.design.upkeep.effects import Upkeep
from keyplan.design.upkeep.maintain import Maintenance
from keyplan.engines import get_engine
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.model.pattern import Condition
from keyplan.plan.view import Part, View

SHOP = """
User:
  count: 2M
  fields:
    user_id: uuid, key
    name: string(20)
Order:
  count: 40M
  fields:
    order_id: ulid, key
    user: User, as orders
    status: enum(pending 3%, shipped 7%, delivered 90%), default pending
    total: decimal(2)
    created_at: timestamp, now
    flagged: string(20), optional 1%
    tags: set(string(8), avg 3)
Item:
  count: 120M
  key: [order, line]
  fields:
    order: Order, as items, max 50
    line: int
    quantity: int
"""


def model_of(entities: str = SHOP, patterns: str = "", writes: str = "", transactions: str = "") -> Model:
    """The model with these sections; a pattern that nobody asks for where there is none."""
    text = "keyplan: 1\nname: test\n"
    sections = {"entities": entities, "patterns": patterns, "writes": writes, "transactions": transactions}
    for name, body in sections.items():
        if body:
            text += f"{name}:\n{indent(dedent(body).strip(), '  ')}\n"
    return parse_model(text)


def need_of(model: Model, name: str = "p") -> Need:
    return need_of_pattern(model, model.patterns[name])


def part(text: str) -> Part:
    """`created_at desc`, `day(created_at)`, `shard 4`, `each(tags)` as a part of a key."""
    if text.startswith("shard "):
        return Part("", ways=int(text[6:]))
    path, _, way = text.partition(" ")
    cut, bracket, inner = path.rstrip(")").partition("(")
    return Part(inner if bracket else path, cut if bracket else None, descending=way == "desc")


def view(
    model: Model,
    key: str,
    *,
    entity: str = "Order",
    kind: str = "table",
    holds: tuple[str, ...] | None = None,
    where: tuple[Condition, ...] = (),
) -> View:
    """A view by its key: `user | created_at, order_id`; it holds whole rows unless told otherwise."""
    partition, _, sort = (tuple(part(one.strip()) for one in side.split(",") if one.strip()) for side in _sides(key))
    held = model.entities[entity].stored if holds is None else holds
    return View("v0", entity, kind, partition, sort, held, where=where)


def _sides(key: str) -> tuple[str, str, str]:
    return key.partition("|")


def matched(model: Model, seen: View, engine: str = "dynamodb", pattern: str = "p") -> Match | None:
    """How a view answers a pattern."""
    kind = get_engine(engine).kinds[seen.kind]
    return match(model, Statistics(model), kind, seen, need_of(model, pattern))


def upkeep(model: Model, write: str, seen: View, engine: str = "dynamodb") -> list[Upkeep]:
    """What a write does to a view."""
    statistics = Statistics(model)
    facts = Facts(model, statistics)
    at = get_engine(engine)
    keeper = Maintenance(model, statistics, facts, at.kinds, at.costs(model))
    return keeper.of(model.writes[write], seen, facts.of(seen))
