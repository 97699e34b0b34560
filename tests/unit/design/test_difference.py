"""Differences against a lock, and designs that keep what is locked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keyplan.design import design
from keyplan.design.candidates.given import identity
from keyplan.design.report.difference import difference, repriced
from keyplan.engines import BUILTIN, get_engine
from keyplan.errors import DesignError
from keyplan.plan.design import Design
from keyplan.plan.lockfile import lock_text, read_lock
from tests.unit.design.support import PLACES, designed, example, notes


def billed(design: Design) -> float:
    """What a design costs as it says at its top."""
    return design.objective.value - design.objective.carrying


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "engine"), PLACES)
def test_a_design_costs_what_it_says(name: str, engine: str) -> None:
    """The views of a design, found again by what they are in a new problem, cost what the solver said."""
    found = designed(name, engine)
    price = repriced(example(name), get_engine(engine), found)
    assert price.lacks == ()
    assert price.value == pytest.approx(found.objective.value, rel=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize("name", ["shop", "hotel"])
def test_keeping_the_best_design_changes_nothing(name: str, engine: str) -> None:
    model, found = example(name), designed(name, engine)
    locked = read_lock(lock_text(model, found), model)
    kept = design(model, get_engine(engine), keep=locked)
    assert kept.views == found.views
    assert kept.structures == found.structures
    said = difference(model, locked, kept)
    assert said["same"]
    assert [said["cost"][when] for when in ("before", "after")] == pytest.approx([billed(found)] * 2, rel=1e-6)


def test_the_same_views_under_other_keys_and_paid_otherwise() -> None:
    """`apply` would make the indexes anew and change the billing mode: that is not the same design."""
    here = get_engine("dynamodb")
    said: list[dict[str, object]] = [
        {"billing": "on_demand"},
        {"billing": "provisioned"},
        {"billing": "on_demand", "multi_attribute_keys": True},
    ]
    model, *others = (replace(notes(topics=True), targets={"dynamodb": one}) for one in said)
    locked, paid, several = (design(one, here) for one in (model, *others))
    assert locked.views == paid.views == several.views
    assert difference(model, locked, design(model, here))["same"]
    told = difference(others[0], locked, paid)
    assert told["settings"] == [{"name": "billing", "before": "on_demand", "after": "provisioned"}]
    assert (told["same"], told["structures"]) == (False, [])
    told = difference(others[1], locked, several)
    assert (told["same"], told["settings"]) == (False, [])
    assert told["structures"] == sorted(one.name for one in several.structures if one.kind == "gsi")


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_pattern_that_is_new(engine: str) -> None:
    here = get_engine(engine)
    locked = design(notes(), here)
    model = notes(topics=True)
    current = design(model, here)
    told = difference(model, locked, current)
    assert not told["same"]
    assert any("about" in place["because"] for place in told["added"])
    assert told["dropped"] == []
    assert "it does not serve 'about'" in told["cost"]["lacks"]
    assert told["cost"]["after"] == pytest.approx(billed(current))


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_pattern_that_is_gone(engine: str) -> None:
    here = get_engine(engine)
    locked = design(notes(topics=True), here)
    model = notes()
    told = difference(model, locked, design(model, here))
    assert [place["because"] for place in told["dropped"]] == [["about"]]
    assert told["added"] == []
    assert told["cost"]["lacks"] == []
    assert told["cost"]["before"] > told["cost"]["after"]

    kept = design(model, here, keep=locked)
    views = {identity(view) for view in kept.views.values()}
    assert {identity(view) for view in locked.views.values()} <= views
    assert billed(kept) == pytest.approx(told["cost"]["before"])
    assert difference(model, locked, kept)["dropped"] == []


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_key_that_changes_has_moved(engine: str) -> None:
    here = get_engine(engine)
    locked = design(notes(), here)
    model = notes(change=("order: made_at desc", "order: topic"))
    told = difference(model, locked, design(model, here))
    moved = [move for move in told["moved"] if "notes_of" in move["to"]["because"]]
    assert moved
    assert any("topic" in change for change in moved[0]["changes"])
    (plan,) = (plan for plan in told["patterns"] if plan["name"] == "notes_of")
    assert plan["before"]
    assert plan["after"]


def test_parts_that_move_between_partition_and_sort_are_seen_to() -> None:
    model = notes()
    locked = design(model, get_engine("dynamodb"))
    name = next(name for name, view in locked.views.items() if view.partition and view.sort)
    view = locked.views[name]
    moved = replace(view, partition=view.parts, sort=())
    now = replace(locked, views={**locked.views, name: moved})
    (move,) = difference(model, locked, now)["moved"]
    sides = [", ".join(map(str, parts)) for parts in (view.partition, view.sort, moved.partition)]
    assert move["changes"] == [f"key ({sides[0]}; {sides[1]}) becomes ({sides[2]})"]


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_new_field_joins_the_whole_rows_that_are_kept(engine: str) -> None:
    here = get_engine(engine)
    locked = design(notes(), here)
    model = notes(change=("topic:", "colour: string(8), optional\n      topic:"))
    kept = design(model, here, keep=locked)
    name, at = kept.homes["Note"]
    home = kept.views[name].embed_at(at) or kept.views[name]
    assert "colour" in home.holds
    assert difference(model, locked, kept)["patterns"] == []  # they run as before
    assert [view.parts for view in kept.views.values()] == [view.parts for view in locked.views.values()]
    told = difference(model, locked, kept)
    assert told["added"] == told["dropped"] == []
    assert any("also holds colour" in move["changes"] for move in told["moved"])


def test_a_structure_that_the_model_has_no_place_for_is_a_finding() -> None:
    here = get_engine("sqlite")
    locked = design(notes(topics=True), here)
    model = notes(change=("topic:", "subject:"))
    kept = design(model, here, keep=locked)
    messages = [finding.message for finding in kept.findings]
    assert "it cannot be kept: 'Note' has no 'topic'" in messages
    assert all(part.path != "topic" for view in kept.views.values() for part in view.parts)


def test_a_model_that_cannot_be_served_at_all_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = get_engine("sqlite")
    kept = {name: kind for name, kind in engine.kinds.items() if kind.kept_by_engine}
    monkeypatch.setattr(engine, "kinds", kept)
    with pytest.raises(DesignError, match="there is no way to keep a home of 'Person'"):
        design(notes(), engine)
