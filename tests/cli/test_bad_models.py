"""Models that cannot be read or say something wrong: a line per problem, exit 2, nothing on stdout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import EXAMPLES, Keyplan, assert_fails

GOOD = """keyplan: 1
name: notes
entities:
  Note:
    count: 10k
    fields:
      note_id: ulid, key
      owner: string(12), distinct 100
      text: text(200)
patterns:
  notes_of: { find: Note, where: "owner = :owner", order: note_id, rate: 5/s }
writes:
  add_note: { create: Note, rate: 1/s }
"""


def test_a_file_that_is_not_there(keyplan: Keyplan) -> None:
    result = keyplan("design", "nosuch.yaml", "--engine", "sqlite")
    assert_fails(result, "nosuch.yaml: …")
    assert "no such file" in result.stderr.lower()


def test_a_directory(keyplan: Keyplan) -> None:
    assert_fails(keyplan("design", ".", "--engine", "sqlite"), ".: …")


def test_every_problem_has_its_line(keyplan: Keyplan) -> None:
    bad = GOOD.replace("ulid, key", "ulidd, key").replace("owner = :owner", "ownr = :owner")
    Path("bad.yaml").write_text(bad)
    result = keyplan("design", "bad.yaml", "--engine", "sqlite")
    assert_fails(result, "bad.yaml:7: …", "bad.yaml:11: …")
    assert "did you mean 'ulid'?" in result.stderr
    assert "did you mean 'owner'?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "last"),
    [
        (("design", "bad.yaml", "--engine", "sqlit"), "no engine 'sqlit'; did you mean 'sqlite'?"),
        (("explain", "bad.yaml", "--engine", "xyz"), "no engine 'xyz'; there are …"),
        (("emit", "bad.yaml", "--engine", "sqlit", "--to", "sql"), "no engine 'sqlit'; did you mean 'sqlite'?"),
        (("apply", "bad.yaml", "sqlit:x.db"), "no engine for 'sqlit:'; did you mean 'sqlite'?"),
        (("verify", "bad.yaml", "x.db"), "'x.db' is no URL; …"),
    ],
)
def test_a_wrong_engine_is_told_with_the_problems_of_the_model(
    keyplan: Keyplan, arguments: tuple[str, ...], last: str
) -> None:
    """Otherwise whoever has mended the model runs it again, only to read of the engine."""
    Path("bad.yaml").write_text(GOOD.replace("ulid, key", "ulidd, key"))
    assert_fails(keyplan(*arguments), "bad.yaml:7: …", last)


def test_stdin(keyplan: Keyplan) -> None:
    assert_fails(keyplan("design", "-", "--engine", "sqlite", stdin="[]"), "stdin:1: …")
    good = keyplan("design", "-", "--engine", "sqlite", stdin=GOOD)
    assert good.exit_code == 0, good.output
    assert good.stdout.startswith("notes on sqlite")


def test_bytes_that_are_no_text(keyplan: Keyplan) -> None:
    Path("bad.yaml").write_bytes(b"keyplan: 1\nname: \xff\xfe\n")
    assert_fails(keyplan("design", "bad.yaml", "--engine", "sqlite"), "bad.yaml…")


def test_an_unknown_engine(keyplan: Keyplan) -> None:
    result = keyplan("design", str(EXAMPLES / "shop.yaml"), "--engine", "sqlit")
    assert result.stderr.splitlines()[-1].startswith("no engine 'sqlit'; did you mean 'sqlite'?")
    assert (result.exit_code, result.stdout) == (2, "")
