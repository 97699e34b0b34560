"""Readings of sensors in three forms on one mongod: `python -m tests.engines.mongodb.series`.

A document per reading, under its key; documents of an hour, as the store packs them; and a native time-series
collection. A week of readings, one a minute, is loaded in the order in which they come. Then an hour more comes one by
one, acknowledged by the primary, a day is read, and a week is summed up by the hour. The time is the processor time of
the server's threads: what a native collection does is counted under two names, so that the server's own clock per
collection says too little. Of several rounds in turn the fastest counts.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from bson.decimal128 import Decimal128
from pymongo import MongoClient
from pymongo.collection import Collection

from tests.bench.harness import machine, table
from tests.engines.mongodb.server import Server
from tests.engines.mongodb.software import MONGOD

SENSORS, DAYS, HOURS = 20, 7, 4
READS = 40
BATCH = SENSORS * 60 * 8
"""Readings that are loaded at once: whole hours."""
START = datetime(2026, 11, 1, tzinfo=UTC)
MINUTE, HOUR, DAY, KEPT = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=90)

Document = dict[str, Any]
Reading = tuple[UUID, datetime, Decimal128, Decimal128 | None]


def readings(source: random.Random, sensors: Sequence[UUID], start: datetime, minutes: int) -> Iterator[Reading]:
    """As they come: every sensor once a minute."""
    for minute in range(minutes):
        for number, sensor in enumerate(sensors):
            at = start + minute * MINUTE + timedelta(milliseconds=137 * number)
            humidity = Decimal128(f"{source.uniform(30, 60):.1f}") if source.random() < 0.8 else None
            yield sensor, at, Decimal128(f"{20 + source.gauss(0, 2):.2f}"), humidity


def values(reading: Reading) -> Document:
    _, _, temperature, humidity = reading
    return {"temperature": temperature} | ({"humidity": humidity} if humidity is not None else {})


def hour_of(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def figures(at: str, temperature: str) -> Document:
    """The group of an hour."""
    hour = {"$dateTrunc": {"date": at, "unit": "hour"}}
    least, most, mean = ({kind: temperature} for kind in ("$min", "$max", "$avg"))
    return {"$group": {"_id": hour, "low": least, "high": most, "mean": mean, "readings": {"$sum": 1}}}


class Single:
    """A document per reading, under its key."""

    name = "a document per reading"

    def __init__(self, database: Any) -> None:
        self.rows: Collection[Document] = database["single"]
        self.rows.create_index("_expires", expireAfterSeconds=0)

    def document(self, reading: Reading) -> Document:
        sensor, at, *_ = reading
        return {"_id": {"sensor": sensor, "at": at}, **values(reading), "_expires": at + KEPT}

    def load(self, batch: Sequence[Reading]) -> None:
        self.rows.insert_many([self.document(reading) for reading in batch], ordered=False)

    def add(self, reading: Reading) -> None:
        self.rows.insert_one(self.document(reading))

    def _where(self, sensor: UUID, start: datetime, end: datetime) -> Document:
        return {"_id": {"$gte": {"sensor": sensor, "at": start}, "$lt": {"sensor": sensor, "at": end}}}

    def range(self, sensor: UUID, start: datetime, end: datetime) -> int:
        found = self.rows.find(self._where(sensor, start, end), sort=[("_id", 1)], hint="_id_", batch_size=20_000)
        return len(found.to_list())

    def by_hour(self, sensor: UUID, start: datetime, end: datetime) -> int:
        stages = [{"$match": self._where(sensor, start, end)}, figures("$_id.at", "$temperature")]
        return sum(found["readings"] for found in self.rows.aggregate(stages))


class Packed:
    """Documents of an hour, as the store keeps them."""

    name = "a document per hour"

    def __init__(self, database: Any) -> None:
        self.rows: Collection[Document] = database["packed"]
        self.rows.create_index("_expires", expireAfterSeconds=0)

    def load(self, batch: Sequence[Reading]) -> None:
        """Whole hours, as the store loads them."""
        made: dict[tuple[UUID, datetime], Document] = {}
        for reading in batch:
            sensor, at, *_ = reading
            hour = hour_of(at)
            document = made.setdefault((sensor, hour), {"_id": {"sensor": sensor, "hour_at": hour}, "rows": []})
            document["rows"].append(self.entry(reading))
            document["_expires"] = at + KEPT
        self.rows.insert_many(made.values(), ordered=False)

    def entry(self, reading: Reading) -> Document:
        return {"at": reading[1], **values(reading), "_expires": reading[1] + KEPT}

    def add(self, reading: Reading) -> None:
        sensor, at, *_ = reading
        query = {"_id": {"sensor": sensor, "hour_at": hour_of(at)}, "rows": {"$not": {"$elemMatch": {"at": at}}}}
        change = {"$push": {"rows": self.entry(reading)}, "$max": {"_expires": at + KEPT}}
        self.rows.update_one(query, change, upsert=True)

    def _where(self, sensor: UUID, start: datetime, end: datetime) -> Document:
        hours = range(int((end - start) / HOUR))
        return {"_id": {"$in": [{"sensor": sensor, "hour_at": start + number * HOUR} for number in hours]}}

    def range(self, sensor: UUID, start: datetime, end: datetime) -> int:
        found = self.rows.find(self._where(sensor, start, end), hint="_id_", batch_size=20_000)
        return sum(len(document["rows"]) for document in found)

    def by_hour(self, sensor: UUID, start: datetime, end: datetime) -> int:
        """The store sums up what it reads."""
        fields = {"rows._expires": 1, "rows.at": 1, "rows.temperature": 1}
        found = self.rows.find(self._where(sensor, start, end), fields, hint="_id_", batch_size=20_000)
        return sum(len(document["rows"]) for document in found)


class Native:
    """A time-series collection with an index, without which a sensor's readings would be looked for in all."""

    name = "native time series"

    def __init__(self, database: Any) -> None:
        made = {"timeField": "at", "metaField": "sensor", "granularity": "minutes"}
        database.create_collection("native", timeseries=made, expireAfterSeconds=int(KEPT.total_seconds()))
        self.rows: Collection[Document] = database["native"]
        self.rows.create_index([("sensor", 1), ("at", 1)])

    def document(self, reading: Reading) -> Document:
        sensor, at, *_ = reading
        return {"sensor": sensor, "at": at, **values(reading)}

    def load(self, batch: Sequence[Reading]) -> None:
        self.rows.insert_many([self.document(reading) for reading in batch], ordered=False)

    def add(self, reading: Reading) -> None:
        self.rows.insert_one(self.document(reading))

    def range(self, sensor: UUID, start: datetime, end: datetime) -> int:
        found = self.rows.find({"sensor": sensor, "at": {"$gte": start, "$lt": end}}, batch_size=20_000)
        return len(found.sort("at", 1).to_list())

    def by_hour(self, sensor: UUID, start: datetime, end: datetime) -> int:
        stages = [{"$match": {"sensor": sensor, "at": {"$gte": start, "$lt": end}}}, figures("$at", "$temperature")]
        return sum(found["readings"] for found in self.rows.aggregate(stages))


Form = Single | Packed | Native


def processor_seconds(pid: int) -> float:
    """Of all threads of a process; the kernel counts nanoseconds."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def stored(form: Form) -> tuple[int, int]:
    """Bytes of the files of documents and of indexes."""
    found = form.rows.database.command("collStats", form.rows.name)
    return found["storageSize"], found["totalIndexSize"]


def main() -> int:
    source = random.Random(1)
    sensors = [UUID(int=source.getrandbits(128)) for _ in range(SENSORS)]
    week = list(readings(source, sensors, START, DAYS * 24 * 60))
    end = START + DAYS * DAY
    print(f"mongod {MONGOD}; {len(week):,} readings of {SENSORS} sensors; {machine()}\n")
    with (
        Server(nodes=1) as server,
        MongoClient[Document](server.url_of("series"), uuidRepresentation="standard", w=1) as client,
    ):
        pid = client.admin.command("serverStatus")["pid"]
        database = client.get_default_database()
        forms: list[Form] = [Single(database), Packed(database), Native(database)]
        for form in forms:
            for place in range(0, len(week), BATCH):
                form.load(week[place : place + BATCH])
        client.admin.command("fsync", 1)
        rows: dict[str, list[str]] = {form.name: [form.name] for form in forms}
        for form in forms:
            documents, indexes = stored(form)
            rows[form.name] += [f"{documents / len(week):.1f} B", f"{indexes / len(week):.1f} B"]

        def measured(rounds: int, count: int, act: Callable[[Form, int], object]) -> None:
            """Microseconds of the server's processor per operation, the least of the rounds."""
            times: dict[str, list[float]] = {form.name: [] for form in forms}
            for round in range(rounds):
                for form in forms:
                    before = processor_seconds(pid)
                    act(form, round)
                    times[form.name].append((processor_seconds(pid) - before) / count * 1e6)
            for name, found in times.items():
                rows[name].append(f"{min(found):,.0f} µs")

        hours = [list(readings(source, sensors, end + number * HOUR, 60)) for number in range(HOURS)]

        def add(form: Form, round: int) -> None:
            for reading in hours[round]:
                form.add(reading)

        def day(form: Form, round: int) -> None:
            for number in range(READS):
                start = START + number % DAYS * DAY
                assert form.range(sensors[number % SENSORS], start, start + DAY) == 24 * 60

        def by_hour(form: Form, round: int) -> None:
            for number in range(READS // 4):
                assert form.by_hour(sensors[number % SENSORS], START, end) == DAYS * 24 * 60

        measured(HOURS, SENSORS * 60, add)
        measured(4, READS, day)
        measured(4, READS // 4, by_hour)
    heads = ("", "documents", "indexes", "a reading comes", "a day is read", "a week by the hour")
    print(table(heads, rows.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
