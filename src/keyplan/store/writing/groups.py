"""Groups: what a row adds to the counters that it joins, stays in and leaves, and their minima and maxima."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from keyplan.engines.rounds import Proc
from keyplan.errors import DesignError
from keyplan.plan.edits import Edit, Test
from keyplan.plan.terms import minus, plus
from keyplan.plan.view import COUNT, VERSION, Measure
from keyplan.store.pump import gather
from keyplan.store.writing.changes import RowChange, Turnover, Work
from keyplan.store.writing.places import Place
from keyplan.store.writing.rows import Key

if TYPE_CHECKING:
    from keyplan.store.writing.mutate import Mutator


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

    def edit_groups(self, work: Work, number: int, change: RowChange, place: Place) -> None:
        """What a row adds to the groups it joins, stays in and leaves; minima and maxima are left for `turn_over`."""
        needed = self.mutator.copies_needed(place, change)
        amounts: dict[Key, dict[str, Any]] = {}
        for row, sign in (
            (self.mutator.row_for(work, place, change, False, needed), -1),
            (self.mutator.row_for(work, place, change, True, needed), 1),
        ):
            for key in place.keys(row) if row is not None else ():
                assert row is not None
                found = place.amounts(row)
                sums = amounts.setdefault(key, {})
                for name, value in found.items():
                    if name != VERSION and self.how(place, name) in ("count", "sum"):
                        sums[name] = plus(sums.get(name, 0), value if sign > 0 else minus(value))
                if place.extremes:
                    turnover = work.groups.setdefault((place.view.name, key), Turnover(number, change.entity))
                    turnover.rows.add(change.key)
                    (turnover.gained if sign > 0 else turnover.lost).append(found)
        for key, sums in amounts.items():
            adds = {name: value for name, value in sums.items() if value != 0}
            if adds:
                work.edits.append(Edit(place.view.name, "add", key, place.at, adds=adds, row=number))
            if (adds or place.extremes) and needed and change.new is not None:
                copies = self.mutator.touched(work, place, change)
                work.check_sources(self.places, copies, change.entity, change.new, True, number)

    def how(self, place: Place, name: str) -> str:
        return "count" if name == COUNT else next(one.how for one, _ in place.measures if one.name == name)

    def turn_over(self, work: Work) -> Proc[None]:
        """Minima and maxima of the groups that a call changes, by all its rows together: those that come extend them,
        and one that goes may need all the others to be read."""
        for (view, key), turnover in work.groups.items():
            place = self.named[view]
            adds: dict[str, Any] = {}
            values: dict[str, Any] = {}
            tests: tuple[Test, ...] = ()
            for measure in place.view.extended:
                gained = best(measure, turnover.gained)
                if gained is not None:
                    adds[measure.name] = gained
            if any(self.is_lost(measure, turnover) for measure in place.view.recomputed):
                version, values = yield from self.recomputed(work, place, key, turnover, adds)
                adds, tests = {}, (Test(VERSION, "=", version),)
            if place.view.recomputed:
                adds[VERSION] = 1
            if adds or values:
                do = "patch" if values else "add"
                edit = Edit(view, do, key, place.at, values, adds, tests=tests, row=turnover.number)
                work.edits.append(edit)

    def is_lost(self, measure: Measure, turnover: Turnover) -> bool:
        """Whether what goes may have been the least or greatest, and nothing that comes is in its place."""
        before, after = best(measure, turnover.lost), best(measure, turnover.gained)
        if before is None:
            return False
        return after is None or not (after <= before if measure.how == "min" else after >= before)

    def recomputed(
        self, work: Work, place: Place, key: Key, turnover: Turnover, gained: Mapping[str, Any]
    ) -> Proc[tuple[Any, dict[str, Any]]]:
        """The minima and maxima of a group by its rows, and its version, which tells if any of them changes meanwhile.

        A change may leave the group as it is: 30 that becomes 40 below a maximum of 50. So each is counted.
        """
        lasting = [measure for measure in place.view.extended if measure not in place.view.recomputed]
        takes = (VERSION, *(measure.name for measure in lasting))
        (group,) = yield from self.reader.entries(place, [key], takes)
        rows = yield from self.reader.of_group(place, key, work.world.now)
        entity = self.model.entities[turnover.entity]
        found = list(turnover.gained)
        for row in rows:
            row_key = tuple(row[column] for column in entity.key)
            if row_key in turnover.rows:
                continue
            # Others of the same call as they will be: they may go as well, or have another value.
            _, new = work.world.changed.get((turnover.entity, row_key), (row, row))
            after = None if new is None else {**row, **new}
            if after is not None and key in place.keys(after):
                found.append(place.amounts(after))
        values = {measure.name: best(measure, found) for measure in place.view.recomputed}
        for measure in lasting:
            values[measure.name] = best(measure, [group or {}, gained])
        return group[VERSION] if group is not None else 0, values

    def meet(self, entity: str) -> bool:
        """Whether rows of an entity that are changed at once may refuse each other, because they are in one group whose
        least or greatest values are read and tested."""
        extends = self.reader.executor.codec.extends
        return any(
            place.view.recomputed or (place.view.extended and not extends)
            for place in self.places.of[entity]
            if place.measures
        )

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


def best(measure: Measure, amounts: Iterable[Mapping[str, Any]]) -> Any:
    """The least or greatest of what rows contribute; None if none does."""
    values = [one[measure.name] for one in amounts if one.get(measure.name) is not None]
    pick: Any = min if measure.how == "min" else max
    return pick(values, default=None)
