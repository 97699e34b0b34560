"""Decimals come back as they were, by our own reading of their bits."""

from __future__ import annotations

from decimal import Decimal

import pytest
from bson.decimal128 import Decimal128
from hypothesis import given
from hypothesis import strategies as st

from keyplan.engines.mongodb.values import _number

NUMBERS = st.builds(
    lambda digits, scale: Decimal(digits).scaleb(-scale), st.integers(-(10**18) + 1, 10**18 - 1), st.integers(0, 18)
)


@given(NUMBERS)
def test_a_decimal_of_ours_is_read_as_the_driver_reads_it(value: Decimal) -> None:
    found = _number(Decimal128(value))
    assert found == value
    assert found.as_tuple() == (value if value else abs(value)).as_tuple()


@pytest.mark.parametrize("text", ["9" * 34, "-" + "9" * 34, "1E+6111", "1E-6176", "0", "0.00", "NaN", "Infinity"])
def test_the_widest_and_the_strange(text: str) -> None:
    expected = Decimal128(text).to_decimal()
    assert str(_number(Decimal128(text))) == str(expected)


def test_a_plain_number_stays_one() -> None:
    assert _number(5) == 5
