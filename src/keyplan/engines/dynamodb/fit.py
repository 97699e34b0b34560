"""Which views are possible on DynamoDB, and with how many shards."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from keyplan.engines.dynamodb.limits import KB, LIMITS
from keyplan.engines.dynamodb.oversize import SPLIT
from keyplan.engines.dynamodb.projection import INDEXES
from keyplan.engines.dynamodb.sizes import entry_bytes
from keyplan.engines.dynamodb.sums import is_too_wide
from keyplan.engines.work import Rejection, ViewFacts
from keyplan.model.model import Model, path_of
from keyplan.model.values import most_bytes
from keyplan.plan.view import COPIES, Part, View
from keyplan.units import format_about

MOST_SHARDS = 200
MOST_EXTENDED = 20
"""Writes per second of a group with minima or maxima: each tests what it has read of the group a moment before, and
those that meet are done again."""
MOST_IN_ONE_PARTITION = 1000
"""Rows of an entity that may be kept under one partition key in the table; beyond it, the key tells them apart."""
PARTITION_KEY, SORT_KEY = LIMITS.partition_key_bytes, LIMITS.sort_key_bytes


def _longest(model: Model, entity: str, path: str) -> float:
    """The most bytes of a text that might keep rows out of a view. What is a key anyway, here or of the row that a
    reference leads to, has to fit into one whatever else is designed."""
    at = path_of(path, model, entity)
    there = model.entities[model.entity_at(entity, at.roles)]
    column = there.columns[at.column]
    if column.name in there.key or there.fields[column.field].target is not None:
        return 0.0
    return most_bytes(column.type) if column.type.kind in ("string", "text", "bytes") else 0.0


def hottest_units(model: Model, view: View, facts: ViewFacts) -> float:
    """Write units per second that the hottest partition takes at the peak.

    What is written together with something else is written in a transaction, which takes each unit twice: sums, guards
    of unique values, computed values, and whatever lies beside the home of its rows. What an index takes is not
    doubled."""
    each = max(1.0, ceil(entry_bytes(model, view, facts) / LIMITS.write_unit_bytes))
    if view.kind in INDEXES:
        return each * facts.hottest_writes
    twice = facts.hottest_together if stands_alone(model, view) else facts.hottest_writes
    return each * (facts.hottest_writes + twice) + units_inside(model, view, facts)


def units_inside(model: Model, view: View, facts: ViewFacts) -> float:
    """Those of the hottest units that are of rows beside their parent. What holds less than a row is a copy, and is
    written together with it."""
    units = 0.0
    for chain, embed in view.nested():
        known = facts.embeds[".".join(chain)]
        each = max(1.0, ceil(entry_bytes(model, view, facts, chain) / LIMITS.write_unit_bytes))
        whole = set(model.entities[embed.entity].stored) <= set(embed.holds)
        units += each * (known.hottest_writes + (known.hottest_together if whole else known.hottest_writes))
    return units


def stands_alone(model: Model, view: View) -> bool:
    """Whether rows need no other item: then writing one is a request of its own, unless there are others."""
    entity = model.entities[view.entity]
    if view.measures or view.unique or view.where or not set(entity.stored) <= set(view.holds):
        return False
    paths = set()
    for part in view.parts:
        if part.ways > 1 and part.cut is None:
            continue
        if part.cut in (COPIES, "each", "words"):
            return False
        path = path_of(part.path, model, view.entity)
        column = model.column(view.entity, path)
        if path.roles or column.optional or column.computed is not None:
            return False
        paths |= {part.path} if part.cut is None else set()
    return set(entity.key) <= paths


def fit(model: Model, view: View, facts: ViewFacts) -> View | Rejection:
    """The view with the fewest shards that keep its hottest partition within the limits."""
    if view.kind in INDEXES and any(part.cut in ("each", "words") for part in view.parts):
        return Rejection("an item has one entry in an index")
    for measure in view.measures:
        if is_too_wide(model, view, measure):
            return Rejection(f"'{measure.name}' may have more digits than two numbers of {LIMITS.digits} hold")
    crowded = facts.rows > MOST_IN_ONE_PARTITION and not view.measures  # groups are few; how hot they are comes below
    if view.kind == "table" and not view.partition and not view.where and crowded:
        return Rejection(f"one partition would hold all {format_about(facts.rows)} rows, and all their traffic")
    for limit, parts in ((PARTITION_KEY, view.partition), (SORT_KEY, view.sort)):
        for part in () if view.unique else parts:
            longest = _longest(model, view.entity, part.path) if part.path and part.cut is None else 0.0
            if longest > limit:
                also = f"the {PARTITION_KEY:,} B of a partition key or " if longest > PARTITION_KEY else ""
                reason = f"'{part.path}' may be longer than {also}the {SORT_KEY:,} B of a sort key"
                return Rejection(f"{reason}; give it a smaller max", part.path)
    size = entry_bytes(model, view, facts)
    if facts.most_entry_bytes + facts.key_bytes > LIMITS.item_bytes and size > LIMITS.item_bytes:
        kb = LIMITS.item_bytes // KB
        return Rejection(f"an item would take {size / KB:,.0f} KB on average, and dynamodb stores {kb} KB; {SPLIT}")
    # A key that may be too long by its types' limits is allowed, and a value that makes it so is refused at the call.
    sorts = (facts.key_bytes - facts.partition_bytes, *(embed.key_bytes for embed in facts.embeds.values()))
    for side, mean, limit in (("partition", facts.partition_bytes, PARTITION_KEY), ("sort", max(sorts), SORT_KEY)):
        if mean > limit:
            return Rejection(f"its {side} key takes {mean:,.0f} B on average of {limit:,} B")
    if view.kind == "lsi":
        if facts.row_bytes + size > LIMITS.item_bytes:  # an item's entries in local indexes count with it
            kb = LIMITS.item_bytes // KB
            both = (facts.row_bytes + size) / KB
            return Rejection(f"an item with its local index would take {both:,.0f} KB on average of {kb} KB")
        return view  # its partitions are those of the table
    units = hottest_units(model, view, facts)
    needed = ceil(units / LIMITS.partition_writes_per_second)
    if view.embeds and needed > 1 and units - units_inside(model, view, facts) <= LIMITS.partition_writes_per_second:
        return Rejection(f"a row and its children would take {units:.0f} write units/s together at the peak")
    if view.extended:
        needed = max(needed, ceil(facts.hottest_writes / MOST_EXTENDED))
    if needed <= 1 or view.unique or view.embeds or not (view.sort or view.measures):
        return view  # one entry, or one row with its children, cannot be spread; `warnings` says so if it is too hot
    # A sum can be kept in parts, each of some of the rows, and is added up when it is read.
    ways = max(2, needed)
    if ways > MOST_SHARDS:
        return Rejection(f"it would need {ways} shards")
    return replace(view, partition=(*view.partition, Part("", ways=ways)))
