"""Faults of DynamoDB as somebody at the command line sees them: one line, exit 2, no traceback and no secrets.

The error classes behind the lines are tested in `test_transport.py`.
"""

from __future__ import annotations

import os
import pty
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import keyplan
from keyplan.engines.dynamodb.credentials import Address, resolve
from keyplan.engines.dynamodb.transport import Transport
from keyplan.model.load import load_model
from tests.engines.dynamodb.conftest import new_table
from tests.engines.dynamodb.faulty import Act, FaultyServer, error
from tests.engines.dynamodb.server import Server
from tests.engines.dynamodb.support import url_of

MODEL = """
keyplan: 1
name: notes
targets: { dynamodb: { billing: on_demand } }
entities:
  Note:
    count: 1M
    fields:
      nid: string(20, max 3000), key
      text: "text(200, max 500000)"
      topic: string(10)
patterns:
  note: { find: Note, where: "nid = :nid", rate: 100/s }
writes:
  add: { create: Note, rate: 1/s }
"""
SECRET, TOKEN = "very/secret+value", "token-of-a-session"


class Line:
    """`keyplan` as a process of its own, with credentials that must not show up."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "notes.yaml").write_text(MODEL, encoding="utf-8")

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_SESSION_TOKEN": TOKEN,
        }
        command = [sys.executable, "-m", "keyplan", *arguments]
        return subprocess.run(
            command, cwd=self.directory, env=env, capture_output=True, text=True, check=False, timeout=100
        )

    def fails(self, *arguments: str, said: str) -> str:
        done = self(*arguments)
        assert done.returncode == 2, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        (line,) = done.stderr.splitlines()
        assert said in line, line
        assert SECRET not in line
        assert TOKEN not in line
        assert not line.endswith(".")
        return line

    def run(self, url: str, *arguments: str, said: str) -> str:
        return self.fails("run", "notes.yaml", url, *arguments, said=said)


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path)


@pytest.fixture
def applied(line: Line, dynoxide: Server) -> str:
    url = url_of(dynoxide.url)
    keyplan.apply(load_model(line.directory / "notes.yaml"), url)
    return url


def test_an_unreachable_endpoint(line: Line) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"dynamodb://notes?region=us-east-1&endpoint=http://127.0.0.1:{port}"
    line.run(url, "note", "nid=1", said=f"127.0.0.1:{port}")
    line.fails("apply", "notes.yaml", url, "--yes", said=f"127.0.0.1:{port}")


@pytest.mark.parametrize("arguments", [("run", "notes.yaml", "URL", "note", "nid=1"), ("verify", "notes.yaml", "URL")])
def test_a_server_that_does_not_answer_is_waited_for_with_a_word(line: Line, arguments: tuple[str, ...]) -> None:
    """On a terminal: already while the table is opened."""
    with FaultyServer([Act(delay_seconds=100)]) as server:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "keyplan", *(url_of(server.url) if one == "URL" else one for one in arguments)]
        process = subprocess.Popen(command, cwd=line.directory, stdout=subprocess.DEVNULL, stderr=theirs)
        try:
            assert select.select([ours], [], [], 20)[0], "nothing was said"
            assert b"ing no" in os.read(ours, 100)
        finally:
            process.kill()
            process.wait()
            os.close(ours)
            os.close(theirs)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("UnrecognizedClientException", "the credentials are not accepted"),
        ("InvalidSignatureException", "the credentials are not accepted"),
        ("ExpiredTokenException", "the session token has expired; log in again"),
        ("AccessDeniedException", "not allowed"),
    ],
)
def test_credentials(line: Line, code: str, said: str) -> None:
    """AWS repeats the signed text in its refusal, session token included; we do not."""
    acts = [error(code, f"The security token is invalid\nx-amz-security-token:{TOKEN}") for _ in range(50)]
    with FaultyServer(acts) as server:
        line.run(url_of(server.url), "note", "nid=1", said=said)


def test_a_clock_that_is_off(line: Line) -> None:
    """The server's own time is tried first; where it gives none, the clock is named."""
    said = "Signature expired: 20261105T093000Z is now earlier than 20261105T093500Z"
    with FaultyServer([error("InvalidSignatureException", said) for _ in range(50)]) as server:
        line.run(url_of(server.url), "note", "nid=1", said="the clock of this machine is off")


def test_a_missing_table(line: Line, dynoxide: Server) -> None:
    url = url_of(dynoxide.url)
    for command in (("run", "notes.yaml", url, "note", "nid=1"), ("verify", "notes.yaml", url)):
        line.fails(*command, said="there is no such table in this account and region; check the name, or make it with")


def test_an_index_of_somebody_else_is_named(line: Line, applied: str, dynoxide: Server) -> None:
    transport = Transport(resolve(Address("table", endpoint=dynoxide.url)))
    create = {
        "IndexName": "theirs",
        "KeySchema": [{"AttributeName": "topic", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    table = applied.removeprefix("dynamodb://").partition("?")[0]
    body = {
        "TableName": table,
        "AttributeDefinitions": [{"AttributeName": "topic", "AttributeType": "S"}],
        "GlobalSecondaryIndexUpdates": [{"Create": create}],
    }
    transport.send("UpdateTable", body)
    done = line("apply", "notes.yaml", applied, "--yes")
    found = transport.send("DescribeTable", {"TableName": table})["Table"]["GlobalSecondaryIndexes"]
    transport.close()
    first, second = done.stdout.splitlines()
    assert first.startswith("leaves: the index theirs, which no design of keyplan has had here; ")
    assert second == "nothing to do; the design is there already"
    assert [one["IndexName"] for one in found] == ["theirs"]


def test_a_table_that_is_not_ours(line: Line, dynoxide: Server) -> None:
    access = resolve(Address("table", endpoint=dynoxide.url))
    table = new_table(access)
    transport = Transport(access)
    transport.send("PutItem", {"TableName": table, "Item": {"PK": {"S": "a"}, "SK": {"S": "b"}}})
    transport.close()
    url = f"dynamodb://{table}?region=us-east-1&endpoint={dynoxide.url}"
    line.fails("apply", "notes.yaml", url, "--yes", said="no design of keyplan is recorded in it")
    line.run(url, "note", "nid=1", said="run 'keyplan")


def test_values_that_something_else_wrote(line: Line, applied: str, dynoxide: Server) -> None:
    line("run", "notes.yaml", applied, "add", "nid=1", "text=a", "topic=b")
    access = resolve(Address("table", endpoint=dynoxide.url))
    table = applied.removeprefix("dynamodb://").partition("?")[0]
    transport = Transport(access)
    (item,) = (one for one in transport.send("Scan", {"TableName": table})["Items"] if one.get("topic") == {"S": "b"})
    transport.send("PutItem", {"TableName": table, "Item": {**item, "topic": {"N": "17"}}})
    transport.close()
    line.run(
        applied,
        "note",
        "nid=1",
        said="item of 'Note' under PK 'NOTE#1' and SK 'NOTE': the stored value of 'topic' is not what the model says",
    )


def test_a_table_that_does_not_match_the_lock(line: Line, applied: str) -> None:
    more = 'by_topic: { find: Note, where: "topic = :topic", rate: 9/s }'
    changed = MODEL.replace("rate: 100/s }", f"rate: 100/s }}\n  {more}")
    (line.directory / "notes.yaml").write_text(changed, encoding="utf-8")
    line.run(applied, "note", "nid=1", said="the model has changed since the design was made")
    assert line("design", "notes.yaml", "--engine", "dynamodb", "--save").returncode == 0
    table = applied.removeprefix("dynamodb://").partition("?")[0]
    line.run(applied, "note", "nid=1", said=f"{table}: the database holds another design than the one to be run")


def test_a_table_of_another_model(line: Line, applied: str) -> None:
    """To apply would be refused as well."""
    other = line.directory / "others.yaml"
    other.write_text(MODEL.replace("name: notes", "name: others"), encoding="utf-8")
    assert line("design", "others.yaml", "--engine", "dynamodb", "--save").returncode == 0
    said = "it holds a design of the model 'notes', not of 'others'; name the database of this model in the URL"
    line.fails("run", "others.yaml", applied, "note", "nid=1", said=said)
    line.fails("apply", "others.yaml", applied, said="holds a design of the model 'notes', not of 'others'")


def test_throttling_that_does_not_end(line: Line) -> None:
    acts = [error("ProvisionedThroughputExceededException", "The level of configured throughput") for _ in range(2000)]
    with FaultyServer(acts) as server:
        line.run(url_of(server.url), "note", "nid=1", said="throttled")
        assert len(server.requests) > 3, "it was tried again, within a budget"


def test_a_lost_reply(line: Line) -> None:
    with FaultyServer([Act(hang_up="before") for _ in range(500)]) as server:
        line.run(url_of(server.url), "note", "nid=1", said="127.0.0.1")


def test_an_item_or_key_that_is_too_large(line: Line, applied: str) -> None:
    line.run(applied, "add", f"nid={'k' * 2500}", "text=x", "topic=t", said="dynamodb takes 2,048")
    text = line.directory / "rows.jsonl"
    text.write_text('["Note", {"nid": "n", "topic": "t", "text": "' + "x" * 450_000 + '"}]\n', encoding="utf-8")
    line.fails("load", "notes.yaml", applied, "rows.jsonl", said="rows.jsonl:1: Note 'n': its item would have 439 KB")
    assert line("verify", "notes.yaml", applied).returncode == 0
