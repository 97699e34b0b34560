"""Ways: every view that can answer a need, with what it costs, what comes along and what has to be fetched besides.

A way does not depend on where a need arises: not on how often, nor on how much time is left. So it is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import sqrt

from keyplan.design.buckets import bucket_of, rounds_of_a_walk
from keyplan.design.match import KeyMatch, Match, child_view, held_by, key_shape, match_contents, match_key
from keyplan.design.needs import (
    Need,
    Tree,
    computed_needs,
    row_by_key,
    row_of_role,
    rows_of_role,
    select_paths,
    wanted,
)
from keyplan.design.overflow import begins, chance_of_more, rows_if_more
from keyplan.design.required import is_home
from keyplan.design.statistics import Statistics
from keyplan.design.subsets import serves
from keyplan.engines.base import Kind
from keyplan.engines.work import Cost, CostModel, ViewFacts, Work
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition, Outer, Select
from keyplan.plan.children import first_of
from keyplan.plan.view import Embed, View
from keyplan.units import format_about, format_bytes

SIZE_BIAS = 1.25
"""How much larger than the mean a partition is that a call happens to read: calls follow the rows."""
MOST_BIAS = 10.0
"""The same for sets that nothing bounds: some have a hundred times the usual rows, and these are looked at most. It is
the geometric mean of the two, as it is for sets whose largest is known."""
MOST_WALKED = 100.0
"""Time buckets that one page may have to be looked for in."""
MANY_MORE = 3.0
"""Where a pattern states its `rows`, a slow call is taken to match this many times as many."""

WALK_BYTES = 1_000_000
"""Entries that no condition on the key narrows down may be filtered for a page up to so many bytes: beyond it is a
scan, whatever it is called."""


@dataclass(frozen=True)
class Extra:
    """Something that a view lacks of what is wanted: a need of its own, so often per row."""

    role: str
    what: str
    need: Need
    times: float
    under: tuple[str, ...] = ()
    select: Select | None = None
    early: bool = False
    beyond: int | None = None
    """children: only for rows with which so many came along, as there may be more."""
    chance: float = 1.0
    """How often a row has so many."""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Place:
    """Where rows of an entity are: a view, or an embed in it; `seen` is the view as those rows see it."""

    view: View
    at: tuple[str, ...]
    seen: View
    held: Set[str]
    shape: int
    """Equal for places whose keys answer every need alike."""


@dataclass(frozen=True)
class Asked:
    """What is asked of all places with one key, for one need."""

    key: KeyMatch
    tested: Set[str]
    """The paths of the conditions that the key does not answer."""
    taken: Set[str]
    """Those, and what is wanted."""
    bytes: float
    """The average bytes of what is taken."""


def _walked(found: Match, asked: Asked, entries: float, size: float) -> tuple[float, float]:
    """The entries that are walked through for a page, and the bytes that are read for it: those of the rows themselves
    as well, where the entries do not hold what is tested.

    How many rows lie between two that have a word is anybody's guess: a rare one is looked for through all of them.
    """
    if any(condition.op == "search" for condition in (*found.filter, *found.left)):
        entries = max(entries, found.entries)
    return entries, entries * (size + (asked.bytes if found.left else 0.0))


Found = dict[tuple[str, tuple[str, ...]], tuple[list[Way], list[str]]]
"""Per place, by the names of its view and embed: the ways there, and why others are none."""


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
        self._places: dict[str, list[Place]] = {name: [] for name in model.entities}
        shapes: dict[tuple[object, ...], int] = {}
        for view in views:
            if view.measures:
                continue
            for at in ((), *(at for at, embed in view.nested() if embed.limit is None)):
                seen = child_view(model, view, at)
                shape = shapes.setdefault(key_shape(seen), len(shapes))
                held = held_by(model, kinds[view.kind], seen)
                self._places[seen.entity].append(Place(view, at, seen, held, shape))
        self._documents: dict[str, list[View]] = {name: [] for name in model.entities}
        for view in views:
            if view.embeds and kinds[view.kind].one_value and is_home(model, kinds, view):
                self._documents[view.entity].append(view)
        self._sizes: dict[tuple[str, str], float] = {}
        self._whole: dict[str, float] = {}
        self._rows: dict[tuple[str, frozenset[str], bool], Need] = {}
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
        keys: dict[int, Asked | None] = {}
        alone = not need.trees or not self._documents[need.entity]  # ways through one view into another are not
        before = self._found_before.get(need, {}) if alone else {}
        for place in self._places[need.entity]:
            name = (place.view.name, place.at)
            if name in before and place.view.name in self._same:
                found[name] = before[name]
                continue
            if place.shape not in keys:
                keys[place.shape] = self._asked(need, place)
            asked = keys[place.shape]
            refused: list[str] = []
            way = None if asked is None else self._way(need, place, asked, refused)
            if way is None or asked is None:
                found[name] = ([], refused)
            else:
                full = self._way(need, place, asked, [], fuller=True) if place.view.embeds and not place.at else None
                more = [full] if full is not None and full.along != way.along else []
                found[name] = ([way, *more, *self._through(need, place, asked)], refused)
        return found

    def _asked(self, need: Need, place: Place) -> Asked | None:
        """What a need asks of places with this key; None if they cannot answer it."""
        key = match_key(self.model, self.statistics, self.kinds[place.view.kind], place.seen, need)
        if key is None or any(self.model.is_many(need.entity, condition.path.roles) for condition in key.left):
            return None
        tested = {path for _, paths in key.tested for path in paths}
        taken = {*need.wants, *tested}
        return Asked(key, tested, taken, sum(self._bytes(need.entity, text) for text in sorted(taken)))

    def _through(self, need: Need, place: Place, asked: Asked) -> Iterator[Way]:
        """The ways through a view that the engine keeps over documents, in which the children are as well."""
        kind = self.kinds[place.view.kind]
        if not need.trees or not (kind.kept_by_engine and kind.holds_all) or kind.inside or place.at:
            return
        for document in self._documents[need.entity]:
            way = self._way(need, place, asked, [], document)
            if way is not None and way.along:
                yield way
            full = self._way(need, place, asked, [], document, fuller=True)
            if full is not None and full.along and (way is None or full.along != way.along):
                yield full

    def _way(
        self,
        need: Need,
        place: Place,
        asked: Asked,
        refused: list[str],
        document: View | None = None,
        *,
        fuller: bool = False,
    ) -> Way | None:
        """The way by one place; with `fuller`, children come along that are all there are, unless there are many."""
        view, at = place.view, place.at
        kind = self.kinds[view.kind]
        found = match_contents(self.model, self.statistics, kind, view, need, at, place.seen, asked.key, place.held)
        facts = self.facts[view.name]
        entries, rows, requests = self._reads(need, found)
        if need.limit is not None and found.walks and found.most_buckets > MOST_WALKED:
            refused.append(
                f"a page of '{need.entity}' may lie anywhere in {found.most_buckets:.0f} buckets by {bucket_of(view)}"
            )
            return None
        if view.packed:
            entries = requests * facts.per_partition
        size = self.costs.entry_bytes(view, facts, at)
        # An exact page of an ordered view is bounded; anything else may have to read its whole partition.
        page = need.limit if found.ordered and not found.left and not found.filter else None
        most = float(page) if page is not None else max(entries / requests, 1.0 if found.get else found.most)
        if page is None and not found.get and bucket_of(view) is not None:
            most = min(most, facts.hottest_rows)
        if need.at_least and page is None:
            most = min(most, max(entries, need.at_least) * MANY_MORE)
        scanned = need.scanned and not found.missing and (bool(at) or is_home(self.model, self.kinds, view))
        if found.scan and not scanned and not self.costs.scans(facts, most):
            refused.append(f"only a scan of {format_about(facts.rows)} rows of '{need.entity}' would find them")
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
        lacking = self._lacking(need, found, rows)
        children = self._children(need, found, rows, document, fuller)
        if lacking is None or children is None:
            return None
        along, fetched = children
        if document is not None:
            facts = replace(facts, embeds=self.facts[document.name].embeds)
        first = self._first_along(view, along) if kind.families else None
        if kind.families and first is None:
            facts = _of_whole_sets(facts, along)
        work = Work(
            view,
            facts,
            found.get,
            requests,
            1.0 if found.get and not view.packed else entries / requests,
            1.0 if found.get and not view.packed else facts.hottest_rows if view.packed else most,
            size,
            need.strong,
            document is None and not found.missing and asked.taken <= set(view.holds),
            found.scan,
            at,
            tuple(along),
            not found.get and not (page is not None and entries >= page),
            asked.bytes,
            rounds_of_a_walk(found.most_buckets) if found.walks and need.limit is not None else 1.0,
            float(need.limit) if need.limit and found.ordered and found.filter and not found.get else 0.0,
            _fixed(found) if need.limit is None else 0,
            first,
        )
        extras = tuple(self._soon(need, extra) for extra in (*lacking, *fetched))
        beside = document.name if document is not None else ""
        return Way(found, along, extras, work, read_cost(self.costs, work), entries, rows, beside)

    def _everything(self, kind: str) -> float:
        """The bytes that a scan reads at least: rows of all entities may lie in the same structure, which is read
        whole, whatever is looked for in it."""
        if kind not in self._whole:
            sizes = 0.0
            for places in self._places.values():
                views = (one.view for one in places if one.view.kind == kind and not one.at)
                homes = [view for view in views if is_home(self.model, self.kinds, view)]
                facts = [(view, self.facts[view.name]) for view in homes]
                sizes += min((each.rows * self.costs.entry_bytes(view, each) for view, each in facts), default=0.0)
            self._whole[kind] = sizes
        return self._whole[kind]

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
        total = self.statistics.matched(need.entity, need.given, need.at_least)
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
        return min(MOST_BIAS, max(SIZE_BIAS, sqrt(found.most / max(1.0, found.entries))))

    # what has to be fetched besides

    def _lacking(self, need: Need, found: Match, rows: float) -> list[Extra] | None:
        """The columns and values behind roles that the view does not hold; None if they cannot be fetched from it."""
        if not found.missing and not found.left:
            return []
        model = self.model
        here = model.entities[need.entity]
        asked = set(found.missing)
        for condition in found.left:
            asked |= {str(path) for path in (condition.path, *condition.also)}
        asked -= set(found.view.holds) if not found.at else set()
        computed = {text for text in asked if text in here.columns and here.columns[text].computed is not None}
        own = {text for text in asked - computed if text in here.columns}
        behind = asked - own - computed
        extras: list[Extra] = []
        if own:
            # The row's own home has to be read: everything that hangs on it comes with it.
            fixed = {c.path.column for c in need.given if c.op == "=" and not c.path.roles and c.cut is None}
            if set(here.key) <= fixed:
                return None  # the key is known: reading the row at once is never dearer
            extras.append(Extra("", "row", self._row(need.entity, own | behind, need.strong), rows))
        else:
            reachable = self._reachable(found)
            for name, inner in self._by_role(need.entity, behind):
                role = here.roles[name]
                if role.many or not set(role.columns) <= reachable:
                    return None
                times = rows * self.statistics.present(need.entity, role.columns[0])
                extras.extend(self._behind(need.entity, name, inner, need.strong, times, ()))
        for together, inner_need in computed_needs(model, need.entity, computed, need.strong):
            extras.append(Extra(", ".join(together), "computed", inner_need, rows))
        return extras

    def _row(self, entity: str, paths: Set[str], strong: bool) -> Need:
        """One row by its key; the same need for the same paths, whichever view lacks them."""
        asked = (entity, frozenset(paths), strong)
        if asked not in self._rows:
            self._rows[asked] = row_by_key(self.model, entity, paths, strong=strong)
        return self._rows[asked]

    def _reachable(self, found: Match) -> set[str]:
        """The paths that a read of the view, or of what it embeds, can deliver."""
        embed = found.view.embed_at(found.at)
        if embed is not None:
            return set(embed.holds)
        stored = self.model.entities[found.view.entity].stored if self.kinds[found.view.kind].holds_all else ()
        return {*found.view.holds, *stored}

    def _by_role(self, entity: str, paths: Set[str]) -> Iterator[tuple[str, set[str]]]:
        """Paths by the role that they begin with, as seen from the row behind it."""
        for name in sorted({path_of(text, self.model, entity).roles[0] for text in paths}):
            yield name, {text[len(name) + 1 :] for text in paths if text.startswith(name + ".")}

    def _children(
        self, need: Need, found: Match, rows: float, document: View | None, fuller: bool
    ) -> tuple[dict[str, Select], list[Extra]] | None:
        """The children that come along with the rows, and those that have to be fetched; None if that cannot be."""
        along: dict[str, Select] = {}
        extras: list[Extra] = []
        at = found.view.embed_at(found.at)
        embeds = {embed.role: embed for embed in (document or at or found.view).embeds}
        for tree in need.trees:
            embed = embeds.get(tree.role)
            ordered = embed is not None and not any(term.path.roles for term in tree.select.order)
            if embed is None or not ordered or not serves(self.model, need.entity, embed, tree.select):
                apart = Extra(tree.role, "children", self._child_rows(need, tree), rows, (), tree.select)
                if embed is None or not fuller or not begins(self.model, need.entity, embed, tree.select):
                    extras.append(apart)
                    continue
                extras.append(self._if_more(need.entity, embed, apart))
            under = self._under(need, tree.role, tree.select, embed, rows)
            if under is None:
                return None
            along[tree.role] = tree.select
            extras.extend(under)
        return along, extras

    def _first_along(self, view: View, along: Mapping[str, Select]) -> float | None:
        """How many children are read with each row where they come in the order that they are wanted in; None: all."""
        if not along:
            return None
        (role,) = along
        embed = view.embed_at((role,))
        assert embed is not None
        first = first_of(self.model, view.entity, embed, along[role])
        return None if first is None else float(first)

    def _if_more(self, entity: str, embed: Embed, apart: Extra) -> Extra:
        """Children that are fetched only for rows with which as many came along as are kept with any."""
        chance = chance_of_more(self.statistics, entity, embed)
        need = replace(apart.need, when_many=rows_if_more(self.statistics, entity, embed))
        return replace(apart, need=need, times=apart.times * chance, beyond=embed.limit, chance=chance)

    def _child_rows(self, need: Need, tree: Tree) -> Need:
        *above, role = tree.role.split(".")
        owner = self.model.entity_at(need.entity, tuple(above))
        child = rows_of_role(self.model, owner, role, tree.select, need.strong)
        if not above:
            return child
        prefix = ".".join(above)
        return replace(child, given=tuple(self._outer_through(need.entity, prefix, c) for c in child.given))

    def _behind(
        self, entity: str, role: str, paths: set[str], strong: bool, times: float, under: tuple[str, ...]
    ) -> Iterable[Extra]:
        """The row behind a to-one role; its computed columns depend on the key alone and need no row."""
        target = self.model.entities[self.model.entities[entity].roles[role].entity]
        computed = {text for text in paths if text in target.columns and target.columns[text].computed is not None}
        for together, need in computed_needs(self.model, target.name, computed, strong):
            given = tuple(self._outer_through(entity, role, condition) for condition in need.given)
            label = together[0] if len(together) == 1 else f"({', '.join(together)})"
            yield Extra(f"{role}.{label}", "computed", replace(need, given=given), times, under)
        if paths - computed:
            need = row_of_role(self.model, entity, role, paths - computed, strong)
            yield Extra(role, "row", need, times, under)

    def _outer_through(self, entity: str, prefix: str, condition: Condition) -> Condition:
        operand = condition.operands[0]
        assert isinstance(operand, Outer)
        path = self.model.resolve(entity, f"{prefix}.{operand.path}")
        return replace(condition, operands=(Outer(str(path)),))

    def _under(self, need: Need, role: str, select: Select, embed: Embed, rows: float) -> list[Extra] | None:
        """What embedded children lack, fetched for each of them."""
        model = self.model
        entity = embed.entity
        here = model.entities[entity]
        times = rows * self.statistics.fan_out(need.entity, role)
        if select.limit:
            times = min(times, rows * select.limit)
        paths, trees = select_paths(model, entity, select)
        lacking = set(wanted(model, entity, paths)) - set(embed.holds)
        found: list[Extra] = []
        computed = [text for text in lacking if text in here.columns]
        for together, inner_need in computed_needs(model, entity, computed, need.strong):
            found.append(Extra(", ".join(together), "computed", inner_need, times, (role,)))
        behind = {text for text in lacking if text not in here.columns}
        for name, inner in self._by_role(entity, behind):
            present = self.statistics.present(entity, here.roles[name].columns[0])
            found.extend(self._behind(entity, name, inner, need.strong, times * present, (role,)))
        for tree in trees:
            if "." in tree.role:
                return None
            child = rows_of_role(model, entity, tree.role, tree.select, need.strong)
            found.append(Extra(tree.role, "children", child, times, (role,), tree.select))
        return found

    # what need not wait for the row

    def _soon(self, need: Need, extra: Extra) -> Extra:
        """The extra with `early` set, if it need not wait for the row."""
        early = self._early(need, extra.need) if not extra.under and extra.beyond is None else None
        return extra if early is None else replace(extra, need=early, early=True)

    def _early(self, need: Need, inner: Need) -> Need | None:
        """The inner need with the key that the outer one fixes put in place of the row's, so that it need not wait."""
        if not self.statistics.fixes_one_row(need.entity, need.given):
            return None
        known = {c.path.column: c.operands[0] for c in need.given if c.op == "=" and not c.path.roles and c.cut is None}
        given = []
        for condition in inner.given:
            operand = condition.operands[0]
            if not isinstance(operand, Outer) or operand.path not in known:
                return None
            given.append(replace(condition, operands=(known[operand.path],)))
        return replace(inner, given=tuple(given))


def _fixed(found: Match) -> int:
    """How many parts of a key are given, if nothing else is asked of it."""
    plain = not found.get and all(one.op in ("=", "in") and one.cut is None for one in found.given)
    return len({str(one.path) for one in found.given}) if plain else 0


def _of_whole_sets(facts: ViewFacts, along: Mapping[str, Select]) -> ViewFacts:
    """The facts for reads of which only some children are wanted, but all have to be read: larger sets more often."""
    embeds = dict(facts.embeds)
    for role in (role for role, select in along.items() if select.limit is not None):
        about = embeds[role]
        wide = sqrt(about.most_per_parent / max(1.0, about.per_parent))
        embeds[role] = replace(about, per_parent=about.per_parent * min(MOST_BIAS, max(SIZE_BIAS, wide)))
    return replace(facts, embeds=embeds)


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
