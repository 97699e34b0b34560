"""Running `keyplan` in the process of the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from keyplan.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"

Keyplan = Callable[..., Result]


@pytest.fixture
def keyplan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keyplan:
    """Runs a command line in an empty directory; `stdin=` is what it reads there."""
    monkeypatch.chdir(tmp_path)
    return run_keyplan


def run_keyplan(*arguments: str, stdin: str = "") -> Result:
    """Runs a command line where we are."""
    return CliRunner().invoke(main, list(arguments), input=stdin)


def assert_fails(result: Result, *lines: str) -> None:
    """Exit 2, nothing on stdout, no traceback, and exactly these lines on stderr (`…` stands for any text)."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    said = result.stderr.splitlines()
    assert len(said) == len(lines), said
    for line, expected in zip(said, lines, strict=True):
        start, _, rest = expected.partition("…")
        assert line.startswith(start), line
        assert line.endswith(rest), line
        assert not line.endswith("."), line
