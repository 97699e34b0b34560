"""The design that a database holds, recorded in the database itself.

One document of the collection `keyplan_design` has the design, which collections are ours, and what is being done to
them:

- `applying`: whoever applies a design, by a token (`fence.py`). It is put there before anything else is done.
- `coming`: collections that an `apply` makes, or has made, which is not at its end. The next one, of whichever design,
  drops what it has no use for.
- `changing`: that open stores must not write, and with which design this will end (`engines/lease.py`).
- `unsettled`, here or with a collection: that they must not read either.

Only the design's record ends all this, in the same update. What stores of the design before it used goes behind it, by
another token: whoever was still filling collections for the same design finds that it is done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from keyplan.engines.changing import OTHER_DESIGN, UNFINISHED, Catalog, Change
from keyplan.engines.codec import Codec
from keyplan.engines.lease import Held, until_noticed
from keyplan.engines.mongodb.fence import APPLYING, HASH, RECORD_ID, TOKEN, Fence, OvertakenError, new_token
from keyplan.engines.mongodb.layout import RECORD_COLLECTION
from keyplan.engines.mongodb.operations import Command
from keyplan.engines.mongodb.requests import MongoCodec
from keyplan.engines.mongodb.values import ID, Document
from keyplan.engines.rounds import Proc, Reply
from keyplan.errors import DesignMismatchError, KeyplanError
from keyplan.model.model import Model
from keyplan.plan.lockfile import design_hash

MAJORITY: Document = {"w": "majority"}
UNSETTLED = "unsettled"
"""What the record says of a collection that is being filled with other documents than its design has there, and of all
where an index is replaced by another one."""
GOING = "going"
"""What it says of a collection that the design on record no longer has, as long as it may still be there."""
_COLLECTIONS, _COMING, _CHANGING = "collections", "coming", "changing"
_MISSING_COLLECTION = 26
_DUPLICATE = 11000


def checked(reply: Reply) -> Any:
    if isinstance(reply, KeyplanError):
        raise reply
    return reply


def find_record(projection: Document | None = None) -> Proc[Document]:
    """The record, as a majority has it; nothing if there is none."""
    body: Document = {"find": RECORD_COLLECTION, "filter": {ID: RECORD_ID}, "limit": 1}
    if projection is not None:
        body["projection"] = projection
    (found,) = yield [Command({**body, "readConcern": {"level": "majority"}})]
    return dict(next(iter(checked(found)["cursor"]["firstBatch"]), {}))


def facts(record: Document) -> dict[str, Any]:
    """What the record says to whoever applies a design."""
    kept, coming = record.get(_COLLECTIONS, {}), record.get(_COMING, {})
    return {
        "ours": {**coming, **kept},
        "kept": kept,
        "model": record.get("model"),
        "recorded": bool(record),
        "changing": record.get(_CHANGING),
        "applying": record.get(APPLYING) or {},
    }


def unfinished(record: Document) -> str:
    """Why the database must not be opened, if that is so."""
    return UNFINISHED if record.get(_CHANGING) or _is_unsettled(record) else ""


def _is_unsettled(record: Document) -> bool:
    """Whether what the design on record reads is no longer there as it was."""
    return bool(record.get(UNSETTLED)) or any(one.get(UNSETTLED) for one in record.get(_COLLECTIONS, {}).values())


def look(upkeep: str) -> Proc[Held]:
    """What the record says to a store that keeps this up."""
    record = yield from find_record({"lock": 0})
    if not record or record.get("upkeep", upkeep) != upkeep:
        return Held(stop=OTHER_DESIGN)
    if _is_unsettled(record):
        return Held(stop=UNFINISHED)
    return Held(stop_writes=UNFINISHED if record.get(_CHANGING) else "")


class Claim(Change):
    """Comes first where stores need not be told of anything."""

    summary = f"note in {RECORD_COLLECTION} that the design is being applied, so that nobody else does so meanwhile"
    claims = True

    def __init__(self, record: Record) -> None:
        self._record = record

    def run(self) -> Proc[None]:
        yield from self._record.claim()


class Record(Change):
    """Writes the design into the database, if it is still ours to change, and drops what it no longer has.

    Collections that are to be dropped stay on record until they are gone."""

    summary = f"record the design in {RECORD_COLLECTION}"

    def __init__(self, model: Model, lock: str, upkeep: str, collections: Document, found: Catalog) -> None:
        self._found = found
        self._collections = collections
        self._body = {"model": model.name, HASH: design_hash(lock), "lock": lock, "upkeep": upkeep}
        applying = found.found["applying"]
        mine = applying.get(HASH) == self._body[HASH]
        self.fence = Fence(self._body[HASH], applying.get(TOKEN) if mine else None)
        self.drops: list[str] = []
        self.behind: list[Command] = []
        """What else is done when the design is on record."""
        self.names: Mapping[str, str] = {}
        """The collections, by view."""
        self.outdated: Collection[str] = ()
        """Those of them that are made for another design, as long as nobody has dropped what may be there of them."""
        self.replaces = False
        """Whether something that the design on record reads goes before there is another one."""

    # Before anything else

    def unsettle(self, views: Sequence[str]) -> Proc[None]:
        notes: Document = {_CHANGING: self.fence.hash}
        notes |= {f"{_COLLECTIONS}.{self.names[view]}.{UNSETTLED}": True for view in views}
        yield from self.claim(notes if self._found.design_hash is not None else {})

    def claim(self, notes: Mapping[str, Any] | None = None) -> Proc[None]:
        """Makes the database our own to change, if the record is as it was seen; and notes what will be done."""
        about, mine = self._found.found, self.fence.hash
        said = dict(notes or {})
        said |= {
            f"{_COMING}.{name}": one
            for name, one in self._collections.items()
            if name not in about["kept"] and name not in self.outdated
        }
        if self.replaces:
            said |= {_CHANGING: mine, UNSETTLED: True}
        query = {
            ID: RECORD_ID,
            HASH: self._found.design_hash,
            _CHANGING: {"$in": [about["changing"], mine]},
            "$or": [{f"{APPLYING}.{TOKEN}": about["applying"].get(TOKEN)}, {f"{APPLYING}.{HASH}": mine}],
        }
        sets = {name: {"$literal": value} for name, value in said.items()}
        for upsert in (not about["recorded"], False):  # of two that make the record, one finds that of the other
            body = {
                "findAndModify": RECORD_COLLECTION,
                "query": query,
                "update": [{"$set": {**sets, APPLYING: self.fence.claimed()}}],
                "fields": {APPLYING: 1},
                "new": True,
                "upsert": upsert,
                "writeConcern": MAJORITY,
            }
            (reply,) = yield [Command(body, (_DUPLICATE,))]
            found = checked(reply).get("value")
            if found:
                self.fence.token = found[APPLYING][TOKEN]
                return
        raise OvertakenError

    def take_over(self, name: str) -> Proc[None]:
        """Has a collection be this design's from now on, and what others have planned by the token before be over."""
        token = new_token()
        yield from self._update({"$set": {f"{_COMING}.{name}": self._collections[name], f"{APPLYING}.{TOKEN}": token}})
        self.fence.token = token

    def is_behind(self, there: Catalog) -> bool:
        applying = there.found["applying"]
        return bool(applying.get(HASH) == self.fence.hash and applying[TOKEN] != self.fence.token)

    def follows(self, claimed: Change) -> None:
        assert isinstance(claimed, Record)
        if self.fence.needed() != claimed.fence.needed():
            raise OvertakenError

    def withdraw(self) -> Proc[None]:
        about = self._found.found
        if self._found.unfinished or about["applying"] or about["ours"] != about["kept"]:
            return
        unsets = dict.fromkeys((APPLYING, _CHANGING, UNSETTLED, _COMING), "")
        unsets |= {f"{_COLLECTIONS}.{name}.{UNSETTLED}": "" for name in about["kept"]}
        yield from self._update({"$unset": unsets})

    def guarded(self, codec: Codec) -> Codec:
        assert isinstance(codec, MongoCodec)
        return codec.fenced(self.fence.needed())

    # At the end

    def run(self) -> Proc[None]:
        going = {name: {**self._found.found["ours"][name], GOING: True} for name in self.drops}
        yield from self._write({**going, **self._collections}, more=bool(self.drops or self.behind))
        if self.waits and any(name in self._found.found["kept"] for name in self.drops):
            yield from until_noticed(self.told)  # some may have looked before, and read what they had
        drops = [Command({"drop": name, "writeConcern": MAJORITY}, (_MISSING_COLLECTION,)) for name in self.drops]
        for command in (*self.behind, *drops):
            yield from self.fence.held(lambda command=command: done(command))  # type: ignore[misc]
        if self.drops or self.behind:
            yield from self._write(self._collections, more=False)

    def _write(self, collections: Document, *, more: bool) -> Proc[None]:
        """Records the design; with `more` to be done, whoever does it has another token from now on."""
        sets: Document = {**self._body, _COLLECTIONS: collections}
        unsets = {_CHANGING: "", UNSETTLED: "", _COMING: ""}
        token = f"{self.fence.needed()}+"
        if more:
            sets[APPLYING] = {TOKEN: token, HASH: self.fence.hash}
        else:
            unsets[APPLYING] = ""
        yield from self._update({"$set": sets, "$unset": unsets})
        self.fence.token = token

    def _update(self, update: Document) -> Proc[None]:
        """Changes the record, if the database is still ours."""
        updates = [{"q": self.fence.query(), "u": update}]
        body = {"update": RECORD_COLLECTION, "updates": updates, "writeConcern": MAJORITY}
        (reply,) = yield [Command(body)]
        result = checked(reply)
        if result.get("writeErrors"):
            raise DesignMismatchError(f"the design cannot be recorded: {result['writeErrors'][0].get('errmsg')}")
        if result.get("n") == 0:
            raise OvertakenError


def done(*commands: Command) -> Proc[None]:
    """Commands one after the other."""
    for command in commands:
        (reply,) = yield [command]
        checked(reply)
