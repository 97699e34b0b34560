"""Values go in and out unchanged, and SQLite orders them as the language does."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyplan.engines.sqlite import sql
from keyplan.engines.sqlite.values import Slot, add_sums, declared, encoder, row_decoder, value_encoder
from keyplan.model.identifiers import ulid_text
from keyplan.model.types import Type
from keyplan.model.values import sort_key, truncate

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
MOMENTS = st.integers(-62135596800000, 253402300799999).map(
    lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + ms * timedelta(milliseconds=1)
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x == 0 or 1e-130 <= abs(x) < 1e125)
SCALARS: dict[str, tuple[Type, st.SearchStrategy[Any]]] = {
    "string": (Type("string"), TEXTS),
    "text": (Type("text"), TEXTS),
    "enum": (Type("enum", values=(("a", 0.5), ("b", 0.5))), st.sampled_from("ab")),
    "bytes": (Type("bytes"), st.binary(max_size=12)),
    "int": (Type("int"), st.integers(-(2**63), 2**63 - 1)),
    "decimal": (
        Type("decimal", scale=2),
        st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    ),
    "float": (Type("float"), FLOATS.map(lambda x: x + 0.0 if x else 0.0)),
    "bool": (Type("bool"), st.booleans()),
    "date": (Type("date"), st.dates()),
    "timestamp": (Type("timestamp"), MOMENTS),
    "uuid": (Type("uuid"), st.uuids()),
    "ulid": (Type("ulid"), st.integers(0, 2**128 - 1).map(ulid_text)),
}
OTHERS: dict[str, tuple[Type, st.SearchStrategy[Any]]] = {
    "json": (
        Type("json"),
        st.recursive(
            TEXTS | st.integers() | st.booleans(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)
        ),
    ),
    **{
        f"set of {name}": (Type("set", of=type), st.frozensets(some, max_size=4))
        for name, (type, some) in SCALARS.items()
    },
    **{
        f"list of {name}": (Type("list", of=type), st.lists(some, max_size=4).map(tuple))
        for name, (type, some) in SCALARS.items()
    },
}
DATABASE = sqlite3.connect(":memory:", isolation_level=None)


def through(type: Type, values: list[Any], order: str = "n") -> list[Any]:
    """The values after a stay in a table of theirs, in the order asked for."""
    DATABASE.execute("DROP TABLE IF EXISTS t")
    DATABASE.execute(f"CREATE TABLE t (n INTEGER PRIMARY KEY, v {declared(type)}) STRICT")
    slot = Slot("v", type)
    encode = encoder([slot])
    DATABASE.executemany("INSERT INTO t (v) VALUES (?)", [encode((value,)) for value in values])
    rows = DATABASE.execute(f"SELECT v FROM t ORDER BY {order}").fetchall()
    return [row["v"] for row in row_decoder("t", [slot])(rows)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*SCALARS, *OTHERS])
@settings(deadline=None)
@given(data=st.data())
def test_values_come_back_as_they_went_in(name: str, data: st.DataObject) -> None:
    type, some = {**SCALARS, **OTHERS}[name]
    values = data.draw(st.lists(some, max_size=5))
    found = through(type, values)
    assert found == values
    assert [value.__class__ for value in found] == [value.__class__ for value in values]
    assert [str(value) for value in found if type.kind == "decimal"] == [
        str(v) for v in values if type.kind == "decimal"
    ]


@pytest.mark.parametrize("name", SCALARS)
@settings(deadline=None)
@given(data=st.data())
def test_values_order_in_sqlite_as_in_the_language(name: str, data: st.DataObject) -> None:
    type, some = SCALARS[name]
    values = data.draw(st.lists(some, max_size=6))
    assert through(type, values, "v, n") == sorted(values, key=sort_key(type))


@pytest.mark.parametrize(("type", "empty"), [(Type("int"), None), (Type("set", of=Type("int")), frozenset())])
def test_missing_is_null_and_an_absent_set_is_empty(type: Type, empty: object) -> None:
    slot = Slot("v", type)
    assert row_decoder("t", [slot])([(None,)]) == [{"v": empty}]
    assert value_encoder(slot)(None) == ("[]" if type.is_collection else None)


def test_a_decoded_uuid_is_like_any_other() -> None:
    made = UUID("12345678-1234-5678-1234-567812345678")
    (found,) = through(Type("uuid"), [made])
    assert (found, hash(found), str(found), found.is_safe, repr(found)) == (
        made,
        hash(made),
        str(made),
        made.is_safe,
        repr(made),
    )


@pytest.mark.parametrize("cut", ["minute", "hour", "day", "week", "month", "year"])
@settings(deadline=None)
@given(moment=MOMENTS)
def test_truncations_of_timestamps_are_exact(cut: str, moment: datetime) -> None:
    wanted = truncate(moment, cut)
    type = Type("timestamp") if cut in ("minute", "hour") else Type("date")
    raw = value_encoder(Slot("", Type("timestamp")))(moment)
    expression = sql.cut_sql("v", "timestamp", cut)
    found = DATABASE.execute(f"SELECT {expression} FROM (SELECT ? AS v)", (raw,)).fetchone()[0]
    assert found == value_encoder(Slot("", type))(wanted)


@pytest.mark.parametrize("cut", ["day", "week", "month", "year"])
@settings(deadline=None)
@given(day=st.dates(min_value=date(1, 1, 8)))
def test_truncations_of_dates_are_exact(cut: str, day: date) -> None:
    encode = value_encoder(Slot("", Type("date")))
    expression = sql.cut_sql("v", "date", cut)
    found = DATABASE.execute(f"SELECT {expression} FROM (SELECT ? AS v)", (encode(day),)).fetchone()[0]
    assert found == encode(truncate(day, cut))


@settings(deadline=None)
@given(TEXTS, st.lists(TEXTS))
def test_the_successor_bounds_exactly_what_starts_so(prefix: str, others: list[str]) -> None:
    above = sql.successor(prefix)
    for other in [*others, *(prefix + other for other in others)]:
        inside = other.encode() >= prefix.encode() and (above is None or other.encode() < above.encode())
        assert inside == other.startswith(prefix)


@settings(deadline=None)
@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30))
def test_kept_sums_are_exact_beyond_64_bits(old: int, more: int) -> None:
    slot = Slot("v", Type("int"), nullable=False, sum=True)
    encode = value_encoder(slot)
    total = add_sums(encode(old), encode(more))
    assert row_decoder("t", [slot])([(total,)]) == [{"v": old + more}]
    assert isinstance(total, int) == (-(2**63) <= old + more < 2**63)
