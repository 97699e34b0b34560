"""Starts and stops MongoDB: a replica set of three nodes, or of one where speed matters more than failover.

Every node is bound to 127.0.0.1, on a free port, with its files in a temporary directory, in memory if there is enough
of it.
`python -m tests.engines.mongodb.server` prints the URL of a replica set and runs until interrupted; `--nodes 1` starts
faster.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
from pathlib import Path
from types import TracebackType
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.engines import fetch, memory
from tests.engines.mongodb.software import mongod

REPLICA_SET = "keyplan"
CACHE_GB = 0.25
FILES_GB = 3
"""What three nodes write in a run of all tests, with room for the few servers that single tests start. Each node has
about 0.3 GB from the start, half of it space that is set aside for its journal."""
START_SECONDS = 90.0
TRANSACTION_SECONDS = 10
"""A sixth of MongoDB's default: what a killed process has begun keeps others from the same documents for so long."""
ELECTION_MS = 5_000
"""Half of MongoDB's default: a test that kills the primary waits this long. Less, and a busy machine votes in vain."""


class Server:
    """A replica set of `nodes`, empty, on free ports.

    `durable`: a majority has what it acknowledges in its journals, as MongoDB does it unless told otherwise. Where no
    node is ever started again, nobody reads them, and nobody has to wait for them: a part of all work, and on a single
    node, whose majority moves on with its journal only, a tenth of a second whenever a database is dropped."""

    def __init__(self, *, nodes: int = 3, durable: bool = True, parameters: Mapping[str, str] | None = None) -> None:
        self.nodes = nodes
        self._durable = durable
        self.ports: list[int] = []
        self._parameters = {
            "diagnosticDataCollectionEnabled": "false",
            "replWriterThreadCount": "1",  # with little to apply at once, more of them only wake each other
            "transactionLifetimeLimitSeconds": str(TRANSACTION_SECONDS),
            **(parameters or {}),
        }
        self._directory: Path | None = None
        self._processes: list[subprocess.Popen[bytes] | None] = []

    @property
    def hosts(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self.ports]

    @property
    def url(self) -> str:
        return self.url_of("")

    def url_of(self, database: str) -> str:
        """The URL of one database."""
        return f"mongodb://{','.join(self.hosts)}/{database}?replicaSet={REPLICA_SET}"

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes if process is not None]

    def start(self) -> Server:
        # Another process may take a free port between finding and binding it: then the node exits, and we try anew.
        for _ in range(3):
            self._directory = Path(tempfile.mkdtemp(prefix="keyplan-mongodb-", dir=memory.directory(FILES_GB)))
            self.ports = _free_ports(self.nodes)
            self._processes = [self._launch(number) for number in range(self.nodes)]
            if all(self._ready(number) for number in range(self.nodes)):
                atexit.register(self.stop)
                self._initiate()
                return self
            log = self._log()
            self.stop()
        raise fetch.FetchError(f"mongod ended at once\n{log}")

    def _launch(self, number: int) -> subprocess.Popen[bytes]:
        assert self._directory is not None
        home = self._directory / str(number)
        home.mkdir(exist_ok=True)
        options = [f"--port={self.ports[number]}", "--bind_ip=127.0.0.1", "--nounixsocket", f"--dbpath={home}"]
        options += [f"--replSet={REPLICA_SET}", f"--wiredTigerCacheSizeGB={CACHE_GB}", "--oplogSize=256"]
        options += ["--networkMessageCompressors=disabled"]  # between processes of one machine, it is work for nothing
        options += [f"--setParameter={name}={value}" for name, value in self._parameters.items()]
        with (self._directory / f"{number}.log").open("ab") as log:
            return subprocess.Popen(
                [str(mongod()), *options], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def _ready(self, number: int) -> bool:
        process = self._processes[number]
        assert process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                return False
            with suppress(PyMongoError), self._node(number) as client:
                client.admin.command("ping")
                return True
            time.sleep(0.05)
        raise fetch.FetchError(f"mongod did not answer within {START_SECONDS:.0f} s\n{self._log()}")

    def _initiate(self) -> None:
        """Makes the nodes a replica set and waits for its primary.

        The first vote takes one election timeout, so it is short until there is a primary."""
        members = [{"_id": number, "host": host} for number, host in enumerate(self.hosts)]
        config = {
            "_id": REPLICA_SET,
            "members": members,
            "settings": {"electionTimeoutMillis": 500},
            "writeConcernMajorityJournalDefault": self._durable,
        }
        with self._node(0) as client:
            client.admin.command("replSetInitiate", config)
        self.primary()
        deadline = time.monotonic() + START_SECONDS
        while True:
            with self._node(self.primary()) as client:
                current = client.admin.command("replSetGetConfig")["config"]
                settings = {**current["settings"], "electionTimeoutMillis": ELECTION_MS}
                try:
                    client.admin.command(
                        "replSetReconfig", {**current, "version": current["version"] + 1, "settings": settings}
                    )
                except PyMongoError:  # a vote in between, or a member that has not joined yet
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
                else:
                    break
        self._wait_for_members()

    def _wait_for_members(self) -> None:
        """Waits until every node takes part: a majority write would wait for it otherwise."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with suppress(PyMongoError), self._node(self.primary()) as client:
                states = [member["stateStr"] for member in client.admin.command("replSetGetStatus")["members"]]
                if sorted(states) == ["PRIMARY"] + ["SECONDARY"] * (self.nodes - 1):
                    return
            time.sleep(0.1)
        raise fetch.FetchError(f"the replica set was not complete within {START_SECONDS:.0f} s\n{self._log()}")

    def primary(self) -> int:
        """The number of the node that takes writes, as soon as there is one."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for number, process in enumerate(self._processes):
                if process is None:
                    continue
                with suppress(PyMongoError), self._node(number) as client:
                    if client.admin.command("hello").get("isWritablePrimary"):
                        return number
            time.sleep(0.05)
        raise fetch.FetchError(f"no primary within {START_SECONDS:.0f} s\n{self._log()}")

    def kill(self, number: int) -> None:
        """Ends a node as a power cut would."""
        process = self._processes[number]
        if process is not None:
            process.kill()
            process.wait()
            self._processes[number] = None

    def restart(self, *numbers: int) -> None:
        """Starts killed nodes again, with the files that they left, and waits until all take part."""
        assert self._durable, "nodes that are started again need their journals"
        for number in numbers:
            self._processes[number] = self._launch(number)
            if not self._ready(number):
                raise fetch.FetchError(f"mongod ended at once\n{self._log()}")
        self._wait_for_members()

    @contextmanager
    def _node(self, number: int) -> Iterator[MongoClient[dict[str, Any]]]:
        """A client of one node, whatever its state."""
        client: MongoClient[dict[str, Any]] = MongoClient(
            "127.0.0.1", self.ports[number], directConnection=True, serverSelectionTimeoutMS=1_000
        )
        try:
            yield client
        finally:
            client.close()

    def _log(self) -> str:
        if self._directory is None:
            return ""
        return "\n".join(path.read_text(errors="replace")[-1500:] for path in sorted(self._directory.glob("*.log")))

    def stop(self) -> None:
        """Ends every node; doing it twice is fine."""
        # Nothing is kept, so nothing has to be written out: a clean shutdown of a primary takes seconds.
        for number in range(len(self._processes)):
            self.kill(number)
        self._processes = []
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
        atexit.unregister(self.stop)

    def hand_over(self) -> dict[str, Any]:
        """What another process needs to use, and in the end to stop, this server; it is no longer this one's."""
        about = {"url": self.url, "pids": self.pids, "directory": str(self._directory)}
        atexit.unregister(self.stop)
        return about

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Shared:
    """One server for all the processes of a test run: the first that wants it starts it, the last one stops it.

    Users hold a shared lock, which dies with its process; whoever can have it alone is the last. Its nodes are killed
    in the end and never before, so that nothing has to be durable."""

    def __init__(self, *, nodes: int = 3) -> None:
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
        self._home = Path(tempfile.gettempdir()) / f"keyplan-mongodb-shared-{os.getuid()}-{run}-{nodes}"
        self._nodes = nodes
        self._server: Server | None = None
        self.url = ""

    def start(self) -> Shared:
        self._home.mkdir(mode=0o700, exist_ok=True)
        self._mutex = (self._home / "mutex").open("a")
        self._users = (self._home / "users").open("a")
        flock(self._mutex, LOCK_EX)
        try:
            flock(self._users, LOCK_SH)
            about = self._home / "about.json"
            if not about.exists():
                self._server = Server(nodes=self._nodes, durable=False).start()
                about.write_text(json.dumps(self._server.hand_over()))
            self.url = json.loads(about.read_text())["url"]
        finally:
            flock(self._mutex, LOCK_UN)
        return self

    def url_of(self, database: str) -> str:
        """The URL of one database."""
        return self.url.replace("/?", f"/{database}?")

    def stop(self) -> None:
        """Stops the server if nobody else uses it."""
        flock(self._mutex, LOCK_EX)
        try:
            flock(self._users, LOCK_UN)
            with suppress(BlockingIOError):
                flock(self._users, LOCK_EX | LOCK_NB)
                about = json.loads((self._home / "about.json").read_text())
                for pid in about["pids"]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                if self._server is not None:
                    self._server.stop()
                shutil.rmtree(about["directory"], ignore_errors=True)
                shutil.rmtree(self._home, ignore_errors=True)
        finally:
            self._users.close()
            self._mutex.close()


def _free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on; held all at once, or two of them might be the same."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a MongoDB replica set for tests until interrupted.")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=3)
    arguments = parser.parse_args()

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        with Server(nodes=arguments.nodes) as server:
            print(server.url, flush=True)
            signal.pause()
    except KeyboardInterrupt:
        pass
    except fetch.FetchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
