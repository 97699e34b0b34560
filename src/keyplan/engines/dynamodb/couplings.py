"""What the views of a table have to share: so many indexes, and, once one of them is local, 10 GB per partition key.

One index serves every entity once, but for views that no row is in both of (`sharing.py`), so that what counts is the
entity with the most views of a projection, as in `pack`; each further index costs a little, so that as few as possible
are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

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
SEVERAL = "several."
"""Before the name of an entity: the variable that says whether its rows are in several views of the table."""
LITTLE = 0.02
"""The share of a partition that views are taken to take anyway, where they do so only beside another item."""


def couplings(model: Model, views: Sequence[View], facts: Mapping[str, ViewFacts]) -> Couplings:
    """At most 20 global and 5 local indexes, 100 attributes named in projections, and no large item collection beside
    a local index."""
    variables: dict[str, tuple[float, float, bool]] = {}
    worth: dict[str, float] = {}
    several: dict[str, Sequence[str]] = {}
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
        for collection in _collections(model, views, facts):
            for beside in collection.beside:
                entity = beside.entity
                several[SEVERAL + entity] = [view.name for view in views if _is_item(view) and view.entity == entity]
                variables[SEVERAL + entity] = (0.0, 1.0, False)
                variables[beside.name] = (0.0, sum(beside.more.values()), False)
                rows.append(beside.row)
            rows.append(collection.row)
    return Couplings(variables, rows, worth, several)


def _is_item(view: View) -> bool:
    """Whether its entries are items of the table, and not of an index."""
    return view.kind == "table"


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


@dataclass(frozen=True)
class _Beside:
    """What rows of one entity are written more under a tag where they have another item besides: as a share of what a
    partition takes, by view."""

    name: str
    entity: str
    more: Mapping[str, float]

    @property
    def row(self) -> LinearRow:
        """With M the sum of all of them: sum + M * several <= M + what is written more."""
        most = sum(self.more.values())
        return LinearRow({**self.more, SEVERAL + self.entity: most, self.name: -1.0}, high=most)


@dataclass(frozen=True)
class _Collection:
    """What the largest item collection under a tag may come to, as shares of what a partition takes."""

    shares: Mapping[str, float]
    beside: Sequence[_Beside] = ()

    @property
    def most(self) -> float:
        return sum(self.shares.values()) + sum(sum(beside.more.values()) for beside in self.beside)

    @property
    def row(self) -> LinearRow:
        """With M all of it: sum + M * has local <= 1 + M."""
        more = {beside.name: 1.0 for beside in self.beside}
        return LinearRow({**self.shares, **more, HAS_LOCAL: self.most}, high=1 + self.most)


def _collections(model: Model, views: Sequence[View], facts: Mapping[str, ViewFacts]) -> Iterator[_Collection]:
    """Per partition tag, what shares its item collections: if the table has a local index, these lie on one partition
    each, so that all of it together has to stay below 10 GB and be written no faster than a partition allows.

    What is written in transactions where rows have another item besides, counts twice there; an entry of a local index
    always has one.
    """
    sizes: dict[str, dict[str, float]] = {}
    writes: dict[str, dict[str, float]] = {}
    more: dict[str, dict[str, dict[str, float]]] = {}
    for view in views:
        if view.kind == "gsi":
            continue
        tag, known = partition_tag(model, view), facts[view.name]
        sizes.setdefault(tag, {})[view.name] = largest_collection(model, view, known) / LIMITS.partition_bytes
        alone = hottest_units(model, view, known) / LIMITS.partition_writes_per_second
        together = replace(known, hottest_together=known.hottest_writes)
        both = hottest_units(model, view, together) / LIMITS.partition_writes_per_second
        if both - alone > LITTLE and _is_item(view):
            more.setdefault(tag, {}).setdefault(view.entity, {})[view.name] = both - alone
        else:
            alone = both
        writes.setdefault(tag, {})[view.name] = alone
    for tag, shares in sizes.items():
        beside = [_Beside(f"beside.{tag}.{entity}", entity, some) for entity, some in more.get(tag, {}).items()]
        for found in (_Collection(shares), _Collection(writes[tag], beside)):
            if found.most > 1:
                yield found


def largest_collection(model: Model, view: View, facts: ViewFacts) -> float:
    """The bytes that a view puts under its largest partition key."""
    size = entry_bytes(model, view, facts)
    for chain, embed in facts.embeds.items():
        size += entry_bytes(model, view, facts, tuple(chain.split("."))) * embed.most_per_parent
    return size * facts.hottest_rows
