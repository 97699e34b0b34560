"""Spans become statements that give the right rows, in order, through the structure that was meant."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyplan.engines.codec import Span
from keyplan.engines.sqlite import ENGINE, requests
from keyplan.engines.sqlite.requests import BatchAsk
from keyplan.errors import UnsupportedError
from keyplan.model.identifiers import ulid_text
from keyplan.model.pattern import Condition, Literal, Order, Param, Path
from keyplan.plan.edits import Edit
from keyplan.plan.steps import Search
from keyplan.plan.view import Part, View
from tests.engines.sqlite.support import Lab, lab, little_model

ENTITIES = little_model().entities
HOME = View("orders", "Order", "table", (), (Part("order_id"),), ENTITIES["Order"].stored)
NOTES = View("notes", "Note", "table", (), (Part("order"), Part("line")), ENTITIES["Note"].stored)
BY_USER = View("by_user", "Order", "index", (), (Part("user"), Part("created_at"), Part("order_id")), (), base="orders")
MIXED = View(
    "mixed",
    "Order",
    "index",
    (),
    (Part("status"), Part("total", descending=True), Part("order_id")),
    (),
    base="orders",
)
FLAGGED = View("flagged", "Order", "index", (), (Part("flagged"), Part("order_id")), (), base="orders")
PENDING = View(
    "pending",
    "Order",
    "index",
    (),
    (Part("created_at"), Part("order_id")),
    (),
    where=(Condition(Path((), "status"), "=", (Literal("pending"),)),),
    base="orders",
)
BY_MONTH = View(
    "by_month", "Order", "index", (), (Part("created_at", cut="month"), Part("order_id")), (), base="orders"
)
VIEWS = (HOME, NOTES, BY_USER, MIXED, FLAGGED, PENDING, BY_MONTH)
START = datetime(2023, 12, 30, tzinfo=UTC)


def user(number: int) -> UUID:
    return UUID(int=number << 100)


def order(number: int) -> dict[str, Any]:
    return {
        "order_id": ulid_text(number * 7919 % 1000),
        "user": user(number % 5),
        "status": "pending" if number % 4 == 0 else "done",
        "total": Decimal(number % 7 - 3).scaleb(-2) + Decimal("10.00"),
        "weight": number / 3 if number % 2 else None,
        "stock": number,
        "created_at": START + timedelta(hours=number % 50),
        "day": date(2024, 1, 1),
        "flagged": f"why {number % 3}" if number % 10 == 0 else None,
        "gift": number % 2 == 0,
        "tags": frozenset({"a", str(number)}),
        "marks": (number, 1),
        "extra": {"n": [number]},
        "blob": bytes([number % 256]),
    }


ROWS = [order(number) for number in range(120)]


@pytest.fixture(scope="module")
def made() -> Iterator[Lab]:
    found = lab(VIEWS)
    edits = [Edit("orders", "put", (row["order_id"],), values=row) for row in ROWS]
    for request in found.codec.bulk(edits):
        assert found.port.send([request]) == [None]
    yield found
    found.port.close()


TAKES = ("order_id", "user", "status", "total", "created_at", "flagged")


def picked(rows: list[dict[str, Any]], takes: tuple[str, ...] = TAKES) -> list[dict[str, Any]]:
    return [{path: row[path] for path in takes} for row in rows]


def explain(found: Lab, search: Search, spans: list[Span], limit: int | None) -> list[str]:
    asks = found.codec.reader(search).ask(spans, limit, strong=False)
    plans = []
    for ask in asks:
        text, values = ask.request
        plans += [row[3] for row in found.query(f"EXPLAIN QUERY PLAN {text}", *values)]
    return plans


def test_a_get_decodes_every_type(made: Lab) -> None:
    search = Search("orders", takes=ENTITIES["Order"].stored)
    assert made.read(search, [Span((), (ROWS[9]["order_id"],))]) == [[ROWS[9]]]
    assert made.read(search, [Span((), (ulid_text(10**30),))]) == [[]]
    (plan,) = explain(made, search, [Span((), (ROWS[9]["order_id"],))], None)
    assert plan.startswith("SEARCH Order USING ")
    assert plan.endswith("(order_id=?)")


def test_many_gets_are_one_statement(made: Lab) -> None:
    search = Search("orders", takes=TAKES)
    wanted = [ROWS[5], ROWS[3], ROWS[5], ROWS[100]]
    spans = [Span((), (row["order_id"],)) for row in wanted]
    spans.insert(1, Span((), (ulid_text(10**30),)))
    asks = made.codec.reader(search).ask(spans, 1, strong=True)
    assert [ask.__class__ for ask in asks] == [BatchAsk]
    found = made.read(search, spans, 1)
    assert found == [picked([ROWS[5]]), [], *(picked([row]) for row in wanted[1:])]
    assert not any("SCAN Order" in line for line in explain(made, search, spans, 1))


def test_more_gets_than_a_statement_takes_are_several(made: Lab) -> None:
    search = Search("orders", takes=TAKES)
    spans = [Span((), (row["order_id"],)) for row in ROWS * 3]
    assert len(made.codec.reader(search).ask(spans, None, strong=True)) == 3
    assert made.read(search, spans) == [picked([row]) for row in ROWS * 3]


@pytest.mark.parametrize("descending", [False, True])
def test_a_page_of_an_index_is_in_order_and_uses_it(made: Lab, descending: bool) -> None:
    search = Search("by_user", takes=TAKES, descending=descending, order=(Order(Path((), "created_at")),))
    here = sorted(
        (row for row in ROWS if row["user"] == user(2)),
        key=lambda row: (row["created_at"], row["order_id"]),
        reverse=descending,
    )
    low = (START + timedelta(hours=5),)
    high = (START + timedelta(hours=30), ulid_text(500))
    span = Span((), (user(2),), low, True, high, False)
    inside = [row for row in here if row["created_at"] > low[0] and (row["created_at"], row["order_id"]) <= high]
    assert made.read(search, [span], 7) == [picked(inside[:7])]
    assert made.read(search, [span]) == [picked(inside)]
    for limit in (7, None):
        plan = explain(made, search, [span], limit)
        assert len(plan) == 1
        assert "SEARCH Order USING INDEX ix_Order_user_created_at (user=? AND" in plan[0]


@pytest.mark.parametrize("descending", [False, True])
def test_the_children_of_several_parents_come_in_order_by_one_statement(made: Lab, descending: bool) -> None:
    search = Search("by_user", takes=TAKES, descending=descending)
    spans = [Span((), (user(number),)) for number in (3, 1, 4)]
    found = made.read(search, spans)
    for number, rows in zip((3, 1, 4), found, strict=True):
        mine = [row for row in ROWS if row["user"] == user(number)]
        mine.sort(key=lambda row: (row["created_at"], row["order_id"]), reverse=descending)
        assert rows == picked(mine)
    plan = explain(made, search, spans, None)
    assert sum("SEARCH Order USING INDEX ix_Order_user_created_at (user=?)" in line for line in plan) == 1
    assert not any("TEMP B-TREE" in line or "SCAN Order" in line for line in plan)


def test_spans_with_a_limit_are_one_statement_each(made: Lab) -> None:
    search = Search("by_user", takes=("order_id",))
    found = made.read(search, [Span((), (user(number),)) for number in (0, 1)], 2)
    assert [len(rows) for rows in found] == [2, 2]


def mixed_key(row: dict[str, Any]) -> tuple[Any, ...]:
    return -row["total"], row["order_id"]


@pytest.mark.parametrize("descending", [False, True])
@settings(deadline=None)
@given(data=st.data())
def test_bounds_over_inverted_parts_are_in_the_order_of_the_key(
    made: Lab, descending: bool, data: st.DataObject
) -> None:
    search = Search("mixed", takes=TAKES, descending=descending)
    rows = sorted((row for row in ROWS if row["status"] == "done"), key=mixed_key, reverse=descending)
    lows, highs = (data.draw(st.none() | st.sampled_from(ROWS)) for _ in range(2))
    widths = [data.draw(st.integers(1, 2)) for _ in range(2)]
    opens = [data.draw(st.booleans()) for _ in range(2)]

    def bound(row: dict[str, Any] | None, width: int) -> tuple[Any, ...] | None:
        return None if row is None else (row["total"], row["order_id"])[:width]

    def inside(row: dict[str, Any]) -> bool:
        here = mixed_key(row)
        if lows is not None:
            there = mixed_key(lows)[: widths[0]]
            if here[: widths[0]] < there or (opens[0] and here[: widths[0]] == there):
                return False
        if highs is not None:
            there = mixed_key(highs)[: widths[1]]
            if here[: widths[1]] > there or (opens[1] and here[: widths[1]] == there):
                return False
        return True

    span = Span((), ("done",), bound(lows, widths[0]), opens[0], bound(highs, widths[1]), opens[1])
    wanted = picked([row for row in rows if inside(row)])
    assert made.read(search, [span]) == [wanted]
    assert made.read(search, [span], 5) == [wanted[:5]]
    plan = explain(made, search, [span], 5)
    assert len(plan) == 1
    assert "USING INDEX ix_Order_status_total (status=?" in plan[0]


def test_a_sparse_index_holds_the_rows_that_have_the_value(made: Lab) -> None:
    rows = sorted((row for row in ROWS if row["flagged"]), key=lambda row: (row["flagged"], row["order_id"]))
    search = Search("flagged", takes=TAKES)
    assert made.read(search, [Span(())]) == [picked(rows)]
    span = Span((), (), starts="why 1")
    assert made.read(search, [span]) == [picked([row for row in rows if row["flagged"] == "why 1"])]
    for some in (Span(()), span):
        plan = explain(made, search, [some], None)
        assert len(plan) == 1
        assert "ix_Order_flagged" in plan[0]


def test_a_partial_index_holds_the_rows_of_its_condition(made: Lab) -> None:
    rows = sorted(
        (row for row in ROWS if row["status"] == "pending"), key=lambda row: (row["created_at"], row["order_id"])
    )
    search = Search("pending", takes=TAKES)
    assert made.read(search, [Span(())], 100) == [picked(rows[:100])]
    plan = explain(made, search, [Span((), (), low=(START,))], 10)
    assert len(plan) == 1
    assert "ix_Order_created_at_where_status (created_at>?)" in plan[0]


def test_an_index_of_a_truncation_finds_its_rows(made: Lab) -> None:
    search = Search("by_month", takes=TAKES)
    for month in (date(2023, 12, 1), date(2024, 1, 1)):
        rows = [row for row in ROWS if row["created_at"].date().replace(day=1) == month]
        rows.sort(key=lambda row: row["order_id"])
        assert made.read(search, [Span((), (month,))]) == [picked(rows)]
    plan = explain(made, search, [Span((), (date(2024, 1, 1),))], None)
    assert len(plan) == 1
    assert "ix_Order_month_created_at (<expr>=?)" in plan[0]


@pytest.mark.parametrize(("view", "descending"), list(itertools.product(("orders", "by_user", "mixed"), (False, True))))
def test_long_ranges_come_in_chunks(made: Lab, monkeypatch: pytest.MonkeyPatch, view: str, descending: bool) -> None:
    search = Search(view, takes=("stock",), descending=descending)
    whole = made.read(search, [Span(())])
    assert len(whole[0]) == len(ROWS)
    for chunk in (1, 7, 120, 121):
        monkeypatch.setattr(requests, "CHUNK", chunk)
        assert made.read(search, [Span(())]) == whole
        assert made.read(search, [Span(())], 50) == [whole[0][:50]]


def test_composite_keys_are_looked_up_part_by_part(made: Lab) -> None:
    keys = [(ROWS[number]["order_id"], line) for number in range(3) for line in range(4)]
    made.write(*(Edit("notes", "put", key, values={"order": key[0], "line": key[1], "text": "x"}) for key in keys))
    search = Search("notes", takes=("order", "line"))
    found = made.read(search, [Span((), key) for key in reversed(keys)])
    assert [(row["order"], row["line"]) for rows in found for row in rows] == list(reversed(keys))
    first = Span((), (keys[0][0],), low=(1,), high=(3,), high_open=True)
    assert [row["line"] for row in made.read(search, [first])[0]] == [1, 2]
    plan = explain(made, search, [Span((), key) for key in keys], None)
    assert any("SEARCH Note USING" in line and "(order=? AND line=?)" in line for line in plan)


def test_an_unknown_embed_is_refused(made: Lab) -> None:
    with pytest.raises(UnsupportedError, match="no embedded rows"):
        made.codec.reader(Search("orders", at=("notes",)))


def test_words_are_sql(made: Lab) -> None:
    search = Search(
        "by_user",
        given=(
            Condition(Path((), "user"), "=", (Param("user_id"),)),
            Condition(Path((), "created_at"), ">=", (Param("start"),)),
        ),
        filter=(Condition(Path((), "status"), "=", (Literal("done"),)),),
        takes=("order_id", "status"),
        descending=True,
        order=(Order(Path((), "created_at"), True),),
    )
    assert ENGINE.words(made.model, made.design, search) == (
        'SELECT "order_id", "status"\n'
        'FROM "Order" INDEXED BY "ix_Order_user_created_at"\n'
        'WHERE "user" = :user_id AND "created_at" >= :start\n'
        'ORDER BY "created_at" DESC, "order_id" DESC\n'
        "-- then tested on each row: status = 'done'"
    )


def test_the_schema_is_a_script_that_runs(made: Lab) -> None:
    (name,) = ENGINE.emit(made.model, made.design, "sql")
    script = ENGINE.emit(made.model, made.design, "sql")[name]
    assert name == "little.sql"
    index = 'CREATE INDEX "ix_Order_created_at_where_status" ON "Order" ("created_at", "order_id")'
    assert f"{index} WHERE \"status\" = 'pending';" in script
    assert '"total" INTEGER NOT NULL CONSTRAINT' in script
    with pytest.raises(UnsupportedError, match="no format 'sq'; did you mean 'sql'"):
        ENGINE.emit(made.model, made.design, "sq")
