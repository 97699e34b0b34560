"""Our signatures equal botocore's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.auth import SigV4Auth  # type: ignore[import-untyped]
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]
from botocore.credentials import Credentials as BotoCredentials  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from keyplan.engines.dynamodb.credentials import Credentials
from keyplan.engines.dynamodb.signing import CONTENT_TYPE, Signer

ENDPOINTS = [
    "https://dynamodb.eu-west-1.amazonaws.com",
    "https://dynamodb.us-gov-west-1.amazonaws.com:443/",
    "http://127.0.0.1:8000",
    "http://localhost",
    "https://vpce-1.dynamodb.example.com:8443",
]
PRINTABLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)).map(lambda at: at.replace(microsecond=0))


def botocore_authorization(
    endpoint: str, region: str, target: str, body: bytes, credentials: Credentials, stamp: str, monkey: Any
) -> str:
    request = AWSRequest(
        "POST", endpoint if endpoint.endswith("/") else endpoint + "/", {"X-Amz-Target": target}, data=body
    )
    request.headers["Content-Type"] = CONTENT_TYPE
    moment = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    monkey.setattr("botocore.auth.get_current_datetime", lambda *_, **__: moment.replace(tzinfo=None))
    boto = BotoCredentials(credentials.key, credentials.secret, credentials.token)
    SigV4Auth(boto, "dynamodb", region).add_auth(request)
    return str(request.headers["Authorization"])


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(ENDPOINTS),
    st.sampled_from(["eu-west-1", "us-east-1"]),
    st.sampled_from(["GetItem", "TransactWriteItems"]),
    st.binary(max_size=200),
    PRINTABLE,
    PRINTABLE,
    st.none() | PRINTABLE,
    MOMENTS,
)
def test_signatures_equal_botocores(
    endpoint: str, region: str, operation: str, body: bytes, key: str, secret: str, token: str | None, moment: datetime
) -> None:
    stamp = moment.strftime("%Y%m%dT%H%M%SZ")
    target = f"DynamoDB_20120810.{operation}"
    credentials = Credentials(key, secret, token)
    with pytest.MonkeyPatch.context() as monkey:
        theirs = botocore_authorization(endpoint, region, target, body, credentials, stamp, monkey)
    signer = Signer(endpoint, region)
    assert signer.authorization(target, body, credentials, stamp) == theirs
    assert signer.authorization(target, body, credentials, stamp) == theirs  # with the kept key


def test_the_kept_key_follows_day_and_secret() -> None:
    def sign(signer: Signer, secret: str, stamp: str) -> str:
        return signer.authorization("DynamoDB_20120810.GetItem", b"{}", Credentials("k", secret), stamp)

    one = Signer(ENDPOINTS[0], "eu-west-1")
    for secret, stamp in (("s", "20260101T000000Z"), ("t", "20260101T000000Z"), ("t", "20260102T000000Z")):
        assert sign(one, secret, stamp) == sign(Signer(ENDPOINTS[0], "eu-west-1"), secret, stamp)


def test_a_request_holds_what_was_signed() -> None:
    request = Signer("http://127.0.0.1:8000", "eu-west-1").request("GetItem", b"{}", Credentials("k", "s", "t"))
    head, _, body = request.partition(b"\r\n\r\n")
    assert body == b"{}"
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST / HTTP/1.1"
    assert "Host: 127.0.0.1:8000" in lines
    assert "X-Amz-Security-Token: t" in lines
    assert "Content-Length: 2" in lines


def test_the_clock_can_be_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    signer = Signer("http://127.0.0.1:8000", "eu-west-1")
    signer.offset_seconds = 86_400.0
    assert b"X-Amz-Date: 19700102T000000Z" in signer.request("GetItem", b"{}", Credentials("k", "s"))
