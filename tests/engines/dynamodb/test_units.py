"""Units of single operations: what our formulas say of the items as they are stored is what DynamoDB Local reports.

Before and after each operation the table is read, the sizes are counted by AWS's rules and turned into units, per table
and per index. Where emulators are known to differ from AWS, AWS's documented formula is what is tested:

- DynamoDB Local reports any transaction of small puts as 2 + 2 units, and dynoxide 1 instead of 2 on an index.
- DynamoDB Local reports nothing for a Query that finds nothing.
- Neither reports what a refused condition took.

In all other single operations both servers agree with the formulas and with each other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from keyplan.engines.codec import Span
from keyplan.engines.dynamodb.layout import PK, RECORD_TAG, SK, layout
from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.dynamodb.values import item_bytes
from keyplan.plan.edits import Edit
from keyplan.plan.steps import Search
from tests.engines.dynamodb.meter import Metered, Taken, Units, entry
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import STORED, Lab, lab
from tests.engines.dynamodb.test_codec import ANN, BOB, order, put
from tests.engines.dynamodb.units import index_write_units, read_units, write_units

Items = dict[tuple[str, str], Mapping[str, Any]]
CHANGES = 150


class Scale:
    """A table, a meter at its port, and what an operation should have taken by what it left behind."""

    def __init__(self, here: Lab) -> None:
        self.here = here
        self.meter = Metered(here.port)
        self.indexes = layout(here.model, here.design).indexes

    def items(self) -> Items:
        found: list[dict[str, Any]] = []
        body: dict[str, Any] = {"ConsistentRead": True}
        while True:
            (reply,) = self.here.port.send([Request("Scan", dict(body))])
            found += [item for item in reply["Items"] if item[PK]["S"] != RECORD_TAG]
            if "LastEvaluatedKey" not in reply:
                return {(item[PK]["S"], item[SK]["S"]): item for item in sorted(found, key=_key)}
            body["ExclusiveStartKey"] = reply["LastEvaluatedKey"]

    def write(self, edit: Edit) -> tuple[Taken, Units]:
        """Does one edit: what the server says it took, and what it should have taken."""
        before = self.items()
        self.meter.reset()
        self.here.write(edit)
        taken = self.meter.reset()
        return taken, self.expected(before, self.items(), edit)

    def expected(self, before: Items, after: Items, edit: Edit) -> Units:
        place = layout(self.here.model, self.here.design).places[edit.view, edit.at]
        named = place.key(edit.key)
        key = (named[PK]["S"], named[SK]["S"])
        assert {one for one in before | after if before.get(one) != after.get(one)} <= {key}
        old, new = before.get(key), after.get(key)
        units = {"": write_units(item_bytes(old or {}), item_bytes(new or {}))}
        for index in self.indexes:
            amount = index_write_units(
                entry(index, old or {}), entry(index, new or {}), (f"{index.name}PK", f"{index.name}SK")
            )
            if amount:
                units[index.name] = amount
        return units


def _key(item: Mapping[str, Any]) -> tuple[str, str]:
    return item[PK]["S"], item[SK]["S"]


@pytest.fixture
def scale(server: Server) -> Iterator[Scale]:
    with lab(server.url) as here:
        yield Scale(here)


def same(found: Units, expected: Units) -> bool:
    return {k: v for k, v in found.items() if v} == {k: v for k, v in expected.items() if v}


def test_the_table_has_every_projection_and_a_sparse_index(scale: Scale) -> None:
    assert {index.projection for index in scale.indexes} == {"ALL", "INCLUDE", "KEYS_ONLY"}


@pytest.mark.parametrize("size", [0, 600, 700, 1024, 2000, 5000])
def test_writes_of_one_item(scale: Scale, size: int) -> None:
    blob = b"x" * size
    steps = {
        "put": put(order(1, blob=blob, flagged="red", gift=True)),
        "put the same again": put(order(1, blob=blob, flagged="red", gift=True)),
        "replace by a smaller one": put(order(1, blob=b"", flagged="red", gift=True)),
        "replace by a larger one": put(order(1, blob=blob + blob, flagged="red", gift=True)),
        "patch what no key has": patch(order(1, blob=blob, flagged="red", gift=True), blob=blob),
        "patch what one index includes": patch(order(1, blob=blob, flagged="red", gift=True), total=Decimal(99)),
        "patch without a change": patch(order(1, blob=blob, flagged="red", gift=True), total=Decimal(99)),
        "move in one index": patch(order(1, blob=blob, flagged="red", gift=True), status="done"),
        "leave a sparse index": patch(order(1, blob=blob, flagged=None, gift=True), flagged=None),
        "enter a sparse index": patch(order(1, blob=blob, flagged="red", gift=True), flagged="red"),
        "leave it by its condition": patch(order(1, blob=blob, flagged="red", gift=False), gift=False),
        "add": Edit("orders", "patch", (1,), adds={"stock": 5}),
        "delete": Edit("orders", "delete", (1,)),
        "delete what is gone": Edit("orders", "delete", (1,)),
    }
    for name, edit in steps.items():
        taken, expected = scale.write(edit)
        assert taken.requests == taken.rounds == 1
        assert same(taken.write, expected), f"{name}: {taken.write} is not {expected}"


def patch(row: dict[str, Any], **values: Any) -> Edit:
    return Edit("orders", "patch", (row["order_id"],), values=values, entry=row, expect="present")


def test_writes_at_random(scale: Scale) -> None:
    """Many changes of a few items, of any size and into, out of and within every index."""
    source = random.Random(7)
    rows: dict[int, dict[str, Any]] = {}
    seen: Counter[str] = Counter()
    for _ in range(CHANGES):
        number = source.randrange(3)
        values = {
            "status": source.choice(["pending", "done"]),
            "flagged": source.choice([None, "red", "blue"]),
            "gift": source.random() < 0.6,
            "total": Decimal(source.randrange(3)),
            "day": date(2026, 11, source.randrange(1, 3)),
            "blob": b"x" * source.choice([0, 10, 650, 1100, 4000]),
        }
        what = source.choice(["put", "patch", "patch", "delete"])
        row = rows.get(number)
        if what == "delete":
            edit = Edit("orders", "delete", (number,))
            rows.pop(number, None)
        elif what == "put" or row is None:
            rows[number] = order(number, **values)
            edit = put(rows[number])
        else:
            some = {name: values[name] for name in source.sample(sorted(values), source.randint(1, 3))}
            rows[number] = row | some
            edit = patch(rows[number], **some)
        taken, expected = scale.write(edit)
        assert same(taken.write, expected), f"{edit}: {taken.write} is not {expected}"
        seen.update(f"{name} {amount:g}" for name, amount in expected.items())
    assert {"GSI1 2", "GSI2 1", "GSI2 2", "GSI3 1", "GSI3 2"} <= set(seen), seen


class TestReads:
    @pytest.mark.parametrize("strong", [False, True])
    def test_of_one_item(self, scale: Scale, strong: bool) -> None:
        for number, size in enumerate((0, 3000, 4000, 9000)):
            scale.here.write(put(order(number, blob=b"x" * size)))
        sizes = {key: item_bytes(item) for key, item in scale.items().items()}
        assert any(size > LIMITS.read_unit_bytes for size in sizes.values())
        for number, size in enumerate(sizes.values()):
            scale.meter.reset()
            scale.here.read(Search("orders", takes=STORED), [Span((number,))], strong=strong)
            assert scale.meter.reset().read == {"": read_units(size, strong=strong)}
        scale.here.read(Search("orders", takes=STORED), [Span((99,))], strong=strong)
        assert scale.meter.reset().read == {"": read_units(0, strong=strong)}

    def test_of_a_batch_rounds_each_item(self, scale: Scale) -> None:
        for number in range(5):
            scale.here.write(put(order(number, blob=b"x" * 1500 * number)))
        sizes = [item_bytes(item) for item in scale.items().values()]
        scale.meter.reset()
        scale.here.read(Search("orders", takes=STORED), [Span((number,)) for number in range(5)])
        taken = scale.meter.reset()
        assert taken.operations == ["BatchGetItem"]
        assert taken.read[""] == sum(read_units(size) for size in sizes)
        assert sum(read_units(size) for size in sizes) > read_units(sum(sizes))

    @pytest.mark.parametrize("strong", [False, True])
    def test_of_a_range_rounds_the_sum(self, scale: Scale, strong: bool) -> None:
        rows = [order(number, blob=b"x" * 700) for number in range(12)]
        scale.here.bulk(*(by_user(row) for row in rows))
        sizes = [item_bytes(item) for item in scale.items().values()]
        scale.meter.reset()
        scale.here.read(Search("by user", takes=STORED), [Span((ANN,))], strong=strong)
        assert scale.meter.reset().read[""] == read_units(sum(sizes), strong=strong)
        scale.here.read(Search("by user", takes=STORED), [Span((ANN,))], 5, strong=strong)
        assert scale.meter.reset().read[""] == read_units(sum(sizes[:5]), strong=strong)

    def test_of_an_empty_range_is_a_unit_as_well(self, dynoxide: Server, local: Server) -> None:
        """AWS charges the least that a read can take; DynamoDB Local reports 0 for a Query that finds nothing."""
        for server, expected in ((dynoxide, read_units(0)), (local, 0.0)):
            with lab(server.url) as here:
                scale = Scale(here)
                here.read(Search("by user", takes=STORED), [Span((BOB,))])
                assert scale.meter.reset().read[""] == expected

    def test_a_residual_filter_saves_nothing(self, scale: Scale) -> None:
        """Whatever a filter throws away has been read."""
        rows = [order(number, blob=b"x" * 700, status="done" if number else "pending") for number in range(12)]
        scale.here.bulk(*(by_user(row) for row in rows))
        sizes = [item_bytes(item) for item in scale.items().values()]
        (ask,) = scale.here.codec.reader(Search("by user", takes=STORED)).ask([Span((ANN,))], None, strong=False)
        body = ask.request.body
        body["FilterExpression"] = "#status = :pending"
        body["ExpressionAttributeNames"] = {"#status": "status"}
        body["ExpressionAttributeValues"][":pending"] = {"S": "pending"}
        scale.meter.reset()
        (reply,) = scale.here.port.send([ask.request])
        assert (reply["Count"], reply["ScannedCount"]) == (1, 12)
        assert scale.meter.reset().read[""] == read_units(sum(sizes))

    def test_pages_of_a_range_are_requests_of_their_own(self, scale: Scale) -> None:
        """Each page of 1 MB is rounded by itself, asked for one after the other, and counted as a request."""
        rows = [order(number, blob=b"x" * 100_000) for number in range(25)]
        scale.here.bulk(*(by_user(row) for row in rows))
        sizes = [item_bytes(item) for item in scale.items().values()]
        scale.meter.reset()
        (found,) = scale.here.read(Search("by user", takes=("order_id",)), [Span((ANN,))])
        taken = scale.meter.reset()
        assert len(found) == 25
        assert taken.operations == ["Query"] * 3
        assert taken.rounds == 3
        pages = [len(reply["Items"]) for reply in taken.replies]
        assert sum(pages) == 25
        start, units = 0, 0.0
        for count in pages:
            units += read_units(sum(sizes[start : start + count]))
            start += count
        assert taken.read[""] == units

    def test_of_indexes_counts_what_they_project(self, scale: Scale) -> None:
        for number in range(9):
            scale.here.write(put(order(number, blob=b"x" * 1500, flagged="red", gift=True)))
        stored = scale.items()
        views = {"by status": ("pending",), "by day": (order(1)["day"],)}
        for view, partition in views.items():
            index = next(one for one in scale.indexes if view in one.views)
            sizes = [item_bytes(found) for item in stored.values() if (found := entry(index, item)) is not None]
            assert len(sizes) == 9
            scale.meter.reset()
            (rows,) = scale.here.read(Search(view, takes=("order_id",)), [Span(partition)])
            assert len(rows) == 9
            taken = scale.meter.reset()
            assert {k: v for k, v in taken.read.items() if v} == {index.name: read_units(sum(sizes))}, view
        assert read_units(9 * 1500) > read_units(sum(sizes)), "an index that includes little is read for less"

    def test_a_scan_reads_the_whole_table(self, scale: Scale) -> None:
        for number in range(6):
            scale.here.write(put(order(number, blob=b"x" * 2000)))
        (reply,) = scale.here.port.send([Request("Scan", {})])
        everything = sum(item_bytes(item) for item in reply["Items"])
        scale.meter.reset()
        scale.here.read(Search("orders", takes=("order_id",)), [Span(())])
        assert scale.meter.reset().read[""] == read_units(everything)


def by_user(row: dict[str, Any]) -> Edit:
    return Edit("by user", "put", (row["user"], row["created_at"], row["order_id"]), (), row)


class TestTransactions:
    """By AWS's formula: each item rounded up by itself, twice, its index entries once; and a check as a write."""

    def test_of_tables_on_dynoxide(self, dynoxide: Server) -> None:
        """The emulator that counts items one by one; it leaves out what happens on indexes beyond one unit."""
        with lab(dynoxide.url) as here:
            scale = Scale(here)
            rows = [order(number, blob=b"x" * 900 * number) for number in range(4)]
            here.write(*(by_user(row) for row in rows))
            taken = scale.meter.reset()
            sizes = [item_bytes(item) for item in scale.items().values()]
            assert taken.operations == ["TransactWriteItems"]
            assert taken.write[""] == sum(write_units(0, size, transaction=True) for size in sizes)

    def test_the_formula(self) -> None:
        """The example of AWS's documentation: three items of 500 B read take 6 units, and written take 6."""
        assert sum(read_units(500, transaction=True) for _ in range(3)) == 6
        assert sum(write_units(0, 500, transaction=True) for _ in range(3)) == 6
        assert write_units(0, 3 * LIMITS.write_unit_bytes + 1, transaction=True) == 8

    def test_dynamodb_local_reports_them_wrongly(self, local: Server) -> None:
        """Why the formula is tested and not the server: if this fails, DynamoDB Local has been repaired."""
        with lab(local.url) as here:
            scale = Scale(here)
            here.write(*(by_user(order(number)) for number in range(10)))
            assert scale.meter.reset().write[""] != 10 * write_units(0, 500, transaction=True)
