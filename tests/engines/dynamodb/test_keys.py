"""Encoded keys sort like the tuples they stand for, come back unchanged, and their ranges are exact."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyplan.engines.dynamodb.keys import (
    ABOVE,
    KeyCodec,
    KeyPart,
    Missing,
    after,
    before,
    most_part_bytes,
)
from keyplan.errors import ArgumentError, UnsupportedError
from keyplan.model.types import Type

NASTY = " !\"#$%&'~}|_abz09\x01\x1f\x7f\x80é\ud7ff\ue000\uffff\U00010000\U0010fffc\U0010fffd\U0010fffe\U0010ffff"
ALLOWED = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
TEXTS = st.text(NASTY, max_size=4) | st.text(ALLOWED, max_size=8)
INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-1100, 1100)
MOMENTS = st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
FLOATS = st.one_of(st.just(0.0), st.floats(1e-130, 1e124), st.floats(-1e124, -1e-130))
ULIDS = st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=25, max_size=25).map(lambda text: "0" + text)


def decimals(scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**18) + 1, 10**18 - 1).map(lambda number: Decimal(number).scaleb(-scale))


ENUM = Type("enum", values=(("a", 0.5), ("a b", 0.25), ("a#", 0.25)))
KINDS: dict[str, tuple[Type, st.SearchStrategy[Any]]] = {
    "string": (Type("string"), TEXTS),
    "text": (Type("text"), TEXTS),
    "bytes": (Type("bytes"), st.binary(max_size=4)),
    "int": (Type("int"), INTS),
    "decimal2": (Type("decimal", scale=2), decimals(2)),
    "decimal0": (Type("decimal", scale=0), decimals(0)),
    "decimal18": (Type("decimal", scale=18), decimals(18)),
    "float": (Type("float"), FLOATS),
    "bool": (Type("bool"), st.booleans()),
    "enum": (ENUM, st.sampled_from([name for name, _ in ENUM.values])),
    "date": (Type("date"), st.dates()),
    "timestamp": (Type("timestamp"), MOMENTS),
    "uuid": (Type("uuid"), st.uuids()),
    "ulid": (Type("ulid"), ULIDS),
}


class Reversed:
    """Sorts the other way round."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and bool(other.value == self.value)


def rank(part: KeyPart, value: Any) -> tuple[Any, ...]:
    """What the stored keys are to be ordered by."""
    if value is None:
        return (0,) if part.missing == "low" else (2,)
    if isinstance(value, UUID):
        value = value.bytes
    return 1, Reversed(value) if part.descending else value


def ranks(codec: KeyCodec, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [rank(part, value) for part, value in zip(codec.parts, values, strict=False)]


@st.composite
def parts(draw: st.DrawFn) -> tuple[KeyPart, st.SearchStrategy[Any]]:
    type, values = KINDS[draw(st.sampled_from(list(KINDS)))]
    options: list[Missing | None] = [None, None, "low", "high"]
    missing = draw(st.sampled_from(options))
    if missing:
        values = st.none() | values
    return KeyPart(type, draw(st.booleans()), missing), values


@st.composite
def codecs(draw: st.DrawFn) -> tuple[KeyCodec, list[tuple[Any, ...]]]:
    """A codec of one to three parts, and tuples that often share their beginnings."""
    chosen = draw(st.lists(parts(), min_size=1, max_size=3))
    codec = KeyCodec([part for part, _ in chosen], prefix=draw(st.sampled_from(["", "LINE#"])), most=4000)
    columns = [draw(st.lists(values, min_size=1, max_size=4)) for _, values in chosen]
    return codec, list(itertools.islice(itertools.product(*columns), 40))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", list(KINDS))
@settings(max_examples=60)
@given(data=st.data())
def test_one_part_keeps_order_and_comes_back(kind: str, descending: bool, data: st.DataObject) -> None:
    type, values = KINDS[kind]
    codec = KeyCodec([KeyPart(type, descending)], most=4000)
    one, other = data.draw(values), data.draw(values)
    encoded = [codec.encode([value]) for value in (one, other)]
    assert [codec.decode(text) for text in encoded] == [(one,), (other,)]
    assert (encoded[0].encode() < encoded[1].encode()) == (ranks(codec, (one,)) < ranks(codec, (other,)))
    assert all(encoded)
    assert ABOVE not in "".join(encoded)


@settings(max_examples=300)
@given(codecs())
def test_tuples_keep_order_and_come_back(case: tuple[KeyCodec, list[tuple[Any, ...]]]) -> None:
    codec, rows = case
    by_text = sorted(rows, key=lambda row: codec.encode(row).encode())
    assert [ranks(codec, row) for row in by_text] == sorted(ranks(codec, row) for row in rows)
    assert [codec.decode(codec.encode(row)) for row in rows] == rows


@settings(max_examples=300)
@given(codecs(), st.data())
def test_a_stem_is_shared_by_exactly_its_own_keys(
    case: tuple[KeyCodec, list[tuple[Any, ...]]], data: st.DataObject
) -> None:
    codec, rows = case
    leading = data.draw(st.sampled_from(rows))[: data.draw(st.integers(0, len(codec.parts) - 1))]
    stem = codec.stem(leading)
    for row in rows:
        assert codec.encode(row).startswith(stem) == (row[: len(leading)] == leading)


@settings(max_examples=600)
@given(codecs(), st.data())
def test_bounds_hold_exactly_what_lies_between(
    case: tuple[KeyCodec, list[tuple[Any, ...]]], data: st.DataObject
) -> None:
    codec, rows = case
    fixed = data.draw(st.integers(0, len(codec.parts) - 1))
    leading = data.draw(st.sampled_from(rows))[:fixed]
    bound = st.none() | st.sampled_from(rows).flatmap(
        lambda row: st.integers(1, len(row) - fixed).map(lambda size: row[fixed : fixed + size])
    )
    low, high = data.draw(bound), data.draw(bound)
    low_open, high_open, present = data.draw(st.booleans()), data.draw(st.booleans()), data.draw(st.booleans())
    part = codec.parts[fixed]

    def matches(row: tuple[Any, ...]) -> bool:
        if row[:fixed] != leading or (present and row[fixed] is None):
            return False
        rest = [rank(part, value) for part, value in zip(codec.parts[fixed:], row[fixed:], strict=True)]
        for edge, is_open, sign in ((low, low_open, 1), (high, high_open, -1)):
            if edge is None:
                continue
            wanted = [rank(part, value) for part, value in zip(codec.parts[fixed:], edge, strict=False)]
            mine = rest[: len(wanted)]
            if mine == wanted:
                if is_open:
                    return False
            elif (mine < wanted) == (sign == 1):
                return False
        return True

    found = codec.bounds(leading, low=low, high=high, low_open=low_open, high_open=high_open, present=present)
    assert part.type.kind  # the part after the fixed ones exists
    for row in rows:
        key = codec.encode(row).encode()
        inside = found is not None and found.low.encode() <= key <= found.high.encode()
        assert inside == matches(row), (row, found)
    assert found is None or (found.low and found.low.encode() <= found.high.encode())


@settings(max_examples=300)
@given(st.booleans(), st.sampled_from([None, "low", "high"]), TEXTS, st.lists(TEXTS, max_size=6), st.booleans())
def test_begins_with_is_exact(descending: bool, missing: Any, start: str, others: list[str], is_last: bool) -> None:
    tail = [] if is_last else [KeyPart(Type("int"))]
    codec = KeyCodec([KeyPart(Type("string"), descending, missing), *tail], most=4000)
    found = codec.bounds(starts=start, present=True)
    assert found is not None
    rows: list[str | None] = [*others, *(start + other for other in others), start, start[:-1]]
    if missing:
        rows.append(None)
    for row in rows:
        key = codec.encode([row, 5][: len(codec.parts)]).encode()
        assert (found.low.encode() <= key <= found.high.encode()) == (row is not None and row.startswith(start))


@settings(max_examples=200)
@given(codecs(), st.data())
def test_nothing_lies_between_a_key_and_its_neighbours(
    case: tuple[KeyCodec, list[tuple[Any, ...]]], data: st.DataObject
) -> None:
    codec, rows = case
    key = codec.encode(data.draw(st.sampled_from(rows)))
    assert before(key).encode() < key.encode() < after(key).encode()
    for row in rows:
        other = codec.encode(row)
        if other == key:
            continue
        assert (other.encode() < key.encode()) == (other.encode() < before(key).encode())
        assert (other.encode() > key.encode()) == (other.encode() > after(key).encode())


@settings(max_examples=200)
@given(codecs())
def test_no_key_is_longer_than_foretold(case: tuple[KeyCodec, list[tuple[Any, ...]]]) -> None:
    codec, rows = case
    assert max(len(codec.encode(row).encode()) for row in rows) <= codec.most_bytes


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        (Type("string"), "ann@example.com", "ann@example.com"),
        (Type("string"), "Ann Lee #1 $", "Ann$_Lee$_$b1$_$c"),
        (Type("int"), 0, "a0"),
        (Type("int"), 42, "b42"),
        (Type("int"), -5, "S4"),
        (Type("int"), -(2**63), "A0776627963145224191"),
        (Type("decimal", scale=2), Decimal("123.45"), "c123.45"),
        (Type("decimal", scale=8), Decimal("0.00000001"), "a0.00000001"),
        (Type("decimal", scale=2), Decimal("-0.05"), "S9.94"),
        (Type("bool"), True, "t"),
        (Type("bytes"), b"\x00\xff", "00ff"),
        (Type("date"), date(1, 2, 3), "0001-02-03"),
        (Type("timestamp"), datetime(2026, 11, 5, 9, 30, tzinfo=UTC), "2026-11-05T09:30:00.000Z"),
        (Type("uuid"), UUID(int=255), "00000000-0000-0000-0000-0000000000ff"),
        (Type("string"), "", "!"),
    ],
)
def test_keys_stay_readable_and_stable(type: Type, value: object, text: str) -> None:
    """Stored data depends on these texts: changing one is a migration."""
    assert KeyCodec([KeyPart(type)]).encode([value]) == text


def test_a_key_that_is_too_long_is_refused_with_its_size() -> None:
    codec = KeyCodec([KeyPart(Type("string")), KeyPart(Type("string"))], prefix="USER#", name="user_by_email")
    assert codec.encode(["a" * 509, "b" * 509])
    with pytest.raises(ArgumentError, match=r"user_by_email: .* has 1,025 bytes, and dynamodb takes 1,024; use"):
        codec.encode(["a" * 510, "b" * 509])
    with pytest.raises(ArgumentError, match="1,025 bytes"):
        codec.encode(["é" * 255, "b" * 509])
    with pytest.raises(ArgumentError, match="takes 1,024"):
        codec.bounds(["a" * 1020])


def test_the_greatest_length() -> None:
    codec = KeyCodec([KeyPart(Type("string", size=12, most=40)), KeyPart(Type("timestamp"))], prefix="USER#")
    assert codec.most_bytes == 5 + 80 + 1 + 24
    assert most_part_bytes(KeyPart(ENUM)) == len("a$_b")


@pytest.mark.parametrize("type", [Type("json"), Type("set", of=Type("int")), Type("list", of=Type("int"))])
def test_what_has_no_order_cannot_be_a_key(type: Type) -> None:
    with pytest.raises(UnsupportedError, match="cannot be part of a key"):
        KeyCodec([KeyPart(type)])


def test_begins_with_needs_text() -> None:
    with pytest.raises(UnsupportedError, match="needs a string"):
        KeyCodec([KeyPart(Type("int"))]).bounds(starts="1")


def test_a_key_of_another_prefix_is_not_decoded() -> None:
    with pytest.raises(ValueError, match="does not begin with 'USER#'"):
        KeyCodec([KeyPart(Type("int"))], prefix="USER#").decode("ORDER#a1")


def test_timestamps_order_across_years() -> None:
    codec = KeyCodec([KeyPart(Type("timestamp"))])
    moments = [datetime(999, 12, 31, tzinfo=UTC) + timedelta(days=400 * number) for number in range(20)]
    assert sorted(codec.encode([moment]) for moment in moments) == [codec.encode([moment]) for moment in moments]
