"""Fan-out: which children belong to which parent, by arithmetic alone.

The children of one parent are a run of neighbouring indexes. The runs' borders are spaced evenly and then moved by
a hash of the parent's number, by less than half a run, so that runs differ in length (from 0 to twice the mean) but
never pass each other, and never exceed the maximum. Any child finds its parent without knowledge of the others.

With a skew the parents are first divided into ranks that get ever fewer children.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from keyplan.data.numbers import FIRST, GOLDEN, MASK, permutation, ranking

_FRACTION = 40
"""Bits after the point of a border before it is rounded down."""
_SLACK = 8
"""Kept off the amplitude, so that rounding cannot push a run beyond the maximum."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Parents `first`..`first + parents` by rank, who share the children from `start` to `start + children`."""

    first: int
    parents: int
    start: int
    children: int
    amplitude: int
    seed: int

    def border(self, number: int) -> int:
        """The first child of the step's parent with that number."""
        if number <= 0:
            return self.start
        if number >= self.parents:
            return self.start + self.children
        bits = (number ^ self.seed) * GOLDEN & MASK
        bits = ((bits ^ bits >> 32) * FIRST & MASK) >> 24
        moved = ((number * self.children << _FRACTION) // self.parents) + (
            (2 * bits - (1 << _FRACTION)) * self.amplitude >> _FRACTION
        )
        return self.start + max(0, min(self.children, moved >> _FRACTION))


class Fanout:
    """Divides `children` among `parents`, at most `most` to each; `locate` finds the parent of a child."""

    def __init__(
        self,
        children: int,
        parents: int,
        most: int | None = None,
        skew: float | None = None,
        top: float | None = None,
        seed: int = 0,
    ) -> None:
        if most is not None and children > parents * most:
            raise ValueError(f"{children} children do not fit {parents} parents with at most {most} each")
        self.children = children
        self.steps = _steps(children, parents, most, skew, top, seed & MASK)
        self.starts = [step.start for step in self.steps]
        skewed = len(self.steps) > 1
        self.shuffle = permutation(parents, seed) if skewed else None
        self.last = (0, 0, 0)
        self.step = _step(0, 1, 0, 0, None, 0)
        self.number = 0

    def locate(self, child: int) -> tuple[int, int]:
        """The parent of a child, and how many children that parent has before it.

        A child beyond the last, to whom a reference may dangle, is given to parent 0.
        """
        low, high, parent = self.last
        if low <= child < high:
            return parent, child - low
        if not 0 <= child < self.children:
            return 0, child
        step, number = self.step, self.number
        if child != high or child >= step.start + step.children:
            step = self.steps[bisect_right(self.starts, child) - 1]
            number = (child - step.start) * step.parents // step.children
            low = step.border(number)
            while child < low:
                number -= 1
                low = step.border(number)
            high = step.border(number + 1)
        while child >= high:
            number += 1
            low, high = high, step.border(number + 1)
        parent = step.first + number
        if self.shuffle is not None:
            parent = self.shuffle(parent)
        self.step, self.number = step, number
        self.last = (low, high, parent)
        return parent, child - low

    def run(self, child: int) -> tuple[int, int]:
        """The place of a child among those of its parent, and how many they are."""
        place = self.locate(child)[1]
        low, high, _ = self.last
        return place, max(high - low, place + 1)


def _steps(
    children: int, parents: int, most: int | None, skew: float | None, top: float | None, seed: int
) -> list[_Step]:
    if skew is None and (top is None or top * parents <= 1):
        return [_step(0, parents, 0, children, most, seed)] if children else []
    ranks = ranking(parents, skew or 0.0, top)
    shares = []
    done = 0
    for first, end, share in ranks:
        # What a full rank cannot take flows on to the next ones, since `done` falls behind the share.
        wanted = (share * children >> 64) - done
        taken = wanted if most is None else min(wanted, (end - first) * most)
        shares.append(taken)
        done += taken
    steps = []
    start = 0
    for (first, end, _), taken in zip(ranks, shares, strict=True):
        # The last ranks may be full too; then the first ones have room.
        more = 0 if most is None else min(children - done, (end - first) * most - taken)
        done += more
        if taken + more:
            steps.append(_step(first, end - first, start, taken + more, most, seed))
        start += taken + more
    return steps


def _step(first: int, parents: int, start: int, children: int, most: int | None, seed: int) -> _Step:
    room = children if most is None else min(children, most * parents - children)
    amplitude = max(0, (room << _FRACTION) // (2 * parents) - _SLACK)
    return _Step(first, parents, start, children, amplitude, seed)
