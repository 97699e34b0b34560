"""Measures what the cost model's coefficients are on a live server.

The time of each experiment is the server's own: MongoDB sums up the microseconds that it spends on the operations of
each collection (`$collStats`, `latencyStats`), so that neither the network nor this program counts, nor other traffic
on other collections. Writes are acknowledged by the primary alone here: waiting for a majority is latency, not work.
Of several blocks of operations the fastest counts.

Latencies are what this program waits for, by the clock, with the concerns of the URL.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyplan.engines.base import Proc
from keyplan.engines.calibration import Calibration, Sample, fitted, highest
from keyplan.engines.mongodb.operations import Command
from keyplan.errors import KeyplanError

PREFIX = "keyplan_calibrate_"
BLOCKS = 5
SMALL, GROUPS = 20_000, 200
ARRAYS = (10, 100, 1000)
INDEXES = (0, 1, 2, 4)
ELEMENT_BYTES = 55
SMALL_BYTES = 200
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
    (reply,) = yield [Command(body, tolerates)]
    if isinstance(reply, KeyplanError):
        raise reply
    return reply


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
        self.victims: dict[int, list[str]] = {}

    def new_id(self) -> str:
        return self.random.randbytes(12).hex()

    def text(self, size: int) -> str:
        return self.random.randbytes(size // 2 + 1).hex()[:size]

    def collections(self) -> list[str]:
        return ["small", "medium", "large", *(f"array{k}" for k in ARRAYS), *(f"indexed{k}" for k in INDEXES)]

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
        return found

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

    def first(self, many: int) -> list[Document]:
        """A pipeline that adds an element and leaves the first so many."""
        new = {"$literal": {"k": self.random.randrange(10**6), "v": self.text(20), "q": 1}}
        others = {"$filter": {"input": "$a", "as": "e", "cond": {"$ne": ["$$e.k", new["$literal"]["k"]]}}}
        rows = {"$sortArray": {"input": {"$concatArrays": [others, [new]]}, "sortBy": {"k": -1, "v": 1}}}
        return [{"$set": {"a": {"$slice": [rows, many]}}}]

    def latencies(self) -> Proc[dict[str, float]]:
        """What 99 of 100 calls wait for."""
        finds, writes = [], []
        for _ in range(LATENCY_SAMPLES):
            started = time.perf_counter()
            yield from _one({"find": f"{PREFIX}small", "filter": {"_id": self.random.choice(self.ids)}, "limit": 1})
            finds.append(time.perf_counter() - started)
            started = time.perf_counter()
            change = {"q": {"_id": self.random.choice(self.ids)}, "u": {"$set": {"s": self.random.randrange(10**6)}}}
            majority = {"w": "majority"}
            yield from _one({"update": f"{PREFIX}small", "updates": [change], "writeConcern": majority})
            writes.append(time.perf_counter() - started)
        return {"find_ms": highest(finds) * 1000, "write_ms": highest(writes) * 1000}
