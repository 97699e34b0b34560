"""What goes wrong with a file is one clear line that names it, and nothing is half-written."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any
from uuid import UUID

import pytest

import keyplan
from keyplan.engines.sqlite import ENGINE, limits, port
from keyplan.engines.sqlite.port import SqliteAsyncPort, SqlitePort, address, translate
from keyplan.errors import (
    ArgumentError,
    EngineError,
    KeyplanError,
    StorageError,
    UnavailableError,
    UnsupportedError,
)
from keyplan.plan.edits import Edit
from tests.engines.sqlite.support import Lab, lab, little_model
from tests.engines.sqlite.test_writes import USERS, put_user, users

MODEL = little_model()
ALBUM = """
keyplan: 1
name: album
entities:
  A:
    fields: { k: "int, key", n: int, tags: set(string), extra: json(20) }
patterns:
  one: { find: A, where: "k = :k", rate: 1/s }
  list: { find: A, rate: 1/s }
writes:
  put: { upsert: A, rate: 1/s }
  bump: { update: A, where: "k = :k", add: [n], return: [tags, extra], rate: 1/s }
"""


@pytest.fixture
def made(tmp_path: File) -> Iterator[Lab]:
    found = lab((USERS,), f"sqlite:{tmp_path}/x.db?timeout=50ms")
    yield found
    found.port.close()


def test_urls() -> None:
    assert address("sqlite:a b.db") == port.Address("a b.db")
    assert address("sqlite::memory:").path == ":memory:"
    assert address("sqlite:///tmp/x%20y.db?synchronous=full&timeout=2s") == port.Address("/tmp/x y.db", "FULL", 2.0)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:", "no file is named"),
        ("sqlite://host/x.db", "a file has no host"),
        ("sqlite://x.db", "a file has no host"),
        ("sqlite:x.db?timout=5s", "unknown option 'timout'; did you mean 'timeout'"),
        ("sqlite:x.db?mode=ro", "unknown option 'mode'; there are synchronous and timeout"),
        ("sqlite:x.db?timeout=5", "timeout: '5' has no unit"),
        ("sqlite:x.db?synchronous=off", "synchronous is normal or full, not 'off'"),
    ],
)
def test_bad_urls(url: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message.replace("?", r"\?")):
        ENGINE.connect(url, MODEL, None)


def test_settings_of_a_connection(tmp_path: File) -> None:
    for option, number in (("normal", 1), ("full", 2)):
        made = SqlitePort(f"sqlite:{tmp_path}/{option}.db?synchronous={option}")
        assert made.send([("PRAGMA journal_mode", ()), ("PRAGMA synchronous", ())]) == [[("wal",)], [(number,)]]
        made.close()


def test_a_file_that_is_not_a_database(tmp_path: File) -> None:
    file = tmp_path / "x.db"
    file.write_text("dear diary, " * 1000)
    with pytest.raises(StorageError, match=r"x\.db: is not an SQLite database"):
        SqlitePort(f"sqlite:{file}")
    assert file.read_text().startswith("dear diary")


def test_values_that_something_else_wrote(tmp_path: File) -> None:
    """Every way to read a row names the column; the value itself may be a secret and is not repeated."""
    model = keyplan.parse_model(ALBUM)
    url = f"sqlite:{tmp_path}/x.db"
    keyplan.apply(model, url)
    with keyplan.open(model, url) as store:
        store.put(k=1, n=1, tags={"a"}, extra={})
        for column in ("tags", "extra"):
            with sqlite3.connect(f"{tmp_path}/x.db") as raw:
                raw.execute(f"UPDATE A SET {column} = 'hunter2 ['")
            for call in (lambda: store.one(k=1), lambda: store.list(), lambda: store.bump(k=1, n=1)):
                with pytest.raises(StorageError, match=f"table 'A': the stored value of '{column}'") as caught:
                    call()
                assert "hunter2" not in str(caught.value)
            store.put(k=1, n=1, tags={"b"}, extra={"c": 1})
            assert store.one(k=1)["tags"] == {"b"}


def test_a_folder_that_does_not_exist(tmp_path: File) -> None:
    with pytest.raises(StorageError, match=r"x\.db: cannot be opened; check that its folder exists"):
        SqlitePort(f"sqlite:{tmp_path}/none/x.db")


def test_a_folder_is_not_a_database(tmp_path: File) -> None:
    with pytest.raises(StorageError, match="is a folder; name a file in it"):
        SqlitePort(f"sqlite:{tmp_path}").send([("SELECT 1", ())])


def test_a_damaged_file(made: Lab, tmp_path: File) -> None:
    made.write(*(put_user(number, name="x" * 100) for number in range(1000)))
    made.port.close()
    file = tmp_path / "x.db"
    data = bytearray(file.read_bytes())
    data[4096 * 2 : -4096] = b"\x17" * (len(data) - 4096 * 3)
    file.write_bytes(data)
    found = SqlitePort(f"sqlite:{file}")
    (reply,) = found.send([('SELECT count(name) FROM "User" NOT INDEXED', ())])
    assert isinstance(reply, StorageError)
    assert "x.db: is damaged" in str(reply)
    found.close()


LOCKER = """
import sqlite3, sys, time
con = sqlite3.connect(sys.argv[1], isolation_level=None)
con.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(60)
"""


def test_a_file_locked_by_another_process(made: Lab, tmp_path: File) -> None:
    other = subprocess.Popen([sys.executable, "-c", LOCKER, f"{tmp_path}/x.db"], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        for edits in ((put_user(1),), (put_user(1), put_user(2))):
            with pytest.raises(UnavailableError, match=r"x\.db: is locked by another process") as caught:
                made.write(*edits)
            assert caught.value.retryable
        assert users(made) == {}
    finally:
        other.kill()
        other.wait()
        assert other.stdout is not None
        other.stdout.close()
    made.write(put_user(1))
    assert set(users(made)) == {1}


def test_a_writer_waits_for_another(tmp_path: File) -> None:
    made = lab((USERS,), f"sqlite:{tmp_path}/x.db?timeout=20s")
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, lambda: other.execute("ROLLBACK"))
    timer.start()
    made.write(put_user(1))
    timer.join()
    other.close()
    assert set(users(made)) == {1}
    made.port.close()


def test_a_read_only_file(made: Lab, tmp_path: File) -> None:
    made.write(put_user(1))
    made.port.close()
    raw = sqlite3.connect(tmp_path / "x.db")
    raw.execute("PRAGMA journal_mode=DELETE")
    raw.close()
    (tmp_path / "x.db").chmod(0o444)
    made.port = SqlitePort(f"sqlite:{tmp_path}/x.db")
    if os.access(tmp_path / "x.db", os.W_OK):  # root may write anyway: SQLite is told not to
        made.query("PRAGMA query_only=ON")
    with pytest.raises(StorageError, match=r"x\.db: is read-only; check the permissions"):
        made.write(put_user(2))
    assert set(users(made)) == {1}


def test_a_full_disk(made: Lab) -> None:
    made.write(put_user(1))
    (pages,) = made.query("PRAGMA page_count")[0]
    made.query(f"PRAGMA max_page_count={pages + 2}")
    many = [put_user(number, name="x" * 500) for number in range(2, 100)]
    with pytest.raises(StorageError, match=r"x\.db: the disk is full; make room and repeat"):
        made.write(*many)
    (request,) = made.codec.bulk(many)
    (reply,) = made.port.send([request])
    assert isinstance(reply, StorageError)
    assert set(users(made)) == {1}
    made.query("PRAGMA max_page_count=1000000")
    made.write(*many)
    assert len(users(made)) == 99


QUOTA = """
import resource, sys
from tests.engines.sqlite.support import lab
from tests.engines.sqlite.test_writes import USERS, put_user
from keyplan.errors import StorageError
made = lab((USERS,), "sqlite:" + sys.argv[1])
made.write(put_user(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    made.write(*(put_user(number, name="x" * 500) for number in range(2, 2000)))
except StorageError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more(tmp_path: File) -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUOTA, f"{tmp_path}/x.db"], capture_output=True, text=True, check=False, timeout=60
    )
    assert "x.db: " in done.stdout, done.stderr
    made = lab((USERS,), f"sqlite:{tmp_path}/x.db")
    assert set(users(made)) == {1}
    made.port.close()


KILLED = """
import sys
from tests.engines.sqlite.support import lab
from tests.engines.sqlite.test_writes import USERS, put_user
made = lab((USERS,), "sqlite:" + sys.argv[1])
number = 0
while True:
    number += 2
    made.write(put_user(number), put_user(number + 1))
    print(number, flush=True)
"""


def test_a_kill_loses_no_acknowledged_write(tmp_path: File) -> None:
    other = subprocess.Popen([sys.executable, "-c", KILLED, f"{tmp_path}/x.db"], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    last = [int(other.stdout.readline()) for _ in range(200)][-1]
    other.send_signal(signal.SIGKILL)
    rest = other.stdout.read().split()
    other.wait()
    other.stdout.close()
    last = int(rest[-1]) if rest else last
    made = lab((USERS,), f"sqlite:{tmp_path}/x.db")
    found = set(users(made))
    assert set(range(2, last + 2)) <= found
    assert all((number ^ 1) in found for number in found)
    made.port.close()


def test_an_interrupt_rolls_back(made: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    request = made.codec.write([put_user(1), put_user(2)])
    assert isinstance(made.port, SqlitePort)

    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(request), "failed", stop)
    request.steps[1].check = 2  # nothing is found, so that the error is asked for
    with pytest.raises(KeyboardInterrupt):
        made.port.send([request])
    monkeypatch.undo()
    assert users(made) == {}
    made.write(put_user(3))
    assert set(users(made)) == {3}


def test_a_file_without_our_tables(tmp_path: File, made: Lab) -> None:
    made.query('DROP TABLE "User"')
    with pytest.raises(StorageError, match="no such table: User; 'keyplan verify' says what is missing"):
        made.write(put_user(1))


def test_one_bad_request_does_not_spoil_the_round(made: Lab) -> None:
    replies = made.port.send([("SELECT 1", ()), ("SELECT x FROM none", ()), ("SELECT 2", ())])
    assert replies[0] == [(1,)]
    assert isinstance(replies[1], EngineError)
    assert replies[2] == [(2,)]


def test_a_closed_port(made: Lab) -> None:
    made.port.close()
    with pytest.raises(UnavailableError, match="the store is closed"):
        made.write(put_user(1))
    made.port.close()


def test_a_forked_child_has_connections_of_its_own(made: Lab) -> None:
    child = os.fork()
    if child == 0:
        try:
            made.write(put_user(1))
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    made.write(put_user(2))
    assert set(users(made)) == {1, 2}


def test_every_error_of_the_driver_is_one_of_ours() -> None:
    classes = [thing for thing in vars(sqlite3).values() if isinstance(thing, type) and issubclass(thing, Exception)]
    assert len(classes) >= 10
    for kind in classes:
        found = translate(kind("what"), "x.db")
        assert isinstance(found, KeyplanError)
        assert str(found).startswith("x.db: ")
    too_large = SqlitePort("sqlite::memory:").send([("SELECT ?", (2**64,))])[0]
    assert str(too_large) == ":memory:: a number does not fit 64 bits; give a smaller one"


def test_an_old_sqlite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    with pytest.raises(UnsupportedError, match=r"3\.37 is the least"):
        SqlitePort("sqlite::memory:")
    assert limits.LEAST_VERSION == (3, 37, 0)


def test_the_async_port_works_off_the_loop(tmp_path: File) -> None:
    lab((USERS,), f"sqlite:{tmp_path}/x.db").port.close()

    async def work() -> tuple[Any, int, float]:
        made = SqliteAsyncPort(f"sqlite:{tmp_path}/x.db")
        threads = {await made.call(lambda _: threading.get_ident()) for _ in range(3)}
        assert threading.get_ident() not in threads
        started = time.perf_counter()
        slow = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 500000) SELECT max(n) FROM c"
        task = asyncio.create_task(made.send([(slow, ())]))
        await asyncio.sleep(0)
        waited = time.perf_counter() - started
        replies = await task
        await made.close()
        return replies, len(threads), waited

    replies, threads, waited = asyncio.run(work())
    assert replies == [[(500000,)]]
    assert threads == 1
    assert waited < 0.02


def test_keys_are_named_in_conflicts(made: Lab) -> None:
    made.write(put_user(1))
    with pytest.raises(KeyplanError, match="User '00000000-0000-0000-0000-000000000001' exists already"):
        made.write(Edit("users", "put", (UUID(int=1),), values=put_user(1).values, expect="absent"))
