"""A test double of an engine that packs: DynamoDB's figures, but a partition may be one value, written as it likes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from keyplan.engines.base import Kind
from keyplan.engines.dynamodb import KINDS, DynamoDBEngine
from keyplan.engines.dynamodb.cost import DynamoDBCosts
from keyplan.engines.dynamodb.limits import KB, PRICES
from keyplan.engines.work import Cost, CostModel, Rejection, TouchWork, ViewFacts
from keyplan.model.model import Model
from keyplan.plan.view import View

OVERHEAD = 400.0
"""Bytes that each stored value takes besides, much enough to be worth packing."""


class PackingCosts(DynamoDBCosts):
    """Values of up to 400 KB, to which entries are appended, or which are written anew."""

    packed_bytes = 400.0 * KB
    appends = True

    def fit(self, view: View, facts: ViewFacts) -> View | Rejection:
        fitted = super().fit(view, facts)
        return Rejection("a value has no shards") if view.packed and fitted != view else fitted

    def touch(self, work: TouchWork) -> Cost:
        if not work.view.packed or self.appends:
            return super().touch(work)
        return super().touch(replace(work, entry_bytes=work.entry_bytes * work.facts.per_partition))

    def keep(self, view: View, facts: ViewFacts) -> float:
        values = facts.partitions if view.packed else facts.rows
        return super().keep(view, facts) + values * OVERHEAD / (KB * KB * KB) * PRICES.storage_per_gb_month


class RewritingCosts(PackingCosts):
    """Every change writes the whole value."""

    appends = False


class PackingEngine(DynamoDBEngine):
    """Designs only; nothing runs on it."""

    kinds: Mapping[str, Kind] = {**KINDS, "table": replace(KINDS["table"], packs=True)}

    def __init__(self, *, appends: bool = True) -> None:
        self.appends = appends

    def costs(self, model: Model) -> CostModel:
        return PackingCosts(model) if self.appends else RewritingCosts(model)
