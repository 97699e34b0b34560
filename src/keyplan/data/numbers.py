"""Numbers that look random and are not: hashes, permutations and draws in whole-number arithmetic.

Only integers are used (and Decimal, whose functions are exactly specified), so that every platform and every
process makes the same rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from decimal import Context, Decimal
from functools import reduce
from hashlib import blake2b
from itertools import accumulate
from math import gcd

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB

Draw = Callable[[int], int]
"""From 64 random bits to an index."""

_HEAD = 256
"""Ranks of a Zipf distribution that have their own weight; beyond, ranks share one in ever wider steps."""
_CONTEXT = Context(prec=30)


def salt(*parts: object) -> int:
    """64 bits for a name, equal in every process."""
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def mix(number: int) -> int:
    """64 well mixed bits of a number (the finalizer of splitmix64)."""
    z = number * GOLDEN & MASK
    z = (z ^ z >> 30) * FIRST & MASK
    z = (z ^ z >> 27) * SECOND & MASK
    return z ^ z >> 31


def permutation(size: int, seed: int) -> Callable[[int], int]:
    """A shuffling of 0..size-1: `(a * index + b) % size` with `a` near the golden section of the size."""
    if size <= 2:
        return lambda index: index % max(size, 1)
    factor = max(1, size * 618_033_989 // 1_000_000_000)
    while gcd(factor, size) != 1:
        factor += 1
    shift = seed % size
    return lambda index: (factor * index + shift) % size


def draw(size: int, skew: float | None = None, top: float | None = None) -> Draw:
    """How an index below `size` is drawn: evenly, by Zipf's law, or with a given share for index 0."""
    if size <= 1:
        return lambda bits: 0
    if skew is None and (top is None or top * size <= 1):
        return lambda bits: bits * size >> 64
    ranks = ranking(size, skew or 0.0, top)
    bounds = [rank[2] for rank in ranks][:-1]
    starts = [rank[0] for rank in ranks]
    widths = [rank[1] - rank[0] for rank in ranks]

    def drawn(bits: int) -> int:
        place = bisect_right(bounds, bits)
        width = widths[place]
        return starts[place] if width == 1 else starts[place] + ((bits * GOLDEN & MASK) * width >> 64)

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
