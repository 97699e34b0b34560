"""The helpers that fetch and run servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.engines import fetch
from tests.engines.dynamodb.server import Server

ROOT = Path(__file__).parents[3]


def test_a_missing_command_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for command, package in (("java", "default-jre-headless"), ("mvn", "maven"), ("npm", "npm")):
        with pytest.raises(fetch.FetchError, match=f"'{command}' is not installed; run: apt-get install .*{package}"):
            fetch.need(command)


def test_what_is_fetched_appears_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEYPLAN_CACHE", str(tmp_path))
    calls: list[Path] = []

    def build(directory: Path) -> None:
        calls.append(directory)
        (directory / "half").write_text("x")
        if len(calls) == 1:
            raise fetch.FetchError("no network")

    with pytest.raises(fetch.FetchError):
        fetch.once("thing", build)
    assert not (tmp_path / "thing").exists()
    assert fetch.once("thing", build) == fetch.once("thing", build) == tmp_path / "thing"
    assert len(calls) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["thing", "thing.lock"]


def test_processes_that_fetch_at_once_build_once(tmp_path: Path) -> None:
    program = (
        "import time\nfrom tests.engines import fetch\n"
        "def build(directory):\n    time.sleep(0.3)\n    (directory / 'x').write_text('x')\n    print('built')\n"
        "fetch.once('thing', build)\n"
    )
    environment = {**os.environ, "KEYPLAN_CACHE": str(tmp_path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(outputs) == ["", "", "", "built\n"]


def test_a_taken_port_is_said(dynoxide: Server) -> None:
    with pytest.raises(fetch.FetchError, match="is the port taken"):
        Server("dynoxide", port=dynoxide.port).start()


def test_the_command_prints_its_url_and_stops_when_told(dynoxide: Server) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engines.dynamodb.server", "dynoxide"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(url, data=b"{}", timeout=5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    process.stdout.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)
