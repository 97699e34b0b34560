"""The types for Python: they type-check, and they say what the calls take and give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from keyplan.emit.python import write
from keyplan.model.load import load_model
from keyplan.plan.design import Design, Objective

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
NO_DESIGN = Design("", "", {}, (), {}, {}, {}, {}, {}, Objective("", 0, 0, 0, 0))
USE = """
from decimal import Decimal
from typing import assert_type
from uuid import UUID
from shop_types import AsyncShop, OrderPageItems, OrdersOfUser, Shop

def use(shop: Shop, user: UUID) -> None:
    page = shop.orders_of_user(user_id=user, start="2026-01-01T00:00:00Z", end="2026-02-01T00:00:00Z")
    assert_type(page.rows[0]["total"], Decimal)
    for row in shop.orders_of_user.all(user_id=user, start="2026-01-01T00:00:00Z", end="2026-02-01T00:00:00Z"):
        assert_type(row, OrdersOfUser)
    order = shop.order_page(order_id="01J00000000000000000000000")
    if order is not None:
        assert_type(order["items"], list[OrderPageItems])
        assert_type(order["user"]["name"], str | None)
    placed = shop.place_order(user=user, total=1, items=[{"line": 1, "product": "x", "quantity": 2}])
    assert_type(placed["order_id"], str)
    shop.order_page(order=7)

async def use_async(shop: AsyncShop, user: UUID) -> None:
    async for row in shop.newest_orders_of_user.all(user_id=user):
        assert_type(row["user"], UUID)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("types")
    for file in EXAMPLES:
        (text,) = write(load_model(file), NO_DESIGN).values()
        (folder / f"{file.stem}_types.py").write_text(text, encoding="utf-8")
    return folder


def test_the_types_of_every_example_check_and_are_right(folder: Path) -> None:
    (folder / "use.py").write_text(USE)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), "."],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    (mistake,) = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert 'Unexpected keyword argument "order" for "order_page"' in mistake, done.stdout


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_types_can_be_imported(folder: Path, file: Path) -> None:
    done = subprocess.run([sys.executable, f"{file.stem}_types.py"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
