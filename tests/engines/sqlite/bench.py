"""The store against hand-written `sqlite3` code: `python -m tests.engines.sqlite.bench`.

The hand-written side has the tables, the pragmas and the values that the store has (it is let into a file that the
store made), prepared texts, and rows as dicts of UUID, Decimal and datetime. `--large` loads and queries a million rows
instead, and prints time and memory. `--kept` loads an example whose views are counters and copies, which the store has
to keep itself, and prints rows per second of processor time, entity by entity.
"""

from __future__ import annotations

import argparse
import random
import resource
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator
from datetime import timedelta
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from uuid import UUID

import keyplan
from keyplan.data.dataset import generate
from keyplan.model.load import load_model
from keyplan.reference import Database
from tests.bench.harness import Compared, compare, comparison_table, failures, machine, seconds, table
from tests.bench.orders import EPOCH, MODEL, Row, new_id, orders

SHOP = Path(__file__).parents[3] / "examples" / "shop.yaml"
CUSTOMERS, ORDERS_EACH = 1000, 50
GETS, PAGES, LOADED = 400, 60, 2000
MS = timedelta(milliseconds=1)
CENT = Decimal("0.01")


class Handwritten:
    """What somebody who knows SQLite and Python would write for this model."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute("PRAGMA journal_mode=WAL")
        self.database.execute("PRAGMA synchronous=NORMAL")
        self.database.execute("PRAGMA cache_size=-65536")
        self.cursor = self.database.cursor()

    def order_by_id(self, order_id: UUID) -> Row | None:
        row = self.cursor.execute(
            "SELECT order_id, customer, status, total, paid, created_at, note FROM 'Order' WHERE order_id = ?",
            (order_id.bytes,),
        ).fetchone()
        return None if row is None else self.order(row)

    def orders_of_customer(self, customer_id: UUID) -> list[Row]:
        rows = self.cursor.execute(
            "SELECT order_id, customer, status, total, paid, created_at, note FROM 'Order' WHERE customer = ? "
            "ORDER BY created_at DESC, order_id DESC LIMIT 20",
            (customer_id.bytes,),
        ).fetchall()
        return [self.order(row) for row in rows]

    @staticmethod
    def order(row: tuple[Any, ...]) -> Row:
        order_id, customer, status, total, paid, created_at, note = row
        return {
            "order_id": UUID(bytes=order_id),
            "customer": UUID(bytes=customer),
            "status": status,
            "total": Decimal(total) * CENT,
            "paid": bool(paid),
            "created_at": EPOCH + created_at * MS,
            "note": note,
        }

    def load(self, rows: Iterable[tuple[str, Row]]) -> None:
        self.cursor.execute("BEGIN IMMEDIATE")
        self.cursor.executemany(
            "INSERT INTO 'Order' (order_id, customer, status, total, paid, created_at, note) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (order_id) DO UPDATE SET customer = excluded.customer, "
            "status = excluded.status, total = excluded.total, paid = excluded.paid, "
            "created_at = excluded.created_at, note = excluded.note",
            [
                (
                    row["order_id"].bytes,
                    row["customer"].bytes,
                    row["status"],
                    int(row["total"] * 100),
                    int(row["paid"]),
                    (row["created_at"] - EPOCH) // MS,
                    row["note"],
                )
                for _, row in rows
            ],
        )
        self.cursor.execute("COMMIT")


def compared(folder: Path) -> Iterator[Compared]:
    """Get, page and load."""
    source = random.Random(1)
    customers = [new_id(source) for _ in range(CUSTOMERS)]
    known = orders(source, customers, CUSTOMERS * ORDERS_EACH)
    with keyplan.open(MODEL, f"sqlite:{folder}/bench.db") as store:
        store.load(known)
        raw = Handwritten(folder / "bench.db")
        ids = [row["order_id"] for _, row in source.sample(known, GETS)]
        some = source.sample(customers, PAGES)
        assert all(store.order_by_id(order_id=one) == raw.order_by_id(one) for one in ids)
        assert all(store.orders_of_customer(customer_id=one).rows == raw.orders_of_customer(one) for one in some)
        yield compare(
            "get",
            lambda: [store.order_by_id(order_id=one) for one in ids],
            lambda: [raw.order_by_id(one) for one in ids],
            operations=GETS,
            bar=0.8,
            rounds=150,
        )
        yield compare(
            "page of 20",
            lambda: [store.orders_of_customer(customer_id=one) for one in some],
            lambda: [raw.orders_of_customer(one) for one in some],
            operations=PAGES,
            bar=0.8,
            rounds=150,
        )
        fresh: list[tuple[str, Row]] = []
        yield compare(
            "load, per row",
            lambda: store.load(fresh),
            lambda: raw.load(fresh),
            operations=LOADED,
            bar=0.8,
            rounds=40,
            before=lambda: fresh.__setitem__(slice(None), orders(source, customers, LOADED)),
        )
        raw.database.close()


def peak() -> str:
    """The most memory this process had so far."""
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"


def large(folder: Path, rows: int) -> str:
    """A million generated rows, in SQLite and in the reference: they load, and they answer."""
    model = load_model(MODEL)
    scale = rows / sum(entity.count or 0 for entity in model.entities.values())
    lines: list[tuple[str, ...]] = []

    def now() -> tuple[float, float]:
        return perf_counter(), process_time()

    def note(what: str, start: tuple[float, float]) -> None:
        spent = [seconds(end - begin) for begin, end in zip(start, now(), strict=True)]
        lines.append((what, *spent, peak()))

    with keyplan.open(MODEL, f"sqlite:{folder}/large.db") as store:
        start = now()
        count = store.load(generate(model, scale=scale, seed=1))
        note(f"generate and load {count:,} rows into SQLite", start)
        picked = [fields for name, fields in generate(model, scale=scale / 1000, seed=1) if name == "Order"][:100]
        start = now()
        for fields in picked:
            store.order_by_id(order_id=fields["order_id"])
            store.orders_of_customer(customer_id=fields["customer"])
        note(f"{2 * len(picked)} gets and pages", start)
    database = Database(model)
    start = now()
    database.load(generate(model, scale=scale, seed=1))
    note(f"generate and load {count:,} rows into the reference", start)
    start = now()
    for fields in picked[:3]:
        database.read("orders_of_customer", customer_id=fields["customer"])
    note("3 pages from the reference", start)
    return table(("", "time", "processor time", "peak memory of the process so far"), lines)


def kept(folder: Path, rows: int) -> str:
    """Rows of the shop in the proportions of its counts, loaded into empty files; the best of three runs."""
    model = load_model(SHOP)
    scale = rows / sum(entity.count or 0 for entity in model.entities.values())
    given = {name: list(some) for name, some in groupby(keyplan.generate(model, scale=scale), key=itemgetter(0))}
    spent = dict.fromkeys(given, float("inf"))
    for run in range(3):
        with keyplan.open(SHOP, f"sqlite:{folder}/kept{run}.db") as store:
            for name, some in given.items():
                start = process_time()
                store.load(some)
                spent[name] = min(spent[name], process_time() - start)
            assert store.verify().ok
    lines = [(name, f"{len(some):,}", f"{len(some) / spent[name]:,.0f}") for name, some in given.items()]
    count = sum(map(len, given.values()))
    return table(("entity", "rows", "rows/s"), [*lines, ("all", f"{count:,}", f"{count / sum(spent.values()):,.0f}")])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--large", type=int, nargs="?", const=1_000_000, help="rows to load and query, once")
    parser.add_argument("--kept", type=int, nargs="?", const=20_000, help="rows to load where views are kept, thrice")
    arguments = parser.parse_args()
    print(f"SQLite {sqlite3.sqlite_version}; {machine()}\n")
    with tempfile.TemporaryDirectory(prefix="keyplan-bench-") as folder:
        if arguments.kept:
            print(kept(Path(folder), arguments.kept))
            return 0
        if arguments.large:
            print(large(Path(folder), arguments.large))
            return 0
        found = list(compared(Path(folder)))
    print(comparison_table(found))
    return failures(found)


if __name__ == "__main__":
    sys.exit(main())
