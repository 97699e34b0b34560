"""Measures what the cost model's coefficients are on a live server.

The time of each experiment is the server's own: MongoDB sums up the microseconds that it spends on the operations of
each collection (`$collStats`, `latencyStats`), so that neither the network nor this program counts, nor other traffic
on other collections. Writes are acknowledged by the primary alone here: waiting for a majority is latency, not work.
Of several blocks of operations the fastest counts.

The commit of a transaction is no operation of a collection, and all of the server's commits share one clock with
whatever else it does. So a transaction is measured by this program's clock: two updates and a commit, less the same
updates alone and a command that does nothing, which has a commit's way there and back.

Latencies are what this program waits for, by the clock, until a majority has what was written.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from statistics import median
from typing import Any

from keyplan.engines.calibration import Calibration, Sample, fitted, highest
from keyplan.engines.mongodb.operations import Command, Together
from keyplan.engines.rounds import Proc
from keyplan.errors import KeyplanError

PREFIX = "keyplan_calibrate_"
BLOCKS = 5
SMALL, GROUPS = 20_000, 200
ARRAYS = (10, 100, 1000)
INDEXES = (0, 1, 2, 4)
ELEMENT_BYTES = 55
SMALL_BYTES = 200
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
PACKED = (10, 60, 600)
"""Entries of a document: few, an hour of readings once a minute, ten hours of them."""
PACKED_BYTES = 75
"""Of an entry; three fields of four are picked out of it, which are two thirds of the bytes."""
PICKED = {"rows.at": 1, "rows.v": 1, "rows._expires": 1}
SPANS = 24
"""Documents of packed entries that one find looks up: a day by the hour."""
TRANSACTIONS = 60
LATENCY_SAMPLES = 300

Document = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """Commands of one form on one collection, and what each of them makes the server do."""

    name: str
    collection: str
    kind: str
    """reads or writes: as the server counts them."""
    make: Callable[[], Document]
    work: Mapping[str, float]
    count: int = 120


def calibrate(told: Callable[[float], None]) -> Proc[Calibration]:
    """Measures and fits; leaves nothing behind. `told` hears how far it is."""
    bench = _Bench(random.Random(1))
    yield from bench.drop()
    try:
        yield from bench.fill()
        samples = []
        experiments = [*bench.reads(), *bench.writes()]
        for number, experiment in enumerate(experiments):
            told(number / (len(experiments) + 2))
            samples.append((yield from _measured(experiment)))
        samples.append((yield from bench.transaction()))
        latencies = yield from bench.latencies()
        told(1.0)
    finally:
        # A proc that is thrown away cannot yield any more; then the collections stay, and the next run drops them.
        yield from bench.drop()
    coefficients = fitted(samples)
    target = {"coefficients": rounded(coefficients), "latencies": rounded(latencies)}
    measured = "the server's own time per operation (latencyStats), the fastest of 5 blocks, in microseconds"
    return Calibration("mongodb", measured, target, coefficients, samples, latencies)


def rounded(figures: Mapping[str, float]) -> dict[str, float]:
    """Three digits are more than the measurement has."""
    return {name: float(f"{value:.3g}") for name, value in figures.items()}


def _one(body: Document, *tolerates: int) -> Proc[Any]:
    return (yield from _sent(Command(body, tolerates)))


def _sent(request: Command | Together) -> Proc[Any]:
    (reply,) = yield [request]
    if isinstance(reply, KeyplanError):
        raise reply
    return reply


def _timed(*requests: Command | Together) -> Proc[float]:
    """The seconds that requests took, one after the other."""
    started = time.perf_counter()
    for request in requests:
        yield from _sent(request)
    return time.perf_counter() - started


def _spent(collection: str, kind: str) -> Proc[tuple[float, float]]:
    pipeline: list[Document] = [{"$collStats": {"latencyStats": {}}}]
    reply = yield from _one({"aggregate": collection, "pipeline": pipeline, "cursor": {}})
    found = reply["cursor"]["firstBatch"][0]["latencyStats"][kind]
    return float(found["latency"]), float(found["ops"])


def _measured(experiment: Experiment) -> Proc[Sample]:
    times = []
    for _ in range(BLOCKS):
        before, ops = yield from _spent(experiment.collection, experiment.kind)
        for _ in range(experiment.count):
            yield from _one(experiment.make())
        after, more = yield from _spent(experiment.collection, experiment.kind)
        times.append((after - before) / max(1.0, more - ops))
    return Sample(experiment.name, experiment.work, max(0.1, min(times)))


class _Bench:
    """The collections that are measured on, and the experiments."""

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.ids = [self.new_id() for _ in range(SMALL)]
        self.medium = self.ids[:2000]
        self.large = self.ids[:200]
        self.few = self.ids[:100]
        self.series = self.ids[:10]
        self.victims: dict[int, list[str]] = {}

    def new_id(self) -> str:
        return self.random.randbytes(12).hex()

    def text(self, size: int) -> str:
        return self.random.randbytes(size // 2 + 1).hex()[:size]

    def collections(self) -> list[str]:
        many = [*(f"array{k}" for k in ARRAYS), *(f"packed{k}" for k in PACKED), *(f"indexed{k}" for k in INDEXES)]
        return ["small", "medium", "large", *many]

    def drop(self) -> Proc[None]:
        for name in self.collections():
            yield from _one({"drop": PREFIX + name}, 26)

    def fill(self) -> Proc[None]:
        index = [{"key": {"g": 1, "t": 1}, "name": "by_group"}]
        yield from _one({"createIndexes": f"{PREFIX}small", "indexes": index})
        rows = [{"_id": key, "g": n % GROUPS, "t": n, "s": n % 10} for n, key in enumerate(self.ids)]
        yield from self._insert("small", [{**row, "p": self.text(140)} for row in rows])
        yield from self._insert("medium", [{"_id": key, "g": 1, "p": self.text(4000)} for key in self.medium])
        yield from self._insert("large", [{"_id": key, "g": 1, "p": self.text(64_000)} for key in self.large])
        for many in ARRAYS:
            elements = [{"k": n, "v": self.text(20), "q": n} for n in range(many)]
            yield from self._insert(f"array{many}", [{"_id": key, "g": 1, "a": elements} for key in self.few])
        for many in PACKED:
            entries = [self.entry(n) for n in range(many)]
            documents = [{"_id": {"s": key, "h": n}, "rows": entries} for key in self.series for n in range(SPANS)]
            yield from self._insert(f"packed{many}", documents)
        for many in INDEXES:
            name = f"indexed{many}"
            if many:
                made = [{"key": {f"f{n}": 1, "_id": 1}, "name": f"f{n}"} for n in range(many)]
                yield from _one({"createIndexes": PREFIX + name, "indexes": made})
            documents = [self.row() for _ in range(10_000)]
            self.victims[many] = [str(document["_id"]) for document in documents]
            self.random.shuffle(self.victims[many])
            yield from self._insert(name, documents)

    def row(self) -> Document:
        return {"_id": self.new_id(), **{f"f{n}": self.random.random() for n in range(4)}, "p": self.text(100)}

    def entry(self, number: int) -> Document:
        """A reading; they have no order in a document."""
        value = Decimal(self.random.randrange(10**6)).scaleb(-2)
        at = NOON + timedelta(minutes=number)
        return {"at": at, "v": value, "note": self.text(12), "_expires": at + timedelta(days=30)}

    def _insert(self, name: str, documents: Sequence[Document]) -> Proc[None]:
        for start in range(0, len(documents), 1000):
            yield from _one({"insert": PREFIX + name, "documents": list(documents[start : start + 1000])})

    # what is measured

    def reads(self) -> list[Experiment]:
        pick, some = self.random.choice, self.random.randrange

        def find(name: str, filter: Callable[[], Document], **more: Any) -> Callable[[], Document]:
            return lambda: {"find": PREFIX + name, "filter": filter(), "batchSize": 10_000, "singleBatch": True, **more}

        def by_id(name: str, ids: Sequence[str]) -> Callable[[], Document]:
            return find(name, lambda: {"_id": pick(ids)})

        found = []

        def add(name: str, where: str, make: Callable[[], Document], count: int = 120, **work: float) -> None:
            found.append(Experiment(name, PREFIX + where, "reads", make, {"command": 1.0, **work}, count))

        add("get 200 B", "small", by_id("small", self.ids), document=1, byte=SMALL_BYTES)
        add("get 4 kB", "medium", by_id("medium", self.medium), document=1, byte=4000)
        add("get 64 kB", "large", by_id("large", self.large), document=1, byte=64_000)
        for many in ARRAYS:
            size = many * ELEMENT_BYTES
            add(f"get {many} elements", f"array{many}", by_id(f"array{many}", self.few), document=1, byte=size)
        for many in (10, 100):
            keys = find("small", lambda many=many: {"_id": {"$in": self.random.sample(self.ids, many)}})  # type: ignore[misc]
            add(f"get {many} keys", "small", keys, 60, seek=many - 1, document=many, byte=many * SMALL_BYTES)
        order = {"sort": {"g": 1, "t": 1}, "hint": "by_group"}
        for many in (1, 20, 100):
            rows = find("small", lambda: {"g": some(GROUPS)}, limit=many, **order)
            add(f"page of {many}", "small", rows, plan=1, key=many, document=many, byte=many * SMALL_BYTES)
            keys = find("small", lambda: {"g": some(GROUPS)}, limit=many, projection={"_id": 0, "t": 1}, **order)
            add(f"keys of {many}", "small", keys, plan=1, key=many, byte=many * 16)
        rows = find("small", lambda: {"g": {"$gte": some(GROUPS // 2)}}, limit=1000, **order)
        add("page of 1000", "small", rows, 30, plan=1, key=1000, document=1000, byte=1000 * SMALL_BYTES)
        keys = find("small", lambda: {"g": {"$gte": some(100)}}, limit=1000, projection={"_id": 0, "t": 1}, **order)
        add("keys of 1000", "small", keys, 30, plan=1, key=1000, byte=16_000)
        rows = find("small", lambda: {"g": some(GROUPS), "s": 3}, hint="by_group")
        add("10 or none of 100", "small", rows, plan=1, key=100, document=100, byte=10 * SMALL_BYTES)
        for entries in PACKED:
            where, size = f"packed{entries}", entries * PACKED_BYTES
            picked = {"projection": PICKED}
            add(f"get {entries} packed", where, find(where, self.span), document=1, byte=size)
            work: dict[str, Any] = {"document": 1, "pick": entries, "byte": size * 2 / 3}
            add(f"fields of {entries} packed", where, find(where, self.span, **picked), **work)
            work = {"seek": SPANS - 1, "document": SPANS, "pick": SPANS * entries, "byte": SPANS * size * 2 / 3}
            day = find(where, lambda: {"_id": {"$in": self.day()}}, hint="_id_", **picked)
            add(f"fields of {SPANS} x {entries} packed", where, day, 30, **work)
        return found

    def span(self) -> Document:
        return {"_id": {"s": self.random.choice(self.series), "h": self.random.randrange(SPANS)}}

    def day(self) -> list[Document]:
        series = self.random.choice(self.series)
        return [{"s": series, "h": number} for number in range(SPANS)]

    def writes(self) -> list[Experiment]:
        pick, some = self.random.choice, self.random.randrange
        primary = {"writeConcern": {"w": 1}}
        found = []

        def add(name: str, where: str, make: Callable[[], Document], count: int = 80, **work: float) -> None:
            found.append(Experiment(name, PREFIX + where, "writes", make, {"write": 1.0, **work}, count))

        def insert(name: str, rows: Callable[[], list[Document]]) -> Callable[[], Document]:
            return lambda: {"insert": PREFIX + name, "documents": rows(), **primary}

        def update(
            name: str, ids: Sequence[str], change: Callable[[], Document | list[Document]], **more: Any
        ) -> Callable[[], Document]:
            return lambda: {
                "update": PREFIX + name,
                "updates": [{"q": {"_id": pick(ids)}, "u": change(), **more}],
                **primary,
            }

        for many in INDEXES:
            one = insert(f"indexed{many}", lambda: [self.row()])
            add(f"insert, {many} indexes", f"indexed{many}", one, insert=1, rewrite=SMALL_BYTES, index_entry=many)
        for many in (0, 2):
            rows = insert(f"indexed{many}", lambda: [self.row() for _ in range(100)])
            work = {"insert": 100.0, "rewrite": 100.0 * SMALL_BYTES, "index_entry": 100.0 * many}
            add(f"insert 100, {many} indexes", f"indexed{many}", rows, 15, **work)
        for name, size in (("medium", 4000), ("large", 64_000)):
            one = insert(name, lambda size=size: [{"_id": self.new_id(), "p": self.text(size)}])  # type: ignore[misc]
            add(f"insert {size // 1000} kB", name, one, 30, insert=1, rewrite=size)
        number = {"s": lambda: {"$set": {"s": some(10**6)}}, "t": lambda: {"$set": {"t": some(10**6)}}}
        add("update 200 B", "small", update("small", self.ids, number["s"]), update=1, rewrite=SMALL_BYTES)
        add("update a key", "small", update("small", self.ids, number["t"]), update=1, rewrite=200, index_entry=2)
        add("update 4 kB", "medium", update("medium", self.medium, number["s"]), update=1, rewrite=4000)
        add("update 64 kB", "large", update("large", self.large, number["s"]), update=1, rewrite=64_000)
        for many in ARRAYS:
            work = {"update": 1.0, "rewrite": many * ELEMENT_BYTES, "element": many}
            where = f"array{many}"
            push = update(where, self.few, lambda: {"$push": {"a": {"k": some(10**6), "v": self.text(20), "q": 1}}})
            add(f"push to {many}", where, push, 40, grow=many, **work)
            change = update(where, self.few, lambda: {"$set": {"a.$[e].q": some(10**6)}}, arrayFilters=[{"e.k": 5}])
            add(f"change one of {many}", where, change, 40, **work)
            first = update(where, self.few, lambda many=many: self.first(many))  # type: ignore[misc]
            add(f"keep the first {many}", where, first, 40, grow=many, sort=many, **work)
        for many in PACKED:
            where = f"packed{many}"
            work = {"plan": 1.0, "update": 1.0, "rewrite": many * PACKED_BYTES, "element": many}
            add(f"pack into {many}", where, lambda where=where: self.packed(where, new=True), 40, grow=many, **work)  # type: ignore[misc]
            add(f"change one of {many} packed", where, lambda where=where: self.packed(where, new=False), 40, **work)  # type: ignore[misc]
        for many in (0, 2, 4):
            victims = self.victims[many]

            def delete(many: int = many, victims: list[str] = victims) -> Document:
                return {
                    "delete": f"{PREFIX}indexed{many}",
                    "deletes": [{"q": {"_id": victims.pop()}, "limit": 1}],
                    **primary,
                }

            add(f"delete, {many} indexes", f"indexed{many}", delete, update=1, index_entry=many)
        return found

    def packed(self, where: str, *, new: bool) -> Document:
        """An entry put into a document where it is not yet, or changed where it is."""
        entry = self.entry(self.random.randrange(10**4, 10**8) if new else 5)
        there = {"$elemMatch": {"at": entry["at"]}}
        query = {**self.span(), "rows": {"$not": there} if new else there}
        if new:
            change = {"u": {"$push": {"rows": entry}, "$max": {"_expires": entry["_expires"]}}, "upsert": True}
        else:
            change = {"u": {"$set": {"rows.$[e].v": entry["v"]}}, "arrayFilters": [{"e.at": entry["at"]}]}
        return {"update": PREFIX + where, "updates": [{"q": query, **change}], "writeConcern": {"w": 1}}

    def first(self, many: int) -> list[Document]:
        """A pipeline that adds an element and leaves the first so many."""
        new = {"$literal": {"k": self.random.randrange(10**6), "v": self.text(20), "q": 1}}
        others = {"$filter": {"input": "$a", "as": "e", "cond": {"$ne": ["$$e.k", new["$literal"]["k"]]}}}
        rows = {"$sortArray": {"input": {"$concatArrays": [others, [new]]}, "sortBy": {"k": -1, "v": 1}}}
        return [{"$set": {"a": {"$slice": [rows, many]}}}]

    def update(self) -> Document:
        """A small change of any document."""
        change = {"q": {"_id": self.random.choice(self.ids)}, "u": {"$set": {"s": self.random.randrange(10**6)}}}
        return {"update": f"{PREFIX}small", "updates": [change]}

    def transaction(self) -> Proc[Sample]:
        """What two updates take longer as a transaction."""
        times = []
        for _ in range(BLOCKS):
            longer = 0.0
            for _ in range(TRANSACTIONS):
                longer += yield from _timed(Together([self.update(), self.update()], 1))
                alone = [Command({**self.update(), "writeConcern": {"w": 1}}) for _ in range(2)]
                longer -= yield from _timed(*alone, Command({"ping": 1}))
            times.append(longer / TRANSACTIONS * 1e6)
        return Sample("begin and commit", {"transaction": 2.0}, max(0.1, median(times)))

    def latencies(self) -> Proc[dict[str, float]]:
        """What 99 of 100 calls wait for."""
        finds, writes, transactions, megabytes = [], [], [], []
        majority = {"writeConcern": {"w": "majority"}}
        for _ in range(LATENCY_SAMPLES):
            one = Command({"find": f"{PREFIX}small", "filter": {"_id": self.random.choice(self.ids)}, "limit": 1})
            finds.append((yield from _timed(one)))
            writes.append((yield from _timed(Command({**self.update(), **majority}))))
            transactions.append((yield from _timed(Together([self.update(), self.update()], "majority"))))
            many = {"_id": {"$in": self.random.sample(self.large, 16)}}
            large = Command({"find": f"{PREFIX}large", "filter": many, "batchSize": 16, "singleBatch": True})
            megabytes.append((yield from _timed(large)))
        return {
            "find_ms": highest(finds) * 1000,
            "write_ms": highest(writes) * 1000,
            "transaction_ms": highest(transactions) * 1000,
            "ms_per_mb": max(0.0, highest(megabytes) - highest(finds)) * 1000,
        }
