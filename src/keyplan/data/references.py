"""References that are not laid out by a key: which row each one points at."""

from __future__ import annotations

from collections.abc import Callable

from keyplan.data.fanout import Fanout
from keyplan.data.numbers import MASK, draw, permutation
from keyplan.model.entity import Entity, Field

Index = Callable[[int, int], int | None]
"""From a row's number and its 64 bits to the number of the target's row, or None."""

_SELF_FANOUT = 4
"""Children of a row that refers to its own entity with a `max`: as many, or the maximum if that is less."""


def drawn(field: Field, target: Entity, rows: int, targets: int, seed: int) -> Index:
    """Targets drawn by chance, with the field's skew or else the target's; with a `max`, dealt out instead."""
    if targets == 0 and field.optional is not None:
        return lambda number, bits: None
    parents = max(1, targets)
    if field.most is not None:
        children = min(rows, parents * field.most)
        locate = Fanout(children, parents, field.most, field.skew, field.top, seed).locate
        shuffle = permutation(rows, seed)
        return lambda number, bits: locate(place)[0] if (place := shuffle(number)) < children else None
    factor = seed | 1
    skew, top = field.skew, field.top
    if skew is None and top is None:
        skew, top = target.skew, target.top
    if skew is None and top is None:
        return lambda number, bits: (bits * factor & MASK) * parents >> 64
    pick = draw(parents, skew, top)
    spread = permutation(parents, seed)
    return lambda number, bits: spread(pick(bits * factor & MASK))


def within(field: Field, rows: int, seed: int) -> Index:
    """References to the own entity: a tree that grows. The first row has none, or itself if it must have one."""
    required = field.optional is None
    if field.most is None:
        return _earlier(draw(rows, field.skew, field.top), required, seed | 1)
    width = min(field.most, _SELF_FANOUT)
    if not required:
        return lambda number, bits: (number - 1) // width if number else None
    if width == 1:
        return lambda number, bits: (number - 1) % rows
    return lambda number, bits: number // width


def _earlier(pick: Callable[[int], int], required: bool, factor: int) -> Index:
    def index(number: int, bits: int) -> int | None:
        if number == 0:
            return 0 if required else None
        mine = bits * factor & MASK
        picked = pick(mine)
        return picked if picked < number else mine * number >> 64

    return index
