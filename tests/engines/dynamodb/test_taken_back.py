"""An `apply` that DynamoDB refuses before anything was changed: the record says again what it said before, so that
stores of the design there go on; and nothing of that where somebody else has a part in it."""

from __future__ import annotations

from typing import Any

import pytest

import keyplan
from keyplan.engines.dynamodb.credentials import Address, resolve
from keyplan.engines.dynamodb.faults import RefusedError
from keyplan.engines.dynamodb.layout import PK, RECORD_TAG
from keyplan.engines.dynamodb.transport import Call, Transport
from keyplan.errors import DesignMismatchError, EngineError, ThrottledError, UncertainError
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.store import pump
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of
from tests.engines.dynamodb.test_unprocessed import MODEL, ROWS
from tests.faults.own_time import OwnTime

COUNTED = '  made: { from: Film, compute: { n: count() }, where: "studio = :studio", rows: 9k, rate: 300/s }\nwrites:'
NEWEST = '  last: { find: Film, where: "studio = :studio", order: title, page: 9, rate: 30/s }\nwrites:'
ON_DEMAND, PROVISIONED = "billing: on_demand", "billing: provisioned"
QUOTA = ThrottledError("dynamodb UpdateTable: throttled, Subscriber limit exceeded; try again, or raise the capacity")
TOO_MANY = RefusedError("dynamodb UpdateTable: one index too many", code="ValidationException")


@pytest.fixture(autouse=True)
def own_time(monkeypatch: pytest.MonkeyPatch) -> OwnTime:
    monkeypatch.setattr(pump, "LONG_SECONDS", 0.1)
    return OwnTime(monkeypatch, 20.0, 40.0)


class Refusing:
    """Has UpdateTable refused, from a certain one on, and does something before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: EngineError | None = None
        self.updates = 0
        self.first = 0
        self.meanwhile: Any = None
        whole = Transport.send_all

        def send_all(transport: Transport, calls: Any) -> Any:
            if self.error is None or not any(call.operation == "UpdateTable" for call in calls):
                return whole(transport, calls)
            self.updates += 1
            if self.updates <= self.first:
                return whole(transport, calls)
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                meanwhile()
            return [self.error] * len(calls)

        monkeypatch.setattr(Transport, "send_all", send_all)


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Refusing:
    return Refusing(monkeypatch)


def record_of(url: str) -> list[Any]:
    """The items of the record, all of them."""
    table, _, rest = url.removeprefix("dynamodb://").partition("?")
    transport = Transport(resolve(Address(table, endpoint=rest.partition("endpoint=")[2])))
    query = {
        "TableName": table,
        "KeyConditionExpression": f"{PK} = :pk",
        "ExpressionAttributeValues": {":pk": {"S": RECORD_TAG}},
        "ConsistentRead": True,
    }
    (reply,) = transport.send_all([Call("Query", query)])
    transport.close()
    assert isinstance(reply, dict)
    return list(reply["Items"])


def made(dynoxide: Server, more: str, *, rows: bool = True) -> tuple[Model, Model, str]:
    before = parse_model(MODEL)
    after = parse_model(MODEL.replace("writes:", more).replace(ON_DEMAND, PROVISIONED))
    url = url_of(dynoxide.url)
    keyplan.apply(before, url)
    if rows:
        with keyplan.open(before, url) as store:
            store.load(ROWS[:20])
    return before, after, url


@pytest.mark.parametrize("error", [QUOTA, TOO_MANY])
@pytest.mark.parametrize("more", [COUNTED, NEWEST])
@pytest.mark.parametrize("rows", [True, False])
def test_a_refusal_before_anything_was_changed_leaves_all_as_it_was(
    dynoxide: Server, refusing: Refusing, own_time: OwnTime, error: EngineError, more: str, rows: bool
) -> None:
    before, after, url = made(dynoxide, more, rows=rows)
    recorded = record_of(url)
    with keyplan.open(before, url) as old:
        refusing.error = error
        with pytest.raises(type(error)):
            keyplan.apply(after, url)
        assert record_of(url) == recorded
        with keyplan.open(before, url) as store:
            store.add(film=1000, title="x", studio="s0")
        own_time.passes(2)
        old.add(film=1001, title="y", studio="s0")
        assert old.verify().ok
    refusing.error = None
    keyplan.apply(after, url)
    with keyplan.open(after, url) as store:
        checked = store.verify()
        assert checked.ok
        assert checked.rows == (20 if rows else 0) + 2


def test_a_refusal_behind_the_first_change_says_what_to_do(dynoxide: Server, refusing: Refusing) -> None:
    before, after, url = made(dynoxide, NEWEST)
    refusing.error, refusing.first = TOO_MANY, 1
    with pytest.raises(RefusedError, match="one index too many"):
        keyplan.apply(after, url)
    with pytest.raises(DesignMismatchError, match="run 'keyplan apply' again, with its design or another"):
        keyplan.open(before, url)
    refusing.error = None
    keyplan.apply(before, url)
    with keyplan.open(before, url) as store:
        store.add(film=1000, title="x", studio="s0")
        assert store.verify().ok


def test_a_reply_that_was_lost_takes_nothing_back(dynoxide: Server, refusing: Refusing) -> None:
    """It may have been done."""
    before, after, url = made(dynoxide, NEWEST)
    refusing.error = UncertainError("dynamodb UpdateTable: the reply was lost")
    with pytest.raises(EngineError):
        keyplan.apply(after, url)
    with pytest.raises(DesignMismatchError, match="run 'keyplan apply' again"):
        keyplan.open(before, url)
    refusing.error = None
    keyplan.apply(after, url)
    with keyplan.open(after, url) as store:
        assert store.verify().ok


def test_whoever_is_not_alone_with_a_design_takes_nothing_back(dynoxide: Server, refusing: Refusing) -> None:
    """Another process applies the same design, and may have changed something already."""
    before, after, url = made(dynoxide, NEWEST)

    def join() -> None:
        with pytest.raises(EngineError):
            keyplan.apply(after, url)  # is refused as well, and leaves alone what it shares

    refusing.error, refusing.meanwhile = TOO_MANY, join
    with pytest.raises(RefusedError):
        keyplan.apply(after, url)
    with pytest.raises(DesignMismatchError, match="run 'keyplan apply' again"):
        keyplan.open(before, url)
    refusing.error = None
    keyplan.apply(after, url)
    with keyplan.open(after, url) as store:
        assert store.verify().ok


CENTS = MODEL.replace("title: text(400)", "title: int")


@pytest.mark.parametrize("is_taken", [True, False])
def test_rows_that_come_in_spite_of_the_notice(
    dynoxide: Server, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    """From a store that does not look, as one of an earlier version: they are counted, or the design is refused and all
    is as it was."""
    before, after, url = made(dynoxide, COUNTED, rows=False)
    after = after if is_taken else parse_model(CENTS)
    recorded = record_of(url)
    whole, scans = Transport.send_all, 0
    with keyplan.open(before, url) as old:
        leased: Any = old._port
        leased._lease.seen = leased._lease.seen._replace(until=float("inf"))

        def send_all(transport: Transport, calls: Any) -> Any:
            nonlocal scans
            scans += sum(call.operation == "Scan" for call in calls)
            if scans == 3:  # the first two are of the looks before the notice and behind it
                scans += 1
                old.add(film=1, title="one", studio="s1")
            return whole(transport, calls)

        monkeypatch.setattr(Transport, "send_all", send_all)
        if is_taken:
            keyplan.apply(after, url)
        else:
            with pytest.raises(DesignMismatchError, match="and this design wants"):
                keyplan.apply(after, url)
            assert record_of(url) == recorded
    assert scans > 3
    with keyplan.open(after if is_taken else before, url) as store:
        assert store.verify().ok
        assert store.film(film=1)["title"] == "one"
        if is_taken:
            assert store.made(studio="s1") == {"n": 1}
