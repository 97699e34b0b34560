"""Terraform: the table as HCL, and autoscaling where it is provisioned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from keyplan.engines.dynamodb.capacity import capacities, is_provisioned
from keyplan.engines.dynamodb.emit import definition, expires, purposes, table_name
from keyplan.engines.dynamodb.layout import TTL, layout
from keyplan.engines.dynamodb.limits import PRICES
from keyplan.errors import UnsupportedError
from keyplan.model.model import Model
from keyplan.plan.design import Design

_TABLE = "aws_dynamodb_table.table"


@dataclass(frozen=True)
class Code:
    """An expression of HCL, written as it stands."""

    text: str


@dataclass
class Block:
    """A block of HCL: arguments first, then the blocks inside it."""

    head: str
    arguments: dict[str, Any] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    note: str = ""

    def lines(self, depth: int = 0) -> Iterator[str]:
        pad = "  " * depth
        if self.note:
            yield f"{pad}# {self.note}"
        yield f"{pad}{self.head} {{"
        yield from _arguments(self.arguments, depth + 1)
        for number, block in enumerate(self.blocks):
            if number or self.arguments:
                yield ""
            yield from block.lines(depth + 1)
        yield f"{pad}}}"


def _arguments(arguments: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Arguments with their signs below each other, as `terraform fmt` would have it."""
    pad = "  " * depth
    width = max((len(_name(name)) for name, value in arguments.items() if not isinstance(value, Mapping)), default=0)
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            yield f"{pad}{_name(name)} = {{"
            yield from _arguments(value, depth + 1)
            yield f"{pad}}}"
        else:
            yield f"{pad}{_name(name):{width}} = {_expression(value)}"


def _name(name: str) -> str:
    return name if name.isidentifier() else _text(name)


def _expression(value: Any) -> str:
    if isinstance(value, Code):
        return value.text
    if isinstance(value, list):
        return f"[{', '.join(map(_expression, value))}]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    """A text in quotes, in which nothing is a template."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def terraform(model: Model, design: Design) -> Mapping[str, str]:
    """One file, which is a module of its own or part of one."""
    several = [index.name for index in layout(model, design).indexes if index.native]
    if several:
        raise UnsupportedError(
            f"{model.name}: '{several[0]}' has a key of several attributes, for which the provider's schema as keyplan "
            "knows it has no argument; emit cloudformation or createtable, or design without multi_attribute_keys"
        )
    lines = [f"# The table of the model '{model.name}', designed by keyplan."]
    for block in _blocks(model, design):
        lines += ["", *block.lines()]
    return {f"{table_name(model)}.tf": "\n".join(lines) + "\n"}


def _blocks(model: Model, design: Design) -> Iterator[Block]:
    provider = {"aws": {"source": "hashicorp/aws", "version": ">= 5.0"}}
    yield Block("terraform", {}, [Block("required_providers", provider)])
    naming = {
        "type": Code("string"),
        "default": table_name(model),
        "description": "The name of the table, as it stands in the URL that the store is opened with",
    }
    yield Block('variable "table_name"', naming)
    yield _table(model, design)
    if is_provisioned(design):
        yield from _scaling(model, design)
    yield Block('output "table_arn"', {"value": Code(f"{_TABLE}.arn")})


def _table(model: Model, design: Design) -> Block:
    body = definition(model, design)
    arguments: dict[str, Any] = {
        "name": Code("var.table_name"),
        "billing_mode": body["BillingMode"],
        **_throughput(body),
        **_keys(body),
        "deletion_protection_enabled": body["DeletionProtectionEnabled"],
    }
    table = Block('resource "aws_dynamodb_table" "table"', arguments)
    for one in body["AttributeDefinitions"]:
        table.blocks.append(Block("attribute", {"name": one["AttributeName"], "type": one["AttributeType"]}))
    needed = purposes(design)
    indexes = body.get("GlobalSecondaryIndexes", ())
    for index in indexes:
        projection = index["Projection"]
        inside = {"name": index["IndexName"], **_keys(index), "projection_type": projection["ProjectionType"]}
        if "NonKeyAttributes" in projection:
            inside["non_key_attributes"] = projection["NonKeyAttributes"]
        note = f"for {needed[index['IndexName']]}" if index["IndexName"] in needed else ""
        table.blocks.append(Block("global_secondary_index", {**inside, **_throughput(index)}, note=note))
    for index in body.get("LocalSecondaryIndexes", ()):
        projection = index["Projection"]
        inside = {
            "name": index["IndexName"],
            "range_key": _keys(index)["range_key"],
            "projection_type": projection["ProjectionType"],
        }
        if "NonKeyAttributes" in projection:
            inside["non_key_attributes"] = projection["NonKeyAttributes"]
        note = f"for {needed[index['IndexName']]}" if index["IndexName"] in needed else ""
        table.blocks.append(Block("local_secondary_index", inside, note=note))
    if expires(model, design):
        table.blocks.append(Block("ttl", {"attribute_name": TTL, "enabled": True}))
    table.blocks.append(Block("point_in_time_recovery", {"enabled": True}))
    lifecycle: dict[str, Any] = {"prevent_destroy": True}
    note = ""
    if is_provisioned(design):
        scaled = ["read_capacity", "write_capacity", *(["global_secondary_index"] if indexes else [])]
        lifecycle["ignore_changes"] = Code(f"[{', '.join(scaled)}]")
        note = "Capacity is autoscaling's."
        if indexes:
            note += " Take global_secondary_index out of the list while you change an index."
    table.blocks.append(Block("lifecycle", lifecycle, note=note))
    arguments["tags"] = {one["Key"]: one["Value"] for one in body["Tags"]}
    return table


def _keys(about: Mapping[str, Any]) -> dict[str, str]:
    names = {"HASH": "hash_key", "RANGE": "range_key"}
    return {names[one["KeyType"]]: one["AttributeName"] for one in about["KeySchema"]}


def _throughput(about: Mapping[str, Any]) -> dict[str, int]:
    units = about.get("ProvisionedThroughput")
    if units is None:
        return {}
    return {"read_capacity": units["ReadCapacityUnits"], "write_capacity": units["WriteCapacityUnits"]}


def _scaling(model: Model, design: Design) -> Iterator[Block]:
    """One target and one policy for every capacity of the table and its indexes."""
    scaled: dict[str, Any] = {}
    for structure in (one for one in design.structures if one.kind != "lsi"):
        capacity = capacities(model, design)[structure.name]
        is_index = structure.kind == "gsi"
        place = f"${{{_TABLE}.name}}" + (f"/index/{structure.name}" if is_index else "")
        for what, units in (("Read", capacity.read), ("Write", capacity.write)):
            scaled[f"{structure.name if is_index else 'table'}_{what.lower()}"] = {
                "resource_id": Code(f'"table/{place}"'),
                "dimension": f"dynamodb:{'index' if is_index else 'table'}:{what}CapacityUnits",
                "metric": f"DynamoDB{what}CapacityUtilization",
                "min": units.least,
                "max": units.most,
            }
    yield Block("locals", {"scaled": scaled})
    each = {"for_each": Code("local.scaled"), "service_namespace": "dynamodb"}
    target = {
        **each,
        "resource_id": Code("each.value.resource_id"),
        "scalable_dimension": Code("each.value.dimension"),
        "min_capacity": Code("each.value.min"),
        "max_capacity": Code("each.value.max"),
    }
    yield Block('resource "aws_appautoscaling_target" "capacity"', target)
    at = "aws_appautoscaling_target.capacity[each.key]"
    policy = {
        "for_each": Code("local.scaled"),
        "name": Code("each.key"),
        "policy_type": "TargetTrackingScaling",
        "service_namespace": Code(f"{at}.service_namespace"),
        "resource_id": Code(f"{at}.resource_id"),
        "scalable_dimension": Code(f"{at}.scalable_dimension"),
    }
    metric = Block("predefined_metric_specification", {"predefined_metric_type": Code("each.value.metric")})
    wanted = {"target_value": round(PRICES.autoscaling_target * 100)}
    tracking = Block("target_tracking_scaling_policy_configuration", wanted, [metric])
    yield Block('resource "aws_appautoscaling_policy" "capacity"', policy, [tracking])
