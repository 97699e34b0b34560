"""`keyplan explain --svg`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import EXAMPLES, Keyplan, assert_fails

SHOP = str(EXAMPLES / "shop.yaml")


def test_a_picture_goes_to_a_file_or_to_stdout(keyplan: Keyplan, locked: str) -> None:
    written = keyplan("explain", locked, "--engine", "sqlite", "--svg", "shop.svg")
    assert written.exit_code == 0, written.output
    assert written.stderr == "wrote shop.svg\n"
    printed = keyplan("explain", locked, "--engine", "sqlite", "--svg", "-")
    assert printed.stdout == Path("shop.svg").read_text(encoding="utf-8")
    assert printed.stdout.startswith("<svg ")


def test_a_picture_is_of_the_whole_design(keyplan: Keyplan) -> None:
    result = keyplan("explain", SHOP, "order_page", "--engine", "sqlite", "--svg", "shop.svg")
    assert_fails(result, "keyplan explain: a picture shows the whole design; leave out NAME or --svg")
    assert not Path("shop.svg").exists()
