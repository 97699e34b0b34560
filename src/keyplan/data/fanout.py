"""Fan-out: which children belong to which parent, by arithmetic alone.

The children of one parent are a run of neighbouring indexes. The runs' borders are spaced evenly and then moved by
a hash of the parent's number, by less than half a run, so that runs differ in length (from 0 to twice the mean) but
never pass each other, and never exceed the maximum. Any child finds its parent without knowledge of the others.

With a skew the parents are first divided into ranks that get ever fewer children.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyplan.data.numbers import FIRST, GOLDEN, MASK, Mask, Numbers, Ratios, as_bits, evenly, permutation, ranking

_FRACTION = 40
"""Bits after the point of a border before it is rounded down, fewer where there are very many children."""
_WIDTH = 62
"""Bits that a border and its fraction may take together."""
_SLACK = 8
"""Kept off the amplitude, so that rounding cannot push a run beyond the maximum."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Parents `first`..`first + parents` by rank, who share the children from `start` to `start + children`."""

    first: int
    parents: int
    start: int
    children: int


@dataclass(frozen=True)
class Located:
    """Where children stand: their parent, how many that parent has before them, and how many in all."""

    parents: Numbers
    places: Numbers
    sizes: Numbers


class Fanout:
    """Divides `children` among `parents`, at most `most` to each; `locate` finds the parents of children."""

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
        self.seed = seed & MASK
        self.fraction = min(_FRACTION, _WIDTH - children.bit_length())
        steps = _steps(children, parents, most, skew, top)
        self.shuffle = permutation(parents, seed) if len(steps) > 1 else None
        self.firsts = np.array([step.first for step in steps], dtype=np.int64)
        self.parents = np.array([step.parents for step in steps], dtype=np.int64)
        self.starts = np.array([step.start for step in steps], dtype=np.int64)
        self.shares = np.array([step.children for step in steps], dtype=np.int64)
        self.amplitudes = np.array([_amplitude(step, most, self.fraction) for step in steps], dtype=np.int64)
        self.guess = Ratios([(step.parents, step.children) for step in steps])
        self.spacing = Ratios([(step.children << self.fraction, step.parents) for step in steps])

    def locate(self, children: Numbers) -> Located:
        """Where each child stands. One beyond the last, to whom a reference may dangle, is given to parent 0."""
        inside = (children >= 0) & (children < self.children)
        if not inside.all():
            return self._dangling(children, inside)
        steps = np.searchsorted(self.starts, children, side="right") - 1
        numbers = self.guess.times(children - self.starts[steps], steps)
        lows, highs = self._borders(steps, numbers), self._borders(steps, numbers + 1)
        while True:
            wrong = np.flatnonzero((children < lows) | (children >= highs))
            if not len(wrong):
                break
            some = steps[wrong]
            moved = numbers[wrong] + np.where(children[wrong] < lows[wrong], -1, 1)
            numbers[wrong] = moved
            lows[wrong], highs[wrong] = self._borders(some, moved), self._borders(some, moved + 1)
        parents = self.firsts[steps] + numbers
        if self.shuffle is not None:
            parents = self.shuffle(parents)
        return Located(parents, children - lows, highs - lows)

    def _borders(self, steps: Numbers, numbers: Numbers) -> Numbers:
        """The first child of the step's parent with that number."""
        bits = (as_bits(numbers) ^ self.seed) * GOLDEN
        bits = (bits ^ bits >> 32) * FIRST
        amplitudes = self.amplitudes[steps]
        moved = self.spacing.times(numbers, steps) + evenly(bits, as_bits(2 * amplitudes)) - amplitudes
        shares = self.shares[steps]
        borders = np.clip(moved >> self.fraction, 0, shares)
        borders = np.where(numbers <= 0, 0, np.where(numbers >= self.parents[steps], shares, borders))
        return self.starts[steps] + borders

    def _dangling(self, children: Numbers, inside: Mask) -> Located:
        parents, places, sizes = np.zeros_like(children), children.copy(), children + 1
        found = self.locate(children[inside])
        parents[inside], places[inside], sizes[inside] = found.parents, found.places, found.sizes
        return Located(parents, places, sizes)


def _steps(children: int, parents: int, most: int | None, skew: float | None, top: float | None) -> list[_Step]:
    if skew is None and (top is None or top * parents <= 1):
        return [_Step(0, parents, 0, children)] if children else []
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
            steps.append(_Step(first, end - first, start, taken + more))
        start += taken + more
    return steps


def _amplitude(step: _Step, most: int | None, fraction: int) -> int:
    """How far a border may be moved, in units of the fraction."""
    room = step.children if most is None else min(step.children, most * step.parents - step.children)
    return max(0, (room << fraction) // (2 * step.parents) - _SLACK)
