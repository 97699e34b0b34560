"""What candidate views hold under a key: only the key, what each need that it serves wants, all of that, everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import combinations

from keyplan.design.candidates.keys import Keys, Shape
from keyplan.design.candidates.match import KeyMatch, match_key
from keyplan.design.needs.need import Need, held_paths
from keyplan.design.statistics.derived import Statistics
from keyplan.design.statistics.weakly import remembered
from keyplan.engines.base import Kind
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition
from keyplan.plan.owners import owner_of, owners
from keyplan.plan.view import Part, View

FEW_ASKED = 5
"""Of so many different sets of what is asked beside the rows, every union is tried."""


class Contents:
    """The views under a key, of every kind; `own` and `kept` are the kinds that we and the engine keep."""

    def __init__(
        self,
        model: Model,
        statistics: Statistics,
        kinds: Mapping[str, Kind],
        own: Sequence[Kind],
        kept: Sequence[Kind],
        keys: Keys,
    ) -> None:
        self.model = model
        self.statistics = statistics
        self.kinds = kinds
        self.own = own
        self.kept = kept
        self.keys = keys
        self._asked = remembered(self._wanted_of)

    def of(self, shape: Shape, needs: list[Need]) -> Iterator[View]:
        """Variants of a key shape: keys only, what each need it serves wants, all of that, everything."""
        model, entity = self.model, shape.entity
        here = model.entities[entity]
        own = set(here.stored)
        keys = {part.path for part in (*shape.partition, *shape.sort) if part.path} | set(here.key)
        keys |= expiry(model, entity)
        for kind in (*self.own, *self.kept):
            if kind.totals:
                continue  # of no rows, but of what packed ones come to
            # Where a partition is named as a whole, its parts stand as in the model.
            partition = tuple(sorted(shape.partition, key=lambda part: self.keys.place(entity, part)))
            sort = shape.sort
            if kind.packs and partition and sort:
                yield from self._packed(kind, shape, keys, needs)
            if not kind.partitioned:
                partition, sort = (), (*shape.partition, *shape.sort)
            if kind.kept_by_engine and not partition and not sort:
                continue
            if kind.kept_by_engine and any(condition.path.roles for condition in shape.where):
                continue  # an engine that keeps it sees the row alone
            if kind.local and not self._is_local(kind, shape, needs):
                continue
            if kind.inside:
                yield from self._inside(kind, shape, keys, needs)
                continue
            if kind.holds_all:
                if all(not path_of(part.path, model, entity).roles for part in (*partition, *sort)):
                    probe = View("", entity, kind.name, partition, sort, (), (), shape.where)
                    for copied in self.carried_asked(probe, needs):
                        yield replace(probe, holds=held_paths(model, entity, keys | copied))
                    for tail in self._covering(probe, keys, needs) if kind.covers else ():
                        holds = held_paths(model, entity, keys | {part.path for part in tail})
                        yield replace(probe, sort=(*sort, *tail), holds=holds)
                continue
            probe = View("", entity, kind.name, partition, sort, here.stored, (), shape.where)
            contents = {frozenset(keys), frozenset(keys | own)}
            union: set[str] = set()
            answered = list(self._answered(probe, needs))
            for need, found in answered:
                asked = self._asked(need, found.left)
                contents.add(frozenset(keys | asked))
                union |= asked
            contents.add(frozenset(keys | union))
            contents.add(frozenset(keys | own | union))
            contents |= {frozenset(keys | tested) for tested in self._tested(answered)}
            exact = not shape.where and self._is_plain(kind, partition, sort, here.key)
            for held in sorted(contents, key=lambda held: (len(held), sorted(held))):
                copies = {text for text in held if path_of(text, model, entity).roles}
                if exact and not kind.kept_by_engine and held == own and not copies:
                    continue
                holds = held_paths(model, entity, set(held))
                yield View("", entity, kind.name, partition, sort, holds, (), shape.where)

    def _is_plain(self, kind: Kind, partition: tuple[Part, ...], sort: tuple[Part, ...], key: Sequence[str]) -> bool:
        """Whether whole rows are a home like this already: those under the entity's key as it is declared, split at any
        place. Under another part of it first, as the members of a team in whose key the person comes first, they are
        not; nor where all rows share one partition."""
        split = len(partition)
        if kind.partitioned and not split:
            return False
        first, then = {part.path for part in partition}, [part.path for part in sort]
        return first == set(key[:split]) and then == list(key[split:])

    def _inside(self, kind: Kind, shape: Shape, keys: set[str], needs: list[Need]) -> Iterator[View]:
        """Rows inside others: found by one column of theirs, and by columns of the row that they are inside of, all of
        which can be had there."""
        model, entity = self.model, shape.entity
        own = [part for part in shape.partition if not path_of(part.path, model, entity).roles]
        all_owners = owners(model, entity)
        of = {owner_of(model, entity, path) for path in keys if path_of(path, model, entity).roles}
        if len(own) != 1 or not all_owners or len(of) > 1 or "" in of or shape.where:
            return
        of = of or set(all_owners if len(all_owners) == 1 else ())
        probe = View("", entity, kind.name, shape.partition, shape.sort, ())
        asked = set().union(*self.asked_of(probe, needs))
        beside = {path for path in asked if owner_of(model, entity, path) in of}
        yield replace(probe, holds=held_paths(model, entity, keys | beside))

    def _covering(self, view: View, keys: set[str], needs: list[Need]) -> Iterator[tuple[Part, ...]]:
        """Per need that the key can answer: all that it wants besides, as parts behind the key that only cover it.

        A column that may be missing is none: rows without it would have no entry.
        """
        columns = self.model.entities[view.entity].columns
        for asked in self.asked_of(view, needs):
            more = sorted(asked - keys)
            able = all(
                name in columns and not columns[name].optional and columns[name].type.is_ordered for name in more
            )
            if more and able:
                yield tuple(Part(name) for name in more)

    def carried_asked(self, view: View, needs: list[Need]) -> list[Set[str]]:
        """Nothing, what needs that the key can answer would take besides what rows store, each of them and any of them
        together, or where they are many any two and all: what is computed of them, and what is copied of other rows,
        where the engine's own views can have it. The order of the needs does not matter."""
        here = self.model.entities[view.entity]
        copying = self.kinds[view.kind].copies
        able = (
            frozenset(text for text in asked - set(here.stored) if copying or text in here.columns)
            for asked in self.asked_of(view, needs)
        )
        each = [one for one in dict.fromkeys(able) if one]
        together = range(len(each) + 1) if len(each) <= FEW_ASKED else (0, 1, 2, len(each))
        unions = (frozenset[str]().union(*some) for many in together for some in combinations(each, many))
        return list(dict.fromkeys(unions))

    def _is_local(self, kind: Kind, shape: Shape, needs: list[Need]) -> bool:
        """Whether a key is another order of rows that share a partition, and something reads it strongly.

        Anything else a global index, or the table itself, does as well.
        """
        here = self.model.entities[shape.entity]
        if not shape.partition or not shape.sort or set(here.key) <= {part.path for part in shape.partition}:
            return False
        if all(part.path in here.key for part in shape.sort) and not shape.where:
            return False
        probe = View("", shape.entity, kind.name, shape.partition, shape.sort, here.stored, (), shape.where)
        strong = (need for need in needs if need.strong and need.fold is None)
        matches = (match_key(self.model, self.statistics, kind, probe, need) for need in strong)
        return any(found is not None and not found.scan for found in matches)

    def _packed(self, kind: Kind, shape: Shape, keys: set[str], needs: list[Need]) -> Iterator[View]:
        """The key with each partition as one value: of whole rows, and of what the needs that it serves want."""
        model, entity = self.model, shape.entity
        if any(part.cut in ("each", "words") for part in (*shape.partition, *shape.sort)):
            return  # values hold rows once
        own = set(model.entities[entity].stored)
        probe = View("", entity, kind.name, shape.partition, shape.sort, tuple(own), (), shape.where, packed=True)
        asked = set().union(*self.asked_of(probe, needs))
        for held in (keys | own, keys | asked, keys | own | asked):
            yield replace(probe, holds=held_paths(model, entity, held))

    def asked_of(self, view: View, needs: list[Need]) -> Iterator[frozenset[str]]:
        """Per need that the key can answer without a scan: what it would take from the view, if it were there."""
        return (self._asked(need, found.left) for need, found in self._answered(view, needs))

    def _answered(self, view: View, needs: list[Need]) -> Iterator[tuple[Need, KeyMatch]]:
        """The needs that the key can answer without a scan, and how."""
        for need in needs:
            found = match_key(self.model, self.statistics, self.kinds[view.kind], view, need)
            if found is not None and not found.scan:
                yield need, found

    def _tested(self, answered: list[tuple[Need, KeyMatch]]) -> Iterator[frozenset[str]]:
        """Per need that a key leaves conditions to: what these test, so that only rows that pass are fetched."""
        for need, found in answered:
            if found.left:
                paths = (str(path) for one in found.left for path in (one.path, *one.also))
                tested = frozenset(text for text in paths if self.keys.copyable(need.entity, text))
                yield tested
                yield tested - self.keys.changing[need.entity]  # what has to be followed is dearer to keep

    def _wanted_of(self, need: Need, left: tuple[Condition, ...]) -> frozenset[str]:
        """What a need takes that leaves these conditions to be tested, as far as views may hold it."""
        asked = {*need.wants, *(str(condition.path) for condition in left)}
        return frozenset(text for text in asked if self.keys.copyable(need.entity, text))


def expiry(model: Model, entity: str) -> set[str]:
    return {EXPIRES} if EXPIRES in model.entities[entity].columns else set()
