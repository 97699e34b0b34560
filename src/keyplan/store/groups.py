"""Groups: what a row adds to the counters that it joins, stays in and leaves, and their minima and maxima."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from keyplan.engines.base import Proc
from keyplan.errors import DesignError
from keyplan.plan.edits import Edit, Test
from keyplan.plan.terms import minus, plus
from keyplan.plan.view import COUNT, VERSION
from keyplan.store.changes import RowChange, Work
from keyplan.store.places import Place
from keyplan.store.rows import Key, entries_at

if TYPE_CHECKING:
    from keyplan.store.mutate import Mutator


class Groups:
    """The views with measures of one design."""

    def __init__(self, mutator: Mutator) -> None:
        self.mutator = mutator
        self.model, self.places, self.reader = mutator.model, mutator.places, mutator.reader
        self.extreme_names: dict[tuple[str, str], str] = {}
        """(view, measure) to min or max, for those that are extended and not added to."""
        for found in self.places.of.values():
            for place in found:
                for measure, _ in place.measures:
                    if measure.how in ("min", "max"):
                        self.extreme_names[place.view.name, measure.name] = measure.how
                if place.extremes:
                    self.group_role(place)

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
            if place.extremes:
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
        for measure, _ in place.measures:
            if measure.how not in ("min", "max"):
                continue
            name = measure.name
            before, after = (lost or {}).get(name), (gained or {}).get(name)
            if after is not None and (before is None or (after <= before if measure.how == "min" else after >= before)):
                result.adds[name] = after
            elif before is not None:
                yield from self.recompute(work, change, place, key, result, gained)
                return result
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
        role = self.group_role(place)
        (group,) = yield from entries_at(self.reader.executor.codec, place, [key], (VERSION,))
        (rows,) = yield from self.reader.pointing_at(change.entity, role, [key], work.world.now)
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
        result.adds.clear()
        for measure, _ in place.measures:
            if measure.how in ("min", "max"):
                values = [one[measure.name] for one in found if measure.name in one]
                pick: Any = min if measure.how == "min" else max
                result.values[measure.name] = pick(values, default=None)
        result.tests = (Test(VERSION, "=", group[VERSION] if group is not None else 0),)

    def group_role(self, place: Place) -> str:
        """The reference by which a view with minima or maxima is grouped."""
        if all(measure.name != VERSION for measure, _ in place.measures):
            raise DesignError(f"view '{place.view.name}' keeps a minimum or maximum without counting its changes")
        paths = tuple(part.path for part in place.key.parts)
        for role in self.model.entities[place.entity].roles.values():
            if not role.many and role.columns == paths:
                return role.name
        raise DesignError(
            f"view '{place.view.name}' keeps a minimum or maximum by {', '.join(paths)}; "
            "only by a reference can it be kept true"
        )


@dataclass
class _Extremes:
    adds: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    tests: tuple[Test, ...] = ()
