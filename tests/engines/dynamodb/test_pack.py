"""Views to structures: one table, readable tags, as few indexes as the cost model counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyplan.design import design, document
from keyplan.design.candidates.facts import Facts
from keyplan.design.problem.definition import coupling_cost
from keyplan.design.statistics.derived import Statistics
from keyplan.engines import get_engine
from keyplan.engines.dynamodb.cost import cost_model
from keyplan.engines.dynamodb.layout import Place, attribute_name, layout
from keyplan.engines.dynamodb.pack import pack
from keyplan.engines.dynamodb.tags import partition_tag
from keyplan.engines.dynamodb.writes import operation
from keyplan.engines.work import Couplings
from keyplan.errors import UnsupportedError
from keyplan.model.load import parse_model
from keyplan.model.pattern import Condition, Literal, Path
from keyplan.plan.edits import Edit
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


def test_whole_rows_are_named_unless_their_key_is_little_of_them() -> None:
    """What stands in the key is spared, and what items have for other indexes; a further field makes the index anew."""
    text = "entities: {{ A: {{ count: 10, fields: {{ k: 'uuid, key', at: timestamp, body: text({size}) }} }} }}\n"
    rest = "patterns: { p: { find: A, where: 'k = :k', rate: 1/s } }\nwrites: { w: { create: A, rate: 1/s } }\n"
    for size, projection in ((100, "INCLUDE"), (5000, "ALL")):
        model = parse_model(f"keyplan: 1\nname: a\n{text.format(size=size)}{rest}")
        home = View("A", "A", "table", partition=parts("k"), sort=(), holds=("k", "at", "body"))
        by_time = View("by at", "A", "gsi", partition=parts("at"), sort=parts("k"), holds=home.holds, base="A")
        assert [one.settings.get("projection") for one in pack(model, (home, by_time))] == [None, projection]


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
    told = {view["projection"] for one in document(parse_model(TASKS), found)["structures"] for view in one["views"]}
    assert told == {None, "INCLUDE"}


STATES = {"status": ("pending", "done"), "gift": (True, False), "stock": (0, 1, 2, None), "flagged": ("a", "", None)}


@st.composite
def sparse(draw: st.DrawFn) -> View:
    """A view in an index of rows in some states."""
    conditions = []
    for name in draw(st.lists(st.sampled_from(sorted(STATES)), max_size=3)):
        values = [value for value in STATES[name] if value is not None]
        ops = ["=", "in", "!="] if name in ("status", "gift") else ["=", "in"]
        op = draw(st.sampled_from(ops + ["present", "missing"] * (None in STATES[name])))
        some = draw(st.lists(st.sampled_from(values), min_size=1, max_size=len(values) if op == "in" else 1))
        literals = tuple(map(Literal, some)) if op not in ("present", "missing") else ()
        conditions.append(Condition(Path((), name), op, literals))
    key = parts(*draw(st.lists(st.sampled_from(["flagged", "stock", "total"]), unique=True)), "order_id")
    more = draw(st.sampled_from([STORED, (), ("weight",), ("weight", "stock")]))
    held = {*more, *(part.path for part in key)}
    holds = tuple(path for path in STORED if path in held)
    return replace(BY_STATUS, partition=parts("status"), sort=key, where=tuple(conditions), holds=("status", *holds))


@given(st.lists(sparse(), max_size=9), st.data())
def test_no_row_has_two_entries_in_an_index(drawn: list[View], data: st.DataObject) -> None:
    """Whatever its values are, and whatever the program paid for, of which the views chosen are some."""
    views = [replace(view, name=f"view {number}") for number, view in enumerate(drawn)]
    chosen = [view for view in views if data.draw(st.booleans())]
    design = design_of(MODEL, (ORDERS, *chosen))
    indexes = layout(MODEL, design).places["orders", ()].indexes
    blank = dict.fromkeys(STORED, 1)
    for values in product(*STATES.values()):
        row = {**blank, **dict(zip(STATES, values, strict=True))}
        entries = [index.place.index for index in indexes if index.values(row) is not None]
        assert len(set(entries)) == len(entries)
    assert len(design.structures) - 1 <= paid_for(views, chosen)


@given(st.lists(sparse(), max_size=6), st.data())
def test_a_change_leaves_the_entries_that_the_row_would_have_if_it_were_new(
    drawn: list[View], data: st.DataObject
) -> None:
    """Views that share an index write the same attributes: none takes away what is another's."""
    views = [replace(view, name=f"view {number}") for number, view in enumerate(drawn)]
    place = layout(MODEL, design_of(MODEL, (ORDERS, *views))).places["orders", ()]
    blank = {**dict.fromkeys(STORED), "order_id": 1, "total": Decimal(3), "tags": frozenset(), "marks": ()}
    old = {**blank, **{name: data.draw(st.sampled_from(values)) for name, values in STATES.items()}}
    new = {**old, **{name: data.draw(st.sampled_from((old[name], *values))) for name, values in STATES.items()}}
    changed = {name: value for name, value in new.items() if old[name] != value}
    entry = new if any(index.paths & changed.keys() for index in place.indexes) else None
    body = operation(place, Edit("orders", "patch", (1,), (), changed, {}, entry))
    item = put(place, old)
    names, values = body.get("ExpressionAttributeNames", {}), body.get("ExpressionAttributeValues", {})
    sets, _, removes = body.get("UpdateExpression", "").partition("REMOVE ")
    for text in filter(None, sets.removeprefix("SET ").strip().split(", ")):
        name, value = text.split(" = ")
        item[names.get(name, name)] = values[value]
    for name in filter(None, removes.split(", ")):
        item.pop(names.get(name, name), None)
    assert item == put(place, new)


def put(place: Place, row: dict[str, Any]) -> dict[str, Any]:
    item: dict[str, Any] = operation(place, Edit("orders", "put", (1,), (), row))["Item"]
    return item


def paid_for(views: Sequence[View], chosen: Sequence[View]) -> float:
    """How many indexes the program thinks that some of its views need."""
    facts = Facts(MODEL, Statistics(MODEL))
    couplings = cost_model(MODEL).couplings(views, {view.name: facts.of(view) for view in views})
    ones = {name: (1.0 if cost else 0.0, most, True) for name, (cost, most, _) in couplings.variables.items()}
    return coupling_cost(Couplings(ones, couplings.rows), {view.name for view in chosen})


def state(name: str, op: str, *values: object) -> Condition:
    return Condition(Path((), name), op, tuple(map(Literal, values)))


@pytest.mark.parametrize(
    ("conditions", "many"),
    [
        ([state("status", "=", "pending"), state("status", "=", "done")], 1),
        ([state("status", "=", "pending"), state("status", "!=", "pending")], 1),
        ([state("status", "in", "pending", "done"), state("status", "=", "done")], 2),
        ([state("stock", "=", 1), state("stock", "in", 2, 3), state("stock", "=", 4), state("stock", "missing")], 1),
        ([state("stock", "=", 1), state("stock", "present"), state("stock", "missing")], 2),
        ([state("gift", "=", True), state("gift", "=", False), state("stock", "missing"), state("stock", "=", 1)], 2),
        # Each meets the next: no three meet, but around a ring of five two indexes are not enough.
        ([state("stock", "in", one, (one + 1) % 5) for one in range(5)], 3),
    ],
    ids=str,
)
def test_rows_in_different_states_share_an_index(conditions: list[Condition], many: int) -> None:
    views = [replace(BY_STATUS, name=f"view {n}", where=(one,)) for n, one in enumerate(conditions)]
    assert len(pack(MODEL, (ORDERS, *views))) - 1 == many
    assert paid_for(views, views) == many


def test_what_one_names_is_not_written_with_the_others_entries() -> None:
    one = replace(BY_DAY, name="one", where=(state("gift", "=", True),))
    other = replace(BY_DAY, name="other", where=(state("gift", "=", False),), holds=("order_id", "day", "weight"))
    assert len(pack(MODEL, (ORDERS, one, replace(one, name="other", where=other.where)))) == 2
    assert len(pack(MODEL, (ORDERS, one, other))) == 3


def test_many_kinds_of_entries_are_counted_part_by_part() -> None:
    """Two states of each, which share: there would be 2^6 sets of views that meet."""
    views = [
        replace(BY_DAY, name=f"{name} {gift}", where=(state("gift", "=", gift),), holds=("order_id", "day", name))
        for name in STORED[3:9]
        for gift in (True, False)
    ]
    assert paid_for(views, views) == len(pack(MODEL, (ORDERS, *views))) - 1 == 6
    assert paid_for(views, views[::2]) == paid_for(views, views[1::2]) == 6
    assert paid_for(views, [views[0], views[3], views[5]]) == 3
    assert paid_for(views, [views[0], views[1], views[2]]) == 2
