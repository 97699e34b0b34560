# ruff: noqa: PT017 (an error is allowed here, not demanded)
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyplan import units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("500", 500),
        ("20k", 20_000),
        ("1.2M", 1_200_000),
        ("3 G", 3e9),
        ("1T", 1e12),
        ("1_000", 1000),
        ("1.1k", 1100),
    ],
)
def test_counts(text: str, expected: float) -> None:
    assert units.parse_count(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10ms", 10), ("1s", 1000), ("5m", 300_000), ("2h", 7_200_000), ("1d", 86_400_000), ("1w", 604_800_000)],
)
def test_durations(text: str, expected: int) -> None:
    assert units.parse_duration(text) == expected


def test_a_year_has_365_days() -> None:
    assert units.parse_duration("1y") == units.parse_duration("365d")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10/s", 10),
        ("60/min", 1),
        ("3.6k/h", 1),
        ("86.4k/day", 1),
        ("very high", 1000),
        ("High", 100),
        ("medium", 10),
        ("low", 1),
    ],
)
def test_rates_are_per_second(text: str, expected: float) -> None:
    assert units.parse_rate(text) == pytest.approx(expected)


def test_shares_and_bytes() -> None:
    assert units.parse_share("60%") == 0.6
    assert units.parse_share("0.5%") == 0.005
    assert units.parse_bytes("100kB") == 100_000
    assert units.parse_bytes("2k") == 2000


@pytest.mark.parametrize(
    ("text", "expected"), [("5x", (5, 1)), ("5x 2h/day", (5, 2)), ("2x 30m/day", (2, 0.5)), ("48x", (48, 0.5))]
)
def test_peaks(text: str, expected: tuple[float, float]) -> None:
    assert units.parse_peak(text) == expected


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (units.parse_count, "5x", "unknown unit 'x' in '5x'; use one of k, M, G, T"),
        (units.parse_count, "5m", "unknown unit 'm' in '5m'; use one of k, M, G, T"),
        (units.parse_count, "many", "'many' is not a count such as 500, 20k or 2M"),
        (units.parse_count, "-5", "'-5' is negative; write 0 or more"),
        (units.parse_count, "9" * 400, f"'{'9' * 37}...' is too large; write 1000000T or less"),
        (units.parse_count, "999999999T", "'999999999T' is too large; write 1000000T or less"),
        (units.parse_whole, "1.5", "'1.5' is not a whole number"),
        (units.parse_number, "1.1k", "'1.1k' has the unit 'k' where a plain number is expected; leave it out"),
        (units.parse_duration, "5", "'5' has no unit; use one of ms, s, m, h, d, w, y"),
        (units.parse_duration, "5 moons", "unknown unit 'moons' in '5 moons'; use one of ms, s, m, h, d, w, y"),
        (units.parse_rate, "5/year", "unknown unit '/year' in '5/year'; use /s, /min, /h or /day"),
        (units.parse_rate, "5x/s", "unknown unit 'x' in '5x'; use one of k, M, G, T"),
        (units.parse_share, "101%", "'101%' is more than 100%; write 100% or less"),
        (units.parse_share, "0.5", "'0.5' is not a percentage; write it as 0.5%"),
        (units.parse_bytes, "5 apples", "unknown unit 'apples' in '5 apples'; use one of B, kB, MB, GB, TB"),
        (units.parse_peak, "0.5x", "'0.5x' is below the average; a peak is at least 1x"),
        (units.parse_peak, "5x 2h", "'5x 2h' is not a peak; write it as 5x or 5x 2h/day"),
        (units.parse_peak, "5x 25h/day", "'5x 25h/day' does not fit in a day; say between 0 and 24 hours"),
    ],
)
def test_what_cannot_be_read_is_told(parse: object, text: str, message: str) -> None:
    assert callable(parse)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the message is compared below
        parse(text)
    assert str(caught.value) == message


def test_printing() -> None:
    assert units.format_count(2_000_000) == "2M"
    assert units.format_count(1234) == "1.234k"
    assert units.format_count(12) == "12"
    assert units.format_duration(5_400_000) == "90m"
    assert units.format_duration(0) == "0ms"
    assert units.format_rate(2.0) == "2/s"
    assert units.format_rate(1 / 86_400) == "1/day"
    assert units.format_rate(100 / 86_400) == "100/day"
    assert units.format_rate(200_000 / 86_400) == "200k/day"
    assert units.format_rate(float(f"{100_000 / 86_400:.9g}")) == "100k/day"
    assert units.format_rate(1 / 7) == "8.571/min"
    assert units.format_share(0.6) == "60%"
    assert units.format_bytes(123_456) == "123kB"


@given(st.integers(0, 10**15))
def test_counts_and_durations_survive_printing(number: int) -> None:
    assert units.parse_count(units.format_count(number)) == number
    assert units.parse_duration(units.format_duration(number)) == number


@given(st.text(max_size=30))
def test_nothing_but_value_error(text: str) -> None:
    for parse in (
        units.parse_count,
        units.parse_duration,
        units.parse_rate,
        units.parse_share,
        units.parse_bytes,
        units.parse_peak,
    ):
        try:
            parse(text)
        except ValueError as error:
            assert str(error)
