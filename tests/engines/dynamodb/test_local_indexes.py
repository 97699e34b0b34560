"""Local indexes: chosen for strong orders where that is cheapest, within AWS's limits, made with a table only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import keyplan
from keyplan.design.problem.build import build_problem
from keyplan.design.problem.definition import INFEASIBLE, evaluate
from keyplan.design.program.solve import solve
from keyplan.engines.codec import Span
from keyplan.engines.dynamodb import ENGINE
from keyplan.engines.dynamodb.capacity import capacities
from keyplan.engines.dynamodb.couplings import largest_collection
from keyplan.engines.dynamodb.emit import emit
from keyplan.engines.dynamodb.limits import GB
from keyplan.engines.dynamodb.operations import Request
from keyplan.errors import DesignMismatchError, UnsupportedError
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.edits import Edit
from keyplan.plan.steps import Search
from keyplan.plan.view import View
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import (
    ALL,
    BY_USER,
    Lab,
    apply,
    design_of,
    lab,
    little_model,
    parts,
    rooms,
    url_of,
)
from tests.engines.dynamodb.test_codec import ANN, order
from tests.strategies.design import proof
from tests.unit.design.exhaustive import chosen_by, cost_table, restricted
from tests.unit.design.nouns import model_of

CHAT = """
Room:
  count: 10k
  fields:
    room_id: int, key
    name: string(20)
Message:
  count: {messages}
  key: [room, seq]
  fields:
    room: Room, as messages{skew}
    seq: int
    stars: int
    body: text({body})
"""
READS = """
recent: {{ find: Message, where: "room = :room", order: seq desc, page: 20, rate: 100/s, consistency: strong }}
starred: {{ find: Message, where: "room = :room", order: stars desc, page: 20, rate: 20/s{more} }}
"""
WRITES = """
post: { create: Message, rate: 20/s }
star: { update: Message, where: "room = :room and seq = :seq", set: [stars], rate: 1/s }
"""


def chat(consistency: str = "strong", messages: str = "10M", body: int = 300, skew: str = "", more: str = "") -> Model:
    entities = CHAT.format(messages=messages, body=body, skew=skew)
    reads = READS.format(more=f", consistency: {consistency}{more}")
    return model_of(entities, reads, WRITES)


def designed(model: Model) -> Design:
    return keyplan.design(model, "dynamodb")


def kinds(design: Design) -> dict[str, str]:
    return {view.name: view.kind for view in design.views.values() if view.entity == "Message"}


# the choice


def test_a_strong_second_order_is_a_local_index() -> None:
    design = designed(chat())
    assert kinds(design) == {"Message": "table", "Message by stars": "lsi"}
    local = design.views["Message by stars"]
    assert local.base == "Message"
    assert local.partition == design.views["Message"].partition
    # A second copy in the table would make every post a transaction, which costs twice.
    without = [name for name, view in design.views.items() if view.kind != "lsi"]
    copy = replace(local, kind="table", base="")
    problem = build_problem(chat(), ENGINE, given={"copy": [copy]})
    names = [n for n, v in problem.problem.views.items() if v.kind != "lsi"]
    other = solve(restricted(problem.problem, names))
    assert other is not None
    assert len(without) == 2
    assert other.value > design.objective.value * 1.2


def test_an_order_that_may_be_late_is_a_global_index() -> None:
    assert kinds(designed(chat("eventual", body=200)))["Message by stars"] == "gsi"


def test_no_local_index_over_partitions_that_pass_10_gb() -> None:
    """A fifth of 200 million messages in one room is more than a collection may hold beside a local index."""
    large = chat(messages="200M", skew=", top 20%")
    built = build_problem(large, ENGINE)
    home = next(v for v in built.problem.views.values() if v.entity == "Message" and v.kind == "table")
    assert largest_collection(large, home, built.problem.facts[home.name]) > 10 * GB
    assert "lsi" not in kinds(designed(large)).values()
    assert "lsi" in kinds(designed(chat(messages="200M"))).values()


def test_views_that_share_a_collection_share_the_10_gb() -> None:
    """9 GB of messages leave no room for their entries in the index, not even for keys alone."""
    fitting = chat(messages="200M", skew=", top 13%")
    built = build_problem(fitting, ENGINE)
    views = [view for view in built.problem.views.values() if view.entity == "Message" and view.kind != "gsi"]
    sizes = [largest_collection(fitting, view, built.problem.facts[view.name]) for view in views]
    assert max(sizes) < 10 * GB
    assert "lsi" not in kinds(designed(fitting)).values()


def test_one_local_index_limits_every_partition_of_the_table() -> None:
    """Rows of another entity, 10 GB and more of them under one key, forbid local indexes anywhere in the table."""
    entities = CHAT.format(messages="10M", body=300, skew="")
    entities += """
Visit:
  count: 300M
  key: [page, visit_id]
  fields:
    page: string(20), distinct 1000, top 20%
    visit_id: uuid
    agent: string(200)
"""
    visits = 'visits: {{ find: Visit, where: "page = :page", page: 20, rate: 50/s, consistency: strong }}'.format()
    reads = READS.format(more=", consistency: strong")
    both = model_of(entities, reads + visits, WRITES + "visit: { create: Visit, rate: 5/s }")
    assert "lsi" not in kinds(designed(both)).values()
    few = model_of(entities.replace("300M", "3M"), reads + visits, WRITES + "visit: { create: Visit, rate: 5/s }")
    assert "lsi" in kinds(designed(few)).values()


@proof(12)
@given(
    messages=st.sampled_from(["100k", "10M", "200M", "1G"]),
    skew=st.sampled_from(["", ", top 1%", ", top 4%", ", top 30%"]),
    body=st.sampled_from([30, 300, 3000]),
    consistency=st.sampled_from(["strong", "eventual"]),
    seed=st.integers(0, 100),
)
def test_the_program_is_exact_with_the_coupling(
    messages: str, skew: str, body: int, consistency: str, seed: int
) -> None:
    problem = build_problem(chat(consistency, messages, body, skew), ENGINE).problem
    assert len(problem.views) <= 16
    table = cost_table(problem)
    solution = solve(problem)
    assert solution is not None
    assert solution.value == pytest.approx(float(table.min()), rel=1e-6)
    event(f"local: {any(problem.views[name].kind == 'lsi' for name in solution.chosen)}")
    for choice in range(seed, len(table), 101):
        found = evaluate(problem, chosen_by(problem, choice)).cost
        expected = float(table[choice])
        assert found == INFEASIBLE if expected == INFEASIBLE else found == pytest.approx(expected, rel=1e-9)


def test_at_most_five_local_indexes() -> None:
    """Six strong orders: five of them, or fewer and a copy, but never a sixth."""
    columns = [f"n{number}" for number in range(6)]
    entities = "Room:\n  count: 10k\n  fields:\n    room_id: int, key\nMessage:\n  count: 10M\n  key: [room, seq]\n"
    entities += "  fields:\n    room: Room, as messages\n    seq: int\n"
    entities += "".join(f"    {column}: int\n" for column in columns) + "    body: string(300)\n"
    reads = "".join(
        f'by_{c}: {{ find: Message, where: "room = :room", order: {c}, page: 20, rate: 20/s, consistency: strong }}\n'
        for c in columns
    )
    design = designed(model_of(entities, reads, "post: { create: Message, rate: 50/s }"))
    assert not design.unserved
    assert sum(one.kind == "lsi" for one in design.structures) <= 5
    assert sum(one.kind == "lsi" for one in design.structures) >= 4


# on servers

LOCAL = View("by total", "Order", "lsi", BY_USER.partition, parts("total", "order_id"), ALL[0].holds, base="by user")
SPARSE = View(
    "by flag", "Order", "lsi", BY_USER.partition, parts("flagged", "order_id"), ("order_id", "flagged"), base="by user"
)
VIEWS = (*(view for view in ALL if view.name != "by total"), LOCAL, SPARSE)


def test_writes_take_the_units_that_are_expected(local: Server) -> None:
    """One unit per entry made, changed or removed, two for one that moves; nothing for a row without an entry."""
    with lab(local.url, VIEWS) as here:
        row = order(flagged=None)
        assert units(here, "put", row) == {"by user": 1.0, "LSI1": 1.0}
        assert units(here, "patch", row, stock=4) == {"by user": 1.0, "LSI1": 1.0}
        assert units(here, "patch", row, total=row["total"] + 1) == {"by user": 1.0, "LSI1": 2.0}
        assert units(here, "patch", row, flagged="late") == {"by user": 1.0, "LSI1": 1.0, "LSI2": 1.0}
        assert units(here, "delete", row) == {"by user": 1.0, "LSI1": 1.0, "LSI2": 1.0}


def units(here: Lab, do: str, row: dict[str, Any], **changed: Any) -> dict[str, float]:
    """The write units of one edit of 'by user', per structure."""
    row |= changed
    key = (row["user"], row["created_at"], row["order_id"])
    edit = Edit("by user", do, key, (), changed or (row if do == "put" else {}), entry=row)
    request = here.codec.write([edit])
    body = {**request.body, "ReturnConsumedCapacity": "INDEXES"}
    (reply,) = here.port.send([Request(request.operation, body)])
    about = reply["ConsumedCapacity"]
    found = {"by user": about["Table"]["CapacityUnits"]}
    return found | {name: one["CapacityUnits"] for name, one in about.get("LocalSecondaryIndexes", {}).items()}


def test_a_strong_read_of_a_local_index(server: Server) -> None:
    with lab(server.url, VIEWS) as here:
        rows = [
            order(number, total=order()["total"] - number, flagged="x" if number == 2 else None) for number in (1, 2, 3)
        ]
        here.bulk(*(Edit("by user", "put", (r["user"], r["created_at"], r["order_id"]), (), r) for r in rows))
        search = Search("by total", takes=("order_id", "total"), descending=False)
        (found,) = here.read(search, [Span((ANN,))], strong=True)
        assert [row["order_id"] for row in found] == [3, 2, 1]
        (flagged,) = here.read(Search("by flag", takes=("order_id", "flagged")), [Span((ANN,))], strong=True)
        assert flagged == [{"order_id": 2, "flagged": "x"}]
        with pytest.raises(UnsupportedError, match="a global index of dynamodb cannot be read strongly"):
            here.read(Search("by status", takes=("order_id",)), [Span(("pending",))], strong=True)


def test_a_local_index_cannot_be_added(server: Server) -> None:
    model = little_model()
    url = url_of(server.url)
    plain = tuple(view for view in VIEWS if view.kind != "lsi")
    port = ENGINE.connect(url, model, None)
    try:
        apply(model, design_of(model, plain), port)
        with pytest.raises(DesignMismatchError, match=r"lacks the local index 'LSI1'.*; apply to a new table and load"):
            apply(model, design_of(model, VIEWS), port)
    finally:
        port.close()


def test_a_local_index_cannot_be_changed_or_dropped(server: Server) -> None:
    model = little_model()
    port = ENGINE.connect(url_of(server.url), model, None)
    try:
        assert apply(model, design_of(model, VIEWS), port)
        assert apply(model, design_of(model, VIEWS), port) == []
        with pytest.raises(
            DesignMismatchError, match=r"has the local index 'LSI2', which limits .*; name another table"
        ):
            apply(model, design_of(model, [view for view in VIEWS if view.name != "by flag"]), port)
        keys = replace(LOCAL, holds=("order_id", "user", "total"))
        with pytest.raises(DesignMismatchError, match="has another local index 'LSI1'"):
            apply(model, design_of(model, [keys if view.name == "by total" else view for view in VIEWS]), port)
    finally:
        port.close()


# in files and figures


def test_the_strong_orders_have_local_indexes() -> None:
    """So that the conformance tests of that model test local indexes: shared, sparse, over embedded rows."""
    design = designed(rooms())
    local = [one for one in design.structures if one.kind == "lsi"]
    assert [one.name for one in local] == ["LSI1", "LSI2", "LSI3"]
    assert local[0].views == ("Message by stars", "Reply by votes")
    assert design.views["Reply by votes"].base == "Room"
    assert design.homes["Reply"] == ("Room", ("replies",))


def test_a_local_index_has_the_capacity_of_its_table() -> None:
    design = designed(rooms())
    given = capacities(rooms(), design)
    table = given[next(one.name for one in design.structures if one.kind == "table")]
    writes = sum(
        touch.units["write units"] * rooms().writes[name].traffic.rate
        for name, write in design.writes.items()
        for touch in write.touches
    )
    assert table.write.start == pytest.approx(writes / 0.7, abs=1.0)
    provisioned = replace(design, settings={**design.settings, "billing": "provisioned"})
    (text,) = emit(rooms(), provisioned, "cloudformation").values()
    assert "index/LSI" not in text


def test_a_request_in_words_names_the_local_index() -> None:
    model, design = rooms(), designed(rooms())
    search = design.plans["starred"].node
    assert isinstance(search, Search)
    text = ENGINE.words(model, design, search)
    assert '"IndexName": "LSI1"' in text
    assert "PK = :pk AND begins_with(LSI1SK, :sk)" in text


def test_workbench_files_say_what_they_cannot_show() -> None:
    (text,) = emit(rooms(), designed(rooms()), "workbench").values()
    assert "Indexes that Workbench does not show: LSI1 (PK; LSI1SK; INCLUDE)" in text
    assert '"LSI1SK"' in text
