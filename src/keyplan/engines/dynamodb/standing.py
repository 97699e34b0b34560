"""What stands in a table: the places of the design on record, told so that another design can be compared with them.

A place is told by where its items lie and what they hold, not by its name. Homes hold the rows and stay where they are;
everything else can be made again from them. So from one design to another

- places that are the same in both are kept,
- what only the new one has is filled from the rows, what only the old one had is deleted,
- a home may get and lose copies, and get fields that rows may lack; under another key, or with values of another type,
  it is refused; rows and values that the new one has no place for are only given up by whoever says so.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from keyplan.engines.changing import MAY_LACK
from keyplan.engines.dynamodb.layout import PK, RECORD_TAG, SK, Item, Layout, Place, attribute_name
from keyplan.errors import DesignMismatchError
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.plan.design import Design

REMEDY = "load them into a new table, or open this one with the design it holds"


@dataclass(frozen=True)
class Standing:
    """The items of one place, or its entries in an index."""

    view: str
    entity: str
    index: str | None
    prefixes: tuple[str, str]
    """What its partition key and its sort key begin with."""
    bare: tuple[bool, bool]
    """Whether that is all of them."""
    keys: str
    """What stands behind, in words that are the same for the same keys."""
    where: str
    slots: Mapping[str, str]
    """The attributes of values, with their types."""
    own: tuple[str, ...] = ()
    """Those of a home that nothing else tells: the row's own columns."""
    home: bool = False
    needs: tuple[str, ...] | None = None
    """Those of them that every row has; None in records of earlier versions, which do not tell."""
    filled: bool = True
    """Whether all rows have their entries, as far as is known."""

    @property
    def shape(self) -> object:
        """What is the same for places that are."""
        return (
            self.entity,
            self.index,
            self.prefixes,
            self.bare,
            self.keys,
            self.where,
            tuple(sorted(self.slots.items())),
        )

    def has(self, item: Item) -> bool:
        """Whether an item may be one of these, by its keys."""
        found = zip((item[PK]["S"], item[SK]["S"]), self.prefixes, self.bare, strict=True)
        return all(text == prefix if bare else text.startswith(prefix) for text, prefix, bare in found)


def standings(model: Model, design: Design, places: Layout) -> list[Standing]:
    """The places of a design."""
    homes = {(view, tuple(at)) for view, at in design.homes.values()}
    return [_standing(model, place, key in homes) for key, place in places.places.items()]


def _standing(model: Model, place: Place, home: bool) -> Standing:
    stored, columns = model.entities[place.entity].stored, model.entities[place.entity].columns

    def needed(path: str) -> bool:
        column = columns.get(path)
        return column is not None and not (column.optional or column.type.is_collection)

    codecs = (place.partition, place.sort)
    parts = [[part.type.kind, part.type.scale, part.descending] for codec in codecs for part in codec.parts]
    return Standing(
        place.view.name,
        place.entity,
        place.index,
        (place.partition.prefix, place.sort.prefix),
        (not place.partition.parts, not place.sort.parts),
        json.dumps([list(place.parts), parts, place.local, place.view.base, [str(one) for one in _native(place)]]),
        json.dumps([str(one) for one in place.view.where]),
        {slot.attribute: str(slot.type) for slot in place.slots.values()},
        tuple(slot.attribute for path, slot in place.slots.items() if path in stored) if home else (),
        home,
        tuple(slot.attribute for path, slot in place.slots.items() if home and path in stored and needed(path)),
    )


def _native(place: Place) -> Sequence[object]:
    return place.native.attributes if place.native is not None else ()


def told(found: Iterable[Standing]) -> str:
    """Places as text for the record."""
    return json.dumps([asdict(one) for one in found], separators=(",", ":"))


def heard(text: str) -> list[Standing]:
    """The places that a record tells of; none if it is of another version."""
    try:
        return [
            Standing(
                **{
                    **one,
                    **{name: tuple(one[name]) for name in ("prefixes", "bare", "own")},
                    "needs": None if one.get("needs") is None else tuple(one["needs"]),
                }
            )
            for one in json.loads(text)
        ]
    except (ValueError, TypeError, KeyError):
        return []


@dataclass(frozen=True)
class Moves:
    """What lies between what stands in a table and what a design wants."""

    fills: tuple[str, ...]
    """The views whose entries, or copies, have to be made from the rows."""
    fresh: tuple[str, ...]
    """Those of them that nothing has ever been written to here."""
    clears: tuple[Standing, ...]
    """Places whose items go."""
    strips: Mapping[tuple[str, str], frozenset[str]]
    """Attributes that items of a home lose, by its prefixes."""
    values_lost: tuple[str, ...]
    """The columns among the attributes."""
    refills: bool
    """Whether items have to get other keys of index entries."""
    meanwhile: tuple[Standing, ...]
    """What has to be taken into account until all is done: everything that may stand there."""
    takes_away: bool = False
    """Whether anything goes that the design on record reads."""

    @property
    def any(self) -> bool:
        return bool(self.fills or self.clears or self.strips or self.refills)


NOTHING = Moves((), (), (), {}, (), False, ())


def moves(model: Model, there: Sequence[Standing], wanted: Sequence[Standing]) -> Moves:
    """Compares what stands in a table with what a design wants; refuses to move rows."""
    known = {one.shape: one for one in there}
    homes = {one.entity: one for one in there if one.home}
    fills: dict[str, None] = {}
    strips: dict[tuple[str, str], frozenset[str]] = {}
    lost: list[str] = []
    kept: list[Standing] = []
    for one in wanted:
        before = homes.get(one.entity)
        if one.home and before is not None:
            fresh, gone = _home_moves(model, before, one)
            if fresh or not before.filled:
                fills[one.view] = None
            if gone:
                strips[one.prefixes] = frozenset(gone)
                lost += [f"{one.entity}.{name}" for name in gone if name in before.own]
            kept.append(
                replace(
                    before,
                    slots={**before.slots, **one.slots},
                    own=tuple(name for name in before.own if name not in gone),
                    needs=None if before.needs is None else tuple(n for n in before.needs if n in (one.needs or ())),
                    filled=not fresh and not gone and before.filled,
                )
            )
        elif one.home or one.index is not None or before is None:
            continue  # without rows, there is nothing to make entries from
        elif not (one.shape in known and known[one.shape].filled):
            fills[one.view] = None
    shapes = {one.shape for one in wanted if not one.home}
    # What goes is no longer whole as soon as it begins to go: whoever wants it after a crash has to fill it again.
    others = [replace(one, filled=False) for one in there if not one.home and one.shape not in shapes]
    left = {one.entity for one in wanted if one.home}
    gone_homes = [one for one in homes.values() if one.entity not in left]
    clears = (*(one for one in others if one.index is None), *gone_homes)
    whole = {one.shape for one in there if one.index is not None and one.filled}
    refills = any(one.index is not None for one in others) or not whole.issuperset(
        one.shape for one in wanted if one.index is not None
    )
    fresh_ones = [replace(one, home=False, filled=False) for one in wanted if not (one.home and one.entity in homes)]
    entering = [one for one in fresh_ones if one.shape not in known]
    same = [one for one in there if not one.home and one.shape in shapes]
    return Moves(
        tuple(fills),
        tuple(name for name in fills if all(one in entering for one in fresh_ones if one.view == name))
        if homes
        else (),
        clears,
        strips,
        tuple(lost),
        refills,
        (*kept, *gone_homes, *same, *others, *entering),
        bool(others or gone_homes or strips),
    )


def _home_moves(model: Model, before: Standing, after: Standing) -> tuple[list[str], list[str]]:
    """The copies that a home gets, and the attributes that it loses."""
    where = f"the rows of '{after.entity}'"
    if (before.prefixes, before.bare, before.keys) != (after.prefixes, after.bare, after.keys):
        raise DesignMismatchError(f"{where} lie under other keys than this design has, and are not moved; {REMEDY}")
    for name, type in after.slots.items():
        if name in before.slots and not _holds(before.slots[name], type):
            raise DesignMismatchError(
                f"{where} have {before.slots[name]} in '{name}', and this design wants {type}; {REMEDY}"
            )
    if (EXPIRES in before.own) != (EXPIRES in after.own):
        does = "do not expire" if EXPIRES in after.own else "expire"
        raise DesignMismatchError(f"{where} that are there {does}, other than this design wants; {REMEDY}")
    columns = {attribute_name(name): column for name, column in model.entities[after.entity].columns.items()}
    for name in after.own:
        column = columns.get(name)
        if name not in before.own and column is not None and not (column.optional or column.type.is_collection):
            raise DesignMismatchError(
                f"{where} have no '{name}', which every row has in this design; make it optional, or {REMEDY}"
            )
    if before.needs is not None:
        for name in after.needs or ():
            if name in before.own and name not in before.needs:
                raise DesignMismatchError(MAY_LACK.format(rows=after.entity, field=name, remedy=REMEDY))
    fresh = [name for name in after.slots if name not in before.slots and name not in after.own]
    return fresh, [name for name in before.slots if name not in after.slots]


def _holds(before: str, after: str) -> bool:
    """Whether values of a type are values of another one as they are stored."""
    if before.startswith("enum(") and after.startswith("enum("):
        return set(before[5:-1].split(", ")) <= set(after[5:-1].split(", "))
    return before == after


def of_cleared(items: Iterable[Item], clears: Collection[Standing], others: Collection[Standing]) -> list[Item]:
    """The items that belong to places which go: by the longest beginning of their keys, as that of no other place."""
    places = [one for one in (*clears, *others) if one.index is None]
    found = []
    for item in items:
        if item[PK]["S"] == RECORD_TAG:
            continue
        mine = [one for one in places if one.has(item)]
        longest = max((_length(one) for one in mine), default=0)
        mine = [one for one in mine if _length(one) == longest]
        # Nothing stands yet in an unfilled place as long as the record tells of another one under the same keys.
        if any(one in clears for one in mine) and not any(one.filled for one in mine if one in others):
            found.append(item)
    return found


def _length(one: Standing) -> int:
    return sum(map(len, one.prefixes))
