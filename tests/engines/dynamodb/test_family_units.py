"""Units of rows with their children: planned for as many as each has, and for all that a cascade reads and notes."""

from __future__ import annotations

from itertools import pairwise

import pytest

import keyplan
from keyplan.model.model import Model
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.engines.dynamodb.workload import Workload
from tests.unit.design.nouns import model_of


def tickets(size: int) -> Model:
    entities = f"""
Ticket: {{ count: 200, fields: {{ ticket_id: "uuid, key", title: string(40) }} }}
Note:
  count: 1000
  key: [ticket, at]
  fields: {{ ticket: "Ticket, as notes, max 60", at: "timestamp, now", body: text({size}) }}
"""
    read = 'ticket: { find: Ticket, where: "ticket_id = :t", with: [notes], rate: 50/s }'
    return model_of(entities, read, "ask: { create: Ticket, rate: 1/s }\nwrite: { create: Note, rate: 1/s }")


def units(size: int) -> float:
    return keyplan.design(tickets(size), "dynamodb").plans["ticket"].figures.units["read units"]


def test_units_of_a_row_with_its_children_have_no_steps() -> None:
    """Some have more children than the mean and some fewer: a few bytes each do not double what all of them take."""
    sizes = range(300, 1500, 60)
    found = [units(size) for size in sizes]
    assert all(before < after < 1.1 * before for before, after in pairwise(found))


@pytest.mark.parametrize("size", [450, 620, 900])
def test_units_of_a_row_with_its_children_are_the_mean(size: int, dynoxide: Server) -> None:
    workload = Workload(tickets(size), url_of(dynoxide.url))
    try:
        (found,) = workload.reads()
    finally:
        workload.close()
    planned = found.plan.units["read units"]
    assert found.units("read units") == pytest.approx(planned, rel=0.15)


SLOTS = """
Slot: { count: 300, fields: { slot_id: "uuid, key", title: string(30), room: "string(6), distinct 20" } }
Invite:
  count: 900
  key: [slot, person]
  fields: { slot: "Slot, as invites, max 30", person: "string(8), distinct 100", answer: string(4) }
"""
ASKED = """
slot: { find: Slot, where: "slot_id = :s", with: [invites], rate: 50/s }
agenda: { find: Invite, where: "person = :p", with: [slot.title], page: 50, rate: 200/s }
"""
CANCELLED = """
book: { create: Slot, with: [invites], rate: 1/min }
retitle: { update: Slot, set: [title], where: "slot_id = :s", rate: 1/h }
cancel: { delete: Slot, with: [invites], where: "slot_id = :s", rate: 1/h }
"""


def test_a_cascade_is_planned_with_all_that_it_reads_and_notes(dynoxide: Server) -> None:
    """The row itself, its children, and once more those that have begun to repeat a value; and an intent for these."""
    workload = Workload(model_of(SLOTS, ASKED, CANCELLED), url_of(dynoxide.url))
    try:
        views = workload.design.views.values()
        assert any("slot.title" in (*view.holds, *(t for e in view.embeds for t in e.holds)) for view in views)
        written = {one.name: one for one in workload.writes()}
        planned = workload.design.writes["cancel"]
    finally:
        workload.close()
    for name in ("retitle", "cancel"):
        taken = written[name].units("read units")
        assert taken == pytest.approx(written[name].plan.units["read units"], rel=0.05), name
    noted = [touch.units["write units"] for touch in planned.touches if not touch.puts and not touch.deletes]
    assert noted == [3.0]
    for call in written["cancel"].calls:
        items = sum(len(body.get("TransactItems", ())) for body in call.bodies)
        assert call.write[""] == 2 * items + 1
