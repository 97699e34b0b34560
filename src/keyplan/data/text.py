"""Texts of a wanted size, made of words of a fixed vocabulary, so that searches and prefixes find something."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np

from keyplan.data.numbers import Bits, Numbers, as_bits, as_numbers, draw, evenly, mixed, upper
from keyplan.data.vocabulary import VOCABULARY

Sizes = Callable[[Bits], Numbers]
Filler = Callable[[Bits, Numbers], list[str]]
Texts = Callable[[Numbers], list[str]]

_CORPUS = 16_384
_DIGITS = np.frombuffer(b"0123456789abcdefghjkmnpqrstvwxyz", dtype=np.uint8)
_PHRASE_LEAST = 12
"""Texts shorter than this on average are cut anywhere; longer ones at the end of a word."""
_UPPER_HALF = 0xFFFFFFFF00000000


def sizes(average: float, most: int | None) -> Sizes:
    """Lengths around an average, from half to one and a half times it, never above the maximum."""
    return between(average / 2, average * 1.5, average, most)


def counts(average: float, most: int | None) -> Sizes:
    """Numbers of elements around an average, from none to twice it, never above the maximum."""
    return between(0.0, average * 2, average, most)


def between(low: float, high: float, average: float, most: int | None) -> Sizes:
    """Whole numbers spread evenly, with exactly that mean; the range shrinks if the maximum cuts it."""
    if most is not None and high > most:
        high = float(most)
        average = min(average, high)
        low = max(low, 2 * average - high)
    start = int(low * 65536)
    width = int(high * 65536) - start
    # The low 16 bits decide whether the fraction is rounded up, which keeps the mean.
    return lambda bits: as_numbers((start + upper(bits & _UPPER_HALF, width) + (bits & 0xFFFF)) >> 16)


@lru_cache(maxsize=64)
def filler(longest: int, separator: str = " ") -> Filler:
    """A function that gives texts of about those lengths, chosen by the bits."""
    wanted = max(_CORPUS, 2 * longest)
    # Words have at least two letters, so these are enough.
    picked = draw(len(VOCABULARY), skew=0.5)(mixed(np.arange(1, wanted + longest + 33, dtype=np.uint64)))
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    length = 0
    for number in picked.tolist():
        if length >= wanted + longest + 32:
            break
        word = VOCABULARY[number]
        if length < wanted:
            starts.append(length)
        parts.append(word)
        ends.append(length + len(word))
        length += len(word) + len(separator)
    corpus = separator.join(parts)
    begins = np.array(starts, dtype=np.int64)
    nearest = np.array(_nearest(ends, length), dtype=np.int64) if separator else np.arange(length, dtype=np.int64)

    def fill(bits: Bits, size: Numbers) -> list[str]:
        at = begins[evenly(bits << 32, len(begins))]
        return [corpus[start:end] for start, end in zip(at.tolist(), nearest[at + size].tolist(), strict=True)]

    return fill


def _nearest(ends: list[int], length: int) -> list[int]:
    """For each place in the corpus, the end of a word that is nearest to it."""
    result = [ends[0]] * ends[0]
    for before, after in pairwise(ends):
        half = (after - before + 1) // 2
        result += [before] * half + [after] * (after - before - half)
    return result + [ends[-1]] * (length - len(result))


def phrases(average: float, most: int) -> Callable[[Bits], list[str]]:
    """Free text of an average size: words with spaces, or for short strings a word or a piece of one."""
    size = sizes(average, most)
    longest = min(most, int(average * 1.5) + 1)
    short = average < _PHRASE_LEAST or most < average * 1.5 + 8
    fill = filler(longest, "") if short else filler(longest)
    return lambda bits: fill(bits, size(bits))


def numbered(average: float, most: int, wanted: int, seed: int, suffix: str = "") -> tuple[int, Texts]:
    """Distinct texts by number, and how many there are: `river`, `river1-quiet-lamp`; short ones are codes."""
    size = sizes(average, most)
    digits = len(str(max(0, wanted - 1) // len(VOCABULARY)))
    longest_token = 8 + digits
    if average >= 5 + digits and most >= longest_token + len(suffix):
        return 10**12, _tokens(average, most, size, suffix if average >= len(suffix) + 7 + digits else "")
    width = 1
    while 32**width < wanted:
        width += 1
    width = min(width, most)
    return 32**width, _codes(width, most, size, seed)


def _tokens(average: float, most: int, size: Sizes, suffix: str) -> Texts:
    words = VOCABULARY
    total = len(words)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    tens = np.array([10**power for power in range(1, 18)], dtype=np.int64)
    fill = filler(min(most, int(average * 1.5) + 1), "-")
    room = most - len(suffix)

    def texts(numbers: Numbers) -> list[str]:
        turns, which = np.divmod(numbers, total)
        digits = np.where(turns > 0, np.searchsorted(tens, turns, side="right") + 1, 0)
        bits = mixed(as_bits(numbers))
        rest = size(bits) - lengths[which] - digits - len(suffix) - 1
        fills = fill(bits >> 7, np.maximum(rest, 0))
        return [
            (f"{words[word]}{turn or ''}-{more}"[:room] if left >= 3 else f"{words[word]}{turn or ''}") + suffix
            for word, turn, left, more in zip(which.tolist(), turns.tolist(), rest.tolist(), fills, strict=True)
        ]

    return texts


def _codes(width: int, most: int, size: Sizes, seed: int) -> Texts:
    space = 32**width
    factor = (seed | 1) % space | 1
    shift = (seed >> 7) % space
    fill = filler(max(most, 1) if most < 512 else 512, "")
    shifts = np.arange(0, 5 * width, 5, dtype=np.uint64)

    def texts(numbers: Numbers) -> list[str]:
        values = as_bits(numbers) * factor + shift
        codes = _DIGITS[(values[:, None] >> shifts & 31).astype(np.intp)].tobytes().decode()
        bits = mixed(as_bits(numbers))
        rest = np.maximum(np.minimum(size(bits), most) - width, 0)
        starts = range(0, len(codes), width)
        return [codes[at : at + width] + more for at, more in zip(starts, fill(bits, rest), strict=True)]

    return texts
