"""The transport, both colours: against real servers for what they do, against a scripted one for what goes wrong."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from typing import Any

import pytest

from keyplan.engines.dynamodb.credentials import Access, Credentials
from keyplan.engines.dynamodb.faults import ConditionError, ContendedError, MissingTableError, OversizeError
from keyplan.engines.dynamodb.operations import Request
from keyplan.engines.dynamodb.port import DynamoDBPort
from keyplan.engines.dynamodb.transport import AsyncTransport, Call, Transport
from keyplan.errors import (
    AccessError,
    ArgumentError,
    ConflictError,
    DesignMismatchError,
    EngineError,
    ThrottledError,
    UnavailableError,
    UncertainError,
)
from tests.engines.dynamodb.conftest import access_to, new_table
from tests.engines.dynamodb.faulty import Act, FaultyServer, error
from tests.engines.dynamodb.server import Server


class Both:
    """One way to call either colour."""

    def __init__(self, colour: str, access: Access, **options: Any) -> None:
        self._loop = asyncio.new_event_loop() if colour == "async" else None
        self._sync = None if self._loop else Transport(access, **options)
        self._async = AsyncTransport(access, **options) if self._loop else None

    def send(self, operation: str, body: Any, *, repeatable: bool = False) -> dict[str, Any]:
        if self._sync is not None:
            return self._sync.send(operation, body, repeatable=repeatable)
        assert self._async is not None
        assert self._loop is not None
        return self._loop.run_until_complete(self._async.send(operation, body, repeatable=repeatable))

    def send_all(self, calls: Sequence[Call]) -> list[dict[str, Any] | EngineError]:
        if self._sync is not None:
            return self._sync.send_all(calls)
        assert self._async is not None
        assert self._loop is not None
        return self._loop.run_until_complete(self._async.send_all(calls))

    def pause(self, seconds: float) -> None:
        """Lets time pass, and the event loop see what came meanwhile."""
        if self._loop is not None:
            self._loop.run_until_complete(asyncio.sleep(seconds))
        else:
            time.sleep(seconds)

    def close(self) -> None:
        if self._sync is not None:
            self._sync.close()
        elif self._async is not None and self._loop is not None:
            self._loop.run_until_complete(self._async.close())
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def opened() -> Iterator[list[Both]]:
    found: list[Both] = []
    yield found
    for each in found:
        each.close()


@pytest.fixture
def connect(colour: str, opened: list[Both]) -> Any:
    def connect(url: str, **options: Any) -> Both:
        opened.append(Both(colour, access_to(url), **options))
        return opened[-1]

    return connect


KEY = {"PK": {"S": "a b#c"}, "SK": {"S": "é\U0010ffff"}}


def test_put_get_query_delete(connect: Any, server: Server) -> None:
    transport, table = connect(server.url), new_table(access_to(server.url))
    item = {**KEY, "n": {"N": "5"}, "b": {"B": "AAE="}}
    assert transport.send("PutItem", {"TableName": table, "Item": item}) == {}
    assert transport.send("GetItem", {"TableName": table, "Key": KEY})["Item"] == item
    condition = {"KeyConditionExpression": "PK = :p", "ExpressionAttributeValues": {":p": KEY["PK"]}}
    assert transport.send("Query", {"TableName": table, **condition})["Items"] == [item]
    transport.send("DeleteItem", {"TableName": table, "Key": KEY})
    assert transport.send("GetItem", {"TableName": table, "Key": KEY}) == {}


def test_a_large_reply_comes_whole(connect: Any, server: Server) -> None:
    transport, table = connect(server.url), new_table(access_to(server.url))
    item = {**KEY, "text": {"S": "é" * 190_000}}
    transport.send("PutItem", {"TableName": table, "Item": item})
    assert transport.send("GetItem", {"TableName": table, "Key": KEY})["Item"] == item


def test_a_round_keeps_its_order_and_its_errors_apart(connect: Any, server: Server) -> None:
    transport, table = connect(server.url), new_table(access_to(server.url))
    items = [{"PK": {"S": "p"}, "SK": {"S": f"{number:03}"}} for number in range(40)]
    calls = [Call("PutItem", {"TableName": table, "Item": item}) for item in items]
    calls[7] = Call("PutItem", {"TableName": "not-there", "Item": items[7]})
    replies = transport.send_all(calls)
    assert isinstance(replies.pop(7), MissingTableError)
    assert replies == [{}] * 39
    found = transport.send_all([Call("GetItem", {"TableName": table, "Key": item}) for item in items])
    assert [reply.get("Item") for reply in found] == [None if at == 7 else item for at, item in enumerate(items)]
    assert transport.send_all([Call("ListTables", {})])[0]


def test_a_failed_condition_brings_the_item(connect: Any, server: Server) -> None:
    transport, table = connect(server.url), new_table(access_to(server.url))
    item = {**KEY, "n": {"N": "5"}}
    request = {
        "TableName": table,
        "Item": item,
        "ConditionExpression": "attribute_not_exists(PK)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    transport.send("PutItem", request)
    with pytest.raises(ConflictError) as caught:
        transport.send("PutItem", request)
    assert isinstance(caught.value, ConditionError)
    assert caught.value.item == item


def test_a_cancelled_transaction_names_its_item(connect: Any, server: Server) -> None:
    transport, table = connect(server.url), new_table(access_to(server.url))
    item = {**KEY, "n": {"N": "5"}}
    transport.send("PutItem", {"TableName": table, "Item": item})
    put = {"TableName": table, "Item": item, "ConditionExpression": "attribute_not_exists(PK)"}
    put["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    other = {"TableName": table, "Item": {"PK": {"S": "other"}, "SK": {"S": "x"}}}
    with pytest.raises(ConditionError, match="the condition of item 2 does not hold; nothing was written") as caught:
        transport.send("TransactWriteItems", {"TransactItems": [{"Put": other}, {"Put": put}]})
    assert caught.value.edit == 1
    assert caught.value.item == item
    assert [reason.code for reason in caught.value.reasons] == ["None", "ConditionalCheckFailed"]
    assert transport.send("GetItem", {"TableName": table, "Key": other["Item"]}) == {}


def test_what_is_too_large_is_refused(connect: Any, server: Server) -> None:
    transport, table = connect(server.url), new_table(access_to(server.url))
    with pytest.raises(OversizeError, match="size has exceeded") as caught:
        transport.send("PutItem", {"TableName": table, "Item": {**KEY, "text": {"S": "x" * 410_000}}})
    assert isinstance(caught.value, ArgumentError)
    transport.send("PutItem", {"TableName": table, "Item": {"PK": {"S": "p" * 2048}, "SK": {"S": "x" * 1024}}})
    with pytest.raises(OversizeError):
        transport.send("PutItem", {"TableName": table, "Item": {"PK": {"S": "p"}, "SK": {"S": "x" * 1025}}})
    with pytest.raises(OversizeError):
        transport.send("PutItem", {"TableName": table, "Item": {"PK": {"S": "p" * 2049}, "SK": {"S": "x"}}})


def test_a_missing_table(connect: Any, server: Server) -> None:
    with pytest.raises(DesignMismatchError, match="does not exist here; run 'keyplan apply'"):
        connect(server.url).send("GetItem", {"TableName": "not-there", "Key": KEY})


def test_many_threads_share_a_transport(dynoxide: Server) -> None:
    access = access_to(dynoxide.url)
    transport, table = Transport(access), new_table(access)

    def work(number: int) -> dict[str, Any]:
        key = {"PK": {"S": f"{number}"}, "SK": {"S": "x"}}
        transport.send("PutItem", {"TableName": table, "Item": {**key, "n": {"N": f"{number}"}}})
        return transport.send("GetItem", {"TableName": table, "Key": key})["Item"]["n"]  # type: ignore[no-any-return]

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(400))) == [{"N": f"{number}"} for number in range(400)]
    transport.close()


def test_connections_are_kept_and_bounded() -> None:
    with FaultyServer([Act(body={"n": number}, delay_seconds=0.01) for number in range(60)]) as faulty:

        async def run() -> None:
            transport = AsyncTransport(access_to(faulty.url), connections=5)
            await transport.send_all([Call("GetItem", {}) for _ in range(60)])
            await transport.close()

        asyncio.run(run())
        assert len(faulty.requests) == 60
        assert faulty.connections == 5


def test_a_cancelled_call_does_not_mix_up_the_next() -> None:
    with FaultyServer([Act(body={"n": 1}, delay_seconds=0.2), Act(body={"n": 2})]) as faulty:

        async def run() -> dict[str, Any]:
            transport = AsyncTransport(access_to(faulty.url))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await transport.send("GetItem", {})
            reply = await transport.send("GetItem", {})
            await transport.close()
            return reply

        assert asyncio.run(run()) == {"n": 2}


@pytest.mark.parametrize("chunked", [False, True])
def test_replies_in_pieces(connect: Any, chunked: bool) -> None:
    with FaultyServer([Act(body={"Item": {"a": "b" * 99}}, chunked=chunked)] * 3) as faulty:
        transport = connect(faulty.url)
        assert [transport.send("GetItem", {})["Item"]["a"] for _ in range(3)] == ["b" * 99] * 3
        assert faulty.connections == 1


def test_a_server_that_wants_to_close(connect: Any) -> None:
    with FaultyServer([Act(headers="Connection: close\r\n", hang_up="after")] * 2) as faulty:
        transport = connect(faulty.url)
        assert [transport.send("PutItem", {}) for _ in range(2)] == [{}, {}]
        assert faulty.connections == 2


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("operation", ["GetItem", "PutItem"])
def test_an_unreachable_endpoint(connect: Any, operation: str) -> None:
    with pytest.raises(UnavailableError, match=r"cannot be reached, .*refused; check the endpoint") as caught:
        connect(f"http://127.0.0.1:{free_port()}").send(operation, {})
    assert caught.value.retryable


def test_an_unknown_host(connect: Any, colour: str) -> None:
    access = Access("http://no-such-host.invalid", "us-east-1", lambda: Credentials("k", "s"))
    both = Both(colour, access)
    with pytest.raises(UnavailableError, match="the host name is unknown"):
        both.send("GetItem", {})
    both.close()


@pytest.mark.parametrize("hang_up", ["before", "amid"])
def test_a_lost_reply_to_a_write_is_uncertain(connect: Any, hang_up: str) -> None:
    with FaultyServer([Act(hang_up=hang_up)]) as faulty:
        with pytest.raises(UncertainError, match="the reply to UpdateItem was lost"):
            connect(faulty.url).send("UpdateItem", {"n": 1})
        assert len(faulty.requests) == 1


@pytest.mark.parametrize("hang_up", ["before", "amid"])
@pytest.mark.parametrize(("operation", "repeatable"), [("GetItem", False), ("PutItem", True)])
def test_a_lost_reply_to_what_may_be_repeated_is_retryable(
    connect: Any, hang_up: str, operation: str, repeatable: bool
) -> None:
    with FaultyServer([Act(hang_up=hang_up)]) as faulty:
        with pytest.raises(UnavailableError, match=f"no reply to {operation}") as caught:
            connect(faulty.url).send(operation, {}, repeatable=repeatable)
        assert caught.value.retryable
        assert len(faulty.requests) == 1


def test_a_timeout_is_a_lost_reply(connect: Any) -> None:
    with FaultyServer([Act(delay_seconds=0.5), Act(delay_seconds=0.5), Act(body={"n": 3})]) as faulty:
        transport = connect(faulty.url, reply_seconds=0.1)
        with pytest.raises(UncertainError, match="timed out"):
            transport.send("UpdateItem", {})
        with pytest.raises(UnavailableError, match="timed out"):
            transport.send("Query", {})
        assert transport.send("Query", {}) == {"n": 3}  # not the late reply of an earlier request


def test_a_kept_connection_that_was_closed_meanwhile_does_no_harm(connect: Any) -> None:
    with FaultyServer([Act(hang_up="after"), Act(body={"n": 2})]) as faulty:
        transport = connect(faulty.url)
        transport.send("PutItem", {})
        transport.pause(0.05)
        assert transport.send("UpdateItem", {}) == {"n": 2}
        assert len(faulty.requests) == 2


def test_a_kept_connection_that_breaks_is_replaced_once_for_reads(connect: Any) -> None:
    with FaultyServer([Act(), Act(hang_up="before"), Act(body={"n": 3})]) as faulty:
        transport = connect(faulty.url)
        transport.send("GetItem", {})
        assert transport.send("GetItem", {}) == {"n": 3}
    with FaultyServer([Act(), Act(hang_up="before"), Act(body={"n": 3})]) as faulty:
        transport = connect(faulty.url)
        transport.send("GetItem", {})
        with pytest.raises(UncertainError):
            transport.send("UpdateItem", {})
        assert len(faulty.requests) == 2


def test_an_idle_connection_is_not_trusted_for_long(connect: Any) -> None:
    with FaultyServer([]) as faulty:
        transport = connect(faulty.url, idle_seconds=0.02)
        transport.send("PutItem", {})
        transport.pause(0.05)
        transport.send("PutItem", {})
        assert faulty.connections == 2


@pytest.mark.parametrize("raw", [b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n{}"])
def test_what_is_not_http(connect: Any, raw: bytes) -> None:
    with FaultyServer([Act(raw=raw)]) as faulty, pytest.raises(UnavailableError, match="not HTTP"):
        connect(faulty.url).send("GetItem", {})


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'"yes"', b"\xff", b'{"error": "no"}'])
@pytest.mark.parametrize("status", [200, 301, 400, 403, 404, 405, 501])
def test_what_is_not_dynamodb(connect: Any, status: int, body: bytes) -> None:
    if status == 200 and body.startswith(b"{"):
        return  # no reply of DynamoDB has to have anything in it
    raw = b"HTTP/1.1 %d -\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)
    told = (
        rf"dynamodb at 127.0.0.1:\d+: what answers there is not DynamoDB \({status}\); check the endpoint and network"
    )
    for operation in ("GetItem", "UpdateItem"):
        with FaultyServer([Act(raw=raw)]) as faulty, pytest.raises(EngineError, match=told) as caught:
            connect(faulty.url).send(operation, {})
        assert not caught.value.retryable
        # Something on the way may have spoilt what DynamoDB said of a write that it has done.
        assert isinstance(caught.value, UncertainError) == (status == 200 and operation == "UpdateItem")


@pytest.mark.parametrize(
    "code", ["ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException"]
)
def test_throttling(connect: Any, code: str) -> None:
    with FaultyServer([error(code, "The level of configured provisioned throughput was exceeded.")]) as faulty:
        with pytest.raises(ThrottledError, match="throttled, the level of") as caught:
            connect(faulty.url).send("PutItem", {})
        assert caught.value.retryable
        assert len(faulty.requests) == 1


def test_contention_is_retryable(connect: Any) -> None:
    reasons = [{"Code": "None"}, {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}]
    acts = [
        error("TransactionConflictException"),
        error("TransactionCanceledException", CancellationReasons=reasons),
        error("TransactionCanceledException", CancellationReasons=[{"Code": "ThrottlingError"}]),
    ]
    with FaultyServer(acts) as faulty:
        transport = connect(faulty.url)
        for expected in (ContendedError, ContendedError, ThrottledError):
            with pytest.raises(expected) as caught:
                transport.send("TransactWriteItems", {})
            assert caught.value.retryable


def test_wrong_credentials_are_not_repeated_to_the_reader(colour: str) -> None:
    said = "The request signature we calculated does not match.\n\nThe Canonical String 'x-amz-security-token:my-token'"
    access_errors = [
        (error("UnrecognizedClientException", "The security token is invalid."), "credentials are not accepted"),
        (error("InvalidSignatureException", said), "credentials are not accepted"),
        (error("ExpiredTokenException", "The security token my-token is expired"), "session token has expired; log in"),
        (error("AccessDeniedException", "User: x is not authorized to perform: y"), "not allowed, user: x is not"),
    ]
    with FaultyServer([act for act, _ in access_errors]) as faulty:
        both = Both(colour, Access(faulty.url, "us-east-1", lambda: Credentials("my-key", "my-secret", "my-token")))
        for _, message in access_errors:
            with pytest.raises(AccessError, match=message) as caught:
                both.send("GetItem", {})
            assert "my-" not in str(caught.value)
        both.close()


def test_a_clock_that_is_off_is_corrected_once(connect: Any) -> None:
    ahead = f"Date: {formatdate(time.time() + 7200, usegmt=True)}\r\n"
    refused = error("InvalidSignatureException", "Signature expired: 20260101T000000Z is now earlier than …")
    refused.headers = ahead
    with FaultyServer([refused, Act(body={"n": 2}), Act(body={"n": 3})]) as faulty:
        transport = connect(faulty.url)
        assert transport.send("UpdateItem", {}) == {"n": 2}
        assert transport.send("UpdateItem", {}) == {"n": 3}
        stamps = [head.partition("X-Amz-Date: ")[2][:16] for head in faulty.heads]
        assert stamps[1] > stamps[0]
        assert stamps[2] >= stamps[1]


def test_a_clock_that_cannot_be_corrected_is_named(connect: Any) -> None:
    refused = error("InvalidSignatureException", "Signature not yet current: 20260101T000000Z is still later than …")
    refused.headers = f"Date: {formatdate(usegmt=True)}\r\n"
    with FaultyServer([refused]) as faulty:
        with pytest.raises(AccessError, match="the clock of this machine is off"):
            connect(faulty.url).send("GetItem", {})
        assert len(faulty.requests) == 1


def test_a_failing_service(connect: Any) -> None:
    acts = [error("InternalServerError", status=500)] * 2 + [
        error("ServiceUnavailable", status=503),
        Act(502, "<html>"),
    ]
    with FaultyServer(acts) as faulty:
        transport = connect(faulty.url)
        with pytest.raises(UncertainError, match="500 InternalServerError; the write may have been done"):
            transport.send("UpdateItem", {})
        for operation in ("GetItem", "UpdateItem", "Query"):
            with pytest.raises(UnavailableError):
                transport.send(operation, {})


@pytest.mark.parametrize(
    ("request_", "statuses", "sent", "found"),
    [
        (Request("GetItem", {}), [500, 503, 200], 3, dict),
        (Request("GetItem", {}), [500] * 9, 4, UnavailableError),
        (Request("PutItem", {}), [500, 200], 2, dict),
        (Request("PutItem", {}), [500] * 9, 4, UncertainError),
        (Request("UpdateItem", {}, repeatable=False), [503, 200], 2, dict),
        (Request("UpdateItem", {}, repeatable=False), [503, 500, 200], 2, UncertainError),
        (Request("UpdateItem", {}, repeatable=False), [503] * 9, 4, UnavailableError),
    ],
)
def test_what_the_service_fails_at_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, request_: Request, statuses: list[int], sent: int, found: type
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
    acts = [Act(200, {}) if status == 200 else error("Failed", status=status) for status in statuses]
    with FaultyServer(acts) as faulty:
        port = DynamoDBPort(f"dynamodb://table?endpoint={faulty.url}&region=eu-west-1")
        (reply,) = port.send([request_])
        port.close()
        assert isinstance(reply, found)
        assert len(faulty.requests) == sent


def test_closing_twice_is_fine() -> None:
    with FaultyServer([]) as faulty:
        transport = Transport(access_to(faulty.url))
        transport.send_all([Call("GetItem", {})] * 3)
        transport.close()
        transport.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("keyplan-dynamodb")]
