"""Every value comes back as it was, and BSON orders keys as the language orders values: seen on the server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyplan.engines.mongodb.transport import Link, pymongo
from keyplan.engines.mongodb.values import (
    ID,
    Slot,
    fields_encoder,
    id_encoder,
    key_decoder,
    rows_decoder,
    split,
    sum_fields,
)
from keyplan.model.types import Type
from keyplan.model.values import sort_key
from tests.engines.harness import Harness

MOMENTS = st.integers(-62_135_596_800_000, 253_402_300_799_999).map(
    lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8)
FLOATS = st.one_of(st.just(0.0), st.floats(1e-130, 1e124, allow_nan=False), st.floats(-1e124, -1e-130, allow_nan=False))
KINDS: dict[str, tuple[Type, st.SearchStrategy[Any]]] = {
    "string": (Type("string"), TEXTS),
    "bytes": (Type("bytes"), st.binary(max_size=6)),
    "int": (Type("int"), st.integers(-(2**63), 2**63 - 1)),
    "decimal": (Type("decimal", scale=2), st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-2))),
    "float": (Type("float"), FLOATS),
    "bool": (Type("bool"), st.booleans()),
    "date": (Type("date"), st.dates(date(1, 1, 1), date(9999, 12, 31))),
    "timestamp": (Type("timestamp"), MOMENTS),
    "uuid": (Type("uuid"), st.integers(0, 2**128 - 1).map(lambda n: UUID(int=n))),
}


@pytest.fixture(scope="module")
def link(mongodb: Harness) -> Iterator[Link]:
    found = Link(mongodb.url(), pymongo.MongoClient)
    yield found
    found.client.close()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_keys_come_back_in_order(link: Link, kind: str, data: st.DataObject) -> None:
    type, values = KINDS[kind]
    found = data.draw(st.lists(values, min_size=2, max_size=30, unique_by=lambda value: value))
    collection = link.writing(f"keys_{kind}")
    for parts in ((Slot("v", ID, type),), (Slot("v", f"{ID}.v", type), Slot("n", f"{ID}.n", Type("int")))):
        collection.delete_many({})
        encode, decode = id_encoder(parts), key_decoder(parts)
        collection.insert_many([{ID: encode((value, 1))} for value in found])
        back = [decode(document)[0] for document in collection.find().sort(ID, 1)]
        assert back == sorted(found, key=sort_key(type))
        assert [value.__class__ for value in back] == [found[0].__class__] * len(back)


COLLECTIONS = {
    "set": (Type("set", of=Type("uuid")), frozenset({UUID(int=2), UUID(int=1)}), frozenset()),
    "list": (Type("list", of=Type("decimal", scale=1)), (Decimal("2.0"), Decimal("-1.5")), ()),
    "dates": (Type("list", of=Type("date")), (date(2052, 5, 1),), ()),
    "blobs": (Type("set", of=Type("bytes")), frozenset({b"\0", b""}), frozenset()),
}


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_collections_come_back(link: Link, kind: str) -> None:
    type, value, empty = COLLECTIONS[kind]
    slot = Slot("v", "v", type)
    encode, decode = fields_encoder([slot]), rows_decoder("t", [slot], {})
    collection = link.writing("collections")
    for given_value in (value, empty):
        collection.replace_one({ID: kind}, encode({"v": given_value}), upsert=True)
        assert decode([collection.find_one({ID: kind})]) == [{"v": given_value}]
    assert decode([{ID: kind}]) == [{"v": empty}]


def exact(number: int, scale: int) -> Decimal:
    """The number with its last digits behind the point, whatever the precision of the context."""
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))


@given(st.integers(-(10**60), 10**60), st.integers(0, 18))
def test_sums_are_split_without_loss(number: int, scale: int) -> None:
    slot = Slot("s", "s", Type("decimal", scale=scale), sum=True, high="s_high")
    amount = exact(number, scale)
    high, low = split(slot, amount)
    assert int(high) * 10**22 + int(low.scaleb(scale)) == number
    assert ("s_high" in sum_fields(slot, amount)) == (abs(number) >= 10**22)


def test_sums_beyond_34_digits_are_exact(link: Link) -> None:
    slot = Slot("s", "s", Type("decimal", scale=2), sum=True, high="s_high")
    decode = rows_decoder("t", [slot], {})
    collection = link.writing("sums")
    amounts = [10**37 + 1, 7, -(10**36), 10**21 - 1, -(10**37), 3 * 10**35 + 5] * 20
    for number in amounts:
        collection.update_one({ID: 1}, {"$inc": sum_fields(slot, exact(number, 2))}, upsert=True)
    (row,) = decode(collection.find())
    assert row["s"] == exact(sum(amounts), 2)


def test_floats_keep_their_sign_and_size(link: Link) -> None:
    collection = link.writing("floats")
    collection.insert_one({ID: 1, "v": [1e-130, -1e124, 0.1 + 0.2, 5e-100]})
    assert collection.find_one()["v"] == [1e-130, -1e124, 0.1 + 0.2, 5e-100]
    assert not math.isnan(collection.find_one()["v"][0])
