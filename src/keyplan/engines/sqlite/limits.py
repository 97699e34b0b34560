"""What SQLite can do, and what things cost there.

Limits: https://www.sqlite.org/limits.html, defaults of SQLite 3.40, read 2026-05.
"""

from __future__ import annotations

LEAST_VERSION = (3, 37, 0)
"""STRICT tables (2021-11); RETURNING came with 3.35."""

COLUMNS = 2000
"""SQLITE_MAX_COLUMN: columns of a table or index."""
SQL_BYTES = 1_000_000
"""SQLITE_MAX_SQL_LENGTH is 1,000,000 by default (some builds raise it)."""
PARAMETERS = 32_766
"""SQLITE_MAX_VARIABLE_NUMBER since 3.32."""
VALUE_BYTES = 1_000_000_000
"""SQLITE_MAX_LENGTH: a string, BLOB or whole row."""
COMPOUND_TERMS = 500
"""SQLITE_MAX_COMPOUND_SELECT; a VALUES list of constants is not a compound, but batches stay below it."""
EXPRESSION_DEPTH = 1000
DATABASE_BYTES = 281_474_976_710_656
"""4,294,967,294 pages of 65,536 bytes; 16 TiB at the default page size of 4,096."""

PAGE_BYTES = 4096
"""The default page size since 3.12."""
SMALL_ROW_BYTES = PAGE_BYTES / 20
"""Below it a table is WITHOUT ROWID: https://www.sqlite.org/withoutrowid.html (read 2026-05) gives a twentieth of
a page as the rule of thumb. Such a table is one B-tree ordered by its key, so that a get is one search instead of
two and rows that are read together lie together; but inner pages hold whole rows there, so that large ones
make the tree deep."""

BATCH = 128
"""The most spans that one statement looks up."""
CHUNK = 5000
"""The most rows that one statement brings; more are fetched by going on behind the last key."""
BULK_ROWS = 20_000
"""The most rows written in one transaction of a bulk load, which bounds the WAL."""
