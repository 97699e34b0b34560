"""What a table holds against what the design wants, and the steps from one to the other.

The design that a table holds is recorded in the table itself (`record.py`).

Rows stay where the recorded design put them, and a design that lays them elsewhere is refused. Other items and indexes
may come, go and change over them (`standing.py`, `refill.py`); that this is under way is recorded first, so that nobody
opens the table meanwhile. Indexes are created and deleted one at a time, as DynamoDB wants it, each waited for. Those
of somebody else are left alone (`foreign.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from keyplan.engines.changing import UNFINISHED, Catalog, Change
from keyplan.engines.dynamodb.capacity import capacities, is_provisioned
from keyplan.engines.dynamodb.emptiness import StillEmpty, is_empty, moves_of_none
from keyplan.engines.dynamodb.faults import MissingTableError, RefusedError
from keyplan.engines.dynamodb.fence import NAME as FENCE
from keyplan.engines.dynamodb.fence import Fence
from keyplan.engines.dynamodb.foreign import LeaveIndex, check_names, fits, recorded
from keyplan.engines.dynamodb.layout import PK, RECORD_TAG, SK, TTL, Index, Layout, Place, layout
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.dynamodb.record import DESIGN, PLACES, Announce, Record, fence_of, numbered, places_text
from keyplan.engines.dynamodb.refill import Refill, clearing
from keyplan.engines.dynamodb.standing import NOTHING, REMEDY, Moves, Standing, heard, moves, standings
from keyplan.engines.dynamodb.waiting import until_active
from keyplan.engines.rounds import Pause, Proc, Reply
from keyplan.errors import DesignMismatchError, UnavailableError, UncertainError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.lockfile import design_hash

NO_AUTOSCALING = "autoscaling is another service, which `emit --to cloudformation` and `--to terraform` set up"
CHANGING = "the table is being changed"
"""In place of a design's hash: whoever applies a design has not come to the end."""
UPDATES = 60
"""How often a table is tried to be changed that others are changing."""
_ELSEWHERE = "name another table in the URL"


def inspect(model: Model, design: Design) -> Proc[Catalog]:
    """The table and its indexes, and the design on record."""
    described, expiry, record = yield [
        Request("DescribeTable", {}),
        Request("DescribeTimeToLive", {}),
        Request("Query", _partition(RECORD_TAG)),
    ]
    if isinstance(described, MissingTableError):
        return Catalog(found={"table": None})
    table: Mapping[str, Any] = _checked(described)["Table"]
    found: dict[str, Any] = {"table": table, "ttl": _ttl(expiry), "model": None, "layout": None, "pieces": 0}
    if _keys(table) != {"HASH": (PK, "S"), "RANGE": (SK, "S")}:
        return Catalog(found=found)
    every = yield from _rest(_partition(RECORD_TAG), _checked(record))
    found["empty"] = yield from is_empty()
    return _catalog(every, found)


def glance(model: Model, design: Design) -> Proc[Catalog]:
    """The design on record, by one Query: whoever opens a table need not be allowed to describe and scan it."""
    body = _partition(RECORD_TAG)
    body["KeyConditionExpression"] += f" AND begins_with({SK}, :sk)"
    body["ExpressionAttributeValues"][":sk"] = {"S": f"{DESIGN}#"}
    (record,) = yield [Request("Query", body)]
    if isinstance(record, MissingTableError):
        return Catalog(found={"table": None})
    if isinstance(record, RefusedError):  # a table with other keys
        return (yield from inspect(model, design))
    every = yield from _rest(body, _checked(record))
    return _catalog(every, {"table": {}, "model": None})


def _rest(body: Mapping[str, Any], page: Mapping[str, Any]) -> Proc[list[Any]]:
    """The items of a page and of those behind it."""
    every: list[Any] = list(page["Items"])
    while "LastEvaluatedKey" in page:
        (reply,) = yield [Request("Query", {**body, "ExclusiveStartKey": page["LastEvaluatedKey"]})]
        page = _checked(reply)
        every += page["Items"]
    return every


def _catalog(every: Sequence[Any], found: dict[str, Any]) -> Catalog:
    items = numbered(every, DESIGN)
    if not items:
        return Catalog(found=found)
    first = items[0]
    found |= {"model": first["model"]["S"], "layout": first["layout"]["S"], "pieces": len(items)}
    found |= {
        "rows": first.get("rows", {}).get("S"),
        "hash": first["hash"]["S"],
        "place_pieces": len(numbered(every, PLACES)),
    }
    found["fence"] = next((item["token"]["S"] for item in every if item[SK]["S"] == FENCE), None)
    found["indexes"] = first.get("index_names", {}).get("SS", ())
    found["standing"] = heard(places_text(every))
    if "changing" in first:
        found["changing"] = first["changing"]
        return Catalog(CHANGING, None, {**found, "layout": None}, UNFINISHED)
    return Catalog(first["hash"]["S"], "".join(item["lock"]["S"] for item in items), found)


def _partition(name: str) -> dict[str, Any]:
    return {
        "KeyConditionExpression": f"{PK} = :pk",
        "ExpressionAttributeValues": {":pk": {"S": name}},
        "ConsistentRead": True,
    }


def _ttl(reply: Reply) -> str | None:
    """The attribute by which items expire; None if they do not, or if the server has no such thing."""
    if isinstance(reply, Exception):
        return None
    about = reply.get("TimeToLiveDescription", {})
    return about.get("AttributeName") if about.get("TimeToLiveStatus") in ("ENABLED", "ENABLING") else None


def _checked(reply: Reply) -> Any:
    if isinstance(reply, Exception):
        raise reply
    return reply


def _keys(about: Mapping[str, Any], types: Mapping[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """The key attributes of a table or index with their types."""
    if types is None:
        types = {one["AttributeName"]: one["AttributeType"] for one in about.get("AttributeDefinitions", ())}
    return {one["KeyType"]: (one["AttributeName"], types.get(one["AttributeName"], "")) for one in about["KeySchema"]}


def signature(places: Layout, *, rows: bool = False) -> str:
    """A hash of where everything lies: tags, key parts, attributes and index keys; or of where rows do, without
    indexes. It is what records of earlier versions have."""
    some = (place for place in places.places.values() if not rows or place.index is None)
    listed = sorted(json.dumps(_signature(place), sort_keys=True) for place in some)
    return hashlib.sha256("\n".join(listed).encode()).hexdigest()


def _signature(place: Place) -> list[object]:
    parts = [[part.type.kind, part.type.scale, part.descending] for part in (*place.partition.parts, *place.sort.parts)]
    slots = sorted((slot.attribute, str(slot.type)) for slot in place.slots.values())
    keys = [place.partition.prefix, place.sort.prefix, list(place.parts), parts]
    return [place.entity, place.index, keys, slots, [str(one) for one in place.view.where]]


def changes(model: Model, design: Design, lock: str, upkeep: str, found: Catalog) -> tuple[Change, ...]:
    """The steps that make the table hold the design; none if it does already."""
    places = layout(model, design)
    wants = standings(model, design, places)
    table: Mapping[str, Any] | None = found.found["table"]
    if table is None:
        steps: list[Change] = [CreateTable(model, design, places)]
        return (
            *steps,
            *([EnableExpiry()] if places.expires else []),
            _record(model, lock, upkeep, places, wants, found),
        )
    moved = _check(model, places, wants, found)
    record = _record(model, lock, upkeep, places, wants, found, moved)
    types = {one["AttributeName"]: one["AttributeType"] for one in table.get("AttributeDefinitions", ())}
    there = {
        one["IndexName"]: one
        for one in sorted(table.get("GlobalSecondaryIndexes", ()), key=lambda one: str(one["IndexName"]))
        if one.get("IndexStatus") != "DELETING"
    }
    wanted = {index.name: index for index in places.global_indexes}
    fitting = {name for name, about in there.items() if name in wanted and fits(wanted[name], about, types)}
    own = set(found.found.get("indexes", ()))
    others = there.keys() - fitting - own
    check_names(wanted, others)
    steps = [LeaveIndex(name) for name in there if name in others]
    fence = fence_of(lock, found)
    rewritten = bool(found.found["empty"]) and moved.takes_away  # whoever writes the first row has to do it otherwise
    if moved.any or rewritten or (found.design_hash is not None and wanted.keys() - fitting - own):
        stops_reads = moved.takes_away or bool(there.keys() & wanted.keys() - fitting)
        steps.append(Announce(lock, wanted, moved.meanwhile, found, fence, stops_reads=stops_reads))
        record.fence = fence
    if found.found["empty"] and (record.fence is not None or "changing" in found.found):
        steps.append(StillEmpty())
    mode = table.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
    if (mode == "PROVISIONED") != is_provisioned(design):
        steps.append(SetBilling(model, design, places, record.fence))
    going = [name for name in there if name not in fitting and name not in others]
    steps += [DeleteIndex(name, wanted.get(name), record.fence) for name in going]
    steps += clearing(moved, fence, found)
    if moved.refills or moved.strips:
        steps.append(Refill(places, fence, moved.strips, moved.values_lost))
    for name, index in wanted.items():
        if name not in fitting:
            steps.append(CreateIndex(model, design, index, "another" if name in there else "missing", record.fence))
    if places.expires and found.found["ttl"] != TTL:
        steps.append(EnableExpiry())
    if all(step.only_said for step in steps) and found.lock == lock and found.design_hash == design_hash(lock):
        return tuple(steps)
    return (*steps, record)


def _record(
    model: Model,
    lock: str,
    upkeep: str,
    places: Layout,
    wants: Sequence[Standing],
    found: Catalog,
    moved: Moves = NOTHING,
) -> Record:
    about: dict[str, Any] = {"layout": {"S": signature(places)}, "rows": {"S": signature(places, rows=True)}}
    about |= recorded([index.name for index in places.global_indexes])
    return Record(model, lock, upkeep, about, wants, found, moved, places.indexes)


def _check(model: Model, places: Layout, wants: Sequence[Standing], found: Catalog) -> Moves:
    """What has to move; refuses a table that is not ours, or whose rows would have to."""
    about = found.found
    if _keys(about["table"]) != {"HASH": (PK, "S"), "RANGE": (SK, "S")}:
        raise DesignMismatchError(
            f"the table has other keys than '{PK}' and '{SK}', so keyplan did not make it; {_ELSEWHERE}"
        )
    if found.design_hash is None and not about["empty"]:
        raise DesignMismatchError(f"the table has rows, and no design of keyplan is recorded in it; {_ELSEWHERE}")
    if about["model"] not in (None, model.name):
        raise DesignMismatchError(
            f"the table holds a design of the model '{about['model']}', not of '{model.name}'; {_ELSEWHERE}"
        )
    if about["ttl"] not in (None, TTL) and places.expires:
        raise DesignMismatchError(f"items of the table expire by '{about['ttl']}', not by '{TTL}'; {_ELSEWHERE}")
    _check_local(places, about["table"])
    if about["empty"]:
        return moves_of_none(about["standing"], wants) if about.get("standing") else NOTHING
    if about.get("standing"):
        return moves(model, about["standing"], wants)
    if about["layout"] != signature(places) and about.get("rows") != signature(places, rows=True):
        raise DesignMismatchError(f"the rows of the table are laid out for another design, and are not moved; {REMEDY}")
    return replace(NOTHING, refills=about["layout"] != signature(places), takes_away=True)


def _check_local(places: Layout, table: Mapping[str, Any]) -> None:
    """Refuses a table whose local indexes are not the design's: they are made with the table, and stay as they are."""
    types = {one["AttributeName"]: one["AttributeType"] for one in table.get("AttributeDefinitions", ())}
    there = {one["IndexName"]: one for one in table.get("LocalSecondaryIndexes") or ()}
    for index in places.local_indexes:
        if index.name not in there or not fits(index, there[index.name], types):
            state = "has another" if index.name in there else "lacks the"
            raise DesignMismatchError(
                f"the table {state} local index '{index.name}', and dynamodb makes local indexes with a table only; "
                "apply to a new table and load the rows into it"
            )
    foreign = sorted(there.keys() - {index.name for index in places.local_indexes})
    if foreign:
        raise DesignMismatchError(
            f"the table has the local index '{foreign[0]}', which limits every partition to 10 GB and cannot be "
            f"deleted; {_ELSEWHERE}"
        )


def _throughput(model: Model, design: Design, structure: str) -> dict[str, Any]:
    """The capacity of a table or index that is not paid by request."""
    if not is_provisioned(design):
        return {}
    found = capacities(model, design)[structure]
    units = {"ReadCapacityUnits": max(1, found.read.start), "WriteCapacityUnits": max(1, found.write.start)}
    return {"ProvisionedThroughput": units}


def index_definition(model: Model, design: Design, index: Index) -> dict[str, Any]:
    """An index as CreateTable and UpdateTable take it."""
    projection: dict[str, Any] = {"ProjectionType": index.projection}
    if index.attributes:
        projection["NonKeyAttributes"] = list(index.attributes)
    return {
        "IndexName": index.name,
        "KeySchema": [{"AttributeName": one.name, "KeyType": one.role} for one in index.keys],
        "Projection": projection,
        **({} if index.local else _throughput(model, design, index.name)),
    }


def key_schema(pk: str, sk: str) -> list[dict[str, str]]:
    return [{"AttributeName": pk, "KeyType": "HASH"}, {"AttributeName": sk, "KeyType": "RANGE"}]


def attribute_definitions(indexes: Sequence[Index]) -> list[dict[str, str]]:
    """The key attributes of a table and some of its indexes: texts, but for numbers that are keys as they are."""
    types = {PK: "S", SK: "S"} | {one.name: one.type for index in indexes for one in index.keys}
    return [{"AttributeName": name, "AttributeType": type} for name, type in types.items()]


def table_definition(model: Model, design: Design, places: Layout) -> dict[str, Any]:
    """The table as CreateTable takes it, without its name."""
    table = next(one for one in design.structures if one.kind == "table")
    body: dict[str, Any] = {
        "AttributeDefinitions": attribute_definitions(places.indexes),
        "KeySchema": key_schema(PK, SK),
        "BillingMode": "PROVISIONED" if is_provisioned(design) else "PAY_PER_REQUEST",
        **_throughput(model, design, table.name),
    }
    for name, indexes in (
        ("GlobalSecondaryIndexes", places.global_indexes),
        ("LocalSecondaryIndexes", places.local_indexes),
    ):
        if indexes:
            body[name] = [index_definition(model, design, index) for index in indexes]
    return body


def _tolerant(request: Request, *codes: str) -> Proc[None]:
    """Sends a request; refusals that mean 'somebody has done it already' are fine: also where we were that somebody,
    and the reply was lost."""
    (reply,) = yield [request]
    if isinstance(reply, Exception) and not (isinstance(reply, RefusedError) and reply.code in codes):
        raise reply


def _ready(fence: Fence | None) -> Proc[Mapping[str, Any]]:
    """Waits until the table can be changed, and that it is still ours to change."""
    table = yield from until_active()
    if fence is not None:
        yield from fence.look()
    return table


def _update(body: Mapping[str, Any], fence: Fence | None, is_done: Callable[[Mapping[str, Any]], bool]) -> Proc[None]:
    """Changes the table, when others who do so at the moment, such as autoscaling, are done; nothing if it is as
    wanted: whoever applies the same design may have come first, and a reply that was lost may have been good."""
    for _ in range(UPDATES):
        table = yield from _ready(fence)
        if is_done(table):
            return
        (reply,) = yield [Request("UpdateTable", dict(body), repeatable=False)]
        if not isinstance(reply, Exception):
            yield from until_active()
            return
        if isinstance(reply, RefusedError) and reply.code == "ResourceInUseException":
            yield Pause(1.0)
        elif is_done((yield from until_active())):
            return
        elif not isinstance(reply, UncertainError):
            raise reply
    raise UnavailableError("dynamodb: others keep changing the table; apply again later")


def _is_made(index: Index, table: Mapping[str, Any]) -> bool:
    """Whether the table has an index as it is wanted."""
    types = {one["AttributeName"]: one["AttributeType"] for one in table.get("AttributeDefinitions", ())}
    there = [one for one in table.get("GlobalSecondaryIndexes") or () if one["IndexName"] == index.name]
    return any(fits(index, one, types) for one in there)


class CreateTable(Change):
    """The table with all its indexes."""

    def __init__(self, model: Model, design: Design, places: Layout) -> None:
        indexes = f", with {', '.join(index.name for index in places.indexes)}" if places.indexes else ""
        billing = "provisioned" if is_provisioned(design) else "paid by request"
        self.summary = f"create the table, {billing}{indexes}"
        if is_provisioned(design):
            self.summary += f"; {NO_AUTOSCALING}"
        self._body = table_definition(model, design, places)

    def run(self) -> Proc[None]:
        yield from _tolerant(Request("CreateTable", self._body), "ResourceInUseException")
        yield from until_active()


class SetBilling(Change):
    """Paid by request, or provisioned with the capacity of the design."""

    all_or_nothing = True

    def __init__(self, model: Model, design: Design, places: Layout, fence: Fence | None) -> None:
        self._fence = fence
        self._provisioned = is_provisioned(design)
        self.summary = f"provision capacity; {NO_AUTOSCALING}" if self._provisioned else "have it paid by request"
        table = next(one for one in design.structures if one.kind == "table")
        self._body: dict[str, Any] = {"BillingMode": "PROVISIONED" if self._provisioned else "PAY_PER_REQUEST"}
        self._body |= _throughput(model, design, table.name)
        self._indexes = {index.name: _throughput(model, design, index.name) for index in places.indexes}

    def run(self) -> Proc[None]:
        table = yield from _ready(self._fence)
        there = [one["IndexName"] for one in table.get("GlobalSecondaryIndexes") or ()]
        body = dict(self._body)
        if self._provisioned and there:
            capacity = {name: self._indexes.get(name, body) for name in there}
            body["GlobalSecondaryIndexUpdates"] = [
                {"Update": {"IndexName": name, "ProvisionedThroughput": capacity[name]["ProvisionedThroughput"]}}
                for name in there
            ]
        yield from _update(body, self._fence, self._is_set)

    def _is_set(self, table: Mapping[str, Any]) -> bool:
        mode = table.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
        return bool((mode == "PROVISIONED") == self._provisioned)


class CreateIndex(Change):
    """One index; DynamoDB fills it from the items that have its keys."""

    all_or_nothing = True

    def __init__(self, model: Model, design: Design, index: Index, state: str, fence: Fence | None) -> None:
        self._fence = fence
        self._index = index
        self.summary = f"create the index {index.name} ({index.projection}) and fill it"
        self.fault = f"index {index.name} is {state}"
        self._body = {
            "AttributeDefinitions": attribute_definitions([index]),
            "GlobalSecondaryIndexUpdates": [{"Create": index_definition(model, design, index)}],
        }

    def run(self) -> Proc[None]:
        yield from _update(self._body, self._fence, self._is_there)

    def _is_there(self, table: Mapping[str, Any]) -> bool:
        return _is_made(self._index, table)


class DeleteIndex(Change):
    """One index; the rows themselves stay."""

    all_or_nothing = True

    def __init__(self, name: str, instead: Index | None, fence: Fence | None) -> None:
        """`instead`: what the design has under this name; whoever applies the same one may have made it already."""
        self._fence = fence
        self.summary = f"delete the index {name}, which can be made again"
        self._name, self._instead = name, instead

    def run(self) -> Proc[None]:
        body = {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": self._name}}]}
        yield from _update(body, self._fence, self._is_gone)
        if self._instead is not None and self._fence is not None:
            yield from self._fence.moves_on()  # the next one under this name is not to be deleted by anybody

    def _is_gone(self, table: Mapping[str, Any]) -> bool:
        gone = all(one["IndexName"] != self._name for one in table.get("GlobalSecondaryIndexes") or ())
        return gone or (self._instead is not None and _is_made(self._instead, table))


class EnableExpiry(Change):
    """Lets DynamoDB delete items some time after they have expired."""

    summary = f"let items expire by '{TTL}'"
    fault = f"items do not expire by '{TTL}'"

    def run(self) -> Proc[None]:
        body = {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": TTL}}
        yield from _tolerant(Request("UpdateTimeToLive", body), "ValidationException")
        (reply,) = yield [Request("DescribeTimeToLive", {})]
        if _ttl(_checked(reply)) != TTL:
            raise DesignMismatchError(f"dynamodb does not let items expire by '{TTL}' now; apply again in an hour")
