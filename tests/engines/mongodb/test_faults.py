"""What goes wrong is one clear line that names host and database, and no text from outside becomes an operator."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

import keyplan
from keyplan.engines import get_engine
from keyplan.engines.mongodb.faults import translate
from keyplan.engines.mongodb.port import MongoPort
from keyplan.engines.mongodb.transport import Link
from keyplan.errors import (
    AccessError,
    ArgumentError,
    ConflictError,
    DesignMismatchError,
    KeyplanError,
    OversizeError,
    StorageError,
    UnavailableError,
)
from keyplan.store.bulk.apply import difference
from keyplan.store.pump import patient, run
from tests.engines.harness import Harness

MODEL = """
keyplan: 1
name: little
entities:
  Order:
    count: 1k
    fields:
      oid: int, key
      mail: string(20), unique
      text: text(100), optional 50%
      count: int, default 0
      tags: set(string, avg 2)
      extra: json(50), optional 50%
  Item:
    count: 3k
    key: [order, line]
    fields:
      order: Order, as items, max 10
      line: int
      name: string(20)
      left: int, default 0
patterns:
  order: { find: Order, where: "oid = :oid", rate: 100/s, with: [items] }
  by_mail: { find: Order, where: "mail = :mail", rate: 10/s }
  tagged: { find: Order, where: "contains(tags, :tag)", order: count, rate: 10/s }
writes:
  create_order: { create: Order, rate: 1/s, with: [items] }
  put: { upsert: Order, rate: 1/s }
  set_text: { update: Order, set: [text], where: "oid = :oid", rate: 1/s }
  bump: { update: Order, add: [count], where: "oid = :oid", rate: 1/s }
  guarded: { update: Order, set: [text], where: "oid = :oid", if: "mail = :mail", rate: 1/s }
  add_item: { create: Item, rate: 1/s }
  take: { update: Item, add: [left], where: "order = :order and line = :line", if: "left >= 1", rate: 1/s }
"""
EVIL = ["$oid", "$where", '{"$gt": ""}', "$$ROOT", "a.b", "$set", "{$ne: null}", "$[e]", "'; return true; //"]


@pytest.fixture
def url(replica_set: Harness) -> str:
    return replica_set.url()


@pytest.fixture
def store(url: str) -> Iterator[keyplan.Store]:
    model = keyplan.parse_model(MODEL)
    keyplan.apply(model, url)
    with keyplan.open(model, url) as opened:
        yield opened


def raw(url: str) -> Any:
    return MongoClient(url).get_default_database()


# Nothing from outside is an operator


@pytest.mark.parametrize("evil", EVIL)
def test_texts_stay_texts(store: keyplan.Store, evil: str) -> None:
    items = [{"line": 1, "name": evil, "left": 3}]
    store.create_order(oid=1, mail=evil, text=evil, tags=[evil], extra={evil: [evil]}, items=items)
    store.create_order(oid=2, mail="other", text="x", items=[])
    assert store.by_mail(mail=evil)["oid"] == 1
    assert store.by_mail(mail=f"{evil}x") is None
    assert [row["oid"] for row in store.tagged(tag=evil)] == [1]
    store.guarded(oid=1, mail=evil, text=f"{evil}!")
    store.put(oid=1, mail=evil, text=evil, tags=[evil], extra={evil: evil})
    store.add_item(order=1, line=2, name=evil)
    found = store.order(oid=1)
    assert (found["text"], found["tags"], found["extra"]) == (evil, {evil}, {evil: evil})
    assert [item["name"] for item in found["items"]] == [evil, evil]


@pytest.mark.parametrize("argument", [{"$gt": ""}, {"$ne": None}, [{"$gt": ""}], {"$regex": ".*"}])
def test_documents_in_the_place_of_values_are_refused(store: keyplan.Store, argument: Any) -> None:
    store.create_order(oid=1, mail="m", items=[])
    for call in (
        lambda: store.by_mail(mail=argument),
        lambda: store.order(oid=argument),
        lambda: store.tagged(tag=argument),
        lambda: store.guarded(oid=1, mail=argument, text="x"),
        lambda: store.set_text(oid=1, text=argument),
        lambda: store.put(oid=1, mail=argument),
    ):
        with pytest.raises(ArgumentError):
            call()
    assert store.order(oid=1)["mail"] == "m"


# Refusals


@pytest.mark.parametrize(("field", "value"), [("extra", "{hunter2"), ("tags", 7)])
def test_values_that_something_else_wrote(store: keyplan.Store, url: str, field: str, value: object) -> None:
    store.create_order(oid=1, mail="m", extra={"a": 1}, tags=["t"], items=[])
    collection = next(one for one in raw(url).list_collection_names() if raw(url)[one].find_one({"mail": "m"}))
    raw(url).command(
        "update",
        collection,
        updates=[{"q": {"mail": "m"}, "u": {"$set": {field: value}}}],
        bypassDocumentValidation=True,
    )
    with pytest.raises(StorageError, match=f"collection '{collection}': the stored value of '{field}'") as caught:
        store.order(oid=1)
    assert "hunter2" not in str(caught.value)


def test_wrong_credentials_are_not_repeated_in_the_message(url: str) -> None:
    secret = url.replace("mongodb://", "mongodb://root:hunter2@")
    model = keyplan.parse_model(MODEL)
    with pytest.raises(AccessError) as caught:
        keyplan.apply(model, secret)
    assert "hunter2" not in str(caught.value)
    assert "access is refused" in str(caught.value)


def test_a_user_without_a_right_is_not_told_the_whole_command() -> None:
    """The server's words repeat values of rows, and the signed time of the cluster."""
    words = 'not authorized on db to execute command { find: "Order", filter: { _id: "hunter2" }, lsid: { id: 1 } }'
    error = OperationFailure(words, 13, {"ok": 0.0, "errmsg": words, "code": 13})
    assert str(translate(error, "host/db", writing=False)) == (
        "host/db: access is refused (not authorized on db to execute command 'find'); check user, password and rights"
    )


def test_nobody_there() -> None:
    model = keyplan.parse_model(MODEL)
    with pytest.raises(UnavailableError, match="no server can be used") as caught:
        keyplan.apply(model, "mongodb://u:geheim@127.0.0.1:1/x?serverSelectionTimeoutMS=200")
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("text", ["mongodb://127.0.0.1", "mongodb://127.0.0.1/", "mongodb://u:geheim@127.0.0.1/?w=1"])
def test_a_url_without_a_database(text: str) -> None:
    with pytest.raises(ArgumentError, match="no database is named") as caught:
        MongoPort(text)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("option", ["w=x&wTimeoutMS=a", "readPreference=nowhere", "maxPoolSize=-3"])
def test_options_that_the_driver_refuses(url: str, option: str) -> None:
    with pytest.raises(ArgumentError):
        MongoPort(f"{url}&{option}")


def test_a_duplicate_names_the_row_and_the_field(store: keyplan.Store) -> None:
    store.create_order(oid=1, mail="m", items=[])
    with pytest.raises(ConflictError, match="exists already"):
        store.create_order(oid=1, mail="n", items=[])
    with pytest.raises(ConflictError, match="'mail'"):
        store.create_order(oid=2, mail="m", items=[])
    assert store.order(oid=2) is None


def test_a_document_over_16_mb(replica_set: Harness) -> None:
    url = replica_set.url()
    model = keyplan.parse_model(
        "keyplan: 1\nname: big\nentities:\n  Big:\n    count: 9\n    fields: { k: 'int, key', a: 'text(100, max 12MB)',"
        " b: 'text(100, max 12MB), optional 50%' }\npatterns:\n  big: { find: Big, where: 'k = :k', rate: 1/s }\n"
        "writes:\n  put: { create: Big, rate: 1/s }\n"
        "  more: { update: Big, set: [b], where: 'k = :k', rate: 1/s }\n"
        "  more_all: { update: Big, set: [b], where: 'k >= :k', rows: 3, rate: 1/s }\n"
    )
    keyplan.apply(model, url)
    with keyplan.open(model, url) as opened:
        half = "x" * 9_000_000
        with pytest.raises(OversizeError, match="16 MB"):
            opened.put(k=1, a=half, b=half)
        assert opened.big(k=1) is None
        opened.put(k=1, a=half)
        with pytest.raises(OversizeError, match="16 MB"):
            opened.more(k=1, b=half)
        assert opened.big(k=1)["b"] is None
        for k in (0, 2):
            opened.put(k=k, a="")
        with pytest.raises(OversizeError, match=r"^more_all: Big '1': .* 16 MB .*; 1 row was refused, 2 written$"):
            opened.more_all(k=0, b=half)
        assert [opened.big(k=k)["b"] == half for k in (0, 1, 2)] == [True, False, True]


def test_validators_reject_what_others_write(store: keyplan.Store, url: str) -> None:
    store.create_order(oid=1, mail="m", items=[{"line": 1, "name": "n"}])
    collection = raw(url)["Order"]
    bad: list[dict[str, Any]] = [
        {"_id": "text", "mail": "x", "count": 1, "tags": []},
        {"_id": 5, "mail": 7, "count": 1, "tags": []},
        {"_id": 5, "count": 1, "tags": []},
        {"_id": 5, "mail": "x", "count": 1, "tags": "y"},
        {"_id": 5, "mail": "x", "count": 1, "tags": [], "surprise": 1},
    ]
    for document in bad:
        with pytest.raises(OperationFailure) as caught:
            collection.insert_one(document)
        assert caught.value.code == 121, document
    with pytest.raises(OperationFailure):
        collection.update_one({"mail": "m"}, {"$set": {"count": "many"}})


# Other designs, other collections


def test_a_collection_of_somebody_else(url: str) -> None:
    raw(url)["Order"].insert_one({"_id": "theirs"})
    with pytest.raises(DesignMismatchError, match="that keyplan did not make"):
        keyplan.apply(keyplan.parse_model(MODEL), url)


@pytest.mark.parametrize(
    ("options", "kind"),
    [({"viewOn": "theirs", "pipeline": []}, "view"), ({"timeseries": {"timeField": "at"}}, "timeseries")],
)
def test_what_is_no_collection(url: str, options: dict[str, Any], kind: str) -> None:
    raw(url).command("create", "Order", **options)
    with pytest.raises(DesignMismatchError, match=f"a {kind} 'Order' that keyplan did not make; name another database"):
        keyplan.apply(keyplan.parse_model(MODEL), url)


def test_another_model(store: keyplan.Store, url: str) -> None:
    other = keyplan.parse_model(MODEL.replace("name: little", "name: other"))
    with pytest.raises(DesignMismatchError, match="of the model 'little'"):
        keyplan.apply(other, url)


def test_documents_of_another_layout(store: keyplan.Store, url: str) -> None:
    store.create_order(oid=1, mail="m", items=[])
    other = keyplan.parse_model(MODEL.replace("oid: int, key", "oid: string(10), key"))
    with pytest.raises(DesignMismatchError, match="laid out for another design"):
        keyplan.apply(other, url)


def test_a_collection_that_does_not_match_the_lock(store: keyplan.Store, url: str) -> None:
    """Somebody dropped an index: `apply` makes it again, and until then reads say what is missing."""
    store.create_order(oid=1, mail="m", items=[])
    database = raw(url)
    dropped = [name for name in database["Order"].index_information() if name != "_id_"]
    for name in dropped:
        database["Order"].drop_index(name)
    with pytest.raises(DesignMismatchError, match="'keyplan verify' says which"):
        store.by_mail(mail="m")
    keyplan.apply(store.model, url)
    assert store.by_mail(mail="m")["oid"] == 1


def test_an_index_that_cannot_be_built(url: str) -> None:
    loose = keyplan.parse_model(MODEL.replace("mail: string(20), unique", "mail: string(20)"))
    keyplan.apply(loose, url)
    with keyplan.open(loose, url) as opened:
        opened.create_order(oid=1, mail="same", items=[])
        opened.create_order(oid=2, mail="same", items=[])
    with pytest.raises(DesignMismatchError, match="cannot be built"):
        keyplan.apply(keyplan.parse_model(MODEL), url)


def test_applying_twice_does_nothing(store: keyplan.Store, url: str) -> None:
    assert not list(keyplan.apply(store.model, url))


def test_a_collection_that_somebody_else_made_in_the_meantime_gets_the_validator(url: str) -> None:
    model = keyplan.parse_model(MODEL)
    design = keyplan.design(model, "mongodb")
    engine = get_engine("mongodb")
    port = engine.connect(url, model, design)
    try:
        found = run(patient(difference(model, engine, design)), port)
        raw(url).create_collection("Order")
        for change in found.changes:
            run(patient(change.run()), port)
    finally:
        port.close()
    assert raw(url)["Order"].options()["validator"]
    assert not list(keyplan.apply(model, url, design=design))


# Many at once


def _all(works: list[Any]) -> list[Exception]:
    failed: list[Exception] = []

    def guarded(work: Any) -> None:
        try:
            work()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def test_concurrent_adds_to_one_document(store: keyplan.Store) -> None:
    store.create_order(oid=1, mail="m", items=[])

    def add() -> None:
        for _ in range(20):
            store.bump(oid=1, count=1)

    assert not _all([add] * 6)
    assert store.order(oid=1)["count"] == 120


def test_concurrent_children_of_one_parent(store: keyplan.Store) -> None:
    store.create_order(oid=1, mail="m", items=[])

    def push(number: int) -> None:
        for line in range(5):
            store.add_item(order=1, line=10 * number + line, name="n", left=1)

    assert not _all([lambda number=number: push(number) for number in range(6)])
    assert len(store.order(oid=1)["items"]) == 30


def test_of_two_who_take_the_last_one_gets_it(store: keyplan.Store) -> None:
    store.create_order(oid=1, mail="m", items=[{"line": 1, "name": "n", "left": 5}])
    failed = _all([lambda: store.take(order=1, line=1, left=-1)] * 12)
    assert len(failed) == 7
    assert all(isinstance(error, ConflictError) for error in failed)
    assert store.order(oid=1)["items"][0]["left"] == 0


def test_one_of_many_creates_wins(store: keyplan.Store) -> None:
    works = [lambda n=n: store.create_order(oid=7, mail=f"m{n}", items=[{"line": n, "name": "n"}]) for n in range(8)]
    failed = _all(works)
    assert len(failed) == 7
    assert all(isinstance(error, ConflictError) for error in failed)
    assert len(store.order(oid=7)["items"]) == 1


# Errors in general


def test_every_translation_is_ours_and_short(url: str) -> None:
    errors = [OperationFailure("x" * 5000, code) for code in (1, 2, 13, 18, 20, 26, 50, 112, 121, 10334, 11000)]
    for error in errors:
        for writing in (True, False):
            found = translate(error, "host/db", writing=writing)
            assert isinstance(found, KeyplanError)
            assert str(found).startswith("host/db: ")
            assert len(str(found)) < 500


def test_reads_take_the_preference_of_the_url_and_strong_ones_the_primary(url: str) -> None:
    link = Link(f"{url}&readPreference=secondaryPreferred&readConcernLevel=available", MongoClient)
    assert link.reading("x", False).read_preference.mongos_mode == "secondaryPreferred"
    assert link.reading("x", False).read_concern.level == "available"
    assert link.reading("x", True).read_preference.mongos_mode == "primary"
    assert link.reading("x", True).read_concern.level == "majority"
    assert link.writing("x").write_concern.document["w"] == "majority"
    strict = Link(f"{url}&readConcernLevel=linearizable&w=1", MongoClient)
    assert strict.reading("x", True).read_concern.level == "linearizable"
    assert strict.writing("x").write_concern.document["w"] == 1
    link.client.close()
    strict.client.close()


# Structures that somebody has changed


def test_verify_finds_and_makes_a_dropped_index(store: keyplan.Store, url: str) -> None:
    store.create_order(oid=1, mail="a", tags=["x"], items=[])
    database = raw(url)
    names = [name for name in database["Order"].index_information() if name != "_id_"]
    for name in names:
        database["Order"].drop_index(name)
    found = store.verify()
    assert not found.ok
    assert found.compared
    (fault,) = found.structures
    assert fault == "collection Order: " + ", ".join(f"index {name} is missing" for name in names)
    assert store.verify(repair=True).repaired == 1
    assert store.verify().ok
    assert sorted(database["Order"].index_information()) == sorted(["_id_", *names])


def test_verify_says_that_a_home_is_gone(store: keyplan.Store, url: str) -> None:
    raw(url).drop_collection("Order")
    where = url.partition("://")[2].partition("?")[0].rpartition("@")[2]
    said = re.escape(f"{where}: collection Order is missing, with all its rows; restore it")
    with pytest.raises(DesignMismatchError, match=f"^{said}"):
        store.verify(repair=True)
    with pytest.raises(DesignMismatchError, match=f"^{said}"):
        keyplan.open(store.model, url)
    assert "create the collection Order, empty: its rows are gone" in keyplan.apply(store.model, url)
