"""Texts of a wanted size, made of words of a fixed vocabulary, so that searches and prefixes find something."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

from keyplan.data.numbers import MASK, draw, mix
from keyplan.data.vocabulary import VOCABULARY

Sizes = Callable[[int], int]
Filler = Callable[[int, int], str]

_CORPUS = 16_384
_CODE = "0123456789abcdefghjkmnpqrstvwxyz"
_PHRASE_LEAST = 12
"""Texts shorter than this on average are cut anywhere; longer ones at the end of a word."""


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
    return lambda bits: (start + ((bits >> 32) * width >> 32) + (bits & 0xFFFF)) >> 16


@lru_cache(maxsize=64)
def filler(longest: int, separator: str = " ", seed: int = 0) -> Filler:
    """A function that gives a text of about that length, chosen by the bits."""
    pick = draw(len(VOCABULARY), skew=0.5)
    wanted = max(_CORPUS, 2 * longest)
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    length = number = 0
    while length < wanted + longest + 32:
        number += 1
        word = VOCABULARY[pick(mix(number ^ seed))]
        if length < wanted:
            starts.append(length)
        parts.append(word)
        ends.append(length + len(word))
        length += len(word) + len(separator)
    corpus = separator.join(parts)
    total = len(starts)
    if not separator:
        return lambda bits, size: corpus[(at := starts[(bits & 0xFFFFFFFF) * total >> 32]) : at + size]
    nearest = _nearest(ends, length)

    def fill(bits: int, size: int) -> str:
        at = starts[(bits & 0xFFFFFFFF) * total >> 32]
        return corpus[at : nearest[at + size]]

    return fill


def _nearest(ends: list[int], length: int) -> list[int]:
    """For each place in the corpus, the end of a word that is nearest to it."""
    result = [ends[0]] * ends[0]
    for before, after in pairwise(ends):
        half = (after - before + 1) // 2
        result += [before] * half + [after] * (after - before - half)
    return result + [ends[-1]] * (length - len(result))


def phrases(average: float, most: int) -> Callable[[int], str]:
    """Free text of an average size: words with spaces, or for short strings a word or a piece of one."""
    size = sizes(average, most)
    longest = min(most, int(average * 1.5) + 1)
    if average < _PHRASE_LEAST or most < average * 1.5 + 8:
        fill = filler(longest, "")
        return lambda bits: fill(bits, size(bits))
    fill = filler(longest)
    return lambda bits: fill(bits, size(bits))


def numbered(average: float, most: int, wanted: int, seed: int, suffix: str = "") -> tuple[int, Callable[[int], str]]:
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


def _tokens(average: float, most: int, size: Sizes, suffix: str) -> Callable[[int], str]:
    vocabulary = VOCABULARY
    total = len(vocabulary)
    fill = filler(min(most, int(average * 1.5) + 1), "-")

    def text(number: int) -> str:
        token = vocabulary[number % total]
        if number >= total:
            token += str(number // total)
        bits = mix(number)
        rest = size(bits) - len(token) - len(suffix) - 1
        if rest < 3:
            return token + suffix
        whole = f"{token}-{fill(bits >> 7, rest)}"
        return whole[: most - len(suffix)] + suffix

    return text


def _codes(width: int, most: int, size: Sizes, seed: int) -> Callable[[int], str]:
    space = 32**width
    factor = (seed | 1) % space | 1
    shift = (seed >> 7) % space
    fill = filler(max(most, 1) if most < 512 else 512, "")

    def text(number: int) -> str:
        value = (number * factor + shift) % space
        code = ""
        for _ in range(width):
            code += _CODE[value & 31]
            value >>= 5
        bits = mix(number)
        rest = min(size(bits), most) - width
        return code + fill(bits & MASK, rest) if rest > 0 else code

    return text
