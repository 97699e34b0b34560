"""DynamoDB's limits, prices and latencies: each number once, with its source.

Documentation below https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/, as of November 2026:
- constraints: Constraints.html
- quotas: ServiceQuotas.html
- sizes: CapacityUnitCalculations.html
- transactions: transaction-apis.html
- partitions: warm-throughput-scenarios.html

How sure we are. Seen there again when this file was written: binary units, key sizes, INCLUDE attributes, the 10 GB
of an item collection, unit sizes and their factors, item sizes and overhead, transactions, partition throughput,
units per table. The other limits were read earlier in AWS's documentation or its last public guide. Prices are not:
AWS's page fills them in by script. Those on demand and of storage come from AWS's open tools, and the provisioned
ones are second-hand; check them against https://aws.amazon.com/dynamodb/pricing/ before money depends on them.

DynamoDB counts in binary units: 1 KB = 1,024 B, 1 GB = 2^30 B (constraints). AWS's own tools disagree on the length
of a month; here it has 730 hours = 2,628,000 s, as in https://aws.amazon.com/calculator/calculator-assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass

KB = 1024
MB = 1024 * KB
GB = 1024 * MB
MONTH_HOURS = 730
MONTH_SECONDS = MONTH_HOURS * 3600


@dataclass(frozen=True)
class Limits:
    """What DynamoDB refuses beyond; `targets:` of a model may lower them."""

    item_bytes: int = 400 * KB
    """Names and values of one item; with local indexes, their entries too (constraints)."""
    digits: int = 38
    """Of a number, without leading and trailing zeros (constraints)."""
    partition_key_bytes: int = 2048
    """1 to 2,048 bytes (constraints)."""
    sort_key_bytes: int = 1024
    """1 to 1,024 bytes (constraints)."""
    partition_reads_per_second: int = 3000
    """Read units of one partition, and so of one key; each index has partitions of its own (partitions)."""
    partition_writes_per_second: int = 1000
    """Write units of one partition (partitions)."""
    partition_bytes: int = 10 * GB
    """A partition splits beyond this; with a local index, an item collection cannot grow beyond it (constraints)."""
    global_indexes: int = 20
    """Per table; AWS raises it on request (quotas)."""
    local_indexes: int = 5
    """Per table, and only at its creation (quotas)."""
    included_attributes: int = 100
    """Attributes named in INCLUDE projections, summed over all indexes of a table (constraints)."""
    included_attributes_of_one: int = 20
    """Attributes named in the INCLUDE projection of one index (API reference, Projection.NonKeyAttributes, and the
    service model of botocore 1.40; November 2026)."""
    index_key_attributes: int = 4
    """Attributes in the partition key, and again in the sort key, of a global index (since November 2025; quotas)."""
    transaction_items: int = 100
    """Distinct items of one TransactWriteItems or TransactGetItems (transactions)."""
    transaction_bytes: int = 4 * MB
    """All items of a transaction together (transactions)."""
    batch_get_items: int = 100
    """Items of one BatchGetItem (constraints)."""
    batch_write_items: int = 25
    """Puts and deletes of one BatchWriteItem (constraints)."""
    batch_bytes: int = 16 * MB
    """The reply of a BatchGetItem, the request of a BatchWriteItem (constraints)."""
    page_bytes: int = MB
    """Data that one Query or Scan reads, before its filter (constraints)."""
    read_unit_bytes: int = 4 * KB
    """One strongly consistent read per unit (sizes)."""
    write_unit_bytes: int = KB
    """One write per unit (sizes)."""
    eventual_read_factor: float = 0.5
    """Units of an eventually consistent read against a strong one (sizes)."""
    transaction_factor: int = 2
    """Units of a transactional read or write against a plain one (transactions)."""
    storage_overhead_bytes: int = 100
    """Added to each item, and each index entry, when storage is billed (sizes)."""
    expression_bytes: int = 4 * KB
    """Length of one expression (constraints)."""
    expression_operators: int = 300
    """Operators and functions in one expression (constraints)."""
    in_operands: int = 100
    """Operands of IN (constraints)."""
    table_units_per_second: int = 40_000
    """Default quota of one table, reads and writes each (quotas)."""
    fresh_reads_per_second: int = 12_000
    """What a new on-demand table takes at once (quotas)."""
    fresh_writes_per_second: int = 4_000
    """What a new on-demand table takes at once (quotas)."""


@dataclass(frozen=True)
class Prices:
    """US dollars, us-east-1, Standard table class."""

    region: str = "us-east-1"
    on_demand_per_read_unit: float = 0.125e-6
    """$0.125 per million (AWS's open tools)."""
    on_demand_per_write_unit: float = 0.625e-6
    """$0.625 per million (AWS's open tools)."""
    provisioned_per_read_unit_hour: float = 0.00013
    """Per unit of capacity and hour (second-hand)."""
    provisioned_per_write_unit_hour: float = 0.00065
    """Per unit of capacity and hour (second-hand)."""
    storage_per_gb_month: float = 0.25
    """Per 2^30 bytes and month (AWS's open tools)."""
    storage_free_gb: float = 25.0
    """Per account and month, not per table; counted once per design (AWS's open tools)."""
    autoscaling_target: float = 0.7
    """Share of the provisioned capacity that autoscaling aims at; as in NoSQL Workbench's exports."""


@dataclass(frozen=True)
class Latencies:
    """p99 milliseconds seen by a client in the same region.

    Working assumptions, neither AWS's figures nor measured on AWS; `calibrate` replaces them by measured ones.
    """

    get_ms: float = 6.0
    query_ms: float = 8.0
    batch_get_ms: float = 10.0
    """The slowest of up to 100 reads."""
    put_ms: float = 8.0
    """Also update and delete of one item."""
    batch_write_ms: float = 14.0
    transact_get_ms: float = 15.0
    transact_write_ms: float = 20.0
    """Two phases; per item `transact_item_ms` more."""
    transact_item_ms: float = 0.2
    scan_page_ms: float = 40.0
    """A full page of 1 MB."""
    ms_per_mb: float = 25.0
    """Reading, sending and decoding the data of a reply."""


LIMITS = Limits()
PRICES = Prices()
LATENCIES = Latencies()
