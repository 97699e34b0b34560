"""From needs to candidate keys: what a pattern raises, and which views are considered for it."""

from __future__ import annotations

import pytest

from keyplan.design import design
from keyplan.design.needs.need import extreme_row, need_of_pattern
from keyplan.design.problem.build import build_problem
from keyplan.engines import get_engine
from keyplan.model.model import Model
from tests.unit.design.nouns import SHOP, model_of


def keys(model: Model, entity: str, engine: str = "dynamodb", kind: str = "table") -> set[str]:
    """The keys of the candidates of an entity: `user | created_at, order_id`."""
    views = build_problem(model, get_engine(engine)).problem.views.values()
    return {
        f"{', '.join(map(str, seen.partition))} | {', '.join(map(str, seen.sort))}".strip(" |")
        for seen in views
        if seen.entity == entity and seen.kind == kind and not seen.measures
    }


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ("where: 'user = :u'", "user | order_id"),
        ("where: 'user = :u', order: created_at", "user | created_at, order_id"),
        ("where: 'user = :u', order: created_at desc", "user | created_at, order_id"),
        ("where: 'user = :u', order: 'created_at desc, total'", "user | created_at, total desc, order_id desc"),
        ("where: 'user = :u and total > :t'", "user | total, order_id"),
        ("where: 'user = :u and status = :s'", "user, status | order_id"),
        ("where: 'day(created_at) = :d'", "day(created_at) | order_id"),
        ("where: 'contains(tags, :t)'", "each(tags) | order_id"),
    ],
)
def test_a_pattern_has_the_key_made_for_it(pattern: str, key: str) -> None:
    model = model_of(SHOP, f"p: {{ find: Order, {pattern}, page: 10 }}")
    assert key in keys(model, "Order")


def test_an_order_without_conditions_is_an_index_in_one_partition() -> None:
    model = model_of(SHOP, "p: { find: Order, order: created_at, page: 10 }")
    assert "created_at, order_id" in keys(model, "Order", kind="gsi")


@pytest.mark.parametrize("engine", ["sqlite", "mongodb"])
def test_a_range_answers_a_truncation_where_indexes_are_over_plain_columns(engine: str) -> None:
    model = model_of(SHOP, "p: { find: Order, where: 'day(created_at) = :d and user = :u', page: 10 }")
    assert "user, created_at, order_id" in keys(model, "Order", engine, "index")
    model = model_of(SHOP, "p: { find: Order, where: 'week(created_at) = :d', order: created_at desc, page: 10 }")
    assert "created_at, order_id" in keys(model, "Order", engine, "index")


def test_two_patterns_share_a_partition_by_their_common_conditions() -> None:
    patterns = """
    p: { find: Order, where: "user = :u and status = :s", page: 10 }
    q: { find: Order, where: "user = :u and total = :t", page: 10 }
    """
    assert "user | status, order_id" in keys(model_of(SHOP, patterns), "Order")


def test_a_column_that_changes_may_stay_out_of_the_key() -> None:
    writes = "ship: { update: Order, set: [status], where: 'order_id = :o', rate: 1/s }"
    model = model_of(SHOP, "p: { find: Order, where: 'user = :u and status = :s', page: 10 }", writes)
    assert {"user | order_id", "user | status, order_id"} <= keys(model, "Order")


def test_homes_are_split_at_every_place_of_the_key() -> None:
    model = model_of(SHOP, "p: { find: Item, where: 'order = :o and line = :l' }")
    assert {"order | line", "order, line"} <= keys(model, "Item")


def test_a_lookup_of_a_write_has_its_key_as_well() -> None:
    writes = "drop: { delete: User, with: [orders], where: 'user_id = :u', rate: 1/s }"
    model = model_of(SHOP, "p: { find: User, where: 'user_id = :u' }", writes)
    assert "user | order_id" in keys(model, "Order")


def test_few_rows_may_be_read_whole_and_many_may_not() -> None:
    entities = "Kind:\n  count: 40\n  fields:\n    id: string(8), key\n    group: string(8)\n    name: text(40)\n"
    patterns = "p: { find: Kind, where: 'group = :g', page: 10 }"
    model = model_of(entities, patterns)
    assert "id" in {key.strip(" |") for key in keys(model, "Kind", kind="gsi")}
    views = build_problem(model, get_engine("dynamodb")).problem.views.values()
    assert any(seen.partition == () and set(seen.holds) == {"id", "group", "name"} for seen in views)
    large = model_of(entities.replace("count: 40", "count: 40M"), patterns)
    views = build_problem(large, get_engine("dynamodb")).problem.views.values()
    assert not any(all(part.ways > 1 for part in seen.partition) for seen in views)


def test_a_condition_that_implies_presence_may_keep_other_rows_out() -> None:
    patterns = "p: { find: Order, where: 'user = :u and total > :t and flagged > :f', page: 10 }"
    assert "user | total, order_id, flagged" in keys(model_of(SHOP, patterns), "Order")


@pytest.mark.parametrize(("how", "descending"), [("min", False), ("max", True)])
def test_an_extreme_is_the_first_row_in_that_order(how: str, descending: bool) -> None:
    model = model_of(SHOP, f"p: {{ {how}: Order.created_at, where: 'user = :u' }}")
    need = extreme_row(model, need_of_pattern(model, model.patterns["p"]))
    assert need is not None
    assert need.limit == 1
    assert [(str(term.path), term.descending) for term in need.order] == [("created_at", descending)]


def test_wants_include_the_key_and_what_is_selected_through_roles() -> None:
    model = model_of(SHOP, "p: { find: Item, where: 'order = :o and line = :l', select: [quantity, order.user.name] }")
    assert need_of_pattern(model, model.patterns["p"]).wants == (
        "line",
        "order",
        "order.user",
        "order.user.name",
        "quantity",
    )


def test_indexes_on_one_sorted_sequence_have_no_partition() -> None:
    model = model_of(SHOP, "p: { find: Order, where: 'user = :u', order: created_at, page: 10 }")
    assert "user, created_at, order_id" in keys(model, "Order", "sqlite", "index")


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("where: 'day(created_at) >= :d', group: [day(created_at)]", {"day(created_at)"}),
        (
            "where: 'status = :s and day(created_at) between :a and :b'",
            {"status, day(created_at)", "status, month(created_at)"},
        ),
        ("where: 'created_at >= :d', group: [day(created_at)]", {"hour(created_at)", "day(created_at)"}),
        ("where: 'day(created_at) >= :d', group: [month(created_at)]", {"day(created_at)", "month(created_at)"}),
        ("where: 'created_at >= :d', group: [week(created_at)]", {"hour(created_at)", "day(created_at)"}),
        ("where: 'created_at >= :d', group: [created_at]", {"created_at"}),
    ],
)
def test_sums_are_kept_for_ranges_by_windows_that_lie_in_their_groups(pattern: str, keys: set[str]) -> None:
    model = model_of(SHOP, f"p: {{ count: Order, {pattern} }}")
    views = build_problem(model, get_engine("sqlite")).problem.views.values()
    found = {", ".join(map(str, seen.sort)) for seen in views if seen.measures}
    assert found == keys


BOARDS = """
Team: { count: 20k, fields: { team: "string(8), key" } }
Member: { count: 500k, key: [team, email], fields: { team: "Team, as members", email: string(24) } }
Project: { count: 400k, key: [team, project_id], fields: { team: "Team, as projects", project_id: ulid } }
Task:
  count: 40M
  key: [project, task_id]
  fields:
    project: Project, as tasks
    task_id: ulid
    assignee: Member, as tasks, optional 80%
    labels: set(string(8), avg 2)
"""


@pytest.mark.parametrize(
    ("pattern", "halves"),
    [
        # A reference that changes may stay out of the key, but not one of its columns.
        ("where: 'assignee.team = :t and assignee.email = :e'", ["assignee.team", "assignee.email"]),
        # Nor is a column of a reference what rows with a label are intersected with.
        ("where: 'project.team = :t and project.project_id = :p and contains(labels, :l)'", ["project.project_id"]),
    ],
)
def test_the_columns_of_a_reference_stay_together(pattern: str, halves: list[str]) -> None:
    key = "project.team = :x and project.project_id = :y and task_id = :k"
    writes = f"assign: {{ update: Task, set: [assignee], where: '{key}' }}"
    model = model_of(BOARDS, f"p: {{ find: Task, {pattern}, page: 10 }}", writes)
    for kind in ("table", "gsi"):
        for found in keys(model, "Task", kind=kind):
            assert found.partition(" | ")[0] not in halves, found


def test_the_parts_of_a_partition_stand_as_in_the_model() -> None:
    """However the sets of conditions lead up to it: the status alone is asked for, too."""
    patterns = """
    p: { find: Order, where: "user = :u and status = :s", page: 10 }
    q: { find: Order, where: "status = :s", page: 10 }
    """
    found = keys(model_of(SHOP, patterns), "Order", kind="gsi")
    assert "user, status | order_id" in found
    assert not any(key.startswith("status, user |") for key in found)


@pytest.mark.parametrize("ttl", ["", "ttl: 90d\n      "])
@pytest.mark.parametrize("engine", ["mongodb", "sqlite"])
def test_no_index_repeats_the_key_of_the_rows(engine: str, ttl: str) -> None:
    entities = f"""
    Reading:
      count: 10M
      key: [sensor, n]
      {ttl}fields: {{ sensor: "string(8), distinct 1k", n: int, note: text(900) }}
    """
    patterns = """
    many: { count: Reading, where: "sensor = :s", rate: 2k/s }
    latest: { find: Reading, where: "sensor = :s", order: n desc, limit: 20, rate: 1/s }
    """
    model = model_of(entities, patterns, "report: { create: Reading, rate: 3k/s }")
    found = design(model, get_engine(engine))
    keys = [[part.path for part in view.parts] for view in found.views.values() if not view.measures]
    assert keys.count(["sensor", "n"]) == 1


def test_what_is_unique_only_together_is_not_looked_for_apart() -> None:
    """Every workspace may have a channel of the same name: nothing is kept by the name alone."""
    channels = """
    Channel:
      count: 1M
      unique: [[workspace, name]]
      fields: { channel_id: "uuid, key", workspace: "uuid, distinct 50k", name: string(16), topic: string(80) }
    """
    pattern = 'p: { find: Channel, where: "workspace = :w and name = :n", rate: 20/s }'
    model = model_of(channels, pattern, "add: { create: Channel, rate: 1/s }")
    for engine, kind in (("dynamodb", "gsi"), ("mongodb", "index")):
        assert not any(key.startswith("name") for key in keys(model, "Channel", engine, kind))


ENROLMENT = """
Enrolment:
  count: 40M
  key: [student, course]
  fields:
    student: string(10), distinct 5M
    course: string(10), distinct 20k
    score: int, default 0
"""
OF_COURSE = 'p: { find: Enrolment, where: "course = :c", page: 50, rate: 10/s }'
BEST_OF_COURSE = """
p: { find: Enrolment, where: "course = :c", order: score desc, page: 20, consistency: strong, rate: 10/s }
"""
SCORED = """
enrol: { create: Enrolment, rate: 1/s }
score: { update: Enrolment, set: [score], where: "student = :s and course = :c", rate: 10/s }
"""


@pytest.mark.parametrize("engine", ["dynamodb", "mongodb"])
def test_rows_live_under_whichever_part_of_their_key_they_are_asked_for_by(engine: str) -> None:
    found = design(model_of(ENROLMENT, OF_COURSE, SCORED), get_engine(engine))
    (view,) = found.views.values()
    assert [part.path for part in view.parts] == ["course", "student"]


def test_rows_live_where_a_local_index_can_be_kept_over_them() -> None:
    found = design(model_of(ENROLMENT, BEST_OF_COURSE, SCORED), get_engine("dynamodb"))
    assert {view.kind: [part.path for part in view.parts] for view in found.views.values()} == {
        "table": ["course", "student"],
        "lsi": ["course", "score", "student"],
    }
