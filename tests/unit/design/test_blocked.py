"""Where the engine's own rows are in the way: one pattern is unserved then, and not all; and what is told is true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import highspy
import pytest
from hypothesis import event, given

from keyplan.design import design
from keyplan.design.findings import unserved
from keyplan.design.findings.hints import amount
from keyplan.design.program.cheapest import BLOCKED
from keyplan.design.report.explain import explain
from keyplan.engines import BUILTIN, get_engine
from keyplan.errors import DesignError
from keyplan.model.model import Model
from tests.strategies.design import any_problems, proof
from tests.unit.design.nouns import model_of

DYNAMODB = get_engine("dynamodb")
SMALL: dict[str, Any] = {"dynamodb": {"partition_mb": "10"}}

SEEN = """
P:
  count: 2M
  fields: { pid: "ulid, key", name: string(8), kind: "enum(a 2%, b 8%, c 90%), default c", m: min(ds.at) }
D: { count: 200M, fields: { did: "int, key", p: "P, as ds", v: "float, optional 50%", at: "timestamp, now" } }
"""
LAST = """
last: { find: P, where: "kind = :k", order: "m desc", page: 10, rate: 1/h, p99: 38ms, consistency: strong }
one: { find: P, where: "pid = :p", rate: 1/s }
"""
DROPPED = """
make_p: { create: P, rate: 1/s, peak: 10x }
make_d: { create: D, rate: 1/day, peak: 10x }
drop: { delete: P, with: [ds], where: "pid = :pid", rate: 100/s, peak: 10x }
"""


def test_a_pattern_that_only_views_beyond_a_limit_would_serve_is_unserved_and_the_others_are_not() -> None:
    """A local index finds them in time, which a delete with all its children leaves no room for."""
    model = replace(model_of(SEEN, LAST, DROPPED), targets=SMALL)
    found = design(model, DYNAMODB, advise=False)
    assert {name: one.reason for name, one in found.unserved.items()} == {"last": BLOCKED}
    assert found.plans.keys() == {"one"}
    kept = design(model, DYNAMODB, keep=found, advise=False)
    assert kept.views == found.views
    assert kept.unserved.keys() == {"last"}


COPIED = """
P: { count: 2M, fields: { pid: "ulid, key", name: string(8), n: min(ds.at) } }
C:
  count: 10M
  fields: { cid: "string(8), key", p: "P, as cs, max 40", w: "string(6), distinct 5000", body: text(3000) }
D: { count: 200M, fields: { did: "string(8), key", p: "P, as ds, max 200", at: "timestamp, now" } }
"""
FIRST = 'p: { find: C, where: "w = :w and p.n < :b", order: "p.n desc", limit: 20, rate: 20/s, consistency: strong }'
MOVED = """
make_c: { create: C, rate: 10/s }
make_p: { create: P, with: [ds], rate: 10/s }
move: { update: D, set: [p], where: "did = :did", rate: 1/h }
"""


def test_what_is_left_out_stays_out_in_whichever_form() -> None:
    """A local index was asked about under another partition than it came back with, again and again."""
    model = replace(model_of(COPIED, FIRST, MOVED), targets=SMALL)
    found = design(model, DYNAMODB, advise=False)
    without = {name: explain(model, DYNAMODB, found, name)["without"] for name in found.views}
    assert without["P"] == {"possible": False, "reason": "there would be no home of 'P'"}
    possible = [one for one in without.values() if one["possible"]]
    assert possible
    for one in possible:
        assert one["now"] == pytest.approx(found.objective.value, rel=1e-6)
        assert one["more"] >= 0


@pytest.mark.thorough
@pytest.mark.parametrize("engine", BUILTIN)
@proof(15)
@given(model=any_problems(2))
def test_no_structure_of_a_generated_design_is_better_left_out(engine: str, model: Model) -> None:
    here = get_engine(engine)
    try:
        found = design(model, here, advise=False)
    except DesignError:
        return
    for name in [structure.name for structure in found.structures]:
        without = explain(model, here, found, name)["without"]
        if not without["possible"]:
            assert without["reason"] != "nothing could replace it"
            continue
        assert without["now"] == pytest.approx(found.objective.value, rel=1e-6, abs=1e-9)
        assert without["value"] >= found.objective.bound * (1 - 1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", BUILTIN)
@proof(25)
@given(model=any_problems(2))
def test_the_change_that_is_told_serves_at_the_cost_that_is_told(engine: str, model: Model) -> None:
    here = get_engine(engine)
    try:
        missing = design(model, here).unserved
    except DesignError:
        return
    for name in (name for name in missing if name in model.patterns and missing[name].change):
        text, _, cost = missing[name].change.partition("; the whole design would cost ")
        pattern = model.patterns[name]
        if text.startswith("raise p99 to "):
            least = float(text.removeprefix("raise p99 to ").removesuffix("ms"))
            changed = replace(model, patterns={**model.patterns, name: replace(pattern, p99_ms=least)})
        else:
            changed = next(other for said, other in unserved._changes(model, pattern) if said == text)
        event(" ".join(text.split()[:2]))
        after = design(changed, here, advise=False)
        assert name not in after.unserved
        value = after.objective.value - after.objective.carrying
        told = float(cost.split()[0].replace(",", ""))
        assert cost.split()[0] == amount(value) or told == pytest.approx(value, rel=2e-3)


def test_a_program_that_the_solver_gives_up_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it did, rarely, after rows had been added to a program that it had solved: it did not know any more."""
    given_up = []

    class Tired(highspy.Highs):
        def getModelStatus(self) -> Any:  # noqa: N802
            if not given_up:
                given_up.append(self)
                return highspy.HighsModelStatus.kUnknown
            return super().getModelStatus()

    model = model_of(SEEN, LAST, DROPPED)
    expected = design(model, get_engine("sqlite"), advise=False)
    monkeypatch.setattr(highspy, "Highs", Tired)
    found = design(model, get_engine("sqlite"), advise=False)
    assert given_up
    assert found.views == expected.views
    assert found.objective.value == pytest.approx(expected.objective.value)
