"""Groups: what a row adds to the counters that it joins, stays in and leaves, and their minima and maxima."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from keyplan.engines.base import Proc
from keyplan.errors import DesignError
from keyplan.plan.edits import Edit, Test
from keyplan.plan.terms import minus, plus
from keyplan.plan.view import COUNT, VERSION
from keyplan.store.changes import RowChange, Work
from keyplan.store.places import Place
from keyplan.store.pump import gather
from keyplan.store.rows import Key

if TYPE_CHECKING:
    from keyplan.store.mutate import Mutator


class Groups:
    """The views with measures of one design."""

    def __init__(self, mutator: Mutator) -> None:
        self.mutator = mutator
        self.model, self.places, self.reader = mutator.model, mutator.places, mutator.reader
        self.named: dict[str, Place] = {}
        """The places of groups, by view."""
        self.extreme_names: dict[tuple[str, str], str] = {}
        """(view, measure) to min or max, for those that are extended and not added to."""
        for found in self.places.of.values():
            for place in found:
                if place.measures:
                    self.named[place.view.name] = place
                for measure, _ in place.measures:
                    if measure.how in ("min", "max"):
                        self.extreme_names[place.view.name, measure.name] = measure.how
                if place.view.recomputed and all(measure.name != VERSION for measure, _ in place.measures):
                    raise DesignError(
                        f"view '{place.view.name}' keeps a minimum or maximum without counting its changes"
                    )

    def edit_groups(self, work: Work, number: int, change: RowChange, place: Place) -> Proc[None]:
        """What a row adds to the groups it joins, stays in and leaves."""
        needed = self.mutator.copies_needed(place, change)
        amounts: dict[Key, dict[str, Any]] = {}
        lost: dict[Key, dict[str, Any]] = {}
        gained: dict[Key, dict[str, Any]] = {}
        for row, sign, side in (
            (self.mutator.row_for(work, place, change, False, needed), -1, lost),
            (self.mutator.row_for(work, place, change, True, needed), 1, gained),
        ):
            for key in place.keys(row) if row is not None else ():
                assert row is not None
                found = place.amounts(row)
                side[key] = found
                sums = amounts.setdefault(key, {})
                for name, value in found.items():
                    if name != VERSION and self.how(place, name) in ("count", "sum"):
                        sums[name] = plus(sums.get(name, 0), value if sign > 0 else minus(value))
        for key, sums in amounts.items():
            adds = {name: value for name, value in sums.items() if value != 0}
            values: dict[str, Any] = {}
            tests: tuple[Test, ...] = ()
            if place.extremes:
                extremes = yield from self.extremes(work, change, place, key, lost.get(key), gained.get(key))
                adds |= extremes.adds
                values, tests = extremes.values, extremes.tests
            if not adds and not values:
                continue
            if place.view.recomputed:
                adds[VERSION] = 1
            if needed and change.new is not None:
                copies = self.mutator.touched(work, place, change)
                work.check_sources(self.places, copies, change.entity, change.new, True, number)
            do = "patch" if values else "add"
            work.edits.append(Edit(place.view.name, do, key, place.at, values, adds, tests=tests, row=number))

    def how(self, place: Place, name: str) -> str:
        return "count" if name == COUNT else next(one.how for one, _ in place.measures if one.name == name)

    def extremes(
        self,
        work: Work,
        change: RowChange,
        place: Place,
        key: Key,
        lost: Mapping[str, Any] | None,
        gained: Mapping[str, Any] | None,
    ) -> Proc[_Extremes]:
        """Minima and maxima: one that comes extends them, one that goes may need all the others to be read."""
        result = _Extremes()
        lost_one = False
        for measure, _ in place.measures:
            if measure.how not in ("min", "max"):
                continue
            name = measure.name
            if measure not in place.view.recomputed:
                if (gained or {}).get(name) is not None:
                    result.adds[name] = (gained or {})[name]
                continue
            before, after = (lost or {}).get(name), (gained or {}).get(name)
            if after is not None and (before is None or (after <= before if measure.how == "min" else after >= before)):
                result.adds[name] = after
            elif before is not None:
                lost_one = True
        if lost_one:
            yield from self.recompute(work, change, place, key, result, gained)
        return result

    def recompute(
        self,
        work: Work,
        change: RowChange,
        place: Place,
        key: Key,
        result: _Extremes,
        gained: Mapping[str, Any] | None,
    ) -> Proc[None]:
        """Reads the rows of a group, and sets its minima and maxima anew if none of them has changed since.

        A change may leave the group as it is: 30 that becomes 40 below a maximum of 50. So each is counted.
        """
        lasting = [measure for measure in place.view.extended if measure not in place.view.recomputed]
        takes = (VERSION, *(measure.name for measure in lasting))
        (group,) = yield from self.reader.entries(place, [key], takes)
        rows = yield from self.reader.of_group(place, key, work.world.now)
        entity = self.model.entities[change.entity]
        found = []
        for row in rows:
            row_key = tuple(row[column] for column in entity.key)
            if row_key == change.key:
                continue
            # Others of the same call as they will be: they may go as well, or have another value.
            _, new = work.world.changed.get((change.entity, row_key), (row, row))
            after = None if new is None else {**row, **new}
            if after is not None and key in place.keys(after):
                found.append(place.amounts(after))
        if gained is not None:
            found.append(dict(gained))
        for measure in place.view.recomputed:
            result.adds.pop(measure.name, None)
            values = [one[measure.name] for one in found if measure.name in one]
            pick: Any = min if measure.how == "min" else max
            result.values[measure.name] = pick(values, default=None)
        for measure in lasting:
            moments = [(group or {}).get(measure.name), result.adds.pop(measure.name, None)]
            pick = min if measure.how == "min" else max
            result.values[measure.name] = pick([moment for moment in moments if moment is not None], default=None)
        result.tests = (Test(VERSION, "=", group[VERSION] if group is not None else 0),)

    def has(self, edit: Edit) -> bool:
        """Whether an edit is one of a group."""
        return edit.view in self.named

    def extended(self, edits: list[Edit]) -> Proc[list[Edit]]:
        """The edits, for an engine that extends no minimum or maximum by itself: the groups are read, and what is said
        of their least and greatest values is tested by the write."""
        if self.reader.executor.codec.extends:
            return edits
        names = {
            number: [name for name in edit.adds if (edit.view, name) in self.extreme_names]
            for number, edit in enumerate(edits)
        }
        asked = [number for number, some in names.items() if some]
        entries = yield from gather(
            [self.reader.entries(self.named[edits[n].view], [edits[n].key], names[n]) for n in asked]
        )
        changed = list(edits)
        for number, (entry,) in zip(asked, entries, strict=True):
            changed[number] = self.beyond(edits[number], names[number], entry)
        return changed

    def beyond(self, edit: Edit, names: Sequence[str], entry: Mapping[str, Any] | None) -> Edit:
        """An edit of a group by what the group is now."""
        if entry is None:
            return replace(edit, do="put", values={**edit.values, **edit.adds}, adds={}, expect="absent")
        adds, values, tests = dict(edit.adds), dict(edit.values), list(edit.tests)
        for name in names:
            value, known = adds.pop(name), entry[name]
            least = self.extreme_names[edit.view, name] == "min"
            if known is not None and (known <= value if least else known >= value):
                tests.append(Test(name, "<=" if least else ">=", value))
            else:
                values[name] = value
                tests.append(Test(name, "=", known))
        return replace(edit, do="patch", adds=adds, values=values, tests=tuple(tests), expect="present")


@dataclass
class _Extremes:
    adds: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    tests: tuple[Test, ...] = ()
