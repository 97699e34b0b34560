"""What the views of a table have to share: so many indexes, and, once one of them is local, 10 GB per partition key.

One index serves every entity once, but for views that no row is in both of (`sharing.py`), so that what counts is the
entity with the most views of a projection, as in `pack`; each further index costs a little, so that as few as possible
are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from keyplan.engines.dynamodb.fit import hottest_units
from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.engines.dynamodb.native import is_native
from keyplan.engines.dynamodb.pack import PROJECTIONS, included
from keyplan.engines.dynamodb.projection import INDEXES, projection_of
from keyplan.engines.dynamodb.sharing import counted
from keyplan.engines.dynamodb.sizes import entry_bytes
from keyplan.engines.dynamodb.tags import partition_tag
from keyplan.engines.work import Couplings, LinearRow, ViewFacts
from keyplan.model.model import Model
from keyplan.plan.view import View

INDEX_COST = {"gsi": 0.1, "lsi": 0.2}
"""Dollars a month that an index is thought to cost by being there, so that equal designs have fewer of them.

A local one limits every partition of the table and stays as long as the table does: on a tie it is not taken."""
INDEX_WORTH = {"gsi": 0.01, "lsi": 0.03}
"""The share of the whole cost that an index has to save: people have to know it, watch it and wait for its backfill. A
local one is somewhat smaller than a global one, which is no reason to have what cannot be added or dropped later."""
HAS_LOCAL = "local"
"""The variable that says whether the table has a local index at all."""
BOTH = "both."
"""Before the name of a view: the variable that says whether its rows have another item besides."""
LITTLE = 0.02
"""The share of a partition that views are taken to take anyway, where they do so only beside another item."""


def couplings(model: Model, views: Sequence[View], facts: Mapping[str, ViewFacts]) -> Couplings:
    """At most 20 global and 5 local indexes, 100 attributes named in projections, and no large item collection beside
    a local index."""
    variables: dict[str, tuple[float, float, bool]] = {}
    worth: dict[str, float] = {}
    rows: list[LinearRow] = []
    for kind, most in (("gsi", LIMITS.global_indexes), ("lsi", LIMITS.local_indexes)):
        mine = [view for view in views if view.kind == kind]
        counts = {f"{kind}.{projection}": (INDEX_COST[kind], float(most), True) for projection in PROJECTIONS}
        variables |= counts if mine else {}
        worth |= dict.fromkeys(counts, INDEX_WORTH[kind]) if mine else {}
        rows += [LinearRow(dict.fromkeys(counts, 1.0), high=float(most))] if mine else []
        for row, first in _counted(model, kind, mine):
            variables |= {name: (0.0, float(most), True) for name in first}
            rows.append(row)
    named = {view.name: float(len(included([view]))) for view in views if _names_attributes(model, view)}
    named = {name: many for name, many in named.items() if many}
    if sum(named.values()) > LIMITS.included_attributes:
        rows.append(LinearRow(named, high=float(LIMITS.included_attributes)))
    local = [view.name for view in views if view.kind == "lsi"]
    if local:
        variables[HAS_LOCAL] = (0.0, 1.0, True)
        rows += [LinearRow({name: 1.0, HAS_LOCAL: -1.0}, high=0.0) for name in local]
        large = list(_collections(model, views, facts))
        known = {view.name: view for view in views}
        tables: dict[str, list[str]] = {}
        for view in views:
            if view.kind == "table":
                tables.setdefault(view.entity, []).append(view.name)
        for name in dict.fromkeys(name for row in large for name in row.coefficients):
            if name.startswith(BOTH):
                variables[name] = (0.0, 1.0, False)
                rows += _beside(known[name.removeprefix(BOTH)], tables, name)
        rows += large
    return Couplings(variables, rows, worth)


def _names_attributes(model: Model, view: View) -> bool:
    return view.kind in INDEXES and projection_of(model, view) == "INCLUDE"


def _counted(model: Model, kind: str, views: Sequence[View]) -> Iterator[tuple[LinearRow, Iterable[str]]]:
    """The rows that count indexes, and the variables of those that count something first."""
    native: dict[str, dict[str, float]] = {projection: {} for projection in PROJECTIONS}
    composed: dict[tuple[str, str], list[View]] = {}
    for view in views:
        projection = projection_of(model, view)
        if is_native(model, view):
            native[projection][view.name] = 1.0
        else:
            composed.setdefault((view.entity, projection), []).append(view)
    for entity in dict.fromkeys(view.entity for view in views):
        for projection, single in native.items():
            found = counted(model, composed.get((entity, projection), []), f"{kind}.{projection}.{entity}")
            for name, sums in found.counts.items():
                for form in sums:
                    yield LinearRow({**form, name: -1.0}, high=0.0), (name,)
            for form in found.sums or ([{}] if single else []):
                yield LinearRow({**single, **form, f"{kind}.{projection}": -1.0}, high=0.0), ()


def _collections(model: Model, views: Sequence[View], facts: Mapping[str, ViewFacts]) -> Iterator[LinearRow]:
    """Per partition tag, what shares its item collections: if the table has a local index, these lie on one partition
    each, so that all of it together has to stay below 10 GB and be written no faster than a partition allows.

    With M the sum of all of them: sum + M * has local <= 1 + M. What is written in transactions where rows have another
    item besides, counts twice there.
    """
    gathered: dict[tuple[str, str], dict[str, float]] = {}
    for view in views:
        if view.kind != "gsi":
            tag, known = partition_tag(model, view), facts[view.name]
            size = largest_collection(model, view, known) / LIMITS.partition_bytes
            units = hottest_units(model, view, known)
            both = hottest_units(model, view, replace(known, hottest_together=known.hottest_writes))
            gathered.setdefault((tag, "bytes"), {})[view.name] = size
            writes = gathered.setdefault((tag, "writes"), {})
            more = (both - units) / LIMITS.partition_writes_per_second
            writes[view.name] = (units if more > LITTLE else both) / LIMITS.partition_writes_per_second
            if more > LITTLE:
                writes[f"{BOTH}{view.name}"] = more
    for shares in gathered.values():
        most = sum(shares.values())
        if most > 1:
            yield LinearRow({**shares, HAS_LOCAL: most}, high=1 + most)


def _beside(view: View, tables: Mapping[str, Sequence[str]], both: str) -> Iterator[LinearRow]:
    """What makes rows of a view have another item besides: any other view of them in the table, per entity."""
    for other in tables.get(view.entity, ()):
        if other != view.name:
            yield LinearRow({view.name: 1.0, other: 1.0, both: -1.0}, high=1.0)


def largest_collection(model: Model, view: View, facts: ViewFacts) -> float:
    """The bytes that a view puts under its largest partition key."""
    size = entry_bytes(model, view, facts)
    for chain, embed in facts.embeds.items():
        size += entry_bytes(model, view, facts, tuple(chain.split("."))) * embed.most_per_parent
    return size * facts.hottest_rows
