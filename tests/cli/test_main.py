"""The group itself: help, unknown commands, and what becomes of errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import keyplan as api
from keyplan.cli.main import COMMANDS, main
from keyplan.cli.output import design_text
from tests.cli.conftest import Keyplan, assert_fails


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_each_command_says(name: str) -> None:
    help = import_module(f"keyplan.cli.{name}").command.help
    assert help.split("\n")[0] == COMMANDS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(keyplan: Keyplan, name: str) -> None:
    result = keyplan(name, "--help")
    assert result.exit_code == 0
    assert f"keyplan {name}" in result.stdout
    assert "Example:" in result.stdout
    assert "--debug" in result.stdout


def test_help_lists_the_commands_in_order(keyplan: Keyplan) -> None:
    lines = keyplan("--help").stdout.splitlines()
    listed = [line.split()[0] for line in lines[lines.index("Commands:") + 1 :] if line.strip()]
    assert listed == list(COMMANDS)


def test_nothing_at_all_is_help(keyplan: Keyplan) -> None:
    result = keyplan()
    assert result.exit_code == 0
    assert result.stdout == keyplan("--help").stdout


def test_version(keyplan: Keyplan) -> None:
    assert keyplan("--version").stdout == f"keyplan {api.__version__}\n"


def test_unknown_command(keyplan: Keyplan) -> None:
    assert_fails(keyplan("desing"), "keyplan: no command 'desing'; did you mean 'design'?")
    assert_fails(keyplan("zzz"), "keyplan: no command 'zzz'; see 'keyplan --help'")


def test_unknown_option(keyplan: Keyplan) -> None:
    assert_fails(keyplan("design", "--nope"), "keyplan design: no such option…; see 'keyplan design --help'")
    assert_fails(keyplan("--nope"), "keyplan: no such option…; see 'keyplan --help'")
    assert_fails(keyplan("emit", "--output", "."), "keyplan emit: no such option '--output'; did you mean '--out'?")
    assert_fails(keyplan("--versoin"), "keyplan: no such option '--versoin'; did you mean '--version'?")


def test_missing_argument(keyplan: Keyplan) -> None:
    assert_fails(keyplan("design"), "keyplan design: missing…; see 'keyplan design --help'")


def test_an_error_nobody_foresaw_is_one_line(keyplan: Keyplan, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(api, "json_schema", broken, raising=False)
    assert_fails(
        keyplan("schema"),
        "keyplan: internal error, ZeroDivisionError by zero; run it again with --debug and report what it says",
    )
    debugged = keyplan("schema", "--debug")
    assert debugged.exit_code == 2
    assert debugged.stderr.startswith("Traceback (most recent call last):\n")
    assert debugged.stderr.endswith("ZeroDivisionError: by\nzero\n")


@pytest.mark.parametrize(
    "words", [("design", "nosuch.yaml", "--engine", "sqlite", "--debug"), ("--debug", "zzz")], ids=" ".join
)
def test_a_failure_has_its_exit_code_with_its_traceback_too(keyplan: Keyplan, words: tuple[str, ...]) -> None:
    failed = keyplan(*words)
    assert (failed.exit_code, failed.stdout) == (2, "")
    assert failed.stderr.startswith("Traceback (most recent call last):\n")


def test_ctrl_c_is_one_line(keyplan: Keyplan, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "json_schema", interrupted, raising=False)
    assert_fails(keyplan("schema"), "keyplan: interrupted; what was done so far is kept")


EARLY = """
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "{name}":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.argv = ["keyplan", "schema"]
from keyplan.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("click", 130, ""),
        ("keyplan.cli.main", 130, ""),
        ("keyplan.cli.schema", 2, "keyplan: interrupted; what was done so far is kept\n"),
    ],
)
def test_ctrl_c_while_it_is_imported_is_no_traceback(name: str, code: int, said: str) -> None:
    program = EARLY.replace("{name}", name)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


CALLED_BACK = """
import os, signal, sys, weakref
class Thing:
    pass
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            thing = Thing()
            kept = weakref.ref(thing, lambda _: [os.kill(os.getpid(), signal.SIGINT), len("something")])
            del thing
sys.meta_path.insert(0, Interrupting())
sys.argv = ["keyplan", "schema"]
from keyplan.__main__ import main
main()
"""


@pytest.mark.parametrize(("before", "code"), [("default_int_handler", 130), ("SIG_IGN", 0)])
def test_ctrl_c_while_something_is_called_back_is_not_forgotten(before: str, code: int) -> None:
    """Python prints what is raised there, and goes on. What is run in the background ignores it, as it should."""
    found = f"import signal; signal.signal(signal.SIGINT, signal.{before})"
    done = subprocess.run([sys.executable, "-c", found + CALLED_BACK], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, "keyplan: interrupted; nothing was done\n" if code else "")


def test_ctrl_c_before_a_command_is_known_is_one_line(keyplan: Keyplan, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "parse_args", interrupted)
    assert_fails(keyplan("schema"), "keyplan: interrupted; what was done so far is kept")


def test_what_was_assumed_is_said_once(keyplan: Keyplan) -> None:
    text = "keyplan: 1\nname: m\nentities: {A: {fields: {a: 'int, key'}}}\npatterns: {p: {find: A, where: 'a = :a'}}\n"
    Path("m.yaml").write_text(text)
    designed = keyplan("design", "m.yaml", "--engine", "sqlite")
    assert designed.output.count("no count for 'A'") == 1
    assert designed.output.count("no rate for 'p'") == 1
    assert ", 2 candidates, " in designed.stdout
    document = json.loads(keyplan("design", "m.yaml", "--engine", "sqlite", "--format", "json").stdout)
    document["objective"]["candidates"] = 1
    assert ", 1 candidate, " in design_text(document)
    explained = keyplan("explain", "m.yaml", "p", "--engine", "sqlite")
    assert explained.stderr.splitlines() == [
        "m.yaml: no rate for 'p'; assumed low, which is 1/s",
        "m.yaml: no count for 'A'; assumed 1000 rows",
    ]


def test_figures_and_moments_read_as_in_a_model(keyplan: Keyplan) -> None:
    text = """
keyplan: 1
name: m
entities: {A: {count: 1.5M, fields: {a: "int, key", at: timestamp, b: string(4)}}}
patterns:
  p: {find: A, where: "at >= ago('2d')", order: at, page: 5, rate: 1/s}
  q: {find: A, order: b, page: 5, rate: 1/s, p99: 1ms}
  r: {sum: A.a, rate: 1/s, p99: 1ms}
writes: {w: {create: A, rate: 1/s}}
"""
    Path("m.yaml").write_text(text)
    designed = keyplan("design", "m.yaml", "--engine", "sqlite").output
    assert "at >= ago('2d')" in designed
    assert "has count 1.5M, but its creates make 31.5M rows within a year" in designed
    assert not re.search(r"\d[eE][+-]?\d", designed), designed


@pytest.mark.parametrize("command", ["", "--help", "init", "init --help"])
def test_a_reader_that_goes_away_is_no_error(command: str) -> None:
    program = f"{sys.executable} -m keyplan {command} | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "full"])
def test_a_failure_that_cannot_be_told_is_a_failure_all_the_same(gone: bool) -> None:
    reader, stderr = os.pipe() if gone else (os.open("/dev/null", os.O_RDONLY), os.open("/dev/full", os.O_WRONLY))
    os.close(reader)
    command = [sys.executable, "-m", "keyplan", "design", "nosuch.yaml", "--engine", "sqlite"]
    try:
        assert subprocess.run(command, stderr=stderr).returncode == 2
    finally:
        os.close(stderr)


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_done_without(tmp_path: Path, streams: str) -> None:
    (tmp_path / "m.yaml").write_text("keyplan: 1\nname: m\nentities: {A: {count: 9, fields: {a: 'int, key'}}}\n")
    program = f"{sys.executable} -m keyplan design m.yaml --engine sqlite {streams}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("design - --engine sqlite", 2, "stdin:1: the file is empty; begin with 'keyplan: 1'\n"),
        ("load m.yaml sqlite:m.db -", 0, "loaded 0 rows\n"),
        ("run m.yaml sqlite:m.db add a=@-", 2, "-: is not JSON: Expecting value at character 1; check quotes, …\n"),
    ],
)
def test_stdin_that_is_closed_is_empty(tmp_path: Path, command: str, code: int, said: str) -> None:
    text = "keyplan: 1\nname: m\nentities: {A: {count: 9, fields: {a: 'int, key'}}}\n"
    (tmp_path / "m.yaml").write_text(f"{text}writes: {{add: {{create: A, rate: low}}}}\n")
    main = f"{sys.executable} -m keyplan"
    program = f"{main} apply m.yaml sqlite:m.db --yes >/dev/null && {main} {command} <&-"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == code
    assert re.fullmatch(re.escape(said).replace("…", ".*"), done.stdout + done.stderr)
