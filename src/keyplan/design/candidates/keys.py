"""Keys of candidate views: for every need of an entity those that can answer it, closed under what needs share.

From the equality sets of the needs: partitions are intersections of these sets, sort keys are chains of them followed
by the order, the range and the entity's key. A need that binds a set binds all of its subsets in the family, so sharing
never reads more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

from keyplan.design.candidates.match import PRESENCE
from keyplan.design.candidates.sparse import is_literal
from keyplan.design.needs.computed import is_keyable
from keyplan.design.needs.need import Need
from keyplan.design.statistics.derived import CUT_SECONDS, Statistics
from keyplan.engines.base import Kind
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import RANGES, Condition, Path
from keyplan.plan.view import Part

MOST_SETS = 24
"""Equality sets kept per entity when closing under intersection."""
MOST_CHAINS = 12
SMALL_BYTES = 100_000
"""An entity whose rows take up less may be kept in one partition and read whole."""


@dataclass
class Shape:
    """A key without contents."""

    entity: str
    partition: tuple[Part, ...]
    sort: tuple[Part, ...]
    where: tuple[Condition, ...] = ()


class Keys:
    """The keys for the needs of a model; `own` and `kept` are the kinds of views that we and the engine keep."""

    def __init__(
        self,
        model: Model,
        statistics: Statistics,
        own: Sequence[Kind],
        kept: Sequence[Kind],
        copyable: Callable[[str, str], bool],
    ) -> None:
        self.model = model
        self.statistics = statistics
        self.own = own
        self.kept = kept
        self.copyable = copyable
        self.changing = changing_columns(model)

    def shapes(self, entity: str, needs: list[Need]) -> list[Shape]:
        """Every key of the family for the needs of one entity, split into partition and sort at every place."""
        family = self._family(needs)
        shapes: dict[tuple[object, ...], Shape] = {}
        for need in needs:
            for sequence, cuts, where in self._sequences(entity, need, family):
                for split in cuts:
                    shape = Shape(entity, tuple(sequence[:split]), tuple(sequence[split:]), where)
                    shapes.setdefault((shape.partition, shape.sort, shape.where), shape)
        if needs and self._is_small(entity):
            # Few rows are cheaper to read whole, or from one partition in any order, than to keep a second time.
            key = tuple(Part(column) for column in self.model.entities[entity].key)
            shapes.setdefault(((), key, ()), Shape(entity, (), key))
        return list(shapes.values())

    def _is_small(self, entity: str) -> bool:
        """Whether all rows of an entity together are a single answer, where partitions have to be named at all."""
        stored = self.model.entities[entity].stored
        size = sum(self.statistics.bytes(entity, Path((), column)) for column in stored)
        return any(kind.partitioned for kind in self.own) and self.statistics.rows(entity) * size <= SMALL_BYTES

    def _family(self, needs: list[Need]) -> list[frozenset[Part]]:
        """The equality sets of all needs, closed under intersection; small ones first."""
        sets: dict[frozenset[Part], None] = {}
        for need in needs:
            for equalities in self._equality_sets(need):
                sets.setdefault(frozenset(equalities), None)
        closed = list(sets)
        for left, right in combinations(list(sets), 2):
            both = left & right
            if both and both not in sets:
                sets.setdefault(both, None)
                closed.append(both)
        return sorted(closed, key=lambda parts: (len(parts), sorted(map(str, parts))))[:MOST_SETS]

    def _equality_sets(self, need: Need) -> Iterator[tuple[Part, ...]]:
        """The parts that a need can bind: with and without `in` lists, fields that change, truncations (which a range
        answers as well), and values that may be too long for a key."""
        firm: list[Part] = []
        alone: list[Part] = []
        soft: dict[tuple[tuple[str, ...], str], list[Part]] = {}
        for condition in need.given:
            part = self.part_of(need.entity, condition)
            if part is None:
                continue
            column = self.model.column(need.entity, condition.path)
            moving = str(condition.path) in self.changing[need.entity]
            long = column.type.kind in ("text", "bytes")
            if moving and column.computed is None and any(kind.composed for kind in self.kept):
                # A key composed with what stays needs the row when it changes; by itself it does not.
                alone.append(part)
            if condition.op == "in" or moving or long or condition.cut in CUT_SECONDS:
                # The columns of one reference are in a key together or not at all.
                soft.setdefault((condition.path.roles, f"{column.field} {condition.cut}"), []).append(part)
            else:
                firm.append(part)
        for size in range(len(soft), -1, -1):
            for some in combinations(soft.values(), size):
                yield (*firm, *(part for parts in some for part in parts))
        if firm and alone:
            yield tuple(alone)

    def part_of(self, entity: str, condition: Condition) -> Part | None:
        """The part of a key that a condition binds; None if none can be made of it."""
        if self.model.is_many(entity, condition.path.roles):
            return None
        if not self._is_keyable(entity, condition.path):
            return None
        text = str(condition.path)
        if condition.op == "contains":
            return Part(text, "each") if not condition.path.roles else None
        if condition.op == "search":
            if any(path.roles for path in (condition.path, *condition.also)):
                return None  # words of another row are in nobody's key
            return Part(text, "words", also=tuple(str(path) for path in condition.also))
        if condition.op in ("=", "in"):
            return Part(text, condition.cut)
        return None

    def _is_keyable(self, entity: str, path: Path) -> bool:
        """Whether a path can be part of a key; what is computed behind a reference is copied there."""
        if path.roles and self.model.column(entity, path).computed is not None:
            return self.copyable(entity, str(path))
        return is_keyable(self.model, entity, path)

    def _sequences(
        self, entity: str, need: Need, family: list[frozenset[Part]]
    ) -> Iterator[tuple[list[Part], list[int], tuple[Condition, ...]]]:
        """Key sequences for a need, the places where a partition may end, and the view's `where`."""
        key = [Part(column) for column in self.model.entities[entity].key]
        for equalities in dict.fromkeys(self._equality_sets(need)):
            for where in self.sparse(entity, need):
                fixed = {str(condition.path) for condition in where}
                bound = [part for part in equalities if part.path not in fixed]
                for chain in _chains(frozenset(bound), family):
                    sequence: list[Part] = []
                    cuts = []
                    for group in chain:
                        sequence += sorted(group - set(sequence), key=lambda part: self.place(entity, part))
                        cuts.append(len(sequence))
                    if not sequence or where or self._is_small(entity):
                        cuts.append(0)
                    for tail in self._tails(entity, need, sequence):
                        full = sequence + tail
                        named = {part.path for part in full if part.cut is None}
                        full += [part for part in key if part.path not in named]
                        yield full, sorted(set(cuts)), where
                        sparse = self._present(entity, need, full)
                        if sparse:
                            yield full + sparse, sorted(set(cuts)), where

    def place(self, entity: str, part: Part) -> tuple[list[int], str]:
        """Where a part is declared: what is equal anyway stands as in the model, so that references stay readable."""
        path, places = path_of(part.path, self.model, entity), []
        for role in path.roles:
            here = self.model.entities[entity]
            places.append(list(here.columns).index(here.roles[role].columns[0]))
            entity = here.roles[role].entity
        columns = list(self.model.entities[entity].columns)
        return [*places, columns.index(path.column) if path.column in columns else len(columns)], str(part)

    def _present(self, entity: str, need: Need, sequence: list[Part]) -> list[Part]:
        """Columns at the end of a key that only keep out the rows without them, which the need cannot ask for."""
        taken = {part.path for part in sequence}
        asked = dict.fromkeys(c.path.column for c in need.given if c.op in PRESENCE and not c.path.roles)
        columns = self.model.entities[entity].columns
        return [
            Part(name)
            for name in asked
            if name not in taken and columns[name].optional and columns[name].computed is None
            if columns[name].type.is_ordered
        ]

    def _tails(self, entity: str, need: Need, sequence: list[Part]) -> Iterator[list[Part]]:
        """What may follow the equalities: nothing, the order, the range, or the order and then the range."""
        taken = {part.path for part in sequence if part.cut is None}
        order: list[Part] = []
        usable = True
        first = next((term.descending for term in need.order), False)
        for term in need.order:
            text = str(term.path)
            if text in taken:
                continue
            if self.model.is_many(entity, term.path.roles) or not self._is_keyable(entity, term.path):
                usable = False
                break
            order.append(Part(text, descending=term.descending != first))
        ranges = []
        for condition in need.given:
            is_range = condition.op in RANGES or (condition.op == "=" and condition.cut in CUT_SECONDS)
            if is_range and not self.model.is_many(entity, condition.path.roles):
                column = self.model.column(entity, condition.path)
                part = Part(str(condition.path))
                able = column.type.is_ordered and self._is_keyable(entity, condition.path)
                if able and part.path not in taken and part not in ranges:
                    ranges.append(part)
        seen: set[tuple[Part, ...]] = set()
        options: list[list[Part]] = [[]]
        if order and usable:
            key = [Part(column) for column in self.model.entities[entity].key if column not in taken]
            # Ties are broken by the key, in the direction of the last term.
            key = [replace(part, descending=order[-1].descending) for part in key]
            named = {part.path for part in order}
            options.append(order + [part for part in key if part.path not in named])
        for part in ranges:
            options.append([part])
        for option in options:
            if tuple(option) not in seen:
                seen.add(tuple(option))
                yield option

    def sparse(self, entity: str, need: Need) -> list[tuple[Condition, ...]]:
        """The literal conditions that a view may be restricted to: none, all of them on own columns, and values behind
        references that are missing, unless they may be because a row has expired, which nobody notes."""
        literal = tuple(
            condition
            for condition in need.given
            if not condition.path.roles
            and condition.op in ("=", "!=", "in", "present", "missing")
            and is_literal(condition)
            and is_keyable(self.model, entity, condition.path)
            and (condition.op != "present" or self.model.entities[entity].columns[condition.path.column].optional)
        )
        behind = tuple(
            condition
            for condition in need.given
            if condition.path.roles
            and condition.op == "missing"
            and self.copyable(entity, str(condition.path))
            and not any(self.model.entities[name].ttl for name in self._passed(entity, condition.path))
        )
        single = tuple(condition for condition in literal if condition.op != "in")
        return list(dict.fromkeys(((), single, literal, (*literal, *behind))))

    def _passed(self, entity: str, path: Path) -> list[str]:
        """The entities behind the references of a path."""
        return [self.model.entity_at(entity, path.roles[:length]) for length in range(1, len(path.roles) + 1)]


def _chains(target: frozenset[Part], family: list[frozenset[Part]]) -> Iterator[list[frozenset[Part]]]:
    """Maximal chains of sets of the family that lead up to a set."""
    inside = [parts for parts in family if parts < target and parts]
    for chain in islice(_extended([], inside), MOST_CHAINS):
        yield [*chain, target] if target else list(chain)


def _extended(chain: list[frozenset[Part]], family: list[frozenset[Part]]) -> Iterator[list[frozenset[Part]]]:
    """A chain with as many further sets of the family as it can have, in every way."""
    above = [parts for parts in family if not chain or chain[-1] < parts]
    minimal = [parts for parts in above if not any(other < parts for other in above)]
    if not minimal:
        yield chain
    for parts in minimal:
        yield from _extended([*chain, parts], above)


def changing_columns(model: Model) -> dict[str, set[str]]:
    """Per entity: the columns that some write changes in an existing row."""
    changing: dict[str, set[str]] = {name: set() for name in model.entities}
    for write in model.writes.values():
        if write.kind in ("update", "change"):
            changing[write.entity] |= {*write.sets, *write.adds}
        if write.kind == "upsert":
            here = model.entities[write.entity]
            changing[write.entity] |= {name for name, column in here.columns.items() if not column.immutable}
    for name, entity in model.entities.items():
        changing[name] |= {column.name for column in entity.columns.values() if column.computed is not None}
    return changing
