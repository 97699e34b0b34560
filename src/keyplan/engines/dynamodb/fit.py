"""Which views are possible on DynamoDB, and with how many shards."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from keyplan.engines.dynamodb.limits import KB, LIMITS
from keyplan.engines.dynamodb.oversize import SPLIT
from keyplan.engines.work import Rejection, ViewFacts
from keyplan.model.model import Model, path_of
from keyplan.model.values import most_bytes
from keyplan.plan.view import Part, View
from keyplan.units import format_about

MOST_SHARDS = 200
MOST_IN_ONE_PARTITION = 1000
"""Rows of an entity that may be kept under one partition key in the table; beyond it, the key tells them apart."""
INDEXES = ("gsi", "lsi")
ATTRIBUTE_OVERHEAD = 3
"""An attribute's name is its path; the byte count of names is part of an item's size."""


def entry_bytes(view: View, facts: ViewFacts, at: tuple[str, ...] = ()) -> float:
    """The average size of an item or index entry: names and values, PK and SK with their prefixes."""
    if at:
        embed = facts.embeds[".".join(at)]
        values, key = embed.value_bytes, embed.key_bytes + facts.key_bytes
    else:
        values, key = facts.value_bytes, facts.key_bytes
    names = sum(map(len, values)) + ATTRIBUTE_OVERHEAD * len(values)
    prefixes = 2 * (len(view.entity) + 1) + len("PKSK")
    return names + sum(values.values()) + key + prefixes


def projection_of(model: Model, view: View) -> str:
    """How an index projects: whole items, its keys alone, or some attributes named one by one."""
    held = set(view.holds)
    if set(model.entities[view.entity].stored) <= held:
        return "ALL"
    keys = {part.path for part in view.parts if part.cut is None}
    return "KEYS_ONLY" if held <= keys else "INCLUDE"


def _may_be_too_long(model: Model, entity: str, path: str) -> bool:
    """Whether a text would keep rows out of a view. What is a key anyway, here or of the row that a reference leads to,
    has to fit into one whatever else is designed."""
    at = path_of(path, model, entity)
    there = model.entities[model.entity_at(entity, at.roles)]
    column = there.columns[at.column]
    if column.name in there.key or there.fields[column.field].target is not None:
        return False
    return column.type.kind in ("string", "text", "bytes") and most_bytes(column.type) > LIMITS.sort_key_bytes


def hottest_units(view: View, facts: ViewFacts) -> float:
    """Write units per second that the hottest partition takes at the peak.

    What is written together with another row is written in a transaction, which takes each unit twice: sums, guards of
    unique values, and computed values. What an index takes is not doubled."""
    each = max(1.0, ceil(entry_bytes(view, facts) / LIMITS.write_unit_bytes))
    if view.kind in INDEXES:
        return each * facts.hottest_writes
    twice = facts.hottest_writes if view.measures or view.unique else facts.hottest_together
    return each * (facts.hottest_writes + twice)


def fit(model: Model, view: View, facts: ViewFacts) -> View | Rejection:
    """The view with the fewest shards that keep its hottest partition within the limits."""
    if view.kind in INDEXES and any(part.cut in ("each", "words") for part in view.parts):
        return Rejection("an item has one entry in an index")
    crowded = facts.rows > MOST_IN_ONE_PARTITION and not view.measures  # groups are few; how hot they are comes below
    if view.kind == "table" and not view.partition and not view.where and crowded:
        return Rejection(f"one partition would hold all {format_about(facts.rows)} rows, and all their traffic")
    for part in view.parts:
        if part.path and part.cut is None and not view.unique and _may_be_too_long(model, view.entity, part.path):
            limit = f"the {LIMITS.sort_key_bytes:,} B of a key"
            return Rejection(f"'{part.path}' may be longer than {limit}; give it a smaller max", part.path)
    size = entry_bytes(view, facts)
    if facts.most_entry_bytes + facts.key_bytes > LIMITS.item_bytes and size > LIMITS.item_bytes:
        kb = LIMITS.item_bytes // KB
        return Rejection(f"an item would take {size / KB:,.0f} KB on average, and dynamodb stores {kb} KB; {SPLIT}")
    # A key that may be too long by its types' limits is allowed, and a value that makes it so is refused at the call.
    if facts.key_bytes > LIMITS.sort_key_bytes:
        return Rejection(f"its key takes {facts.key_bytes:.0f} B on average of {LIMITS.sort_key_bytes} B")
    if view.kind == "lsi":
        if facts.row_bytes + size > LIMITS.item_bytes:  # an item's entries in local indexes count with it
            kb = LIMITS.item_bytes // KB
            both = (facts.row_bytes + size) / KB
            return Rejection(f"an item with its local index would take {both:,.0f} KB on average of {kb} KB")
        return view  # its partitions are those of the table
    needed = ceil(hottest_units(view, facts) / LIMITS.partition_writes_per_second)
    if needed <= 1 or view.unique or view.embeds or not (view.sort or view.measures):
        return view  # one entry, or one row with its children, cannot be spread; `warnings` says so if it is too hot
    # A sum can be kept in parts, each of some of the rows, and is added up when it is read.
    ways = max(2, needed)
    if ways > MOST_SHARDS:
        return Rejection(f"it would need {ways} shards")
    return replace(view, partition=(*view.partition, Part("", ways=ways)))
