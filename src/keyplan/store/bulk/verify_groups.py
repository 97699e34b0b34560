"""Comparing what is kept of groups of rows, counts and sums, with what the rows come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keyplan.engines.rounds import Proc
from keyplan.model.entity import EXPIRES
from keyplan.plan.edits import Edit
from keyplan.plan.terms import plus
from keyplan.plan.view import COUNT, FIRST_EXPIRES, VERSION
from keyplan.store.writing.places import Place
from keyplan.store.writing.rows import Key, Row

if TYPE_CHECKING:
    from keyplan.store.bulk.verify import Verifier


class GroupCheck:
    """Counts rows by their groups, then looks at what the view keeps of each."""

    def __init__(self, verifier: Verifier, place: Place) -> None:
        self.verifier = verifier
        self.place = place
        self.groups: dict[Key, dict[str, Any]] = {}
        self.names = [str(part).removesuffix(" desc") for part in place.view.parts]
        self.kept = list(dict.fromkeys((COUNT, *(measure.name for measure, _ in place.measures))))
        self.compared = [name for name in self.kept if name not in (VERSION, FIRST_EXPIRES, EXPIRES)]
        self.extremes = {measure.name for measure, _ in place.measures if measure.how in ("min", "max")}
        # A row that expires is not taken off a count: a directory of buckets may name some that are empty by now.
        # But what is about to be filled has nothing to lose, and may be left from an attempt that rows went after.
        self.lasting = verifier.core.model.entities[place.entity].ttl is not None and verifier.only is None
        self.seen: set[Key] = set()

    @property
    def takes(self) -> list[str]:
        return [*self.names, *self.kept]

    def add(self, rows: Iterable[Row]) -> None:
        """Counts rows as their home has them."""
        count(self.place, rows, self.groups)

    def check(self, rows: Sequence[Row]) -> Proc[None]:
        """Compares groups as they are kept."""
        result, view = self.verifier.result, self.place.view.name
        edits: list[Edit] = []
        renewed: list[Edit] = []
        for row in rows:
            key = tuple(row[name] for name in self.names)
            self.seen.add(key)
            result.views[view].entries += 1
            wanted = self.groups.get(key)
            first = row[FIRST_EXPIRES] if FIRST_EXPIRES in self.kept else None
            doubted = first is not None and first <= self.verifier.now
            if wanted is None:
                if row[COUNT] and not self.lasting:
                    result.note(view, "extra", key)
                    edits.append(Edit(view, "delete", key, self.place.at))
            elif self.lasting and (FIRST_EXPIRES not in self.kept or doubted) and row[COUNT] > wanted[COUNT]:
                continue  # rows that have expired still count; nobody believes it any more
            elif (FIRST_EXPIRES in self.kept and not _covers(row, wanted)) or any(
                not _equal(row[name], wanted.get(name), name in self.extremes) for name in self.compared
            ):
                result.note(view, "wrong", key)
                edits.append(self._put(key, wanted))
            elif doubted:
                # The row that was to expire first has been deleted, or the moment was damaged: nobody can tell, and
                # answers are right, but of the rows. None of those that count has expired, so it can be believed.
                renewed.append(self._put(key, wanted))
        yield from self.verifier.mend(edits)
        yield from self.verifier.mend(renewed, told=False)

    def end(self) -> Proc[None]:
        """Makes the groups that are not there."""
        missing = [key for key in self.groups if key not in self.seen]
        for key in missing:
            self.verifier.result.note(self.place.view.name, "missing", key)
        yield from self.verifier.mend([self._put(key, self.groups[key]) for key in missing])

    def _put(self, key: Key, wanted: Mapping[str, Any]) -> Edit:
        values = {name: wanted.get(name) for name in self.kept}
        return Edit(self.place.view.name, "put", key, self.place.at, values)


def count(place: Place, rows: Iterable[Row], groups: dict[Key, dict[str, Any]]) -> None:
    """Adds rows to the groups of a view with measures."""
    hows = {measure.name: measure.how for measure, _ in place.measures}
    for row in rows:
        for key in place.keys(row):
            group = groups.setdefault(key, {})
            for name, amount in place.amounts(row).items():
                how = hows.get(name, "count")
                if name not in group:
                    group[name] = amount
                elif how in ("count", "sum"):
                    group[name] = plus(group[name], amount)
                else:
                    group[name] = min(group[name], amount) if how == "min" else max(group[name], amount)


def _equal(actual: Any, wanted: Any, extreme: bool) -> bool:
    if not extreme:  # a sum of nothing may be kept as 0 or not at all
        actual, wanted = actual or 0, wanted or 0
    if isinstance(actual, float) and wanted is not None:
        return abs(actual - float(wanted)) <= 1e-9 * max(1.0, abs(actual), abs(float(wanted)))
    return bool(actual == wanted)


def _covers(group: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a group is doubted and taken away no later and no sooner than its rows expire."""
    first, last = group[FIRST_EXPIRES], group[EXPIRES]
    return first is not None and first <= wanted[FIRST_EXPIRES] and last is not None and last >= wanted[EXPIRES]
