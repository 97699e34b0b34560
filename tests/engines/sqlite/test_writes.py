"""Edits do what they say or nothing at all, and refusals are told apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from pathlib import Path as File
from typing import Any
from uuid import UUID

import pytest

from keyplan.engines.codec import Span
from keyplan.errors import ConflictError, RangeError, UnsupportedError
from keyplan.model.identifiers import ulid_text
from keyplan.model.pattern import Path, Term
from keyplan.plan.edits import Edit, Test
from keyplan.plan.steps import Search
from keyplan.plan.view import Measure, Part, View
from tests.engines.sqlite.support import Lab, lab, little_model
from tests.engines.sqlite.test_reads import order

ENTITIES = little_model().entities
USERS = View("users", "User", "table", (), (Part("user_id"),), ENTITIES["User"].stored)
EMAILS = View("emails", "User", "index", (), (Part("email"),), (), unique=True, base="users")
NAMES = View("names", "User", "table", (), (Part("name"),), ("name", "user_id"), unique=True)
ORDERS = View("orders", "Order", "table", (), (Part("order_id"),), ENTITIES["Order"].stored)
TAGS = View("tags", "Order", "table", (), (Part("tags", cut="each"), Part("order_id")), ("order_id",))
SESSIONS = View("sessions", "Session", "table", (), (Part("session_id"),), ENTITIES["Session"].stored)
HANDLES = View("handles", "Session", "index", (), (Part("handle"),), (), unique=True, base="sessions")
TOTAL = Term(Path((), "total"))
SUMS = View(
    "sums",
    "Order",
    "table",
    (),
    (Part("created_at", cut="day"),),
    (),
    measures=(
        Measure("sum", TOTAL, "sum(total)"),
        Measure("sum", Term(op="*", left=Term(Path((), "stock")), right=TOTAL), "sum(stock * total)"),
        Measure("max", Term(Path((), "created_at")), "max(created_at)"),
        Measure("sum", Term(Path((), "weight")), "sum(weight)"),
    ),
)
ALL = View("all", "Order", "table", (), (), (), measures=(Measure("sum", Term(Path((), "stock")), "sum(stock)"),))
VIEWS = (USERS, EMAILS, NAMES, ORDERS, TAGS, SESSIONS, HANDLES, SUMS, ALL)
NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=30)


@pytest.fixture
def made() -> Iterator[Lab]:
    found = lab(VIEWS)
    yield found
    found.port.close()


def put_user(number: int, **changes: Any) -> Edit:
    more = {key: changes.pop(key) for key in ("expect", "tests", "returning") if key in changes}
    row = {"user_id": UUID(int=number), "email": f"{number}@x", "name": f"n{number}", **changes}
    return Edit("users", "put", (row["user_id"],), values=row, **more)


def put_order(number: int, **more: Any) -> Edit:
    row = order(number)
    return Edit("orders", "put", (row["order_id"],), values=row, **more)


def users(made: Lab) -> dict[int, dict[str, Any]]:
    rows = made.read(Search("users", takes=("user_id", "email", "name")), [Span(())])[0]
    return {row["user_id"].int: row for row in rows}


def get_order(made: Lab, number: int) -> dict[str, Any] | None:
    takes = ENTITIES["Order"].stored
    found = made.read(Search("orders", takes=takes), [Span((), (order(number)["order_id"],))])[0]
    return found[0] if found else None


def patch_order(number: int, **more: Any) -> Edit:
    return Edit("orders", "patch", (order(number)["order_id"],), **more)


def failing(made: Lab, *edits: Edit) -> ConflictError:
    with pytest.raises(ConflictError) as caught:
        made.write(*edits)
    return caught.value


def test_a_put_makes_and_replaces(made: Lab) -> None:
    made.write(put_user(1), put_user(2))
    made.write(put_user(1, name="other"))
    assert {number: row["name"] for number, row in users(made).items()} == {1: "other", 2: "n2"}


def test_an_entry_that_must_be_absent_conflicts(made: Lab) -> None:
    made.write(put_user(1, expect="absent"))
    error = failing(made, put_user(2), put_user(1, expect="absent", email="new"))
    assert error.edit == 1  # type: ignore[attr-defined]
    assert str(error) == "User '00000000-0000-0000-0000-000000000001' exists already; give another key"
    assert set(users(made)) == {1}


def test_an_entry_that_must_be_present_conflicts(made: Lab) -> None:
    error = failing(made, put_user(1, expect="present"))
    assert "does not exist" in str(error)
    made.write(put_user(1))
    made.write(put_user(1, expect="present", name="new", returning=True))
    assert users(made)[1]["name"] == "new"


def test_a_unique_index_names_the_fields(made: Lab) -> None:
    made.write(put_user(1))
    for expect in ("any", "absent"):
        error = failing(made, put_user(2), put_user(3, email="1@x", expect=expect))
        assert error.edit == 1  # type: ignore[attr-defined]
        assert "another row has the same 'email'" in str(error)
    assert set(users(made)) == {1}


def test_a_unique_table_refuses_a_second_row(made: Lab) -> None:
    guard = Edit("names", "put", ("n",), values={"name": "n", "user_id": UUID(int=1)}, expect="absent")
    made.write(guard)
    assert failing(made, guard).edit == 0  # type: ignore[attr-defined]


def test_a_patch_changes_only_what_it_names(made: Lab) -> None:
    made.write(put_order(7))
    made.write(
        patch_order(7, values={"status": "pending", "weight": None}, adds={"stock": 5, "total": Decimal("-0.50")})
    )
    before = order(7)
    wanted = {**before, "status": "pending", "weight": None, "stock": before["stock"] + 5}
    assert get_order(made, 7) == {**wanted, "total": before["total"] - Decimal("0.50")}
    made.write(patch_order(8, values={"status": "pending"}))
    assert get_order(made, 8) is None
    assert "does not exist" in str(failing(made, patch_order(8, values={"status": "done"}, expect="present")))


def test_what_is_missing_counts_as_zero(made: Lab) -> None:
    made.write(put_order(7))
    made.write(patch_order(7, values={"stock": None, "weight": None}))
    (found,) = made.write(patch_order(7, adds={"stock": 3, "weight": 0.5}, returning=True))
    assert found is not None
    assert (found["stock"], found["weight"]) == (3, 0.5)


@pytest.mark.parametrize(
    ("field", "start", "amount"),
    [
        ("stock", 2**63 - 1, 1),
        ("stock", -(2**63), -1),
        ("stock", 0, 2**63),
        ("stock", 5, 2**63 - 1),
        ("total", Decimal("9999999999999999.99"), Decimal("0.01")),
        ("total", Decimal("-9999999999999999.99"), Decimal("-9999999999999999.99")),
        ("weight", 9e124, 9e124),
        ("weight", 1e-120, -1e-120 + 1e-136),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_a_sum_out_of_range_writes_nothing(made: Lab, field: str, start: Any, amount: Any, alone: bool) -> None:
    made.write(put_order(7))
    made.write(patch_order(7, values={field: start}))
    before = get_order(made, 7)
    edits = [patch_order(7, adds={field: amount})] if alone else [put_user(1), patch_order(7, adds={field: amount})]
    with pytest.raises(RangeError, match=f"'{field}' would leave the range of its type"):
        made.write(*edits)
    assert get_order(made, 7) == before
    assert users(made) == {}


def test_sums_reach_the_ends_of_the_range(made: Lab) -> None:
    made.write(put_order(7))
    made.write(patch_order(7, values={"stock": -1}))
    made.write(patch_order(7, adds={"stock": 2**63}))
    found = get_order(made, 7)
    assert found is not None
    assert found["stock"] == 2**63 - 1
    made.write(patch_order(7, adds={"stock": -(2**63)}))
    made.write(patch_order(7, adds={"stock": -(2**63) + 1}))
    found = get_order(made, 7)
    assert found is not None
    assert found["stock"] == -(2**63)


ROW = order(7)


@pytest.mark.parametrize(
    ("test", "holds"),
    [
        (Test("status", "=", "done"), True),
        (Test("status", "!=", "done"), False),
        (Test("total", "<", ROW["total"]), False),
        (Test("total", "<=", ROW["total"]), True),
        (Test("created_at", "=", ROW["created_at"].date(), cut="day"), True),
        (Test("created_at", "between", (ROW["created_at"], ROW["created_at"])), True),
        (Test("created_at", ">", ROW["created_at"]), False),
        (Test("stock", "in", (1, 7)), True),
        (Test("stock", "in", ()), False),
        (Test("status", "begins_with", "do"), True),
        (Test("status", "begins_with", "dp"), False),
        (Test("status", "begins_with", ""), True),
        (Test("status", "begins_with", chr(0x10FFFF)), False),
        (Test("tags", "contains", "7"), True),
        (Test("tags", "contains", "8"), False),
        (Test("flagged", "missing"), True),
        (Test("flagged", "present"), False),
        (Test("flagged", "=", None), True),
        (Test("flagged", "!=", "x"), False),
        (Test("stock", "=", None), False),
        (Test("user", "=", ROW["user"]), True),
        (Test("gift", "=", False), True),
        (Test("extra", "=", {"n": [7]}), True),
    ],
)
def test_conditions_hold_inside_the_write(made: Lab, test: Test, holds: bool) -> None:
    made.write(put_order(7))
    edits = (
        patch_order(7, values={"day": ROW["day"]}, tests=(test,)),
        Edit("orders", "check", (ROW["order_id"],), tests=(test,)),
        put_order(7, tests=(test,)),
        Edit("orders", "delete", (ROW["order_id"],), tests=(test,)),
    )
    for edit in edits:
        if holds:
            made.write(edit)
        else:
            assert "does not hold" in str(failing(made, edit))
    assert (get_order(made, 7) is None) == holds


def test_a_condition_on_an_entry_that_is_not_there_fails(made: Lab) -> None:
    failing(made, patch_order(7, values={"stock": 1}, tests=(Test("flagged", "missing"),)))


def test_checks_hold_up_the_whole_write(made: Lab) -> None:
    key = (UUID(int=1),)
    made.write(Edit("users", "check", key, expect="absent"), put_user(2))
    made.write(put_user(1))
    assert failing(made, put_user(3), Edit("users", "check", key, expect="absent")).edit == 1  # type: ignore[attr-defined]
    failing(made, put_user(3), Edit("users", "check", (UUID(int=9),), expect="present"))
    assert set(users(made)) == {1, 2}


def test_entries_come_back(made: Lab) -> None:
    row = order(7)
    assert made.write(put_order(7, returning=True)) == [row]
    assert made.write(put_user(1), put_order(7, returning=True, expect="present")) == [None, row]
    assert made.write(patch_order(7, adds={"stock": 1}, returning=True)) == [{**row, "stock": 8}]
    assert made.write(Edit("orders", "delete", (row["order_id"],), returning=True)) == [{**row, "stock": 8}]
    assert made.write(Edit("orders", "delete", (row["order_id"],), returning=True)) == [None]


def put_session(number: int, expires: datetime | None, **more: Any) -> Edit:
    handle = more.pop("handle", f"h{number}")
    row = {"session_id": number, "handle": handle, "hits": 1, "$expires": expires}
    return Edit("sessions", "put", (number,), values=row, **more)


def session(made: Lab, number: int) -> dict[str, Any] | None:
    rows = made.read(Search("sessions", takes=("handle", "hits", "$expires")), [Span((), (number,))])[0]
    return rows[0] if rows else None


def test_an_expired_entry_counts_as_absent(made: Lab) -> None:
    made.write(put_session(1, NOW), put_session(2, None), put_session(3, LATER))
    made.write(put_session(1, LATER, expect="absent", alive_at=NOW))
    for number in (1, 2, 3):
        failing(made, put_session(number, LATER, expect="absent", alive_at=NOW))
    made.write(Edit("sessions", "patch", (3,), adds={"hits": 1}, alive_at=LATER))
    failing(made, Edit("sessions", "patch", (3,), adds={"hits": 1}, expect="present", alive_at=LATER))
    failing(made, Edit("sessions", "delete", (3,), expect="present", alive_at=LATER))
    assert made.write(Edit("sessions", "delete", (3,), alive_at=LATER, returning=True)) == [None]
    made.write(Edit("sessions", "check", (3,), expect="absent", alive_at=LATER))
    assert session(made, 3) == {"handle": "h3", "hits": 1, "$expires": LATER}
    made.write(Edit("sessions", "patch", (3,), adds={"hits": 1}, expect="present", alive_at=NOW))
    assert session(made, 3) == {"handle": "h3", "hits": 2, "$expires": LATER}


def test_an_expired_row_gives_up_its_unique_value(made: Lab) -> None:
    made.write(put_session(1, NOW, handle="x"), put_session(2, LATER, handle="y"))
    failing(made, put_session(3, LATER, handle="y", expect="absent", alive_at=NOW))
    made.write(put_session(3, LATER, handle="x", expect="absent", alive_at=NOW))
    assert session(made, 1) is None
    made.write(put_session(4, NOW, handle="z"))
    made.write(Edit("sessions", "patch", (3,), values={"handle": "z"}, expect="present", alive_at=NOW))
    assert session(made, 4) is None


def test_sums_are_kept_per_group(made: Lab) -> None:
    day = NOW.date()

    def add(**amounts: Any) -> dict[str, Any] | None:
        names = {
            "total": "sum(total)",
            "both": "sum(stock * total)",
            "last": "max(created_at)",
            "weight": "sum(weight)",
        }
        adds = {names.get(key, f"${key}"): value for key, value in amounts.items()}
        return made.write(Edit("sums", "add", (day,), adds=adds, returning=True))[0]

    first = add(count=1, total=Decimal("1.50"), both=Decimal("3.00"), last=NOW)
    assert first == {
        "day(created_at)": day,
        "$count": 1,
        "sum(total)": Decimal("1.50"),
        "sum(stock * total)": Decimal("3.00"),
        "max(created_at)": NOW,
        "sum(weight)": 0.0,
    }
    huge = Decimal("9223372036854775807") * Decimal("9999999999999999.99")
    add(count=1, both=huge, last=NOW - timedelta(1), weight=0.5)
    found = add(count=1, both=huge, last=LATER)
    assert found is not None
    assert found["$count"] == 3
    assert found["max(created_at)"] == LATER
    with localcontext() as context:
        context.prec = 60
        assert found["sum(stock * total)"] == Decimal("3.00") + huge + huge
        found = add(count=-2, both=-huge - huge)
    assert found is not None
    assert (found["$count"], found["sum(stock * total)"], found["sum(weight)"]) == (1, Decimal("3.00"), 0.5)
    search = Search("sums", takes=("day(created_at)", "$count"))
    assert made.read(search, [Span((), (day,))]) == [[{"day(created_at)": day, "$count": 1}]]


def test_one_group_of_everything(made: Lab) -> None:
    for _ in range(2):
        made.write(Edit("all", "add", (), adds={"$count": 1, "sum(stock)": 2**62}))
    search = Search("all", takes=("$count", "sum(stock)"))
    assert made.read(search, [Span(())]) == [[{"$count": 2, "sum(stock)": 2**63}]]
    made.write(Edit("all", "delete", ()))
    assert made.read(search, [Span(())]) == [[]]


def test_entries_per_element(made: Lab) -> None:
    ids = [ulid_text(number) for number in range(3)]
    made.write(*(Edit("tags", "put", ("a", key), values={"order_id": key}) for key in ids))
    made.write(Edit("tags", "delete", ("a", ids[1])))
    found = made.read(Search("tags", takes=("order_id",)), [Span((), ("a",))])
    assert [row["order_id"] for row in found[0]] == [ids[0], ids[2]]


def test_bulk_puts_replace_and_the_last_one_wins(made: Lab) -> None:
    edits = [put_user(number % 10, name=f"n{number}") for number in range(25)]
    edits.append(Edit("users", "delete", (UUID(int=9),)))
    edits.append(put_order(1))
    for request in made.codec.bulk(edits):
        assert made.port.send([request]) == [None]
    assert {number: row["name"] for number, row in users(made).items()} == {
        **{number: f"n{20 + number}" for number in range(5)},
        **{number: f"n{10 + number}" for number in range(5, 9)},
    }
    assert get_order(made, 1) == order(1)


def test_a_bulk_that_breaks_a_unique_index_writes_nothing(made: Lab) -> None:
    (request,) = made.codec.bulk([put_user(1), put_user(2, email="1@x")])
    (reply,) = made.port.send([request])
    assert isinstance(reply, ConflictError)
    assert "another row has the same 'email'" in str(reply)
    assert users(made) == {}


def test_contradictory_edits_are_refused(made: Lab) -> None:
    for do in ("patch", "delete"):
        with pytest.raises(UnsupportedError):
            made.write(Edit("users", do, (UUID(int=1),), expect="absent"))
    with pytest.raises(UnsupportedError):
        made.write(Edit("emails", "put", ("x",)))


def test_threads_count_together(tmp_path: File) -> None:
    found = lab(VIEWS, f"sqlite:{tmp_path}/x.db?timeout=30s")
    found.write(put_session(1, None))

    def work() -> None:
        for _ in range(50):
            found.write(Edit("sessions", "patch", (1,), adds={"hits": 1}), put_user(1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    row = session(found, 1)
    assert row is not None
    assert row["hits"] == 201
    found.port.close()
