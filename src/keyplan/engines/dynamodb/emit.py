"""Designs as files for AWS's tools: CloudFormation, Terraform, the AWS command line and NoSQL Workbench.

All of them describe the table that `apply` would make; an empty table that was made by one of them is as good.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from keyplan.engines.dynamodb.capacity import Capacity, capacities, is_provisioned
from keyplan.engines.dynamodb.changes import table_definition
from keyplan.engines.dynamodb.layout import TTL, layout
from keyplan.errors import UnsupportedError, nearest
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.lockfile import design_hash, lock_text

SHORTEST_NAME = 3
"""Characters that a table's name has at least."""


def emit(model: Model, design: Design, to: str) -> Mapping[str, str]:
    """Format -> {file name: text}."""
    from keyplan.engines.dynamodb.emit_cloudformation import cloudformation
    from keyplan.engines.dynamodb.emit_terraform import terraform
    from keyplan.engines.dynamodb.emit_workbench import workbench

    writers: dict[str, Callable[[Model, Design], Mapping[str, str]]] = {
        "cloudformation": cloudformation,
        "terraform": terraform,
        "createtable": create_table,
        "workbench": workbench,
    }
    if to not in writers:
        hint = nearest(to, list(writers)) or f"; there are {_list(writers)}"
        raise UnsupportedError(f"dynamodb has no format '{to}'{hint}")
    return writers[to](model, design)


def _list(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(names))


def create_table(model: Model, design: Design) -> Mapping[str, str]:
    """What `aws dynamodb create-table --cli-input-json` takes, and the calls that have to follow it."""
    name = table_name(model)
    files: dict[str, Any] = {f"{name}.create-table.json": definition(model, design)}
    if expires(model, design):
        ttl = {"Enabled": True, "AttributeName": TTL}
        files[f"{name}.update-time-to-live.json"] = {"TableName": name, "TimeToLiveSpecification": ttl}
    backups = {"PointInTimeRecoveryEnabled": True}
    files[f"{name}.update-continuous-backups.json"] = {
        "TableName": name,
        "PointInTimeRecoverySpecification": backups,
    }
    return {file: json.dumps(body, ensure_ascii=False, indent=2) + "\n" for file, body in files.items()}


def table_name(model: Model) -> str:
    """The table's name unless told otherwise: the model's, which may be too short for DynamoDB."""
    return model.name if len(model.name) >= SHORTEST_NAME else f"keyplan-{model.name}"


def definition(model: Model, design: Design) -> dict[str, Any]:
    """The whole body of a CreateTable; a provisioned table begins with what its average load needs."""
    body = {"TableName": table_name(model), **table_definition(model, design, layout(model, design))}
    if is_provisioned(design):
        given = capacities(model, design)
        table = next(one.name for one in design.structures if one.kind == "table")
        body["ProvisionedThroughput"] = _throughput(given[table])
        for index in body.get("GlobalSecondaryIndexes", ()):
            index["ProvisionedThroughput"] = _throughput(given[index["IndexName"]])
    body["DeletionProtectionEnabled"] = True
    body["Tags"] = [{"Key": key, "Value": value} for key, value in tags(model, design).items()]
    return body


def _throughput(capacity: Capacity) -> dict[str, int]:
    return {"ReadCapacityUnits": capacity.read.start, "WriteCapacityUnits": capacity.write.start}


def tags(model: Model, design: Design) -> dict[str, str]:
    """By which a table can be found: its model, and the beginning of the hash that `apply` records."""
    return {"keyplan:model": model.name, "keyplan:design": design_hash(lock_text(model, design))[:16]}


def expires(model: Model, design: Design) -> bool:
    """Whether items have a time to live."""
    return layout(model, design).expires


def purposes(design: Design) -> dict[str, str]:
    """Per index, the patterns and writes that need it."""
    found = {}
    for structure in design.structures:
        because = [why for name in structure.views if name in design.figures for why in design.figures[name].because]
        if structure.kind in ("gsi", "lsi") and because:
            found[structure.name] = ", ".join(dict.fromkeys(because))
    return found
