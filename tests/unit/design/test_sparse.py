"""Views of the rows in some states: which rows are known to be in them, and what a change of state does to entries."""

from __future__ import annotations

import pytest

from keyplan.design import design
from keyplan.design.candidates.sparse import follows, is_within, told_besides
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.pattern import Condition
from keyplan.plan.walk import searches
from tests.unit.design.nouns import model_of, upkeep, view


def condition(text: str) -> Condition:
    """A condition on an order's status or flag, as a pattern says it."""
    model = model_of(patterns=f'p: {{ find: Order, where: "{text}", limit: 1 }}')
    (found,) = model.patterns["p"].where
    return found


@pytest.mark.parametrize(
    ("state", "given", "told"),
    [
        ("status in ('pending', 'shipped')", "status in ('pending', 'shipped')", True),
        ("status in ('pending', 'shipped')", "status = 'shipped'", True),
        ("status in ('pending', 'shipped')", "status in ('shipped', 'delivered')", None),
        ("status in ('pending', 'shipped')", "status = 'delivered'", False),
        ("status in ('pending', 'shipped')", "status = :s", None),
        ("status in ('pending', 'shipped')", "status != 'delivered'", None),
        ("status in ('pending', 'shipped')", "total = 5", None),
        ("status = 'pending'", "status in ('pending')", True),
        ("status != 'delivered'", "status in ('pending', 'shipped')", True),
        ("status != 'delivered'", "status = 'delivered'", False),
        ("flagged in ('a', 'b')", "missing(flagged)", False),
        ("present(flagged)", "begins_with(flagged, :p)", True),
        ("present(flagged)", "missing(flagged)", False),
        ("missing(flagged)", "flagged = 'a'", False),
    ],
)
def test_what_follows_from_a_condition(state: str, given: str, told: bool | None) -> None:
    assert follows(condition(state), condition(given)) is told


def test_narrower_conditions_are_within_wider_ones() -> None:
    wide, narrow = condition("status in ('pending', 'shipped')"), condition("status = 'pending'")
    assert is_within((wide,), (narrow,))
    assert not is_within((narrow,), (wide,))
    assert told_besides((wide,), (narrow,)) == ()
    assert told_besides((wide,), ()) == (wide,)


RIDES = """
Ride:
  count: 500M
  fields:
    ride_id: ulid, key
    rider: uuid, distinct 5M
    status: enum(asked 0.01%, taken 0.01%, riding 0.03%, done 92%, off 7.95%), default asked
    at: timestamp, now
"""
CURRENT = """
now: { find: Ride, where: "rider = :r and status in ('asked', 'taken', 'riding')", order: at, limit: 1, rate: 500/s }
taken: { find: Ride, where: "rider = :r and status = 'taken'", order: at, limit: 1, rate: 1/s }
"""
STATES = """
ask: { create: Ride, rate: 500k/day }
take: { update: Ride, set: { status: taken }, where: "ride_id = :i", if: "status = 'asked'", rate: 490k/day }
ride: { update: Ride, set: { status: riding }, where: "ride_id = :i", if: "status in ('taken')", rate: 480k/day }
finish: { update: Ride, set: { status: done }, where: "ride_id = :i", rate: 480k/day }
"""


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_view_of_the_rows_in_some_states(engine: str) -> None:
    """Few entries and one search, where any other key has an entry per row; who asks for some of them takes it, too."""
    model = model_of(RIDES, CURRENT, STATES)
    found = design(model, get_engine(engine))
    (view,) = [view for view in found.views.values() if view.where]
    assert [str(one) for one in view.where] == ["status in ('asked', 'taken', 'riding')"]
    for name in model.patterns:
        first, *_ = searches(found.plans[name].node)
        assert first.view == view.name
    touched = {
        name: sum(touch.puts + touch.deletes for touch in write.touches if touch.view == view.name)
        for name, write in found.writes.items()
    }
    assert touched["ask"] == pytest.approx(1)
    assert touched["finish"] == pytest.approx(1)
    # It stays where it is, and is put once more where the entry holds the status.
    assert touched["take"] == touched["ride"] <= 1


def test_whether_a_row_has_an_entry_under_its_key_is_read_before() -> None:
    """Nothing but the row as it was tells whether there is an entry to be patched or deleted."""
    writes = """
    reprice: { update: Order, set: [total], where: "order_id = :id", rate: 1/s }
    drop: { delete: Order, where: "order_id = :id", rate: 1/s }
    """
    model = model_of(patterns="p: { find: Order, where: \"status in ('pending', 'shipped')\" }", writes=writes)
    sparse = view(model, "| order_id", where=model.patterns["p"].where)
    for name in model.writes:
        (part,) = [part for part in upkeep(model, name, sparse) if not part.work.checks]
        assert [(demand.what, demand.times) for demand in part.demands] == [("old", 1)]
    always = view(model, "| order_id")
    for name in model.writes:
        (part,) = [part for part in upkeep(model, name, always) if not part.work.checks]
        assert part.demands == ()
