"""Rows that are too hot where another item of theirs is kept besides: the designer's answer is the cheapest of all
choices in which none is, by a search of them all that knows partitions and transactions by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil

import numpy
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import keyplan
from keyplan.design.problem.build import build_problem
from keyplan.design.problem.definition import INFEASIBLE, Problem
from keyplan.design.program.cheapest import cheapest
from keyplan.engines import get_engine
from keyplan.engines.work import Couplings
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.view import Part, View
from tests.strategies.design import proof
from tests.strategies.heat import hot_problems
from tests.unit.design.exhaustive import Table, cost_table, some_views
from tests.unit.design.nouns import model_of

ENGINE = get_engine("dynamodb")
PARTITION = 1000.0
"""Write units a second; an item takes one for each KB, twice that in a transaction."""
MOST_SHARDS = 200
SOME, MOST_VIEWS = 9, 14
EXACT = 1e-6


def unnamed(view: View) -> View:
    return replace(view, name="", base="")


def unsharded(view: View) -> View:
    return replace(unnamed(view), partition=tuple(part for part in view.partition if part.ways == 1))


def shards(view: View) -> int:
    return max((part.ways for part in view.partition), default=1)


def is_item(view: View) -> bool:
    """Whether each row has an item of it."""
    return view.kind == "table" and not (view.where or view.measures or view.unique)


def units_in_transactions(problem: Problem, name: str) -> float:
    """Write units per second of the hottest partition, if each item is written together with another one."""
    view, facts = problem.views[name], problem.facts[name]
    return 2.0 * ceil(problem.costs.entry_bytes(view, facts) / 1024) * facts.hottest_writes


def spread_out(problem: Problem) -> Iterator[View]:
    """The items that are too hot in transactions, in as many shards as are enough."""
    for name, view in problem.views.items():
        if is_item(view) and view.sort and not view.embeds:
            ways = ceil(units_in_transactions(problem, name) * shards(view) / PARTITION)
            if shards(view) < ways <= MOST_SHARDS:
                whole = unsharded(view)
                yield replace(whole, partition=(*whole.partition, Part("", ways=ways)))


def too_hot(problem: Problem, many: int) -> Table:
    """The choices with an item that is too hot beside another one of the same row, but could have more shards."""
    views = list(problem.views.items())
    has = {name: (numpy.arange(many) >> place & 1).astype(bool) for place, (name, _) in enumerate(views)}
    found = numpy.zeros(many, dtype=bool)
    for name, view in views:
        wider = any(unsharded(other) == unsharded(view) and shards(other) > shards(view) for _, other in views)
        if is_item(view) and wider and units_in_transactions(problem, name) > PARTITION:
            for label, other in views:
                if label != name and other.kind == "table" and other.entity == view.entity:
                    found |= has[name] & has[label]
    return found


def only(kept: set[View]) -> Callable[[View], bool]:
    return lambda view: unsharded(view) not in kept


@proof(60)
@given(model=hot_problems(), seed=st.integers(0, 2**16))
def test_no_choice_in_which_nothing_is_too_hot_is_cheaper(model: Model, seed: int) -> None:
    # Nothing is said of rows that are written twice, so that the choices can be told apart here.
    whole = build_problem(model, ENGINE, crowded=True).problem
    names = some_views(whole.under(Couplings()), SOME, seed)
    if names is None:
        event("more views needed than a table holds")
        return
    without = only({unsharded(whole.views[name]) for name in names})
    few = build_problem(model, ENGINE, without=without, crowded=True).problem
    more = {f"spread{number}": [view] for number, view in enumerate(spread_out(few))}
    problem = build_problem(model, ENGINE, without=without, given=more, crowded=True).problem
    if len(problem.views) > MOST_VIEWS:
        event("more views in other shards than a table holds")
        return
    anyhow = cost_table(problem)
    table = numpy.where(too_hot(problem, len(anyhow)), INFEASIBLE, anyhow)
    built, solution = cheapest(model, ENGINE, without=without)
    if anyhow.min() == INFEASIBLE:
        event("no choice serves everything")
        return
    assert solution is not None
    places = {unnamed(view): 2**place for place, view in enumerate(problem.views.values())}
    chosen = sum(places[unnamed(built.problem.views[name])] for name in solution.chosen)
    if table.min() == INFEASIBLE:
        event("everything is served only where something is too hot")
        table = anyhow
    elif anyhow.min() < table.min():
        event("what is cheapest would be too hot")
    assert float(table[chosen]) == pytest.approx(float(table.min()), rel=EXACT)
    assert solution.value == pytest.approx(float(table.min()), rel=EXACT)
    assert solution.gap <= EXACT


def logs(rate: str, reads: str, *, top: int = 50) -> Model:
    fields = (
        f"lid: 'ulid, key', at: 'timestamp, now', host: 'string(10), distinct 500, top {top}%', topic: 'string(12), "
    )
    fields += "distinct 100000', level: 'enum(low 95%, high 5%)', body: text(300)"
    return model_of(
        f"Log: {{ count: 500M, fields: {{ {fields} }} }}", reads, f"log: {{ create: Log, rate: {rate}, peak: 1x }}"
    )


def too_hot_for_a_partition(design: Design) -> list[str]:
    return [one.message for one in design.findings if "write units/s at the peak, a partition 1000" in one.message]


OF_HOST = 'of: { find: Log, where: "host = :h", order: at desc, page: 50, rate: 0.1/s, consistency: strong }\n'
BY_ID = 'one: { find: Log, where: "lid = :lid", rate: 10/s, consistency: strong }\n'


def test_more_to_choose_from_is_not_dearer() -> None:
    """Solved first for rows that are kept once, and then again with the shards that these turned out to need, it was
    three percent dearer than without local indexes."""
    reads = """
about: { find: Log, where: "topic = :t", order: at desc, page: 20, rate: 10/s, consistency: strong }
these: { find: Log, where: "host = :h and level = :l", order: at, page: 20, rate: 50/s, consistency: strong, p99: 20ms }
"""
    model = logs("25000/s", OF_HOST + reads)
    _, every = cheapest(model, ENGINE)
    _, fewer = cheapest(model, ENGINE, without=lambda view: view.kind == "lsi")
    assert every is not None
    assert fewer is not None
    assert every.value <= fewer.value * (1 + EXACT)


def test_what_is_only_served_where_rows_are_too_hot_is_served_and_told() -> None:
    """Twice as many shards are read in two waves, which takes too long; and by its id a row is read in another item."""
    model = logs("25000/s", OF_HOST.replace("strong", "strong, p99: 15ms") + BY_ID, top=90)
    design = keyplan.design(model, "dynamodb")
    assert not design.unserved
    assert too_hot_for_a_partition(design)
    slower = logs("25000/s", OF_HOST + BY_ID, top=90)
    assert not too_hot_for_a_partition(keyplan.design(slower, "dynamodb"))


def test_items_that_are_kept_stay_though_they_are_too_hot_together() -> None:
    before = keyplan.design(logs("300/s", OF_HOST + BY_ID, top=90), "dynamodb")
    model = logs("800/s", OF_HOST + BY_ID, top=90)
    kept = keyplan.design(model, "dynamodb", keep=before)
    assert set(map(unnamed, before.views.values())) <= set(map(unnamed, kept.views.values()))
    assert too_hot_for_a_partition(kept)
    anew = keyplan.design(model, "dynamodb")
    assert [shards(view) for view in anew.views.values() if view.parts[0].path == "host"] == [2]
