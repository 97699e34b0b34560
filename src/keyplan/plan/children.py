"""The order of children that are kept with their parent, against the one that they are wanted in."""

from __future__ import annotations

from collections.abc import Mapping

from keyplan.model.model import Model
from keyplan.model.pattern import Order, Path, Select
from keyplan.plan.view import Embed, View


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
    """How many children are wanted where these are the first that are kept; otherwise None."""
    return select.limit if is_kept_order(model, entity, embed, select) else None


def is_downwards(embed: Embed) -> bool:
    """Whether children are sorted downwards; one that is alone under its parent is not."""
    return bool(embed.sort) and all(part.descending for part in embed.sort)


def leading(view: View) -> Embed | None:
    """The children that follow their parent in a kind with `first_along`, the others being on its other side: all there
    are, or those that are sorted downwards, if of one role alone."""
    if len(view.embeds) == 1:
        return view.embeds[0]
    downwards = [embed for embed in view.embeds if is_downwards(embed)]
    return downwards[0] if len(downwards) == 1 else None


def first_along(model: Model, view: View, along: Mapping[str, Select]) -> int | None:
    """How many children a read of a row with some of its roles brings, where it need not bring all; otherwise None.

    Of those that expire, the first ones may be out of date: then readers say how more of them are had (`Answer.more`).
    """
    lead = leading(view)
    if lead is None or list(along) != [lead.role]:
        return None
    return first_of(model, view.entity, lead, along[lead.role])
