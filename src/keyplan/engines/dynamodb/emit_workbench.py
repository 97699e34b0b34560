"""NoSQL Workbench: the table with a facet per view, and sample items in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyplan.data.dataset import NOW
from keyplan.engines.dynamodb.capacity import Range, capacities, is_provisioned
from keyplan.engines.dynamodb.emit import definition, table_name
from keyplan.engines.dynamodb.layout import PK, SK, TTL, Layout, Place, Slot, layout
from keyplan.engines.dynamodb.limits import PRICES
from keyplan.engines.dynamodb.native import in_words
from keyplan.engines.dynamodb.sample import sample_items
from keyplan.engines.dynamodb.templates import partition_template, sort_template
from keyplan.engines.dynamodb.workbench_import import (
    Attribute,
    Facet,
    Index,
    Key,
    Table,
    Workbench,
    write_workbench,
)
from keyplan.model.model import Model
from keyplan.plan.design import Design

SERVICE_ROLE = "AWSServiceRoleForApplicationAutoScaling_DynamoDBTable"
_ACCESS: Mapping[str, Any] = {"DataAccess": {"MySql": {}}}
"""Stands in every file of Workbench, and says nothing about DynamoDB."""
DATE = "%b %d, %Y, %I:%M %p"


def workbench(model: Model, design: Design) -> Mapping[str, str]:
    """One model for Workbench's import."""
    # A fixed date, that of the sample rows: the same design is the same file every day.
    date = NOW.strftime(DATE)
    metadata = {
        "Author": "keyplan",
        "DateCreated": date,
        "DateLastModified": date,
        "Description": f"The model {model.name} on Amazon DynamoDB, designed by keyplan{_local(model, design)}",
        "AWSService": "Amazon DynamoDB",
        "Version": "3.0",
    }
    found = Workbench(model.name, metadata, [_table(model, design)])
    return {f"{table_name(model)}.workbench.json": write_workbench(found)}


def _local(model: Model, design: Design) -> str:
    """Indexes that the files of Workbench have no place for, in words: local ones, and keys of several attributes."""
    local = [index for index in layout(model, design).indexes if index.local or index.native]
    if not local:
        return ""
    named = ", ".join(f"{index.name} ({in_words(index.keys)}; {index.projection})" for index in local)
    return f". Indexes that Workbench does not show: {named}"


def _table(model: Model, design: Design) -> Table:
    places = layout(model, design)
    samples = sample_items(model, places)
    body = definition(model, design)
    facets = []
    for (view, at), items in samples.items():
        place = places.places[view, at]
        name = ".".join((view, *at))
        partition, sort = partition_template(place), sort_template(place)
        facets.append(Facet(name, partition, sort, _attributes(place), items, extra=dict(_ACCESS)))
    capacity = None
    if is_provisioned(design):
        table = next(one.name for one in design.structures if one.kind == "table")
        given = capacities(model, design)[table]
        capacity = {
            "ProvisionedThroughput": body["ProvisionedThroughput"],
            "AutoScalingRead": _scaling(given.read),
            "AutoScalingWrite": _scaling(given.write),
        }
    return Table(
        body["TableName"],
        Key(Attribute(PK, "S"), Attribute(SK, "S")),
        attributes=_all_attributes(places),
        indexes=[_index(one) for one in body.get("GlobalSecondaryIndexes", ()) if len(one["KeySchema"]) == 2] or None,
        facets=facets,
        billing=body["BillingMode"],
        capacity=capacity,
        extra=dict(_ACCESS),
    )


def _index(about: Mapping[str, Any]) -> Index:
    partition, sort = (Attribute(one["AttributeName"], "S") for one in about["KeySchema"])
    projection = about["Projection"]
    return Index(
        about["IndexName"], Key(partition, sort), projection["ProjectionType"], projection.get("NonKeyAttributes")
    )


def _scaling(units: Range) -> dict[str, Any]:
    request = {"MinCapacity": units.least, "MaxCapacity": units.most, "ServiceRole": SERVICE_ROLE}
    return {
        "ScalableTargetRequest": request,
        "ScalingPolicyConfiguration": {"TargetValue": round(PRICES.autoscaling_target * 100)},
    }


def _attributes(place: Place) -> list[str]:
    """What items of a place may have besides their key."""
    names = [slot.attribute for slot in place.slots.values()]
    names += [TTL] if place.expires else []
    for index in place.indexes:
        names += [name for name in index.attributes if name not in names]
    return names


def _all_attributes(places: Layout) -> list[Attribute]:
    """Every attribute but the table's key, each once; of several types, the first."""
    found: dict[str, str] = {}
    for index in places.indexes:
        found |= {one.name: one.type for one in index.keys if one.own}
    for place in places.places.values():
        if place.index is None:
            for slot in place.slots.values():
                found.setdefault(slot.attribute, _type(slot))
            if place.expires:
                found.setdefault(TTL, "N")
    return [Attribute(name, type) for name, type in found.items()]


_TYPES = {"int": "N", "decimal": "N", "float": "N", "bytes": "B", "bool": "BOOL"}


def _type(slot: Slot) -> str:
    """The type of an attribute, by its name in DynamoDB's JSON."""
    type = slot.type
    if type.of is None:
        return _TYPES.get(type.kind, "S")
    inner = _TYPES.get(type.of.kind, "S")
    return "L" if type.kind == "list" or inner == "BOOL" else f"{inner}S"
