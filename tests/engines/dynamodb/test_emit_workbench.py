"""NoSQL Workbench: what is emitted can be read again, its items are those a store writes, and nothing gets lost."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyplan
from keyplan.data.dataset import NOW
from keyplan.engines.dynamodb.emit import emit
from keyplan.engines.dynamodb.layout import layout
from keyplan.engines.dynamodb.sample import sample_counts, sample_items, sample_rows
from keyplan.engines.dynamodb.transport import Transport
from keyplan.engines.dynamodb.workbench_import import TYPES, read_workbench, write_workbench
from keyplan.errors import ArgumentError
from tests.engines.dynamodb.conftest import access_to
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.test_emit import CASES, created, designed

THEIRS: dict[str, Any] = {
    "ModelName": "Library",
    "ModelMetadata": {"Author": "somebody", "DateCreated": "Mar 01, 2021, 10:00 AM", "Version": "1.0"},
    "DataModel": [
        {
            "TableName": "Books",
            "KeyAttributes": {
                "PartitionKey": {"AttributeName": "isbn", "AttributeType": "S"},
                "SortKey": {"AttributeName": "copy", "AttributeType": "N"},
            },
            "NonKeyAttributes": [{"AttributeName": "shelf", "AttributeType": "M"}],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "by-shelf",
                    "KeyAttributes": {"PartitionKey": {"AttributeName": "shelf-name", "AttributeType": "S"}},
                    "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["copy"]},
                }
            ],
            "TableData": [
                {"isbn": {"S": "3"}, "copy": {"N": "1"}, "shelf": {"M": {"row": {"N": "4"}}}},
                {"isbn": {"S": "3"}, "copy": {"N": "2"}},
            ],
            "DataAccess": {"MySql": {}},
        },
        {
            "TableName": "Readers",
            "KeyAttributes": {"PartitionKey": {"AttributeName": "id", "AttributeType": "S"}},
            "TableFacets": [
                {
                    "FacetName": "Person",
                    "KeyAttributeAlias": {"PartitionKeyAlias": "person"},
                    "NonKeyAttributes": [],
                    "TableData": [{"id": {"S": "1"}}],
                    "DataAccess": {"MySql": {}},
                },
                {"FacetName": "Bare"},
            ],
            "BillingMode": "PROVISIONED",
            "ProvisionedCapacitySettings": {"ProvisionedThroughput": {"ReadCapacityUnits": 5}},
        },
    ],
}
"""The shapes that files of several years have, small."""


@CASES
def test_what_is_emitted_reads_as_the_table_that_is_created(name: str, billing: str) -> None:
    model, design = designed(name, billing)
    (text,) = emit(model, design, "workbench").values()
    assert json.loads(write_workbench(read_workbench(text))) == json.loads(text)
    found = read_workbench(text)
    assert (found.name, found.version) == (model.name, "3.0")
    assert found.metadata["AWSService"] == "Amazon DynamoDB"
    assert re.fullmatch(r"[A-Z][a-z]{2} \d\d, \d{4}, \d\d:\d\d [AP]M", found.metadata["DateCreated"])
    (table,) = found.tables
    body = created(name, billing)["CreateTable"]
    assert (table.name, table.billing) == (body["TableName"], body["BillingMode"])
    assert (table.capacity is not None) == (billing == "provisioned")
    assert [table.key.partition.name, table.key.sort and table.key.sort.name] == ["PK", "SK"]
    assert [
        (one.name, one.projection, one.included, one.key.partition.name, one.key.sort and one.key.sort.name)
        for one in table.indexes or ()
    ] == [
        (
            one["IndexName"],
            one["Projection"]["ProjectionType"],
            one["Projection"].get("NonKeyAttributes"),
            *(key["AttributeName"] for key in one["KeySchema"]),
        )
        for one in body.get("GlobalSecondaryIndexes", ())
    ]


@CASES
def test_every_view_is_a_facet_with_its_items(name: str, billing: str) -> None:
    model, design = designed(name, billing)
    places = layout(model, design)
    samples = sample_items(model, places)
    (text,) = emit(model, design, "workbench").values()
    (table,) = read_workbench(text).tables
    assert table.items is None  # with facets, the items are in them
    assert {one.name: one.items for one in table.facets or ()} == {
        ".".join((view, *at)): items for (view, at), items in samples.items()
    }
    known = {one.name for one in table.attributes or ()}
    keys = [(item["PK"]["S"], item["SK"]["S"]) for item in table.all_items]
    assert len(keys) == len(set(keys)) > 0
    for facet in table.facets or ():
        partition, sort = facet.partition_alias, facet.sort_alias
        assert partition is not None and sort is not None  # noqa: PT018
        assert set(facet.attributes or ()) <= known
        for item in facet.items or ():
            assert item.keys() - {"PK", "SK"} <= set(facet.attributes or ())
            assert item["PK"]["S"].startswith(partition.partition("{")[0])
            assert item["SK"]["S"].startswith(sort.partition("{")[0])


@pytest.mark.parametrize("name", ["shop", "hotel", "flash_sale", "blog", "social", "online_shop", "messaging"])
def test_sample_items_are_those_that_a_store_writes(dynoxide: Server, name: str) -> None:
    model, design = designed(name, "on_demand")
    url = f"dynamodb://sample-{name}?region=us-east-1&endpoint={dynoxide.url}"
    keyplan.apply(model, url, design=design)
    rows = list(keyplan.generate(model, counts=sample_counts(model)))
    with keyplan.open(model, url, design=design, clock=lambda: NOW) as store:
        store.load(rows)
    transport = Transport(access_to(dynoxide.url))
    found = transport.send("Scan", {"TableName": f"sample-{name}"})["Items"]
    transport.close()
    wanted = [item for items in sample_items(model, layout(model, design)).values() for item in items]
    assert by_key(wanted) == by_key([item for item in found if item["PK"]["S"] != "KEYPLAN"])


def by_key(items: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Items by their keys, numbers in one form."""

    def plain(value: dict[str, Any]) -> Any:
        ((kind, inner),) = value.items()
        if kind == "N":
            return kind, float(inner)
        return kind, sorted(inner) if kind in ("SS", "NS", "BS") else inner

    return {(item["PK"]["S"], item["SK"]["S"]): {name: plain(value) for name, value in item.items()} for item in items}


def test_rows_that_have_expired_are_no_sample() -> None:
    model, _ = designed("sessions", "on_demand")
    rows = sample_rows(model).rows
    assert all(row["$expires"] > NOW for row in rows["Session"].values())
    assert rows["Session"]


# Reading what others wrote


def test_files_of_other_tools_are_read() -> None:
    found = read_workbench(json.dumps(THEIRS))
    books, readers = found.tables
    assert found.version == "1.0"
    assert (books.key.partition.name, books.key.sort and books.key.sort.type) == ("isbn", "N")
    assert [(one.name, one.projection, one.included, one.key.sort) for one in books.indexes or ()] == [
        ("by-shelf", "INCLUDE", ["copy"], None)
    ]
    assert len(books.all_items) == 2
    assert readers.key.sort is None
    assert [(one.name, one.partition_alias, one.sort_alias) for one in readers.facets or ()] == [
        ("Person", "person", None),
        ("Bare", None, None),
    ]
    assert len(readers.all_items) == 1
    assert json.loads(write_workbench(found)) == THEIRS


def objects(value: Any) -> list[dict[str, Any]]:
    """All objects that are not items or values in items."""
    if isinstance(value, list):
        return [found for one in value for found in objects(one)]
    if not isinstance(value, dict):
        return []
    inner = [found for key, one in value.items() if key != "TableData" for found in objects(one)]
    return [value, *inner]


@given(st.data())
def test_unknown_keys_survive_wherever_they_are(data: st.DataObject) -> None:
    theirs = copy.deepcopy(THEIRS)
    places = objects(theirs)
    values = st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner), max_leaves=3)
    for number in data.draw(st.lists(st.integers(0, len(places) - 1), max_size=5)):
        places[number][f"New{data.draw(st.integers(0, 3))}"] = data.draw(values)
    assert json.loads(write_workbench(read_workbench(json.dumps(theirs)))) == theirs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "workbench: this is not JSON: "),
        ("[" * 100_000, "workbench: "),
        ("[]", "workbench: expected an object, got a list"),
        ("{}", "workbench: 'ModelName' is missing; this is not a model of NoSQL Workbench"),
        ('{"ModelName": 1}', "workbench.ModelName: expected a text, got '1'"),
        ('{"ModelName": "x", "ModelMetadata": {}, "DataModel": {}}', "workbench.DataModel: expected a list"),
        (
            '{"ModelName": "x", "ModelMetadata": {}, "DataModel": [{"TableName": "t", "KeyAttributes": '
            '{"PartitionKey": {"AttributeName": "a", "AttributeType": "X"}}}]}',
            "workbench.DataModel[0].KeyAttributes.PartitionKey.AttributeType: 'X' is not known; there are B, ",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}"):
        read_workbench(text)


@pytest.mark.parametrize("value", ["text", {}, {"S": "x", "N": "1"}, {"X": 1}, None])
def test_items_are_in_the_json_of_dynamodb(value: Any) -> None:
    theirs = copy.deepcopy(THEIRS)
    theirs["DataModel"][0]["TableData"][1]["isbn"] = value
    with pytest.raises(ArgumentError, match=re.escape("workbench.DataModel[0].TableData[1].isbn: expected a value")):
        read_workbench(json.dumps(theirs))


def test_all_types_of_attributes_are_known() -> None:
    (text,) = emit(*designed("little", "on_demand"), "workbench").values()
    (table,) = read_workbench(text).tables
    kinds = {one.name: one.type for one in table.attributes or ()}
    assert set(kinds.values()) <= TYPES
    for item in table.all_items:
        for name, value in item.items():
            if name not in ("PK", "SK"):
                assert next(iter(value)) == kinds[name], name
