"""Starts and stops the two servers that speak DynamoDB here: DynamoDB Local and dynoxide.

DynamoDB Local is AWS's own and decides what is right; dynoxide is several times faster and serves large suites and
benchmarks. `python -m tests.engines.dynamodb.server local` (or `dynoxide`) prints its URL and runs until interrupted.

DynamoDB Local listens on every address: it has no option for the address, its main class hands only a port to its web
server. dynoxide is bound to 127.0.0.1.
"""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.engines import fetch
from tests.engines.dynamodb.software import dynamodb_local, dynoxide

KINDS = ("local", "dynoxide")
START_SECONDS = 60.0


def _local_command(port: int) -> list[str]:
    java = fetch.need("java")
    jars = dynamodb_local()
    main = "software.amazon.dynamodb.services.local.main.ServerRunner"
    options = ["-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)]
    # A server of minutes does not earn back what the second compiler takes, a third of all its time; nor has it so much
    # to collect that several threads of the collector would be of use.
    return [
        java,
        "-Xmx512m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        f"-Djava.library.path={jars}",
        "-cp",
        f"{jars}/*",
        main,
        *options,
    ]


def _dynoxide_command(port: int) -> list[str]:
    return [str(dynoxide()), "serve", "--host", "127.0.0.1", "--port", str(port)]


class Server:
    """One server of a kind, in memory, on a free port; `port` fixes the port instead."""

    def __init__(self, kind: str, *, port: int = 0) -> None:
        if kind not in KINDS:
            raise ValueError(f"no server '{kind}'; one of {', '.join(KINDS)}")
        self.kind = kind
        self.port = port
        self._fixed = port != 0
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Server:
        # Another process may take the free port between finding and binding it: then the server exits, and we try anew.
        for attempt in range(3):
            if self._launch():
                atexit.register(self.stop)
                return self
            if self._fixed or attempt == 2:
                break
        raise fetch.FetchError(f"'{self.kind}' ended at once on port {self.port}; is the port taken?")

    def _launch(self) -> bool:
        if not self._fixed:
            self.port = _free_port()
        command = (_local_command if self.kind == "local" else _dynoxide_command)(self.port)
        self._directory = Path(tempfile.mkdtemp(prefix=f"keyplan-{self.kind}-"))
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self._directory, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                self.stop()
                return False
            if _listens(self._process.pid, self.port) and _answers(self.url):
                return True
            time.sleep(0.05)
        log_text = (self._directory / "log").read_text(errors="replace")[-2000:]
        self.stop()
        raise fetch.FetchError(f"'{self.kind}' did not answer within {START_SECONDS:.0f} s\n{log_text}")

    def stop(self) -> None:
        """Ends the server; doing it twice is fine."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
        atexit.unregister(self.stop)

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(pid: int, port: int) -> bool:
    """Whether the port is this process's own: another server on it would answer just as well."""
    home = Path(f"/proc/{pid}")
    if not home.is_dir():
        return True  # no way to tell outside Linux
    mine: set[str] = set()
    lines: list[str] = []
    # Handles are closed, and the process may end, while we look; a machine may lack IPv6.
    with suppress(OSError):
        for handle in (home / "fd").iterdir():
            with suppress(OSError):
                mine.add(os.readlink(handle))
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            lines += (home / "net" / name).read_text().splitlines()[1:]
    for fields in map(str.split, lines):
        is_listening = fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port
        if is_listening and f"socket:[{fields[9]}]" in mine:
            return True
    return False


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError:
        return True  # any HTTP answer will do: an unsigned request is refused by both servers
    except OSError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a DynamoDB server for tests until interrupted.")
    parser.add_argument("kind", choices=KINDS, nargs="?", default="local")
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        with Server(arguments.kind, port=arguments.port) as server:
            print(server.url, flush=True)
            signal.pause()
    except KeyboardInterrupt:
        pass
    except fetch.FetchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
