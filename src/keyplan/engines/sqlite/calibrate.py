"""Measures what the cost model's coefficients are on this machine.

Processor time of this process, in microseconds per request, the least of several runs, on a database that the cache
holds. Binding and fetching in Python are part of a statement: that is what a call here takes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

from keyplan.engines.calibration import Calibration, Sample, fitted
from keyplan.engines.rounds import Proc
from keyplan.errors import KeyplanError

PREFIX = "keyplan_calibrate_"
ROWS = 50_000
WIDE = 1000
RUNS = 5
TABLES = ("empty", "plain", "indexed", "wide")

Statement = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Experiment:
    """Statements of one form, and what each of them comes to."""

    name: str
    make: Callable[[], list[Statement]]
    count: int
    """Executions in one run: the time of a run is divided by it."""
    work: Mapping[str, float]


def calibrate(told: Callable[[float], None]) -> Proc[Calibration]:
    """Measures and fits; leaves no table behind. `told` hears how far it is."""
    bench = _Bench(random.Random(1))
    yield from _all(bench.drop())
    try:
        for statements in bench.fill():
            yield from _all(statements)
        keys = yield from _all([(f"SELECT k FROM {PREFIX}indexed LIMIT 2000", ())])
        bounds = yield from _all([(f"SELECT a FROM {PREFIX}indexed ORDER BY a LIMIT 10001", ())])
        experiments = bench.experiments([key for (key,) in keys[0]], [bound for (bound,) in bounds[0]])
        samples = []
        for number, experiment in enumerate(experiments):
            told(number / len(experiments))
            samples.append((yield from _measured(experiment)))
        told(1.0)
    finally:
        yield from _all(bench.drop())
    found = fitted(samples)
    target = {"coefficients": {name: float(f"{value:.3g}") for name, value in found.items()}}
    measured = "processor time per statement, the least of 5 runs, in microseconds"
    return Calibration("sqlite", measured, target, found, samples)


def _all(statements: Sequence[Statement]) -> Proc[list[Any]]:
    replies = yield statements
    for reply in replies:
        if isinstance(reply, KeyplanError):
            raise reply
    return list(replies)


def _measured(experiment: Experiment) -> Proc[Sample]:
    times = []
    for _ in range(RUNS):
        statements = experiment.make()
        begun = process_time()
        yield from _all(statements)
        times.append(process_time() - begun)
    return Sample(experiment.name, experiment.work, max(0.01, min(times) / experiment.count * 1e6))


class _Bench:
    def __init__(self, random: random.Random) -> None:
        self.random = random

    def row(self, wide: int = 0) -> tuple[bytes, int, int, str]:
        return self.random.randbytes(16), self.random.randrange(10**9), 7, "x" * wide

    def drop(self) -> list[Statement]:
        return [(f"DROP TABLE IF EXISTS {PREFIX}{name}", ()) for name in TABLES]

    def fill(self) -> list[list[Statement]]:
        columns = "(k BLOB PRIMARY KEY, a INTEGER, b INTEGER, t TEXT) STRICT"
        # As in designs: small rows lie in the tree of their key, large ones beside it.
        form = {name: columns if name == "wide" else f"{columns}, WITHOUT ROWID" for name in TABLES}
        made: list[Statement] = [(f"CREATE TABLE {PREFIX}{name} {form[name]}", ()) for name in TABLES]
        made.append((f"CREATE INDEX {PREFIX}index ON {PREFIX}indexed (a, k)", ()))
        return [made, self.insert("plain", ROWS), self.insert("indexed", ROWS), self.insert("wide", ROWS // 10, WIDE)]

    def insert(self, name: str, count: int, wide: int = 0) -> list[Statement]:
        """Rows in one transaction."""
        text = f"INSERT INTO {PREFIX}{name} VALUES (?, ?, ?, ?)"
        return [("BEGIN", ()), *((text, self.row(wide)) for _ in range(count)), ("COMMIT", ())]

    def experiments(self, keys: Sequence[bytes], bounds: Sequence[int]) -> list[Experiment]:
        """`bounds[n]` has n entries of the index before it."""
        table, index = f"{PREFIX}indexed", f"{PREFIX}indexed INDEXED BY {PREFIX}index"
        found: list[Experiment] = []

        def add(name: str, make: Callable[[], list[Statement]], count: int, **work: float) -> None:
            found.append(Experiment(name, make, count, {"statement": 1.0, **work}))

        add("nothing", lambda: [(f"SELECT k FROM {PREFIX}empty WHERE k = ?", (b"",))] * 3000, 3000)
        gets: list[Statement] = [(f"SELECT k, a FROM {table} WHERE k = ?", (key,)) for key in keys]
        add("get", lambda: gets, len(gets), seek=1, entry=1, byte=24)
        for many in (20, 200, 2000, 10_000):
            times = max(3, 4000 // many)
            low = (bounds[many],)
            work = {"seek": 1.0, "entry": float(many)}
            covered = [(f"SELECT k FROM {index} WHERE a < ?", low)] * times
            add(f"{many} keys", lambda covered=covered: covered, times, byte=many * 24, **work)  # type: ignore[misc]
            looked = [(f"SELECT b FROM {index} WHERE a < ?", low)] * times
            size = many * 40
            add(f"{many} rows", lambda looked=looked: looked, times, lookup=many, byte=size, **work)  # type: ignore[misc]
        for name, size in (("plain", 8), ("wide", WIDE)):
            scan: list[Statement] = [(f"SELECT t FROM {PREFIX}{name} LIMIT 5000", ())] * 3
            work = {"seek": 1.0, "entry": 5000.0, "byte": 5000.0 * size}
            add(f"5000 of {size} B", lambda scan=scan: scan, 3, **work)  # type: ignore[misc]
        many = 2000
        add("insert", lambda: self.insert("plain", many), many, insert=1, byte=40)
        add("insert 1 kB", lambda: self.insert("wide", many, WIDE), many, insert=1, byte=WIDE)
        add("insert, indexed", lambda: self.insert("indexed", many), many, insert=1, byte=40, index_insert=1)
        single = {"insert": 1.0, "byte": 40.0, "commit": 1.0}
        add("insert alone", lambda: self.insert("plain", 300)[1:-1], 300, **single)
        both = {**single, "index_insert": 1.0}
        add("insert alone, indexed", lambda: self.insert("indexed", 300)[1:-1], 300, **both)
        return found
