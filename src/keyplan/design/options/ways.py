"""Ways: every view that can answer a need, with what it costs, what comes along and what has to be fetched besides.

A way does not depend on where a need arises: not on how often, nor on how much time is left. So it is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations
from math import sqrt

from keyplan.design.candidates.carrying import copied_by_index
from keyplan.design.candidates.homes import is_home
from keyplan.design.candidates.match import KeyMatch, Match, child_view, held_by, key_shape, match_contents, match_key
from keyplan.design.candidates.sparse import is_within
from keyplan.design.needs.need import Need, by_known, rows_found
from keyplan.design.options.extras import OWN_ROW, Extra, Extras, Variant
from keyplan.design.statistics.buckets import bucket_of, rounds_of_a_walk
from keyplan.design.statistics.derived import Statistics
from keyplan.engines.base import Kind
from keyplan.engines.work import Cost, CostModel, ViewFacts, Work
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition, Literal, Select
from keyplan.plan.children import first_along
from keyplan.plan.steps import Tell
from keyplan.plan.view import View
from keyplan.units import format_about, format_bytes

SIZE_BIAS = 1.25
"""How much larger than the mean a partition is that a call happens to read: calls follow the rows."""
MOST_BIAS = 10.0
"""The same for sets that nothing bounds: some have a hundred times the usual rows, and these are looked at most. It is
the geometric mean of the two, as it is for sets whose largest is known."""
MOST_WALKED = 100.0
"""Time buckets that one page may have to be looked for in."""
MOST_KEEPERS = 3
"""Of so many rows that may keep what is computed any are read for it; of more, each by itself or all of them."""
MANY_MORE = 3.0
"""Where a pattern states its `rows`, a slow call is taken to match this many times as many."""

ALONG: tuple[Variant, ...] = ("plain", "fuller")
"""The variants in which as many children come along as can."""

WALK_BYTES = 1_000_000
"""Entries that no condition on the key narrows down may be filtered for a page up to so many bytes: beyond it is a
scan, whatever it is called."""


@dataclass(unsafe_hash=True, slots=True)
class Way:
    """A view that can answer a need: everything about it that does not depend on where the need arises."""

    match: Match
    along: Mapping[str, Select]
    extras: tuple[Extra, ...]
    work: Work
    cost: Cost
    entries: float
    rows: float
    beside: str = ""
    """The view whose documents the engine keeps this one over: their children come along."""
    bytes: float = 0.0
    """What is read, the children that come along included."""
    tells: tuple[Tell, ...] = ()
    """What children tell that come with the rows."""


@dataclass(unsafe_hash=True, slots=True)
class Place:
    """Where rows of an entity are: a view, or an embed in it; `seen` is the view as those rows see it."""

    view: View
    at: tuple[str, ...]
    seen: View
    held: Set[str]
    """What a read there delivers."""
    holds: Set[str]
    """What the view itself holds."""
    keyed: Set[str]
    """What stands in the view's key as it is."""
    is_bucketed: bool
    """Its partitions are of stretches of time."""


@dataclass(unsafe_hash=True, slots=True)
class Asked:
    """What is asked of all places with one key, for one need."""

    key: KeyMatch
    tested: Set[str]
    """The paths of the conditions that the key does not answer."""
    taken: Set[str]
    """Those, and what is wanted."""
    bytes: float
    """The average bytes of what is taken."""
    guessed: bool
    """Nobody knows how often rows meet some of the conditions that the key does not answer, and a key would tell."""
    fixed: int
    """How many parts of the key are given, if nothing else is asked of it."""


def _walked(found: Match, asked: Asked, entries: float, size: float) -> tuple[float, float]:
    """The entries that are walked through for a page, and the bytes that are read for it: those of the rows themselves
    as well, where the entries do not hold what is tested.

    How many rows lie between two that have a word is anybody's guess: a rare one is looked for through all of them. So
    is a value that a call gives, which few rows may have or none: a key with it in front finds that out at once.
    """
    if asked.guessed:
        entries = max(entries, found.entries)
    return entries, entries * (size + (asked.bytes if found.left else 0.0))


def _is_a_guess(model: Model, entity: str, condition: Condition) -> bool:
    """Whether nobody knows how often rows meet a condition, and a key would tell."""
    if condition.op in ("=", "in") and condition.cut is None:
        column = model.entities[entity].columns.get(str(condition.path))
        given = any(not isinstance(operand, Literal) for operand in condition.operands)
        return given and column is not None and column.computed is None
    return condition.op == "search"


Conditions = tuple[Condition, ...]
Places = dict[tuple[object, ...], list[tuple[int, Place]]]
"""Places by the shape of their key, each with its number. Those whose keys are alike answer every need alike, or none
of them does."""
Found = dict[tuple[str, tuple[str, ...]], tuple[list[Way], list[str]]]
"""Per place, by the names of its view and embed: the ways there, and why others are none; not those without both."""


class Ways:
    """Finds the ways of one design problem, each need's once."""

    def __init__(
        self,
        model: Model,
        statistics: Statistics,
        kinds: Mapping[str, Kind],
        costs: CostModel,
        views: Sequence[View],
        facts: Mapping[str, ViewFacts],
        like: Ways | None = None,
        same: Set[str] = frozenset(),
    ) -> None:
        """`like` knows the ways of another problem, in which the views of these names are the `same`."""
        self.model = model
        self.statistics = statistics
        self.kinds = kinds
        self.costs = costs
        self.facts = facts
        self._places: dict[str, dict[Conditions, Places]] = {name: {} for name in model.entities}
        """Per entity and what views of its rows are restricted to: the places there. Most of what is asked for is not
        among the rows of most sparse views, whatever their keys are."""
        number = 0
        for view in views:
            if view.measures:
                continue
            holds = frozenset(view.holds)
            keyed = frozenset(part.path for part in view.parts if part.cut is None and part.ways == 1)
            is_bucketed = bucket_of(view) is not None
            for at in ((), *(at for at, embed in view.nested() if embed.limit is None)):
                seen = child_view(model, view, at)
                held = held_by(model, kinds[view.kind], seen)
                alike = self._places[seen.entity].setdefault(seen.where, {})
                place = Place(view, at, seen, held, holds, keyed, is_bucketed)
                alike.setdefault(key_shape(seen), []).append((number, place))
                number += 1
        self._documents: dict[str, list[View]] = {name: [] for name in model.entities}
        for view in views:
            if view.embeds and kinds[view.kind].one_value and is_home(model, kinds, view):
                self._documents[view.entity].append(view)
        self.extras = Extras(model, statistics, kinds, views)
        self._sizes: dict[tuple[str, str], float] = {}
        self._entry_sizes: dict[tuple[str, tuple[str, ...]], float] = {}
        self._whole: dict[str, float] = {}
        self._prepared: dict[Need, tuple[list[Way], list[str]]] = {}
        self._found: dict[Need, Found] = {}
        self._found_before = like._found if like is not None else {}
        self._same = same

    def of(self, need: Need) -> tuple[list[Way], list[str]]:
        """The ways to answer a need, and why other views are none."""
        if need not in self._prepared:
            found = self._found[need] = self._find(need)
            ways = [way for some, _ in found.values() for way in some]
            refused = [reason for _, some in found.values() for reason in some]
            self._prepared[need] = (ways, refused)
        return self._prepared[need]

    def _find(self, need: Need) -> Found:
        """The ways by every place, in the order of the places."""
        found: Found = {}
        alone = not need.trees or not self._documents[need.entity]  # ways through one view into another are not
        before = self._found_before.get(need) if alone else None
        able: list[tuple[int, Place, Asked, Need]] = []
        within = (
            places
            for where, shapes in self._places[need.entity].items()
            if is_within(where, need.given, need.implied)
            for places in shapes.values()
        )
        for places in within:
            here = by_known(need, places[0][1].seen.parts) if need.known else need
            asked = self._asked(here, places[0][1])
            if asked is not None:
                able += ((number, place, asked, here) for number, place in places)
        able.sort(key=lambda one: one[0])
        for _, place, asked, here in able:
            name = (place.view.name, place.at)
            if before is not None and place.view.name in self._same:
                if name in before:
                    found[name] = before[name]
                continue
            refused: list[str] = []
            way = self._way(here, place, asked, refused)
            if way is not None:
                more = (*self._variants(here, place, asked, way), *self._through(here, place, asked))
                found[name] = ([way, *more], refused)
            elif refused:
                found[name] = ([], refused)
        return found

    def _variants(self, need: Need, place: Place, asked: Asked, way: Way) -> Iterator[Way]:
        """Other ways by the same place, where what is beside the row can be had in several."""
        if not place.at and any(tree.role == embed.role for tree in need.trees for embed in place.view.embeds):
            full = self._way(need, place, asked, [], None, "fuller")
            if full is not None and full.along != way.along:
                yield full
        for keepers in self._keepers(need, way):
            kept = self._way(need, place, asked, [], None, "plain", keepers)
            if kept is not None:
                yield kept
        yield from self._widened(need, place, asked, way)
        if any(self._is_cut(place, role, select) for role, select in way.along.items()):
            apart = self._way(need, place, asked, [], None, "apart")
            if apart is not None:
                yield apart

    def _widened(self, need: Need, place: Place, asked: Asked, way: Way, document: View | None = None) -> Iterator[Way]:
        """The way, and that with more children along, where these tell more if more is taken of them."""
        if not need.trees or all(extra.what != "computed" for extra in way.extras):
            return
        seen = [way]
        for variant in ALONG:
            wide = self._way(need, place, asked, [], document, variant, widened=True)
            if wide is not None and all((wide.tells, wide.along) != (one.tells, one.along) for one in seen):
                seen.append(wide)
                yield wide

    def _keepers(self, need: Need, way: Way) -> Iterator[Set[str]]:
        """The rows, by their names, that could be read for what is computed of them because they may keep it."""
        if not way.extras:
            return
        names = sorted(
            {extra.keeper for extra in way.extras if extra.keeper and self.extras.is_keepable(need.entity, extra)}
        )
        if any(extra.keeper == OWN_ROW for extra in way.extras):
            names.insert(0, OWN_ROW)
        sizes = range(1, len(names) + 1)
        for size in sizes if len(names) <= MOST_KEEPERS else (1, len(names)):
            yield from map(frozenset, combinations(names, size))

    def _is_cut(self, place: Place, role: str, select: Select) -> bool:
        """Whether only some are wanted of children that are all read: those that stand beside their parent."""
        kind = self.kinds[place.view.kind]
        apart = not (kind.one_value or kind.families or place.at)
        most = self.facts[place.view.name].embeds[role].most_per_parent if apart else 0.0
        return select.limit is not None and select.limit < most

    def _asked(self, need: Need, place: Place) -> Asked | None:
        """What a need asks of places with this key; None if they cannot answer it."""
        key = match_key(self.model, self.statistics, self.kinds[place.view.kind], place.seen, need)
        if key is None or any(self.model.is_many(need.entity, condition.path.roles) for condition in key.left):
            return None
        tested = {path for _, paths in key.tested for path in paths}
        taken = {*need.wants, *tested}
        size = sum(self._bytes(need.entity, text) for text in sorted(taken))
        guessed = any(_is_a_guess(self.model, need.entity, condition) for condition in key.left)
        return Asked(key, tested, taken, size, guessed, _fixed(key))

    def _through(self, need: Need, place: Place, asked: Asked) -> Iterator[Way]:
        """The ways through a view that the engine keeps over documents, in which the children are as well."""
        kind = self.kinds[place.view.kind]
        if not need.trees or not (kind.kept_by_engine and kind.holds_all) or kind.inside or place.at:
            return
        copied = copied_by_index(self.model, self.kinds, place.view)
        for document in self._documents[need.entity]:
            if not copied <= set(document.holds):
                continue  # what the view copies is elsewhere, and so is the view
            way = self._way(need, place, asked, [], document)
            if way is not None and way.along:
                yield way
                yield from self._widened(need, place, asked, way, document)
            full = self._way(need, place, asked, [], document, "fuller")
            if full is not None and full.along and (way is None or full.along != way.along):
                yield full

    def _way(
        self,
        need: Need,
        place: Place,
        asked: Asked,
        refused: list[str],
        document: View | None = None,
        variant: Variant = "plain",
        keepers: Set[str] = frozenset(),
        *,
        widened: bool = False,
    ) -> Way | None:
        """The way by one place; what is computed of the `keepers` comes with them, and of children that come anyway
        more may be taken (`widened`) for what they tell."""
        view, at = place.view, place.at
        kind, facts = self.kinds[view.kind], self.facts[view.name]
        if asked.key.scan and not need.scanned and not self.costs.scans(facts, 0.0):
            # Not even a few: then it does not matter how many.
            refused.append(_only_a_scan(need, facts))
            return None
        found = match_contents(self.model, self.statistics, kind, view, need, at, place.seen, asked.key, place.held)
        entries, rows, requests = self._reads(need, found)
        if need.limit is not None and found.walks and found.most_buckets > MOST_WALKED:
            refused.append(
                f"a page of '{need.entity}' may lie anywhere in {found.most_buckets:.0f} buckets by {bucket_of(view)}"
            )
            return None
        if view.packed:
            entries = requests * facts.per_partition
        size = self._entry_bytes(place)
        # An exact page of an ordered view is bounded; anything else may have to read its whole partition.
        page = need.limit if found.ordered and not found.left and not found.filter else None
        most = float(page) if page is not None else max(entries / requests, 1.0 if found.get else found.most)
        if page is None and not found.get and place.is_bucketed:
            most = min(most, facts.hottest_rows)
        if need.at_least and page is None:
            most = min(most, max(entries, need.at_least) * MANY_MORE)
        scanned = need.scanned and not found.missing and (bool(at) or is_home(self.model, self.kinds, view))
        if found.scan and not scanned and not self.costs.scans(facts, most):
            refused.append(_only_a_scan(need, facts))
            return None
        if found.scan and scanned and kind.partitioned:
            entries = most = max(entries, self._everything(view.kind) / size)
        if asked.tested and not found.given and not found.get and not found.scan:
            walked, read = _walked(found, asked, entries, size)
            if read > WALK_BYTES:
                refused.append(
                    f"only walking through {format_about(walked)} rows of '{need.entity}', "
                    f"{format_bytes(read)} at a call, would find them"
                )
                return None
        told = self.extras.told(need, found, widened=widened)
        if told.tells:
            need = replace(need, trees=told.trees)
        lacking = self.extras.lacking(need, found, rows, keepers, told.paths)
        children = self.extras.children(need, found, rows, document, variant, keepers, widened=widened)
        if lacking is None or children is None:
            return None
        along, fetched, inner = children
        missing, taken = set(found.missing) - told.paths, asked.taken - told.paths
        if document is not None:
            facts = replace(facts, embeds=self.facts[document.name].embeds)
        first = self._first_along(view, along) if along and kind.first_along and not found.scan else None
        brought = self.costs.read_with(view, tuple(along)) if along and document is None and not at else tuple(along)
        if along and document is None and not kind.one_value and first is None:
            facts = _as_read(facts, along)
        work = Work(
            view,
            facts,
            found.get,
            requests,
            1.0 if found.get and not view.packed else entries / requests,
            1.0 if found.get and not view.packed else facts.hottest_rows if view.packed else most,
            size,
            need.strong,
            document is None and not missing and taken <= place.holds,
            found.scan,
            at,
            brought,
            not found.get and not (page is not None and entries >= page),
            asked.bytes,
            rounds_of_a_walk(found.most_buckets) if found.walks and need.limit is not None else 1.0,
            float(need.limit) if need.limit and found.ordered and found.filter and not found.get else 0.0,
            asked.fixed if need.limit is None else 0,
            first,
            document is None and not at and not missing and taken <= place.keyed,
        )
        extras = tuple([self.extras.soon(need, extra) for extra in (*lacking, *fetched)])
        beside = document.name if document is not None else ""
        children_bytes = self._along_bytes(document or view, facts, at, brought, first)
        cost = read_cost(self.costs, work)
        read = entries * (size + children_bytes)
        return Way(found, along, extras, work, cost, entries, rows, beside, read, (*inner, *told.tells))

    def _along_bytes(
        self, view: View, facts: ViewFacts, at: tuple[str, ...], along: Iterable[str], first: float | None
    ) -> float:
        """The bytes of the children that come along with an entry."""
        found = 0.0
        for role in along:
            chain = (*at, *role.split("."))
            embed = facts.embeds[".".join(chain)]
            many = embed.per_parent if first is None else min(embed.per_parent, first)
            found += self.costs.entry_bytes(view, facts, chain) * many
        return found

    def _entry_bytes(self, place: Place) -> float:
        """The average bytes of an entry there."""
        key = (place.view.name, place.at)
        size = self._entry_sizes.get(key)
        if size is None:
            size = self.costs.entry_bytes(place.view, self.facts[place.view.name], place.at)
            self._entry_sizes[key] = size
        return size

    def _everything(self, kind: str) -> float:
        """The bytes that a scan reads at least: rows of all entities may lie in the same structure, which is read
        whole, whatever is looked for in it."""
        if kind not in self._whole:
            sizes = 0.0
            for wheres in self._places.values():
                whole = wheres.get((), {})
                places = sorted((one for alike in whole.values() for one in alike), key=lambda one: one[0])
                views = (one.view for _, one in places if one.view.kind == kind and not one.at)
                homes = [view for view in views if is_home(self.model, self.kinds, view)]
                facts = [(view, self.facts[view.name]) for view in homes]
                sizes += min((each.rows * self.costs.entry_bytes(view, each) for view, each in facts), default=0.0)
            self._whole[kind] = sizes
        return self._whole[kind]

    def _first_along(self, view: View, along: Mapping[str, Select]) -> float | None:
        """How many children are read with each row where they come in the order that they are wanted in; None: all."""
        first = first_along(self.model, view, along)
        return None if first is None else float(first)

    def _bytes(self, entity: str, text: str) -> float:
        """The average bytes of a path."""
        if (entity, text) not in self._sizes:
            path = path_of(text, self.model, entity)
            self._sizes[(entity, text)] = self.statistics.bytes(entity, path)
        return self._sizes[(entity, text)]

    def _reads(self, need: Need, found: Match) -> tuple[float, float, float]:
        """The entries that one execution reads, the rows among them that pass the conditions tested there, and the
        requests that it takes."""
        entries, rows = max(found.entries, need.when_many), max(found.rows, need.when_many)
        if need.limit is None:
            return entries, rows, found.spans
        if not found.ordered:
            # Only a page is wanted, but all of it has to be read to be sorted: larger ones are read more often.
            bias = self._size_bias(need, found)
            return entries * bias, rows * bias, found.spans
        total = rows_found(self.statistics, need)
        keep_after = total / rows if found.left and rows else 1.0
        keep_inside = rows / entries if entries else 1.0
        all_rows, rows = rows, min(rows, need.limit / max(keep_after, 1e-9))
        # Where all rows are wanted, everything is read, though it may be that nothing passes.
        wanted_entries = rows / max(keep_inside, 1e-9) if rows < all_rows else entries
        per_span = min(entries / found.spans, wanted_entries)
        requests = found.spans
        if found.walks and found.buckets > 1:
            # Buckets are read until the page is full; on average in the middle of one.
            in_bucket = max(entries / found.buckets, 1e-9)
            requests = found.spans / found.buckets * min(found.buckets, 1.0 + wanted_entries / in_bucket)
        return min(entries, per_span * requests), rows, requests

    def _size_bias(self, need: Need, found: Match) -> float:
        if found.get or found.scan or not found.entries:
            return SIZE_BIAS
        if self.statistics.is_unbounded(need.entity, need.given):
            return MOST_BIAS
        return _bias(found.most, found.entries)


def _only_a_scan(need: Need, facts: ViewFacts) -> str:
    return f"only a scan of {format_about(facts.rows)} rows of '{need.entity}' would find them"


def _fixed(key: KeyMatch) -> int:
    """How many parts of a key are given, if nothing else is asked of it."""
    plain = not key.get and all(one.op in ("=", "in") and one.cut is None for one in key.used)
    return len({str(one.path) for one in key.used}) if plain else 0


def _as_read(facts: ViewFacts, along: Mapping[str, Select]) -> ViewFacts:
    """The facts with as many children as calls read: where only the first are wanted of all that stand beside their
    parent, all are read, and there are more of them where more is read."""
    more = {}
    for role, select in along.items():
        embed = facts.embeds[role]
        if select.limit is not None and select.limit < embed.most_per_parent:
            bias = _bias(embed.most_per_parent, embed.per_parent)
            more[role] = replace(embed, per_parent=embed.per_parent * bias)
    return replace(facts, embeds={**facts.embeds, **more}) if more else facts


def _bias(most: float, mean: float) -> float:
    """How much larger than the mean a set is that is read whole for a page of it: the larger, the more often."""
    return min(MOST_BIAS, max(SIZE_BIAS, sqrt(most / max(1.0, mean))))


def read_cost(costs: CostModel, work: Work) -> Cost:
    """The cost of one execution, with the p99 of all its rounds."""
    cost = costs.read(work)
    return cost if work.rounds <= 1 else at_once(costs, work, 1.0)


def at_once(costs: CostModel, work: Work, times: float) -> Cost:
    """The p99 and requests of `times` executions at once, round after round, and what one of them costs: they may share
    a request."""
    many = max(1.0, times)
    together = costs.read(work.of(work.requests * many))
    units = {unit: amount / many for unit, amount in together.units.items()}
    return Cost(together.cost / many, units, together.p99_ms * work.rounds, together.requests, together.trips)


def timed(costs: CostModel, work: Work, times: float, once: Cost | None = None) -> Cost:
    """The cost of one execution among all that one call makes at once, and the p99 and requests of them all; `once` is
    that of a single one, where it is known."""
    if times > 1:
        return at_once(costs, work, times)
    cost = once if once is not None else read_cost(costs, work)
    if cost.requests is None:
        return cost
    return Cost(cost.cost, cost.units, cost.p99_ms, cost.requests * times, cost.trips)
