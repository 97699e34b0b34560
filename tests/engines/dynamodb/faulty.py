"""A TCP server that answers by a script: for lost replies, throttling and the like, which real servers do not do."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any


@dataclass
class Act:
    """What to do with one request."""

    status: int = 200
    body: Any = None
    headers: str = ""
    hang_up: str = ""
    """`before`: close without an answer; `amid`: close within the answer; `after`: close behind it, unannounced."""
    chunked: bool = False
    delay_seconds: float = 0.0
    raw: bytes | None = None


def error(code: str, message: str = "", status: int = 400, **more: Any) -> Act:
    return Act(status, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message, **more})


class FaultyServer:
    """Plays its acts in the order of the requests; `requests` are the bodies that arrived."""

    def __init__(self, acts: Sequence[Act], tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._acts = list(acts)
        self.requests: list[Any] = []
        self.heads: list[str] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        port = self._listener.getsockname()[1]
        return f"https://localhost:{port}" if self._tls else f"http://127.0.0.1:{port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError):
            self._converse(self._tls.wrap_socket(plain, server_side=True) if self._tls else plain)

    def _converse(self, connection: socket.socket) -> None:
        # A client that has given up closes its end while we write.
        with suppress(OSError), connection, connection.makefile("rb") as stream:
            while True:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = stream.readline()
                    if not line:
                        return
                    head += line
                text = head.decode()
                length = int(text.lower().partition("content-length:")[2].split()[0])
                body = json.loads(stream.read(length))
                with self._lock:
                    self.requests.append(body)
                    self.heads.append(text)
                    act = self._acts.pop(0) if self._acts else Act(body={})
                if not self._play(connection, act):
                    return

    def _play(self, connection: socket.socket, act: Act) -> bool:
        time.sleep(act.delay_seconds)
        if act.hang_up == "before":
            return False
        content = json.dumps({} if act.body is None else act.body).encode()
        if act.raw is not None:
            answer = act.raw
        elif act.chunked:
            half = len(content) // 2
            pieces = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (content[:half], content[half:]))
            answer = f"HTTP/1.1 {act.status} X\r\n{act.headers}Transfer-Encoding: chunked\r\n\r\n".encode() + pieces
            answer += b"0\r\n\r\n"
        else:
            answer = (
                f"HTTP/1.1 {act.status} X\r\n{act.headers}Content-Length: {len(content)}\r\n\r\n".encode() + content
            )
        if act.hang_up == "amid":
            connection.sendall(answer[:-3])
            return False
        # In two pieces, so that readers have to put them together.
        connection.sendall(answer[:20])
        time.sleep(0.002)
        connection.sendall(answer[20:])
        return act.hang_up != "after"

    def close(self) -> None:
        self._listener.close()
        for connection in self._open:
            connection.close()

    def __enter__(self) -> FaultyServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
