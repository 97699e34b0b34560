"""Totals of packed documents mean what their rows mean: generated programs on designs of a server that keeps them for
nothing, and what they are in the documents.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pymongo.errors import WriteError

import keyplan
from keyplan.engines import get_engine
from keyplan.engines.mongodb import cost
from keyplan.engines.work import Cost
from keyplan.model.load import parse_model
from keyplan.model.pattern import Condition, Outer, Path, Term
from keyplan.plan.design import Design
from keyplan.plan.steps import FIRST, UNTIL, WINDOW, Fold, Search, Windows
from keyplan.plan.view import COUNT, FIRST_EXPIRES, Measure, Part, View
from keyplan.store.store import Store
from tests.conformance.pair import Clock
from tests.conformance.test_generated import PHASES, run
from tests.engines.harness import Harness
from tests.engines.mongodb.packing import documents, hours_of
from tests.strategies.designs import Designs
from tests.strategies.domains import START
from tests.strategies.programs import Call, Program
from tests.strategies.windows import windowed_programs

EXAMPLES = max(10, int(os.environ.get("KEYPLAN_PROGRAMS", "300")) // 10)
CHOSEN: list[str] = []


@pytest.fixture
def totals_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed documents with any number of entries, and their totals, are kept for next to nothing, and groups of their
    own are dear."""
    priced = cost.cost_model

    def is_packed(view: View) -> bool:
        return view.packed or view.kind == "totals"

    def cheap(model: Any) -> Any:
        costs = priced(model)
        read, touch, keep = costs.read, costs.touch, costs.keep
        costs.read = lambda work: Cost(1e-9) if work.view.kind == "totals" else read(work)
        costs.touch = lambda work: (
            Cost(1e-9) if is_packed(work.view) else Cost(1e3) if work.view.measures else touch(work)
        )
        costs.keep = lambda view, facts: 0.0 if is_packed(view) else keep(view, facts)
        return costs

    monkeypatch.setattr(cost, "cost_model", cheap)
    monkeypatch.setattr("keyplan.engines.mongodb.fit.FEWEST_PACKED", 0)
    monkeypatch.setattr("keyplan.engines.mongodb.fit._is_bounded", lambda model, view: True)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(program=windowed_programs(of_meters=True))
def test_totals_answer_as_the_reference(
    mongodb: Harness, totals_for_nothing: None, designs: Designs, program: Program
) -> None:
    model = replace(program.model, targets=mongodb.targets)
    design = designs.of(model, "mongodb")
    if any(view.kind == "totals" for view in design.views.values()):
        CHOSEN.append(model.name)
        run(program, model, mongodb.url(), design)


@pytest.fixture(autouse=True)
def some_have_totals(request: pytest.FixtureRequest) -> Iterator[None]:
    """Otherwise the programs would say nothing."""
    before = len(CHOSEN)
    yield
    if request.node.originalname == "test_totals_answer_as_the_reference":
        assert len(CHOSEN) - before > EXAMPLES / 5


KINDS = """
keyplan: 1
name: kinds
entities:
  Reading:
    count: 30M
    fields: { rid: "int, key", meter: "int, distinct 1000", at: timestamp, n: int, kind: "string(3), optional 20%" }
patterns:
  day: { from: Reading, compute: { n: sum(n) }, where: "meter = :meter and day(at) = :day", rate: 300/s }
  kinds: { find: Reading, where: "meter = :meter and day(at) = :day and kind = :kind", order: at, page: 9, rate: 10/s }
writes:
  report: { create: Reading, rate: 1/s }
"""


def test_rows_without_a_part_of_the_key_of_documents_count(mongodb: Harness) -> None:
    """Those of a day under their kinds, for who asks for one kind, have not all rows of the day."""
    rows: list[tuple[str, dict[str, Any]]] = [
        ("Reading", {"rid": 1, "meter": 1, "at": START, "n": 5}),
        ("Reading", {"rid": 2, "meter": 1, "at": START, "n": 3, "kind": "a"}),
    ]
    whole, one = {"meter": 1, "day": START}, {"meter": 1, "day": START, "kind": "a"}
    program = Program(KINDS, rows, [Call("day", whole), Call("kinds", one)])
    run(program, program.model, mongodb.url())


NOON = datetime(2052, 5, 15, 12, tzinfo=UTC)
METERS = parse_model("""
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
      value: decimal(2), optional 10%
      n: int, default 0
patterns:
  reading: { find: Reading, where: "meter = :meter and at = :at", consistency: strong }
  hours:
    from: Reading
    compute: { total: sum(value), low: min(value), high: max(value), mean: avg(value), many: count(), n: sum(n) }
    group: { hour: hour(at) }
    where: meter = :meter and at between :start and :end
    order: hour
    rows: 100k
    rate: 100/s
writes:
  report: { create: Reading, rate: 10/s }
  replace: { upsert: Reading, rate: 10/s }
  change: { update: Reading, set: [value], where: "meter = :meter and at = :at", rate: 10/s }
  add: { update: Reading, add: [n], where: "meter = :meter and at = :at", rate: 10/s }
  forget: { delete: Reading, where: "meter = :meter and at = :at", rate: 1/s }
""")


def moment(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def with_totals() -> Design:
    """Hours as documents with their totals, which are their only home."""
    design = hours_of(METERS)
    value, n, expires = (Term(Path((), name)) for name in ("value", "n", "$expires"))
    measures = (
        Measure("count", None, COUNT),
        *(Measure(how, value, f"{how}(value)") for how in ("sum", "min", "max", "count")),
        Measure("sum", n, "sum(n)"),
        Measure("min", expires, FIRST_EXPIRES),
    )
    key = (Part("meter"), Part("at", "hour"))
    totals = View("sums", "Reading", "totals", (), key, (), measures=measures, base="Reading")
    views = {**design.views, "sums": totals}
    meter, between = (pattern := METERS.patterns["hours"]).where
    first, until, this = (
        Condition(between.path, op, (Outer(name),), "hour") for op, name in ((">=", FIRST), ("<", UNTIL), ("=", WINDOW))
    )
    whole = Search("sums", given=(meter, first, until), takes=("hour(at)", *(one.name for one in measures)))
    edges = Search("Reading", given=(meter, this), takes=METERS.entities["Reading"].stored)
    node = Fold(Windows("at", "hour", (between,), whole, edges), pattern.group, pattern.compute, True)
    plans = {**design.plans, "hours": replace(design.plans["hours"], node=node)}
    structures = get_engine("mongodb").pack(METERS, tuple(views.values()), {})
    return replace(design, views=views, structures=structures, plans=plans)


def opened(url: str, clock: Clock) -> Any:
    keyplan.apply(METERS, url, design=with_totals())
    return keyplan.open(METERS, url, design=with_totals(), clock=clock)


def totals_of(document: dict[str, Any]) -> dict[str, Any]:
    names = ("_count", "sum_value", "min_value", "max_value", "count_value", "sum_n", "_first_expires")
    found = {name: document[name] for name in names if name in document}
    return {name: one.to_decimal() if hasattr(one, "to_decimal") else one for name, one in found.items()}


def check(store: Store) -> list[dict[str, Any]]:
    """The totals of all documents, which are those of their rows."""
    found = []
    for document in documents(store):
        values = [row["value"].to_decimal() for row in document["rows"] if "value" in row]
        expected = {
            "_count": len(document["rows"]),
            "sum_value": sum(values, Decimal(0)),
            "count_value": len(values),
            "sum_n": sum(row["n"] for row in document["rows"]),
            "_first_expires": min(row["_expires"] for row in document["rows"]),
        }
        expected |= {"min_value": min(values), "max_value": max(values)} if values else {}
        found.append(totals_of(document))
        assert found[-1] == expected
    assert store.verify().ok
    return found


def test_totals_are_those_of_the_rows_after_every_write(mongodb: Harness) -> None:
    clock = Clock(NOON)
    with opened(mongodb.url(), clock) as store:
        store.report(meter=1, at=moment(0), n=2**62)
        assert check(store)[0]["sum_value"] == 0  # of nothing there is neither a least nor a greatest
        most = Decimal("9999999999999999.99")
        for number, value in enumerate((Decimal("1.50"), Decimal("-2.25"), most, most), 1):
            clock.advance(seconds=1)
            store.report(meter=1, at=moment(number), value=value, n=2**62)
        assert check(store)[0]["sum_value"] == Decimal("19999999999999999.23")
        store.replace(meter=1, at=moment(2), value=Decimal("7.00"))  # which was the least
        store.replace(meter=1, at=moment(9), value=Decimal("0.01"))
        store.change(meter=1, at=moment(3), value=None)
        store.add(meter=1, at=moment(1), n=-5)
        check(store)
        store.forget(meter=1, at=moment(4))  # which was the greatest
        assert check(store)[0]["max_value"] == Decimal("7.00")
        store.load([("Reading", {"meter": 1, "at": moment(number), "value": number}) for number in range(0, 180, 20)])
        assert [one["_count"] for one in check(store)] == [7, 3, 3]
        clock.advance(hours=2)  # a row over one that has expired, and is still there
        store.report(meter=1, at=moment(0), value=Decimal("3.00"))
        check(store)


def test_totals_that_somebody_has_changed_are_found_and_mended(mongodb: Harness) -> None:
    with opened(mongodb.url(), Clock(NOON)) as store:
        store.load([("Reading", {"meter": 1, "at": moment(number), "value": number}) for number in range(0, 300, 20)])
        port: Any = store._port
        collection = port._link.database["Reading"]
        keys = [one["_id"] for one in documents(store)]
        collection.update_one({"_id": keys[0]}, {"$inc": {"_count": 1}})
        collection.update_one({"_id": keys[2]}, {"$unset": {"min_value": ""}})
        found = store.verify()
        assert found.views["sums"].wrong == 2
        assert len(found.problems) == 2
        assert store.verify(repair=True).repaired == 2
        check(store)
        with pytest.raises(WriteError, match="Document failed validation"):
            collection.update_one({"_id": keys[1]}, {"$unset": {"_count": ""}})


def test_a_window_that_has_lost_rows_is_read_row_by_row(mongodb: Harness) -> None:
    clock = Clock(NOON)
    with opened(mongodb.url(), clock) as store:
        for minutes in (0, 30, 59):
            store.report(meter=1, at=moment(minutes), value=minutes)
            clock.advance(minutes=1)
        store.report(meter=1, at=moment(61), value=61)

        def asked(end: float) -> tuple[list[tuple[int, Any]], list[tuple[str, int]]]:
            found, done = store.hours(meter=1, start=moment(0), end=moment(end), explain=True)
            return [(row["many"], row["low"]) for row in found], [(step["view"], step["rows"]) for step in done.steps]

        assert asked(120) == ([(3, 0), (1, 61)], [("Reading", 0), ("sums", 2)])
        assert asked(61) == ([(3, 0), (1, 61)], [("Reading", 1), ("sums", 1)])
        clock.now = moment(120.5)  # the first one has expired
        assert asked(120) == ([(2, 30), (1, 61)], [("Reading", 0), ("sums", 2), ("Reading", 3)])
        clock.now = moment(124)
        assert asked(120)[0] == []
