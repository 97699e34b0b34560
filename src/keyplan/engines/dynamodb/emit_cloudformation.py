"""A CloudFormation template: the table, and autoscaling where it is provisioned."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from keyplan.engines.dynamodb.capacity import Capacity, Range, capacities, is_provisioned
from keyplan.engines.dynamodb.emit import definition, expires, purposes, table_name
from keyplan.engines.dynamodb.layout import TTL
from keyplan.engines.dynamodb.limits import PRICES
from keyplan.model.model import Model
from keyplan.plan.design import Design

_PLAIN = re.compile(r"[A-Za-z]([A-Za-z0-9_./:-]*[A-Za-z0-9])?")
_WORDS_OF_YAML = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def cloudformation(model: Model, design: Design) -> Mapping[str, str]:
    """One template in YAML; it can be deployed as it is."""
    head = f"# The table of the model '{model.name}', designed by keyplan.\n"
    return {f"{table_name(model)}.cloudformation.yaml": head + "\n".join(_yaml(template(model, design), 0)) + "\n"}


def template(model: Model, design: Design) -> dict[str, Any]:
    """The template as data."""
    properties = definition(model, design)
    properties["TableName"] = {"Ref": "TableName"}
    tags = properties.pop("Tags")
    if expires(model, design):
        properties["TimeToLiveSpecification"] = {"AttributeName": TTL, "Enabled": True}
    properties["PointInTimeRecoverySpecification"] = {"PointInTimeRecoveryEnabled": True}
    properties["Tags"] = tags
    table: dict[str, Any] = {"Type": "AWS::DynamoDB::Table"}
    needed = purposes(design)
    if needed:
        table["Metadata"] = {"keyplan": {f"{index} is for": why for index, why in needed.items()}}
    # Rows outlive a stack that is deleted by mistake, and a table that CloudFormation would replace.
    table |= {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain", "Properties": properties}
    resources: dict[str, Any] = {"Table": table}
    if is_provisioned(design):
        # A local index has the capacity of its table.
        for structure in (one for one in design.structures if one.kind != "lsi"):
            capacity = capacities(model, design)[structure.name]
            index = structure.name if structure.kind == "gsi" else None
            resources |= dict(_scaling(index, capacity))
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"The table of the model {model.name}, designed by keyplan",
        "Parameters": {
            "TableName": {
                "Type": "String",
                "Default": table_name(model),
                "AllowedPattern": "[a-zA-Z0-9_.-]{3,255}",
                "Description": "The name of the table, as it stands in the URL that the store is opened with",
            }
        },
        "Resources": resources,
        "Outputs": {
            "TableName": {"Value": {"Ref": "Table"}},
            "TableArn": {"Value": {"Fn::GetAtt": ["Table", "Arn"]}},
        },
    }


def _scaling(index: str | None, capacity: Capacity) -> Iterator[tuple[str, dict[str, Any]]]:
    for what, units in (("Read", capacity.read), ("Write", capacity.write)):
        name = f"{index or 'Table'}{what}"
        yield f"{name}Target", _target(index, what, units)
        tracking = {
            "PredefinedMetricSpecification": {"PredefinedMetricType": f"DynamoDB{what}CapacityUtilization"},
            "TargetValue": round(PRICES.autoscaling_target * 100),
        }
        policy = {
            "PolicyName": name,
            "PolicyType": "TargetTrackingScaling",
            "ScalingTargetId": {"Ref": f"{name}Target"},
            "TargetTrackingScalingPolicyConfiguration": tracking,
        }
        yield f"{name}Policy", {"Type": "AWS::ApplicationAutoScaling::ScalingPolicy", "Properties": policy}


def _target(index: str | None, what: str, units: Range) -> dict[str, Any]:
    resource = f"table/${{Table}}/index/{index}" if index else "table/${Table}"
    properties = {
        "ServiceNamespace": "dynamodb",
        "ResourceId": {"Fn::Sub": resource},
        "ScalableDimension": f"dynamodb:{'index' if index else 'table'}:{what}CapacityUnits",
        "MinCapacity": units.least,
        "MaxCapacity": units.most,
    }
    return {"Type": "AWS::ApplicationAutoScaling::ScalableTarget", "Properties": properties}


def _yaml(value: Any, depth: int) -> Iterator[str]:
    """Data as YAML in block style; whatever might be read as something else is quoted as in JSON."""
    pad = "  " * depth
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, Mapping | list) and inner:
                yield f"{pad}{_scalar(key)}:"
                yield from _yaml(inner, depth + 1)
            else:
                yield f"{pad}{_scalar(key)}: {_scalar(inner)}"
        return
    for inner in value:
        if isinstance(inner, Mapping | list) and inner:
            first, *rest = _yaml(inner, depth + 1)
            yield f"{pad}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{pad}- {_scalar(inner)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML:
        return value
    return json.dumps(value, ensure_ascii=False)
