"""Measures what the cost model's coefficients are on this machine: `python -m tests.engines.sqlite.measure`.

Processor time of plain `sqlite3`, in microseconds, the least of several runs, on a file that the cache holds. The names
are those of `Coefficients` in `keyplan/engines/sqlite/cost.py`.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time

ROWS = 200_000
RUNS = 7


def per_unit(work: Callable[[], object], units: float) -> float:
    """The least processor time of several runs, per unit, in microseconds."""
    times = []
    for _ in range(RUNS):
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times) / units * 1e6


def fill(database: sqlite3.Connection, name: str, *, index: bool, wide: int = 0) -> None:
    """A table with random 16-byte keys and, if wanted, an index over another column."""
    database.execute(f"CREATE TABLE {name} (k BLOB PRIMARY KEY, a INTEGER, b INTEGER, t TEXT) STRICT, WITHOUT ROWID")
    if index:
        database.execute(f"CREATE INDEX ix_{name} ON {name} (a, k)")
    database.execute("BEGIN")
    database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", rows(ROWS, wide))
    database.execute("COMMIT")


def rows(count: int, wide: int = 0) -> list[tuple[bytes, int, int, str]]:
    return [(random.randbytes(16), random.randrange(10**9), n, "x" * wide) for n in range(count)]


def insert_cost(database: sqlite3.Connection, name: str) -> float:
    """Microseconds per row inserted in a large transaction."""
    count = 5000
    batches = [rows(count) for _ in range(RUNS)]

    def work() -> None:
        database.execute("BEGIN")
        database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", batches.pop())
        database.execute("COMMIT")

    return per_unit(work, count)


def measure(folder: Path) -> dict[str, float]:
    """The coefficients."""
    random.seed(1)
    database = sqlite3.connect(folder / "x.db", isolation_level=None, cached_statements=500)
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "cache_size=-262144"):
        database.execute(f"PRAGMA {pragma}")
    fill(database, "plain", index=False)
    fill(database, "indexed", index=True)
    fill(database, "wide", index=False, wide=1000)
    database.execute("CREATE TABLE empty (k BLOB PRIMARY KEY) STRICT, WITHOUT ROWID")
    keys = [row[0] for row in database.execute("SELECT k FROM indexed LIMIT 5000").fetchall()]
    random.shuffle(keys)
    run = database.execute

    def repeat(text: str, *values: object) -> Callable[[], None]:
        def work() -> None:
            for _ in range(5000):
                run(text, values).fetchall()

        return work

    def gets() -> None:
        for key in keys:
            run("SELECT k FROM indexed WHERE k = ?", (key,)).fetchall()

    span = 20_000
    bound = run("SELECT a FROM indexed ORDER BY a LIMIT 1 OFFSET ?", (span,)).fetchone()[0]
    statement = per_unit(repeat("SELECT k FROM empty WHERE k = ?", b""), 5000)  # opens a read of the log, too
    get = per_unit(gets, len(keys))
    covered = "SELECT k FROM indexed INDEXED BY ix_indexed WHERE a < ?"
    entry = per_unit(lambda: run(covered, (bound,)).fetchall(), span)
    fetched = "SELECT b FROM indexed INDEXED BY ix_indexed WHERE a < ?"
    lookup = per_unit(lambda: run(fetched, (bound,)).fetchall(), span) - entry
    narrow = per_unit(lambda: run("SELECT t FROM plain").fetchall(), ROWS)
    wide = per_unit(lambda: run("SELECT t FROM wide").fetchall(), ROWS)
    insert = insert_cost(database, "plain")
    with_index = insert_cost(database, "indexed")
    singles = [rows(500) for _ in range(RUNS)]

    def one_by_one() -> None:
        for row in singles.pop():
            run("INSERT INTO plain VALUES (?, ?, ?, ?)", row)

    single = per_unit(one_by_one, 500)
    database.close()
    return {
        "statement": statement,
        "seek": max(0.0, get - statement - entry),
        "entry": entry,
        "lookup": lookup,
        "byte": (wide - narrow) / 1000,
        "insert": insert,
        "index_insert": max(0.0, with_index - insert),
        "commit": max(0.0, single - insert - statement),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder))
    print(f"# microseconds; SQLite {sqlite3.sqlite_version}, Python {sys.version.split()[0]}, {ROWS:,} rows")
    for name, micros in found.items():
        print(f"{name}: {micros:.4f}" if micros < 0.01 else f"{name}: {micros:.2f}")


if __name__ == "__main__":
    main()
