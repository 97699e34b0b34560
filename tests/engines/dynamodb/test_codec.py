"""Edits and searches on both servers: what is written is found, under every shape of key and condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from keyplan.engines.codec import Span
from keyplan.engines.dynamodb.conditions import test_holds as holds
from keyplan.engines.dynamodb.requests import BatchAsk, DynamoDBCodec
from keyplan.errors import ConflictError, DesignError, RangeError, UnsupportedError
from keyplan.model.pattern import Select
from keyplan.model.values import truncate
from keyplan.plan.edits import Edit, Test
from keyplan.plan.shards import shard_of
from keyplan.plan.steps import Search
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import ALL, NOTE, STORED, TOTALS, Lab, lab

NOW = datetime(2026, 11, 5, 9, 30, tzinfo=UTC)
ANN, BOB = UUID(int=1), UUID(int=2)


@pytest.fixture
def here(server: Server) -> Iterator[Lab]:
    with lab(server.url, (*ALL, TOTALS)) as found:
        yield found


def order(number: int = 1, **changed: Any) -> dict[str, Any]:
    row = {
        "order_id": number,
        "user": ANN,
        "status": "pending",
        "total": Decimal("12.50"),
        "weight": 1.5,
        "stock": 3,
        "created_at": NOW + timedelta(hours=number),
        "day": date(2026, 11, 5),
        "flagged": None,
        "gift": False,
        "tags": frozenset({"new", ""}),
        "marks": (3, 1),
        "extra": {"a": [1, None]},
        "blob": b"\x00\xff",
        "PK": "mine",
        "ttl": 5,
    }
    return {**row, **changed}


def put(row: dict[str, Any], **more: Any) -> Edit:
    return Edit("orders", "put", (row["order_id"],), (), row, **more)


def note(number: int, line: int, text: str = "x") -> Edit:
    return Edit("orders", "put", (number, line), ("notes",), {"order": number, "line": line, "text": text})


def whole(lab: Lab, number: int = 1) -> dict[str, Any] | None:
    (rows,) = lab.read(Search("orders", takes=STORED), [Span((number,))], strong=True)
    return rows[0] if rows else None


class TestItems:
    def test_a_row_comes_back_as_it_was(self, here: Lab) -> None:
        empty = dict.fromkeys(("weight", "stock", "flagged", "extra", "blob", "PK", "ttl"))
        for row in (order(), order(2, **empty, tags=frozenset(), marks=(), gift=True, total=Decimal("-0.01"))):
            here.write(put(row))
            assert whole(here, row["order_id"]) == row

    def test_attributes_bear_the_names_of_the_paths(self, here: Lab) -> None:
        here.write(put(order(flagged="late", gift=True)))
        (item,) = here.items()
        shard = shard_of([1], 3)
        assert item["PK"] == {"S": "ORDER#a1"}
        assert item["PK_"] == {"S": "mine"}
        assert item["ttl_"] == {"N": "5"}
        assert "ttl" not in item
        assert item["total"] in ({"N": "12.5"}, {"N": "12.50"})
        assert item["GSI1PK"] == {"S": "ORDER.STATUS#pending"}
        assert item["GSI1SK"] == {"S": "ORDER#2026-11-05T10:30:00.000Z#a1"}
        assert item["GSI3PK"] == {"S": f"ORDER.FLAGGED#late#a{shard}"}

    def test_expiry_has_two_attributes(self, here: Lab) -> None:
        moment = NOW + timedelta(milliseconds=1)
        here.write(Edit("sessions", "put", (1,), (), {"session_id": 1, "handle": "a", "hits": 1, "$expires": moment}))
        (item,) = here.items()
        assert item["$expires"] == {"S": "2026-11-05T09:30:00.001Z"}
        assert item["ttl"] == {"N": str(int(NOW.timestamp()) + 1)}
        here.write(Edit("sessions", "patch", (1,), (), {"$expires": None}))
        (item,) = here.items()
        assert "ttl" not in item
        assert "$expires" not in item


class TestReads:
    def test_ranges_in_both_directions(self, here: Lab) -> None:
        rows = [order(number, user=ANN if number % 2 else BOB) for number in range(1, 9)]
        here.bulk(*(Edit("by user", "put", (row["user"], row["created_at"], row["order_id"]), (), row) for row in rows))
        search = Search("by user", takes=("order_id",))

        def numbers(search: Search, span: Span, limit: int | None = None) -> list[int]:
            return [row["order_id"] for row in here.read(search, [span], limit)[0]]

        low, high = (NOW + timedelta(hours=3),), (NOW + timedelta(hours=7),)
        assert numbers(search, Span((ANN,))) == [1, 3, 5, 7]
        assert numbers(replace(search, descending=True), Span((ANN,)), 3) == [7, 5, 3]
        assert numbers(search, Span((ANN,), low=low, high=high)) == [3, 5, 7]
        assert numbers(search, Span((ANN,), low=low, low_open=True, high=high, high_open=True)) == [5]
        assert numbers(search, Span((ANN,), low=high, high=low)) == []
        assert here.read(search, [Span((ANN,), low=high), Span((BOB,)), Span((UUID(int=3),))]) == [
            [{"order_id": 7}],
            [{"order_id": number} for number in (2, 4, 6, 8)],
            [],
        ]
        assert [row["order_id"] for row in here.read(search, [Span(())])[0]] != []
        assert sorted(row["order_id"] for row in here.read(search, [Span(())])[0]) == list(range(1, 9))

    def test_an_inverted_part(self, here: Lab) -> None:
        totals = [Decimal("-3.00"), Decimal("0.00"), Decimal("2.50"), Decimal("10.00")]
        here.bulk(
            *(
                Edit("by total", "put", (total, n), (), {"order_id": n, "total": total})
                for n, total in enumerate(totals)
            )
        )
        search = Search("by total", takes=("order_id",))
        assert [row["order_id"] for row in here.read(search, [Span(())])[0]] == [3, 2, 1, 0]
        found = here.read(search, [Span((), low=(totals[2],), high=(totals[0],), high_open=True)])
        assert [row["order_id"] for row in found[0]] == [2, 1]

    def test_many_keys_are_fetched_in_batches_each_once(self, here: Lab) -> None:
        here.bulk(*(put(order(number)) for number in range(150)))
        spans = [Span((number % 160,)) for number in range(320)]
        reader = here.codec.reader(Search("orders", takes=("order_id",)))
        asks = reader.ask(spans, None, strong=True)
        assert [len(ask.request.body["Keys"]) for ask in asks] == [100, 60]
        found = here.read(Search("orders", takes=("order_id",)), spans)
        assert found == [[{"order_id": n % 160}] if n % 160 < 150 else [] for n in range(320)]

    def test_keys_left_unprocessed_are_asked_for_again(self, here: Lab) -> None:
        reader = here.codec.reader(Search("orders", takes=("order_id",)))
        (ask,) = reader.ask([Span((1,)), Span((2,)), Span((1,))], None, strong=True)
        one, two = ask.request.body["Keys"]
        reply = {
            "Responses": {"t": [{**one, "order_id": {"N": "1"}}]},
            "UnprocessedKeys": {"t": {"Keys": [two], "ConsistentRead": True}},
        }
        answer = reader.answer(ask, reply)
        assert dict(zip(ask.spans, answer.rows, strict=True)) == {0: [{"order_id": 1}], 1: [], 2: [{"order_id": 1}]}
        assert isinstance(answer.more, BatchAsk)
        assert answer.more.request.body == {"Keys": [two], "ConsistentRead": True}
        assert list(answer.more.spans) == [1]

    def test_a_limit_ends_the_reading(self, here: Lab) -> None:
        here.bulk(*(note(1, line) for line in range(10)))
        reader = here.codec.reader(Search("orders", ("notes",), takes=("line",)))
        (ask,) = reader.ask([Span((1,))], 4, strong=False)
        answer = reader.answer(ask, here.port.send([ask.request])[0])
        assert (answer.rows, answer.more) == (([{"line": n} for n in range(4)],), None)

    def test_pages_are_followed(self, here: Lab) -> None:
        here.bulk(*(note(1, line, "x" * 300_000) for line in range(8)))
        search = Search("orders", ("notes",), takes=("line",))
        assert here.read(search, [Span((1,))]) == [[{"line": n} for n in range(8)]]
        assert here.read(replace(search, descending=True), [Span((1,))], 6) == [[{"line": n} for n in range(7, 1, -1)]]
        assert sorted(row["line"] for row in here.read(search, [Span(())])[0]) == list(range(8))

    def test_a_parent_comes_with_its_children_over_pages(self, here: Lab) -> None:
        here.bulk(*(note(1, line, "x" * 300_000) for line in range(8)), note(2, 1), put(order(1)), put(order(3)))
        search = Search("orders", takes=("order_id", "PK"), along={"notes": Select(NOTE)})
        first, second, third, fourth = here.read(search, [Span((number,)) for number in (1, 2, 3, 4)])
        assert [(row["order_id"], row["PK"]) for row in first] == [(1, "mine")]
        assert [child["line"] for child in first[0]["notes"]] == list(range(8))
        assert set(first[0]["notes"][0]) == set(NOTE)
        assert second == []
        assert third == [{"order_id": 3, "PK": "mine", "notes": []}]
        assert fourth == []
        every = here.read(search, [Span(())])[0]
        assert sorted((row["order_id"], len(row["notes"])) for row in every) == [(1, 8), (3, 0)]

    def test_a_parent_alone_and_a_child_alone(self, here: Lab) -> None:
        here.bulk(note(1, 1), note(1, 2), put(order(1)))
        assert here.read(Search("orders", takes=("order_id",)), [Span(())]) == [[{"order_id": 1}]]
        assert here.read(Search("orders", takes=("order_id",)), [Span((1,))]) == [[{"order_id": 1}]]
        assert here.read(Search("orders", ("notes",), takes=NOTE), [Span((1,), (2,)), Span((1,), (3,))]) == [
            [{"order": 1, "line": 2, "text": "x"}],
            [],
        ]

    def test_an_index_shows_what_has_its_key(self, here: Lab) -> None:
        here.bulk(
            put(order(1)),
            put(order(2, status="done")),
            put(order(3, flagged="a#b", gift=True)),
            put(order(4, flagged="a#b")),
            note(3, 9),
        )
        assert here.read(Search("by status", takes=STORED), [Span(("done",))]) == [[order(2, status="done")]]
        flagged = Search("flagged", takes=("order_id", "flagged"))
        spans = [Span(("a#b", shard)) for shard in range(3)]
        assert sorted(map(len, here.read(flagged, spans))) == [0, 0, 1]
        assert here.read(flagged, [Span(())]) == [[{"order_id": 3, "flagged": "a#b"}]]
        assert here.read(Search("notes by line", takes=("order", "line")), [Span((9,), (3,))]) == [
            [{"order": 3, "line": 9}]
        ]
        day = Search("by day", takes=("order_id", "day", "total"))
        assert len(here.read(day, [Span((date(2026, 11, 5),))])[0]) == 4

    def test_an_index_is_not_read_strongly(self, here: Lab) -> None:
        with pytest.raises(UnsupportedError, match="strongly"):
            here.read(Search("by status", takes=("order_id",)), [Span(("done",))], strong=True)


class TestWrites:
    def test_absent_and_present(self, here: Lab) -> None:
        here.write(put(order(), expect="absent"))
        with pytest.raises(ConflictError, match="Order '1' exists already") as caught:
            here.write(put(order(), expect="absent"))
        assert caught.value.edit == 0  # type: ignore[attr-defined]
        with pytest.raises(ConflictError, match="Order '2' does not exist"):
            here.write(put(order(2), expect="present"))
        here.write(put(order(stock=9), expect="present"))
        assert whole(here) == order(stock=9)

    def test_an_expired_item_counts_as_absent(self, here: Lab) -> None:
        session = {"session_id": 1, "handle": "a", "hits": None, "$expires": NOW}
        mine = Edit("sessions", "put", (1,), (), session)
        here.write(mine)
        patch = Edit("sessions", "patch", (1,), (), {"hits": 2}, expect="present", alive_at=NOW)
        with pytest.raises(ConflictError):
            here.write(patch)
        here.write(replace(patch, alive_at=NOW - timedelta(milliseconds=1)))
        with pytest.raises(ConflictError):
            here.write(replace(mine, expect="absent", alive_at=NOW - timedelta(milliseconds=1)))
        here.write(replace(mine, expect="absent", alive_at=NOW))
        never = replace(mine, values={**session, "$expires": None})
        here.write(never)
        here.write(patch)

    def test_a_patch_moves_index_entries(self, here: Lab) -> None:
        here.write(put(order()))
        new = order(status="done", gift=True, flagged="x")
        changed = {"status": "done", "gift": True, "flagged": "x", "weight": None, "tags": frozenset()}
        new |= changed
        here.write(Edit("orders", "patch", (1,), (), changed, entry=new))
        assert whole(here) == new
        by_status = Search("by status", takes=("order_id",))
        assert here.read(by_status, [Span(("pending",)), Span(("done",))]) == [[], [{"order_id": 1}]]
        assert here.read(Search("flagged", takes=("order_id",)), [Span(())]) == [[{"order_id": 1}]]
        here.write(Edit("orders", "patch", (1,), (), {"gift": False}, entry={**new, "gift": False}))
        assert here.read(Search("flagged", takes=("order_id",)), [Span(())]) == [[]]

    def test_a_patch_of_an_index_key_needs_the_entry(self, here: Lab) -> None:
        with pytest.raises(DesignError, match="by status"):
            here.codec.write([Edit("orders", "patch", (1,), (), {"status": "done"})])

    def test_a_patch_makes_no_item(self, here: Lab) -> None:
        assert here.write(Edit("orders", "patch", (1,), (), {"weight": 2.0})) == [None]
        assert here.items() == []
        with pytest.raises(ConflictError):
            here.write(Edit("orders", "patch", (1,), (), {"weight": 2.0}, expect="present"))
        with pytest.raises(ConflictError):
            here.write(Edit("orders", "patch", (1,), (), {"weight": 2.0}), put(order(2)))
        assert here.items() == []

    def test_returned_entries(self, here: Lab) -> None:
        assert here.write(put(order(), returning=True)) == [order()]
        patch = Edit("orders", "patch", (1,), (), {"weight": 2.0}, {"stock": 4}, returning=True)
        assert here.write(patch) == [order(weight=2.0, stock=7)]
        gone = Edit("orders", "delete", (1,), returning=True)
        for edit in (patch, gone):
            with pytest.raises(UnsupportedError, match="by a request of one edit alone"):
                here.write(edit, note(1, 1))
        assert here.write(gone) == [order(weight=2.0, stock=7)]
        assert here.write(gone) == [None]
        here.write(put(order()))
        assert here.write(gone) == [order()]

    def test_all_or_nothing(self, here: Lab) -> None:
        here.write(put(order(1)), note(1, 1))
        with pytest.raises(ConflictError, match="Note '1, 1' exists already") as caught:
            here.write(put(order(2)), note(1, 2), replace(note(1, 1), expect="absent"), note(1, 3))
        assert caught.value.edit == 2  # type: ignore[attr-defined]
        assert len(here.items()) == 2

    def test_checks(self, here: Lab) -> None:
        here.write(put(order()))
        check = Edit("orders", "check", (1,), expect="present", tests=(Test("stock", ">", 2),))
        here.write(check, note(1, 1))
        here.write(check)
        here.write(Edit("orders", "check", (2,), expect="absent"))
        with pytest.raises(ConflictError, match="the condition of the write does not hold"):
            here.write(replace(check, tests=(Test("stock", ">", 3),)), note(1, 2))
        with pytest.raises(ConflictError):
            here.write(replace(check, key=(2,), tests=(Test("stock", "=", None),)))

    def test_deletes(self, here: Lab) -> None:
        here.write(put(order()))
        here.write(Edit("orders", "delete", (2,)))
        with pytest.raises(ConflictError):
            here.write(Edit("orders", "delete", (1,), tests=(Test("status", "=", "done"),)))
        here.write(Edit("orders", "delete", (1,), tests=(Test("status", "=", "pending"),), expect="present"))
        assert here.items() == []

    def test_bulk_takes_the_last_edit_of_an_item(self, here: Lab) -> None:
        here.bulk(
            *(put(order(number)) for number in range(60)), put(order(7, stock=70)), Edit("orders", "delete", (8,))
        )
        assert len(here.items()) == 59
        assert whole(here, 7) == order(7, stock=70)
        assert whole(here, 8) is None

    def test_too_many_at_once(self, here: Lab) -> None:
        assert isinstance(here.codec, DynamoDBCodec)
        here.write(*(note(1, line) for line in range(100)))
        assert len(here.items()) == 100
        with pytest.raises(UnsupportedError, match="100 items at once"):
            here.codec.write([note(1, line) for line in range(101)])


class TestSums:
    def test_missing_counts_as_zero(self, here: Lab) -> None:
        here.write(put(order(stock=None, weight=None)))
        adds = {"stock": -4, "weight": 0.25, "total": Decimal("0.01")}
        here.write(Edit("orders", "patch", (1,), (), {}, adds))
        assert whole(here) == order(stock=-4, weight=0.25, total=Decimal("12.51"))

    @pytest.mark.parametrize(
        ("path", "start", "amount"),
        [
            ("stock", 2**63 - 10, 9),
            ("stock", -(2**63) + 10, -10),
            ("stock", -5, 2**63),
            ("stock", None, -(2**63)),
            ("total", Decimal("9999999999999999.98"), Decimal("0.01")),
            ("total", Decimal("-9999999999999999.98"), Decimal("-0.01")),
            ("weight", 9e124, 9e123),
            ("weight", 1e-120, -1e-120),
        ],
    )
    def test_the_range_is_kept(self, here: Lab, path: str, start: Any, amount: Any) -> None:
        here.write(put(order(**{path: start})))
        (row,) = here.write(Edit("orders", "patch", (1,), (), {}, {path: amount}, returning=True, expect="present"))
        assert row is not None
        assert row[path] == pytest.approx((start or 0) + amount)

    @pytest.mark.parametrize(
        ("path", "start", "amount"),
        [
            ("stock", 2**63 - 10, 10),
            ("stock", -(2**63) + 10, -11),
            ("stock", None, 2**63),
            ("stock", 0, 2**63),
            ("total", Decimal("9999999999999999.98"), Decimal("0.02")),
            ("total", Decimal("-9999999999999999.98"), Decimal("-0.02")),
            ("weight", 9e124, 2e124),
            ("weight", -9e124, -2e124),
        ],
    )
    @pytest.mark.parametrize("together", [False, True])
    def test_a_sum_out_of_range_is_refused(self, here: Lab, path: str, start: Any, amount: Any, together: bool) -> None:
        before = order(**{path: start})
        here.write(put(before))
        edit = Edit("orders", "patch", (1,), (), {}, {path: amount}, tests=(Test("gift", "=", False),))
        more = [note(1, 1)] if together else []
        with pytest.raises(RangeError, match=f"'{path}' would leave the range"):
            here.write(edit, *more)
        with pytest.raises(ConflictError):
            here.write(replace(edit, tests=(Test("gift", "=", True),)), *more)
        assert whole(here) == before
        assert len(here.items()) == 1

    @pytest.mark.parametrize("together", [False, True])
    def test_floats_of_very_different_size(self, here: Lab, together: bool) -> None:
        here.write(put(order(weight=1e30)))
        more = [note(1, 1)] if together else []
        tests = (Test("stock", "=", 3),)
        alone = not together  # an item comes back from a request of one edit alone
        edit = Edit("orders", "patch", (1,), (), {}, {"weight": 1e-30, "stock": 1}, tests=tests, returning=alone)
        row, *_ = here.write(edit, *more)
        assert whole(here) == order(weight=1e30, stock=4)
        assert row == (whole(here) if alone else None)
        with pytest.raises(ConflictError):
            here.write(edit, *more)
        here.write(put(order(weight=9e124)))
        with pytest.raises(RangeError):
            here.write(replace(edit, adds={"weight": 9e124 + 1e-30}), *more)

    def test_groups_are_made_and_added_to(self, here: Lab) -> None:
        key = (date(2026, 11, 5), "done")
        search = Search("totals", takes=("day(created_at)", "status", "$count", "sum(total)"))
        for _ in range(3):
            here.write(Edit("totals", "add", key, adds={"$count": 1, "sum(total)": 7}))
        here.write(Edit("totals", "add", key, adds={"$count": -1}), note(1, 1))
        row = {"day(created_at)": key[0], "status": "done", "$count": 2, "sum(total)": 21}
        assert here.read(search, [Span(key[:1], key[1:])]) == [[row]]
        assert here.read(search, [Span(key[:1])]) == [[row]]
        assert here.read(search, [Span(())]) == [[row]]


VALUES: dict[str, list[Any]] = {
    "stock": [None, -5, 0, 3, 10],
    "total": [Decimal("-1.00"), Decimal("0.00"), Decimal("9.00"), Decimal("10.00")],
    "weight": [None, -1.5, 0.0, 1e-9, 2.0, 1e20],
    "flagged": [None, "", "a", "ab", "b", "ü", "\U0001f600"],
    "status": ["done", "pending"],
    "gift": [False, True],
    "blob": [None, b"", b"\x00", b"\x00\xff", b"\xff"],
    "user": [ANN, BOB, UUID(int=2**127)],
    "day": [date(1, 1, 1), date(2026, 1, 31), date(2026, 2, 1), date(9999, 12, 31)],
    "created_at": [NOW, NOW + timedelta(milliseconds=1), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)],
}


def every_test_on(path: str) -> Iterator[Test]:
    values = [value for value in VALUES[path] if value is not None]
    for value in values:
        for op in ("=", "!=", "<", "<=", ">", ">="):
            yield Test(path, op, value)
    yield Test(path, "=", None)
    yield Test(path, "present")
    yield Test(path, "missing")
    yield Test(path, "in", ())
    yield Test(path, "in", tuple(values[:1]))
    yield Test(path, "in", tuple(values[:2]))
    yield Test(path, "between", (values[0], values[-1]))
    yield Test(path, "between", (values[-1], values[0]))
    if path == "flagged":
        for value in values:
            yield Test(path, "begins_with", value)
    if path in ("day", "created_at"):
        cuts = ("week", "month", "year") if path == "day" else ("minute", "hour", "day", "week", "month", "year")
        for cut in cuts:
            moments = {truncate(value, cut) for value in values}
            for value in moments:
                for op in ("=", "!=", "<", "<=", ">", ">="):
                    yield Test(path, op, value, cut)
            yield Test(path, "in", tuple(moments), cut)
            yield Test(path, "in", (min(moments),), cut)
            yield Test(path, "in", (), cut)
            yield Test(path, "between", (min(moments), max(moments)), cut)
            yield Test(path, "between", (min(moments), min(moments)), cut)


class TestConditions:
    @pytest.mark.parametrize("path", list(VALUES))
    def test_every_test_means_what_it_means_to_us(self, here: Lab, path: str) -> None:
        """Each value against each test, by the server and by the language's own definition."""
        assert isinstance(here.codec, DynamoDBCodec)
        place = here.codec.layout.places["orders", ()]
        rows = [order(number, **{path: value}) for number, value in enumerate(VALUES[path])]
        here.bulk(*map(put, rows))
        requests, expected, named = [], [], []
        for test in every_test_on(path):
            for row in rows:
                edit = Edit("orders", "patch", (row["order_id"],), tests=(test,))
                requests.append(here.codec.write([edit]))
                expected.append(holds(place, test, row))
                named.append((test, row[path]))
        replies = here.port.send(requests)
        for reply, want, name in zip(replies, expected, named, strict=True):
            assert isinstance(reply, dict | ConflictError), (name, reply)
            assert (not isinstance(reply, Exception)) == want, name

    def test_sets(self, here: Lab) -> None:
        here.bulk(put(order(1)), put(order(2, tags=frozenset())))

        def found(test: Test) -> list[int]:
            replies = here.port.send(
                [here.codec.write([Edit("orders", "patch", (number,), tests=(test,))]) for number in (1, 2)]
            )
            for reply in replies:
                assert isinstance(reply, dict | ConflictError), reply
            return [number for number, reply in zip((1, 2), replies, strict=True) if isinstance(reply, dict)]

        assert found(Test("tags", "contains", "new")) == [1]
        assert found(Test("tags", "contains", "ne")) == []
        assert found(Test("tags", "contains", "")) == [1]
        assert found(Test("tags", "=", frozenset({"", "new"}))) == [1]
        assert found(Test("tags", "=", frozenset())) == [2]
        assert found(Test("tags", "present")) == [1, 2]
        assert found(Test("tags", "missing")) == []

    def test_long_lists(self, here: Lab) -> None:
        here.write(put(order()))
        here.write(Edit("orders", "patch", (1,), tests=(Test("stock", "in", tuple(range(250, 0, -1))),)))
        with pytest.raises(ConflictError):
            here.write(Edit("orders", "patch", (1,), tests=(Test("stock", "in", tuple(range(10, 250))),)))

    def test_a_path_that_is_not_held(self, here: Lab) -> None:
        with pytest.raises(UnsupportedError, match="does not hold"):
            here.codec.write([Edit("by total", "patch", (Decimal(1), 1), tests=(Test("stock", "=", 1),))])
