"""MongoDB's limits, and what we ask of it at once: each number with its source.

Documentation below https://www.mongodb.com/docs/manual/, of MongoDB 6.0 to 8.0, as of November 2026:
- limits: reference/limits/
- transactions: core/transactions-production-consideration/
"""

from __future__ import annotations

from dataclasses import dataclass

KB = 1024
MB = 1024 * KB
GB = 1024 * MB


@dataclass(frozen=True)
class Limits:
    """What MongoDB refuses beyond, and the targets that a model may set under `targets: mongodb:`."""

    document_bytes: int = 16 * MB
    """A BSON document (limits)."""
    nesting: int = 100
    """Levels of documents and arrays inside each other (limits)."""
    indexes: int = 64
    """Indexes of one collection, that on `_id` included (limits)."""
    index_fields: int = 32
    """Fields of a compound index (limits)."""
    namespace_bytes: int = 255
    """Database and collection name together (limits)."""
    digits: int = 34
    """Of a Decimal128 (https://www.mongodb.com/docs/manual/reference/bson-types/)."""
    batch_writes: int = 100_000
    """Writes of one command (limits)."""
    transaction_seconds: int = 60
    """transactionLifetimeLimitSeconds (transactions)."""
    target_bytes: int = MB
    """The working-set target: the largest that a document should become, by `targets: mongodb: document_bytes`.
    A read brings the whole document into the cache, whatever it projects; Compass warns at 10,000,000 bytes."""
    target_elements: int = 1000
    """The most elements of an array, by `targets: mongodb: array_elements`: MongoDB's own modelling rules say 1,000
    and Compass warns from 250 on (as of November 2026)."""
    packed_bytes: int = 125 * KB
    """The most that a document of packed entries should hold, by `targets: mongodb: packed_bytes`. Far below 16 MB:
    each entry that comes rewrites the document, and each one that is read brings all the others into the cache.
    MongoDB closes the buckets of its own time-series collections at this size (timeseriesBucketMaxSize in
    src/mongo/db/timeseries/timeseries.idl, as of November 2026)."""


LIMITS = Limits()

BATCH = 500
"""The most keys that one find looks up."""
CHUNK = 1000
"""The most documents of a range that are brought at once; more stay behind the server's cursor."""
PACKED_CHUNK = 100
"""The same of documents that hold many entries each."""
BULK = 2000
"""The most documents of one bulk write."""


@dataclass(frozen=True)
class Latencies:
    """Milliseconds that 99 of 100 requests stay under; assumptions for a replica set in one region, round trip
    included, until `keyplan calibrate` has measured them. On one machine they are a quarter of this."""

    find_ms: float = 2.0
    write_ms: float = 8.0
    """Acknowledged by a majority, each of which has written its journal."""
    transaction_ms: float = 15.0
    ms_per_mb: float = 10.0
    """Bringing and decoding a megabyte."""


LATENCIES = Latencies()
