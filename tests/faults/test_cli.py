"""Bad input and faults through the command line: one clear line, exit 2, no traceback, nothing half-written."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from click.testing import CliRunner

from keyplan.cli.main import main

MODEL = """
keyplan: 1
name: notes
entities:
  User:
    count: 1M
    fields:
      uid: int, key
      email: string(32), unique
      notes_made: count(notes)
  Note:
    count: 10M
    fields:
      nid: int, key
      user: User, as notes
      text: text(200)
      price: decimal(2), default 0
patterns:
  user: { find: User, where: "uid = :uid", rate: 100/s }
  notes_of: { find: Note, where: "user = :uid", order: nid, page: 2, rate: 100/s }
  priced: { find: Note, where: "price >= :low", order: price, page: 2, rate: 1/s }
writes:
  join: { create: User, rate: 1/s }
  note: { create: Note, rate: 1/s }
  price: { update: Note, set: [price], where: "nid = :nid", rate: 1/s }
"""
URL = "sqlite:notes.db"


class Line:
    """Runs `keyplan` in a directory of its own, as a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "notes.yaml").write_text(MODEL)

    def __call__(self, *arguments: str, stdin: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "keyplan", *arguments]
        return subprocess.run(
            command, cwd=self.directory, input=stdin, capture_output=True, text=True, check=False, timeout=60, **more
        )

    def fails(self, *arguments: str, said: str, **more: Any) -> str:
        done = self(*arguments, **more)
        assert done.returncode == 2, (done.stdout, done.stderr)
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        (line,) = done.stderr.splitlines()
        assert said in line, line
        return line

    def run(self, name: str, *arguments: str, **more: Any) -> Any:
        done = self("run", "notes.yaml", URL, name, *arguments, "--format", "json", **more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @property
    def file(self) -> Path:
        return self.directory / "notes.db"

    def users(self) -> int:
        with sqlite3.connect(self.file) as database:
            found: int = database.execute('SELECT count(*) FROM "User"').fetchone()[0]
        database.close()
        return found


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one user, made once."""
    line = Line(tmp_path_factory.mktemp("template"))
    assert line("apply", "notes.yaml", URL, "--yes").returncode == 0
    line.run("join", "uid=1", "email=a")
    return line.file


@pytest.fixture
def made(line: Line, template: Path) -> Line:
    """A database with one user."""
    copyfile(template, line.file)
    return line


def test_a_file_that_is_not_a_database(line: Line) -> None:
    line.file.write_text("hello, this is a letter\n" * 100)
    before = line.file.read_bytes()
    line.fails("run", "notes.yaml", URL, "user", "uid=1", said="notes.db: is not an SQLite database")
    line.fails("load", "notes.yaml", URL, "-", said="notes.db: is not an SQLite database")
    line.fails("verify", "notes.yaml", URL, said="notes.db: is not an SQLite database")
    line.fails("apply", "notes.yaml", URL, "--yes", said="notes.db: is not an SQLite database")
    assert line.file.read_bytes() == before


def test_a_folder_that_does_not_exist(line: Line) -> None:
    line.fails(
        "run", "notes.yaml", "sqlite:no/notes.db", "user", "uid=1", said="no/notes.db: its folder does not exist"
    )
    line.fails("apply", "notes.yaml", "sqlite:no/notes.db", "--yes", said="check that its folder exists")


def test_a_database_of_somebody_else(line: Line) -> None:
    with sqlite3.connect(line.file) as database:
        database.execute("CREATE TABLE User (uid INTEGER PRIMARY KEY, whatever TEXT)")
        database.execute("INSERT INTO User VALUES (1, 'mine')")
    database.close()
    done = line("run", "notes.yaml", URL, "user", "uid=1")
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
    with sqlite3.connect(line.file) as database:
        assert database.execute("SELECT * FROM User").fetchall() == [(1, "mine")]
        assert database.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,)
    database.close()


def test_a_recorded_design_of_another_model(made: Line) -> None:
    text = MODEL.replace("  priced:", "  dear:")
    (made.directory / "notes.yaml").write_text(text)
    said = "the model has changed since the design was made"
    made.fails("run", "notes.yaml", URL, "user", "uid=1", said=said)
    made.fails("load", "notes.yaml", URL, "-", said=said, stdin='["User", {"uid": 9, "email": "z"}]')
    assert made.users() == 1


def test_a_recorded_design_that_was_damaged(made: Line) -> None:
    with sqlite3.connect(made.file) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        own = next(name for name in tables if "keyplan" in name.lower())
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{own}")')]
        for column in columns:
            text = f'UPDATE "{own}" SET "{column}" = \'{{"nonsense": 1}}\' WHERE length("{column}") > 200'
            database.execute(text)
    database.close()
    done = made("run", "notes.yaml", URL, "user", "uid=1")
    assert done.returncode == 2, done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert "internal error" not in done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE keyplan_design SET tables = 'x'", "record of the design in 'keyplan_design' is damaged; restore"),
        (
            "UPDATE keyplan_design SET tables = '[1]'",
            "record of the design in 'keyplan_design' is damaged; restore",
        ),
        ("UPDATE keyplan_design SET lock = 'x'", "this is not a design of keyplan; run 'keyplan apply'"),
        ("UPDATE keyplan_design SET lock = replace(lock, '\"keyplan\": 1', '\"keyplan\": 9')", "of another version"),
        (
            "UPDATE keyplan_design SET lock = replace(lock, '\"notes\"', '\"n\"')",
            "is for the model 'n', not for 'notes'; name another database, or the model it was made for",
        ),
        ("DELETE FROM keyplan_design", "nothing has been applied to this database yet"),
        ("ALTER TABLE keyplan_design RENAME COLUMN lock TO x", "has a 'keyplan_design' that keyplan did not make"),
        ("DROP TABLE keyplan_design; CREATE VIEW keyplan_design AS SELECT 1 AS x", "that keyplan did not make; name"),
        ('DROP TABLE "User"', "table User is missing, with all its rows; restore it"),
    ],
)
def test_a_record_that_is_not_ours(made: Line, monkeypatch: pytest.MonkeyPatch, change: str, said: str) -> None:
    with sqlite3.connect(made.file) as database:
        database.executescript(change)
    database.close()
    monkeypatch.chdir(made.directory)
    done = CliRunner().invoke(main, ["run", "notes.yaml", URL, "user", "uid=1"])
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{made.file.name}: ")
    assert said in line


@pytest.fixture
def locked(made: Line) -> Iterator[Line]:
    database = sqlite3.connect(made.file, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    yield made
    database.close()


def test_a_locked_file(locked: Line) -> None:
    url = f"{URL}?timeout=200ms"
    locked.fails("run", "notes.yaml", url, "join", "uid=2", "email=b", said="notes.db: is locked by another process")
    row = '["User", {"uid": 9, "email": "z"}]'
    locked.fails("load", "notes.yaml", url, "-", said="notes.db: is locked by another process", stdin=row)
    assert locked.users() == 1


def test_a_read_only_file(made: Line) -> None:
    with sqlite3.connect(made.file) as database:
        database.execute("PRAGMA journal_mode=DELETE")
    database.close()
    made.file.chmod(0o444)
    made.fails(
        *("run", "notes.yaml", URL, "join", "uid=2", "email=b"),
        said="notes.db: is read-only; check the permissions of the file and its folder",
        preexec_fn=obey_permissions,
    )
    assert made.run("user", "uid=1", preexec_fn=obey_permissions)["email"] == "a"
    assert made.users() == 1


def test_rows_that_may_not_be_read(made: Line) -> None:
    rows = made.directory / "rows.jsonl"
    rows.write_text('["User", {"uid": 2, "email": "b"}]')
    rows.chmod(0)
    said = "rows.jsonl: permission denied; check its permissions"
    made.fails("load", "notes.yaml", URL, "rows.jsonl", said=said, preexec_fn=obey_permissions)
    assert made.users() == 1


def obey_permissions() -> None:
    """Root may write everything, but not if a process gives that up (capabilities of Linux) for what it runs."""
    if os.getuid() == 0:
        drop_from_bounding_set, dac_override, dac_read_search = 24, 1, 2
        for capability in (dac_override, dac_read_search):
            if ctypes.CDLL(None, use_errno=True).prctl(drop_from_bounding_set, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl")


def limit_files() -> None:
    """No file of this process may grow beyond this; SIGXFSZ would end it instead of an error."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))


def test_a_full_disk(made: Line) -> None:
    rows = [json.dumps(["Note", {"nid": number, "user": 1, "text": "x" * 400}]) for number in range(3000)]
    (made.directory / "rows.jsonl").write_text("\n".join(rows))
    done = made("load", "notes.yaml", URL, "rows.jsonl", preexec_fn=limit_files)
    assert done.returncode == 2, done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert "notes.db: " in done.stderr
    assert "Traceback" not in done.stderr
    verified = made("verify", "notes.yaml", URL, "--format", "json")
    assert json.loads(verified.stdout)["ok"] is True, verified.stderr
    again = made("load", "notes.yaml", URL, "rows.jsonl")
    assert again.returncode == 0, again.stderr
    assert made.run("user", "uid=1")["notes_made"] == 3000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nouser", "uid=1"), "no pattern, write or transaction 'nouser'"),
        (("user",), "user: missing argument 'uid'"),
        (("user", "uid=1", "vid=2"), "user: unknown argument 'vid'"),
        (("user", "uid=one"), "user: argument 'uid': expected a whole number"),
        (("user", "uid=9223372036854775808"), "user: argument 'uid'"),
        (("user", "uid=1.0"), "user: argument 'uid'"),
        (("user", "uid="), "user: argument 'uid'"),
        (("user", "1"), "not an argument"),
        (("notes_of", "uid=1", "--cursor", "AAAA"), "notes_of: this cursor is not one of its own"),
        (("priced", "low=1.001"), "priced: argument 'low'"),
        (("priced", "low=1e40"), "priced: argument 'low'"),
        (("join", "uid=2", "email=" + "x" * 513), "join: argument 'email'"),
        (("join", "uid=1", "email=b"), "join: "),
        (("join", "uid=2", "email=a"), "join: "),
        (("note", "nid=1", "user=1", "text=" + "x" * 100_001), "note: argument 'text'"),
        (("price", "nid=1", "price=NaN"), "price: argument 'price'"),
    ],
)
def test_wrong_calls_write_nothing(
    made: Line, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(made.directory)
    done = CliRunner().invoke(main, ["run", "notes.yaml", URL, *arguments])
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    (line,) = done.stderr.splitlines()
    assert said in line
    assert made.users() == 1
    assert notes(made) == 0


def test_a_cursor_of_other_arguments_or_another_pattern(made: Line) -> None:
    for number in range(3):
        made.run("note", f"nid={number}", "user=1", "text=x", "price=1")
    cursor = made.run("notes_of", "uid=1")["cursor"]
    assert len(made.run("notes_of", "uid=1", "--cursor", cursor)["rows"]) == 1
    made.fails("run", "notes.yaml", URL, "notes_of", "uid=2", "--cursor", cursor, said="notes_of: this cursor")
    made.fails("run", "notes.yaml", URL, "priced", "low=0", "--cursor", cursor, said="priced: this cursor")


def test_a_cursor_that_was_tampered_with(made: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        made.run("note", f"nid={number}", "user=1", "text=x")
    cursor = made.run("notes_of", "uid=1")["cursor"]
    monkeypatch.chdir(made.directory)
    for place, letter in enumerate(cursor):
        other = cursor[:place] + ("A" if letter != "A" else "B") + cursor[place + 1 :]
        done = CliRunner().invoke(main, ["run", "notes.yaml", URL, "notes_of", "uid=1", "--cursor", other])
        assert (done.exit_code, done.stdout) == (2, ""), (other, done.output)
        (line,) = done.stderr.splitlines()
        assert line.startswith("notes_of: this cursor"), line
    for other in (cursor[:-1], cursor[1:], cursor + "A", cursor * 2, "ü", " ", "x" * 100_000):
        done = CliRunner().invoke(main, ["run", "notes.yaml", URL, "notes_of", "uid=1", "--cursor", other])
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1), (other[:50], done.output)


def test_a_wrong_row_in_a_load_is_named_and_nothing_of_its_batch_is_written(made: Line) -> None:
    rows = ['["User", {"uid": 2, "email": "b"}]', '["User", {"uid": "x", "email": "c"}]']
    made.fails("load", "notes.yaml", URL, "-", said="stdin:2: User: argument 'uid'", stdin="\n".join(rows))
    made.fails("load", "notes.yaml", URL, "-", said="stdin:2: is not JSON", stdin=f"{rows[0]}\n{{")
    assert made.users() == 1


MANY = 100_000
"""Rows that take seconds to load, so that an interrupt meets them."""


def test_an_interrupted_load_can_be_resumed(made: Line) -> None:
    """Ctrl-C comes while rows are written; it says how many are safe, and goes on from there."""
    rows = [json.dumps(["Note", {"nid": number, "user": number % 5, "text": "some text"}]) for number in range(MANY)]
    (made.directory / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    # The rows come through a pipe, and not all of them, so that it cannot end before the signal.
    os.mkfifo(made.directory / "pipe.jsonl")
    sent = threading.Event()

    def pour() -> None:
        with suppress(BrokenPipeError), (made.directory / "pipe.jsonl").open("w", encoding="utf-8") as pipe:
            pipe.write("\n".join(rows[: MANY // 2]))
            pipe.flush()
            sent.wait(120)

    command = [sys.executable, "-m", "keyplan", "load", "notes.yaml", URL, "pipe.jsonl"]
    loading = subprocess.Popen(
        command,
        cwd=made.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests run in the background of a shell, Ctrl-C is ignored, by everybody whom they start as well.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    pouring = threading.Thread(target=pour)
    pouring.start()
    began = time.monotonic()
    while time.monotonic() - began < 60 and loading.poll() is None:
        if notes(made) > 6_000:  # the first batch is safe
            break
        time.sleep(0.02)
    loading.send_signal(signal.SIGINT)
    said, complaint = loading.communicate(timeout=60)
    sent.set()
    pouring.join()
    assert loading.returncode == 2, (said, complaint)
    assert said == ""
    assert complaint.startswith("keyplan: interrupted after ")
    assert len(complaint.splitlines()) == 1
    done = complaint.rpartition("--done ")[2].split()[0]
    assert 0 < int(done) < MANY
    assert notes(made) >= int(done)
    rest = made("load", "notes.yaml", URL, "rows.jsonl", "--done", done)
    assert rest.returncode == 0, rest.stderr
    verified = made("verify", "notes.yaml", URL, "--format", "json")
    assert json.loads(verified.stdout)["ok"] is True
    assert notes(made) == MANY
    assert made.run("user", "uid=1")["notes_made"] == MANY // 5


def notes(line: Line) -> int:
    database = sqlite3.connect(line.file)
    try:
        found: int = database.execute('SELECT count(*) FROM "Note"').fetchone()[0]
        return found
    except sqlite3.OperationalError:
        return 0
    finally:
        database.close()
