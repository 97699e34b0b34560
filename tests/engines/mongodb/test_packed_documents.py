"""Documents of packed entries as the server sees them: what they hold, how they are found, checked, expire and go."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.errors import WriteError

import keyplan
from keyplan.engines import get_engine
from keyplan.engines.mongodb.layout import layout
from keyplan.errors import ConflictError, DesignMismatchError, OversizeError
from keyplan.model.load import parse_model
from keyplan.plan.view import Part, View
from keyplan.store.store import Store
from tests.conformance.pair import Clock
from tests.engines.harness import Harness
from tests.engines.mongodb.packing import MODEL, documents, hours_of, in_hours, packed_design
from tests.engines.mongodb.test_emit import compare_pipelines, database, described, example, run_script
from tests.engines.mongodb.test_explain import Recorder, check, explained
from tests.naive import Extras

NOON = datetime(2052, 5, 15, 12, tzinfo=UTC)
TEXT = """
keyplan: 1
name: meters
entities:
  Reading:
    count: 1M
    key: [meter, at]
    ttl: 2h
    fields:
      meter: int
      at: timestamp
      value: int, default 0
patterns:
  span: { find: Reading, where: "meter = :meter and at between :start and :end", order: at, page: 7, rate: 10/s }
writes:
  report: { create: Reading, rate: 10/s }
  replace: { upsert: Reading, rate: 10/s }
"""


def moment(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def collection(store: Store) -> Any:
    port: Any = store._port
    return port._link.database["Reading"]


def readings(*minutes: float, meter: int = 1) -> list[tuple[str, dict[str, Any]]]:
    return [("Reading", {"meter": meter, "at": moment(one), "value": int(one)}) for one in minutes]


def test_a_load_makes_a_document_per_partition_and_adds_to_those_that_are_there(mongodb: Harness) -> None:
    with in_hours(mongodb.url()) as store:
        store.load([*readings(*range(0, 120, 2)), *readings(5, meter=2)])
        found = documents(store)
        assert [(one["_id"], len(one["rows"])) for one in found] == [
            ({"meter": 1, "hour_at": moment(0)}, 30),
            ({"meter": 1, "hour_at": moment(60)}, 30),
            ({"meter": 2, "hour_at": moment(0)}, 1),
        ]
        assert found[2]["rows"] == [{"at": moment(5), "value": 5}]
        store.load([("Reading", {"meter": 1, "at": moment(2), "value": -1}), *readings(*range(1, 120, 2))])
        first, second, _ = documents(store)
        assert (len(first["rows"]), len(second["rows"])) == (60, 60)
        assert store.reading(meter=1, at=moment(2))["value"] == -1
        assert store.verify().ok


def test_pages_run_through_documents_in_both_directions(mongodb: Harness) -> None:
    with in_hours(mongodb.url()) as store:
        store.load(readings(*range(0, 300, 3)))
        rows = store.span.all(meter=1, start=moment(10), end=moment(200))
        assert [row["value"] for row in rows] == [n for n in range(0, 300, 3) if 10 <= n <= 200]


def test_what_is_done_behind_the_store_is_found_and_mended(mongodb: Harness) -> None:
    """A plain home and packed copies: what the copies ought to say can be told by the home."""
    model = parse_model(TEXT)
    design = hours_of(model)
    copy = replace(design.views["Reading"], name="hours")
    home = View("Reading", "Reading", "collection", (), (Part("meter"), Part("at")), copy.holds)
    views = {"Reading": home, "hours": copy}
    design = replace(design, views=views, structures=get_engine("mongodb").pack(model, tuple(views.values()), {}))
    url = mongodb.url()
    keyplan.apply(model, url, design=design)
    with keyplan.open(model, url, design=design, clock=Clock()) as store:
        for number in range(4):
            store.report(meter=1, at=moment(number), value=number)
        assert store.verify().ok
        port: Any = store._port
        place = layout(model, design).places["hours", ()]
        packed = port._link.database[place.collection]
        rows = [(one["_id"], row) for one in packed.find({}) for row in one["rows"]]
        assert len(rows) == 4
        key, changed = rows[0]
        packed.update_one({"_id": key}, {"$set": {"rows.$[e].value": 77}}, array_filters=[{"e.at": changed["at"]}])
        key, lost = rows[1]
        packed.update_one({"_id": key}, {"$pull": {"rows": {"at": lost["at"]}}})
        key, row = rows[2]
        packed.update_one({"_id": key}, {"$push": {"rows": {**row, "at": moment(30)}}})
        found = store.verify()
        report = found.views["hours"]
        assert (report.wrong, report.missing, report.extra) == (1, 1, 1), found.problems
        store.verify(repair=True)
        assert store.verify().ok


def test_the_validator_refuses_other_documents(mongodb: Harness) -> None:
    with in_hours(mongodb.url()) as store:
        store.report(meter=1, at=moment(0), value=1)
        good = {"_id": {"meter": 9, "hour_at": moment(0)}, "rows": [{"at": moment(0), "value": 1}]}
        for bad in (
            {**good, "rows": [{"at": moment(0), "value": "1"}]},
            {**good, "rows": [{"value": 1}]},
            {**good, "rows": [{"at": moment(0), "value": 1, "other": 2}]},
            {**good, "rows": {}},
            {**good, "more": 1},
            {"_id": {"meter": 9, "hour_at": moment(0)}},
            {**good, "_id": {"meter": 9}},
        ):
            with pytest.raises(WriteError, match="Document failed validation"):
                collection(store).insert_one(bad)
        collection(store).insert_one(good)
        assert store.reading(meter=9, at=moment(0))["value"] == 1


def test_documents_expire_with_their_last_entry(mongodb: Harness) -> None:
    """The document is never gone before an entry is; an entry that has expired is there for nobody."""
    clock = Clock(NOON)
    with in_hours(mongodb.url(), parse_model(TEXT), clock=clock) as store:
        indexes = collection(store).index_information()
        assert indexes["expiry"] == {"v": 2, "key": [("_expires", 1)], "expireAfterSeconds": 0}
        store.report(meter=1, at=moment(0), value=0)
        clock.advance(minutes=30)
        store.report(meter=1, at=moment(1), value=1)
        clock.advance(minutes=30)
        store.load([("Reading", {"meter": 1, "at": moment(2), "value": 2})])
        (document,) = documents(store)
        assert [row["_expires"] for row in document["rows"]] == [moment(120), moment(150), moment(180)]
        assert document["_expires"] == moment(180)

        def left() -> list[int]:
            return [row["value"] for row in store.span.all(meter=1, start=moment(0), end=moment(59))]

        assert left() == [0, 1, 2]
        clock.now = moment(120)
        assert left() == [1, 2]
        with pytest.raises(ConflictError):
            store.report(meter=1, at=moment(1), value=11)
        store.report(meter=1, at=moment(0), value=10)  # over one that has expired, and is still there
        store.replace(meter=1, at=moment(2), value=12)
        assert left() == [10, 1, 12]
        (document,) = documents(store)
        assert len(document["rows"]) == 3
        assert document["_expires"] == max(row["_expires"] for row in document["rows"]) == moment(240)
        clock.now = moment(240)
        assert left() == []
        assert store.verify().ok


EXACT = parse_model("""
keyplan: 1
name: exact
entities:
  Reading:
    count: 14400
    key: [meter, at]
    ttl: 24h
    fields:
      meter: int, distinct 10, top 10%
      at: timestamp, distinct 1440
      value: decimal(2)
      note: string(20)
patterns:
  hour: { find: Reading, where: "meter = :meter and hour(at) = :hour", order: at, page: 100, rate: 500/s }
  one: { find: Reading, where: "meter = :meter and at = :at", rate: 1/s }
  recent: { sum: Reading.value, where: "meter = :meter and at between ago('6h') and ago('1h')", rate: 500/s }
  total: { sum: Reading.value, where: "meter = :meter and hour(at) = :hour", rate: 500/s }
writes:
  report: { create: Reading, rate: 10/min }
""")


def test_the_server_examines_the_documents_that_the_plan_says(mongodb: Harness) -> None:
    design = keyplan.design(EXACT, "mongodb")
    packed = [view for view in design.views.values() if view.packed]
    assert [[str(part) for part in view.parts] for view in packed] == [["meter", "hour(at)", "at"]]
    url = mongodb.url()
    keyplan.apply(EXACT, url, design=design)
    clock = Clock(moment(30))
    rows = [
        ("Reading", {"meter": meter, "at": moment(30 - minutes), "value": minutes, "note": "x" * 20})
        for meter in range(10)
        for minutes in range(1440)
    ]
    calls: dict[str, dict[str, Any]] = {
        "hour": {"meter": 3, "hour": moment(-180)},
        "one": {"meter": 3, "at": moment(-180)},
        "recent": {"meter": 3},
        "total": {"meter": 3, "hour": moment(-180)},
    }
    with keyplan.open(EXACT, url, design=design, clock=clock) as store:
        store.load(rows)
        recorder = Recorder(store)
        for name, arguments in calls.items():
            recorder.finds.clear()
            getattr(store, name)(**arguments)
            examined = 0
            for find in recorder.finds:
                check(recorder.link, find)
                examined += explained(recorder.link, find)["executionStats"]["totalDocsExamined"]
            figures = design.plans[name].figures
            assert examined == pytest.approx(figures.units["documents"]), name
            assert len(recorder.finds) == pytest.approx(figures.requests), name
        assert store.verify().ok


def test_another_layout_is_refused(mongodb: Harness) -> None:
    url = mongodb.url()
    with in_hours(url) as store:
        store.report(meter=1, at=moment(0), value=1)
    plain = keyplan.design(MODEL, "mongodb")
    assert not any(view.packed for view in plain.views.values())
    with pytest.raises(DesignMismatchError, match="laid out for another design"):
        keyplan.apply(MODEL, url, design=plain)
    assert keyplan.apply(MODEL, url, design=hours_of(MODEL)) is not None


def test_what_is_emitted_makes_what_apply_makes(mongodb: Harness) -> None:
    design = hours_of(MODEL)
    url, other = mongodb.url(), mongodb.url()
    keyplan.apply(MODEL, url, design=design)
    run_script(keyplan.emit(MODEL, design, "mongosh")["meters.mongosh.js"], database(other))
    made = described(database(other))
    assert made == described(database(url))
    assert set(made) == {"Reading"}
    assert "sh.shardCollection" in keyplan.emit(MODEL, design, "mongosh")["meters.sharding.js"]


def test_pipelines_take_packed_rows_apart(mongodb: Harness) -> None:
    model, _ = example("sensors")
    compare_pipelines(model, packed_design(model, Extras(packed_homes=True)), mongodb.url())


def test_a_document_over_16_mb(mongodb: Harness) -> None:
    """What does not fit is refused, and nothing of it is there."""
    model = parse_model(TEXT.replace("value: int, default 0", "value: 'text(100, max 12MB)'"))
    with in_hours(mongodb.url(), model, clock=Clock()) as store:
        half = "x" * 9_000_000
        store.report(meter=1, at=moment(0), value=half)
        for write in (store.report, store.replace):
            with pytest.raises(OversizeError, match="16 MB"):
                write(meter=1, at=moment(1), value=half)
        assert len(list(store.span.all(meter=1, start=moment(0), end=moment(59)))) == 1
