"""The group itself: help, unknown commands, and what becomes of errors."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import keyplan as api
from keyplan.cli.main import COMMANDS
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
    assert_fails(keyplan("desing"), "keyplan: no command 'desing'; did you mean 'design'?; see 'keyplan --help'")


def test_unknown_option(keyplan: Keyplan) -> None:
    assert_fails(keyplan("design", "--nope"), "keyplan design: no such option…")


def test_missing_argument(keyplan: Keyplan) -> None:
    assert_fails(keyplan("design"), "keyplan design: missing…")


def test_an_error_nobody_foresaw_is_one_line(keyplan: Keyplan, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(api, "json_schema", broken, raising=False)
    assert_fails(
        keyplan("schema"),
        "keyplan: internal error, ZeroDivisionError by zero; run it again with --debug and report what it says",
    )
    assert isinstance(keyplan("schema", "--debug").exception, ZeroDivisionError)


def test_ctrl_c_is_one_line(keyplan: Keyplan, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "json_schema", interrupted, raising=False)
    assert_fails(keyplan("schema"), "keyplan: interrupted; what was done so far is kept")


def test_a_reader_that_goes_away_is_no_error() -> None:
    program = f"{sys.executable} -m keyplan init | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
