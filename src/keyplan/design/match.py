"""How a view answers a need: which conditions its key answers, which are left, and in what order rows come."""

from __future__ import annotations

from dataclasses import dataclass, replace

from keyplan.design.needs import Need
from keyplan.design.statistics import CUT_SECONDS, Statistics
from keyplan.engines.base import Kind
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import RANGES, Condition, Order
from keyplan.plan.view import COPIES, Part, View

PRESENCE = ("=", "in", "!=", *RANGES, "contains", "present", "search")


@dataclass(frozen=True)
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
    most_spans: float
    entries: float
    """Mean entries that the key conditions match, all spans together."""
    most: float
    """The most entries that one span may match."""
    rows: float
    """Mean rows left after the conditions in `filter`, all spans together, before any limit."""


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


def match(
    model: Model, statistics: Statistics, kind: Kind, view: View, need: Need, at: tuple[str, ...] = ()
) -> Match | None:
    """How the view answers the need, or None if it cannot."""
    whole = view
    view = child_view(model, view, at)
    if view.entity != need.entity or view.measures or (need.strong and not kind.strong):
        return None
    if not set(view.where) <= set(need.given):
        return None
    conditions = [condition for condition in need.given if condition not in view.where]
    if not _presence_implied(model, view, need):
        return None
    by_key: dict[tuple[str, str | None], list[Condition]] = {}
    for condition in conditions:
        by_key.setdefault((str(condition.path), condition.cut), []).append(condition)

    used: list[Condition] = []
    known_key = all(
        any(c.op == "=" for c in by_key.get((column, None), ())) for column in model.entities[view.entity].key
    )
    spans = most_spans = 1.0
    fixed: set[str] = set()
    listed: set[str] = set()
    all_bound = True
    parts = list(view.parts)
    fixed_parts = len(view.partition)
    position = 0
    for position, part in enumerate(parts):
        if part.ways > 1:
            if part.cut != COPIES and not known_key:
                spans *= part.ways
                most_spans *= part.ways
            continue
        found = equality(by_key, part)
        if found is None:
            if position < fixed_parts and kind.partitioned:
                bucket = _bucket(statistics, need.entity, by_key, part)
                if bucket is None:
                    return None
                spans *= bucket
                most_spans *= bucket
                continue
            all_bound = False
            break
        used.append(found)
        if part.cut is None:
            (listed if found.op == "in" else fixed).add(part.path)
        if found.op == "in":
            length = statistics.in_length(found)
            spans *= length
            most_spans *= max(length, 1000.0 if len(found.operands) == 1 else length)
    else:
        position = len(parts)
    tail = parts[position:]
    if tail and not all_bound:
        used.extend(condition for condition in bounds(by_key, tail[0]) if condition not in used)
    get = all_bound and (known_key or all(part.ways == 1 for part in parts))
    scan = not used and not get and not _is_small_partition(view, kind)
    if any(part.cut in ("each", "words") for part in tail):
        return None  # entries would repeat rows
    order, ordered, descending = _native_order(model, view, need, tail, fixed, listed)
    left = [condition for condition in conditions if condition not in used]
    # A search is answered by its first word only, and buckets are wider than their range: test both again.
    left += [condition for condition in used if condition.op == "search"]
    held = _held(model, kind, view)
    inside = tuple(condition for condition in left if _paths(condition) <= held)
    outside = tuple(condition for condition in left if not _paths(condition) <= held)
    # Part of the conditions never finds fewer rows than all of them, which may name a single one.
    least = max(need.at_least, 1.0) if statistics.fixes_one_row(need.entity, need.given) else need.at_least
    entries = statistics.matched(need.entity, (*used, *view.where), least)
    rows = statistics.matched(need.entity, (*used, *view.where, *inside), least)
    return Match(
        whole,
        at,
        tuple(used),
        inside,
        outside,
        tuple(text for text in need.wants if text not in held),
        order,
        ordered,
        descending,
        get,
        scan,
        spans,
        most_spans,
        entries,
        statistics.most_matched(need.entity, (*used, *view.where)),
        min(rows, entries),
    )


def _is_small_partition(view: View, kind: Kind) -> bool:
    """A view whose partition is constant (or only sharded) is read whole by design, not by a scan."""
    return bool(view.where) or (kind.partitioned and all(part.ways > 1 for part in view.partition))


def _held(model: Model, kind: Kind, view: View) -> set[str]:
    held = set(view.holds)
    if kind.holds_all:
        held |= set(model.entities[view.entity].stored)
    return held


def _paths(condition: Condition) -> set[str]:
    return {str(condition.path), *(str(path) for path in condition.also)}


def equality(by_key: dict[tuple[str, str | None], list[Condition]], part: Part) -> Condition | None:
    """The condition that fixes one part: by its value, an element of its set, or a word of its text."""
    wanted = {"each": ("contains",), "words": ("search",)}.get(part.cut or "", ("=", "in"))
    cut = None if part.cut in ("each", "words") else part.cut
    for condition in by_key.get((part.path, cut), ()):
        if condition.op in wanted:
            if part.cut == "words" and tuple(str(path) for path in condition.also) != part.also:
                continue
            return condition
    return None


def _bucket(
    statistics: Statistics, entity: str, by_key: dict[tuple[str, str | None], list[Condition]], part: Part
) -> float | None:
    """How many buckets a range over the part's path spans on average; None if nothing bounds it on both sides."""
    if part.cut not in CUT_SECONDS:
        return None
    for condition in by_key.get((part.path, None), ()):
        if condition.op == "between":
            owner = statistics.model.entity_at(entity, condition.path.roles)
            seconds = statistics.retention_s(owner) * statistics.selectivity(entity, condition)
            return 1.0 + seconds / CUT_SECONDS[part.cut]
        if condition.op == "=":
            return 1.0
    return None


def bounds(by_key: dict[tuple[str, str | None], list[Condition]], part: Part) -> list[Condition]:
    """The conditions that bound one part: a between or begins_with, or one from below and one from above."""
    if part.ways > 1:
        return []
    if part.cut is None:
        # A truncated equality is a range of the value itself: day(t) = :d is d <= t < d + 1 day.
        for (path, cut), conditions in by_key.items():
            if path == part.path and cut in CUT_SECONDS:
                for condition in conditions:
                    if condition.op == "=":
                        return [condition]
    low = high = None
    for condition in by_key.get((part.path, part.cut), ()):
        if condition.op in ("between", "begins_with"):
            return [condition]
        if condition.op in (">", ">=") and low is None:
            low = condition
        if condition.op in ("<", "<=") and high is None:
            high = condition
    return [condition for condition in (low, high) if condition is not None]


def _presence_implied(model: Model, view: View, need: Need) -> bool:
    """Whether every row that the need asks for has an entry: parts that may be missing must be asked about."""
    asked = {str(condition.path) for condition in need.given if condition.op in PRESENCE}
    for condition in need.given:
        if condition.op == "search":
            asked |= {str(path) for path in condition.also}
    for part in view.parts:
        if part.ways > 1 or part.path in asked:
            continue
        path = path_of(part.path, model, view.entity)
        if path.roles or model.column(view.entity, path).optional or part.cut in ("each", "words"):
            return False
    return True


def _native_order(
    model: Model, view: View, need: Need, tail: list[Part], fixed: set[str], listed: set[str]
) -> tuple[tuple[Order, ...], bool, bool]:
    """The total order in which the rest of the sort key delivers rows, whether it is the need's, and its direction.

    `fixed` paths have one value in all rows; `listed` ones (by an `in`) have one value in each span, and tell the rows
    of different spans apart when these are merged.
    """
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
