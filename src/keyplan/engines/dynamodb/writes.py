"""Edits as requests: one item by PutItem, UpdateItem or DeleteItem, several by one TransactWriteItems.

Every condition stands inside the request that changes the item. A transaction has a token, by which DynamoDB knows a
repetition. It returns no items, so that whoever wants some has to know them and have that tested.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

from keyplan.engines.dynamodb.conditions import Expression, test_holds, test_term
from keyplan.engines.dynamodb.faults import ConditionError
from keyplan.engines.dynamodb.fence import Fence, FencedRequest, OvertakenError
from keyplan.engines.dynamodb.keys import encode_timestamp
from keyplan.engines.dynamodb.layout import PK, SK, TTL, IndexKey, Item, Layout, Place, Slot
from keyplan.engines.dynamodb.limits import KB, LIMITS
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.dynamodb.oversize import SPLIT
from keyplan.engines.dynamodb.values import attribute_bytes, expiry_seconds, item_bytes
from keyplan.engines.rounds import Reply, Row
from keyplan.errors import (
    ConflictError,
    DesignError,
    EngineError,
    KeyplanError,
    OversizeError,
    RangeError,
    UnsupportedError,
    row_named,
)
from keyplan.model.entity import EXPIRES
from keyplan.model.values import add
from keyplan.plan.edits import Edit, Test

_SINGLE = {"put": "PutItem", "patch": "UpdateItem", "add": "UpdateItem", "delete": "DeleteItem"}
_TOGETHER = {"put": "Put", "patch": "Update", "add": "Update", "delete": "Delete", "check": "ConditionCheck"}
_MOST_INT = 2**63 - 1
_MOST_DIGITS = Decimal(10**18 - 1)
_MOST_FLOAT = Decimal("1e125")
ZERO = {"N": "0"}
_WIDE = Context(prec=38, rounding=ROUND_FLOOR)


@dataclass(slots=True)
class WriteRequest(Request):
    """Edits that are done together or not at all."""

    edits: Sequence[Edit] = ()
    places: Sequence[Place] = ()
    checks: Sequence[dict[str, Any]] = ()
    """What is checked besides, behind the edits."""

    def refused(self, error: EngineError) -> Reply:
        """What an error means for these edits: an error of ours, or a reply where nothing had to be done."""
        if isinstance(error, OversizeError):
            return too_large(self.places, self.edits, error, "nothing was written; ")
        if not isinstance(error, ConditionError):
            return error
        number = error.edit
        if number >= len(self.edits) or (self.checks and len(error.reasons) > 1 and error.reasons[-1].code != "None"):
            return OvertakenError()
        edit, place = self.edits[number], self.places[number]
        if len(self.edits) == 1 and _is_lenient(edit) and error.item is None:
            return {}
        return _refusal(edit, place, number, error.item)

    def float_reads(self) -> dict[int, Request]:
        """Reads of the items whose floats are added to, by edit."""
        return {
            number: _read(place, edit)
            for number, (place, edit) in enumerate(zip(self.places, self.edits, strict=True))
            if any(place.slots[path].type.kind == "float" for path in edit.adds)
        }

    def summed(self, items: Mapping[int, Item | None]) -> WriteRequest:
        """The same write with sums of floats worked out here, tested to be of the items as they were read.

        DynamoDB adds decimally and refuses sums that take more than 38 digits, such as 1e30 + 1e-30.
        """
        edits = list(self.edits)
        for number, item in items.items():
            edit, place = edits[number], self.places[number]
            if item is None:
                continue
            entry = place.decoder(tuple(place.slots))(item)
            values, adds, tests = dict(edit.values), dict(edit.adds), list(edit.tests)
            for path, amount in edit.adds.items():
                type = place.slots[path].type
                if type.kind == "float":
                    try:
                        values[path] = add(type, entry[path], adds.pop(path))
                    except OverflowError:
                        adds[path] = amount  # refused by the guard, which comes first
                        continue
                    tests.append(Test(path, "=", entry[path]))
            expect = "present" if edit.do == "add" else edit.expect
            edits[number] = replace(edit, do="patch", values=values, adds=adds, tests=tuple(tests), expect=expect)
        return compose(self.places, edits, self.checks)


@dataclass(slots=True)
class BulkRequest:
    """Puts and deletes of many items, in batches that the port sends at once and completes."""

    batches: list[list[dict[str, Any]]]
    edits: Sequence[Edit]
    place_of: Callable[[Edit], Place]

    def refused(self, error: EngineError) -> EngineError:
        """What an error means: if an item is too large, then the largest."""
        if not isinstance(error, OversizeError):
            return error
        return too_large([self.place_of(edit) for edit in self.edits], self.edits, error)


def _refusal(edit: Edit, place: Place, number: int, item: Item | None) -> KeyplanError:
    row = row_named(place.entity, edit.key)
    if edit.expect == "absent":
        return conflict(number, f"{row} exists already; give another key")
    if item is not None:
        beyond = _beyond(edit, place, place.decoder(tuple(place.slots))(item))
        if beyond is not None:
            return RangeError(f"{row}: '{beyond}' would leave the range of its type; nothing was written", edit=number)
    if edit.tests:
        return conflict(number, f"{row} is missing, or the condition of the write does not hold; read it again")
    return conflict(number, f"{row} does not exist; check its key")


def too_large(places: Sequence[Place], edits: Sequence[Edit], error: OversizeError, done: str = "") -> OversizeError:
    """The error for an item that is too large: which row it is of, and its largest values."""
    sizes = [_written_bytes(place, edit) for place, edit in zip(places, edits, strict=True)]
    number = error.edit
    if number is None or number >= len(edits):
        number = max(range(len(edits)), key=lambda one: sum(sizes[one].values()))
    edit, found = edits[number], sizes[number]
    most, total = LIMITS.item_bytes // KB, sum(found.values())
    largest = [path for path in sorted(found, key=lambda path: (-found[path], path))[:3] if found[path] * 10 > total]
    shown = ", ".join(f"'{path}' {found[path] / KB:,.0f} KB" for path in largest) or "its values"
    if edit.do == "put":
        why = f"its item would have {total / KB:,.0f} KB ({shown}), and dynamodb takes {most} KB"
    else:
        why = f"with {shown} its item would have more than the {most} KB that dynamodb takes"
    row = row_named(places[number].entity, edit.key)
    return OversizeError(f"{row}: {why}; {done}shorten them, or {SPLIT}", edit=number)


def _written_bytes(place: Place, edit: Edit) -> dict[str, int]:
    """What an edit writes, by path."""
    found = {path: place.slots[path].encode(value) for path, value in edit.values.items() if path in place.slots}
    return {
        path: attribute_bytes(place.slots[path].attribute, value) for path, value in found.items() if value is not None
    }


def conflict(edit: int, message: str) -> ConflictError:
    """A ConflictError that knows the number of its edit."""
    error = ConflictError(message)
    error.edit = edit  # type: ignore[attr-defined]
    return error


def _beyond(edit: Edit, place: Place, entry: Row) -> str | None:
    """The path whose sum would be out of range, if that and nothing else is why an edit was refused."""
    expires = entry.get(EXPIRES)
    if edit.alive_at is not None and expires is not None and expires <= edit.alive_at:
        return None
    if not all(test_holds(place, test, entry) for test in edit.tests):
        return None
    for path, amount in edit.adds.items():
        try:
            add(place.slots[path].type, entry[path], amount)
        except OverflowError:
            return path
    return None


def _is_lenient(edit: Edit) -> bool:
    """A patch of whatever is there: an absent item is not made."""
    return edit.do == "patch" and edit.expect == "any" and not edit.tests and edit.fresh is None


class Writer:
    """Edits to requests, for one layout."""

    def __init__(self, layout: Layout, fence: Fence | None = None) -> None:
        self._fence = fence
        self._places = layout.places
        self._decoders: dict[int, Callable[[Item], Row]] = {}

    def write(self, edits: Sequence[Edit]) -> WriteRequest:
        checks = [self._fence.check()] if self._fence is not None else ()
        return compose([self._place(edit) for edit in edits], edits, checks)

    def wrote(self, request: WriteRequest, reply: Reply) -> list[Row | None]:
        if isinstance(reply, Exception):
            raise reply
        outcome: list[Row | None] = [None] * len(request.edits)
        for number, edit in enumerate(request.edits):
            if not edit.returning:
                continue
            place = request.places[number]
            if edit.do == "put":
                outcome[number] = {path: edit.values.get(path) for path in place.slots}
                continue
            item = reply.get("Attributes")
            if item:
                outcome[number] = self._decoder(place)(item)
        return outcome

    def bulk(self, edits: Sequence[Edit]) -> list[BulkRequest]:
        """Puts and deletes; of several edits of one item the last one counts."""
        writes = [{f"{do}Request": body} for do, body in self._singly(edits)]
        size = LIMITS.batch_write_items
        batches = [writes[start : start + size] for start in range(0, len(writes), size)]
        return [BulkRequest(batches, edits, self._place)] if batches else []

    def bulk_behind(self, fence: Fence, edits: Sequence[Edit]) -> list[FencedRequest]:
        """The same in transactions that check whether they may."""
        sized = [({do: body}, sum(map(item_bytes, body.values()))) for do, body in self._singly(edits)]
        return [fence.writes(sized)] if sized else []

    def _singly(self, edits: Sequence[Edit]) -> list[tuple[str, dict[str, Any]]]:
        last: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
        for edit in edits:
            place = self._place(edit)
            if edit.do == "put":
                item = _item(place, edit)
                write = ("Put", {"Item": item})
            elif edit.do == "delete":
                item = place.key(edit.key)
                write = ("Delete", {"Key": item})
            else:
                raise UnsupportedError(f"dynamodb: no '{edit.do}' in bulk")
            last[item[PK]["S"], item[SK]["S"]] = write
        return list(last.values())

    def _place(self, edit: Edit) -> Place:
        place = self._places.get((edit.view, edit.at))
        if place is None or place.index is not None:
            raise UnsupportedError(f"view '{edit.view}': not kept in the table, so that nothing can be written to it")
        return place

    def _decoder(self, place: Place) -> Callable[[Item], Row]:
        found = self._decoders.get(id(place))
        if found is None:
            found = self._decoders[id(place)] = place.decoder(tuple(place.slots))
        return found


def compose(places: Sequence[Place], edits: Sequence[Edit], checks: Sequence[dict[str, Any]] = ()) -> WriteRequest:
    """The request that does all edits or none."""
    if not checks and len(edits) == 1 and edits[0].do != "check":
        edit = edits[0]
        body = operation(places[0], edit)
        if edit.returning and edit.do != "put":
            body["ReturnValues"] = "ALL_OLD" if edit.do == "delete" else "ALL_NEW"
        return WriteRequest(_SINGLE[edit.do], body, _is_repeatable(edit), edits, places)
    if len(edits) + len(checks) > LIMITS.transaction_items:
        raise UnsupportedError(f"dynamodb writes {LIMITS.transaction_items} items at once, not {len(edits)}")
    items = [{_TOGETHER[edit.do]: operation(place, edit)} for place, edit in zip(places, edits, strict=True)]
    body = {"TransactItems": [*items, *checks], "ClientRequestToken": secrets.token_hex(16)}
    if any(edit.returning and edit.do != "put" for edit in edits):
        raise UnsupportedError("dynamodb returns an item by a request of one edit alone")
    return WriteRequest("TransactWriteItems", body, True, edits, places, checks)


def _read(place: Place, edit: Edit) -> Request:
    return Request("GetItem", {"Key": place.key(edit.key), "ConsistentRead": True})


def _is_repeatable(edit: Edit) -> bool:
    """Whether doing an edit twice is the same as doing it once, its answer included."""
    if edit.adds or edit.tests or edit.returning or edit.do == "add":
        return False
    return edit.expect == "any" or (edit.do == "patch" and edit.expect == "present")


def operation(place: Place, edit: Edit) -> dict[str, Any]:
    """The body of a put, update, delete or check of one item."""
    use = Expression()
    body: dict[str, Any] = {}
    terms: list[str] = []
    if edit.do == "put":
        body["Item"] = _item(place, edit)
    else:
        body["Key"] = place.key(edit.key)
        if edit.do == "patch":
            _patch(place, edit, use, body, terms)
        elif edit.do == "add":
            _add(place, edit, use, body)
    terms = [*_expectations(place, edit, use), *terms]
    if terms:
        body["ConditionExpression"] = " AND ".join(terms)
        if edit.adds or _is_lenient(edit):
            body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    use.into(body)
    return body


def _item(place: Place, edit: Edit) -> dict[str, Any]:
    item: dict[str, Any] = place.key(edit.key)
    values = edit.values
    for path, slot in place.slots.items():
        if slot.high:
            item |= {name: each for name, each in slot.attributes(values.get(path)).items() if each is not None}
        elif (encoded := slot.encode(values.get(path))) is not None:
            item[slot.attribute] = encoded
    if place.expires:
        expires: Any = values.get(EXPIRES)
        if expires is not None:
            item[TTL] = {"N": str(expiry_seconds(expires))}
    for index in place.indexes:
        item |= _composed(place, index, values) or {}
    return item


def _composed(place: Place, index: IndexKey, entry: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    try:
        return index.compose(entry)
    except KeyError as missing:
        raise DesignError(
            f"view '{place.view.name}': the key in '{index.place.view.name}' depends on {missing}, "
            "which is not known here"
        ) from None


def _patch(place: Place, edit: Edit, use: Expression, body: dict[str, Any], terms: list[str]) -> None:
    sets: list[str] = []
    removes: list[str] = []

    def assign(attribute: str, value: dict[str, Any] | None) -> None:
        name = use.name(attribute)
        if value is None:
            removes.append(name)
        else:
            sets.append(f"{name} = {use.value(value)}")

    for path, value in edit.values.items():
        slot = place.slots[path]
        for attribute, encoded in slot.attributes(value).items():
            assign(attribute, encoded)
        if path == EXPIRES:
            moment: Any = value
            assign(TTL, None if moment is None else {"N": str(expiry_seconds(moment))})
    fresh = edit.fresh or {}
    changed = edit.values.keys() | edit.adds.keys()
    for path, value in fresh.items():
        # What a row that is there may lack is not filled in, so that this is of new ones only.
        slot = place.slots[path]
        made = slot.attributes(value) if path not in changed else {}
        if path == EXPIRES and made.get(slot.attribute) is not None:
            moment = value
            made[TTL] = {"N": str(expiry_seconds(moment))}
        for attribute, new in made.items():
            if new is not None:
                name = use.name(attribute)
                sets.append(f"{name} = if_not_exists({name}, {use.value(new)})")
    known = {**(edit.entry or {}), **fresh, **edit.values}
    keys: dict[str, dict[str, Any] | None] = {}
    for index in place.indexes:
        if not (index.paths & changed or edit.fresh is not None):
            continue
        # Views that share an index have the same attributes, and a row is in one of them at most: where it has no
        # entry, and had none, what stands there is another view's.
        composed = _composed(place, index, known)
        if composed is not None or edit.fresh is not None or not index.excludes(known, changed):
            keys = dict.fromkeys(index.attributes) | keys | (composed or {})
    for attribute, value_of in keys.items():
        assign(attribute, value_of)
    for path, amount in edit.adds.items():
        slot = place.slots[path]
        begins = slot.attributes(fresh.get(path))
        for attribute, number in slot.attributes(amount).items():
            start = begins[attribute]
            if number is not None or start is not None:
                name = use.name(attribute)
                first = use.value(start or ZERO)
                sets.append(f"{name} = if_not_exists({name}, {first}) + {use.value(number or ZERO)}")
        if not slot.total:
            terms += _guard(slot, use.name(slot.attribute), amount, use)
    actions = ([f"SET {', '.join(sets)}"] if sets else []) + ([f"REMOVE {', '.join(removes)}"] if removes else [])
    if actions:
        body["UpdateExpression"] = " ".join(actions)


def _add(place: Place, edit: Edit, use: Expression, body: dict[str, Any]) -> None:
    if edit.expect != "any" or edit.tests:
        raise UnsupportedError("dynamodb: an 'add' has no conditions")
    actions = []
    sums = [
        f"{use.name(attribute)} {use.value(number)}"
        for path, amount in edit.adds.items()
        for attribute, number in place.slots[path].attributes(amount).items()
        if number is not None
    ]
    if sums:
        actions.append(f"ADD {', '.join(sums)}")
    sets = []
    for path, value in edit.values.items():
        for attribute, encoded in place.slots[path].attributes(value).items():
            if encoded is not None:
                sets.append(f"{use.name(attribute)} = {use.value(encoded)}")
    if sets:
        actions.append(f"SET {', '.join(sets)}")
    if actions:
        body["UpdateExpression"] = " ".join(actions)


def _guard(slot: Slot, name: str, amount: Any, use: Expression) -> list[str]:
    """A condition under which a sum stays within its type."""
    number = Decimal(repr(amount)) if isinstance(amount, float) else Decimal(amount)
    if slot.type.kind == "int":
        low, high = Decimal(-_MOST_INT - 1), Decimal(_MOST_INT)
    elif slot.type.kind == "decimal":
        high = _MOST_DIGITS.scaleb(-slot.type.scale)
        low = -high
    else:
        low, high = -_MOST_FLOAT, _MOST_FLOAT
    if number == 0:
        return []
    limit = _WIDE.subtract(high if number > 0 else low, number)
    sign = "<=" if number > 0 else ">="
    if slot.type.kind == "float":
        sign = sign[0]
    term = f"{name} {sign} {use.value({'N': format(limit, 'f' if limit.adjusted() < 38 else 'e')})}"
    return [f"(attribute_not_exists({name}) OR {term})" if low <= number <= high else term]


def _expectations(place: Place, edit: Edit, use: Expression) -> list[str]:
    """The terms for whether the item is there, alive, and as the tests say."""
    moment = None
    if edit.alive_at is not None and place.expires:
        moment = {"S": encode_timestamp(edit.alive_at)}
    if edit.expect == "absent":
        if edit.tests or edit.do not in ("put", "check"):
            raise UnsupportedError(f"dynamodb: an item that must be absent cannot be tested or changed by '{edit.do}'")
        if moment is None:
            return [f"attribute_not_exists({PK})"]
        return [f"(attribute_not_exists({PK}) OR {use.name(EXPIRES)} <= {use.value(moment)})"]
    terms = []
    if edit.expect == "present" or edit.tests or edit.do in ("patch", "check"):
        if edit.fresh is None:
            terms.append(f"attribute_exists({PK})")
        if moment is not None:
            name = use.name(EXPIRES)
            terms.append(f"(attribute_not_exists({name}) OR {name} > {use.value(moment)})")
    terms += [test_term(place, test, use) for test in edit.tests]
    return terms
