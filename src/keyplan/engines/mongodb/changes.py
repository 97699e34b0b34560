"""What a database holds against what the design wants, and the steps from one to the other.

MongoDB changes schemas one command at a time, so every step can be repeated, and the record of the design comes last
(`record.py`): an apply that was cut off is done again from the start. What only the design before it reads goes behind
the record. Whoever applies a design claims the database first, and looks at it again: from then on, nobody else changes
it (`fence.py`). That collections have to be filled, or will go, is noted with that, so that nobody opens the database,
or goes on writing to it, until a design is recorded; a collection that will hold other documents under the same name is
noted as such, and the database is not read either. The same is noted where a collection without documents is taken over
from another design: behind the notice it is looked at again, so that what stores have written until then is seen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from keyplan.engines.changing import GONE, LEFT_OUT, MAY_LACK, Catalog, Change
from keyplan.engines.mongodb.fence import Fence
from keyplan.engines.mongodb.layout import RECORD_COLLECTION, Index, Place, layout
from keyplan.engines.mongodb.operations import Command
from keyplan.engines.mongodb.record import (
    GOING,
    MAJORITY,
    UNSETTLED,
    Claim,
    Record,
    checked,
    done,
    facts,
    find_record,
    unfinished,
)
from keyplan.engines.mongodb.schema import expiry_index, lost_values, newly_required, stored_type, validator
from keyplan.engines.mongodb.values import Document
from keyplan.engines.rounds import Proc
from keyplan.errors import DesignMismatchError, KeyplanError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.lockfile import design_hash

_EXISTS, _MISSING_INDEX, _MISSING_COLLECTION = 48, 27, 26
_DUPLICATE = 11000


def inspect(model: Model, design: Design) -> Proc[Catalog]:
    """The collections and indexes there are, and the design on record."""
    wanted = {place.collection: place for place in layout(model, design).collections}
    there = yield from _collections(wanted, names_only=False)
    record = yield from _record(there)
    about = facts(record)
    names = [name for name in dict.fromkeys([*about["ours"], *wanted]) if name in there]
    about["collections"] = {name: there[name].get("options", {}) for name in names}
    against = _objections(design, wanted, about)
    indexes: dict[str, dict[str, Document]] = {}
    empty: dict[str, bool] = {}
    for name in names:
        # Whether it has documents matters only where they would be in the way.
        looks = name not in wanted or against.get(name) is not None
        listed, *found = yield [_list_indexes(name), *([_first_of(name)] if looks else [])]
        indexes[name] = _listed(checked(listed))
        if looks:
            empty[name] = not checked(found[0])["cursor"]["firstBatch"]
    about |= {"indexes": indexes, "empty": empty}
    return Catalog(record.get("hash"), record.get("lock"), about, unfinished(record))


def glance(model: Model, design: Design) -> Proc[Catalog]:
    """The names of collections, and the design on record: two requests, however many collections there are."""
    there = yield from _collections([place.collection for place in layout(model, design).collections], names_only=True)
    record = yield from _record(there)
    about = facts(record)
    about["collections"] = {name: {} for name in about["ours"] if name in there}
    return Catalog(record.get("hash"), record.get("lock"), about, unfinished(record))


def _collections(wanted: Collection[str], *, names_only: bool) -> Proc[dict[str, Document]]:
    """What the server says of each collection there is."""
    body = {"listCollections": 1, "cursor": {"batchSize": 10_000}, **({"nameOnly": True} if names_only else {})}
    (listed,) = yield [Command(body)]
    all_there = checked(listed)["cursor"]["firstBatch"]
    there = {one["name"]: one for one in all_there if one.get("type") == "collection"}
    for one in all_there:  # views and time series are no collections that documents can be kept in
        if one["name"] in wanted and one["name"] not in there:
            raise _not_ours(one["name"], one.get("type", "view"))
    return there


def _record(there: Collection[str]) -> Proc[Document]:
    return (yield from find_record()) if RECORD_COLLECTION in there else {}


def _first_of(collection: str) -> Command:
    """Finds any one document."""
    return Command({"find": collection, "projection": {"_id": 1}, "limit": 1})


def _list_indexes(collection: str) -> Command:
    return Command({"listIndexes": collection, "cursor": {"batchSize": 1000}}, (_MISSING_COLLECTION,))


def _listed(reply: Any) -> dict[str, Document]:
    """Indexes by name; none where the collection has just been dropped."""
    return {one["name"]: dict(one) for one in reply["cursor"]["firstBatch"]} if reply else {}


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
    outdated = _outdated(wanted, about)
    against = _objections(design, wanted, about)
    for name, objection in against.items():
        if objection is not None and not about["empty"].get(name):
            raise objection
    kept = {name: {"home": _is_home(design, place), "layout": signature(place)} for name, place in wanted.items()}
    record = Record(model, lock, upkeep, kept, found)
    if found.lock != lock and any(against[name] is not None for name in against.keys() & about["kept"].keys()):
        # It takes any design as long as it has no documents, but open stores may write the first of them at any moment.
        record.replaces = record.takes_away = True
    steps: list[Change] = []
    for name in ours:
        if name in there and name not in wanted:
            home = bool(ours[name].get("home")) and not about["empty"].get(name, False)
            steps.append(DropCollection(name, record, home=home, used=name in about["kept"]))
    record.outdated = outdated
    for name, place in wanted.items():
        if name in outdated:
            steps.append(Discard(name, record))
        if name not in there or name in outdated:
            again = name in about["kept"] and not about["kept"][name].get(GOING)
            steps.append(CreateCollection(place, record.fence, home=_is_home(design, place), again=again))
        elif there[name].get("validator") != validator(place):
            steps.append(ChangeValidator(place, record.fence))
        before = {} if name in outdated else about["indexes"].get(name, {})
        steps += _index_steps(place, before, record, recorded=found.design_hash is not None)
    record.names = {place.view.name: name for name, place in wanted.items()}
    record.doubted = tuple(view for view, name in record.names.items() if ours.get(name, {}).get(UNSETTLED))
    gone = about["kept"].keys() - wanted.keys()  # dropped by an `apply` that was cut off before it could say so
    same = found.lock == lock and found.design_hash == design_hash(lock)
    if not steps and not gone and not found.unfinished and same:
        return ()
    return (Claim(record), *steps, record)


def _outdated(wanted: Mapping[str, Place], about: Mapping[str, Any]) -> set[str]:
    """Collections that an `apply` which has not come to its end makes, or has made, for another design.

    By what the record says of them, not by what is there: of several who apply the same design, each has to see what
    has to go until that is done."""
    return {
        name
        for name, place in wanted.items()
        if name in about["ours"]
        and name not in about["kept"]
        and not about["ours"][name].get("home")
        and about["ours"][name].get("layout") != signature(place)
    }


def _objections(
    design: Design, wanted: Mapping[str, Place], about: Mapping[str, Any]
) -> dict[str, DesignMismatchError | None]:
    """What speaks against each collection that is there, and is to stay."""
    outdated = _outdated(wanted, about)
    return {
        name: _objection(name, place, about, home=_is_home(design, place))
        for name, place in wanted.items()
        if name in about["collections"] and name not in outdated
    }


def lost(found: Catalog) -> str | None:
    """A collection of rows that is on record, and gone."""
    kept, there = found.found["kept"], found.found["collections"]
    gone = [name for name, about in kept.items() if about.get("home") and not about.get(GOING) and name not in there]
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


def _index_steps(place: Place, there: Mapping[str, Document], record: Record, *, recorded: bool) -> list[Change]:
    wanted = index_definitions(place)
    steps: list[Change] = []
    new = [definition for name, definition in wanted.items() if name not in there or not _same(definition, there[name])]
    in_the_way = _in_the_way(new, there)
    for name, about in there.items():
        if name != "_id_" and (name not in wanted or not _same(wanted[name], about)):
            steps.append(DropIndex(place.collection, name, record, first=name in in_the_way))
            if name in in_the_way and recorded:
                record.replaces = steps[-1].takes_away = True
    if new:
        steps.append(CreateIndexes(place, new, there, record.fence))
    return steps


def _in_the_way(new: Sequence[Document], there: Mapping[str, Document]) -> list[str]:
    """The indexes that have to go before others can be made: they have the name of one, or its fields."""
    names, fields = {one["name"] for one in new}, [list(one["key"].items()) for one in new]
    return [name for name, about in there.items() if name in names or list(about["key"].items()) in fields]


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


def _objection(name: str, place: Place, about: Mapping[str, Any], *, home: bool) -> DesignMismatchError | None:
    """Why documents that are there, or that stores of the design on record write, cannot stay, if that is so."""
    if name not in about["ours"]:
        return _not_ours(name, "collection")
    if about["ours"][name].get("layout") != signature(place):
        return DesignMismatchError(
            f"the documents of '{name}' are laid out for another design, and are not moved; "
            "load the rows into a new database, or open this one with the model it was made for"
        )
    before = about["collections"][name].get("validator", {})
    fresh = next(newly_required(before, validator(place)), None) if home and before else None
    if fresh is not None:
        return DesignMismatchError(MAY_LACK.format(rows=name, field=fresh, remedy="load the rows into a new database"))
    gone = next(lost_values(before, validator(place)), None)
    if gone is not None:
        field, values = gone
        return DesignMismatchError(
            f"the documents of '{name}' may have {', '.join(map(repr, values))} in '{field}', which the model no "
            "longer knows; leave it in the enum, or load the rows into a new database"
        )
    return None


class Discard(Change):
    """A collection that is made anew; it goes at once, since no design on record reads it. From then on the record says
    that it is this design's, by another token: whoever has come as far for the same design must not drop it again."""

    def __init__(self, name: str, record: Record) -> None:
        self.summary = f"drop the collection {name}, if an 'apply' of another design has begun to fill it"
        self._drop = Command({"drop": name, "writeConcern": MAJORITY}, (_MISSING_COLLECTION,))
        self._name, self._record = name, record

    def run(self) -> Proc[None]:
        yield from self._record.fence.held(lambda: done(self._drop))
        yield from self._record.take_over(self._name)


class CreateCollection(Change):
    """A collection with its validator."""

    def __init__(self, place: Place, fence: Fence, *, home: bool, again: bool) -> None:
        self._fence = fence
        emptied = f", empty: {GONE if home else LEFT_OUT}" if again else ""
        self.summary = f"create the collection {place.collection}{emptied}"
        self.fault, self.is_place, self.is_home = f"collection {place.collection} is missing", True, home
        body = {"create": place.collection, "validator": validator(place), "writeConcern": MAJORITY}
        self._create = Command(body, (_EXISTS,))
        self._change = _set_validator(place)

    def run(self) -> Proc[None]:
        yield from self._fence.held(self._make)

    def _make(self) -> Proc[None]:
        (reply,) = yield [self._create]
        if not checked(reply):
            # Somebody who applies the same design was faster, or the validator is another one.
            yield from done(self._change)


class ChangeValidator(Change):
    """Another validator; documents that are there already are not looked at."""

    def __init__(self, place: Place, fence: Fence) -> None:
        self.summary = f"change the validator of {place.collection}"
        self.fault = f"collection {place.collection} has another validator, or none"
        self._change = _set_validator(place)
        self._fence = fence

    def run(self) -> Proc[None]:
        yield from self._fence.held(lambda: done(self._change))


def _set_validator(place: Place) -> Command:
    return Command({"collMod": place.collection, "validator": validator(place), "writeConcern": MAJORITY})


class CreateIndexes(Change):
    """Indexes of one collection, built together in one pass over it; those that are in the way go with the same step,
    so that of two who apply the same design none drops what the other one has made."""

    def __init__(self, place: Place, definitions: list[Document], there: Mapping[str, Document], fence: Fence) -> None:
        self._collection = place.collection
        self._definitions = definitions
        self._names = [one["name"] for one in definitions]
        self._fence = fence
        self.summary = f"create {_indexes(self._names)} of {place.collection}"
        faults = [f"index {name} is {'another' if name in there else 'missing'}" for name in self._names]
        self.fault = f"collection {place.collection}: {', '.join(faults)}"
        self._command = Command({"createIndexes": place.collection, "indexes": definitions, "writeConcern": MAJORITY})

    def run(self) -> Proc[None]:
        yield from self._fence.held(self._make)

    def _make(self) -> Proc[None]:
        (listed,) = yield [_list_indexes(self._collection)]
        there = _listed(checked(listed))
        new = [one for one in self._definitions if not _same(one, there.get(one["name"], {"key": {}}))]
        yield from done(*(_drop_index(self._collection, name) for name in _in_the_way(new, there)))
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


def _drop_index(collection: str, name: str) -> Command:
    body = {"dropIndexes": collection, "index": name, "writeConcern": MAJORITY}
    return Command(body, (_MISSING_INDEX, _MISSING_COLLECTION))


class DropIndex(Change):
    """One index; the documents stay. It goes behind the record, since the design before it reads it, unless it is in
    the way of another one: then nobody opens the database until that is done, and it goes as that is made."""

    def __init__(self, collection: str, name: str, record: Record, *, first: bool) -> None:
        self.summary = f"drop the index {name} of {collection}, which can be made again"
        self._command = _drop_index(collection, name)
        self._record, self._first = record, first

    def run(self) -> Proc[None]:
        if not self._first:
            self._record.behind.append(self._command)
        return
        yield


class DropCollection(Change):
    """A collection that the design no longer has; it goes behind the record, since the design before it reads it."""

    def __init__(self, name: str, record: Record, *, home: bool, used: bool) -> None:
        """`used`: by stores of the design on record."""
        what = "with all its rows" if home else "whose rows can be made again"
        self.summary = f"drop the collection {name}, {what}"
        self.destructive = home
        self.takes_away = used
        self._name, self._record = name, record

    def run(self) -> Proc[None]:
        self._record.drops.append(self._name)
        return
        yield
