"""Item collections: where the item of a row lies among those of its children, and what lies between them.

Children are above their parent (`ORDER#` and then `ORDER#ITEM#…`), but for those that are sorted downwards. These are
below it, in the order of what they are sorted by (`CUSTOMER!ORDER#…` and then `CUSTOMER#`), and are read backwards. So
whichever way it is, reads begin with the parent, and the first children follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keyplan.plan.children import is_downwards
from keyplan.plan.view import Embed, View

ABOVE_PARENT, BELOW_PARENT = "#", "!"
"""What stands between the parent's tag and that of its children. The parent's own sort key ends with the first."""


def embed_tags(embeds: Sequence[Embed], above: tuple[str, ...] = ()) -> Iterable[tuple[str, str]]:
    """The tags of embeds, by the dotted chain of roles that leads to them."""
    taken: set[str] = set()
    for embed in embeds:
        tag = embed.entity.upper()
        if tag in taken:
            tag = f"{tag}.{embed.role.upper()}"
        taken.add(tag)
        at = (*above, embed.role)
        yield ".".join(at), tag
        yield from embed_tags(embed.embeds, at)


def children_prefix(parent: str, embed: Embed, tag: str) -> str:
    """What the sort keys of children begin with, by the tags of their parent and of themselves."""
    return f"{parent}{BELOW_PARENT if is_downwards(embed) else ABOVE_PARENT}{tag}#"


def read_with(view: View, roles: Sequence[str]) -> tuple[str, ...]:
    """The roles whose rows a read of a row with the children of some roles brings: these, and what lies between."""
    tags = dict(embed_tags(view.embeds))
    places = {embed.role: children_prefix("", embed, tags[embed.role]) for embed in view.embeds}
    ends = [ABOVE_PARENT, *(places[role] for role in roles)]
    low, high = min(ends), max(ends)
    return tuple(role for role, place in places.items() if low <= place <= high)
