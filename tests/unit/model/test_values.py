"""Canonical values: what is let in, what is refused, and the round trips that must lose nothing."""

from __future__ import annotations

import json
import math
import os
import pickle
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyplan.model.identifiers import ulid_number, ulid_text, uuid_of
from keyplan.model.types import Type, to_give
from keyplan.model.values import (
    add,
    average_bytes,
    canonical,
    checker,
    from_json,
    new_ulid,
    new_uuid,
    parse,
    sort_key,
    to_json,
    to_text,
    truncate,
    truncated_type,
    words,
)

STRING, INT, FLOAT, BOOL = Type("string"), Type("int"), Type("float"), Type("bool")
DATE, TIMESTAMP, UUID_TYPE, ULID, JSON = Type("date"), Type("timestamp"), Type("uuid"), Type("ulid"), Type("json")
BYTES = Type("bytes")
ENUM = Type("enum", values=(("new", 0.9), ("used", 0.1)))
MONEY = Type("decimal", scale=2)

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
JSON_VALUES = st.recursive(
    st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner | st.none(), max_size=4) | st.dictionaries(TEXT, inner | st.none(), max_size=4),
    max_leaves=12,
)


@st.composite
def moments(draw: st.DrawFn) -> datetime:
    offset = draw(st.timedeltas(timedelta(hours=-14), timedelta(hours=14)))
    return draw(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))).replace(tzinfo=timezone(offset))


def decimals(scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-scale))


@st.composite
def scalars(draw: st.DrawFn) -> tuple[Type, Any]:
    """A scalar type and a value that it accepts, not necessarily canonical."""
    scale = draw(st.integers(0, 18))
    numbers = st.floats(1e-130, 1e124) | st.floats(-1e124, -1e-130) | st.just(0.0) | st.just(-0.0)
    choices: list[tuple[Type, st.SearchStrategy[Any]]] = [
        (STRING, TEXT),
        (Type("text"), TEXT),
        (BYTES, st.binary(max_size=50)),
        (INT, st.integers(-(2**63), 2**63 - 1)),
        (Type("decimal", scale=scale), decimals(scale)),
        (FLOAT, numbers),
        (BOOL, st.booleans()),
        (ENUM, st.sampled_from(["new", "used"])),
        (DATE, st.dates()),
        (TIMESTAMP, moments()),
        (UUID_TYPE, st.uuids()),
        (ULID, st.integers(0, 2**128 - 1).map(ulid_text)),
    ]
    kind, values = draw(st.sampled_from(choices))
    return kind, draw(values)


@st.composite
def typed(draw: st.DrawFn) -> tuple[Type, Any]:
    """Any type with a value it accepts."""
    how = draw(st.sampled_from(["scalar", "scalar", "json", "set", "list"]))
    if how == "json":
        return JSON, draw(JSON_VALUES)
    kind, value = draw(scalars())
    if how == "scalar":
        return kind, value
    return Type(how, of=kind), [value] * draw(st.integers(0, 3))


@given(typed())
def test_canonical_values_stay_as_they_are(case: tuple[Type, Any]) -> None:
    kind, value = case
    once = canonical(kind, value)
    twice = canonical(kind, once)
    assert repr(twice) == repr(once)
    assert type(twice) is type(once)


@given(typed())
def test_json_round_trip(case: tuple[Type, Any]) -> None:
    kind, value = case
    value = canonical(kind, value)
    carried = json.loads(json.dumps(to_json(kind, value)))
    assert repr(from_json(kind, carried)) == repr(value)


@given(typed())
def test_text_round_trip(case: tuple[Type, Any]) -> None:
    kind, value = case
    value = canonical(kind, value)
    assert repr(parse(kind, to_text(kind, value))) == repr(value)


@given(scalars())
def test_str_is_parsed_back(case: tuple[Type, Any]) -> None:
    kind, value = case
    value = canonical(kind, value)
    if kind is not BYTES:
        assert parse(kind, str(value)) == value


@given(st.lists(TEXT))
def test_strings_order_as_their_utf8_bytes(texts: list[str]) -> None:
    assert sorted(texts, key=sort_key(STRING)) == sorted(texts, key=str.encode)


@given(st.lists(st.uuids()))
def test_uuids_order_as_unsigned_bytes(uuids: list[UUID]) -> None:
    assert sorted(uuids, key=sort_key(UUID_TYPE)) == sorted(uuids, key=lambda uuid: uuid.bytes)


@given(st.lists(st.integers(0, 2**128 - 1)))
def test_ulids_order_as_unsigned_bytes(numbers: list[int]) -> None:
    texts = [ulid_text(number) for number in numbers]
    assert [ulid_number(text) for text in texts] == numbers
    assert sorted(texts, key=sort_key(ULID)) == [ulid_text(number) for number in sorted(numbers)]


def test_only_scalars_are_ordered() -> None:
    for kind in (JSON, Type("set", of=INT), Type("list", of=INT)):
        with pytest.raises(TypeError, match="not ordered"):
            sort_key(kind)
    assert sort_key(BOOL)(False) < sort_key(BOOL)(True)


class Colour(StrEnum):
    USED = "used"


REFUSED: list[tuple[Type, object, str]] = [
    (STRING, 1, "expected a string, got int"),
    (STRING, None, "expected a string, got None"),
    (STRING, b"x", "got bytes"),
    (STRING, "a\0b", "NUL"),
    (STRING, "\ud800", "surrogates"),
    (STRING, "x" * 513, "longer than 512 bytes"),
    (STRING, "é" * 257, "longer than 512 bytes"),
    (Type("string", most=5), "123456", "longer than 5 bytes"),
    (Type("text"), "x" * 100_001, "longer than 100000 bytes"),
    (BYTES, "eA==", "expected bytes, got str"),
    (BYTES, bytes(100_001), "longer than"),
    (INT, True, "expected an int, got bool"),
    (INT, 1.0, "got float"),
    (INT, "1", "got str"),
    (INT, 2**63, "64 bits"),
    (INT, -(2**63) - 1, "64 bits"),
    (MONEY, 1.5, "expected a Decimal, int or str, got float"),
    (MONEY, True, "got bool"),
    (MONEY, Decimal("0.001"), "does not fit decimal"),
    (MONEY, Decimal("1e16"), "does not fit"),
    (MONEY, 10**16, "does not fit"),
    (MONEY, Decimal("NaN"), "finite"),
    (MONEY, Decimal("sNaN"), "finite"),
    (MONEY, Decimal("Infinity"), "finite"),
    (MONEY, "1_0", "expected a decimal number"),
    (MONEY, " 1", "expected a decimal number"),
    (MONEY, "1e999999", "does not fit"),
    (MONEY, "1e-999999", "does not fit"),
    (FLOAT, math.nan, "range of floats"),
    (FLOAT, math.inf, "range of floats"),
    (FLOAT, 1e125, "range of floats"),
    (FLOAT, 9e-131, "range of floats"),
    (FLOAT, 10**400, "range of floats"),
    (FLOAT, True, "got bool"),
    (FLOAT, "1", "got str"),
    (BOOL, 1, "expected a bool, got int"),
    (ENUM, "old", "expected one of 'new', 'used', got 'old'"),
    (ENUM, 1, "got int"),
    (DATE, datetime(2024, 1, 1, tzinfo=UTC), "expected a date, got datetime"),
    (DATE, "2024-02-30", "is not a date"),
    (DATE, "20240229", "expected a date"),
    (TIMESTAMP, datetime(2024, 1, 1), "naive"),
    (TIMESTAMP, "2024-01-01T00:00:00", "naive"),
    (TIMESTAMP, "yesterday", "expected a timestamp"),
    (TIMESTAMP, date(2024, 1, 1), "expected a datetime, got date"),
    (TIMESTAMP, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "years 1 to 9999"),
    (TIMESTAMP, datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2))), "years 1 to 9999"),
    (UUID_TYPE, "not-a-uuid", "expected a UUID"),
    (UUID_TYPE, "{12345678-1234-5678-1234-567812345678}", "expected a UUID"),
    (UUID_TYPE, "1234567_1234567812345678123456 8", "expected a UUID"),
    (UUID_TYPE, 5, "got int"),
    (ULID, "8" + "0" * 25, "expected a ULID"),
    (ULID, "0" * 25, "expected a ULID"),
    (ULID, "0" * 25 + "U", "expected a ULID"),
    (ULID, "0" * 25 + "ſ", "expected a ULID"),
    (Type("set", of=INT), "abc", "expected a set, got str"),
    (Type("set", of=INT), None, "got None"),
    (Type("set", of=INT), [1, "a"], "expected an int"),
    (Type("set", of=INT, most=2), [1, 2, 3], "more than 2"),
    (Type("list", of=INT), {1, 2}, "expected a list, got set"),
    (Type("list", of=INT, most=2), [1, 1, 1], "more than 2"),
    (JSON, None, "expected a JSON value, got None"),
    (JSON, {1: 2}, "key that is not a string"),
    (JSON, [math.nan], "finite"),
    (JSON, ["\0"], "NUL"),
    (JSON, {"\ud800": 1}, "surrogates"),
    (JSON, [Decimal(1)], "expected a JSON value, got Decimal"),
    (JSON, [10**5000], "too long"),
    (Type("json", most=5), "1234", "longer than 5 bytes"),
]


@pytest.mark.parametrize(
    ("kind", "value", "reason"), REFUSED, ids=[f"{number}-{case[0]}" for number, case in enumerate(REFUSED)]
)
def test_refused(kind: Type, value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        canonical(kind, value)
    assert f"{refused.value}{to_give(kind, refused.value)}".count(";") == 1, "what to do is said, and once"


def test_deep_json_is_refused_without_exhausting_the_stack() -> None:
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        canonical(JSON, deep)
    with pytest.raises(ValueError, match="deep"):
        parse(JSON, "[" * 100_000 + "]" * 100_000)


ACCEPTED: list[tuple[Type, object, object]] = [
    (STRING, "é" * 256, "é" * 256),
    (STRING, Colour.USED, "used"),
    (ENUM, Colour.USED, "used"),
    (BYTES, bytearray(b"ab"), b"ab"),
    (INT, -(2**63), -(2**63)),
    (MONEY, 3, Decimal("3.00")),
    (MONEY, "1.5", Decimal("1.50")),
    (MONEY, "1e3", Decimal("1000.00")),
    (MONEY, Decimal("9999999999999999.99"), Decimal("9999999999999999.99")),
    (MONEY, Decimal("-0"), Decimal("0.00")),
    (Type("decimal", scale=18), "0.999999999999999999", Decimal("0.999999999999999999")),
    (FLOAT, 3, 3.0),
    (FLOAT, -0.0, 0.0),
    (FLOAT, -1e-130, -1e-130),
    (DATE, "2024-02-29", date(2024, 2, 29)),
    (TIMESTAMP, "2024-02-29T01:30:00.1239+01:00", datetime(2024, 2, 29, 0, 30, 0, 123000, UTC)),
    (TIMESTAMP, "2024-02-29T01:30:00Z", datetime(2024, 2, 29, 1, 30, 0, 0, UTC)),
    (TIMESTAMP, datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
    (UUID_TYPE, "12345678-ABCD-5678-1234-567812345678", UUID("12345678-abcd-5678-1234-567812345678")),
    (UUID_TYPE, "12345678ABCD56781234567812345678", UUID("12345678-abcd-5678-1234-567812345678")),
    (ULID, "01arz3ndektsv4rrffq69g5fav", "01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    (Type("set", of=ULID), ["0" * 25 + "a", "0" * 25 + "A"], frozenset({"0" * 25 + "A"})),
    (Type("set", of=INT, most=2), [1, 1, 2], frozenset({1, 2})),
    (Type("list", of=MONEY), (1, "2"), (Decimal("1.00"), Decimal("2.00"))),
    (JSON, {"a": (1, Colour.USED)}, {"a": [1, "used"]}),
    (Type("json", most=6), "1234", "1234"),
]


@pytest.mark.parametrize(
    ("kind", "value", "expected"), ACCEPTED, ids=[f"{number}-{case[0]}" for number, case in enumerate(ACCEPTED)]
)
def test_accepted(kind: Type, value: object, expected: object) -> None:
    found = canonical(kind, value)
    assert repr(found) == repr(expected)
    assert type(found) is type(expected)


def test_canonical_json_is_a_copy() -> None:
    inner = [1]
    found = canonical(JSON, {"a": inner})
    inner.append(2)
    assert found == {"a": [1]}


def test_the_decimal_context_of_the_caller_does_not_matter() -> None:
    with localcontext() as context:
        context.prec = 3
        big = canonical(MONEY, "123456789.12")
        assert add(MONEY, big, Decimal("0.01")) == Decimal("123456789.13")


def test_parse_reads_what_people_write() -> None:
    assert parse(BOOL, "true") is True
    assert parse(BOOL, "False") is False
    assert parse(INT, "-010") == -10
    assert parse(BYTES, "aGk=") == b"hi"
    assert parse(Type("list", of=INT), "3, 1,2") == (3, 1, 2)
    assert parse(Type("set", of=STRING), "") == frozenset()
    assert parse(Type("list", of=MONEY), "[0.10, 2]") == (Decimal("0.10"), Decimal(2))
    assert parse(JSON, '{"a": null}') == {"a": None}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (INT, "1.0"),
        (INT, "1_0"),
        (INT, "١"),
        (INT, "9" * 30),
        (FLOAT, "nan"),
        (FLOAT, "1e400"),
        (BOOL, "yes"),
        (BYTES, "hi"),
        (BYTES, "é"),
        (JSON, "{"),
        (JSON, "null"),
        (JSON, "NaN"),
        (JSON, '{"a": 1, "a": 2}'),
        (Type("list", of=INT), "1,,2"),
        (Type("list", of=INT), "[1, null]"),
        (Type("list", of=INT), "[1"),
    ],
)
def test_parse_refuses(kind: Type, text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(kind, text)


@pytest.mark.parametrize("scale", range(19))
def test_the_example_of_a_decimal_fits_it(scale: int) -> None:
    kind = Type("decimal", scale=scale)
    with pytest.raises(ValueError, match="18 digits") as caught:
        parse(kind, "1e18")
    example = to_give(kind, caught.value).removeprefix("; give one such as ")
    assert Decimal(example) == parse(kind, example)


def test_to_json_looks_as_documented() -> None:
    assert to_json(TIMESTAMP, datetime(2024, 2, 29, tzinfo=UTC)) == "2024-02-29T00:00:00.000Z"
    assert to_json(MONEY, Decimal("0.00")) == "0.00"
    assert to_json(Type("decimal", scale=10), Decimal("0E-10")) == "0.0000000000"
    assert to_json(Type("set", of=INT), frozenset({3, 1, 2})) == [1, 2, 3]
    assert to_json(BYTES, b"hi") == "aGk="
    assert from_json(INT, None) is None


@given(moments())
def test_truncations(moment: datetime) -> None:
    value = canonical(TIMESTAMP, moment)
    assert isinstance(value, datetime)
    for cut in ("minute", "hour", "day", "week", "month", "year"):
        found = truncate(value, cut)
        assert canonical(truncated_type(TIMESTAMP, cut), found) == found
        assert truncate(found, cut) == found
        if cut not in ("minute", "hour"):
            assert truncate(value.date(), cut) == found
            assert found <= value.date()
    assert truncate(value, "week").weekday() == 0
    assert (value.date() - truncate(value, "week")).days < 7


def test_truncations_by_hand() -> None:
    value = datetime(2024, 5, 15, 13, 45, 59, 123000, UTC)
    assert truncate(value, "minute") == datetime(2024, 5, 15, 13, 45, tzinfo=UTC)
    assert truncate(value, "hour") == datetime(2024, 5, 15, 13, tzinfo=UTC)
    assert truncate(value, "day") == date(2024, 5, 15)
    assert truncate(value, "week") == date(2024, 5, 13)
    assert truncate(value, "month") == date(2024, 5, 1)
    assert truncate(value, "year") == date(2024, 1, 1)
    assert truncate(date(1, 1, 1), "week") == date(1, 1, 1)
    for call in (lambda: truncate(date(2024, 1, 1), "hour"), lambda: truncated_type(DATE, "minute")):
        with pytest.raises(ValueError, match="a date has no"):
            call()
    with pytest.raises(ValueError, match="needs a date or timestamp"):
        truncated_type(INT, "day")


def test_add_stays_in_range_or_says_so() -> None:
    assert add(INT, None, 5) == 5
    assert add(INT, 2**63 - 1, -(2**63)) == -1
    assert repr(add(MONEY, Decimal("0.10"), Decimal("-0.10"))) == "Decimal('0.00')"
    assert add(FLOAT, 1.5, -1.5) == 0.0
    overflows: list[tuple[Type, object, object]] = [
        (INT, 2**63 - 1, 1),
        (INT, -(2**63), -1),
        (MONEY, Decimal("9999999999999999.99"), Decimal("0.01")),
        (FLOAT, 9e124, 9e124),
        (FLOAT, 1.5e-130, -1e-130),
    ]
    for kind, value, delta in overflows:
        with pytest.raises(OverflowError, match="the sum"):
            add(kind, value, delta)


@given(decimals(4), decimals(4))
def test_decimal_sums_are_exact(left: Decimal, right: Decimal) -> None:
    kind = Type("decimal", scale=4)
    with localcontext() as context:
        context.prec = 40
        exact = left + right
    if abs(exact) < 10**14:
        assert add(kind, canonical(kind, left), canonical(kind, right)) == exact
    else:
        with pytest.raises(OverflowError):
            add(kind, canonical(kind, left), canonical(kind, right))


@given(TEXT)
def test_words_are_runs_of_alphanumerics(text: str) -> None:
    plain = "".join(char if char.isalnum() else " " for char in text.casefold())
    assert words(text) == frozenset(plain.split(" ")) - {""}


def test_average_bytes() -> None:
    assert average_bytes(Type("string", size=32)) == 32
    assert average_bytes(Type("set", size=3, of=Type("uuid"))) == 48
    assert average_bytes(Type("string", most=4)) == 4
    assert average_bytes(ENUM) == pytest.approx(3 * 0.9 + 4 * 0.1)


def test_ulids_ascend_across_threads_and_backward_clocks() -> None:
    made: list[list[str]] = [[] for _ in range(4)]

    def run(into: list[str]) -> None:
        into.extend(new_ulid(1_700_000_000_000 - number) for number in range(2000))

    threads = [threading.Thread(target=run, args=(into,)) for into in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for into in made:
        assert into == sorted(into)
    assert len({ulid for into in made for ulid in into}) == 8000
    assert canonical(ULID, made[0][0]) == made[0][0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_repeat_the_parent() -> None:
    moment = 1_800_000_000_000
    new_ulid(moment)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, new_ulid(moment).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 26).decode() != new_ulid(moment)
    os.close(reader)
    os.close(writer)


def test_uuids_are_random_version_4() -> None:
    made = {new_uuid() for _ in range(1000)}
    assert len(made) == 1000
    assert {(uuid.version, uuid.variant) for uuid in made} == {(4, "specified in RFC 4122")}


@given(st.integers(0, 2**128 - 1))
def test_uuids_made_fast_are_like_any_other(number: int) -> None:
    made, other = uuid_of(number), UUID(int=number)
    assert made == other
    assert hash(made) == hash(other)
    assert (made.is_safe, made.bytes, str(made)) == (other.is_safe, other.bytes, str(other))
    assert pickle.loads(pickle.dumps(made)) == other


def test_checkers_are_compiled_once() -> None:
    first: Callable[[object], object] = checker(Type("decimal", scale=3))
    assert checker(Type("decimal", scale=3)) is first
