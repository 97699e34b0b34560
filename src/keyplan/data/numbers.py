"""Numbers that look random and are not: hashes, permutations and draws in whole-number arithmetic.

Only integers are used (and Decimal, whose functions are exactly specified), so that every platform and every
process makes the same rows. All of it works on arrays, many rows at a time: 64 bits that wrap around are hashes, and
where a product needs more than 64 bits it is put together from halves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from functools import reduce
from hashlib import blake2b
from itertools import accumulate
from math import gcd
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
"""Numbers of rows, places, indexes; -1 where there is none."""
Bits: TypeAlias = Any
"""An array of 64 bits each, without a sign (uint64): to numpy's types, these are signed after a shift by a number."""
Mask = NDArray[np.bool_]

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB
_HALF = 0xFFFFFFFF

MOST_ROWS = 2**56
"""More rows than this no entity has, so that numbers and their fractions fit 64 bits."""

Draw = Callable[[Bits], Numbers]
"""From 64 random bits to an index."""

_HEAD = 256
"""Ranks of a Zipf distribution that have their own weight; beyond, ranks share one in ever wider steps."""
_CONTEXT = Context(prec=30)


def salt(*parts: object) -> int:
    """64 bits for a name, equal in every process."""
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def mix(number: int) -> int:
    """64 well mixed bits of one number (the finalizer of splitmix64)."""
    z = number * GOLDEN & MASK
    z = (z ^ z >> 30) * FIRST & MASK
    z = (z ^ z >> 27) * SECOND & MASK
    return z ^ z >> 31


def mixed(numbers: Bits) -> Bits:
    """`mix` of many numbers."""
    z = numbers * GOLDEN
    z = (z ^ z >> 30) * FIRST
    z = (z ^ z >> 27) * SECOND
    return z ^ z >> 31


def as_bits(numbers: Numbers) -> Bits:
    """The same 64 bits, without a sign."""
    return numbers.view(np.uint64)


def as_numbers(bits: Bits) -> Numbers:
    """The same 64 bits, with a sign."""
    numbers: Numbers = bits.view(np.int64)
    return numbers


def upper(first: Bits, second: Bits | int) -> Bits:
    """The upper 64 bits of 128-bit products: with a second factor `n`, an even draw from 0..n-1."""
    other: Any = second  # an array or a number: the operators are the same
    low, high = first & _HALF, first >> 32
    other_low, other_high = other & _HALF, other >> 32
    if isinstance(second, int) and other_high == 0:  # most factors are small
        return (high * other_low + (low * other_low >> 32)) >> 32
    middle = high * other_low + (low * other_low >> 32)
    cross = low * other_high + (middle & _HALF)
    return high * other_high + (middle >> 32) + (cross >> 32)


def evenly(bits: Bits, size: Bits | int) -> Numbers:
    """Indexes below `size`, all with the same chance."""
    return as_numbers(upper(bits, size))


class Ratios:
    """`number * numerator // denominator` exactly, of numbers below 2**63, by one of several fractions.

    The fraction is kept with 128 bits after the point, rounded up: too much by less than any remainder can be.
    """

    def __init__(self, fractions: Sequence[tuple[int, int]]) -> None:
        scaled = [-(-(numerator << 128) // denominator) for numerator, denominator in fractions]
        self.limbs = [np.array([one >> shift & MASK for one in scaled], dtype=np.uint64) for shift in (128, 64, 0)]

    def times(self, numbers: Numbers, which: Numbers) -> Numbers:
        """Of each number, by the fraction at that place."""
        bits = as_bits(numbers)
        whole, second, third = (limb[which] for limb in self.limbs)
        lower = bits * second
        total = lower + upper(bits, third)
        return as_numbers(bits * whole + upper(bits, second) + (total < lower))


def ratio(numerator: int, denominator: int) -> Callable[[Numbers], Numbers]:
    """`number * numerator // denominator` of many numbers."""
    only = Ratios([(numerator, denominator)])
    return lambda numbers: only.times(numbers, np.zeros(len(numbers), dtype=np.int64))


def permutation(size: int, seed: int) -> Callable[[Numbers], Numbers]:
    """A shuffling of 0..size-1: `(a * index + b) % size` with `a` near the golden section of the size."""
    if size <= 2:
        return lambda indexes: indexes % max(size, 1)
    factor = max(1, size * 618_033_989 // 1_000_000_000)
    while gcd(factor, size) != 1:
        factor += 1
    shift = seed % size
    if size < 2**31:
        return lambda indexes: (factor * indexes + shift) % size
    turns = ratio(factor, size)
    # What is left of the product once the whole turns are off it is small, although the product itself wrapped around.
    return lambda indexes: (factor * indexes - turns(indexes) * size + shift) % size


def draw(size: int, skew: float | None = None, top: float | None = None) -> Draw:
    """How an index below `size` is drawn: evenly, by Zipf's law, or with a given share for index 0."""
    if size <= 1:
        return lambda bits: np.zeros(len(bits), dtype=np.int64)
    if skew is None and (top is None or top * size <= 1):
        return lambda bits: evenly(bits, size)
    ranks = ranking(size, skew or 0.0, top)
    bounds = np.array([min(rank[2], MASK) for rank in ranks][:-1], dtype=np.uint64)
    starts = np.array([rank[0] for rank in ranks], dtype=np.int64)
    widths = np.array([rank[1] - rank[0] for rank in ranks], dtype=np.uint64)

    def drawn(bits: Bits) -> Numbers:
        places = np.searchsorted(bounds, bits, side="right")
        firsts: Numbers = starts[places]
        return firsts + evenly(bits * GOLDEN, widths[places])

    return drawn


def ranking(size: int, skew: float, top: float | None = None) -> list[tuple[int, int, int]]:
    """Zipf's law as steps: (first rank, end, share of all ranks before the end, of 2**64)."""
    exact = _CONTEXT
    exponent = exact.create_decimal(repr(float(skew)))
    steps: list[tuple[int, int, Decimal]] = []
    start = 0
    while start < size:
        end = start + 1 if start < _HEAD else min(size, start + start // 10)
        middle = exact.divide(start + end + 1, 2)  # ranks count from 1 in the law
        weight = exact.exp(exact.minus(exact.multiply(exponent, exact.ln(middle))))
        steps.append((start, end, exact.multiply(weight, end - start)))
        start = end
    if top is not None and len(steps) > 1:
        share = exact.create_decimal(repr(min(float(top), 0.999999)))
        rest = reduce(exact.add, (step[2] for step in steps[1:]))
        first = exact.divide(exact.multiply(share, rest), exact.subtract(1, share))
        steps[0] = (0, steps[0][1], first)
    sums = list(accumulate((step[2] for step in steps), exact.add))
    shares = [int(exact.multiply(exact.divide(sofar, sums[-1]), 2**64)) for sofar in sums]
    return [(low, high, share) for (low, high, _), share in zip(steps, shares, strict=True)]
