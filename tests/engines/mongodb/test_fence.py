"""What an `apply` does while others go on to apply designs: between any two of the operations of one request."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.uri_parser import parse_uri

import keyplan
from keyplan.engines.mongodb import ENGINE, fenced
from keyplan.engines.mongodb.fence import Fence, OvertakenError
from keyplan.engines.mongodb.operations import Command, Held
from keyplan.engines.mongodb.port import MongoPort
from keyplan.engines.mongodb.requests import MongoCodec
from keyplan.engines.rounds import Proc
from keyplan.errors import DesignMismatchError
from keyplan.model.load import parse_model
from keyplan.plan.design import Design
from keyplan.plan.edits import Edit
from keyplan.store.bulk.apply import apply
from keyplan.store.pump import run
from tests.engines.harness import Harness

MODEL = """
keyplan: 1
name: fenced
entities:
  Page: { count: 1M, fields: { pid: "int, key", title: "string(9), distinct 1000" } }
  %s
patterns:
  page: { find: Page, where: "pid = :pid", rate: 1/s }
  %s
writes:
  make: { create: Page, rate: 0.1/s }
  %s
"""
BEFORE = parse_model(MODEL % ("", "", ""))
INDEXED = parse_model(MODEL % ("", 'titled: { find: Page, where: "title = :title", limit: 9, rate: 300/s }', ""))
TAGGED = parse_model(
    MODEL
    % (
        'Tag: { count: 1M, fields: { tid: "int, key" } }',
        'tag: { find: Tag, where: "tid = :tid", rate: 1/s }',
        "coin: { create: Tag, rate: 0.1/s }",
    )
)


class Lab:
    """A database with one design, a port, and what is in it behind keyplan's back."""

    def __init__(self, url: str, client: MongoClient[Any]) -> None:
        self.url = url
        self.design: Design = keyplan.design(BEFORE, "mongodb", advise=False)
        self.raw = client[parse_uri(url)["database"]]
        self.port = MongoPort(url)
        self.codec = MongoCodec(BEFORE, self.design)

    def claim(self, token: str) -> None:
        """As somebody else would do who applies a design."""
        self.raw["keyplan_design"].update_one(
            {"_id": "design"}, {"$set": {"applying": {"token": token, "hash": "another"}}}
        )

    def put(self, pid: int) -> Edit:
        return Edit("Page", "put", (pid,), (), {"pid": pid, "title": "x"})

    def pages(self) -> list[int]:
        return sorted(one["_id"] for one in self.raw["Page"].find())


@pytest.fixture
def made(mongodb: Harness) -> Iterator[Lab]:
    url = mongodb.url()
    keyplan.apply(BEFORE, url)
    with MongoClient[Any](url) as client:
        lab = Lab(url, client)
        yield lab
        lab.port.close()


def index() -> Proc[None]:
    yield [Command({"createIndexes": "Page", "indexes": [{"key": {"title": 1}, "name": "late"}]})]


def test_nothing_is_done_by_another_token(made: Lab) -> None:
    made.claim("theirs")
    codec = made.codec.fenced("mine")
    requests = [codec.write([made.put(1)]), *codec.bulk([made.put(2), made.put(3)]), Held("mine", index)]
    assert [type(reply) for reply in made.port.send(requests)] == [OvertakenError] * 3
    assert made.pages() == []
    assert "late" not in made.raw["Page"].index_information()
    made.claim("mine")
    assert not [reply for reply in made.port.send(requests) if isinstance(reply, Exception)]
    assert made.pages() == [1, 2, 3]
    assert "late" in made.raw["Page"].index_information()


@contextmanager
def met_behind_the_touch(monkeypatch: pytest.MonkeyPatch, claim: Any) -> Iterator[threading.Thread]:
    """Somebody tries to claim the database when a request has touched the record, and before it does anything else."""
    touch = fenced.touch
    thread = threading.Thread(target=claim)

    def touched(*arguments: Any) -> Any:
        yield from touch(*arguments)
        if thread.ident is None:
            thread.start()
            thread.join(0.5)

    monkeypatch.setattr(fenced, "touch", touched)
    monkeypatch.setattr("keyplan.engines.mongodb.exchange.touch", touched)
    yield thread
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize("kind", ["write", "bulk", "held"])
def test_whoever_claims_the_database_meanwhile_comes_behind_all_of_it(
    made: Lab, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made.claim("mine")
    codec = made.codec.fenced("mine")
    request = {
        "write": codec.write([made.put(1), made.put(2)]),
        "bulk": codec.bulk([made.put(1), made.put(2)])[0],
        "held": Held("mine", index),
    }[kind]
    seen: list[Any] = []

    def claim() -> None:
        made.claim("theirs")
        seen.append((made.pages(), "late" in made.raw["Page"].index_information()))

    with met_behind_the_touch(monkeypatch, claim) as thread:
        (reply,) = made.port.send([request])
        assert not isinstance(reply, Exception), reply
        assert thread.ident is not None
    assert seen == [([], True) if kind == "held" else ([1, 2], False)]


def test_those_that_share_a_token_wait_for_each_other(made: Lab) -> None:
    made.claim("mine")
    order: list[int] = []

    def work(number: int) -> Proc[None]:
        order.append(number)
        time.sleep(0.2)
        order.append(number)
        yield [Command({"ping": 1})]

    replies: list[Any] = []

    def send(number: int) -> None:
        replies.extend(made.port.send([Held("mine", lambda: work(number))]))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert replies == [None] * 3
    assert order[::2] == order[1::2]


def test_what_a_killed_process_holds_is_free_after_a_while(made: Lab) -> None:
    """The server ends its transaction; until then, whoever claims the database waits."""
    made.claim("mine")
    with made.raw.client.start_session() as session:
        session.start_transaction()
        made.raw["keyplan_design"].update_one({"_id": "design"}, {"$inc": {"applying.held": 1}}, session=session)
        began = time.monotonic()
        keyplan.apply(INDEXED, made.url)
        assert time.monotonic() - began > 1
    with keyplan.open(INDEXED, made.url) as store:
        assert store.verify().ok


def test_rows_that_come_before_stores_have_noticed_are_not_dropped_with_their_collection(mongodb: Harness) -> None:
    """It was empty as `apply` looked; then it is not, and all is as it was."""
    url = mongodb.url()
    keyplan.apply(TAGGED, url)
    design = keyplan.design(BEFORE, "mongodb", advise=False)
    with keyplan.open(TAGGED, url) as store:
        port = MongoPort(url)
        said = Said(lambda: store.coin(tid=1))
        waiting = apply(BEFORE, ENGINE, design, progress=said)
        with pytest.raises(DesignMismatchError, match=r"destroy data: drop the collection Tag"):
            run(waiting, port)
        port.close()
        assert said.heard
        store.coin(tid=2)
        assert [store.tag(tid=tid) for tid in (1, 2)] == [{"tid": 1}, {"tid": 2}]
        assert store.verify().ok
    assert keyplan.apply(TAGGED, url) == []
    keyplan.apply(BEFORE, url, destroy=True)
    with keyplan.open(BEFORE, url) as other:
        assert other.verify().ok


class Said:
    """Does something when an `apply` has looked at the database, and is about to claim it."""

    def __init__(self, then: Any) -> None:
        self.then = then
        self.heard = False

    def __call__(self, text: str) -> None:
        if text.startswith("note in the record") and not self.heard:
            self.heard = True
            self.then()


def test_a_fence_without_a_token_lets_nobody_through() -> None:
    with pytest.raises(OvertakenError, match="another process is applying a design to this database"):
        Fence("hash").needed()
