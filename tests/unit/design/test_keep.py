"""Designs that keep what is locked: all of it that still means the same, and which of it cannot be kept and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from keyplan.design.candidates.given import carried_over, identity
from keyplan.design.candidates.lost import why_lost
from keyplan.design.problem.definition import Problem
from keyplan.design.program import blocked, cheapest
from keyplan.design.report.difference import difference, repriced
from keyplan.engines import BUILTIN, get_engine
from keyplan.errors import DesignError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Path
from keyplan.plan.view import Part, View
from tests.strategies.behind import behind_models
from tests.strategies.design import any_problems, behind_problems, proof, with_statistics
from tests.strategies.models import models
from tests.strategies.states import state_models
from tests.unit.design.lately import built_once, design
from tests.unit.design.nouns import model_of

ENTITIES = """
P: { count: 200k, fields: { pid: "int, key", name: string(8), kind: string(4), n: count(ds) } }
C: { count: 10M, fields: { cid: "int, key", p: "P, as cs", w: "string(6), distinct 5000", code: "string(9), unique" } }
D: { count: 20M, fields: { did: "int, key", p: "P, as ds", v: int, at: timestamp } }
"""
PATTERNS = """
first: { find: C, where: "w = :w", order: "p.n desc", limit: 20, rate: 300/s }
total: { sum: D.v, where: "p = :p", rate: 3000/s }
"""
WRITES = """
make_c: { create: C, rate: 1/day }
make_p: { create: P, rate: 1/day }
make_d: { create: D, rate: 1/day }
"""


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """What is kept is designed, priced and compared."""
    with built_once():
        yield


def changed(*change: str) -> Model:
    entities = ENTITIES.replace(*change) if change else ENTITIES
    assert not change or entities != ENTITIES
    return model_of(entities, PATTERNS, WRITES)


@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        (
            ("at: timestamp }", "at: timestamp }, ttl: 30d"),
            {
                "'C.p.n' cannot be part of a key: rows of 'D' expire, and nobody would be there to take them off",
                "rows of 'D' expire by now, and would stay counted",
            },
        ),
        (("n: count(ds) }", "n: count(ds) }, ttl: 3d"), {"'C.p.n' cannot be part of a key: rows of 'P' expire"}),
        ((", unique", ""), {"code of 'C' need not be unique any more, and it would refuse rows"}),
        (("v: int", "v: float"), {"'D.v' is float by now, of which 'sum(v)' cannot be kept"}),
        (("code: ", "more: int, code: "), set()),
        (("count(ds)", "max(ds.v)"), set()),
    ],
)
def test_what_means_something_else_by_now_is_not_kept(engine: str, change: tuple[str, str], reasons: set[str]) -> None:
    """It would refuse rows that may be there, or count and show those that are gone."""
    locked = design(changed(), get_engine(engine))
    kept = design(changed(*change), get_engine(engine), keep=locked)
    start = "it cannot be kept: "
    assert {one.message.removeprefix(start) for one in kept.findings if one.message.startswith(start)} == reasons
    told = {one.path for one in kept.findings if one.message.startswith(start)}
    assert {name for name in locked.views if name not in told} <= kept.views.keys()


@pytest.mark.parametrize("engine", BUILTIN)
def test_copies_of_what_is_gone_are_left_out(engine: str) -> None:
    """The copy of a field that the model has no more was looked for."""
    asked = 'p: { find: C, where: "w = :w", with: [p.kind], rate: 3000/s, p99: 9ms }'
    locked = design(model_of(ENTITIES, asked, WRITES), get_engine(engine))
    copying = {name for name, view in locked.views.items() if "p.kind" in view.holds}
    model = model_of(ENTITIES.replace("kind: string(4), ", ""), 'p: { find: C, where: "cid = :c", rate: 1/s }', WRITES)
    kept = design(model, get_engine(engine), keep=locked)
    assert copying <= kept.views.keys()
    assert not any("p.kind" in view.holds for view in kept.views.values())


DEPOTS = """
Depot:
  count: 100k
  fields: { depot_id: "int, key", region: "string(10), distinct 500", name: "string(20), optional 50%" }
Parcel: { count: 1M, fields: { parcel_id: "uuid, key", depot: "Depot, as parcels" } }
"""


@pytest.mark.parametrize("engine", ["mongodb", "sqlite"])
def test_an_index_through_which_more_is_taken_by_now_is_the_one_that_is_kept(engine: str) -> None:
    asked = 'depots: { find: Depot, where: "region = :region", page: 50, rate: 100/s }'
    locked = design(model_of(DEPOTS, asked, "send: { create: Parcel, rate: 1/s }"), get_engine(engine))
    counting = DEPOTS.replace('50%"', '50%", parcel_count: count(parcels)')
    model = model_of(counting, asked, "send: { create: Parcel, rate: 1/s }")
    kept, anew = (design(model, get_engine(engine), keep=keep) for keep in (locked, None))
    names = [one.name for one in locked.structures]
    assert [one.name for one in kept.structures if one.name in names] == names
    assert {one.name for one in kept.structures} == {one.name for one in anew.structures}
    assert kept.objective.value == pytest.approx(anew.objective.value, rel=1e-6)


COUNTED = """
P: { count: 20k, fields: { pid: "uuid, key", kind: string(4), n: sum(ds.v), m: count(ds) } }
C: { count: 600k, fields: { cid: "ulid, key", p: "P, as cs", v: int } }
D: { count: 20M, fields: { did: "uuid, key", p: "P, as ds", v: int } }
"""
COUNTS = """
some: { find: C, where: "p.m < :b", page: 50, rate: 1/h }
most: { find: P, where: "kind = :k", order: "m desc", page: 10, rate: 1/s }
"""
COUNTING = """
make_c: { create: C, rate: 1/s }
make_p: { create: P, rate: 1/s }
make_d: { create: D, rate: 1/s }
move: { update: D, set: [p], where: "did = :did", rate: 10/s }
drop: { delete: C, where: "cid = :cid", rate: 100/s }
"""


def stays(model: Model, engine: str) -> None:
    """A design that keeps the best one of the same model is that one, at its price."""
    here = get_engine(engine)
    try:
        best = design(model, here, advise=False)
    except DesignError:
        event("no design at all")
        return
    price = repriced(model, here, best)
    assert price.lacks == ()
    assert price.value == pytest.approx(best.objective.value, rel=1e-6)
    kept = design(model, here, keep=best, advise=False)
    assert kept.objective.value == pytest.approx(best.objective.value, rel=1e-6)
    assert {identity(view) for view in kept.views.values()} == {identity(view) for view in best.views.values()}
    assert not [one for one in kept.findings if "kept" in one.message]
    assert difference(model, best, kept, engine=here)["same"]


@pytest.mark.parametrize("engine", BUILTIN)
def test_what_a_write_copies_from_a_row_is_kept_with_it(engine: str) -> None:
    """No pattern reads `m` from its row; whoever makes a row of `C` does, and found nothing to count by."""
    stays(model_of(COUNTED, COUNTS, COUNTING), engine)


BUSY = """
P: { count: 3k, fields: { pid: "int, key", name: string(4), n: count(ds) } }
D: { count: 30, fields: { did: "int, key", p: "P, as ds", v: int } }
"""
RENAMING = """
make_p: { create: P, rate: 1/h }
make_d: { create: D, rate: 2000/s }
rename: { update: P, set: [name], where: "n = :n", rows: 3, rate: 1/h }
"""
READINGS = """
Sensor: { count: 10, fields: { sensor_id: "uuid, key", name: string(20) } }
Reading: { count: 100k, ttl: 30d, fields: { number: "uuid, key", sensor: "Sensor, as all", at: timestamp, v: int } }
"""


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_key_of_what_is_computed_is_kept_however_busy_it_is(engine: str) -> None:
    stays(model_of(BUSY, 'one: { find: P, where: "pid = :p", rate: 1/h }', RENAMING), engine)


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_directory_of_buckets_is_kept_though_rows_expire(engine: str) -> None:
    latest = 'latest: { find: Reading, where: "sensor = :s", order: at desc, limit: 20, rate: 0.001/s }'
    model = model_of(READINGS, latest, "report: { create: Reading, rate: 5k/day }")
    stays(replace(model, targets={"dynamodb": {"partition_mb": "0.1"}}), engine)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", BUILTIN)
@proof(25)
@given(model=st.one_of(any_problems(2), behind_problems()))
def test_keeping_the_best_design_of_a_generated_model_changes_nothing(engine: str, model: Model) -> None:
    stays(model, engine)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", BUILTIN)
@proof(25)
@given(data=st.data())
def test_whatever_the_model_was_all_is_kept_or_told(engine: str, data: st.DataObject) -> None:
    family = data.draw(st.sampled_from([models(2), models(2), behind_models(), state_models()]))
    before, model = (data.draw(with_statistics(parse_model(data.draw(family)))) for _ in range(2))
    here = get_engine(engine)
    try:
        locked = design(before, here, advise=False)
        design(model, here, advise=False)
    except DesignError:
        event("no design at all")
        return
    try:
        kept = design(model, here, keep=locked, advise=False)
    except DesignError as error:
        event("cannot be kept")
        told = str(error)
    else:
        told = ""
    if told:
        assert re.search("'(.*)' cannot be kept", told)
        assert any(f"'{name}'" in told for name in locked.views)
        assert "\n" not in told
        return
    gone = {one.path for one in kept.findings if one.message.startswith("it cannot be kept: ")}
    forms, lost = carried_over(model, here.kinds, locked)
    assert lost.keys() <= gone
    event("everything is kept" if not gone else "some is kept" if len(gone) < len(locked.views) else "nothing is kept")
    keys = {(view.entity, view.kind, view.partition, view.sort, view.where) for view in kept.views.values()}
    for name, some in forms.items():
        assert name in gone or {(v.entity, v.kind, v.partition, v.sort, v.where) for v in some} & keys
    difference(model, locked, kept, engine=here)
    kinds = here.kinds
    made = [(kinds[one.kind].holds_all, replace(identity(one), holds=())) for one in kept.views.values()]
    indexes = [bare for leads_to_rows, bare in made if leads_to_rows and kinds[bare.kind].kept_by_engine]
    assert len(set(indexes)) == len(indexes), "the very same index is made twice"


def test_what_cannot_be_kept_is_named_with_what_is_in_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that has no answer as long as one view is to be kept and one pattern to be served."""
    here = get_engine("sqlite")
    model = model_of(ENTITIES, PATTERNS, WRITES)
    locked = design(model, here)
    (name,) = [name for name, view in locked.views.items() if view.unique]
    solved = cheapest.solve

    def refuses(problem: Problem, *, proven: bool) -> object:
        kept = any(text.startswith(f"'{name}'") for text, _ in problem.required)
        asked = any(root.name == "first" for root in problem.roots)
        return None if kept and asked else solved(problem, proven=proven)

    for module in (cheapest, blocked):
        monkeypatch.setattr(module, "solve", refuses)
    with pytest.raises(DesignError) as caught:
        design(model, here, keep=locked)
    assert f"'{name}' cannot be kept: 'first' could not be served with it" in str(caught.value)


def test_a_condition_on_what_was_part_of_a_key_is_not_kept() -> None:
    """Of whatever the key of a book has, its loans have a column; all else is found in the row of the book."""
    text = """
    Shelf: { count: 99, key: [room, row], fields: { room: int, row: int } }
    Book: { count: 999, key: [KEY, no], fields: { shelf: "Shelf, as books", no: int } }
    Loan: { count: 999, fields: { lid: "int, key", book: "Book, as loans, optional 50%" } }
    """
    before, after = (model_of(text.replace("KEY", key)) for key in ("shelf", "shelf.room"))
    where = (Condition(Path((), "book.shelf.row"), "present", ()),)
    view = View("v", "Loan", "gsi", (Part("lid"),), (), ("lid",), where=where)
    kinds = get_engine("dynamodb").kinds
    assert why_lost(before, kinds, view) == ""
    assert why_lost(after, kinds, view) == "'Loan.book.shelf.row' is found another way by now"
