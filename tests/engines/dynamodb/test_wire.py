"""HTTP in any pieces, and TLS with a certificate of our own."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyplan.engines.dynamodb.credentials import Access, Credentials
from keyplan.engines.dynamodb.transport import AsyncTransport, Transport
from keyplan.engines.dynamodb.wire import HttpReply, ReplyReader
from keyplan.errors import UnavailableError
from tests.engines.dynamodb.faulty import Act, FaultyServer


def encode(body: bytes, chunks: list[int] | None) -> bytes:
    if chunks is None:
        return b"HTTP/1.1 200 OK\r\nDate: now\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    pieces, at = [], 0
    for size in [*chunks, len(body)]:
        piece = body[at : at + size]
        at += size
        if piece:
            pieces.append(b"%x\r\n%s\r\n" % (len(piece), piece))
    return b"HTTP/1.1 200 OK\r\nDate: now\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(pieces) + b"0\r\n\r\n"


@given(
    st.binary(max_size=60) | st.sampled_from([b"\r\n\r\n", b"0\r\n\r\n", b"a\r\n0\r\n\r\nb"]),
    st.none() | st.lists(st.integers(1, 20), max_size=4),
    st.lists(st.integers(1, 40), max_size=12),
)
def test_a_reply_in_any_pieces_is_whole_at_its_last_byte(
    body: bytes, chunks: list[int] | None, cuts: list[int]
) -> None:
    data = encode(body, chunks)
    reader, at = ReplyReader(), 0
    found: HttpReply | None = None
    for size in [*cuts, len(data)]:
        piece = data[at : at + size]
        at += size
        if not piece:
            break
        assert found is None
        found = reader.feed(piece)
        assert (found is not None) == (at >= len(data))
    assert found is not None
    assert (found.status, found.body, found.keeps_alive, found.date()) == (200, body, True, "now")


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.1 200 OK\r\n", True),
    ],
)
def test_who_closes(head: bytes, keeps: bool) -> None:
    found = ReplyReader().feed(head + b"Content-Length: 0\r\n\r\n")
    assert found is not None
    assert found.keeps_alive == keeps


def test_an_endless_header_is_refused() -> None:
    with pytest.raises(ValueError, match="endless"):
        ReplyReader().feed(b"x" * 70_000)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a key and a self-signed certificate for localhost."""
    if shutil.which("openssl") is None:
        pytest.skip("'openssl' is not installed; run: apt-get install openssl")
    folder = tmp_path_factory.mktemp("tls")
    key, public, both = folder / "key.pem", folder / "public.pem", folder / "both.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run([*command.split(), "-keyout", key, "-out", public], check=True, capture_output=True)
    both.write_text(key.read_text() + public.read_text())
    return both


@pytest.fixture
def secure(certificate: Path) -> Iterator[FaultyServer]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    with FaultyServer([Act(body={"n": number}) for number in range(5)], tls=context) as faulty:
        yield faulty


def access_to(server: FaultyServer) -> Access:
    return Access(server.url, "us-east-1", lambda: Credentials("k", "s"))


def test_tls_keeps_its_connection(secure: FaultyServer, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    transport = Transport(access_to(secure))
    assert [transport.send("PutItem", {})["n"] for _ in range(5)] == [0, 1, 2, 3, 4]
    assert secure.connections == 1
    transport.close()


def test_tls_keeps_its_connection_async(
    secure: FaultyServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))

    async def run() -> list[int]:
        transport = AsyncTransport(access_to(secure))
        found = [(await transport.send("PutItem", {}))["n"] for _ in range(5)]
        await transport.close()
        return found

    assert asyncio.run(run()) == [0, 1, 2, 3, 4]
    assert secure.connections == 1


def test_an_untrusted_certificate_sends_nothing(secure: FaultyServer) -> None:
    async def run() -> None:
        await AsyncTransport(access_to(secure)).send("PutItem", {})

    with pytest.raises(UnavailableError, match="tls failed, certificate_verify_failed"):
        Transport(access_to(secure)).send("PutItem", {})
    with pytest.raises(UnavailableError, match="tls failed, certificate_verify_failed"):
        asyncio.run(run())
    assert secure.requests == []
