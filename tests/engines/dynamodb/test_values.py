"""Values come back from DynamoDB JSON as they were, also through real servers, and sizes are those of the server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyplan.engines.dynamodb.keys import KeyCodec, KeyPart
from keyplan.engines.dynamodb.transport import Transport
from keyplan.engines.dynamodb.values import (
    attribute_bytes,
    attribute_decoder,
    attribute_encoder,
    expiry_seconds,
    item_bytes,
    value_bytes,
)
from keyplan.model.types import Type
from tests.engines.dynamodb.conftest import access_to, new_table
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.test_keys import KINDS, TEXTS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
SCALARS = KINDS | {"json": (Type("json"), JSON)}
SETS = {
    f"set of {name}": (Type("set", of=type), st.frozensets(values, max_size=4))
    for name, (type, values) in KINDS.items()
}
LISTS = {
    f"list of {name}": (Type("list", of=type), st.lists(values, max_size=4).map(tuple))
    for name, (type, values) in KINDS.items()
}
ALL: dict[str, tuple[Type, st.SearchStrategy[Any]]] = SCALARS | SETS | LISTS
MANY = st.fixed_dictionaries({name: values for name, (_, values) in ALL.items()})


@settings(max_examples=100)
@given(MANY)
def test_values_come_back(row: dict[str, Any]) -> None:
    for name, value in row.items():
        type = ALL[name][0]
        encoded = attribute_encoder(type)(value)
        assert attribute_decoder(type)(json.loads(json.dumps(encoded))) == value, name


@pytest.mark.parametrize("name", list(ALL))
def test_missing_and_empty_are_no_attribute(name: str) -> None:
    type = ALL[name][0]
    empty: Any = {"set": frozenset(), "list": ()}.get(type.kind)
    assert attribute_encoder(type)(empty) is None
    assert attribute_decoder(type)(None) == empty


@pytest.fixture
def table(server: Server) -> Iterator[tuple[Transport, str]]:
    access = access_to(server.url)
    transport = Transport(access)
    yield transport, new_table(access)
    transport.close()


def test_values_come_back_from_a_server(table: tuple[Transport, str]) -> None:
    transport, name = table
    key = {"PK": {"S": "a"}, "SK": {"S": "b"}}

    @settings(max_examples=30, deadline=None)
    @given(MANY)
    def check(row: dict[str, Any]) -> None:
        item = {each: attribute_encoder(ALL[each][0])(value) for each, value in row.items()}
        stored = {each: value for each, value in item.items() if value is not None}
        transport.send("PutItem", {"TableName": name, "Item": {**key, **stored}})
        found = transport.send("GetItem", {"TableName": name, "Key": key})["Item"]
        for each, value in row.items():
            assert attribute_decoder(ALL[each][0])(found.get(each)) == value, each

    check()


def test_servers_sort_keys_as_we_do(table: tuple[Transport, str]) -> None:
    """Also beyond the basic plane, where UTF-16 and UTF-8 order differ."""
    transport, name = table
    codec = KeyCodec([KeyPart(Type("string"), missing="high"), KeyPart(Type("int"), True)], prefix="X#")
    numbers = itertools.count()

    @settings(max_examples=15, deadline=None)
    @given(st.lists(st.tuples(st.none() | TEXTS, st.integers(-99, 99)), min_size=2, max_size=8, unique=True))
    def check(rows: list[tuple[str | None, int]]) -> None:
        partition = {"S": f"P{next(numbers)}"}
        for row in rows:
            item = {"PK": partition, "SK": {"S": codec.encode(row)}}
            transport.send("PutItem", {"TableName": name, "Item": item})
        question = {
            "TableName": name,
            "KeyConditionExpression": "PK = :p AND SK BETWEEN :low AND :high",
            "ExpressionAttributeValues": {":p": partition},
        }

        def ask(**bounds: Any) -> list[tuple[Any, ...]]:
            found = codec.bounds(**bounds)
            if found is None:
                return []
            values = {":p": partition, ":low": {"S": found.low}, ":high": {"S": found.high}}
            reply = transport.send("Query", {**question, "ExpressionAttributeValues": values})
            return [codec.decode(item["SK"]["S"]) for item in reply["Items"]]

        ordered = sorted(rows, key=lambda row: (row[0] is None, (row[0] or "").encode(), -row[1]))
        assert ask() == ordered
        edge = ordered[len(ordered) // 2]
        assert ask(low=edge) == ordered[len(ordered) // 2 :]
        assert ask(high=edge, high_open=True) == ordered[: len(ordered) // 2]
        assert ask(low=edge[:1], low_open=True, present=True) == [
            row for row in ordered[len(ordered) // 2 :] if row[0] is not None and row[0] != edge[0]
        ]

    check()


SIZED: list[dict[str, Any]] = [
    *({"N": text} for text in ("0", "1", "-1", "12", "100", "12000", "0.05", "1.5", "123.4", "10.01", "1e100")),
    {"N": "-9223372036854775808"},
    {"N": "123456789.123456789"},
    {"S": ""},
    {"S": "é€\U0001f600"},
    {"B": "AAEC"},
    {"B": "AA=="},
    {"BOOL": True},
    {"NULL": True},
    {"L": []},
    {"L": [{"S": "a"}, {"N": "1"}, {"L": [{"BOOL": False}]}]},
    {"M": {}},
    {"M": {"ab": {"S": "c"}}},
    {"SS": ["a", "é"]},
    {"NS": ["1", "22.5"]},
    {"BS": ["AAE=", "AA=="]},
]


@pytest.mark.parametrize("value", SIZED, ids=str)
def test_sizes_are_those_of_the_server(local: Server, value: dict[str, Any]) -> None:
    """An item of exactly 1,024 bytes by our count costs one unit, and a byte more costs two."""
    access = access_to(local.url)
    transport, name = Transport(access), new_table(access)
    item = {"PK": {"S": "p"}, "SK": {"S": "exact"}, "v": value, "pad": {"S": ""}}
    for size, units in ((1024, 1), (1025, 2)):
        item["pad"] = {"S": ""}
        item["SK"] = {"S": f"{size}"}
        item["pad"] = {"S": "x" * (size - item_bytes(item))}
        request = {"TableName": name, "Item": item, "ReturnConsumedCapacity": "TOTAL"}
        assert transport.send("PutItem", request)["ConsumedCapacity"]["CapacityUnits"] == units
    transport.close()


def test_the_size_of_an_attribute_counts_its_name() -> None:
    assert attribute_bytes("naïve", {"S": "abc"}) == 6 + 3
    assert value_bytes({"N": "42"}) == 2


def test_expiry_is_rounded_up() -> None:
    assert expiry_seconds(datetime(2026, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)) == 1767225601
    assert expiry_seconds(datetime(2026, 1, 1, tzinfo=UTC)) == 1767225600


def test_numbers_are_exact() -> None:
    money = Type("decimal", scale=2)
    assert attribute_encoder(money)(Decimal("1234567890123456.70")) == {"N": "1234567890123456.70"}
    assert str(attribute_decoder(money)({"N": "1234567890123456.7"})) == "1234567890123456.70"
    assert attribute_decoder(Type("int"))({"N": "1E+2"}) == 100
    assert attribute_encoder(Type("float"))(-0.0) == {"N": "0.0"}
