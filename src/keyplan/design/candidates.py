"""Candidate views: for every need, the key shapes that can answer it, closed under what needs share.

The family defines the space that optimality is claimed over. Per entity, from the equality sets of its needs:
partitions are intersections of these sets, sort keys are chains of them followed by the order, the range and the
entity's key. A need that binds a set binds all of its subsets in the family, so sharing never reads more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import combinations, islice

from keyplan.design.computed import is_holdable, is_keyable
from keyplan.design.counters import counters, finer, shared
from keyplan.design.embedding import embedding_homes
from keyplan.design.match import PRESENCE, match_key
from keyplan.design.needs import Need, held_paths
from keyplan.design.sparse import is_literal
from keyplan.design.statistics import CUT_SECONDS, Statistics
from keyplan.design.weakly import remembered
from keyplan.design.windows import kept_for
from keyplan.engines.base import Kind
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import RANGES, Condition, Path
from keyplan.plan.owners import owner_of, owners
from keyplan.plan.view import Part, View

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
    wants: set[tuple[str, ...]] = field(default_factory=set)


class Candidates:
    """Collects the candidate views of one model on one engine."""

    def __init__(self, model: Model, statistics: Statistics, kinds: Mapping[str, Kind]) -> None:
        self.model = model
        self.statistics = statistics
        self.kinds = kinds
        self.views: dict[tuple[object, ...], View] = {}
        self._noted: list[View] | None = None
        """Where views go that are not added yet."""
        self._asked = remembered(self._wanted_of)
        self._copyable = remembered(self._is_copyable)
        self.changing = _changing_columns(model)
        self.own = [kind for kind in kinds.values() if not kind.kept_by_engine and not kind.families]
        self.embedding = [kind for kind in kinds.values() if kind.embeds]
        self.kept = [kind for kind in kinds.values() if kind.kept_by_engine]

    def collect(self, needs: Iterable[Need]) -> list[View]:
        """Every candidate view for these needs, homes and guards included."""
        per_entity: dict[str, list[Need]] = {name: [] for name in self.model.entities}
        for need in needs:
            if need.implied:
                self._dangling(need)
            else:
                per_entity[need.entity].append(need)
        for entity, wants in per_entity.items():
            self._homes(entity)
            self._guards(entity, wants)
            for view in embedding_homes(self.model, self.embedding, entity, per_entity, self._copyable):
                self._add(view)
            for view in self._found_by_key(entity, wants):
                self._add(view)
            by_window = [whole for need in wants for whole in kept_for(self.model, self.statistics, need)]
            kept = [view for need in (*wants, *by_window) for view in counters(self.model, self.own, need)]
            kept += shared(kept)
            for view in (*kept, *finer(kept)):
                self._add(view)
        return list(self.views.values())

    def _found_by_key(self, entity: str, needs: list[Need]) -> list[View]:
        """The views of an entity under keys that needs ask for; worked out once for the same needs, as a problem that
        differs from another in one pattern has most of them in common with it."""
        asked = (entity, tuple(needs), tuple(self.kinds.values()))
        known = self.statistics.candidates.get(asked)
        if known is None:
            known = self.statistics.candidates[asked] = self._noted = []
            for shape in self._shapes(entity, needs):
                self._contents(shape, needs)
            self._noted = None
        return known

    # what every design has

    def _homes(self, entity: str) -> None:
        """The entity's rows under its key, split into partition and sort at every place."""
        here = self.model.entities[entity]
        key = [Part(column) for column in here.key]
        for kind in self.own:
            splits = range(1, len(key) + 1) if kind.partitioned else [0]
            for split in splits:
                self._add(View("", entity, kind.name, tuple(key[:split]), tuple(key[split:]), here.stored))

    def _guards(self, entity: str, needs: list[Need]) -> None:
        """A view per unique set that refuses a second row with the same values; an index finds rows as well."""
        here = self.model.entities[entity]
        for columns in here.unique:
            parts = tuple(Part(column) for column in columns)
            indexes = [kind for kind in self.kept if kind.unique]
            holds = held_paths(self.model, entity, {*columns, *here.key, *_expiry(self.model, entity)})
            if indexes:
                guard = View("", entity, indexes[0].name, (), parts, holds, unique=True)
                for copied in self._copies_asked(guard, needs) if indexes[0].copies else (set(),):
                    self._add(replace(guard, holds=held_paths(self.model, entity, {*holds, *copied})))
                continue
            for kind in self.own:
                if kind.unique:
                    partition = parts if kind.partitioned else ()
                    sort = () if kind.partitioned else parts
                    guard = View("", entity, kind.name, partition, sort, holds, unique=True)
                    for asked in dict.fromkeys((frozenset(), *self._asked_of(guard, needs), frozenset(here.stored))):
                        self._add(replace(guard, holds=held_paths(self.model, entity, {*holds, *asked})))

    def _dangling(self, need: Need) -> None:
        """The rows that point at nothing, by what they point at: only their keys, since they are nearly never read."""
        here = self.model.entities[need.entity]
        columns = tuple(condition.path.column for condition in need.given)
        parts = tuple(Part(column) for column in columns)
        rest = tuple(Part(column) for column in here.key if column not in columns)
        holds = held_paths(self.model, need.entity, columns)
        for kind in self.own:
            partition, sort = (parts, rest) if kind.partitioned else ((), (*parts, *rest))
            self._add(View("", need.entity, kind.name, partition, sort, holds, (), need.implied))

    # keys

    def _shapes(self, entity: str, needs: list[Need]) -> list[Shape]:
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
            part = self._part_of(need.entity, condition)
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

    def _part_of(self, entity: str, condition: Condition) -> Part | None:
        if self.model.is_many(entity, condition.path.roles):
            return None
        if not is_keyable(self.model, entity, condition.path):
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

    def _sequences(
        self, entity: str, need: Need, family: list[frozenset[Part]]
    ) -> Iterator[tuple[list[Part], list[int], tuple[Condition, ...]]]:
        """Key sequences for a need, the places where a partition may end, and the view's `where`."""
        key = [Part(column) for column in self.model.entities[entity].key]
        for equalities in dict.fromkeys(self._equality_sets(need)):
            for where in self._sparse(entity, need):
                fixed = {str(condition.path) for condition in where}
                bound = [part for part in equalities if part.path not in fixed]
                for chain in _chains(frozenset(bound), family):
                    sequence: list[Part] = []
                    cuts = []
                    for group in chain:
                        sequence += sorted(group - set(sequence), key=lambda part: self._place(entity, part))
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

    def _place(self, entity: str, part: Part) -> tuple[list[int], str]:
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
            if self.model.is_many(entity, term.path.roles) or not is_keyable(self.model, entity, term.path):
                usable = False
                break
            order.append(Part(text, descending=term.descending != first))
        ranges = []
        for condition in need.given:
            is_range = condition.op in RANGES or (condition.op == "=" and condition.cut in CUT_SECONDS)
            if is_range and not self.model.is_many(entity, condition.path.roles):
                column = self.model.column(entity, condition.path)
                part = Part(str(condition.path))
                able = column.type.is_ordered and is_keyable(self.model, entity, condition.path)
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

    def _sparse(self, entity: str, need: Need) -> list[tuple[Condition, ...]]:
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
            and self._copyable(entity, str(condition.path))
            and not any(self.model.entities[name].ttl for name in self._passed(entity, condition.path))
        )
        single = tuple(condition for condition in literal if condition.op != "in")
        return list(dict.fromkeys(((), single, literal, (*literal, *behind))))

    def _passed(self, entity: str, path: Path) -> list[str]:
        """The entities behind the references of a path."""
        return [self.model.entity_at(entity, path.roles[:length]) for length in range(1, len(path.roles) + 1)]

    # contents

    def _contents(self, shape: Shape, needs: list[Need]) -> None:
        """Variants of a key shape: keys only, what each need it serves wants, all of that, everything."""
        model, entity = self.model, shape.entity
        here = model.entities[entity]
        own = set(here.stored)
        keys = {part.path for part in (*shape.partition, *shape.sort) if part.path} | set(here.key)
        keys |= _expiry(model, entity)
        for kind in (*self.own, *self.kept):
            if kind.totals:
                continue  # of no rows, but of what packed ones come to
            # Where a partition is named as a whole, its parts stand as in the model.
            partition = tuple(sorted(shape.partition, key=lambda part: self._place(entity, part)))
            sort = shape.sort
            if kind.packs and partition and sort:
                self._packed(kind, shape, keys, needs)
            if not kind.partitioned:
                partition, sort = (), (*shape.partition, *shape.sort)
            if kind.kept_by_engine and not partition and not sort:
                continue
            if kind.kept_by_engine and any(condition.path.roles for condition in shape.where):
                continue  # an engine that keeps it sees the row alone
            if kind.local and not self._is_local(kind, shape, needs):
                continue
            if kind.inside:
                self._inside(kind, shape, keys, needs)
                continue
            if kind.holds_all:
                if all(not path_of(part.path, model, entity).roles for part in (*partition, *sort)):
                    probe = View("", entity, kind.name, partition, sort, (), (), shape.where)
                    for copied in self._copies_asked(probe, needs) if kind.copies else (set(),):
                        self._add(replace(probe, holds=held_paths(model, entity, keys | copied)))
                    for tail in self._covering(probe, keys, needs) if kind.covers else ():
                        holds = held_paths(model, entity, keys | {part.path for part in tail})
                        self._add(replace(probe, sort=(*sort, *tail), holds=holds))
                continue
            probe = View("", entity, kind.name, partition, sort, here.stored, (), shape.where)
            contents = {frozenset(keys), frozenset(keys | own)}
            union: set[str] = set()
            for asked in self._asked_of(probe, needs):
                contents.add(frozenset(keys | asked))
                union |= asked
            contents.add(frozenset(keys | union))
            contents.add(frozenset(keys | own | union))
            contents |= {frozenset(keys | tested) for tested in self._tested_of(probe, needs)}
            # Of a key under itself, the whole rows are a home already, unless all rows share one partition.
            exact = {part.path for part in (*partition, *sort)} == set(here.key) and not shape.where
            exact = exact and (bool(partition) or not kind.partitioned)
            for held in sorted(contents, key=lambda held: (len(held), sorted(held))):
                copies = {text for text in held if path_of(text, model, entity).roles}
                if exact and not kind.kept_by_engine and held == own and not copies:
                    continue
                holds = held_paths(model, entity, set(held))
                self._add(View("", entity, kind.name, partition, sort, holds, (), shape.where))

    def _inside(self, kind: Kind, shape: Shape, keys: set[str], needs: list[Need]) -> None:
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
        asked = set().union(*self._asked_of(probe, needs))
        beside = {path for path in asked if owner_of(model, entity, path) in of}
        self._add(replace(probe, holds=held_paths(model, entity, keys | beside)))

    def _covering(self, view: View, keys: set[str], needs: list[Need]) -> Iterator[tuple[Part, ...]]:
        """Per need that the key can answer: all that it wants besides, as parts behind the key that only cover it.

        A column that may be missing is none: rows without it would have no entry.
        """
        columns = self.model.entities[view.entity].columns
        for asked in self._asked_of(view, needs):
            more = sorted(asked - keys)
            able = all(
                name in columns and not columns[name].optional and columns[name].type.is_ordered for name in more
            )
            if more and able:
                yield tuple(Part(name) for name in more)

    def _copies_asked(self, view: View, needs: list[Need]) -> list[Set[str]]:
        """Nothing, what each need that the key can answer would take from other rows, and all of that."""
        found: list[Set[str]] = [frozenset()]
        own = set(self.model.entities[view.entity].stored)
        for asked in self._asked_of(view, needs):
            copies = asked - own
            for wanted in (copies, found[-1] | copies):
                if wanted not in found:
                    found.append(wanted)
        return found

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

    def _packed(self, kind: Kind, shape: Shape, keys: set[str], needs: list[Need]) -> None:
        """The key with each partition as one value: of whole rows, and of what the needs that it serves want."""
        model, entity = self.model, shape.entity
        if any(part.cut in ("each", "words") for part in (*shape.partition, *shape.sort)):
            return  # values hold rows once
        own = set(model.entities[entity].stored)
        probe = View("", entity, kind.name, shape.partition, shape.sort, tuple(own), (), shape.where, packed=True)
        asked = set().union(*self._asked_of(probe, needs))
        for held in (keys | own, keys | asked, keys | own | asked):
            self._add(replace(probe, holds=held_paths(model, entity, held)))

    def _asked_of(self, view: View, needs: list[Need]) -> Iterator[frozenset[str]]:
        """Per need that the key can answer without a scan: what it would take from the view, if it were there."""
        for need in needs:
            found = match_key(self.model, self.statistics, self.kinds[view.kind], view, need)
            if found is not None and not found.scan:
                yield self._asked(need, found.left)

    def _tested_of(self, view: View, needs: list[Need]) -> Iterator[frozenset[str]]:
        """Per need that the key leaves conditions to: what these test, so that only rows that pass are fetched."""
        for need in needs:
            found = match_key(self.model, self.statistics, self.kinds[view.kind], view, need)
            if found is not None and not found.scan and found.left:
                paths = (str(path) for one in found.left for path in (one.path, *one.also))
                tested = frozenset(text for text in paths if self._copyable(need.entity, text))
                yield tested
                yield tested - self.changing[need.entity]  # what has to be followed is dearer to keep

    def _wanted_of(self, need: Need, left: tuple[Condition, ...]) -> frozenset[str]:
        """What a need takes that leaves these conditions to be tested, as far as views may hold it."""
        asked = {*need.wants, *(str(condition.path) for condition in left)}
        return frozenset(text for text in asked if self._copyable(need.entity, text))

    def _is_copyable(self, entity: str, text: str) -> bool:
        """Whether a view may hold the path: no more than two to-one roles away, and computed only of its own row."""
        path = path_of(text, self.model, entity)
        if self.model.is_many(entity, path.roles):
            return False
        if self.model.column(entity, path).computed is not None:
            return not path.roles and is_holdable(self.model, self.statistics, entity, path.column)
        return len(path.roles) <= 2

    def _add(self, view: View) -> None:
        if self._noted is not None:
            self._noted.append(view)
            return
        identity = (
            view.entity,
            view.kind,
            view.partition,
            view.sort,
            view.holds,
            view.embeds,
            view.where,
            view.measures,
            view.unique,
            view.packed,
        )
        if identity not in self.views:
            self.views[identity] = replace(view, name=f"v{len(self.views)}")


def _chains(target: frozenset[Part], family: list[frozenset[Part]]) -> Iterator[list[frozenset[Part]]]:
    """Maximal chains of sets of the family that lead up to a set."""
    inside = [parts for parts in family if parts < target and parts]

    def extend(chain: list[frozenset[Part]]) -> Iterator[list[frozenset[Part]]]:
        last = chain[-1] if chain else frozenset()
        above = [parts for parts in inside if last < parts]
        minimal = [parts for parts in above if not any(other < parts for other in above)]
        if not minimal:
            yield chain
        for parts in minimal:
            yield from extend([*chain, parts])

    for chain in islice(extend([]), MOST_CHAINS):
        yield [*chain, target] if target else list(chain)


def _changing_columns(model: Model) -> dict[str, set[str]]:
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


def _expiry(model: Model, entity: str) -> set[str]:
    return {EXPIRES} if EXPIRES in model.entities[entity].columns else set()
