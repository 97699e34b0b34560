"""References that are not laid out by a key: which row each one points at."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyplan.data.fanout import Fanout
from keyplan.data.numbers import Bits, Draw, Numbers, as_bits, draw, evenly, permutation
from keyplan.model.entity import Entity, Field

Index = Callable[[Numbers, Bits], Numbers]
"""From rows' numbers and their 64 bits to the numbers of the target's rows, -1 where there is none."""

_SELF_FANOUT = 4
"""Children of a row that refers to its own entity with a `max`: as many, or the maximum if that is less."""


def drawn(field: Field, target: Entity, rows: int, targets: int, seed: int) -> Index:
    """Targets drawn by chance, with the field's skew or else the target's; with a `max`, dealt out instead."""
    if targets == 0 and field.optional is not None:
        return lambda numbers, bits: np.full_like(numbers, -1)
    parents = max(1, targets)
    if field.most is not None:
        return _dealt(
            Fanout(min(rows, parents * field.most), parents, field.most, field.skew, field.top, seed), rows, seed
        )
    factor = seed | 1
    skew, top = field.skew, field.top
    if skew is None and top is None:
        skew, top = target.skew, target.top
    if skew is None and top is None:
        return lambda numbers, bits: evenly(bits * factor, parents)
    pick = draw(parents, skew, top)
    spread = permutation(parents, seed)
    return lambda numbers, bits: spread(pick(bits * factor))


def _dealt(fanout: Fanout, rows: int, seed: int) -> Index:
    shuffle = permutation(rows, seed)

    def index(numbers: Numbers, bits: Bits) -> Numbers:
        places = shuffle(numbers)
        return np.where(places < fanout.children, fanout.locate(places).parents, -1)

    return index


def within(field: Field, rows: int, seed: int) -> Index:
    """References to the own entity: a tree that grows. The first row has none, or itself if it must have one."""
    required = field.optional is None
    if field.most is None:
        return _earlier(draw(rows, field.skew, field.top), required, seed | 1)
    width = min(field.most, _SELF_FANOUT)
    if not required:
        return lambda numbers, bits: (numbers - 1) // width
    if width == 1:
        return lambda numbers, bits: (numbers - 1) % rows
    return lambda numbers, bits: numbers // width


def _earlier(pick: Draw, required: bool, factor: int) -> Index:
    first = 0 if required else -1

    def index(numbers: Numbers, bits: Bits) -> Numbers:
        mine = bits * factor
        picked = pick(mine)
        found = np.where(picked < numbers, picked, evenly(mine, as_bits(numbers)))
        return np.where(numbers == 0, first, found)

    return index
