"""Explanations: figures that agree with the document, the engine's words, and re-solves that are not guesses."""

from __future__ import annotations

import json

import pytest

from keyplan.design import design, document
from keyplan.design.candidates.given import view_key
from keyplan.design.problem.build import build_problem
from keyplan.design.problem.definition import evaluate
from keyplan.design.program.cheapest import cheapest
from keyplan.design.report.explain import explain
from keyplan.engines import BUILTIN, get_engine
from keyplan.errors import ArgumentError
from keyplan.plan.walk import searches
from tests.unit.design.nouns import model_of
from tests.unit.design.support import PLACES, SOME_PLACES, designed, example, notes

SQLITE = get_engine("sqlite")


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "engine"), PLACES)
def test_everything_but_structures_can_be_explained(name: str, engine: str) -> None:
    model, found, here = example(name), designed(name, engine), get_engine(engine)
    told = document(model, found)
    for call in model.calls:
        explained = explain(model, here, found, call)
        json.dumps(explained, allow_nan=False)
        assert explained["name"] == call
        if call in model.patterns and explained["served"]:
            assert explained["total"] == told["patterns"][call]["total"]
            reads = [step for step in explained["steps"] if step.get("view")]
            assert reads
            assert all(step["words"] for step in reads)
        if call in model.writes and explained["served"]:
            for step in explained["steps"]:
                ours = step.get("view") and not here.kinds[found.views[step["view"]].kind].kept_by_engine
                assert step.get("words") or not ours, step
    overview = explain(model, here, found)
    assert [structure["name"] for structure in overview["structures"]] == [s.name for s in found.structures]
    assert set(overview["patterns"]) == set(model.patterns)


@pytest.mark.parametrize(("name", "engine"), SOME_PLACES)
def test_searches_come_in_the_order_of_the_steps(name: str, engine: str) -> None:
    found = designed(name, engine)
    for plan in found.plans.values():
        assert [search.view for search in searches(plan.node)] == [s["view"] for s in plan.steps if "view" in s]


@pytest.mark.parametrize("engine", BUILTIN)
def test_who_needs_a_structure_and_what_it_costs(engine: str) -> None:
    model = notes(topics=True)
    found = design(model, get_engine(engine))
    for structure in found.structures:
        told = explain(model, get_engine(engine), found, structure.name)
        assert told["what"] == "structure"
        assert told["total"] == pytest.approx(told["storage"] + told["upkeep"])
        assert told["storage"] > 0
        cost = sum(found.figures[name].cost for name in structure.views)
        assert told["total"] >= cost * (1 - 1e-6)  # transactions come on top
    readers = {name for view in found.views for name in found.figures[view].because}
    assert set(model.patterns) <= readers


@pytest.mark.parametrize("engine", BUILTIN)
def test_what_keeps_values_unique_says_so(engine: str) -> None:
    model = notes(change=("name: string(20)", "name: string(20), unique"))
    found = design(model, get_engine(engine))
    told = [view for one in explain(model, get_engine(engine), found)["structures"] for view in one["views"]]
    assert [(view["entity"], view["keeps_unique"]) for view in told if view["keeps_unique"]] == [("Person", ["name"])]
    (name,) = (view["name"] for view in told if view["keeps_unique"])
    alone = explain(model, get_engine(engine), found, name)
    assert [view["keeps_unique"] for view in alone["views"] if view["name"] == name] == [["name"]]


def test_without_a_structure_is_a_new_solution() -> None:
    """The cost without is no less than the cost with, and is that of a design that serves everything."""
    model = notes(topics=True)
    found = design(model, SQLITE)
    homes = {name for name, _ in found.homes.values()}
    possible = 0
    for structure in found.structures:
        without = explain(model, SQLITE, found, structure.name)["without"]
        if not without["possible"]:
            # A home is needed as such; anything else only because a pattern has no other way.
            is_home = bool(homes & set(structure.views))
            assert ("there would be no" if is_home else "could not be served") in without["reason"]
            continue
        assert not homes & set(structure.views)
        possible += 1
        assert without["now"] == pytest.approx(found.objective.value)
        assert without["more"] > 0
        assert without["value"] == pytest.approx(without["now"] + without["more"])
    assert possible


@pytest.mark.parametrize(
    ("name", "engine", "view"),
    [("sensors", "mongodb", "Reading packed copy"), ("sensors", "dynamodb", "Sensor by site")],
)
def test_a_view_that_could_be_a_home_is_left_out_like_any_other(name: str, engine: str, view: str) -> None:
    model, found, here = example(name), designed(name, engine), get_engine(engine)
    (label,) = [each for each in found.views if each.startswith(view)]
    assert label not in [home for home, _ in found.homes.values()]
    key = view_key(found.views[label])
    _, best = cheapest(model, here, without=lambda each: view_key(each) == key)
    assert best is not None
    (structure,) = [each.name for each in found.structures if label in each.views]
    alone = structure if engine == "mongodb" else label
    without = explain(model, here, found, alone)["without"]
    assert without["more"] == pytest.approx(best.value - found.objective.value, abs=0.01)
    assert without["more"] > 0.01


LOG = """
Log:
  count: 500M
  key: [device, at]
  fields:
    device: string(8), distinct 200k
    at: timestamp
    state: enum(normal 85%, low 14%, high 1%)
    details: json(200)
"""
OF_DEVICE = """
every: { find: Log, where: "device = :d", order: at desc, page: 50, rate: 20/s, p99: 30ms }
some: { find: Log, where: "device = :d and state = :s", order: at desc, page: 50, rate: 50/s, p99: 30ms }
"""


@pytest.mark.parametrize("engine", ["dynamodb", "sqlite"])
def test_the_same_key_in_another_order_is_no_design_without_it(engine: str) -> None:
    model, here = model_of(LOG, OF_DEVICE, "log: { create: Log, rate: 16/s }"), get_engine(engine)
    found = design(model, here)
    (index,) = [one.name for one in found.structures if "some" in found.figures[one.views[0]].because]
    without = explain(model, here, found, index)["without"]
    assert not without["possible"] or without["more"] > 0.01


def test_a_design_without_a_view_has_none_under_its_key() -> None:
    model = notes()
    found = design(model, SQLITE)
    index = next(view for view in found.views.values() if "notes_of" in found.figures[view.name].because)
    built = build_problem(model, SQLITE, without=lambda view: view_key(view) == view_key(index))
    assert all(view_key(view) != view_key(index) for view in built.problem.views.values())
    full = build_problem(model, SQLITE)
    assert any(view_key(view) == view_key(index) for view in full.problem.views.values())
    assert evaluate(full.problem, set(full.problem.views)).unserved == []


def test_a_single_view_of_a_shared_structure() -> None:
    model, found = example("shop"), designed("shop", "sqlite")
    name = next(name for name in found.views if name not in {s.name for s in found.structures})
    told = explain(model, SQLITE, found, name)
    assert told["what"] == "view"
    assert [view["name"] for view in told["views"]] == [name]


def test_a_write_says_what_it_reads_first() -> None:
    model, found = example("shop"), designed("shop", "sqlite")
    told = explain(model, SQLITE, found, "ship_order")
    old = next(step for step in told["steps"] if step.get("why") == "the old row")
    assert old["words"].startswith("SELECT")
    assert sum(touch["total"] for touch in told["touches"]) <= told["total"] * (1 + 1e-6)


def test_an_unknown_name() -> None:
    with pytest.raises(ArgumentError, match="nothing is called 'nots_of'; did you mean 'notes_of'"):
        explain(notes(), SQLITE, design(notes(), SQLITE), "nots_of")


def test_sets_that_are_counted_as_larger_than_usual_say_so() -> None:
    """A page of a set that is not kept in its order: all of it is read, and larger ones more often."""
    fields = """
Maker: { count: 500, fields: { id: "uuid, key" } }
Item: { count: 20k, fields: { ean: "int, key", maker: "Maker, as items", price: int } }
"""
    pattern = 'p: { find: Item, where: "maker = :m", order: price desc, page: 4, rate: 1/min }'
    write = 'w: { update: Item, set: [price], where: "ean = :e", rate: 500/s }'
    model = model_of(fields, pattern, write)
    found = document(model, design(model, get_engine("dynamodb")))["patterns"]["p"]["steps"]
    (step,) = [one for one in found if one["op"] == "query"]
    assert (step["rows"], step["times_the_mean"]) == (400, 10)
