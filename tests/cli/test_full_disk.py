"""Files that cannot be written to their end: they are as they were before, and the message names them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Keyplan, assert_fails


def limit_files() -> None:
    """No file of this process may grow beyond this; SIGXFSZ would end it instead of an error."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def written(*arguments: str) -> str:
    """What a command says that cannot write more than some bytes."""
    # Nor may it leave its own modules compiled in part.
    command = [sys.executable, "-B", "-m", "keyplan", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit_files)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    return line


WRITERS = [
    (("init", "new.yaml"), "new.yaml"),
    (("emit", "shop.yaml", "--engine", "sqlite", "--to", "sql", "--out", "."), "shop.sql"),
    (("emit", "shop.yaml", "--engine", "sqlite", "--to", "python", "--out", "code"), "code/shop_types.py"),
    (("explain", "shop.yaml", "--engine", "sqlite", "--svg", "shop.svg"), "shop.svg"),
    (("design", "shop.yaml", "--engine", "sqlite", "--save"), "shop.sqlite.lock.json"),
]


@pytest.mark.parametrize(("arguments", "file"), WRITERS, ids=lambda one: str(one[0]) if isinstance(one, tuple) else one)
def test_what_is_not_written_to_its_end_is_as_it_was(locked: str, arguments: tuple[str, ...], file: str) -> None:
    before = {name: name.read_bytes() for name in Path().rglob("*") if name.is_file()}
    assert written(*arguments).startswith(f"{file}: ")
    assert {name: name.read_bytes() for name in Path().rglob("*") if name.is_file()} == before


def test_a_file_that_was_there_is_kept(locked: str) -> None:
    Path("shop.svg").write_text("mine")
    said = written("explain", locked, "--engine", "sqlite", "--svg", "shop.svg")
    assert said == "shop.svg: file too large; raise the limit on the size of files and try again"
    assert Path("shop.svg").read_text() == "mine"


def test_links_pipes_and_permissions_stay_what_they_are(keyplan: Keyplan, locked: str) -> None:
    Path("real.svg").write_text("old")
    Path("real.svg").chmod(0o640)
    Path("shop.svg").symlink_to("real.svg")
    assert keyplan("explain", locked, "--engine", "sqlite", "--svg", "shop.svg").exit_code == 0
    assert Path("shop.svg").is_symlink()
    assert Path("real.svg").read_text().startswith("<svg")
    assert Path("real.svg").stat().st_mode & 0o777 == 0o640
    assert keyplan("explain", locked, "--engine", "sqlite", "--svg", os.devnull).exit_code == 0
    assert_fails(keyplan("explain", locked, "--engine", "sqlite", "--svg", "."), ".: is a directory; name a file")
    assert not list(Path().glob("*.partial"))
