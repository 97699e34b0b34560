"""What apply does to a table: creates, completes, records, and refuses what is not ours or would strand rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import keyplan
from keyplan.engines.changing import Catalog
from keyplan.engines.dynamodb import ENGINE
from keyplan.engines.dynamodb.capacity import capacities
from keyplan.engines.dynamodb.changes import table_definition
from keyplan.engines.dynamodb.faults import RefusedError
from keyplan.engines.dynamodb.layout import layout
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.dynamodb.refill import Refill
from keyplan.engines.dynamodb.waiting import until_active
from keyplan.engines.ports import Port
from keyplan.engines.rounds import Pause
from keyplan.errors import ConflictError, DesignError, DesignMismatchError, UncertainError
from keyplan.model.load import parse_model
from keyplan.plan.lockfile import design_hash
from keyplan.store.open import settled_design
from tests.engines.dynamodb.meter import Metered
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import (
    ALL,
    BY_DAY,
    BY_STATUS,
    BY_USER,
    MODEL,
    ORDERS,
    apply,
    design_of,
    drive,
    little_model,
    url_of,
)
from tests.unit.design.nouns import model_of

LITTLE = little_model()


@pytest.fixture
def port(server: Server) -> Iterator[Port]:
    found = ENGINE.connect(url_of(server.url), LITTLE, None)
    yield found
    found.close()


def send(port: Port, operation: str, body: dict[str, Any]) -> Any:
    (reply,) = port.send([Request(operation, body)])
    if isinstance(reply, Exception):
        raise reply
    return reply


def described(port: Port) -> Any:
    return send(port, "DescribeTable", {})["Table"]


def found_by(port: Port) -> Catalog:
    found: Catalog = drive(ENGINE.inspect(LITTLE, design_of(LITTLE, ALL)), port)
    return found


def put(port: Port, pk: str = "ORDER#a1") -> None:
    send(port, "PutItem", {"Item": {"PK": {"S": pk}, "SK": {"S": "ORDER#"}}})


def test_a_new_table(port: Port) -> None:
    assert found_by(port) == Catalog(found={"table": None})
    assert apply(LITTLE, design_of(LITTLE, ALL), port) == [
        "create the table, paid by request, with GSI1, GSI2, GSI3",
        "let items expire by 'ttl'",
        "record the design in the partition KEYPLAN",
    ]
    table = described(port)
    assert [one["AttributeName"] for one in table["KeySchema"]] == ["PK", "SK"]
    projections = {one["IndexName"]: one["Projection"] for one in table["GlobalSecondaryIndexes"]}
    assert projections["GSI1"] == {"ProjectionType": "ALL"}
    assert projections["GSI2"] == {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["total"]}
    assert projections["GSI3"] == {"ProjectionType": "KEYS_ONLY"}
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    found = found_by(port)
    assert (found.design_hash, found.lock) == (design_hash("lock 1"), "lock 1")
    assert found.found["ttl"] == "ttl"


def test_applying_twice_does_nothing(port: Port) -> None:
    design = design_of(LITTLE, ALL)
    apply(LITTLE, design, port)
    put(port)
    assert apply(LITTLE, design, port) == []
    assert apply(LITTLE, design, port, "lock 2") == ["record the design in the partition KEYPLAN"]
    assert apply(LITTLE, design, port, "lock 2") == []


def test_a_crash_between_the_steps_is_made_good(port: Port) -> None:
    design = design_of(LITTLE, ALL)
    first, *_ = ENGINE.changes(LITTLE, design, "lock 1", found_by(port))
    drive(first.run(), port)
    drive(first.run(), port)  # somebody else has created it in the meantime
    assert apply(LITTLE, design, port) == [
        "let items expire by 'ttl'",
        "record the design in the partition KEYPLAN",
    ]


def test_indexes_come_and_go_one_at_a_time(port: Port) -> None:
    apply(LITTLE, design_of(LITTLE, (ORDERS, BY_STATUS)), port)
    done = apply(LITTLE, design_of(LITTLE, (ORDERS, BY_DAY, replace(BY_STATUS, name="again"))), port, "lock 2")
    assert done == [
        "note in the record that the table is being changed, so that nobody opens it meanwhile",
        "see that nobody has written a row meanwhile",
        "create the index GSI2 (INCLUDE) and fill it",
        "record the design in the partition KEYPLAN",
    ]
    done = apply(LITTLE, design_of(LITTLE, (ORDERS, BY_DAY)), port, "lock 3")
    assert done == [
        "note in the record that the table is being changed, so that nobody opens it meanwhile",
        "see that nobody has written a row meanwhile",
        "delete the index GSI1, which can be made again",
        "delete the index GSI2, which can be made again",
        "create the index GSI1 (INCLUDE) and fill it",
        "record the design in the partition KEYPLAN",
    ]
    (index,) = described(port)["GlobalSecondaryIndexes"]
    assert (index["IndexName"], index["IndexStatus"]) == ("GSI1", "ACTIVE")
    assert index["Projection"]["ProjectionType"] == "INCLUDE"


def make_index(port: Port, name: str, *keys: str) -> None:
    """An index as somebody else would make it."""
    schema = [{"AttributeName": key, "KeyType": role} for key, role in zip(keys, ("HASH", "RANGE"), strict=False)]
    create = {"IndexName": name, "KeySchema": schema, "Projection": {"ProjectionType": "ALL"}}
    definitions = [{"AttributeName": key, "AttributeType": "S"} for key in keys]
    send(
        port,
        "UpdateTable",
        {"AttributeDefinitions": definitions, "GlobalSecondaryIndexUpdates": [{"Create": create}]},
    )
    drive(until_active(), port)


def index_names(port: Port) -> list[str]:
    return sorted(one["IndexName"] for one in described(port).get("GlobalSecondaryIndexes", ()))


def test_an_index_of_somebody_else_is_left_alone_and_named(port: Port) -> None:
    apply(LITTLE, design_of(LITTLE, (ORDERS, BY_STATUS)), port)
    put(port)
    make_index(port, "theirs", "email")
    make_index(port, "GSI9", "GSI9PK", "GSI9SK")  # it looks like ours, but no design of ours has it
    leaves = [
        f"the index {name}, which no design of keyplan has had here; each write is paid for in it too, so delete it "
        "if nobody needs it"
        for name in ("GSI9", "theirs")
    ]
    assert apply(LITTLE, design_of(LITTLE, (ORDERS, BY_STATUS)), port) == leaves
    done = apply(LITTLE, design_of(LITTLE, (ORDERS,)), port, "lock 2")
    assert [one for one in done if "index" in one and "changed" not in one] == [
        *leaves,
        "delete the index GSI1, which can be made again",
        "take the keys of indexes that are gone out of the items that are there",
    ]
    assert index_names(port) == ["GSI9", "theirs"]


def test_an_index_of_somebody_else_under_a_name_of_ours_is_refused(port: Port) -> None:
    apply(LITTLE, design_of(LITTLE, (ORDERS,)), port)
    make_index(port, "GSI1", "email")
    with pytest.raises(DesignMismatchError, match="the table has an index 'GSI1' that no design of keyplan has had"):
        apply(LITTLE, design_of(LITTLE, (ORDERS, BY_STATUS)), port, "lock 2")
    assert index_names(port) == ["GSI1"]


def test_indexes_of_a_change_that_was_cut_off_are_our_own(port: Port) -> None:
    """Those that are made before the design is recorded, on a table without rows too."""
    apply(LITTLE, design_of(LITTLE, (ORDERS,)), port)
    for rows in (False, True):
        if rows:
            put(port)
        found = found_by(port)
        for change in ENGINE.changes(LITTLE, design_of(LITTLE, (ORDERS, BY_STATUS)), "lock 2", found)[:-1]:
            drive(change.run(), port)
        assert index_names(port) == ["GSI1"]
        done = apply(LITTLE, design_of(LITTLE, (ORDERS, BY_DAY)), port, "lock 3")
        assert "delete the index GSI1, which can be made again" in done
        done = apply(LITTLE, design_of(LITTLE, (ORDERS,)), port, "lock 4")
        assert "delete the index GSI1, which can be made again" in done


def test_a_lost_index_is_made_again_and_filled(port: Port) -> None:
    design = design_of(LITTLE, (ORDERS, BY_STATUS))
    apply(LITTLE, design, port)
    item = {"PK": {"S": "ORDER#a1"}, "SK": {"S": "ORDER#"}, "GSI1PK": {"S": "x"}, "GSI1SK": {"S": "y"}}
    send(port, "PutItem", {"Item": item})
    send(port, "UpdateTable", {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "GSI1"}}]})
    assert len(apply(LITTLE, design, port)) == 2
    assert send(port, "Scan", {"IndexName": "GSI1"})["Count"] == 1


def test_verify_finds_and_makes_a_deleted_index(server: Server) -> None:
    pattern = 'of_user: { find: Note, where: "owner = :owner", order: made desc, page: 5, rate: 50/s }'
    model = model_of(
        "Note: { count: 1M, fields: { nid: 'int, key', owner: 'int, distinct 10k', made: timestamp } }",
        pattern,
        "jot: { create: Note, rate: 1/s }",
    )
    url = url_of(server.url)
    keyplan.apply(model, url)
    with keyplan.open(model, url) as store:
        store.jot(nid=1, owner=2, made="2030-01-01T00:00:00Z")
        connected = ENGINE.connect(url, model, None)
        send(connected, "UpdateTable", {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "GSI1"}}]})
        connected.close()
        found = store.verify()
        assert (found.ok, found.structures) == (False, ["index GSI1 is missing"])
        assert store.verify(repair=True).repaired == 1
        assert store.verify().ok
        assert [row["nid"] for row in store.of_user(owner=2)] == [1]


def test_a_table_that_is_not_there_is_told(server: Server, tmp_path: Path) -> None:
    """Whether the design is in a lock file, or nowhere yet; `apply` makes it."""
    url = url_of(server.url)
    told = r"^[\w.-]+: there is no such table in this account and region; .*'keyplan apply'$"
    file = tmp_path / "little.yaml"
    file.write_text(MODEL)
    model = keyplan.load_model(file)
    with pytest.raises(DesignError, match=told):
        keyplan.open(model, url)
    keyplan.save_lock(model, keyplan.design(model, "dynamodb"))
    with pytest.raises(DesignError, match=told):
        keyplan.open(model, url)
    keyplan.apply(model, url)
    connected = ENGINE.connect(url, model, None)
    send(connected, "DeleteTable", {})
    connected.close()
    with pytest.raises(DesignError, match=told):
        keyplan.open(model, url)


def test_rows_are_not_stranded(port: Port) -> None:
    apply(LITTLE, design_of(LITTLE, (ORDERS,)), port)
    put(port)
    with pytest.raises(DesignMismatchError, match="the rows of 'Order' lie under other keys than this design has"):
        apply(LITTLE, design_of(LITTLE, (replace(ORDERS, partition=BY_USER.sort),)), port, "lock 2")
    assert found_by(port).lock == "lock 1"


def test_a_table_of_somebody_else(port: Port) -> None:
    send(
        port,
        "CreateTable",
        {
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        },
    )
    with pytest.raises(DesignMismatchError, match="other keys than 'PK' and 'SK'"):
        apply(LITTLE, design_of(LITTLE, ALL), port)


def test_a_table_made_from_our_template_is_taken_over_while_it_is_empty(port: Port) -> None:
    design = design_of(LITTLE, (ORDERS, BY_STATUS))
    first, *_ = ENGINE.changes(LITTLE, design, "lock 1", found_by(port))
    drive(first.run(), port)
    assert apply(LITTLE, design, port) == ["record the design in the partition KEYPLAN"]


def test_rows_without_a_record_are_not_ours(port: Port) -> None:
    design = design_of(LITTLE, (ORDERS, BY_STATUS))
    first, *_ = ENGINE.changes(LITTLE, design, "lock 1", found_by(port))
    drive(first.run(), port)
    put(port, "theirs")
    with pytest.raises(DesignMismatchError, match="no design of keyplan is recorded"):
        apply(LITTLE, design, port)


def test_a_table_of_another_model(port: Port) -> None:
    apply(LITTLE, design_of(LITTLE, (ORDERS,)), port)
    other = parse_model(MODEL.replace("name: little", "name: other"))
    with pytest.raises(DesignMismatchError, match="a design of the model 'little', not of 'other'"):
        apply(other, design_of(other, (ORDERS,)), port)


def test_a_long_lock_is_kept_in_pieces(port: Port) -> None:
    design = design_of(LITTLE, (ORDERS,))
    long = "é" * 500_000
    apply(LITTLE, design, port, long)
    assert found_by(port).lock == long
    assert found_by(port).found["pieces"] == 3
    apply(LITTLE, design, port, "short")
    assert (found_by(port).lock, found_by(port).found["pieces"]) == ("short", 1)


def test_two_who_apply_different_designs(port: Port) -> None:
    design = design_of(LITTLE, (ORDERS,))
    apply(LITTLE, design, port)
    seen = found_by(port)
    mine, theirs = (ENGINE.changes(LITTLE, design, lock, seen) for lock in ("mine", "theirs"))
    for step in mine:
        drive(step.run(), port)
    (record,) = theirs
    with pytest.raises(ConflictError, match="another process is applying"):
        drive(record.run(), port)
    for step in mine:  # the same design again is fine
        drive(step.run(), port)
    assert found_by(port).lock == "mine"


def test_provisioned_capacity(port: Port) -> None:
    design = replace(design_of(LITTLE, (ORDERS, BY_STATUS)), settings={"billing": "provisioned"})
    said = apply(LITTLE, design, port)[0]
    assert said.startswith("create the table, provisioned, with GSI1; autoscaling is another service")
    table = described(port)
    wanted = capacities(LITTLE, design)
    for name, about in (("little", table), ("GSI1", table["GlobalSecondaryIndexes"][0])):
        assert about["ProvisionedThroughput"]["ReadCapacityUnits"] == wanted[name].read.start
        assert about["ProvisionedThroughput"]["WriteCapacityUnits"] == wanted[name].write.start


def test_the_billing_mode_changes_both_ways(port: Port) -> None:
    by_request = replace(design_of(LITTLE, (ORDERS, BY_STATUS)), settings={"billing": "on_demand"})
    provisioned = replace(by_request, settings={"billing": "provisioned"})
    apply(LITTLE, by_request, port, "lock 1")
    steps = apply(LITTLE, provisioned, port, "lock 2")
    assert [step.partition(";")[0] for step in steps] == ["provision capacity", steps[-1]]
    table = described(port)
    wanted = capacities(LITTLE, provisioned)
    assert table["ProvisionedThroughput"]["WriteCapacityUnits"] == wanted["little"].write.start
    # dynoxide ignores the capacity of an index that it is told to update.
    (index,) = table["GlobalSecondaryIndexes"]
    assert index["ProvisionedThroughput"]["ReadCapacityUnits"] in (wanted["GSI1"].read.start, 0)
    assert apply(LITTLE, provisioned, port, "lock 2") == []
    assert apply(LITTLE, by_request, port, "lock 3")[0] == "have it paid by request"
    assert apply(LITTLE, by_request, port, "lock 3") == []


def test_waits_until_the_table_is_active() -> None:
    """DynamoDB takes seconds to hours; the servers of these tests are done at once."""
    wait = until_active()
    assert next(wait)[0].operation == "DescribeTable"  # type: ignore[index]
    busy = {"IndexName": "GSI1", "IndexStatus": "CREATING"}
    for status, indexes in (("CREATING", []), ("ACTIVE", [busy]), ("UPDATING", [])):
        pause = wait.send([{"Table": {"TableStatus": status, "GlobalSecondaryIndexes": indexes}}])
        assert pause.seconds > 0  # type: ignore[union-attr]
        wait.send([])
    with pytest.raises(StopIteration):
        wait.send([{"Table": {"TableStatus": "ACTIVE"}}])


def test_a_table_that_others_are_changing_is_waited_for() -> None:
    """As autoscaling does at any time; and a reply that was lost, or an index that somebody else has made, is fine."""
    design = design_of(LITTLE, (ORDERS, BY_STATUS))
    table = {"TableStatus": "ACTIVE", **table_definition(LITTLE, design, layout(LITTLE, design))}
    without = {name: value for name, value in table.items() if name != "GlobalSecondaryIndexes"}
    catalog = Catalog(found={"table": without | {"KeySchema": table["KeySchema"]}, "ttl": None, "empty": True})
    catalog.found.update(model=None, layout=None, pieces=0)  # type: ignore[attr-defined]
    create = next(step for step in ENGINE.changes(LITTLE, design, "lock", catalog) if step.summary.startswith("create"))
    busy = RefusedError("in use", code="ResourceInUseException")
    exists = RefusedError("exists", code="ValidationException")
    for outcome in (busy, UncertainError("lost"), exists):
        steps = create.run()
        assert next(steps)[0].operation == "DescribeTable"  # type: ignore[index]
        assert steps.send([{"Table": without}])[0].operation == "UpdateTable"  # type: ignore[index]
        found = steps.send([outcome])
        if isinstance(found, Pause):
            found = steps.send([])
        assert found[0].operation == "DescribeTable"  # type: ignore[index]
        with pytest.raises(StopIteration):
            steps.send([{"Table": table}])
    steps = create.run()
    next(steps)
    steps.send([{"Table": without}])
    steps.send([exists])
    with pytest.raises(RefusedError, match="exists"):
        steps.send([{"Table": without}])


INDEXED = """
Note:
  count: 1M
  fields: { nid: "int, key", owner: "int, distinct 10k", made: timestamp, state: "enum(open 5%, done 95%)" }
"""
WRITES = """
jot: { create: Note, rate: 1/s }
finish: { update: Note, set: { state: done }, where: "nid = :nid", rate: 1/s }
"""
OF_OWNER = 'of_owner: { find: Note, where: "owner = :owner", order: made desc, page: 5, rate: 50/s }'
UNDONE = "undone: { find: Note, where: \"state = 'open'\", order: made, limit: 50, rate: 50/s }"
BEFORE = model_of(INDEXED, OF_OWNER, WRITES)
AFTER = model_of(INDEXED, f"{UNDONE}\n{OF_OWNER.replace('made desc', 'nid')}", WRITES)


def noted(url: str) -> None:
    keyplan.apply(BEFORE, url)
    with keyplan.open(BEFORE, url) as store:
        made = "2030-01-01T00:00:0{}Z"
        store.load(
            ("Note", {"nid": n, "owner": n % 2, "made": made.format(n), "state": "open" if n < 3 else "done"})
            for n in range(8)
        )


def answers(store: Any) -> list[list[int]]:
    return [[row["nid"] for row in found] for found in (store.of_owner(owner=1), store.undone())]


def test_indexes_change_over_rows(server: Server) -> None:
    """An index more, and one by other keys: the items that are there get what they lack, and lose what is left over."""
    url = url_of(server.url)
    noted(url)
    keyplan.apply(AFTER, url)
    with keyplan.open(AFTER, url) as store:
        assert answers(store) == [[1, 3, 5, 7], [0, 1, 2]]
        store.finish(nid=1)
        assert answers(store) == [[1, 3, 5, 7], [0, 2]]
        assert store.verify().ok
    with pytest.raises(DesignMismatchError, match="the model has changed"):
        keyplan.open(BEFORE, url)
    fewer = model_of(INDEXED, 'note: { find: Note, where: "nid = :nid", rate: 50/s }', WRITES)
    keyplan.apply(fewer, url)
    connected = ENGINE.connect(url, fewer, None)
    assert not described(connected).get("GlobalSecondaryIndexes")
    left = [name for item in send(connected, "Scan", {})["Items"] for name in item if name.startswith("GSI")]
    connected.close()
    assert left == []


def test_a_change_of_indexes_that_was_cut_off_is_finished(server: Server) -> None:
    """Whatever step was the last, nobody opens the table before the next apply has come to the end."""
    design = keyplan.design(AFTER, "dynamodb")
    url = url_of(server.url)
    noted(url)
    connected = ENGINE.connect(url, AFTER, None)
    found = drive(ENGINE.inspect(AFTER, design), connected)
    todo = ENGINE.changes(AFTER, design, "lock", found)
    assert len(todo) >= 4
    for change in todo[:-1]:
        drive(change.run(), connected)
        for model in (BEFORE, AFTER):
            with pytest.raises(DesignError, match="keyplan apply"):
                keyplan.open(model, url)
            with pytest.raises(DesignMismatchError, match="keyplan apply"):
                keyplan.open(model, url, design=keyplan.design(model, "dynamodb"))
    connected.close()
    keyplan.apply(AFTER, url)
    with keyplan.open(AFTER, url) as store:
        assert answers(store) == [[1, 3, 5, 7], [0, 1, 2]]
        assert store.verify().ok


def test_an_item_that_changes_while_keys_are_written_is_read_again(server: Server) -> None:
    url = url_of(server.url)
    noted(url)
    design = keyplan.design(AFTER, "dynamodb")
    connected = ENGINE.connect(url, AFTER, None)
    todo = ENGINE.changes(AFTER, design, "lock", drive(ENGINE.inspect(AFTER, design), connected))
    number = next(number for number, change in enumerate(todo) if isinstance(change, Refill))
    for change in todo[:number]:
        drive(change.run(), connected)
    steps = todo[number].run()
    round = next(steps)
    replies = connected.send(round)
    round = steps.send(replies)
    first: Any = next(item for item in replies[0]["Items"] if item.get("nid") == {"N": "0"})
    body = {
        "Key": {name: first[name] for name in ("PK", "SK")},
        "UpdateExpression": "SET #s = :done",
        "ExpressionAttributeNames": {"#s": "state"},
        "ExpressionAttributeValues": {":done": {"S": "done"}},
    }
    send(connected, "UpdateItem", body)
    with suppress(StopIteration):
        while True:
            round = steps.send(connected.send(round))
    connected.close()
    keyplan.apply(AFTER, url)
    with keyplan.open(AFTER, url) as store:
        assert answers(store)[1] == [1, 2]


def test_opening_takes_one_query(server: Server) -> None:
    """Neither a look at the table nor at its rows, which those who only use it need not be allowed."""
    url = url_of(server.url)
    noted(url)
    connected = ENGINE.connect(url, BEFORE, None)
    meter = Metered(connected)
    assert drive(settled_design(BEFORE, ENGINE, None), connected).views
    taken = meter.reset()
    connected.close()
    assert taken.operations == ["Query"]
    assert taken.read[""] < 8
