"""The order of children that are kept with their parent, against the one that they are wanted in."""

from __future__ import annotations

from keyplan.model.model import Model
from keyplan.model.pattern import Order, Path, Select
from keyplan.plan.view import Embed


def total_order(key: tuple[str, ...], order: tuple[Order, ...]) -> tuple[Order, ...]:
    """An order with its ties broken by the key, in the direction of its last term."""
    named = {str(term.path) for term in order}
    down = order[-1].descending if order else False
    return (*order, *(Order(Path((), column), down) for column in key if column not in named))


def is_kept_order(model: Model, entity: str, embed: Embed, select: Select) -> bool:
    """Whether an entity's children are selected in the order in which they are kept."""
    role = model.entities[entity].roles[embed.role]
    order = total_order(model.entities[role.entity].key, select.order)
    wanted = [(str(term.path), term.descending) for term in order if str(term.path) not in role.columns]
    return wanted == [(part.path, part.descending) for part in embed.sort]


def first_of(model: Model, entity: str, embed: Embed, select: Select) -> int | None:
    """How many children are wanted where these are the first that are kept, whatever the moment; otherwise None: of
    those that expire, the first ones may be out of date."""
    child = model.entities[embed.entity]
    able = child.ttl is None and is_kept_order(model, entity, embed, select)
    return select.limit if able else None
