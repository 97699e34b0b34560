"""Views to structures: one table, readable tags, as few indexes as the cost model counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyplan.design import design
from keyplan.design.candidates.facts import Facts
from keyplan.design.statistics.derived import Statistics
from keyplan.engines import get_engine
from keyplan.engines.dynamodb.cost import cost_model
from keyplan.engines.dynamodb.layout import attribute_name, layout
from keyplan.engines.dynamodb.pack import pack, partition_tag
from keyplan.errors import UnsupportedError
from keyplan.model.load import parse_model
from keyplan.plan.view import Part, View
from tests.engines.dynamodb.support import (
    ALL,
    BY_DAY,
    BY_STATUS,
    BY_TOTAL,
    BY_USER,
    HANDLES,
    NOTES_BY_LINE,
    ORDERS,
    STORED,
    TOTALS,
    design_of,
    little_model,
    parts,
)

MODEL = little_model()


@pytest.mark.parametrize(
    ("view", "tag"),
    [
        (ORDERS, "ORDER"),
        (BY_USER, "USER"),
        (BY_TOTAL, "ORDER"),
        (HANDLES, "SESSION.HANDLE"),
        (BY_STATUS, "ORDER.STATUS"),
        (TOTALS, "ORDER.DAY(CREATED_AT)"),
        (NOTES_BY_LINE, "NOTE.LINE"),
        (replace(BY_USER, partition=(Part("user"), Part("", ways=4))), "USER"),
        (View("n", "Note", "table", parts("order"), parts("line"), ("order", "line")), "ORDER"),
        (View("n", "Note", "table", parts("order", "line"), (), ("order", "line")), "NOTE"),
        (View("n", "Note", "gsi", parts("order.user"), parts("order", "line"), ("order", "line")), "USER"),
    ],
    ids=str,
)
def test_a_partition_is_named_by_whose_rows_it_gathers(view: View, tag: str) -> None:
    assert partition_tag(MODEL, view) == tag


def test_keys_read_well() -> None:
    places = layout(MODEL, design_of(MODEL, (*ALL, TOTALS))).places
    user = "5f0c4b0e-0000-4000-8000-000000000001"
    assert places["orders", ()].key((7,)) == {"PK": {"S": "ORDER#a7"}, "SK": {"S": "ORDER#"}}
    assert places["orders", ("notes",)].key((7, 12)) == {"PK": {"S": "ORDER#a7"}, "SK": {"S": "ORDER#NOTE#b12"}}
    assert places["by user", ()].partition.encode((user,)) == f"USER#{user}"
    assert places["by total", ()].partition.encode(()) == "ORDER"
    assert places["handles", ()].key(("ann",)) == {"PK": {"S": "SESSION.HANDLE#ann"}, "SK": {"S": "SESSION"}}
    assert places["totals", ()].sort.prefix == "ORDER.TOTALS#"


def test_no_two_views_share_a_place() -> None:
    many = [replace(BY_USER, name=f"view {number}") for number in range(4)]
    places = layout(MODEL, design_of(MODEL, (*ALL, *many))).places.values()
    tags = [(place.index, place.partition.prefix, place.sort.prefix) for place in places]
    assert len(set(tags)) == len(tags)
    for index, partition, sort in tags:
        # The tag up to its separator decides: no sort key of one view begins like another's.
        clashes = [one for one in tags if one[:2] == (index, partition) and one[2] != sort and one[2].startswith(sort)]
        assert all(sort == "ORDER#" and one[2] == "ORDER#NOTE#" for one in clashes)


def test_an_index_is_shared_by_entities() -> None:
    _, first, *_ = pack(MODEL, (ORDERS, BY_STATUS, replace(NOTES_BY_LINE, holds=("order", "line", "text"))))
    assert (first.name, first.kind, first.views) == ("GSI1", "gsi", ("by status", "notes by line"))
    assert first.settings["projection"] == "ALL"


def test_projections() -> None:
    structures = {one.views: one.settings for one in pack(MODEL, ALL)[1:]}
    assert structures["by status",]["projection"] == "ALL"
    assert structures["by day",]["projection"] == "INCLUDE"
    assert structures["by day",]["attributes"] == ("total",)
    assert structures["flagged", "notes by line"]["projection"] == "KEYS_ONLY"


def test_an_index_that_would_name_too_many_attributes_projects_all() -> None:
    views = [replace(BY_DAY, name=f"view {number}", holds=("order_id", "day", *STORED[3:10])) for number in range(18)]
    indexes = pack(MODEL, (ORDERS, *views))[1:]
    named = sum(len(one.settings.get("attributes", ())) for one in indexes)  # type: ignore[arg-type]
    assert len(indexes) == 18
    assert 80 < named <= 100
    assert {one.settings["projection"] for one in indexes} == {"ALL", "INCLUDE"}


def test_too_many_indexes() -> None:
    views = [replace(BY_STATUS, name=f"view {number}") for number in range(21)]
    with pytest.raises(UnsupportedError, match="21 global indexes"):
        pack(MODEL, (ORDERS, *views))


GSIS = st.lists(st.sampled_from([BY_STATUS, BY_DAY, NOTES_BY_LINE, replace(NOTES_BY_LINE, partition=parts("text"))]))


@pytest.mark.parametrize(("kind", "most"), [("gsi", 20), ("lsi", 5)])
@given(GSIS)
def test_packing_needs_what_the_cost_model_counts(kind: str, most: int, chosen: list[View]) -> None:
    """The program pays for the largest number of views of one entity per projection, and packing gets by with it."""
    views = [replace(view, name=f"view {number}", kind=kind) for number, view in enumerate(chosen[:most])]
    facts = Facts(MODEL, Statistics(MODEL))
    couplings = cost_model(MODEL).couplings(views, {view.name: facts.of(view) for view in views})
    least = dict.fromkeys(couplings.variables, 0.0)
    for row in couplings.rows:
        mine = [name for name in row.coefficients if name in least]
        if len(mine) == 1:
            least[mine[0]] = max(least[mine[0]], sum(row.coefficients.values()) + 1)
    indexes = pack(MODEL, (ORDERS, *views))[1:]
    counted = sum(least.get(f"{kind}.{projection}", 0) for projection in ("ALL", "INCLUDE", "KEYS_ONLY"))
    assert len(indexes) == counted if kind == "lsi" else len(indexes) <= counted
    for one in indexes:
        entities = [views[int(name[5:])].entity for name in one.views]
        assert len(set(entities)) == len(entities)


def test_names_of_ours_are_left_to_us() -> None:
    assert attribute_name("PK") == "PK_"
    assert attribute_name("GSI12SK") == "GSI12SK_"
    assert attribute_name("user.PK") == "user.PK"
    names = [attribute_name(name) for name in ("ttl", "ttl_", "ttl__", "PK", "total")]
    assert len(set(names)) == 5


def test_the_partition_of_the_record_is_kept_free() -> None:
    source = 'keyplan: 1\nname: x\nentities:\n  Keyplan:\n    fields: { id: "int, key" }\n'
    model = parse_model(source)
    assert partition_tag(model, View("k", "Keyplan", "table", parts("id"), (), ("id",))) == "KEYPLAN."


def test_an_index_needs_what_its_items_carry() -> None:
    view = replace(NOTES_BY_LINE, partition=parts("order.user"), holds=("order", "line", "order.user"))
    with pytest.raises(UnsupportedError, match=r"do not carry 'order\.user'"):
        layout(MODEL, design_of(MODEL, (ORDERS, view)))


TASKS = """
keyplan: 1
name: tasks
entities:
  Member: { count: 500k, key: [team, email], fields: { team: "string(6), distinct 20k", email: string(20) } }
  Task:
    count: 40M
    fields:
      task_id: int, key
      assignee: Member, as tasks, optional 80%
      due: date, optional 50%
      title: string(30)
      note_count: count(notes)
  Note: { count: 80M, fields: { note_id: "ulid, key", task: "Task, as notes", text: string(100) } }
patterns:
  tasks:
    find: Task
    where: assignee.team = :t and assignee.email = :e
    order: due
    page: 20
    select: [task_id, assignee, due, title]
    rate: 200/s
  task: { find: Task, where: "task_id = :id", rate: 5k/s }
writes:
  add: { create: Task, rate: 1/s }
  plan: { update: Task, set: [due], where: "task_id = :id", rate: 1/s }
  remark: { create: Note, rate: 10/s }
"""


def test_rows_with_a_value_and_rows_without_it_share_an_index() -> None:
    """An item is in one of the two views at most, so that one index has both."""
    model = parse_model(TASKS)
    found = design(model, get_engine("dynamodb"))
    (index,) = (structure for structure in found.structures if structure.kind == "gsi")
    assert len(index.views) == 2
    tags = index.settings["tags"]
    assert isinstance(tags, dict)
    assert sorted(tags[name]["sort"] for name in index.views) == ["TASK", "TASK.2"]


def test_whole_rows_are_named_where_items_have_more() -> None:
    """What is counted beside the row changes with every note, and the index need not follow."""
    found = design(parse_model(TASKS), get_engine("dynamodb"))
    (index,) = (structure for structure in found.structures if structure.kind == "gsi")
    (home,) = (view for view in found.views.values() if view.entity == "Task" and not view.base)
    assert "note_count" in home.holds
    assert index.settings["projection"] == "INCLUDE"
    assert "note_count" not in index.settings["attributes"]  # type: ignore[operator]
