"""What is emitted runs: scripts make what `apply` makes, schemas take what is stored, pipelines answer as patterns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import jsonschema
import pytest
from bson.decimal128 import Decimal128
from bson.json_util import loads
from pymongo import MongoClient
from pymongo.database import Database as Mongo

import keyplan
from keyplan.engines.mongodb.pipelines import Pipeline, filled, pipelines
from keyplan.engines.mongodb.script import Before, Parameter, plain, script
from keyplan.engines.mongodb.shard import shard_keys
from keyplan.engines.mongodb.transport import codec_options
from keyplan.model.arguments import bind_params
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.reference import Database
from tests.conftest import started
from tests.engines.harness import Harness
from tests.examples_data import designs as examples
from tests.examples_data.calls import Caller
from tests.examples_data.rows import Clock, rows

NAMES = examples.EXAMPLES

STATEMENT = re.compile(
    r"^db\.createCollection\((.*?)\);\n|^db\.getCollection\((\"[^\"]*\")\)\.createIndex\((.*?)\);\n",
    re.MULTILINE | re.DOTALL,
)
CALLS = {"ISODate": "$date", "NumberDecimal": "$numberDecimal", "NumberLong": "$numberLong", "UUID": "$uuid"}


@cache
def example(name: str) -> tuple[Model, Design]:
    return examples.example(name), examples.designed(name, "mongodb")


@pytest.fixture(scope="module")
def server() -> Iterator[Harness]:
    yield from started("mongodb")


def database(url: str) -> Mongo[dict[str, Any]]:
    client: MongoClient[dict[str, Any]] = MongoClient(url, tz_aware=True)
    return client.get_default_database().with_options(codec_options=codec_options())


def arguments_of(text: str) -> list[Any]:
    """The arguments of a call in JavaScript, read as JSON: names are quoted, and constructors have one text."""
    for name, key in CALLS.items():
        text = re.sub(rf'{name}\(("[^"]*")\)', rf'{{"{key}": \1}}', text)
    found: list[Any] = loads(f"[{text}]")
    return found


def run_script(text: str, target: Mongo[dict[str, Any]]) -> None:
    """Does what mongosh would do with the script; a line that is neither a comment nor known fails."""
    bare = re.sub(r"^//.*$", "", text, flags=re.MULTILINE)
    done = 0
    for match in STATEMENT.finditer(bare):
        if match[1] is not None:
            name, options = arguments_of(match[1])
            target.command({"create": name, **options})
        else:
            key, options = arguments_of(match[3])
            target.command({"createIndexes": json.loads(match[2]), "indexes": [{"key": key, **options}]})
        done += 1
        bare = bare.replace(match[0], "")
    assert done
    assert not bare.strip(), f"not understood: {bare[:200]}"


def described(target: Mongo[dict[str, Any]]) -> dict[str, Any]:
    """Collections with their validators and indexes."""
    found = {}
    for about in target.list_collections(filter={"type": "collection"}):
        if about["name"] != "keyplan_design":
            indexes = {
                index["name"]: {**index, "key": list(index["key"].items())}
                for index in target[about["name"]].list_indexes()
            }
            found[about["name"]] = (about["options"].get("validator"), indexes)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_script_makes_what_apply_makes(name: str, server: Harness) -> None:
    model, design = example(name)
    url, other = server.url(), server.url()
    keyplan.apply(model, url, design=design)
    run_script(keyplan.emit(model, design, "mongosh")[f"{name}.mongosh.js"], database(other))
    made = described(database(other))
    assert made == described(database(url))
    assert made


@pytest.mark.parametrize("name", ["shop", "blog", "sensors"])
def test_validators_accept_what_is_stored_and_nothing_else(name: str, server: Harness) -> None:
    model, design = example(name)
    url = server.url()
    keyplan.apply(model, url, design=design)
    with keyplan.open(model, url, design=design, clock=Clock()) as store:
        store.load(rows(model, 1))
    target = database(url)
    schemas = keyplan.emit(model, design, "json-schema")
    seen = 0
    for file, text in schemas.items():
        collection = file.removeprefix(f"{name}.").removesuffix(".schema.json")
        schema = {key: value for key, value in json.loads(text).items() if key != "title"}
        wrong = target.command({"count": collection, "query": {"$nor": [{"$jsonSchema": schema}]}})["n"]
        assert wrong == 0, collection
        seen += target[collection].estimated_document_count()
        bad = target.command({"insert": collection, "documents": [{"_id": "bad", "surprise": 1}]})
        assert bad["writeErrors"][0]["code"] == 121, collection
        jsonschema.Draft4Validator.check_schema({k: v for k, v in schema.items() if k != "bsonType"})
    assert seen > 100


def native(value: Any) -> Any:
    """Values of an argument as the driver takes them."""
    if isinstance(value, list | tuple | set | frozenset):
        return [native(each) for each in value]
    if type(value).__name__ == "date":
        return datetime(value.year, value.month, value.day)
    return value


def answer(line: dict[str, Any]) -> dict[str, Any]:
    """A document of an answer as a row of the reference."""
    found = {}
    for name, value in line.items():
        if isinstance(value, Decimal128):
            value = value.to_decimal()
        found[name] = value
    return found


def same(expected: Any, found: Any) -> bool:
    if isinstance(expected, datetime) or not hasattr(expected, "isoformat"):
        if isinstance(expected, float):
            return bool(found == pytest.approx(expected, rel=1e-9))
        return bool(expected == found)
    return bool(datetime(expected.year, expected.month, expected.day) == found.replace(tzinfo=None))


@pytest.mark.parametrize("name", ["shop", "sensors"])
def test_pipelines_answer_as_the_patterns_do(name: str, server: Harness) -> None:
    compare_pipelines(*example(name), server.url())


def compare_pipelines(model: Model, design: Design, url: str) -> None:
    """Runs the pipelines of a design over rows of its own, and compares the answers with the reference."""
    keyplan.apply(model, url, design=design)
    clock = Clock()
    reference = Database(model, clock)
    known = list(rows(model, 1))
    reference.load(known)
    with keyplan.open(model, url, design=design, clock=clock) as store:
        store.load(known)
    target = database(url)
    made = {key: value for key, value in pipelines(model, design).items() if isinstance(value, Pipeline)}
    assert made
    compared = 0
    for pattern, arguments in Caller(reference, reference, seed=3).reads(40):
        if pattern not in made:
            continue
        expected = reference.read(pattern, **arguments)
        values = bind_params(model, model.patterns[pattern], arguments)
        stages = filled(
            made[pattern].stages,
            {key: native(value) for key, value in values.items()},
            lambda ms: clock() - timedelta(milliseconds=ms),
        )
        found = [answer(line) for line in target[made[pattern].collection].aggregate(stages)]
        if not model.patterns[pattern].group:
            continue
        assert len(found) == len(expected), (pattern, arguments)
        for line, want in zip(found, expected, strict=True):
            assert set(line) == set(want)
            assert all(same(want[key], line[key]) for key in want), (pattern, line, want)
        compared += len(expected)
    assert compared > 5


def test_the_pipeline_of_revenue_is_over_the_documents() -> None:
    """Daily revenue by category, from the orders with their embedded items."""
    model, design = example("shop")
    made = pipelines(model, design)["revenue"]
    assert isinstance(made, Pipeline)
    assert [next(iter(stage)) for stage in made.stages][:2] == ["$match", "$unwind"]
    assert list(made.stages[0]["$match"]) == ["created_at"]  # of the order, so that an index helps
    text = keyplan.emit(model, design, "pipelines")["shop.pipelines.js"]
    assert "function revenue() {" in text
    assert "new Date(Date.now() - 2592000000)" in text


@pytest.mark.parametrize("name", NAMES)
def test_every_format_is_written_for_every_example(name: str) -> None:
    model, design = example(name)
    for to in ("mongosh", "json-schema", "pipelines"):
        for file, text in keyplan.emit(model, design, to).items():
            assert file.startswith(name)
            assert text.endswith("\n")
    sharding = keyplan.emit(model, design, "mongosh")[f"{name}.sharding.js"]
    assert "//" not in sharding
    assert sharding.count("sh.shardCollection(") == len([one for one in design.structures if one.kind == "collection"])


def keys_of(text: str) -> dict[str, Any]:
    model = keyplan.parse_model(text)
    return {choice.collection: choice for choice in shard_keys(model, keyplan.design(model, "mongodb"))}


SHARDED = """
keyplan: 1
name: sharded
entities:
  User:
    count: 1M
    fields: {{ user_id: "uuid, key" }}
  Event:
    count: 100M
    fields:
      event_id: {key}, key
      user: User, as events{skew}
      kind: enum(click, view)
      at: timestamp
patterns:
  event: {{ find: Event, where: "event_id = :event_id", rate: {by_key} }}
  events_of_user: {{ find: Event, where: "user = :user_id", order: at desc, page: 20, rate: {by_user} }}
  events_of_kind: {{ find: Event, where: "kind = :kind", order: at desc, page: 20, rate: 90/s }}
writes:
  record: {{ create: Event, rate: 10/s }}
  join: {{ create: User, rate: 1/s }}
"""


def sharded(key: str = "uuid", skew: str = "", by_key: str = "10/s", by_user: str = "50/s") -> Any:
    return keys_of(SHARDED.format(key=key, skew=skew, by_key=by_key, by_user=by_user))["Event"]


def test_the_shard_key_is_what_most_calls_fix() -> None:
    assert sharded().key == {"user": 1, "_id": 1}
    assert sharded(by_key="80/s").key == {"_id": 1}


def test_a_field_of_few_values_is_no_shard_key() -> None:
    assert any("'kind', but it has only 2 values" in reason for reason in sharded().because)


def test_a_key_that_grows_with_time_is_hashed() -> None:
    assert sharded(key="ulid", by_key="80/s").key == {"_id": "hashed"}


def test_a_hot_value_is_no_shard_key() -> None:
    choice = sharded(skew=", top 20%")
    assert choice.key == {"_id": 1}
    assert any("20% of the documents under one value" in reason for reason in choice.because)


def test_a_unique_index_that_a_shard_key_forbids_is_said() -> None:
    model, design = example("shop")
    problems = {choice.collection: choice.problems for choice in shard_keys(model, design)}
    assert "unique_email" in problems["User"][0]


def test_values_as_javascript() -> None:
    from datetime import UTC
    from decimal import Decimal
    from uuid import UUID

    value = {
        "a": Decimal("1.50"),
        "b": datetime(2024, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
        "c": UUID(int=1),
        "$d": [1, 2**60, 0.5, True, None, 'say "hi"'],
    }
    assert plain(value) == (
        '{ "a": NumberDecimal("1.50"), "b": ISODate("2024-01-02T03:04:05.678Z"), '
        '"c": UUID("00000000-0000-0000-0000-000000000001"), '
        '"$d": [1, NumberLong("1152921504606846976"), 0.5, true, null, "say \\"hi\\""] }'
    )
    assert plain({"$a": Parameter("x"), "b.c": Before(5)}, bare=True) == '{ $a: x, "b.c": new Date(Date.now() - 5) }'
    assert loads(script({"a": ["x" * 50] * 5})) == {"a": ["x" * 50] * 5}


WRITES = keyplan.parse_model("""
keyplan: 1
name: desk
entities:
  Agent: { count: 100, fields: { agent_id: "int, key", name: string(20) } }
  Ticket:
    count: 1M
    fields:
      ticket_id: ulid, key
      agent: Agent, optional, as tickets
      status: enum(open 3%, wait 2%, done 95%), default open
      seen: int, default 0
      due: date, optional
      queue: string(8), distinct 1k
  Part:
    count: 3M
    key: [ticket, line]
    fields: { ticket: "Ticket, as parts, max 20", line: int, stock: int }
patterns:
  ticket: { find: Ticket, where: "ticket_id = :id", with: [parts, agent.name], rate: 1000/s }
  mine: { find: Ticket, where: "agent = :a and queue in :queues[2]", order: seen desc, limit: 25, rate: 90/s }
writes:
  open_ticket: { create: Ticket, with: [parts], rate: 1/s }
  solve: { update: Ticket, set: { status: done, due: null }, where: "ticket_id = :id", if: "status = 'open'" }
  look: { update: Ticket, add: { seen: 1 }, where: "ticket_id = :id", rate: 1/s }
  assign: { update: Ticket, set: [agent], where: "ticket_id = :id", rate: 1/s }
  take: { update: Part, add: { stock: "-:n" }, where: "ticket = :t and line = :l", if: "stock >= :n", rate: 1/s }
""")
"""A child that is embedded, and a copied name."""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "open_ticket",
            "db.Ticket.insertOne({ _id: :ticket_id, agent: :agent, status: :status, seen: :seen, due: :due,",
        ),
        ("open_ticket", "// with the document that is inserted: { parts: [{ line: :line, stock: :stock }] }"),
        ("solve", 'updateOne({ _id: :ticket_id, status: "open" }, { $set: { status: "done" }, $unset: { due: "" } })'),
        ("mine", "// once for each value of queue, merged in this order"),
        ("mine", ".sort({ seen: -1, _id: -1 })"),
        ("look", "updateOne({ _id: :ticket_id }, { $inc: { seen: 1 } })"),
        ("assign", "{ $set: { agent: :agent, agent_name: :agent.name } })"),
        (
            "take",
            "updateOne({ _id: :ticket, parts: { $elemMatch: { line: :line, stock: { $gte: :n } } } }, "
            '{ $inc: { "parts.$[row].stock": -:n } }, { arrayFilters: [{ "row.line": :line }] })',
        ),
    ],
)
def test_calls_are_explained_as_they_are_sent(name: str, words: str) -> None:
    told = keyplan.explain(WRITES, keyplan.design(WRITES, "mongodb", advise=False), name)
    assert any(words in step.get("words", "") for step in told["steps"]), told["steps"]
