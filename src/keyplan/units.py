"""Amounts as people write them: counts, durations, rates, percentages, bytes and peaks.

Every `parse_` function takes text and raises ValueError with a message that names the units it knows; every
`format_` function writes an amount so that it can be parsed again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

COUNT_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BYTE_UNITS = {"": 1.0, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
DURATION_UNITS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
    "y": 365 * 86_400_000,
}
RATE_UNITS = {"s": 1, "min": 60, "h": 3_600, "day": 86_400}
RATE_WORDS = {"very high": 1_000.0, "high": 100.0, "medium": 10.0, "low": 1.0}

GREATEST = 1e18
"""Amounts beyond this are slips of the pen, and would leave 64 bits."""

_AMOUNT = re.compile(r"(-?)([0-9][0-9_]*(?:\.[0-9]+)?)\s*([^\s0-9]*)")


def parse_count(text: str) -> float:
    """The number of things: `2M` is 2,000,000.

    >>> parse_count("1.2k")
    1200.0
    """
    number, unit = _amount(text, "a count such as 500, 20k or 2M")
    return _scaled(number, unit, text, COUNT_UNITS)


def parse_whole(text: str, least: int = 0) -> int:
    """A count that has to be a whole number, at least `least`."""
    number = parse_count(text)
    if number != int(number):
        raise ValueError(f"'{_shown(text)}' is not a whole number")
    if number < least:
        raise ValueError(f"'{_shown(text)}' is too small; the least is {least}")
    return int(number)


def parse_number(text: str) -> float:
    """A plain positive number without a unit, such as the exponent of a skew."""
    number, unit = _amount(text, "a number such as 1.1")
    if unit:
        raise ValueError(
            f"'{_shown(text)}' has the unit '{_shown(unit)}' where a plain number is expected; leave it out"
        )
    return number


def parse_bytes(text: str) -> float:
    """A size in bytes: plain, or with B, kB, MB, GB, TB (or the count units k, M, G, T), powers of 1000.

    >>> parse_bytes("100kB")
    100000.0
    """
    number, unit = _amount(text, "a size such as 32 or 100kB")
    return _scaled(number, unit, text, {**COUNT_UNITS, **BYTE_UNITS}, BYTE_UNITS)


def parse_duration(text: str) -> int:
    """A duration in whole milliseconds.

    >>> parse_duration("1.5h")
    5400000
    """
    return round(parse_latency(text))


def parse_latency(text: str) -> float:
    """A duration in milliseconds of which a part counts, too.

    >>> parse_latency("0.5ms")
    0.5
    """
    number, unit = _amount(text, "a duration such as 10ms, 30m or 90d")
    if not unit and number:
        raise ValueError(f"'{_shown(text)}' has no unit; use one of {_list(DURATION_UNITS)}")
    return _scaled(number, unit or "ms", text, DURATION_UNITS)


def parse_rate(text: str) -> float:
    """How often something happens, per second: `200k/day`, `10/s`, or a word.

    >>> parse_rate("high")
    100.0
    """
    word = " ".join(text.lower().split())
    if word in RATE_WORDS:
        return RATE_WORDS[word]
    amount, slash, unit = text.partition("/")
    unit = unit.strip()
    if not slash:
        raise ValueError(
            f"'{_shown(text)}' is not a rate; write it as 10/s, 5/min, 2k/h or 200k/day, or as {_list(RATE_WORDS)}"
        )
    if unit not in RATE_UNITS:
        raise ValueError(f"unknown unit '/{_shown(unit)}' in '{_shown(text)}'; use /s, /min, /h or /day")
    return parse_count(amount.strip()) / RATE_UNITS[unit]


def parse_share(text: str) -> float:
    """A percentage as a number between 0 and 1.

    >>> parse_share("60%")
    0.6
    """
    number, unit = _amount(text, "a percentage such as 60%")
    if unit != "%":
        raise ValueError(f"'{_shown(text)}' is not a percentage; write it as {_shown(text.rstrip('%'))}%")
    if number > 100:
        raise ValueError(f"'{_shown(text)}' is more than 100%; write 100% or less")
    return round(number / 100, 12)


def parse_peak(text: str) -> tuple[float, float]:
    """The highest sustained rate over the mean, and the hours a day that it lasts (1 if not said, less if
    that alone would be more than the whole day's average).

    >>> parse_peak("5x 2h/day")
    (5.0, 2.0)
    """
    factor, _, rest = text.strip().partition(" ")
    number, unit = _amount(factor, "a peak such as 5x or 5x 2h/day")
    if unit != "x":
        raise ValueError(f"'{_shown(text)}' is not a peak; write it as 5x or 5x 2h/day")
    if number < 1:
        raise ValueError(f"'{_shown(text)}' is below the average; a peak is at least 1x")
    if not rest.strip():
        # a peak of 50x cannot last an hour a day: that alone would be more than the average
        return number, min(1.0, 24 / number)
    length, slash, per = rest.strip().partition("/")
    if not slash or per.strip() != "day":
        raise ValueError(f"'{_shown(text)}' is not a peak; write it as 5x or 5x 2h/day")
    hours = parse_duration(length) / DURATION_UNITS["h"]
    if not 0 < hours <= 24:
        raise ValueError(f"'{_shown(text)}' does not fit in a day; say between 0 and 24 hours")
    if number * hours > 24:
        raise ValueError(f"'{_shown(text)}' alone is more than the average of the whole day; lower one of the two")
    return number, hours


def format_count(number: float) -> str:
    """The shortest exact text: 2000000 is `2M`."""
    for unit, size in reversed(COUNT_UNITS.items()):
        if unit and abs(number) >= size and round(number / size, 3) * size == number:
            return f"{_plain(number / size)}{unit}"
    return _plain(number)


def format_about(number: float) -> str:
    """Three digits of it: 31536000 is `31.5M`."""
    return format_count(float(f"{number:.3g}"))


def format_duration(milliseconds: float) -> str:
    """The largest unit that divides it: 5400000 is `90m`."""
    for unit, size in reversed(DURATION_UNITS.items()):
        if milliseconds and milliseconds % size == 0:
            return f"{_plain(milliseconds / size)}{unit}"
    return f"{_plain(milliseconds)}ms"


def format_elapsed(milliseconds: float) -> str:
    """A time that something takes, in four digits and without an exponent.

    >>> [format_elapsed(time) for time in (8.25, 833.6, 12_345.0, 967_611.0)]
    ['8.25 ms', '833.6 ms', '12.35 s', '967.6 s']
    """
    if milliseconds < 10_000:
        return f"{milliseconds:.4g} ms"
    return f"{milliseconds / 1000:.4g} s" if milliseconds < 1e7 else f"{milliseconds / 1000:,.0f} s"


def format_rate(per_second: float) -> str:
    """Per second if that is a readable number and the whole truth, else in the unit in which it is shortest.

    >>> [format_rate(parse_rate(text)) for text in ("100/day", "300k/day", "90/min", "1/min")]
    ['100/day', '300k/day', '1.5/s', '1/min']
    """
    whole: list[str] = []
    rounded: list[str] = []
    for unit, seconds in RATE_UNITS.items():
        amount = per_second * seconds
        if amount >= 1 or unit == "day":
            nearest = round(amount, 3) if amount < 1e4 else round(amount)
            exact = math.isclose(nearest, amount, rel_tol=1e-8)  # documents have nine digits of it
            (whole if exact else rounded).append(f"{format_count(nearest)}/{unit}")
            if exact and unit == "s":
                break
    return min(whole, key=lambda text: len(text.partition("/")[0])) if whole else rounded[0]


def format_share(share: float) -> str:
    """0.6 is `60%`."""
    return f"{_plain(round(share * 100, 6))}%"


def format_bytes(size: float) -> str:
    """Three digits at most: 123456 is `123kB`."""
    for unit in ("TB", "GB", "MB", "kB"):
        if abs(size) >= BYTE_UNITS[unit]:
            return f"{_plain(float(f'{size / BYTE_UNITS[unit]:.3g}'))}{unit}"
    return f"{_plain(round(size, 1))}B"


def _amount(text: str, expected: str) -> tuple[float, str]:
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"'{_shown(text)}' is not {expected}")
    sign, digits, unit = found.groups()
    if sign:
        raise ValueError(f"'{_shown(text)}' is negative; write 0 or more")
    number = float(digits)
    if not math.isfinite(number) or number > GREATEST:
        raise ValueError(f"'{_shown(text)}' is too large; write {format_count(GREATEST)} or less")
    return number, unit


def _scaled(
    number: float,
    unit: str,
    text: str,
    units: Mapping[str, float],
    shown: Mapping[str, float] | None = None,
) -> float:
    if unit not in units:
        raise ValueError(f"unknown unit '{_shown(unit)}' in '{_shown(text)}'; use one of {_list(shown or units)}")
    result = number * units[unit]
    if result > GREATEST:
        raise ValueError(f"'{_shown(text)}' is too large; write {format_count(GREATEST)} or less")
    # 1.1k is 1100, not 1100.0000000000002
    return round(result, 9)


def _list(units: Mapping[str, float]) -> str:
    return ", ".join(unit for unit in units if unit)


def _plain(number: float) -> str:
    return f"{number:.10f}".rstrip("0").rstrip(".") if number != int(number) else str(int(number))


def _shown(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 40 else text[:37] + "..."
