"""Running `keyplan` in the process of the tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from keyplan.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOP_URL = "sqlite:shop.db"

Keyplan = Callable[..., Result]


@pytest.fixture
def keyplan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keyplan:
    """Runs a command line in an empty directory; `stdin=` is what it reads there."""
    monkeypatch.chdir(tmp_path)
    return run_keyplan


@pytest.fixture(scope="session")
def made_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the shop, its lock file and an empty database; made once, because designing takes long."""
    home = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        Path("shop.yaml").write_text((EXAMPLES / "shop.yaml").read_text())
        assert run_keyplan("design", "shop.yaml", "--engine", "sqlite", "--save").exit_code == 0
        assert run_keyplan("apply", "shop.yaml", SHOP_URL, "--yes").exit_code == 0
    return home


@pytest.fixture
def locked(keyplan: Keyplan, made_shop: Path) -> str:
    """The name of the shop's model, which is in the directory of the test with its lock file and empty database."""
    shutil.copytree(made_shop, ".", dirs_exist_ok=True)
    return "shop.yaml"


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
