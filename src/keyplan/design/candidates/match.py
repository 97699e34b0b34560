"""How a view answers a need: which conditions its key answers, which are left, and in what order rows come."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from keyplan.design.candidates.sparse import is_within, told_besides
from keyplan.design.needs.need import Need
from keyplan.design.needs.presence import may_be_missing
from keyplan.design.needs.sought import Sought
from keyplan.design.statistics.buckets import Enumerated, enumerated
from keyplan.design.statistics.derived import CUT_SECONDS, Statistics
from keyplan.engines.base import Kind
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import RANGES, Condition, Order
from keyplan.plan.view import COPIES, Part, View

PRESENCE = ("=", "in", "!=", *RANGES, "contains", "present", "search")
"""The operators that hold for no missing value."""

Conditions = dict[tuple[str, str | None], list[Condition]]
"""By path and truncation."""


@dataclass(unsafe_hash=True, slots=True)
class Match:
    """A view put to use for a need; see `Search` for the meaning of the parts."""

    view: View
    at: tuple[str, ...]
    given: tuple[Condition, ...]
    filter: tuple[Condition, ...]
    """Conditions left whose paths the view holds."""
    left: tuple[Condition, ...]
    """Conditions left that need values the view does not hold."""
    missing: tuple[str, ...]
    """Wanted paths that the view does not hold."""
    order: tuple[Order, ...]
    """The total order of the rows, empty if the sort key does not end in one."""
    ordered: bool
    """`order` is the need's order (or the need has none)."""
    descending: bool
    get: bool
    scan: bool
    spans: float
    entries: float
    """Mean entries that the key conditions match, all spans together."""
    most: float
    """The most entries that one span may match."""
    rows: float
    """Mean rows left after the conditions in `filter`, all spans together, before any limit."""
    buckets: float = 1.0
    """How many time buckets the conditions run over on average; as many spans are read for each as for the others."""
    most_buckets: float = 1.0
    walks: bool = False
    """The buckets come in the order of the rows, so that they are read one after the other until a page is full."""


def child_view(model: Model, view: View, at: tuple[str, ...]) -> View:
    """The rows of an embed as a view of their own: under the parent's key, in the embed's order."""
    if not at:
        return view
    partition: dict[str, str] = {part.path: part.path for part in view.parts}
    entity = view.entity
    for name in at:
        role = model.entities[entity].roles[name]
        back = dict(zip(model.entities[entity].key, role.columns, strict=True))
        partition = {there: back[here] for there, here in partition.items()}
        entity = role.entity
    embed = view.embed_at(at)
    assert embed is not None
    parts = tuple(replace(part, path=partition[part.path]) for part in view.parts)
    seen = replace(view, entity=entity, partition=parts, sort=embed.sort)
    return replace(seen, holds=embed.holds, embeds=embed.embeds, where=())


@dataclass(unsafe_hash=True)
class KeyMatch:
    """What a key alone does for a need, whatever the entries under it hold: shared by all views with that key."""

    used: tuple[Condition, ...]
    left: tuple[Condition, ...]
    order: tuple[Order, ...]
    ordered: bool
    descending: bool
    get: bool
    scan: bool
    spans: float
    entries: float
    most: float
    at_least: float
    buckets: float = 1.0
    most_buckets: float = 1.0
    walks: bool = False

    @cached_property
    def tested(self) -> tuple[tuple[Condition, Set[str]], ...]:
        """The conditions left, with the paths that each needs to be tested."""
        return tuple((condition, _paths(condition)) for condition in self.left)


def key_shape(view: View) -> tuple[object, ...]:
    """What `match_key` depends on: views with equal shapes match alike."""
    return (view.kind, view.entity, view.partition, view.sort, view.where, bool(view.measures), view.packed)


def match(
    model: Model, statistics: Statistics, kind: Kind, view: View, need: Need, at: tuple[str, ...] = ()
) -> Match | None:
    """How the view answers the need, or None if it cannot."""
    seen = child_view(model, view, at)
    found = match_key(model, statistics, kind, seen, need)
    return None if found is None else match_contents(model, statistics, kind, view, need, at, seen, found)


def match_key(model: Model, statistics: Statistics, kind: Kind, view: View, need: Need) -> KeyMatch | None:
    """How the view's key answers the need, or None if it cannot; of an embed, the view as its rows see it.

    Worked out once per key, of however many candidates, and for the rows that are sought, whatever is wanted of them.
    """
    if view.entity != need.entity or view.measures or (need.strong and not kind.strong):
        return None
    known: _Key | None = statistics.view_matches.get(view)
    if known is None:
        shape = key_shape(view)
        known = statistics.key_matches.get(shape)
        if known is None:
            known = statistics.key_matches[shape] = _key_of(model, view)
        statistics.view_matches[view] = known
    sought = need.sought
    found = known.matches.get(sought)
    if found is None and sought not in known.matches:
        able = known.has_all(sought)
        found = known.matches[sought] = _match_key(model, statistics, kind, view, sought) if able else None
    return found


def _match_key(model: Model, statistics: Statistics, kind: Kind, view: View, need: Sought) -> KeyMatch | None:
    conditions = need.given
    if view.where:
        conditions = tuple(condition for condition in need.given if condition not in view.where)
    given = _given(conditions)
    known_key = given.equal.issuperset(model.entities[view.entity].key)
    bound = _bind(statistics, kind, view, given.by_path, known_key, need.at_least)
    if bound is None and need.scanned and not view.packed:
        bound = _Bound([], list(view.parts))
    if bound is None:
        return None
    used, tail = bound.used, bound.tail
    if tail and tail[0].path in given.paths:
        open_yet = by_path(condition for condition in conditions if condition not in used)
        used.extend(condition for condition in bounds(open_yet, tail[0]) if condition not in used)
    exact = set(used)
    used.extend(condition for condition in bound.narrowing if condition not in used)
    get = not tail and (known_key or all(part.ways == 1 for part in view.parts))
    scan = not used and not get and not _is_small_partition(view, kind)
    if any(part.cut in ("each", "words") for part in tail):
        return None  # entries would repeat rows
    order, ordered, descending = _native_order(model, view, need, bound)
    left = [c for c in conditions if c not in exact and not _has_entry_only_if(model, view, c)]
    # A search is answered by its first word only, and buckets are wider than their range: test both again.
    left += [condition for condition in used if condition.op == "search"]
    # Part of the conditions never finds fewer rows than all of them, which may name a single one.
    least = max(need.at_least, 1.0) if statistics.fixes_one_row(need.entity, need.given) else need.at_least
    answered = {*used, *view.where}
    whole = all(c in answered or _has_entry_only_if(model, view, c) for c in need.given)
    found = (*used, *told_besides(view.where, used))
    entries = statistics.matched(need.entity, found, least, need.fewer if whole else 1.0)
    most = statistics.most_matched(need.entity, found)
    if need.implied and not left:
        entries, most = 0.0, 1.0
    return KeyMatch(
        tuple(used),
        tuple(left),
        order,
        ordered,
        descending,
        get,
        scan,
        bound.spans,
        entries,
        most,
        least,
        bound.buckets,
        bound.most_buckets,
        bool(order) and str(order[0].path) == bound.walked,
    )


def match_contents(
    model: Model,
    statistics: Statistics,
    kind: Kind,
    view: View,
    need: Need,
    at: tuple[str, ...],
    seen: View,
    key: KeyMatch,
    held: Set[str] | None = None,
) -> Match:
    """The rest of a match: what the entries hold of what is asked for. `seen` is the view as the rows there see it, and
    `held` what `held_by` says of it, if that is known."""
    held = held_by(model, kind, seen) if held is None else held
    inside: tuple[Condition, ...] = ()
    outside: tuple[Condition, ...] = ()
    if key.left:
        inside = tuple([condition for condition, paths in key.tested if paths <= held])
        outside = tuple([condition for condition, paths in key.tested if not paths <= held])
    rows = key.entries
    if inside:
        fewer = 1.0 if outside else need.fewer
        tested = (*key.used, *inside)
        tested = (*tested, *told_besides(seen.where, tested))
        rows = min(rows, statistics.matched(need.entity, tested, key.at_least, fewer))
    missing = tuple([text for text in need.wants if text not in held])
    return Match(
        view,
        at,
        key.used,
        inside,
        outside,
        missing,
        key.order,
        key.ordered,
        key.descending,
        key.get,
        key.scan,
        key.spans,
        key.entries,
        key.most,
        rows,
        key.buckets,
        key.most_buckets,
        key.walks,
    )


def by_path(conditions: Iterable[Condition]) -> Conditions:
    """The conditions on each path under each truncation."""
    found: Conditions = {}
    for condition in conditions:
        found.setdefault((str(condition.path), condition.cut), []).append(condition)
    return found


@dataclass
class _Bound:
    """How far the conditions bind a key, from its beginning."""

    used: list[Condition]
    tail: list[Part]
    """The parts from the first one on that nothing binds."""
    spans: float = 1.0
    fixed: set[str] = field(default_factory=set)
    """Paths that have one value in all rows."""
    listed: set[str] = field(default_factory=set)
    """Paths (by an `in`) that have one value in each span, and tell the rows of different spans apart."""
    narrowing: list[Condition] = field(default_factory=list)
    """Conditions that say which time buckets there are to read."""
    buckets: float = 1.0
    most_buckets: float = 1.0
    walked: str = ""
    """The path of the time buckets."""

    def enumerate(self, part: Part, found: Enumerated) -> None:
        """Binds a time bucket by the conditions on its path."""
        self.narrowing.extend(found.conditions)
        self.spans *= found.mean
        self.buckets *= found.mean
        self.most_buckets *= found.most
        self.walked = part.path


def _bind(
    statistics: Statistics, kind: Kind, view: View, by_key: Conditions, known_key: bool, at_least: float
) -> _Bound | None:
    """Binds one part of the key after the other; None if a part of the partition stays open."""
    bound = _Bound([], [])
    parts = view.parts
    for position, part in enumerate(parts):
        if part.ways > 1:
            if part.cut != COPIES and not known_key:
                bound.spans *= part.ways
            continue
        found = equality(by_key, part)
        if found is not None:
            bound.used.append(found)
            if part.cut is None:
                (bound.listed if found.op == "in" else bound.fixed).add(part.path)
            if found.op == "in":
                bound.spans *= statistics.in_length(found)
        elif position < len(view.partition) and (kind.partitioned or view.packed):
            buckets = enumerated(statistics, view.entity, by_key, part, at_least)
            if buckets is None:
                return None
            bound.enumerate(part, buckets)
        else:
            bound.tail.extend(parts[position:])
            break
    return bound


def _is_small_partition(view: View, kind: Kind) -> bool:
    """A view whose partition is constant (or only sharded) is read whole by design, not by a scan."""
    return bool(view.where) or (kind.partitioned and all(part.ways > 1 for part in view.partition))


def held_by(model: Model, kind: Kind, view: View) -> set[str]:
    """The paths that a read of the view delivers."""
    held = set(view.holds)
    if kind.holds_all:
        held |= set(model.entities[view.entity].stored)
    return held


def _paths(condition: Condition) -> set[str]:
    return {str(condition.path), *(str(path) for path in condition.also)}


def equality(by_key: Conditions, part: Part) -> Condition | None:
    """The condition that fixes one part: by its value, an element of its set, or a word of its text."""
    wanted = {"each": ("contains",), "words": ("search",)}.get(part.cut or "", ("=", "in"))
    cut = None if part.cut in ("each", "words") else part.cut
    for condition in by_key.get((part.path, cut), ()):
        if condition.op in wanted:
            if part.cut == "words" and tuple(str(path) for path in condition.also) != part.also:
                continue
            return condition
    return None


def bounds(by_key: Conditions, part: Part) -> list[Condition]:
    """The conditions that bound one part: a between or begins_with, or one from below and one from above."""
    if part.ways > 1:
        return []
    able = list(by_key.get((part.path, part.cut), ()))
    if part.cut is None:
        # Truncating keeps the order, so that a truncated value is bounded by a range of the value itself:
        # day(t) = :d is d <= t < d + 1 day.
        for (path, cut), conditions in by_key.items():
            if path == part.path and cut in CUT_SECONDS:
                able += conditions
    low = high = None
    for condition in able:
        if condition.op in ("between", "begins_with") or (condition.op == "=" and condition.cut != part.cut):
            return [condition]
        if condition.op in (">", ">=") and low is None:
            low = condition
        if condition.op in ("<", "<=") and high is None:
            high = condition
    return [condition for condition in (low, high) if condition is not None]


@dataclass
class _Given:
    """What conditions say, as keys ask about it."""

    by_path: Conditions
    paths: Set[str]
    equal: frozenset[str]
    """The paths that have one value."""
    there: Set[str]
    """The paths that all rows which meet the conditions have a value at."""
    searched: list[set[str]]
    """The paths that each search looks into."""


@lru_cache(maxsize=1024)
def _given(conditions: tuple[Condition, ...]) -> _Given:
    return _Given(
        by_path(conditions),
        {str(c.path) for c in conditions},
        frozenset(str(c.path) for c in conditions if c.op == "=" and c.cut is None),
        # Words that may be in one of several texts say of none of them that it is there.
        {str(c.path) for c in conditions if c.op in PRESENCE and not c.also},
        [_paths(condition) for condition in conditions if condition.op == "search"],
    )


@dataclass
class _Key:
    """What views with one key have in common, and how they match needs."""

    where: tuple[Condition, ...]
    lacked: Set[str]
    """Parts that rows may lack, so that they have no entry."""
    words: list[Set[str]]
    """The texts, of each part that is words, that rows may have none in."""
    matches: dict[Sought, KeyMatch | None] = field(default_factory=dict)

    def has_all(self, need: Sought) -> bool:
        """Whether every row that a need asks for has an entry: parts that may be missing must be asked about."""
        if self.where and not is_within(self.where, need.given, need.implied):
            return False
        if not self.lacked and not self.words:
            return True
        given = _given(need.given)
        return self.lacked <= given.there and all(any(some <= words for some in given.searched) for words in self.words)


def _key_of(model: Model, view: View) -> _Key:
    plain = [part for part in view.parts if part.cut != "words" and part.ways == 1]
    lacked = {
        part.path
        for part in plain
        if part.cut == "each" or may_be_missing(model, view.entity, path_of(part.path, model, view.entity))
    }
    return _Key(view.where, lacked, [{part.path, *part.also} for part in view.parts if part.cut == "words"])


def _has_entry_only_if(model: Model, view: View, condition: Condition) -> bool:
    """Whether rows that do not meet a condition have no entry: a part of the key that is asked to be present.

    Not where the value may have expired since.
    """
    if condition.op != "present" or all(part.path != str(condition.path) or part.cut for part in view.parts):
        return False
    roles = condition.path.roles
    passed = (model.entity_at(view.entity, roles[:length]) for length in range(len(roles) + 1))
    return all(model.entities[name].ttl is None for name in passed)


def _native_order(model: Model, view: View, need: Sought, bound: _Bound) -> tuple[tuple[Order, ...], bool, bool]:
    """The total order in which the rest of the sort key delivers rows, whether it is the need's, and its direction."""
    tail, fixed, listed = bound.tail, bound.fixed, bound.listed
    if any(part.cut is not None or part.ways > 1 for part in tail):
        return (), not need.order, False
    key = [column for column in model.entities[view.entity].key if column not in fixed]
    paths = [part.path for part in tail]
    if not set(key) - listed <= set(paths):
        return (), not need.order, False
    if not need.order:
        terms = [(part.path, part.descending) for part in tail]
        terms += [(column, False) for column in key if column not in paths]
        return tuple(Order(path_of(text, model, view.entity), way) for text, way in terms), True, False
    last = need.order[-1].descending
    terms = [(str(order.path), order.descending) for order in need.order if str(order.path) not in fixed]
    terms += [(column, last) for column in key if column not in {text for text, _ in terms}]
    within = [(text, way) for text, way in terms if text not in listed]
    flips = {way != part.descending for (_, way), part in zip(within, tail, strict=False)}
    if paths[: len(within)] != [text for text, _ in within] or len(flips) > 1:
        # Rows come in some total order, but not in the one asked for: whoever needs it sorts.
        return (), False, False
    order = tuple(Order(path_of(text, model, view.entity), way) for text, way in terms)
    return order, True, True in flips
