"""What `apply` does to a file, and what it refuses."""

from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path as File
from typing import Any

import pytest

import keyplan
from keyplan.engines.changing import RowsCameError
from keyplan.engines.sqlite import ENGINE
from keyplan.engines.sqlite.layout import layout, table_ddl
from keyplan.errors import ConflictError, DesignMismatchError, UnavailableError, UnsupportedError
from keyplan.model.load import parse_model
from keyplan.model.pattern import Condition, Literal, Path
from keyplan.plan.lockfile import design_hash, lock_text
from keyplan.plan.view import Part, View
from keyplan.store.bulk.fill import unfilled
from tests.engines.sqlite.support import apply, design_of, drive, lab, little_model
from tests.engines.sqlite.test_reads import BY_USER, FLAGGED, HOME, NOTES, PENDING

MODEL = little_model()
COPY = View("copy", "Order", "table", (), (Part("user"), Part("order_id")), ("user", "order_id", "total", "user.name"))


def test_a_new_file_gets_everything_once(tmp_path: File) -> None:
    port = ENGINE.connect(f"sqlite:{tmp_path}/x.db", MODEL, None)
    design = design_of(MODEL, (HOME, BY_USER, NOTES, COPY))
    assert apply(MODEL, design, port) == [
        "create table Order",
        "create table Note",
        "create table Order_by_user_order_id",
        "create index ix_Order_user_created_at",
        "record the design in keyplan_design",
    ]
    assert apply(MODEL, design, port) == []
    found = drive(ENGINE.inspect(MODEL, design), port)
    assert (found.design_hash, found.lock) == (design_hash("lock 1"), "lock 1")
    assert set(found.found["tables"]) == {"Order", "Note", "Order_by_user_order_id"}
    port.close()


def test_another_design_changes_indexes_and_says_what_loses_rows(tmp_path: File) -> None:
    port = ENGINE.connect(f"sqlite:{tmp_path}/x.db", MODEL, None)
    apply(MODEL, design_of(MODEL, (HOME, BY_USER, NOTES, COPY)), port)
    with sqlite3.connect(tmp_path / "x.db") as file:
        file.execute("""INSERT INTO Note ("order", line, text) VALUES ('o', 1, 'x')""")
    other = design_of(MODEL, (HOME, FLAGGED, PENDING))
    found = drive(ENGINE.inspect(MODEL, other), port)
    steps = ENGINE.changes(MODEL, other, "lock 2", found)
    assert [(step.summary, step.destructive) for step in steps] == [
        ("drop index ix_Order_user_created_at", False),
        ("drop table Note, with all its rows", True),
        ("drop table Order_by_user_order_id, whose rows can be made again", False),
        ("create index ix_Order_flagged", False),
        ("create index ix_Order_created_at_where_status", False),
        ("record the design in keyplan_design", False),
    ]
    for step in steps:
        if not step.destructive:
            drive(step.run(), port)
    found = drive(ENGINE.inspect(MODEL, other), port)
    assert set(found.found["tables"]) == {"Order", "Note"}
    assert found.design_hash == design_hash("lock 2")
    assert [step.summary for step in ENGINE.changes(MODEL, other, "lock 2", found)][:1] == [
        "drop table Note, with all its rows"
    ]
    assert apply(MODEL, other, port, "lock 2")[-1] == "record the design in keyplan_design"
    assert apply(MODEL, other, port, "lock 2") == []
    port.close()


def test_steps_are_done_together_or_not_at_all(tmp_path: File) -> None:
    port = ENGINE.connect(f"sqlite:{tmp_path}/x.db", MODEL, None)
    design = design_of(MODEL, (HOME, NOTES))
    for step in ENGINE.changes(MODEL, design, "lock", drive(ENGINE.inspect(MODEL, design), port))[:-1]:
        drive(step.run(), port)
    assert drive(ENGINE.inspect(MODEL, design), port).found["tables"] == {}
    port.close()


def test_two_processes_may_apply_the_same_design_but_not_two(tmp_path: File) -> None:
    port = ENGINE.connect(f"sqlite:{tmp_path}/x.db", MODEL, None)
    design = design_of(MODEL, (HOME, BY_USER))
    empty = drive(ENGINE.inspect(MODEL, design), port)
    for lock in ("lock 1", "lock 1"):
        for step in ENGINE.changes(MODEL, design, lock, empty):
            drive(step.run(), port)
    *early, last = ENGINE.changes(MODEL, design, "lock 2", empty)
    for step in early:
        drive(step.run(), port)
    with pytest.raises(ConflictError, match="another process"):
        drive(last.run(), port)
    port.close()


def test_of_two_that_fill_tables_the_later_one_is_refused_and_leaves_nothing(tmp_path: File) -> None:
    port = ENGINE.connect(f"sqlite:{tmp_path}/x.db", MODEL, None)
    apply(MODEL, design_of(MODEL, (HOME,)), port)
    one, other = (design_of(MODEL, (HOME, more)) for more in (COPY, NOTES))
    create, record = ENGINE.changes(MODEL, other, "lock 3", drive(ENGINE.inspect(MODEL, other), port))
    drive(create.run(), port)
    assert apply(MODEL, one, port, "lock 2")[-1] == "record the design in keyplan_design"
    with pytest.raises(ConflictError, match="another process"):
        drive(record.run(), port)
    assert set(drive(ENGINE.inspect(MODEL, one), port).found["tables"]) == {"Order", "Order_by_user_order_id"}
    assert apply(MODEL, one, port, "lock 2") == []
    port.close()


def test_rows_that_come_into_a_table_that_goes_are_seen_and_ones_that_leave_it_are_no_matter(tmp_path: File) -> None:
    port = ENGINE.connect(f"sqlite:{tmp_path}/x.db", MODEL, None)
    apply(MODEL, design_of(MODEL, (HOME, NOTES)), port)
    design = design_of(MODEL, (HOME,))
    drop, record = ENGINE.changes(MODEL, design, "lock 2", drive(ENGINE.inspect(MODEL, design), port))
    assert (drop.summary, drop.destructive) == ("drop table Note, whose rows can be made again", False)
    drive(drop.run(), port)
    with sqlite3.connect(tmp_path / "x.db") as file:
        file.execute("""INSERT INTO Note ("order", line, text) VALUES ('o', 1, 'x')""")
    with pytest.raises(RowsCameError, match="rows have come into a table that is to be dropped"):
        drive(record.run(), port)
    found = drive(ENGINE.inspect(MODEL, design), port)
    assert (found.design_hash, set(found.found["tables"])) == (design_hash("lock 1"), {"Order", "Note"})
    drop, record = ENGINE.changes(MODEL, design, "lock 2", found)
    assert (drop.summary, drop.destructive) == ("drop table Note, with all its rows", True)
    drive(drop.run(), port)
    with sqlite3.connect(tmp_path / "x.db") as file:
        file.execute("DELETE FROM Note")
    drive(record.run(), port)
    found = drive(ENGINE.inspect(MODEL, design), port)
    assert (found.design_hash, set(found.found["tables"])) == (design_hash("lock 2"), {"Order"})
    port.close()


def test_tables_that_others_made_meanwhile_are_seen(tmp_path: File) -> None:
    """`IF NOT EXISTS` would take them for ours."""
    port = ENGINE.connect(f"sqlite:{tmp_path}/x.db", MODEL, None)
    design = design_of(MODEL, (HOME,))
    *steps, last = ENGINE.changes(MODEL, design, "lock", drive(ENGINE.inspect(MODEL, design), port))
    for step in steps:
        drive(step.run(), port)
    with sqlite3.connect(tmp_path / "x.db") as raw:
        raw.execute('CREATE TABLE "Order" (x)')
    with pytest.raises(DesignMismatchError, match="a table 'Order' that keyplan did not make"):
        drive(last.run(), port)
    port.close()


def begun(file: File, changing: str, **tables: bool | None) -> None:
    """Has the record say what earlier versions noted before they filled tables."""
    with sqlite3.connect(file) as raw:
        (text,) = raw.execute("SELECT tables FROM keyplan_design").fetchone()
        told = json.loads(text) | tables | {"$changing": changing}
        raw.execute("UPDATE keyplan_design SET tables = ?", (json.dumps(told, sort_keys=True),))


def test_what_an_earlier_version_has_begun_may_be_dropped_without_a_word_where_it_is_empty(tmp_path: File) -> None:
    port = ENGINE.connect(f"sqlite:{tmp_path}/x.db", MODEL, None)
    design, other = design_of(MODEL, (HOME,)), design_of(MODEL, (HOME, NOTES))
    apply(MODEL, design, port)
    with sqlite3.connect(tmp_path / "x.db") as raw:
        raw.execute(table_ddl(next(one for one in layout(MODEL, other).tables.values() if one.name == "Note")))
    begun(tmp_path / "x.db", design_hash("lock 2"), Note=True)
    steps = ENGINE.changes(MODEL, design, "lock 1", drive(ENGINE.inspect(MODEL, design), port))
    assert [(step.summary, step.destructive) for step in steps][:1] == [
        ("drop table Note, whose rows can be made again", False)
    ]
    assert apply(MODEL, other, port, "lock 2") == ["record the design in keyplan_design"]
    assert not drive(ENGINE.inspect(MODEL, other), port).unfinished
    port.close()


WINDOWS = """
keyplan: 1
name: heat
entities:
  Reading:
    count: 1G
    key: [sensor, at]
    ttl: 90d
    fields: { sensor: "int, distinct 10k", at: timestamp, degrees: "int, immutable" }
patterns:
  reading: { find: Reading, where: "sensor = :sensor and at = :at", rate: 1/s }
"""
HOURLY = """
  hourly:
    from: Reading
    compute: { all: sum(degrees), readings: count() }
    group: { hour: hour(at) }
    where: sensor = :sensor and at between :start and :end
    rows: 1440
    rate: 2000/s
"""
REPORTS = """
writes:
  report: { create: Reading, rate: 1/s }
  forget: { delete: Reading, where: "sensor = :sensor and at = :at", rate: 1/day }
"""


def test_rows_that_go_after_an_earlier_version_was_cut_off_are_not_counted(tmp_path: File) -> None:
    """Sums of rows that expire may count too many, as long as nobody believes them; not those that are filled."""
    before, after = (parse_model(WINDOWS + more + REPORTS) for more in ("", HOURLY))
    design, url = keyplan.design(after, "sqlite"), f"sqlite:{tmp_path}/x.db"
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    with keyplan.open(before, url) as store:
        store.report(sensor=1, at=hour, degrees=20)
    with sqlite3.connect(tmp_path / "x.db") as raw:
        (sums,) = [one for one in layout(after, design).tables.values() if one.view.measures]
        raw.execute(table_ddl(sums))
    begun(tmp_path / "x.db", "another", **{sums.name: False})
    with pytest.raises(DesignMismatchError, match="an 'apply' has not come to its end here"):
        keyplan.open(before, url)
    keyplan.apply(before, url)
    with keyplan.open(before, url) as store:
        store.forget(sensor=1, at=hour)
    keyplan.apply(after, url, design=design)
    with keyplan.open(after, url) as store:
        assert store.hourly(sensor=1, start=hour, end=hour + timedelta(hours=1)) == []
        assert store.verify().ok


def test_whoever_opens_a_new_file_waits_for_others_that_make_it(tmp_path: File) -> None:
    model, url = parse_model(WINDOWS + REPORTS), f"sqlite:{tmp_path}/x.db"
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError, match="locked by another process"):
        keyplan.apply(model, f"{url}?timeout=20ms")
    timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    timer.start()
    assert keyplan.apply(model, url)
    timer.join()
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()


def test_stores_read_on_while_tables_are_filled_and_writers_wait(tmp_path: File) -> None:
    before, after = (parse_model(WINDOWS + more + REPORTS) for more in ("", HOURLY))
    design, url = keyplan.design(after, "sqlite"), f"sqlite:{tmp_path}/x.db"
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    with keyplan.open(before, url) as store:
        store.report(sensor=1, at=hour, degrees=20)
    seen = []
    with keyplan.open(before, f"{url}?timeout=20ms") as old:

        def meanwhile(told: str) -> None:
            if not told.endswith(" rows"):
                return
            seen.append(old.reading(sensor=1, at=hour)["degrees"])
            with pytest.raises(UnavailableError, match="locked by another process"):
                old.report(sensor=2, at=hour, degrees=20)
            assert keyplan.apply(before, f"{url}?timeout=20ms") == []  # nothing to do, so far
            with pytest.raises(UnavailableError, match="locked by another process"):
                keyplan.apply(after, f"{url}?timeout=20ms", design=design)

        keyplan.apply(after, url, design=design, progress=meanwhile)
        with pytest.raises(DesignMismatchError, match="open it again"):
            old.report(sensor=2, at=hour, degrees=20)
    assert seen == [20]
    with keyplan.open(after, url) as store:
        assert store.hourly(sensor=1, start=hour, end=hour + timedelta(hours=1))[0]["readings"] == 1
        assert store.verify().ok


def test_an_apply_that_is_interrupted_leaves_the_file_as_it_was(tmp_path: File) -> None:
    before, after = (parse_model(WINDOWS + more + REPORTS) for more in ("", HOURLY))
    design, url = keyplan.design(after, "sqlite"), f"sqlite:{tmp_path}/x.db"
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)

    def schema() -> list[Any]:
        with sqlite3.connect(tmp_path / "x.db") as raw:
            return raw.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()

    def interrupted(told: str) -> None:
        if told.endswith(" rows"):
            raise KeyboardInterrupt

    with keyplan.open(before, url) as store:
        store.report(sensor=1, at=hour, degrees=20)
        made = schema()
        with pytest.raises(KeyboardInterrupt):
            keyplan.apply(after, url, design=design, progress=interrupted)
        assert schema() == made
        store.report(sensor=2, at=hour, degrees=20)
    keyplan.apply(after, url, design=design)
    with keyplan.open(after, url) as store:
        assert store.verify().rows == 2


def test_views_are_filled_where_they_have_another_table(tmp_path: File) -> None:
    """Of two with the same name, the first is gone, and the second has its table."""
    done, pending = (
        View(status, "Order", "table", (), (Part("tags", "each"), Part("order_id")), ("order_id",), where=(condition,))
        for status in ("done", "pending")
        for condition in [Condition(Path((), "status"), "=", (Literal(status),))]
    )
    both, one = (design_of(MODEL, (HOME, *more)) for more in ((done, pending), (pending,)))
    assert [structure.name for structure in both.structures[1:]] == [
        "Order_by_each_tags_order_id",
        "Order_by_each_tags_order_id_2",
    ]
    assert unfilled(one, lock_text(MODEL, both)) == {"pending": True}
    assert unfilled(both, lock_text(MODEL, both)) == {}


def test_tables_that_are_not_ours_are_left_alone(tmp_path: File) -> None:
    file = tmp_path / "x.db"
    with sqlite3.connect(file) as raw:
        raw.execute('CREATE TABLE "order" (x)')
        raw.execute("CREATE TABLE other (x)")
        raw.execute("CREATE INDEX mine ON other (x)")
    port = ENGINE.connect(f"sqlite:{file}", MODEL, None)
    with pytest.raises(DesignMismatchError, match="a table 'order' that keyplan did not make"):
        apply(MODEL, design_of(MODEL, (HOME,)), port)
    with sqlite3.connect(file) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("delete",)  # as whoever made the file has it
    apply(MODEL, design_of(MODEL, (NOTES,)), port)
    assert port.send([("SELECT count(*) FROM sqlite_master WHERE name IN ('other', 'mine')", ())]) == [[(2,)]]
    port.close()


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ('CREATE VIEW "order" AS SELECT 1 AS x', "a view 'order'"),
        ("CREATE TABLE ix_order_user_created_at (x)", "a table 'ix_order_user_created_at'"),
        ("CREATE TABLE other (x); CREATE INDEX ix_Order_user_created_at ON other (x)", "an index 'ix_Order_user_creat"),
        ('CREATE TABLE other (x); CREATE INDEX "Note" ON other (x)', "an index 'Note'"),
    ],
)
def test_names_that_something_else_has(tmp_path: File, made: str, named: str) -> None:
    with sqlite3.connect(tmp_path / "x.db") as raw:
        raw.executescript(made)
    port = ENGINE.connect(f"sqlite:{tmp_path}/x.db", MODEL, None)
    with pytest.raises(DesignMismatchError, match=f"the file has {named}.* that keyplan did not make; name another"):
        apply(MODEL, design_of(MODEL, (HOME, BY_USER, NOTES)), port)
    port.close()
    with sqlite3.connect(tmp_path / "x.db") as raw:
        assert raw.execute("SELECT count(*) FROM sqlite_master WHERE name = 'keyplan_design'").fetchone() == (0,)


def test_a_design_of_another_model_or_layout_is_refused(tmp_path: File) -> None:
    port = ENGINE.connect(f"sqlite:{tmp_path}/x.db", MODEL, None)
    apply(MODEL, design_of(MODEL, (HOME,)), port)
    other = replace(MODEL, name="big")
    with pytest.raises(DesignMismatchError, match="a design of the model 'little', not of 'big'"):
        apply(other, design_of(other, (HOME,)), port)
    moved = replace(HOME, sort=(Part("user"), Part("order_id")))
    with pytest.raises(DesignMismatchError, match="'Order' is laid out for another design"):
        apply(MODEL, design_of(MODEL, (moved,)), port)
    port.close()


def test_names_are_free_and_none_that_sqlite_keeps_to_itself() -> None:
    model = parse_model(
        "keyplan: 1\nname: names\nentities:\n"
        "  sqlite_x: {count: 1k, fields: {id: 'int, key'}}\n"
        "  keyplan_design: {count: 1k, fields: {id: 'string, key', n: int}}\n"
        "  Keyplan_Design_by_n_id: {count: 1k, fields: {id: 'string, key'}}\n"
        "patterns:\n  one: {find: sqlite_x, where: 'id = :id', rate: 1/s}\n"
    )
    views = [View(name, name, "table", (), (Part("id"),), entity.stored) for name, entity in model.entities.items()]
    views.append(View("by_n", "keyplan_design", "table", (), (Part("n"), Part("id")), ("id", "n")))
    made = lab(views, model=model)
    names = ["_sqlite_x", "keyplan_design_2", "Keyplan_Design_by_n_id", "keyplan_design_by_n_id_2"]
    assert [structure.name for structure in made.design.structures] == names
    made.port.close()


def test_rows_are_stored_by_key_where_they_are_small() -> None:
    long = View("long", "Note", "table", (), (Part("order"), Part("line")), MODEL.entities["Note"].stored)
    numbered = View("n", "Session", "table", (), (Part("session_id"),), MODEL.entities["Session"].stored)
    small = View("s", "User", "table", (), (Part("user_id"),), MODEL.entities["User"].stored)
    rows = [structure.settings["rows"] for structure in ENGINE.pack(MODEL, (long, numbered, small), {})]
    assert rows == ["rowid", "alias", "without"]


def test_an_index_cannot_have_what_sqlite_cannot_keep() -> None:
    for part in (Part("tags", cut="each"), Part("", ways=4), Part("user.name")):
        bad = View("bad", "Order", "index", (), (part, Part("order_id")), (), base="orders")
        with pytest.raises(UnsupportedError, match="cannot have the part"):
            ENGINE.codec(MODEL, design_of(MODEL, (HOME, bad)))
