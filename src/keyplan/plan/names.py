"""Readable names of structures, from what their views are by."""

from __future__ import annotations

import re
from collections.abc import Sequence

from keyplan.model.model import Model
from keyplan.plan.view import Part, View


def part_name(part: Part) -> str:
    """The path of a key part in entries: the path itself, or `day(created_at)`, `each(tags)`, `shard of 4`."""
    text = str(part)
    return text.removesuffix(" desc") if part.descending else text


def free_name(base: str, taken: set[str]) -> str:
    """The name, or with a number behind it, that is not taken yet, in whatever case; it is then."""
    number, free = 1, base
    while free.lower() in taken:
        number += 1
        free = f"{base}_{number}"
    taken.add(free.lower())
    return free


def key_words(parts: Sequence[Part], skip: Sequence[str] = ()) -> str:
    """What a key is by, as part of a name."""
    texts = [part_name(part) for part in parts if part_name(part) not in skip]
    return "_".join(re.sub(r"\W+", "_", text).strip("_") for text in texts)


def set_name(view: View) -> str:
    """The name of what holds the entries of a view that is not the home of its entity."""
    words = key_words(view.parts)
    if view.measures:
        return f"{view.entity}_sums_by_{words}" if words else f"{view.entity}_sums"
    if view.packed:
        return f"{view.entity}_packed_by_{key_words(view.partition)}"
    return f"{view.entity}_unique_{words}" if view.unique else f"{view.entity}_by_{words}"


def index_words(model: Model, view: View) -> str:
    """What an index is by, the key of the rows behind it left out, and which rows it has."""
    key = () if view.unique else model.entities[view.entity].key
    tested = dict.fromkeys(re.sub(r"\W+", "_", str(condition.path)) for condition in view.where)
    where = "".join(f"_{name}" for name in tested)
    return f"{key_words(view.parts, key) or key_words(view.parts)}{where and '_where'}{where}"
