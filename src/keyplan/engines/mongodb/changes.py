"""What a database holds against what the design wants, and the steps from one to the other.

The design is recorded in the collection `keyplan_design`, and with it which collections are ours. MongoDB changes
schemas one command at a time, so every step can be repeated, and the record comes last: an apply that was cut off is
done again from the start. What only the design before it reads goes behind the record. That collections have to be
filled, or will go, is noted before, and with it which design this is for, so that two processes with different designs
do not overwrite each other, and nobody opens the database, or goes on writing to it, until a design is recorded
(`engines/lease.py`); a collection that will hold other documents under the same name is noted as such, and the database
is not read either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from keyplan.engines.base import GONE, LEFT_OUT, MAY_LACK, OTHER_DESIGN, UNFINISHED, Catalog, Change, Proc, Reply
from keyplan.engines.lease import Held, until_noticed
from keyplan.engines.mongodb.layout import RECORD_COLLECTION, Index, Place, layout
from keyplan.engines.mongodb.operations import Command
from keyplan.engines.mongodb.schema import expiry_index, lost_values, newly_required, stored_type, validator
from keyplan.engines.mongodb.values import Document
from keyplan.errors import ConflictError, DesignMismatchError, KeyplanError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.lockfile import design_hash

_EXISTS, _MISSING_INDEX, _MISSING_COLLECTION = 48, 27, 26
_DUPLICATE = 11000
_MAJORITY: Document = {"w": "majority"}
_UNSETTLED = "unsettled"
"""What the record says of a collection that is being filled with other documents than its design has there, and of all
where an index is replaced by another one."""


def inspect(model: Model, design: Design) -> Proc[Catalog]:
    """The collections and indexes there are, and the design on record."""
    wanted = [place.collection for place in layout(model, design).collections]
    (listed,) = yield [Command({"listCollections": 1, "cursor": {"batchSize": 10_000}})]
    all_there = _checked(listed)["cursor"]["firstBatch"]
    there = {one["name"]: one.get("options", {}) for one in all_there if one.get("type") == "collection"}
    for one in all_there:  # views and time series are no collections that documents can be kept in
        if one["name"] in wanted and one["name"] not in there:
            raise _not_ours(one["name"], one.get("type", "view"))
    record: Document = {}
    if RECORD_COLLECTION in there:
        body = {
            "find": RECORD_COLLECTION,
            "filter": {"_id": "design"},
            "limit": 1,
            "readConcern": {"level": "majority"},
        }
        (found,) = yield [Command(body)]
        record = next(iter(_checked(found)["cursor"]["firstBatch"]), {})
    names = [name for name in dict.fromkeys([*record.get("collections", {}), *wanted]) if name in there]
    indexes: dict[str, dict[str, Document]] = {}
    empty: dict[str, bool] = {}
    for name in names:
        replies = yield [
            Command({"listIndexes": name, "cursor": {"batchSize": 1000}}),
            Command({"find": name, "projection": {"_id": 1}, "limit": 1}),
        ]
        indexes[name] = {one["name"]: dict(one) for one in _checked(replies[0])["cursor"]["firstBatch"]}
        empty[name] = not _checked(replies[1])["cursor"]["firstBatch"]
    about = {
        "collections": {name: there[name] for name in names},
        "indexes": indexes,
        "empty": empty,
        "ours": record.get("collections", {}),
        "model": record.get("model"),
        "recorded": bool(record),
        "changing": record.get("changing"),
    }
    unfinished = record.get("changing") or _is_unsettled(record)
    return Catalog(record.get("hash"), record.get("lock"), about, UNFINISHED if unfinished else "")


def _is_unsettled(record: Document) -> bool:
    """Whether what the design on record reads is no longer there as it was."""
    return bool(record.get(_UNSETTLED)) or any(one.get(_UNSETTLED) for one in record.get("collections", {}).values())


def look(upkeep: str) -> Proc[Held]:
    """What the record says to a store that keeps this up."""
    body = {
        "find": RECORD_COLLECTION,
        "filter": {"_id": "design"},
        "projection": {"lock": 0},
        "limit": 1,
        "readConcern": {"level": "majority"},
    }
    (found,) = yield [Command(body)]
    record: Document = next(iter(_checked(found)["cursor"]["firstBatch"]), {})
    if not record or record.get("upkeep", upkeep) != upkeep:
        return Held(stop=OTHER_DESIGN)
    if _is_unsettled(record):
        return Held(stop=UNFINISHED)
    return Held(stop_writes=UNFINISHED if record.get("changing") else "")


def _checked(reply: Reply) -> Any:
    if isinstance(reply, KeyplanError):
        raise reply
    return reply


def signature(place: Place) -> str:
    """A hash of where everything lies in a collection's documents."""
    parts = [[part.slot.field, stored_type(part.slot.type), part.descending] for part in place.parts]
    slots = sorted([slot.path, slot.field, stored_type(slot.type)] for slot in place.slots.values())
    inside = sorted(
        [
            child.array,
            [slot.field for slot in child.own_key],
            sorted([s.path, s.field, stored_type(s.type)] for s in child.slots.values()),
            # Which rows of a subset there are depends on these as well.
            *([child.limit, child.own_ways, child.version] if child.limit is not None else []),
        ]
        for child in place.children.values()
    )
    told = [parts, slots, inside, *([sorted(place.words.items())] if place.words else [])]
    told += [[place.tag, *map(signature, place.beside.values())]] if place.tag else []
    told += [[place.array, place.own]] if place.packed else []
    told += (
        [sorted([name, slot.field, stored_type(slot.type)] for name, (_, slot) in place.totals.items())]
        if place.totals
        else []
    )
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


def changes(model: Model, design: Design, lock: str, upkeep: str, found: Catalog) -> tuple[Change, ...]:
    """The steps that make the database hold the design; none if it does already."""
    places = layout(model, design)
    about = found.found
    wanted = {place.collection: place for place in places.collections}
    ours: Mapping[str, Mapping[str, Any]] = about["ours"]
    there: Mapping[str, Mapping[str, Any]] = about["collections"]
    if about["model"] not in (None, model.name):
        raise DesignMismatchError(
            f"the database holds a design of the model '{about['model']}', not of '{model.name}'; name another database"
        )
    steps: list[Change] = []
    for name, place in wanted.items():
        _check_collection(name, place, about, home=_is_home(design, place))
    kept = {name: {"home": _is_home(design, place), "layout": signature(place)} for name, place in wanted.items()}
    record = Record(model, lock, upkeep, kept, found)
    for name in ours:
        if name in there and name not in wanted:
            home = bool(ours[name].get("home")) and not about["empty"].get(name, False)
            steps.append(DropCollection(name, record, home=home))
    for name, place in wanted.items():
        if name not in there:
            note = record if name not in ours and found.design_hash is not None else None
            steps.append(CreateCollection(place, note, home=_is_home(design, place), again=name in ours))
        elif there[name].get("validator") != validator(place):
            steps.append(ChangeValidator(place))
        steps += _index_steps(place, about["indexes"].get(name, {}), record)
    record.names = {place.view.name: name for name, place in wanted.items()}
    record.doubted = tuple(view for view, name in record.names.items() if ours.get(name, {}).get(_UNSETTLED))
    if not steps and not found.unfinished and found.lock == lock and found.design_hash == design_hash(lock):
        return ()
    return (*steps, record)


def lost(found: Catalog) -> str | None:
    """A collection of rows that is on record, and gone."""
    ours, there = found.found["ours"], found.found["collections"]
    gone = [name for name, about in ours.items() if about.get("home") and name not in there]
    return f"collection {gone[0]}" if gone else None


def index_definitions(place: Place) -> dict[str, Document]:
    """The indexes of a collection, by name, as `createIndexes` takes them."""
    found: dict[str, Document] = {}
    own = (index for one in place.together for index in one.indexes)
    for index in (*own, *([place.order] if place.order else [])):
        found[index.name] = index_definition(index)
    expiry = expiry_index(place)
    if expiry is not None:
        found[expiry["name"]] = expiry
    return found


def index_definition(index: Index) -> Document:
    definition: Document = {"key": index.fields, "name": index.name}
    if index.unique:
        definition["unique"] = True
    if index.partial:
        definition["partialFilterExpression"] = index.partial
    return definition


def _index_steps(place: Place, there: Mapping[str, Document], record: Record) -> list[Change]:
    wanted = index_definitions(place)
    steps: list[Change] = []
    new = [definition for name, definition in wanted.items() if name not in there or not _same(definition, there[name])]
    taken = [list(one["key"].items()) for one in new]
    for name, about in there.items():
        if name != "_id_" and (name not in wanted or not _same(wanted[name], about)):
            in_the_way = name in wanted or list(about["key"].items()) in taken
            steps.append(DropIndex(place.collection, name, record, in_the_way=in_the_way))
    if new:
        steps.append(CreateIndexes(place, new, there))
    return steps


def _same(wanted: Document, about: Document) -> bool:
    """Whether an index is as it is wanted; the order of its fields matters."""
    told = {name: _plain(value) for name, value in about.items() if name not in ("v", "ns", "background")}
    return told == _plain(wanted) and list(about["key"].items()) == list(wanted["key"].items())


def _plain(value: Any) -> Any:
    """A value of an index's definition as Python has it: the driver gives decimals in a class of its own."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.to_decimal() if hasattr(value, "to_decimal") else value


def _is_home(design: Design, place: Place) -> bool:
    return any(view == place.view.name for view, _ in design.homes.values())


def _not_ours(name: str, kind: str) -> DesignMismatchError:
    return DesignMismatchError(
        f"the database has a {kind} '{name}' that keyplan did not make; name another database, or rename it"
    )


def _check_collection(name: str, place: Place, about: Mapping[str, Any], *, home: bool) -> None:
    if name not in about["collections"]:
        return
    if about["empty"].get(name):
        return
    if name not in about["ours"]:
        raise _not_ours(name, "collection")
    if about["ours"][name].get("layout") != signature(place):
        raise DesignMismatchError(
            f"the documents of '{name}' are laid out for another design, and are not moved; "
            "load the rows into a new database, or open this one with the model it was made for"
        )
    before = about["collections"][name].get("validator", {})
    fresh = next(newly_required(before, validator(place)), None) if home and before else None
    if fresh is not None:
        raise DesignMismatchError(MAY_LACK.format(rows=name, field=fresh, remedy="load the rows into a new database"))
    gone = next(lost_values(before, validator(place)), None)
    if gone is not None:
        field, values = gone
        raise DesignMismatchError(
            f"the documents of '{name}' may have {', '.join(map(repr, values))} in '{field}', which the model no "
            "longer knows; leave it in the enum, or load the rows into a new database"
        )


class _Commands(Change):
    """Commands sent one after the other."""

    commands: tuple[Command, ...] = ()

    def run(self) -> Proc[None]:
        for command in self.commands:
            (reply,) = yield [command]
            _checked(reply)


class CreateCollection(Change):
    """A collection with its validator; noted as ours before it is filled, so that it is known after a crash."""

    def __init__(self, place: Place, record: Record | None, *, home: bool, again: bool) -> None:
        self._record = record
        emptied = f", empty: {GONE if home else LEFT_OUT}" if again else ""
        self.summary = f"create the collection {place.collection}{emptied}"
        self.fault, self.is_place, self.is_home = f"collection {place.collection} is missing", True, home
        body = {"create": place.collection, "validator": validator(place), "writeConcern": _MAJORITY}
        self._name = place.collection
        self._create = Command(body, (_EXISTS,))
        self._change = ChangeValidator(place)

    def run(self) -> Proc[None]:
        if self._record is not None:
            yield from self._record.noted(self._name)
        (reply,) = yield [self._create]
        if not _checked(reply):
            # Somebody who applies a design at the same time was faster, and the validator is his.
            yield from self._change.run()


class ChangeValidator(_Commands):
    """Another validator; documents that are there already are not looked at."""

    def __init__(self, place: Place) -> None:
        self.summary = f"change the validator of {place.collection}"
        self.fault = f"collection {place.collection} has another validator, or none"
        self.commands = (
            Command({"collMod": place.collection, "validator": validator(place), "writeConcern": _MAJORITY}),
        )


class CreateIndexes(Change):
    """Indexes of one collection, built together in one pass over it."""

    def __init__(self, place: Place, definitions: list[Document], there: Mapping[str, Document]) -> None:
        self._collection = place.collection
        self._names = [one["name"] for one in definitions]
        self.summary = f"create {_indexes(self._names)} of {place.collection}"
        faults = [f"index {name} is {'another' if name in there else 'missing'}" for name in self._names]
        self.fault = f"collection {place.collection}: {', '.join(faults)}"
        body = {"createIndexes": place.collection, "indexes": definitions, "writeConcern": _MAJORITY}
        self._command = Command(body)

    def run(self) -> Proc[None]:
        (reply,) = yield [self._command]
        if isinstance(reply, KeyplanError):
            cause: Any = reply.__cause__
            if getattr(cause, "code", None) == _DUPLICATE:
                raise DesignMismatchError(
                    f"{_indexes(self._names)} of '{self._collection}' cannot be built: rows have the same value where "
                    "the design wants each once; mend the rows, then apply again"
                )
            raise reply


def _indexes(names: list[str]) -> str:
    return f"the index{'es' if len(names) > 1 else ''} {', '.join(names)}"


class DropIndex(Change):
    """One index; the documents stay. It goes behind the record, since the design before it reads it, unless it is in
    the way of another one: then nobody opens the database until that is done."""

    def __init__(self, collection: str, name: str, record: Record, *, in_the_way: bool) -> None:
        self.summary = f"drop the index {name} of {collection}, which can be made again"
        body = {"dropIndexes": collection, "index": name, "writeConcern": _MAJORITY}
        self._command = Command(body, (_MISSING_INDEX,))
        self._record, self._in_the_way = record, in_the_way

    def run(self) -> Proc[None]:
        if not self._in_the_way:
            self._record.behind.append(self._command)
            return
        yield from self._record.unsettle_all()
        (reply,) = yield [self._command]
        _checked(reply)


class DropCollection(Change):
    """A collection that the design no longer has; it goes behind the record, since the design before it reads it."""

    takes_away = True

    def __init__(self, name: str, record: Record, *, home: bool) -> None:
        what = "with all its rows" if home else "whose rows can be made again"
        self.summary = f"drop the collection {name}, {what}"
        self.destructive = home
        self._name, self._record = name, record

    def run(self) -> Proc[None]:
        self._record.drops.append(self._name)
        return
        yield


class Record(Change):
    """Writes the design into the database, if nobody has written another one since, and drops what it no longer has.

    Collections that are to be dropped stay on record until they are gone."""

    summary = f"record the design in {RECORD_COLLECTION}"

    def __init__(self, model: Model, lock: str, upkeep: str, collections: Document, found: Catalog) -> None:
        self._found = found
        self._collections = collections
        self._body = {"model": model.name, "hash": design_hash(lock), "lock": lock, "upkeep": upkeep}
        self._before: list[Any] = [found.found["changing"], self._body["hash"]]
        """For which design the record may say that something is being filled."""
        self.drops: list[str] = []
        self.behind: list[Command] = []
        """What else is done when the design is on record."""
        self.names: Mapping[str, str] = {}
        """The collections, by view."""

    def unsettle(self, views: Sequence[str]) -> Proc[None]:
        if self._found.design_hash is not None:
            yield from self._note({f"collections.{self.names[view]}.{_UNSETTLED}": True for view in views})

    def unsettle_all(self) -> Proc[None]:
        """Notes that something the design on record reads is about to go."""
        if self._found.design_hash is not None:
            yield from self._note({_UNSETTLED: True})

    def noted(self, name: str) -> Proc[None]:
        """Adds a collection to those on record, whichever design is."""
        yield from self._note({f"collections.{name}": self._collections[name]})

    def _note(self, about: Mapping[str, Any]) -> Proc[None]:
        mine = self._body["hash"]
        query = {"_id": "design", "hash": self._found.design_hash, "changing": {"$in": self._before}}
        yield from self._update({"q": query, "u": {"$set": {**about, "changing": mine}}})
        self._before = [mine]

    def run(self) -> Proc[None]:
        yield from self._write({**{name: self._found.found["ours"][name] for name in self.drops}, **self._collections})
        if self.drops and self.waits:
            yield from until_noticed(self.told)  # some may have looked before, and read what they had
        drops = [Command({"drop": name, "writeConcern": _MAJORITY}, (_MISSING_COLLECTION,)) for name in self.drops]
        for command in (*self.behind, *drops):
            (reply,) = yield [command]
            _checked(reply)
        if self.drops:
            yield from self._write(self._collections)

    def _write(self, collections: Document) -> Proc[None]:
        mine = self._body["hash"]
        seen = {"hash": {"$in": [mine, self._found.design_hash or mine]}, "changing": {"$in": self._before}}
        update = {
            "q": {"_id": "design", "$or": [seen, {"hash": mine, "changing": None}]},  # or somebody was faster
            "u": {"$set": {**self._body, "collections": collections}, "$unset": {"changing": "", _UNSETTLED: ""}},
            "upsert": not self._found.found["recorded"],
        }
        yield from self._update(update)

    def _update(self, update: Document) -> Proc[None]:
        body = {"update": RECORD_COLLECTION, "updates": [update], "writeConcern": _MAJORITY}
        (reply,) = yield [Command(body)]
        done = _checked(reply)
        errors = done.get("writeErrors", ())
        if any(one.get("code") == _DUPLICATE for one in errors) or (not errors and done.get("n") == 0):
            raise ConflictError("another process is applying a different design to this database; look at it again")
        if errors:
            raise DesignMismatchError(f"the design cannot be recorded: {errors[0].get('errmsg')}")
