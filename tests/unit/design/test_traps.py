"""The traps of designing for stores like these, one test each."""

from __future__ import annotations

import pytest

from keyplan.design import design, document
from keyplan.design.candidates.facts import Facts
from keyplan.design.needs.need import driven, need_of_pattern, present_then_missing
from keyplan.design.options.goals import Goal, Option
from keyplan.design.options.graph import Options
from keyplan.design.problem.build import build_problem
from keyplan.design.statistics.derived import Statistics
from keyplan.engines import BUILTIN, get_engine
from keyplan.engines.work import Cost, Work
from keyplan.model.model import Model
from keyplan.plan.view import View
from tests.unit.design.nouns import SHOP, matched, model_of, upkeep, view


def goal_of(model: Model, *views: View, engine: str = "dynamodb") -> Goal:
    """The ways to answer the pattern `p` from these views alone."""
    statistics = Statistics(model)
    facts = Facts(model, statistics)
    at = get_engine(engine)
    made = [View(**{**vars(one), "name": f"v{number}"}) for number, one in enumerate(views)]
    options = Options(model, statistics, at.kinds, at.costs(model), made, {one.name: facts.of(one) for one in made})
    return options.root(need_of_pattern(model, model.patterns["p"]), model.patterns["p"].p99_ms)


def one(goal: Goal) -> Option:
    (found,) = goal.options
    return found


def asked(text: str, writes: str = "") -> Model:
    return model_of(SHOP, f"p: {{ {text} }}", writes)


def read(model: Model, seen: View, **work: float | bool) -> Cost:
    """The price of a read on DynamoDB."""
    facts = Facts(model, Statistics(model)).of(seen)
    given = {"get": False, "requests": 1.0, "entries": 1.0, "most_entries": 1.0, "entry_bytes": 1024.0, **work}
    return get_engine("dynamodb").costs(model).read(Work(seen, facts, **given))  # type: ignore[arg-type]


def test_trap_01_a_need_under_a_strong_need_is_strong() -> None:
    model = asked("find: Order, where: 'user = :u', select: [total, user.name], page: 5, consistency: strong")
    homes = (view(model, "user | order_id"), view(model, "user_id", entity="User"))
    goal = goal_of(model, *homes)
    assert all(sub.goal.need.strong for option in goal.options for sub in option.subs)
    assert goal.options
    # An index that only converges answers neither the need nor what hangs on it.
    late = View(**{**vars(homes[0]), "kind": "gsi"})
    assert not goal_of(model, late, homes[1]).options


def test_trap_02_a_limit_with_a_filter_reads_more_than_the_limit() -> None:
    model = asked("find: Order, where: \"user = :u and status = 'pending'\", order: created_at, limit: 10")
    exact = one(goal_of(model, view(model, "user, status | created_at, order_id")))
    loose = one(goal_of(model, view(model, "user | created_at, order_id")))
    assert loose.entries == pytest.approx(20)  # all of a user's orders: 10 / 3 % would be more than there are
    assert exact.entries < loose.entries
    assert exact.cost.p99_ms <= loose.cost.p99_ms


def test_trap_02_pages_are_sequential_and_count_before_the_filter() -> None:
    model = asked("find: Order, where: 'user = :u', page: 5")
    seen = view(model, "user | order_id")
    one_page = read(model, seen, entries=1000, most_entries=1000)
    ten_pages = read(model, seen, entries=1000, most_entries=10_000)
    assert ten_pages.cost == one_page.cost
    assert ten_pages.p99_ms > 9 * one_page.p99_ms


@pytest.mark.parametrize("where", ["status in :s", "total > :t"])
def test_trap_03_a_list_or_a_range_before_the_order_breaks_it(where: str) -> None:
    model = asked(f"find: Order, where: 'user = :u and {where}', order: created_at, page: 10")
    column = where.split()[0]
    found = matched(model, view(model, f"user | {column}, created_at, order_id"))
    assert found is not None
    if column == "total":
        assert not found.ordered
    else:
        # Each value of the list is a span of its own, and the spans are merged.
        assert found.ordered
        assert found.spans > 1


def test_trap_03_mixed_directions_need_an_inverted_part() -> None:
    model = asked("find: Order, where: 'user = :u', order: 'created_at desc, total', page: 10")
    plain = matched(model, view(model, "user | created_at, total, order_id"))
    inverted = matched(model, view(model, "user | created_at, total desc, order_id desc"))
    assert plain is not None
    assert inverted is not None
    assert (plain.ordered, inverted.ordered) == (False, True)


def test_trap_04_missing_sorts_last_so_it_takes_two_reads() -> None:
    model = asked("find: Order, where: 'user = :u', order: flagged desc, page: 10")
    need = need_of_pattern(model, model.patterns["p"])
    parts = present_then_missing(model, need)
    assert parts is not None
    assert [str(part.given[-1]) for part in parts] == ["present(flagged)", "missing(flagged)"]
    # The order alone does not imply presence: such a view lacks rows.
    assert matched(model, view(model, "user | flagged, order_id")) is None


def test_trap_04_what_is_behind_a_reference_may_be_missing_too() -> None:
    model = asked("find: Order, where: 'status = :s', order: user.name desc, page: 10")
    parts = present_then_missing(model, need_of_pattern(model, model.patterns["p"]))
    assert parts is not None
    have, lack = parts
    assert str(have.given[-1]) == "present(user.name)"
    assert str(lack.given[-1]) == "missing(user.name)"
    assert "user.name" in have.wants
    assert "user.name" not in lack.wants
    # Two small reads in the order of the answer, in place of all orders of a status.
    built = build_problem(model, get_engine("dynamodb"))
    restricted = [v for v in built.problem.views.values() if v.where]
    assert {str(c) for v in restricted for c in v.where} == {"missing(user.name)"}
    assert {v.kind for v in restricted} == {"table"}


def test_trap_04_a_value_that_expires_leaves_no_trace_in_a_view() -> None:
    """Whether it is missing changes without a write, so that no view is restricted to the rows that lack it."""
    shop = SHOP.replace("User:\n  count: 2M\n", "User:\n  count: 2M\n  ttl: 30d\n")
    model = model_of(shop, "p: { find: Order, where: 'status = :s', order: user.name desc, page: 10 }")
    built = build_problem(model, get_engine("dynamodb"))
    assert not any(c.path.roles for v in built.problem.views.values() for c in v.where)


def test_trap_04_a_condition_implies_presence() -> None:
    model = asked("find: Order, where: 'user = :u and flagged > :f', page: 10")
    assert matched(model, view(model, "user | flagged, order_id")) is not None
    missing = asked("find: Order, where: 'user = :u and missing(flagged)', page: 10")
    assert matched(missing, view(missing, "user | flagged, order_id")) is None


def test_trap_05_a_query_rounds_the_sum_and_gets_round_each() -> None:
    model = asked("find: Order, where: 'user = :u', page: 5")
    seen = view(model, "user | order_id")
    assert read(model, seen, entries=100, entry_bytes=100).units["read units"] == 1.5
    assert read(model, seen, get=True, requests=100, entry_bytes=100).units["read units"] == 50
    assert read(model, seen, requests=10, entries=0.1, entry_bytes=100).units["read units"] == 5  # shards
    short = view(model, "order_id", holds=("order_id",))
    facts = Facts(model, Statistics(model)).of(short)
    named = get_engine("dynamodb").costs(model).entry_bytes(short, facts)
    assert named >= facts.key_bytes + sum(facts.value_bytes.values()) + len("order_id")


def test_trap_06_no_prefix_estimates_fewer_rows_than_the_pattern_says() -> None:
    model = asked("find: Order, where: 'user = :u and created_at between :a and :b', rows: 12, page: 20")
    found = matched(model, view(model, "user | created_at, order_id"))
    assert found is not None
    assert found.entries >= found.rows >= 12


def test_trap_06_a_row_named_by_its_key_is_one_row_through_any_other_key() -> None:
    model = asked("find: Order, where: 'order_id = :o and user = :u and total > :t'")
    found = matched(model, view(model, "user | total, order_id"))
    assert found is not None
    assert found.entries >= 1


def test_trap_06_a_path_inside_a_key_is_no_join() -> None:
    model = model_of(SHOP, "p: { find: Item, where: 'order.order_id = :o', page: 5 }")
    (condition,) = model.patterns["p"].where
    assert str(condition.path) == "order"


def test_trap_07_the_hottest_decides_what_is_feasible() -> None:
    writes = "place: { create: Order, rate: 100/s, peak: 10x, top: 50% }"
    model = asked("find: Order, where: 'user = :u', page: 5", writes)
    seen = view(model, "status | order_id")
    facts = Facts(model, Statistics(model)).of(seen)
    assert facts.hottest_writes == pytest.approx(900)  # 1,000/s at the peak, 90 % of them of one status
    assert facts.rows / facts.partitions == pytest.approx(40e6 / 3)
    assert facts.hottest_rows == pytest.approx(36e6)


def test_trap_08_every_order_is_created_pending() -> None:
    writes = "place: { create: Order, rate: 100/s }"
    model = asked("find: Order, where: \"status = 'pending'\", order: created_at, page: 10", writes)
    seen = view(model, "| created_at, order_id", where=model.patterns["p"].where)
    (part,) = upkeep(model, "place", seen)
    assert part.work.puts == pytest.approx(1.0)
    facts = Facts(model, Statistics(model)).of(seen)
    assert facts.rows == pytest.approx(1.2e6)
    assert facts.hottest_writes == pytest.approx(100)


def test_trap_08_a_bucket_does_not_cool_the_present() -> None:
    model = asked("find: Order, where: 'user = :u', page: 5", "place: { create: Order, rate: 5000/s }")
    facts = Facts(model, Statistics(model))
    by_day = facts.of(view(model, "day(created_at) | created_at, order_id"))
    sharded = facts.of(view(model, "shard 10 | created_at, order_id"))
    assert by_day.hottest_writes == pytest.approx(5000)
    assert sharded.hottest_writes == pytest.approx(500)


def test_trap_09_buckets_are_walked_only_between_two_bounds() -> None:
    key = "day(created_at) | created_at, order_id"
    bounded = asked("find: Order, where: 'created_at between :a and :b', order: created_at, page: 10")
    assert matched(bounded, view(bounded, key)) is not None
    open_ended = asked("find: Order, where: 'created_at >= :a', order: created_at, page: 10")
    assert matched(open_ended, view(open_ended, key)) is None


@pytest.mark.parametrize("engine", ["dynamodb", "sqlite"])
def test_trap_10_every_key_ends_with_the_entitys(engine: str) -> None:
    model = asked("find: Order, where: 'user = :u', order: created_at, page: 5", "place: { create: Order, rate: 1/s }")
    for seen in build_problem(model, get_engine(engine)).problem.views.values():
        if not (seen.unique or seen.measures):
            paths = {part.path for part in seen.parts}
            assert set(model.entities[seen.entity].key) <= paths


def test_trap_11_a_write_by_another_column_looks_its_rows_up() -> None:
    writes = "cancel: { delete: Order, where: 'user = :u', rows: 20, rate: 1/s }"
    model = asked("find: Order, where: 'user = :u', page: 5", writes)
    (root,) = [r for r in build_problem(model, get_engine("dynamodb")).problem.roots if r.name == "cancel" and r.always]
    assert root.kind == "find"
    assert root.goal.need.strong
    assert set(model.entities["Order"].stored) <= set(root.goal.need.wants)


def test_trap_11_a_reference_that_is_pointed_elsewhere_changes_its_copies() -> None:
    writes = "give: { update: Order, set: [user], where: 'order_id = :o', rate: 1/s }"
    model = asked("find: Order, where: 'user = :u', page: 5", writes)
    seen = view(model, "order_id", holds=("order_id", "user", "user.name"))
    (part,) = upkeep(model, "give", seen)  # no check: no write changes a name
    assert "copy" in [demand.what for demand in part.demands]


def test_trap_12_a_changed_group_touches_two_counters() -> None:
    writes = """
    ship: { update: Order, set: { status: shipped }, where: "order_id = :o", rate: 1/s }
    drop: { delete: Order, where: "order_id = :o", rate: 1/s }
    reprice: { update: Order, set: [total], where: "order_id = :o", rate: 1/s }
    """
    model = model_of(SHOP, "p: { count: Order, group: [status] }", writes)
    views = build_problem(model, get_engine("dynamodb")).problem.views.values()
    counter = next(seen for seen in views if seen.measures)
    (ship,) = upkeep(model, "ship", counter)
    (drop,) = upkeep(model, "drop", counter)
    assert (ship.work.adds, drop.work.adds) == (2, 1)
    assert [[demand.what for demand in part.demands] for part in (ship, drop)] == [["old"], ["old"]]
    assert upkeep(model, "reprice", counter) == []


def test_trap_12_what_expires_is_not_counted_in_advance() -> None:
    entities = "Session:\n  count: 1M\n  ttl: 1h\n  fields:\n    id: uuid, key\n    kind: enum(a 50%, b 50%)\n"
    model = model_of(entities, "p: { count: Session, group: [kind] }")
    views = build_problem(model, get_engine("dynamodb")).problem.views.values()
    assert not any(seen.measures for seen in views)


def test_trap_13_every_view_and_guard_of_what_expires_knows_when() -> None:
    entities = (
        "Session:\n  count: 1M\n  ttl: 1h since seen\n  fields:\n    id: uuid, key\n    mail: string(20), unique\n"
        "    seen: timestamp, now\n"
    )
    writes = "touch: { update: Session, set: [seen], where: 'id = :id', rate: 1/s }"
    model = model_of(entities, "p: { find: Session, where: 'mail = :m' }", writes)
    problem = build_problem(model, get_engine("dynamodb")).problem
    for name, seen in problem.views.items():
        assert "$expires" in seen.holds
        assert ("touch", name) in problem.upkeep  # all of them are rewritten when it moves


def test_trap_14_a_large_collection_is_no_obstacle_without_local_indexes() -> None:
    model = asked("find: Order, where: 'user = :u', page: 5")
    seen = view(model, "status | order_id")
    facts = Facts(model, Statistics(model)).of(seen)
    costs = get_engine("dynamodb").costs(model)
    assert facts.hottest_rows * costs.entry_bytes(seen, facts) > 1e9
    assert costs.fit(seen, facts) == seen


def test_driving_from_a_parent_that_may_be_missing_would_lose_rows() -> None:
    model = model_of(SHOP, "p: { find: Order, where: 'missing(user.name)', page: 5 }")
    need = need_of_pattern(model, model.patterns["p"])
    assert list(driven(model, Statistics(model), need)) == []


DUE = """
Plan:
  count: {count}
  fields:
    plan_id: ulid, key
    due: date
    details: string(100)
"""


@pytest.mark.parametrize("name", BUILTIN)
@pytest.mark.parametrize(("count", "walks"), [("2M", False), ("500", True)])
def test_a_value_that_a_call_gives_is_not_looked_for_row_by_row(name: str, count: str, walks: bool) -> None:
    """By the averages a page is soon full, and entries that stay where they are cost less to keep. But a day may have
    no rows at all."""
    model = model_of(
        DUE.format(count=count),
        f'due: {{ find: Plan, where: "due = :day", rows: {"65k" if count == "2M" else "20"}, page: 20, rate: 0.01/s }}',
        'put_off: { update: Plan, set: [due], where: "plan_id = :p", rate: 200/s }',
    )
    steps = document(model, design(model, get_engine(name)))["patterns"]["due"]["steps"]
    assert (steps[0].get("where") == ["due = :day"]) or walks
