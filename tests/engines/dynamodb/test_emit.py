"""The files for AWS's tools, held against AWS's own schemas and against servers that make tables of them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import hcl2
import pytest
import yaml
from botocore.session import Session
from botocore.validate import ParamValidator
from cfnlint.api import lint

import keyplan
from keyplan.engines.dynamodb.capacity import capacities
from keyplan.engines.dynamodb.emit import emit
from keyplan.engines.dynamodb.emit_cloudformation import template
from keyplan.engines.dynamodb.emit_terraform import Block
from keyplan.engines.dynamodb.layout import layout
from keyplan.engines.dynamodb.transport import Transport
from keyplan.errors import UnsupportedError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.plan.design import Design
from tests.engines.dynamodb.conftest import access_to
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import ALL as VIEWS
from tests.engines.dynamodb.support import design_of, little_model, rooms
from tests.examples_data import designs as examples

EXAMPLES = ("shop", "hotel", "sessions", "sensors", "flash_sale")
BILLINGS = ("on_demand", "provisioned")
TINY = """
keyplan: 1
name: x
entities:
  Thing: { count: 10, fields: { thing_id: "int, key" } }
patterns:
  thing: { find: Thing, where: "thing_id = :thing_id", rate: 1/s }
"""


@cache
def model_of(name: str) -> Model:
    if name == "little":
        return little_model()
    if name == "rooms":
        return rooms()  # with local indexes
    return parse_model(TINY) if name == "tiny" else examples.example(name)


@cache
def design_for(name: str) -> Design:
    if name == "little":
        return design_of(model_of(name), VIEWS)
    return examples.designed(name, "dynamodb") if name in EXAMPLES else keyplan.design(model_of(name), "dynamodb")


def designed(name: str, billing: str) -> tuple[Model, Design]:
    """A model with its design, paid for in one of the two ways."""
    design = design_for(name)
    return model_of(name), replace(design, settings={**design.settings, "billing": billing})


CASES = pytest.mark.parametrize(
    ("name", "billing"), [(name, billing) for name in ("tiny", "little", "rooms", *EXAMPLES) for billing in BILLINGS]
)


def created(name: str, billing: str) -> dict[str, dict[str, Any]]:
    """The bodies of the calls that make a table, by their operations."""
    files = emit(*designed(name, billing), "createtable")
    operations = {
        "create-table": "CreateTable",
        "update-time-to-live": "UpdateTimeToLive",
        "update-continuous-backups": "UpdateContinuousBackups",
    }
    return {operations[file.split(".")[1]]: json.loads(text) for file, text in files.items()}


# CreateTable


@CASES
def test_calls_fit_the_service_model(name: str, billing: str) -> None:
    service = Session().get_service_model("dynamodb")
    for operation, body in created(name, billing).items():
        report = ParamValidator().validate(body, service.operation_model(operation).input_shape)
        assert not report.has_errors(), report.generate_report()
    body["PointInTimeRecoverySpecification"] = {"Enabled": True}
    assert ParamValidator().validate(body, service.operation_model(operation).input_shape).has_errors()


@CASES
def test_expiry_is_switched_on_where_rows_expire(name: str, billing: str) -> None:
    expires = any(entity.ttl for entity in model_of(name).entities.values())
    assert ("UpdateTimeToLive" in created(name, billing)) == expires
    for to in ("cloudformation", "terraform"):
        (text,) = emit(*designed(name, billing), to).values()
        assert ("TimeToLiveSpecification" in text or "attribute_name = " in text) == expires


@pytest.mark.parametrize("billing", BILLINGS)
@pytest.mark.parametrize("name", ["little", "rooms", "shop", "sensors"])
def test_a_server_makes_the_table(server: Server, name: str, billing: str) -> None:
    """What DescribeTable says is what was asked for, and `apply` finds nothing missing but the record."""
    model, design = designed(name, billing)
    table = f"made-{name}-{billing}"
    transport = Transport(access_to(server.url))
    try:
        for operation, body in created(name, billing).items():
            if operation != "UpdateContinuousBackups":  # neither server has backups
                transport.send(operation, {**body, "TableName": table})
        found = transport.send("DescribeTable", {"TableName": table})["Table"]
        wanted = created(name, billing)["CreateTable"]
        assert plain(found, billing) == plain(wanted, billing)
        url = f"dynamodb://{table}?region=us-east-1&endpoint={server.url}"
        assert keyplan.apply(model, url, design=design) == ["record the design in the partition KEYPLAN"]
        assert keyplan.apply(model, url, design=design) == []
    finally:
        transport.close()


def plain(table: dict[str, Any], billing: str) -> dict[str, Any]:
    """What matters of a table, whoever describes it."""

    def units(about: dict[str, Any]) -> tuple[int, int] | None:
        given = about.get("ProvisionedThroughput", {})
        return (given["ReadCapacityUnits"], given["WriteCapacityUnits"]) if billing == "provisioned" else None

    def key(about: dict[str, Any]) -> dict[str, str]:
        return {one["KeyType"]: one["AttributeName"] for one in about["KeySchema"]}

    return {
        "types": {one["AttributeName"]: one["AttributeType"] for one in table["AttributeDefinitions"]},
        "key": key(table),
        "units": units(table),
        "indexes": {
            one["IndexName"]: (
                key(one),
                one["Projection"]["ProjectionType"],
                sorted(one["Projection"].get("NonKeyAttributes", ())),
                units(one),
            )
            for one in table.get("GlobalSecondaryIndexes", ())
        },
        "local indexes": {
            one["IndexName"]: (
                key(one),
                one["Projection"]["ProjectionType"],
                sorted(one["Projection"].get("NonKeyAttributes", ())),
            )
            for one in table.get("LocalSecondaryIndexes") or ()
        },
    }


# CloudFormation


@pytest.mark.parametrize("billing", BILLINGS)
@pytest.mark.parametrize("name", ["tiny", "little", "rooms", "shop"])
def test_the_template_passes_the_linter(name: str, billing: str) -> None:
    (text,) = emit(*designed(name, billing), "cloudformation").values()
    assert lint(text) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("KeyType: RANGE", "KeyType: SORT"),
        ("BillingMode: PROVISIONED", "BillingMode: FREE"),
        ("MinCapacity: ", "Min: "),
    ],
)
def test_the_linter_sees_mistakes(right: str, wrong: str) -> None:
    (text,) = emit(*designed("shop", "provisioned"), "cloudformation").values()
    assert right in text
    assert lint(text.replace(right, wrong))


@CASES
def test_the_template_is_the_table_that_is_created(name: str, billing: str) -> None:
    model, design = designed(name, billing)
    (text,) = emit(model, design, "cloudformation").values()
    read = yaml.safe_load(text)
    assert read == template(model, design)
    table = read["Resources"]["Table"]
    assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Retain", "Retain")
    body = created(name, billing)["CreateTable"]
    properties = table["Properties"]
    assert {key: properties[key] for key in body if key != "TableName"} == {
        key: value for key, value in body.items() if key != "TableName"
    }
    assert read["Parameters"]["TableName"]["Default"] == body["TableName"]
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["DeletionProtectionEnabled"] is True


@CASES
def test_provisioned_tables_and_indexes_scale(name: str, billing: str) -> None:
    model, design = designed(name, billing)
    resources = template(model, design)["Resources"]
    targets = [one for one in resources.values() if one["Type"].endswith("ScalableTarget")]
    policies = [one["Properties"] for one in resources.values() if one["Type"].endswith("ScalingPolicy")]
    own = [one for one in design.structures if one.kind != "lsi"]  # a local index has the capacity of its table
    scaled = len(own) * 2 if billing == "provisioned" else 0
    assert (len(targets), len(policies)) == (scaled, scaled)
    assert {one["ScalingTargetId"]["Ref"] for one in policies} <= set(resources)
    for target in targets:
        assert 1 <= target["Properties"]["MinCapacity"] <= target["Properties"]["MaxCapacity"]


def test_capacity_is_that_of_the_load() -> None:
    """7 reads of half a unit and 7 writes of one unit a second, each with the 70 % that autoscaling aims at."""
    model = parse_model(
        """
keyplan: 1
name: load
entities:
  Order: { count: 1k, fields: { order_id: "ulid, key" } }
patterns:
  order: { find: Order, where: "order_id = :order_id", rate: 7/s }
writes:
  place: { create: Order, rate: 7/s, peak: 4x 2h/day }
"""
    )
    (found,) = capacities(model, keyplan.design(model, "dynamodb")).values()
    assert (found.read.least, found.read.start, found.read.most) == (5, 5, 10)
    # A peak of 28/s for 2 h leaves 5.09/s for the other 22.
    assert (found.write.least, found.write.start, found.write.most) == (8, 10, 40)


# Terraform


@CASES
def test_terraform_is_the_table_that_is_created(name: str, billing: str) -> None:
    (text,) = emit(*designed(name, billing), "terraform").values()
    read = bare(hcl2.loads(text))
    body = created(name, billing)["CreateTable"]
    table = resource(read, "aws_dynamodb_table", "table")
    assert table["name"] == "${var.table_name}"
    assert read["variable"][0]["table_name"]["default"] == body["TableName"]
    assert table["billing_mode"] == body["BillingMode"]
    assert table["tags"] == {one["Key"]: one["Value"] for one in body["Tags"]}
    assert table["point_in_time_recovery"] == [{"enabled": True}]
    assert table["lifecycle"][0]["prevent_destroy"] is True
    assert table["deletion_protection_enabled"] is True
    described = {
        "AttributeDefinitions": [
            {"AttributeName": one["name"], "AttributeType": one["type"]} for one in table["attribute"]
        ],
        **keys_and_units(table),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": one["name"],
                **keys_and_units(one),
                "Projection": {
                    "ProjectionType": one["projection_type"],
                    "NonKeyAttributes": one.get("non_key_attributes", []),
                },
            }
            for one in table.get("global_secondary_index", ())
        ],
        "LocalSecondaryIndexes": [
            {
                "IndexName": one["name"],
                "KeySchema": [
                    {"AttributeName": table["hash_key"], "KeyType": "HASH"},
                    {"AttributeName": one["range_key"], "KeyType": "RANGE"},
                ],
                "Projection": {
                    "ProjectionType": one["projection_type"],
                    "NonKeyAttributes": one.get("non_key_attributes", []),
                },
            }
            for one in table.get("local_secondary_index", ())
        ],
    }
    assert plain(described, billing) == plain(body, billing)


@CASES
def test_terraform_scales_as_the_template_does(name: str, billing: str) -> None:
    model, design = designed(name, billing)
    (text,) = emit(model, design, "terraform").values()
    read = bare(hcl2.loads(text))
    if billing == "on_demand":
        assert "locals" not in read
        assert "aws_appautoscaling" not in text
        return
    resources = template(model, design)["Resources"]
    targets = [one["Properties"] for one in resources.values() if one["Type"].endswith("ScalableTarget")]
    wanted = sorted(
        (
            one["ScalableDimension"],
            one["ResourceId"]["Fn::Sub"].replace("${Table}", "T"),
            one["MinCapacity"],
            one["MaxCapacity"],
        )
        for one in targets
    )
    found = sorted(
        (one["dimension"], one["resource_id"].replace("${aws_dynamodb_table.table.name}", "T"), one["min"], one["max"])
        for one in read["locals"][0]["scaled"].values()
    )
    assert found == wanted
    assert resource(read, "aws_appautoscaling_target", "capacity")["for_each"] == "${local.scaled}"
    policy = resource(read, "aws_appautoscaling_policy", "capacity")
    assert policy["target_tracking_scaling_policy_configuration"][0]["target_value"] == 70


def bare(value: Any) -> Any:
    """What the parser gives, without its quotes and marks."""
    if isinstance(value, dict):
        return {bare(key): bare(inner) for key, inner in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [bare(one) for one in value]
    return json.loads(value) if isinstance(value, str) and value.startswith('"') else value


def resource(read: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    (found,) = [one[kind][name] for one in read["resource"] if kind in one]
    return found


def keys_and_units(about: dict[str, Any]) -> dict[str, Any]:
    return {
        "KeySchema": [
            {"KeyType": "HASH", "AttributeName": about["hash_key"]},
            {"KeyType": "RANGE", "AttributeName": about["range_key"]},
        ],
        "ProvisionedThroughput": {
            "ReadCapacityUnits": about.get("read_capacity"),
            "WriteCapacityUnits": about.get("write_capacity"),
        },
    }


def test_texts_that_look_like_templates_are_quoted() -> None:
    (_, line, _) = Block("a", {"b": 'sum(${x} %{y} "z")'}).lines()
    assert line == '  b = "sum($${x} %%{y} \\"z\\")"'


# All formats


@pytest.mark.parametrize("to", ["cloudformation", "terraform", "createtable", "workbench"])
def test_the_same_design_is_the_same_text(to: str) -> None:
    model, design = designed("shop", "provisioned")
    assert emit(model, design, to) == emit(model, design, to)
    assert all(text.endswith("\n") for text in emit(model, design, to).values())


def test_a_name_too_short_for_dynamodb_is_made_longer() -> None:
    assert created("tiny", "on_demand")["CreateTable"]["TableName"] == "keyplan-x"


def test_unknown_formats_are_answered_with_the_known_ones() -> None:
    with pytest.raises(UnsupportedError, match="no format 'terrafrom'; did you mean 'terraform'"):
        emit(*designed("tiny", "on_demand"), "terrafrom")


def test_access_patterns_have_operation_key_condition_and_index() -> None:
    model, design = designed("shop", "on_demand")
    (text,) = keyplan.emit(model, design, "patterns").values()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n\n")[1].splitlines()]
    assert rows[0][:4] == ["pattern", "operation", "key condition", "index"]
    found = {row[0]: row[1:4] for row in rows[2:] if row[0]}
    assert found.keys() == model.patterns.keys()
    assert found["product"] == ["GetItem", "`PK = PRODUCT#{sku} and SK = PRODUCT`", "table"]
    assert found["orders_of_user"] == [
        "Query",
        "`PK = USER#{user_id} and SK between ORDER#{start} and ORDER#{end}, backwards`",
        "table",
    ]
    by_status = found["orders_by_status"]
    indexes = {structure.name for structure in design.structures if structure.kind == "gsi"}
    assert by_status[2] in indexes
    assert by_status[1] == f"`{by_status[2]}PK = ORDER.STATUS#{{status}} and begins_with({by_status[2]}SK, ORDER#)`"
    places = layout(model, design).places.values()
    prefixes = {place.partition.prefix for place in places}
    for row in rows[2:]:
        assert any(f"PK = {prefix}" in row[2] for prefix in prefixes), row
