"""What work costs on DynamoDB: dollars a month, from read and write units and storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, exp, expm1, floor, log2, sqrt

from keyplan.engines.calibration import given
from keyplan.engines.dynamodb.couplings import couplings
from keyplan.engines.dynamodb.families import read_with
from keyplan.engines.dynamodb.fit import fit, hottest_units
from keyplan.engines.dynamodb.limits import GB, LATENCIES, LIMITS, MB, MONTH_HOURS, MONTH_SECONDS, PRICES, Latencies
from keyplan.engines.dynamodb.oversize import oversized
from keyplan.engines.dynamodb.projection import INDEXES, projection_of
from keyplan.engines.dynamodb.sizes import entry_bytes, field_bytes, index_key_bytes, is_named, key_bytes, spread_bytes
from keyplan.engines.dynamodb.targets import billing, check, partition_bytes
from keyplan.engines.work import Cost, CostModel, Couplings, Load, Rejection, TouchWork, ViewFacts, Work, total
from keyplan.model.model import Model
from keyplan.model.pattern import Traffic
from keyplan.model.types import Type
from keyplan.plan.view import COPIES, Part, View
from keyplan.units import format_about

HEADROOM = 0.8
"""The share of a partition's throughput that copies are made for: their load is not perfectly even."""
MOST_COPIES = 50
FEW_PAGES = 0.1
"""Ranges of less than so many pages on average hardly ever take a second one."""


class DynamoDBCosts(CostModel):
    """Prices work in on-demand units."""

    unit = "USD/month"
    per_second = float(MONTH_SECONDS)
    transactional = True
    returns_together = False
    extends = False
    carries = True
    atomic_entries = LIMITS.transaction_items - 2
    """Two are left for checks on rows that values are copied from."""
    atomic_most = LIMITS.transaction_items
    atomic_bytes = float(LIMITS.transaction_bytes)

    def __init__(self, model: Model, latencies: Latencies = LATENCIES) -> None:
        self.model = model
        self.latencies = latencies
        self.billing = billing(model)
        self.partition_bytes = partition_bytes(model)
        self._spreads: dict[tuple[View, tuple[str, ...]], float] = {}

    def fit(self, view: View, facts: ViewFacts) -> View | Rejection:
        return fit(self.model, view, facts)

    def entry_bytes(self, view: View, facts: ViewFacts, at: tuple[str, ...] = ()) -> float:
        return entry_bytes(self.model, view, facts, at)

    def field_bytes(self, path: str, type: Type) -> float:
        return field_bytes(path, type)

    def part_bytes(self, type: Type, cut: str | None) -> float:
        return key_bytes(type, cut)

    def read(self, work: Work) -> Cost:
        each = work.entry_bytes + work.larger.get("", 0.0)
        size = each * work.entries
        most = each * work.most_entries
        spread = 0.0
        for chain in work.along:
            embed = work.facts.embeds[chain]
            child = entry_bytes(self.model, work.view, work.facts, tuple(chain.split("."))) + work.larger.get(
                chain, 0.0
            )
            many, hottest = embed.per_parent, min(embed.most_per_parent, 10 * max(1.0, embed.per_parent))
            cut = work.along_first is not None and work.along_first <= many
            if work.along_first is not None:
                many, hottest = min(many, work.along_first), min(hottest, work.along_first)
            size += child * many * work.entries
            spread += 0.0 if cut else child * many * work.entries
            most += child * hottest * work.most_entries
        units = self._read_units(work, size, spread) * work.requests
        pages = max(1.0, ceil(most / LIMITS.page_bytes))
        if _by_keys(work):
            p99 = (
                self.latencies.get_ms if work.requests <= 1 else self.latencies.batch_get_ms * ceil(work.requests / 100)
            )
        elif work.scan:
            p99 = self.latencies.scan_page_ms * pages
        else:
            waves = ceil(work.requests / 32)
            p99 = self.latencies.query_ms * waves * pages + most / MB * self.latencies.ms_per_mb
        requests, trips = _sent(work, size)
        return Cost(units * PRICES.on_demand_per_read_unit, {"read units": units}, p99, requests, trips)

    def touch(self, work: TouchWork) -> Cost:
        units = self._write_units(work)
        cost = Cost(units * PRICES.on_demand_per_write_unit, {"write units": units}, self.latencies.put_ms)
        if not work.view.extended or not work.adds:
            return cost
        # No update extends a minimum: the group is read, and what it said is tested.
        read = work.adds * max(1.0, ceil(work.entry_bytes / LIMITS.read_unit_bytes))
        asked = Cost(read * PRICES.on_demand_per_read_unit, {"read units": read}, self.latencies.get_ms)
        return total((cost, asked))

    def _write_units(self, work: TouchWork) -> float:
        changed = work.puts + work.patches + 2 * work.moves + work.deletes + work.adds + work.checks
        spread = self._spread(work.view, work.facts, work.at) if work.entry_bytes else 0.0
        return rounded_up_around(work.entry_bytes, spread, LIMITS.write_unit_bytes) * changed

    def _read_units(self, work: Work, size: float, spread: float) -> float:
        """The units of one request that reads so many bytes, a part of which differs from call to call: rows with as
        many children as each has."""
        unit = LIMITS.read_unit_bytes
        spread = size if work.varies else spread
        if spread:
            whole = rounded_up_on_average(spread / unit, (size - spread) / unit)
        else:
            # Of many entries, some are larger and some are smaller.
            around = sqrt(work.entries) * self._spread(work.view, work.facts, work.at)
            whole = rounded_up_around(size, min(size, around), unit)
        return whole * (1.0 if work.strong else LIMITS.eventual_read_factor)

    def _spread(self, view: View, facts: ViewFacts, at: tuple[str, ...]) -> float:
        key = view, at
        if key not in self._spreads:
            self._spreads[key] = spread_bytes(self.model, view, facts, at)
        return self._spreads[key]

    def premium(self, work: TouchWork, cost: Cost) -> Cost:
        """As many write units again; each item is prepared and then committed."""
        items = work.puts + work.patches + 2 * work.moves + work.deletes + work.adds + work.checks
        later = self.latencies.transact_write_ms - self.latencies.put_ms + items * self.latencies.transact_item_ms
        units = cost.units.get("write units", 0.0)
        return Cost(units * PRICES.on_demand_per_write_unit, {"write units": units}, max(0.0, later))

    def variants(self, view: View, facts: ViewFacts) -> Sequence[View]:
        """Copies under several partition keys, of which each read takes one, for entries that are read too often."""
        if view.kind != "table" or view.unique or view.measures or view.embeds or any(p.ways > 1 for p in view.parts):
            return ()
        units = (
            max(1.0, ceil(entry_bytes(self.model, view, facts) / LIMITS.read_unit_bytes)) * LIMITS.eventual_read_factor
        )
        needed = ceil(facts.hottest_reads * units / (LIMITS.partition_reads_per_second * HEADROOM))
        if needed <= 1 or needed > MOST_COPIES:
            return ()
        return (replace(view, partition=(*view.partition, Part("", COPIES, needed))),)

    def heat(self, work: Work, per_second: float) -> float:
        units = self.read(work.of(1.0)).units["read units"]
        ways = 1
        for part in work.view.partition:
            ways *= part.ways if part.cut == COPIES else 1
        return per_second * units / ways / LIMITS.partition_reads_per_second

    def too_hot(self, work: Work, per_second: float) -> str:
        load = self.heat(work, per_second) * LIMITS.partition_reads_per_second
        if load <= LIMITS.partition_reads_per_second:
            return ""
        return (
            f"the hottest key would take {load:.0f} read units/s of {LIMITS.partition_reads_per_second} "
            "that a partition has"
        )

    def written(self, view: View, facts: ViewFacts) -> float:
        return hottest_units(self.model, view, facts) / LIMITS.partition_writes_per_second

    def settings(self, loads: Sequence[Load]) -> Mapping[str, object]:
        """By request or provisioned, whichever is cheaper for these loads and their peaks.

        Both charge five times as much for a write unit as for a read unit, so that the choice does not change what
        the best keys are, but for the weight of storage.
        """
        on_demand = provisioned = 0.0
        peaks = {"read units": 0.0, "write units": 0.0}
        for load in loads:
            held = held_capacity(load.traffic)
            for unit, amount in load.units.items():
                read = unit == "read units"
                each = PRICES.on_demand_per_read_unit if read else PRICES.on_demand_per_write_unit
                hour = PRICES.provisioned_per_read_unit_hour if read else PRICES.provisioned_per_write_unit_hour
                on_demand += load.traffic.rate * amount * each * MONTH_SECONDS
                provisioned += held * amount * hour * MONTH_HOURS
                peaks[unit] += load.traffic.rate * amount
        most = max(peaks.values()) / PRICES.autoscaling_target
        fits = most <= LIMITS.table_units_per_second
        cheaper = "provisioned" if provisioned < on_demand and fits else "on_demand"
        return {
            "billing": self.billing or cheaper,
            "read_units": ceil(peaks["read units"] / PRICES.autoscaling_target),
            "write_units": ceil(peaks["write units"] / PRICES.autoscaling_target),
            "usd_per_month_on_demand": round(on_demand, 2),
            "usd_per_month_provisioned": round(provisioned, 2),
        }

    def warnings(self, view: View, facts: ViewFacts) -> Sequence[str]:
        """Keys that are written more often than a partition takes, and that nothing here can spread; rows that may
        become larger than an item."""
        found = list(oversized(self.model, view))
        units = hottest_units(self.model, view, facts)
        limit = LIMITS.partition_writes_per_second
        if units > limit:
            most = facts.hottest_writes * limit / units
            found.append(
                f"the hottest key of '{view.name}' takes {units:.0f} write units/s at the peak, a partition {limit}; "
                f"lower its {format_about(facts.hottest_writes)} writes/s to {format_about(most)}, or split the row"
            )
        return found

    def keep(self, view: View, facts: ViewFacts) -> float:
        size = (entry_bytes(self.model, view, facts) + LIMITS.storage_overhead_bytes) * facts.rows
        for chain, embed in facts.embeds.items():
            child = entry_bytes(self.model, view, facts, tuple(chain.split("."))) + LIMITS.storage_overhead_bytes
            size += child * embed.per_parent * facts.rows
        return self.keep_more(size + self.adds(view, facts) + facts.carried_bytes)

    def adds(self, view: View, facts: ViewFacts) -> float:
        return index_key_bytes(self.model, view, facts) * facts.rows if view.kind in INDEXES else 0.0

    def holds_added(self, view: View) -> bool:
        whole = view.kind in INDEXES and projection_of(self.model, view) == "ALL"
        return whole and not is_named(self.model, view)

    def keep_more(self, size: float) -> float:
        return size / GB * PRICES.storage_per_gb_month

    def read_with(self, view: View, roles: Sequence[str]) -> tuple[str, ...]:
        return read_with(view, roles)

    def couplings(self, views: Sequence[View], facts: Mapping[str, ViewFacts]) -> Couplings:
        return couplings(self.model, views, facts)


def _by_keys(work: Work) -> bool:
    """Whether it is a GetItem, or a BatchGetItem: indexes have Query alone."""
    return work.get and not work.along and work.view.kind not in INDEXES


def _sent(work: Work, size: float) -> tuple[float, int]:
    """The requests of a search, and how many of them wait for each other; each of its ranges brings so many bytes.

    Keys go in batches, all at once. A range comes in pages of 1 MB, each of which says where the next one begins.
    """
    if _by_keys(work):
        return (work.requests if work.requests <= 1 else float(ceil(work.requests / LIMITS.batch_get_items))), 1
    full = size / LIMITS.page_bytes
    pages = rounded_up_on_average(full) if work.varies and full > FEW_PAGES else max(1.0, ceil(full))
    if work.first and work.entries > work.first:
        pages = max(pages, ceil(log2(work.entries / work.first + 1)))
    return work.requests * pages, max(1, round(pages))


def rounded_up_on_average(mean: float, beside: float = 0.0) -> float:
    """The mean of sizes that are each rounded up to whole units: of sizes spread exponentially around `mean`, each with
    what is always there beside it.

    Most are smaller than the mean and some are much larger, as the rows behind one key usually are.

    >>> [round(rounded_up_on_average(*sizes), 2) for sizes in ((0.1,), (2.0,), (0.1, 0.8), (0.1, 1.0), (2.0, 3.5))]
    [1.0, 2.54, 1.14, 2.0, 5.98]
    """
    whole = floor(beside)
    return whole + 1 + exp((beside - whole - 1) / mean) / -expm1(-1 / mean)


def rounded_up_around(mean: float, spread: float, unit: float) -> float:
    """The mean number of units that sizes take which are spread evenly around `mean`, each rounded up.

    >>> [round(rounded_up_around(mean, 400, 1000), 2) for mean in (100, 800, 900, 1000, 1200, 2000)]
    [1.0, 1.0, 1.25, 1.5, 2.0, 2.5]
    """
    low, high = max(0.0, mean - spread / 2) / unit, (mean + spread / 2) / unit
    if ceil(low) == ceil(high) or high - low < 1e-9:
        return max(1.0, ceil(mean / unit))
    return max(1.0, (_summed_up(high) - _summed_up(low)) / (high - low))


def _summed_up(size: float) -> float:
    """The area under all smaller sizes, each rounded up."""
    whole = floor(size)
    return whole * (whole + 1) / 2 + (size - whole) * (whole + 1)


def held_capacity(traffic: Traffic) -> float:
    """The mean capacity that autoscaling holds for a load, in calls per second.

    It is sized for the peak during the peak and an hour around it, for the rest of the day otherwise, and aims at
    70 % use.
    """
    hours = min(24.0, traffic.peak_hours + 1.0)
    peak = traffic.rate * traffic.peak
    quiet = max(0.0, (traffic.rate * 24 - peak * traffic.peak_hours) / max(1e-9, 24 - traffic.peak_hours))
    return (peak * hours + quiet * (24 - hours)) / 24 / PRICES.autoscaling_target


def cost_model(model: Model) -> DynamoDBCosts:
    """The cost model for a model, with the latencies that its `targets` may name."""
    check(model)
    return DynamoDBCosts(model, Latencies(**given(model, "dynamodb", "latencies", Latencies)))
