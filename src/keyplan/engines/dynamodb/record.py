"""The design that a table holds, recorded in the table itself.

The items `DESIGN#0`, `DESIGN#1` … of the partition `KEYPLAN` have the lock text in pieces, `PLACES#0` … what stands in
the table (`standing.py`), written by one transaction that refuses to overwrite a record it has not seen. While `apply`
changes what is there, the first says to which design in `changing`, and `PLACES` has all that may be found meanwhile,
so that the next `apply`, of this design or another, knows what to finish or to take away. One that has been overtaken
by that of another design no longer finds its hash there, and stops; until then it writes only what the token of
`fence.py` allows.

`HOLDS#0` says in a few bytes what open stores have to agree on, and whether the table is being changed, for them to
look at (`engines/lease.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from keyplan.engines.changing import OTHER_DESIGN, UNFINISHED, Catalog, Change
from keyplan.engines.codec import Codec
from keyplan.engines.dynamodb.fence import OTHER, Fence, OvertakenError, lowered, together
from keyplan.engines.dynamodb.foreign import fits, recorded
from keyplan.engines.dynamodb.layout import PK, RECORD_TAG, SK, Index
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.dynamodb.requests import DynamoDBCodec
from keyplan.engines.dynamodb.standing import NOTHING, Moves, Standing, told
from keyplan.engines.dynamodb.waiting import until_active
from keyplan.engines.lease import Held
from keyplan.engines.rounds import Proc
from keyplan.errors import ConflictError
from keyplan.model.model import Model
from keyplan.plan.lockfile import design_hash

PIECE = 350_000
"""Bytes of text per item, below the 400 KB that an item may have."""
DESIGN, PLACES, HOLDS = "DESIGN", "PLACES", "HOLDS"


class Record(Change):
    """Writes the design into the table, all pieces at once."""

    summary = f"record the design in the partition {RECORD_TAG}"

    def __init__(
        self,
        model: Model,
        lock: str,
        upkeep: str,
        about: dict[str, Any],
        places: Sequence[Standing],
        found: Catalog,
        moved: Moves = NOTHING,
        indexes: Sequence[Index] = (),
    ) -> None:
        self._indexes = indexes
        self._model = model
        self._lock = lock
        self._upkeep = upkeep
        self._about = about
        self._places = places
        self._found = found
        self.fills, self.fresh = moved.fills, moved.fresh
        self.fence: Fence | None = None
        """That of the step before this one which has the record say that the table is being changed."""

    def run(self) -> Proc[None]:
        yield from self._see_indexes()
        had = self._found.found
        items = _written(DESIGN, "lock", self._lock, had.get("pieces", 0))
        mine = design_hash(self._lock)
        head = items[0]["Put"]
        head["Item"] |= {"model": {"S": self._model.name}, "hash": {"S": mine}, **self._about}
        condition, values = self._as_seen(mine)
        head["ConditionExpression"] = f"attribute_not_exists({PK}) OR {condition}"
        head["ExpressionAttributeNames"] = {"#hash": "hash"}
        head["ExpressionAttributeValues"] = values
        if self.fence is not None or "changing" in had:
            items.append(lowered(had.get("fence") if self.fence is None else self.fence.token))
        yield from together([*items, *written_places(self._places, self._found), _holds(self._upkeep)])

    def _see_indexes(self) -> Proc[None]:
        """DynamoDB makes tables and indexes in no transaction: another process may have made them otherwise."""
        (reply,) = yield [Request("DescribeTable", {})]
        if isinstance(reply, Exception):
            raise reply
        table = reply["Table"]
        types = {one["AttributeName"]: one["AttributeType"] for one in table.get("AttributeDefinitions", ())}
        kinds = ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")
        there = {one["IndexName"]: one for kind in kinds for one in table.get(kind) or ()}
        if not all(index.name in there and fits(index, there[index.name], types) for index in self._indexes):
            raise ConflictError(OTHER)

    def follows(self, claimed: Change) -> None:
        assert isinstance(claimed, Record)
        assert claimed.fence is not None
        if self._found.found.get("fence") != claimed.fence.token:
            raise OvertakenError
        if self.fence is not None:
            self.fence.token = claimed.fence.token
        if not claimed.fence.shared:
            self.fresh = claimed.fresh  # nobody has written since that look

    def resumes(self, claimed: Change) -> None:
        assert isinstance(claimed, Record)
        if self.fence is not None and claimed.fence is not None:
            self.fence.own = self.fence.seen == claimed.fence.token and not claimed.fence.shared

    def is_behind(self, there: Catalog) -> bool:
        if self.fence is None or there.found.get("changing") != {"S": design_hash(self._lock)}:
            return False
        return there.found["fence"] not in (None, self.fence.token)

    def withdraw(self) -> Proc[None]:
        """The record as it was found, if whoever has announced the change is still alone with it."""
        had = self._found.found
        if self.fence is None or self.fence.shared or "changing" in had:
            return
        names = had.get("indexes")
        head: dict[str, Any] = {
            "Key": record_key(DESIGN, 0),
            "UpdateExpression": "SET index_names = :names REMOVE changing" if names else "REMOVE changing, index_names",
            "ConditionExpression": "#hash = :seen AND changing = :mine",
            "ExpressionAttributeNames": {"#hash": "hash"},
            "ExpressionAttributeValues": {":mine": {"S": design_hash(self._lock)}, ":seen": {"S": had["hash"]}},
        }
        if names:
            head["ExpressionAttributeValues"][":names"] = {"SS": sorted(names)}
        places = written_places(had.get("standing") or (), self._found)
        holds = {"Update": {"Key": record_key(HOLDS, 0), "UpdateExpression": "REMOVE stops_reads"}}
        yield from together([{"Update": head}, lowered(self.fence.token, alone=True), *places, holds])

    def guarded(self, codec: Codec) -> Codec:
        if self.fence is None:
            return codec
        assert isinstance(codec, DynamoDBCodec)
        return codec.fenced(self.fence)

    def _as_seen(self, mine: str) -> tuple[str, dict[str, Any]]:
        """The record is as it was seen, or as we have made it since."""
        had = self._found.found
        values = {":mine": {"S": mine}, ":seen": {"S": had.get("hash") or mine}}
        if self.fence is not None:
            return "(#hash IN (:mine, :seen) AND changing = :mine)", values
        if "changing" in had:
            return "(#hash IN (:mine, :seen) AND changing = :changing)", {**values, ":changing": had["changing"]}
        return "(#hash IN (:mine, :seen) AND attribute_not_exists(changing))", values


class Announce(Change):
    """Has the record say that the table is being changed, until the design is recorded that it is changed to."""

    summary = "note in the record that the table is being changed, so that nobody opens it meanwhile"
    announces = claims = True

    def __init__(
        self,
        lock: str,
        indexes: Collection[str],
        places: Sequence[Standing],
        found: Catalog,
        fence: Fence,
        *,
        stops_reads: bool,
    ) -> None:
        self._fence = fence
        self._stops_reads = stops_reads
        self._mine = design_hash(lock)
        self._indexes = recorded(indexes)
        self._places = places
        self._found = found

    def run(self) -> Proc[None]:
        had = self._found.found
        indexes = had["table"].get("GlobalSecondaryIndexes", ())
        if any(one.get("IndexStatus", "ACTIVE") != "ACTIVE" for one in indexes):
            yield from until_active()  # DynamoDB Local does no transactions while an index comes or goes
        before = "changing = :changing" if "changing" in had else "attribute_not_exists(changing)"
        head: dict[str, Any] = {
            "Key": record_key(DESIGN, 0),
            "UpdateExpression": "SET changing = :mine" + (" ADD index_names :names" if self._indexes else ""),
            "ConditionExpression": f"#hash = :seen AND {before}",
            "ExpressionAttributeNames": {"#hash": "hash"},
            "ExpressionAttributeValues": {":mine": {"S": self._mine}, ":seen": {"S": had["hash"]}},
        }
        if "changing" in had:
            head["ExpressionAttributeValues"][":changing"] = had["changing"]
        if self._indexes:
            head["ExpressionAttributeValues"][":names"] = self._indexes["index_names"]
        # One that was cut off may have begun to take away what stores read.
        stops_reads = self._stops_reads or "changing" in had
        holds = _changing(stops_reads)
        places = written_places(self._places, self._found)
        try:
            yield from together([{"Update": head}, self._fence.raised(), *places, holds])
        except ConflictError:
            yield from self._join()

    def _join(self) -> Proc[None]:
        """Goes on with somebody who has begun to apply the same design since we looked, and who has seen more: what
        that one has noted stays as it is. A token that is read before the record can be out of date, but not of another
        design."""
        yield from self._fence.joined()
        (reply,) = yield [Request("GetItem", {"Key": record_key(DESIGN, 0), "ConsistentRead": True})]
        if isinstance(reply, Exception):
            raise reply
        now = reply.get("Item", {})
        if now.get("changing") != {"S": self._mine} or now["hash"]["S"] != self._found.found["hash"]:
            raise OvertakenError


def _holds(upkeep: str) -> dict[str, Any]:
    """What open stores have to agree on, as an item of a transaction."""
    return {"Put": {"Item": {**record_key(HOLDS, 0), "upkeep": {"S": upkeep}}}}


def _changing(stops_reads: bool) -> dict[str, Any]:
    """That the table is being changed, as an item of a transaction."""
    update = {
        "Key": record_key(HOLDS, 0),
        "UpdateExpression": "SET stops_reads = :reads",
        "ExpressionAttributeValues": {":reads": {"BOOL": stops_reads}},
    }
    return {"Update": update}


def look(upkeep: str) -> Proc[Held]:
    """What the record says to a store that keeps this up."""
    (reply,) = yield [Request("GetItem", {"Key": record_key(HOLDS, 0), "ConsistentRead": True})]
    if isinstance(reply, Exception):
        raise reply
    found = reply.get("Item")
    if found is None:
        return Held()  # recorded by an earlier version, and nobody has changed it since
    if found.get("upkeep", {"S": upkeep})["S"] != upkeep:
        return Held(stop=OTHER_DESIGN)
    if "stops_reads" not in found:
        return Held()
    return Held(stop=UNFINISHED) if found["stops_reads"]["BOOL"] else Held(stop_writes=UNFINISHED)


def fence_of(lock: str, found: Catalog) -> Fence:
    """The fence of whoever applies a design: to be shared with others who do, and to be taken from those of another."""
    changing = found.found.get("changing", {}).get("S")
    return Fence(found.found.get("fence"), joins=changing == design_hash(lock))


def written_places(places: Sequence[Standing], found: Catalog) -> list[dict[str, Any]]:
    """What stands in the table, as items of a transaction; none where nobody has told it."""
    if not places:
        return []
    items = _written(PLACES, "text", told(places), found.found.get("place_pieces", 0))
    puts = sum("Put" in item for item in items)
    items[0]["Put"]["Item"]["pieces"] = {"N": str(puts)}
    return items


def places_text(items: Iterable[Any]) -> str:
    """What stands in the table, from the items of the record; pieces of a longer text may have stayed behind."""
    pieces = numbered(items, PLACES)
    most = int(pieces[0]["pieces"]["N"]) if pieces else 0
    return "".join(item["text"]["S"] for item in pieces[:most])


def numbered(items: Iterable[Any], kind: str) -> list[Any]:
    """The pieces of one text in their order."""
    mine = [item for item in items if item[SK]["S"].startswith(f"{kind}#")]
    return sorted(mine, key=lambda item: int(item[SK]["S"].removeprefix(f"{kind}#")))


def record_key(kind: str, number: int) -> dict[str, Any]:
    return {PK: {"S": RECORD_TAG}, SK: {"S": f"{kind}#{number}"}}


def _written(kind: str, name: str, text: str, had: int) -> list[dict[str, Any]]:
    """A text in pieces, and those that it had more before taken away."""
    pieces = _pieces(text)
    items: list[dict[str, Any]] = [
        {"Put": {"Item": {**record_key(kind, number), name: {"S": piece}}}} for number, piece in enumerate(pieces)
    ]
    return items + [{"Delete": {"Key": record_key(kind, number)}} for number in range(len(pieces), had)]


def _pieces(text: str) -> list[str]:
    """The text in pieces that fit an item each."""
    pieces: list[str] = []
    rest = text
    while rest:
        piece = rest[:PIECE].encode()[:PIECE].decode(errors="ignore")
        pieces.append(piece)
        rest = rest[len(piece) :]
    return pieces or [""]
