"""Each choice turns with the figures that decide it: the same model, other statistics, another design."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import keyplan
from keyplan.design.problem.build import build_problem
from keyplan.design.problem.crowds import NO_CROWDS
from keyplan.design.problem.definition import INFEASIBLE, evaluate
from keyplan.design.problem.heat import heat_of_views
from keyplan.design.report.explain import explain, view_text
from keyplan.engines.dynamodb import ENGINE
from keyplan.engines.dynamodb.projection import projection_of
from keyplan.errors import ArgumentError, DesignError
from keyplan.model.load import load_model, parse_model
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.steps import Extend, Intersect, Search
from keyplan.plan.view import COPIES, View
from keyplan.plan.walk import searches
from tests.conformance.test_fetched_by_home_keys import LARGE
from tests.engines.dynamodb.support import rooms
from tests.unit.design.nouns import model_of


def designed(model: Model) -> Design:
    return keyplan.design(model, "dynamodb")


def indexes(design: Design) -> dict[str, Any]:
    return {view.name: view for view in design.views.values() if view.kind == "gsi"}


# projections

ORDERS = """
Customer: {{ count: 100k, fields: {{ customer_id: "uuid, key", name: string(20) }} }}
Order:
  count: 10M
  fields:
    order_id: uuid, key
    customer: Customer, as orders
    placed_at: timestamp
    total: decimal(2)
    note: text({note})
"""


def orders(
    note: int = 300, select: str = "order_id, placed_at, total", listed: str = "50/s", placed: str = "5/s"
) -> Model:
    return model_of(
        ORDERS.format(note=note),
        f"""
order: {{ find: Order, where: "order_id = :order_id", rate: 10/s }}
listed:
  {{ find: Order, where: "customer = :customer", order: placed_at desc, page: 20, select: [{select}], rate: {listed} }}
""",
        f"place: {{ create: Order, rate: {placed} }}",
    )


def projection(model: Model) -> str:
    (found,) = (projection_of(model, view) for view in indexes(designed(model)).values())
    return found


def test_the_projection_is_the_cheapest() -> None:
    """Large rows: an entry of some attributes is written for one unit instead of five. Small rows: it is read for less.
    Only keys wanted: only keys kept. Rarely listed and often written: keys, and the rest is fetched."""
    everything = "order_id, placed_at, total, note"
    assert projection(orders(note=300, select=everything)) == "ALL"
    assert projection(orders(note=4000)) == "INCLUDE"
    assert projection(orders(note=800)) == "INCLUDE"
    assert projection(orders(note=4000, select="order_id, placed_at")) == "KEYS_ONLY"
    assert projection(orders(note=4000, select=everything)) == "ALL"
    assert projection(orders(note=4000, select=everything, listed="1/h", placed="50/s")) == "KEYS_ONLY"


def test_no_projection_left_out_is_cheaper() -> None:
    """Every set of attributes that an index could project, priced one by one: none beats the one that is chosen."""
    everything = "order_id, placed_at, total, note"
    for model in (
        orders(300, everything),
        orders(800),
        orders(4000),
        orders(4000, everything),
        orders(4000, "order_id, placed_at"),
    ):
        design = designed(model)
        (chosen,) = indexes(design).values()
        others = ("total", "note")
        prices = []
        for number in range(2 ** len(others)):
            named = {path for place, path in enumerate(others) if number >> place & 1}
            keys = {"order_id", "customer", "placed_at"}
            holds = tuple(path for path in model.entities["Order"].stored if path in keys | named)
            view = replace(chosen, holds=holds, name="", base="")
            given = build_problem(model, ENGINE, given={"this": [view]})
            best = min(
                evaluate(given.problem, {home, *given.given["this"]} | customers(given.problem.views)).cost
                for home in homes(given.problem.views)
            )
            prices.append(best)
        assert min(prices) == pytest.approx(design.objective.value, rel=1e-6)


def homes(views: dict[str, View]) -> list[str]:
    return [name for name, view in views.items() if view.entity == "Order" and view.kind == "table"]


def customers(views: dict[str, View]) -> set[str]:
    return {name for name, view in views.items() if view.entity == "Customer" and view.kind == "table"}


# copies and computed values


def posts(renames: str) -> Model:
    entities = """
Author: { count: 1000, fields: { aid: "int, key", name: string(20) } }
Post:
  count: 20k
  fields:
    pid: int, key
    author: Author, as posts
    topic: string(10), distinct 200
    at: timestamp, now
    body: text(3000)
"""
    reads = """
of:
  { find: Post, where: "topic = :topic", order: at desc, page: 100, select: [pid, author.name], rate: 500/s, p99: 12ms }
post: { find: Post, where: "pid = :pid", rate: 1/s }
"""
    writes = f"""
rename: {{ update: Author, set: [name], where: "aid = :aid", rate: {renames} }}
write: {{ create: Post, rate: 1/s }}
"""
    return model_of(entities, reads, writes)


def test_what_an_index_repeats_is_changed_in_the_items_that_it_is_an_index_of() -> None:
    """Twenty posts of three kilobytes each: where names change often, the list has small items of its own instead."""
    rare = designed(posts("1/day"))
    assert "author.name" in next(iter(indexes(rare).values())).holds
    # Each post is three to five units, twice in a transaction, and its entry in the index one more; the author and the
    # intent.
    post = next(touch.units["write units"] for touch in rare.writes["write"].touches if touch.view == "Post")
    assert post == pytest.approx(3.7 * 2, abs=0.3)
    assert rare.writes["rename"].figures.units["write units"] == pytest.approx(20 * (post + 1) + 2 + 3)
    assert not indexes(designed(posts("5/s")))


def riders(spent: bool = True) -> Model:
    entities = f"""
Rider: {{ count: 100k, fields: {{ rider_id: "uuid, key", name: string(20), trips: count(trips_of)
  {", spent: sum(trips_of.fare)" if spent else ""} }} }}
Trip: {{ count: 10M, fields: {{ trip_id: "uuid, key", rider: "Rider, as trips_of", fare: int }} }}
"""
    reads = 'rider: { find: Rider, where: "rider_id = :rider_id", rate: 800/s }'
    return model_of(entities, reads, "ride: { create: Trip, rate: 60/s }")


def test_several_values_of_a_row_are_kept_by_one_change() -> None:
    one, two = (designed(riders(spent)).writes["ride"].figures.units["write units"] for spent in (False, True))
    assert one == two == pytest.approx(4.0)
    design = designed(riders())
    assert {"trips", "spent"} <= set(design.views[design.homes["Rider"][0]].holds)
    assert not [view for view in design.views.values() if view.measures]


def test_a_value_that_an_index_and_its_items_have_is_kept_once() -> None:
    """The list shows how many comments a ticket has: then the ticket itself, read with them, says so, too."""
    entities = """
Ticket: { count: 3M, fields: { tid: "uuid, key", queue: "int, distinct 9k", at: timestamp, said: count(comments) } }
Comment:
  count: 15M
  key: [ticket, at]
  fields: { ticket: "Ticket, as comments, max 90", at: timestamp, body: string(400) }
"""
    reads = """
ticket: { find: Ticket, where: "tid = :tid", with: [comments], rate: 400/s }
queue: { find: Ticket, where: "queue = :queue", order: at, page: 50, rate: 150/s }
"""
    design = designed(model_of(entities, reads, "comment: { create: Comment, rate: 100/s }"))
    assert not [view for view in design.views.values() if view.measures]
    assert all("said" in view.holds for view in design.views.values() if view.entity == "Ticket")
    # The comment and its ticket in a transaction, and the ticket's entry in the index.
    assert design.writes["comment"].figures.units["write units"] == pytest.approx(2 + 2 + 1)


# sparse and inverted


def pending(share: str, others: str) -> Model:
    entities = f"""
Order:
  count: 10M
  fields:
    order_id: uuid, key
    status: enum(pending {share}, done {others})
    placed_at: timestamp
    body: string(200)
"""
    reads = """
order: { find: Order, where: "order_id = :order_id", rate: 10/s }
waiting: { find: Order, where: "status = 'pending'", order: placed_at, limit: 50, rate: 1/s }
by_status: { find: Order, where: "status = :status", order: placed_at, limit: 50, rate: RATE }
"""
    return model_of(entities, reads.replace("RATE", "1/s"), "place: { create: Order, rate: 5/s }")


def test_an_index_of_one_value_is_sparse_unless_others_are_asked_for() -> None:
    both = pending("3%", "97%")
    alone = replace(both, patterns={name: one for name, one in both.patterns.items() if name != "by_status"})
    (sparse,) = indexes(designed(alone)).values()
    assert [str(condition.path) for condition in sparse.where] == ["status"]
    (shared,) = indexes(designed(both)).values()
    assert not shared.where
    assert [part.path for part in shared.partition if part.path] == ["status"]


def test_a_relation_read_from_both_sides_has_an_inverted_index() -> None:
    entities = """
Student: { count: 100k, fields: { student_id: "int, key", name: string(20) } }
Course: { count: 1k, fields: { course_id: "int, key", title: string(20) } }
Seat:
  count: 500k
  key: [student, course]
  fields: { student: "Student, as seats", course: "Course, as seats", grade: string(2) }
"""
    one = 'courses: { find: Seat, where: "student = :student", rate: 10/s }'
    other = 'students: { find: Seat, where: "course = :course", page: 50, rate: 10/s }'
    writes = "enrol: { create: Seat, rate: 1/s }"
    assert not indexes(designed(model_of(entities, one, writes)))
    design = designed(model_of(entities, f"{one}\n{other}", writes))
    (inverted,) = indexes(design).values()
    home = design.views[design.homes["Seat"][0]]
    assert [part.path for part in home.parts] == ["student", "course"]
    assert [part.path for part in inverted.parts] == ["course", "student"]


# billing


@pytest.mark.parametrize(("peak", "billing"), [("", "provisioned"), (", peak: 40x 30m/day", "on_demand")])
def test_steady_loads_are_provisioned_and_bursts_paid_by_request(peak: str, billing: str) -> None:
    model = model_of(
        "Order: { count: 1M, fields: { order_id: 'uuid, key', body: string(200) } }",
        f'order: {{ find: Order, where: "order_id = :order_id", rate: 500/s{peak} }}',
        f"place: {{ create: Order, rate: 100/s{peak} }}",
    )
    settings = designed(model).settings
    assert settings["billing"] == billing
    cheaper = min(("on_demand", "provisioned"), key=lambda one: float(str(settings[f"usd_per_month_{one}"])))
    assert cheaper == billing


def test_the_design_says_what_each_mode_costs() -> None:
    """Figures are on demand; where provisioned capacity is cheaper, a note says so and what it takes."""
    steady = product("500/s", top="1%")
    design = designed(steady)
    assert design.settings["billing"] == "provisioned"
    (note,) = [one for one in design.findings if "provisioned capacity" in one.message]
    assert note.severity == "note"
    assert note.evidence == {mode: design.settings[f"usd_per_month_{mode}"] for mode in ("provisioned", "on_demand")}
    asked = replace(steady, targets={"dynamodb": {"billing": "on_demand"}})
    assert not [one for one in designed(asked).findings if "provisioned" in one.message]


def test_a_new_table_on_demand_is_cold() -> None:
    def said(rate: str) -> list[str]:
        model = replace(product(rate, top="1%"), targets={"dynamodb": {"billing": "on_demand"}})
        return [one.message for one in designed(model).findings if "begins with" in one.message]

    assert not said("20000/s")
    (message,) = said("30000/s")
    assert "takes 15,000 read units/s at the peak" in message
    assert "12,000 read units/s and 4,000 write units/s" in message


# heat


def product(*rates: str, top: str = "90%", consistency: str = "eventual") -> Model:
    how = f"top: {top}, consistency: {consistency}"
    reads = "\n".join(
        f'read{number}: {{ find: Product, where: "sku = :sku", select: [sku, stock], rate: {rate}, {how} }}'
        for number, rate in enumerate(rates)
    )
    entities = "Product: { count: 10k, fields: { sku: 'string(12), key', name: string(40), stock: int } }"
    return model_of(entities, reads, "sell: { update: Product, where: 'sku = :sku', add: [stock], rate: 1/s }")


def test_patterns_that_are_too_hot_together_do_not_share_a_key() -> None:
    """Each takes 60 % of what a partition can be read."""
    alone = designed(product("4000/s"))
    assert len(alone.views) == 1
    both = designed(product("4000/s", "4000/s"))
    assert not both.unserved
    problem = build_problem(product("4000/s", "4000/s"), ENGINE).problem
    naive = {name for name, view in problem.views.items() if not any(part.ways > 1 for part in view.parts)}
    meeting = heat_of_views(problem, evaluate(problem.crowded_by(NO_CROWDS), naive))
    assert max(sum(share for share, _ in users) for users in meeting.values()) > 1
    taken = [plan.node.view for plan in both.plans.values() if isinstance(plan.node, Search)]
    assert len(set(taken)) == 2
    assert not [finding for finding in both.findings if "together" in finding.message]


def test_patterns_are_kept_apart_in_the_cheapest_way_and_that_is_proven() -> None:
    apart = designed(product("4000/s", "4000/s")).objective
    cool = designed(product("4000/s", "4000/s", top="1%")).objective
    assert cool.gap == 0
    assert apart.value > cool.value
    assert apart.gap == 0
    assert apart.bound == apart.value


def test_explaining_a_structure_keeps_apart_what_is_too_hot_together() -> None:
    """The best design without it is found under the same limits, and rows may go on being read at their home."""

    def without_copies(model: Model) -> dict[str, Any]:
        design = designed(model)
        (copy,) = (name for name, view in design.views.items() if any(part.cut == COPIES for part in view.parts))
        found: dict[str, Any] = explain(model, ENGINE, design, copy)["without"]
        return found

    indexed = without_copies(product("4000/s", "4000/s", "4000/s"))
    assert indexed["instead"] == ["gsi of Product by sku", "gsi of Product by sku"]
    assert indexed["more"] > 0
    assert without_copies(product("2000/s", "2000/s", "2000/s", consistency="strong")) == {
        "possible": False,
        "reason": "'read0' and 'read1' and 'read2' would read the same key too often together",
    }
    cooler = product("2500/s", "2400/s", "4000/s")
    without = explain(cooler, ENGINE, designed(cooler), "Product copy")["without"]
    assert without["possible"]
    assert without["more"] > 0


def test_a_structure_is_not_replaced_by_itself() -> None:
    """Neither by the same key cut otherwise, nor with a condition that the key implies; only what is new is told."""
    model = model_of(
        "Post: { count: 2M, fields: { id: 'int, key', author: 'int, distinct 100k', title: string(40), "
        "state: 'enum(draft 10%, published 90%)', at: 'timestamp, optional 5%' } }",
        """
by_author: { find: Post, where: "author = :author and state = 'published'", order: at desc, page: 20, rate: 50/s }
latest: { find: Post, where: "state = 'published'", order: at desc, page: 20, rate: 50/s }
""",
        "write: { create: Post, rate: 1/s }",
    )
    design = designed(model)
    for structure in design.structures[1:]:
        without = explain(model, ENGINE, design, structure.name)["without"]
        assert without["possible"]
        assert without["more"] > 0
        assert without["instead"]
        here = {view_text(design.views[name]).replace(" and present(at)", "") for name in structure.views}
        assert not here & {text.replace(" and present(at)", "") for text in without["instead"]}


def test_copies_are_made_for_the_sum_of_what_meets() -> None:
    """Four patterns of 60 % each need more copies than one of them would."""
    design = designed(product(*["4000/s"] * 4))
    assert not design.unserved
    loads: dict[str, float] = {}
    for plan in design.plans.values():
        assert isinstance(plan.node, Search)
        loads[plan.node.view] = loads.get(plan.node.view, 0.0) + 0.6
    for name, load in loads.items():
        copies = max((part.ways for part in design.views[name].partition if part.cut == COPIES), default=1)
        assert load / copies <= 1.0


def test_counters_are_sharded_where_they_are_added_to_too_often() -> None:
    def votes(rate: str) -> View:
        entities = """
Product: { count: 10k, fields: { sku: "string(12), key" } }
Vote: { count: 10M, fields: { vote_id: "int, key", product: "Product, as votes, top 60%" } }
"""
        reads = 'votes: { count: Vote, where: "product = :sku", rate: 20000/s, top: 1% }'
        design = designed(model_of(entities, reads, f"cast: {{ create: Vote, rate: {rate} }}"))
        (found,) = (view for view in design.views.values() if view.measures)
        return found

    # Each is added to in a transaction, which takes two units.
    assert [part.ways for part in votes("800/s").partition] == [1]
    assert [part.ways for part in votes("2500/s").partition] == [1, 3]
    assert [part.ways for part in votes("4500/s").partition] == [1, 6]


def logged(rate: str, strong: str) -> int:
    """The shards of what is kept by host, alone or beside what is kept by id; nothing is too hot."""
    fields = "lid: 'ulid, key', at: 'timestamp, now', host: 'string(10), distinct 50, top 90%', body: string(300)"
    model = model_of(
        f"Log: {{ count: 500M, fields: {{ {fields} }} }}",
        f"""
of: {{ find: Log, where: "host = :h", order: at desc, page: 50, rate: 10/s, consistency: strong }}
one: {{ find: Log, where: "lid = :lid", rate: 10/s, consistency: {strong} }}
""",
        f"log: {{ create: Log, rate: {rate}, peak: 1x }}",
    )
    design = designed(model)
    assert [one.message for one in design.findings if "write units/s" in one.message] == []
    by_host = [view for view in design.views.values() if view.parts[0].path == "host"]
    return max(part.ways for view in by_host for part in view.parts)


def test_rows_that_are_written_twice_over_are_spread_for_transactions() -> None:
    """Alone, a row is one put; beside another item of the same row it is written in a transaction, of two units."""
    assert logged("800/s", "eventual") == 1
    assert logged("800/s", "strong") == 2
    assert logged("500/s", "strong") == 1
    assert logged("1900/s", "strong") == 4


def test_an_item_beside_the_home_that_holds_less_is_written_in_transactions() -> None:
    model = model_of(
        "Log: { count: 500M, fields: { lid: 'ulid, key', at: 'timestamp, now', body: string(300), "
        "tags: 'set(string(5), avg 1, max 3), distinct 50, top 90%' } }",
        """
tagged: { find: Log, where: "contains(tags, :tag)", order: at desc, page: 50, rate: 10/s }
one: { find: Log, where: "lid = :lid", rate: 10/s }
""",
        "log: { create: Log, rate: 700/s, peak: 1x }",
    )
    hot = [view for view in designed(model).views.values() if any(part.cut == "each" for part in view.parts)]
    assert [max(part.ways for part in view.parts) for view in hot] == [2]


def test_a_write_that_changes_nothing_of_a_view_does_not_heat_it() -> None:
    entities = """
Room: { count: 1k, fields: { room_id: "int, key" } }
Message:
  count: 10M
  fields: { message_id: "int, key", room: "Room, as messages, top 60%", at: int, likes: int }
"""
    reads = 'of: { find: Message, where: "room = :room", order: at desc, page: 20, select: [at], rate: 50/s }'
    writes = """
post: { create: Message, rate: 100/s }
like: { update: Message, where: "message_id = :message_id", add: [likes], rate: 9000/s }
"""
    (index,) = indexes(designed(model_of(entities, reads, writes))).values()
    assert not any(part.ways > 1 for part in index.partition)


# sizes


def pages(fields: str) -> Model:
    entities = f"Page: {{ count: 1M, fields: {{ page_id: 'uuid, key', {fields} }} }}"
    return model_of(
        entities, 'page: { find: Page, where: "page_id = :page_id", rate: 1/s }', "put: { upsert: Page, rate: 1/h }"
    )


@pytest.mark.parametrize(
    ("fields", "message", "fix"),
    [
        ("body: text(900)", "", ""),
        ("body: 'text(900), max 300k', notes: text(90)", "", ""),
        (
            "body: 'text(900), max 300k', notes: 'text(90), max 200k'",
            "up to 488 KB by its types",
            "give 'body' a smaller max",
        ),
        ("tags: set(string(10))", "any size", "give 'tags' a smaller max"),
    ],
)
def test_rows_that_may_become_too_large_are_named(fields: str, message: str, fix: str) -> None:
    found = [one for one in designed(pages(fields)).findings if "an item of dynamodb has 400 KB" in one.message]
    assert len(found) == bool(message)
    for one in found:
        assert message in one.message
        assert one.fix.startswith(fix)


def test_rows_that_are_too_large_on_average_are_refused() -> None:
    with pytest.raises(
        DesignError,
        match=r"keep a home of 'Page': an item would take 488 KB on average, and dynamodb stores 400 KB; move",
    ):
        designed(pages("body: 'text(500k), max 900k'"))


def test_an_item_is_counted_with_its_entries_in_local_indexes() -> None:
    large = replace(rooms().entities["Message"].columns["body"].type, kind="text", most=250_000)
    model = rooms()
    message = model.entities["Message"]
    columns = {**message.columns, "body": replace(message.columns["body"], type=large)}
    changed = replace(model, entities={**model.entities, "Message": replace(message, columns=columns)})
    design = designed(changed)
    assert any(view.kind == "lsi" for view in design.views.values())
    (found,) = {one.message for one in design.findings if "an item of dynamodb has 400 KB" in one.message}
    assert "its entry in a local index included" in found


def test_no_choice_is_infeasible_by_mistake() -> None:
    """The designs above come from problems in which taking everything is possible, too."""
    problem = build_problem(orders(), ENGINE).problem
    assert evaluate(problem, set(problem.views)).cost < INFEASIBLE


def test_at_most_100_attributes_are_named_in_projections() -> None:
    """Twelve lists of ten columns each: the program itself chooses so that no projection has to be widened."""
    columns = [f"c{number}" for number in range(120)]
    fields = "".join(f"    {column}: int\n" for column in columns)
    groups = "".join(f"    g{number}: int\n" for number in range(12))
    entities = f"Thing:\n  count: 10M\n  fields:\n    thing_id: uuid, key\n{groups}{fields}    body: text(9000)\n"
    reads = "".join(
        f'p{n}: {{ find: Thing, where: "g{n} = :g", page: 20, select: [{", ".join(some)}], rate: 9/s }}\n'
        for n, some in enumerate(zip(*[iter(columns)] * 10, strict=True))
    )
    model = model_of(entities, reads, "make: { create: Thing, rate: 1/s }")
    design = designed(model)
    named = [one.settings.get("attributes", ()) for one in design.structures if one.kind == "gsi"]
    assert 50 < sum(len(one) for one in named) <= 100  # type: ignore[arg-type]
    for structure in design.structures[1:]:
        for name in structure.views:
            assert structure.settings["projection"] == projection_of(model, design.views[name])


def test_what_is_asked_of_a_row_may_be_asked_of_its_children() -> None:
    """Orders of a product within some days: items repeat the time of their order, so that no other order is read."""
    entities = """
Order: { count: 10M, fields: { order_id: "int, key", placed: "timestamp, immutable", total: int } }
Item:
  count: 30M
  key: [order, line]
  fields: { order: "Order, as items, max 50", line: int, product: "string(12), distinct 10k" }
"""
    reads = 'orders: { find: Order, where: "items.product = :product and placed between :start and :end", rate: 10/s }'
    design = designed(model_of(entities, reads, "place: { create: Order, with: [items], rate: 1/s }"))
    first = next(searches(design.plans["orders"].node))
    assert [str(condition.path) for condition in first.given] == ["product", "order.placed"]


# keys that may be too long, and views that nothing can keep true

DROPS = """
Drop:
  count: 20M
  fields: {{ drop_id: "ulid, key", owner: "int, distinct 1M", item: "Item, as drops", at: "timestamp, optional 90%" }}
Item: {{ count: {items}, fields: {{ item_id: "{key}, key", label: string(5), rarity: "int" }} }}
"""
RELABEL = 'relabel: { update: Item, set: [label, rarity], where: "item_id = :item", rate: 10/day }'


def test_a_reference_may_be_a_key_where_its_target_s_key_is_one() -> None:
    """Bytes without a `max` may be longer than a key; what leads to a row under such a key is no longer than that."""
    rare = 'rare: { find: Drop, where: "item.rarity = :rarity", order: at desc, limit: 4, rate: 5/s }'
    costs = [
        designed(model_of(DROPS.format(items="3k", key=key), rare, RELABEL)).objective.value
        for key in ("bytes(6)", "string(6)")
    ]
    assert costs[0] == pytest.approx(costs[1], rel=0.1)


def test_a_text_that_may_be_too_long_for_a_key_is_the_reason() -> None:
    pages = 'Page: { count: 1M, fields: { page_id: "uuid, key", title: "text(40)" } }'
    reads = """
titled: { find: Page, where: "title = :title", rate: 1/s }
sorted: { find: Page, order: title, page: 5, rate: 1/s }
"""
    design = designed(model_of(pages, reads))
    limits = "the 2,048 B of a partition key or the 1,024 B of a sort key"
    reason = f"'title' may be longer than {limits}; give it a smaller max"
    assert [reason in design.unserved[name].reason for name in ("titled", "sorted")] == [True, True]
    assert not designed(model_of(pages.replace("text(40)", "text(40), max 500"), reads)).unserved
    some = designed(model_of(pages.replace("text(40)", "text(40), max 1500"), reads)).unserved
    assert list(some) == ["sorted"]
    assert "'title' may be longer than the 1,024 B of a sort key; give it a smaller max" in some["sorted"].reason


def test_a_pattern_whose_views_nothing_can_keep_true_is_unserved_alone() -> None:
    """A label stands in millions of drops, which partitions of this size cannot be asked for by their item."""
    reads = """
labelled:
  { find: Drop, where: "owner = :owner and begins_with(item.label, :begin)", order: item.label, page: 4, p99: 11ms }
drop: { find: Drop, where: "drop_id = :drop_id" }
"""
    model = model_of(DROPS.format(items="3", key="string(6)"), reads, RELABEL)
    design = designed(replace(model, targets={"dynamodb": {"partition_mb": "1"}}))
    assert list(design.unserved) == ["labelled"]
    assert "drop" in design.plans
    assert "relabel" in design.writes


def test_rows_are_not_read_again_for_each_bucket_that_they_do_not_lie_in() -> None:
    """Members by month are counted for another pattern; that says nothing about the members of a guild."""
    entities = """
Guild: { count: 1k, fields: { tag: "string(4), key" } }
Member:
  count: 300k
  fields:
    member_id: int, key
    guild: Guild, as members, skew zipf 1.1
    joined: date, now
    loot: sum(drops.worth)
Drop:
  count: 20M
  ttl: 30d
  key: [member, number]
  fields: { member: "Member, as drops", number: int, worth: int }
"""
    lootful = 'lootful: { find: Member, where: "guild = :guild", order: loot desc, page: 3, rate: 5/s }'
    counted = "by_month: { count: Member, group: { month: month(joined) }, rate: 1/min }"
    alone, beside = (designed(model_of(entities, reads)) for reads in (lootful, f"{lootful}\n{counted}"))
    assert [len(list(searches(design.plans["lootful"].node))) for design in (alone, beside)] == [2, 2]


# what the model asks for


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"billing": "provisoned"}, "targets.dynamodb.billing: 'provisoned' is no mode; say on_demand or provisioned"),
        ({"biling": "on_demand"}, "targets.dynamodb: there is no 'biling'; did you mean 'billing'?"),
        ({"multi_attribute_keys": "yes"}, "'yes' is neither true nor false"),
        ({"partition_mb": "0"}, "'0' is no size"),
    ],
)
def test_a_wish_that_means_nothing_is_refused(said: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)):
        designed(replace(orders(), targets={"dynamodb": said}))


def test_all_wishes_that_mean_nothing_are_told_at_once() -> None:
    said = {
        "biling": "on_demand",
        "multi_attribute_keys": "maybe",
        "partition_mb": "-3",
        "latencies": {"query_ms": "fast", "scan": "3", "get_ms": "-1"},
    }
    with pytest.raises(ArgumentError) as caught:
        designed(replace(orders(), targets={"dynamodb": said, "dynamo": {}}))
    assert [line.partition(": ")[0] for line in str(caught.value).splitlines()] == [
        "targets",
        "targets.dynamodb",
        "targets.dynamodb.multi_attribute_keys",
        "targets.dynamodb.partition_mb",
        "targets.dynamodb.latencies.query_ms",
        "targets.dynamodb.latencies",
        "targets.dynamodb.latencies.get_ms",
    ]


def test_several_attributes_are_an_option_that_can_be_declined() -> None:
    def native(said: str) -> bool:
        design = designed(replace(orders(), targets={"dynamodb": {"multi_attribute_keys": said}}))
        return any(one.settings.get("native") for one in design.structures)

    assert [native(said) for said in ("true", "false")] == [True, False]


# values that are found apart


def parts(changed: str) -> Model:
    return model_of(
        "Part: { count: 50M, fields: { id: 'uuid, key', shelf: 'string(8), distinct 100k', "
        "maker: 'string(8), distinct 100k', sheet: json(6000) } }",
        """
of_shelf: { find: Part, where: "shelf = :v", select: [id], page: 1000, rate: 100/s }
of_maker: { find: Part, where: "maker = :v", select: [id], page: 1000, rate: 100/s }
both: { find: Part, where: "shelf = :v and maker = :w", page: 20, rate: 10/s }
""",
        f"""
make: {{ create: Part, rate: 5/s }}
shelve: {{ update: Part, set: [shelf], where: "id = :id", rate: {changed} }}
buy: {{ update: Part, set: [maker], where: "id = :id", rate: {changed} }}
""",
    )


@pytest.mark.parametrize(("changed", "apart"), [("200/s", True), ("1/s", False)])
def test_two_values_with_indexes_of_their_own_need_no_third_where_both_change_often(changed: str, apart: bool) -> None:
    design = designed(parts(changed))
    node = design.plans["both"].node
    assert (isinstance(node, Extend) and isinstance(node.rows, Intersect)) == apart
    assert len(indexes(design)) == 2
    assert any(len(view.parts) == 3 for view in indexes(design).values()) != apart  # one by both values


# limits of partitions and requests


def test_what_is_written_in_a_transaction_takes_twice_the_capacity_of_a_partition() -> None:
    """950 counts a second of one video are 1,900 write units, and a partition takes 1,000."""
    entities = """
Video: { count: 10k, fields: { id: "string(8), key", name: string(40), views: count(seen) } }
View: { count: 400G, fields: { id: "ulid, key", video: "Video, as seen, top 95%", who: uuid } }
"""
    asked = 'video: { find: Video, where: "id = :id", rate: 2k/s, p99: 20ms }'

    def shards(rate: str) -> int:
        design = designed(model_of(entities, asked, f"see: {{ create: View, rate: {rate} }}"))
        (sums,) = [view for view in design.views.values() if view.measures]
        return max(part.ways for part in sums.parts)

    assert [shards(rate) for rate in ("500/s", "1k/s", "3k/s")] == [1, 2, 6]


def test_an_entry_that_moves_is_written_twice() -> None:
    entities = """
Thing: { count: 100M, fields: { id: "uuid, key", state: "enum(a 50%, b 50%)", at: "timestamp, now", pad: string(300) } }
"""
    asked = 'by: { find: Thing, where: "state = :state", order: at, page: 50, rate: 10/s, p99: 50ms }'

    def shards(sets: str) -> int:
        flip = f'flip: {{ update: Thing, set: [{sets}], where: "id = :id", rate: 3k/s }}'
        writes = f"{flip}\nadd: {{ create: Thing, rate: 1/s }}"
        (index,) = indexes(designed(model_of(entities, asked, writes))).values()
        return max(part.ways for part in index.parts)

    assert (shards("state"), shards("pad")) == (4, 1)


def test_an_item_counts_with_its_entries_in_local_indexes() -> None:
    def whole(size: str) -> list[str]:
        entities = f"""
Room: {{ count: 1k, fields: {{ room_id: "int, key", name: string(20) }} }}
Said:
  count: 50k
  key: [room, at]
  fields: {{ room: "Room, as all", at: timestamp, stars: "int, default 0", body: "text({size}), max 300kB" }}
"""
        asked = """
newest: { find: Said, where: "room = :room", order: at desc, page: 20, rate: 50/s, consistency: strong }
starred: { find: Said, where: "room = :room", order: stars desc, page: 20, rate: 50/s, consistency: strong }
"""
        views = build_problem(model_of(entities, asked, "say: { create: Said, rate: 1/h }"), ENGINE).problem.views
        return [name for name, view in views.items() if view.kind == "lsi" and "body" in view.holds]

    assert whole("100kB")
    assert not whole("250kB")


def test_a_call_of_too_many_bytes_is_told() -> None:
    def told(size: str) -> list[str]:
        entities = f"""
Job: {{ count: 10k, fields: {{ id: "int, key", name: string(10) }} }}
Part:
  count: 500k
  key: [job, number]
  fields: {{ job: "Job, as parts, max 60", number: int, blob: "text({size}), max 100kB" }}
"""
        asked = 'job: { find: Job, where: "id = :id", with: [parts], rate: 1/s }'
        design = designed(model_of(entities, asked, "add: { create: Job, with: [parts], rate: 1/h }"))
        return [one.message for one in design.findings if one.path == "writes.add"]

    assert told("9kB") == []
    assert told("90kB") == ["a usual call writes 4.29 MB, and one of more than 4 MB is refused"]


def test_a_model_of_which_no_row_can_be_kept_is_refused_with_the_reason() -> None:
    model = model_of(
        'Doc: { count: 1k, fields: { id: "string(2500), max 4000, key", a: string(30) } }',
        'get: { find: Doc, where: "id = :id", rate: 1/h }',
        "put: { create: Doc, rate: 1/h }",
    )
    with pytest.raises(DesignError, match="no way to keep a home of 'Doc': its partition key takes 2,501 B"):
        designed(model)


def test_a_unique_value_that_cannot_be_guarded_is_refused_with_the_reason() -> None:
    model = model_of(
        'Doc: { count: 1k, fields: { id: "int, key", title: "text(3000), unique" } }',
        'get: { find: Doc, where: "title = :title", rate: 1/h }',
        "put: { create: Doc, rate: 1/h }",
    )
    reason = "no way to keep a guard of unique title of 'Doc': its partition key takes 3,001 B on average of 2,048 B"
    with pytest.raises(DesignError, match=reason):
        designed(model)


@pytest.mark.parametrize(("most", "served"), [(1500, True), (2048, True), (2100, False)])
def test_partition_keys_may_be_longer_than_sort_keys(most: int, served: bool) -> None:
    model = model_of(
        f'Doc: {{ count: 10M, fields: {{ id: "int, key", path: "string(100), max {most}, distinct 1M" }} }}',
        'at: { find: Doc, where: "path = :path", page: 20, rate: 1/s }',
        "put: { create: Doc, rate: 1/h }",
    )
    design = designed(model)
    assert ("at" not in design.unserved) == served
    if not served:
        assert "'path' may be longer than the 2,048 B of a partition key" in design.unserved["at"].reason
    whole = designed(
        model_of(
            'Doc: { count: 1k, fields: { id: "string(1500), max 1900, key", a: string(30) } }',
            'get: { find: Doc, where: "id = :id", rate: 1/h }',
            "put: { create: Doc, rate: 1/h }",
        )
    )
    assert [str(part) for part in whole.views[whole.homes["Doc"][0]].partition] == ["id"]


def test_a_row_that_a_write_reads_for_several_reasons_is_told_once() -> None:
    """The store reads it once, for snapshots and for every copy."""
    model = load_model("examples/shop.yaml")
    steps = explain(model, ENGINE, designed(model), "place_order")["steps"]
    reads = [(step["view"], *step["where"]) for step in steps if step["op"] == "get"]
    assert len(reads) == len(set(reads)) == 3
    (product,) = (step for step in steps if step["op"] == "get" and step["view"] == "Product")
    assert product["why"] == "values to keep and values to copy in"


def test_calls_in_transactions_take_twice_the_capacity_of_a_partition() -> None:
    """600 a second of one product are 600 write units; 1,200 where each is made together with an order."""
    entities = """
Product: { count: 10k, fields: { sku: "string(12), key", stock: int } }
Order: { count: 1M, fields: { order_id: "string(12), key", total: decimal(2) } }
"""
    asked = """
product: { find: Product, where: "sku = :sku", rate: 100/s }
order: { find: Order, where: "order_id = :order_id", rate: 100/s }
"""
    writes = """
place: { create: Order, rate: 600/s, peak: 1x }
take: { update: Product, add: { stock: "-:n" }, where: "sku = :sku", rate: 600/s, peak: 1x, top: 100% }
"""

    def told(rate: str) -> list[str]:
        model = model_of(entities, asked, writes, f"buy: {{ writes: [place, take], rate: {rate} }}" if rate else "")
        return [one.message for one in designed(model).findings if "write units/s" in one.message]

    assert told("") == []
    assert told("300/s") == []
    (all_of_them,) = told("600/s")
    assert "takes 1200 write units/s" in all_of_them


def test_the_rest_of_rows_is_fetched_from_a_home_in_shards() -> None:
    """Which shard a row is in is told by its key: its pointers need not hold its text for that."""
    model = replace(parse_model(f"keyplan: 1\nname: notes\n{LARGE}"), targets={"dynamodb": {"partition_mb": "3"}})
    design = designed(model)
    home = design.views[design.homes["Note"][0]]
    assert [str(part) for part in home.partition] == ["ticket", "shard of 2"]
    found = [search for search in searches(design.plans["whole"].node) if search.view == home.name]
    assert [str(condition.path) for search in found for condition in search.given] == ["ticket", "weight", "n"]
