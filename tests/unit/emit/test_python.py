"""The types for Python: they type-check, and they say what the calls take and give."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keyplan.emit.python import write
from keyplan.emit.python_names import camel
from keyplan.engines import get_engine
from keyplan.model.load import load_model, parse_model
from keyplan.plan.design import Design, Objective
from keyplan.store.core import Core
from keyplan.store.store import AsyncStore, Store
from tests.examples_data.designs import designed, example

SOURCE = Path(__file__).parents[3] / "src"
NO_PORT: Any = SimpleNamespace(send=None)
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
NO_DESIGN = Design("", "", {}, (), {}, {}, {}, {}, {}, Objective("", 0, 0, 0, 0))
USE = """
import asyncio
import sys
from decimal import Decimal
from typing import Any, assert_type, cast
from uuid import UUID

import keyplan
from shop_types import (
    AsyncShop, CheckoutDone, Executed, OrderPage, OrderPageItems, OrdersOfUser, Page, PlaceOrderDone, Shop, Verification
)

ANN = UUID(int=7)
BEGIN, END = "2026-01-01T00:00:00Z", "2126-01-01T00:00:00Z"

def use(shop: Shop) -> None:
    lamp = {"sku": "x", "name": "lamp", "description": "", "category": "light", "price": Decimal("1.50"), "stock": 9}
    assert_type(shop.load([("Product", lamp)], progress=print, done=0), int)
    shop.register(user_id=ANN, email="a", name="Ann")
    placed = shop.place_order(user=ANN, total=1, items=[{"line": 1, "product": "x", "quantity": 2}])
    assert_type(placed, PlaceOrderDone)
    assert_type(placed["order_id"], str)
    done = shop.checkout(
        place_order={"user": ANN, "total": "2.50", "items": [{"line": 1, "product": "x", "quantity": 1}]},
        take_stock=[{"sku": "x", "n": 1}],
    )
    assert_type(done, CheckoutDone)
    assert_type(done["place_order"]["order_id"], str)
    assert_type(done["take_stock"], list[None])
    assert done["take_stock"] == [None]
    page = shop.orders_of_user(user_id=ANN, start=BEGIN, end=END, consistency="eventual")
    assert_type(page, Page[OrdersOfUser])
    assert_type(page.rows[0]["total"], Decimal)
    assert sorted(row["total"] for row in page) == [Decimal(1), Decimal("2.50")]
    assert len(page) == 2
    assert_type(page.cursor, str | None)
    for row in shop.orders_of_user.all(user_id=ANN, start=BEGIN, end=END, cursor=page.cursor, consistency=None):
        assert_type(row, OrdersOfUser)
    order, did = shop.order_page(order_id=placed["order_id"], explain=True)
    assert_type(order, OrderPage | None)
    assert_type(did, Executed)
    assert did.requests >= 1 and did.rounds >= 1 and did.rows >= 1 and did.steps[0]["op"]
    assert order is not None
    assert_type(order["items"], list[OrderPageItems])
    assert_type(order["user"]["name"], str | None)
    assert order["items"][0]["product"]["name"] == "lamp"
    answer, did = shop.checkout(place_order={"user": ANN, "total": 0}, explain=True)
    assert_type(answer, CheckoutDone)
    assert did.rounds >= 1
    shop.settle()
    assert callable(shop.using)
    found = shop.verify(repair=False)
    assert_type(found, Verification)
    assert found.ok and not found.problems and found.rows and not found.repaired
    assert all(view.entries >= 0 for view in found.views.values())
    assert shop.model.name == shop.design.model == "shop"

async def use_async(shop: AsyncShop) -> None:
    assert_type(await shop.load([]), int)
    await shop.register(user_id=ANN, email="a", name="Ann")
    placed = await shop.place_order(user=ANN, total=1)
    assert_type(placed["order_id"], str)
    async for row in shop.newest_orders_of_user.all(user_id=ANN):
        assert_type(row["user"], UUID)
    page, did = await shop.newest_orders_of_user(user_id=ANN, explain=True)
    assert len(page) == len(page.rows) == 1 and did.rounds >= 1
    await shop.settle()
    assert (await shop.verify()).ok

async def main(model: str) -> None:
    async with cast(AsyncShop, await keyplan.open_async(model, "sqlite::memory:")) as shop:
        await use_async(shop)

if __name__ == "__main__":
    with cast(Shop, keyplan.open(sys.argv[1], "sqlite::memory:")) as shop:
        use(shop)
    asyncio.run(main(sys.argv[1]))
"""
MISTAKES = """
from shop_types import Shop

def use(shop: Shop) -> None:
    shop.order_page(order=7)
    shop.order_page(order_id="x", consistency="perfect")
    shop.order_page(order_id="x", cursor="x")
    shop.checkout(place_order={"usr": 1})
    shop.verify(repiar=True)
    shop.no_such_pattern()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("types")
    for file in EXAMPLES:
        (text,) = write(load_model(file), NO_DESIGN).values()
        (folder / f"{file.stem}_types.py").write_text(text, encoding="utf-8")
    return folder


def mypy(folder: Path, *files: str) -> list[str]:
    """The errors of mypy, strict, in files of the folder."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), *files],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return [line for line in done.stdout.splitlines() if ": error:" in line]


@pytest.mark.thorough
def test_the_types_of_every_example_check_and_are_right(folder: Path) -> None:
    """What is written against the types checks, and runs on a store; what is wrong does not check."""
    (folder / "use.py").write_text(USE)
    assert mypy(folder, ".") == []
    command = [sys.executable, "use.py", str(SOURCE.parent / "examples" / "shop.yaml")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / "mistakes.py").write_text(MISTAKES)
    found = mypy(folder, "mistakes.py")
    lines = {int(line.split(":")[1]) for line in found}
    assert lines == set(range(5, MISTAKES.count("\n") + 1)), found


def imported(file: Path, forms: dict[str, list[Any]]) -> dict[str, Any]:
    """What a module defines; the forms of every call that has several go into `forms`."""

    def overload(form: Any) -> Any:
        forms.setdefault(form.__qualname__, []).append(form)
        return form

    text = file.read_text()
    assert "TypeVar, overload\n" in text
    types: dict[str, Any] = {"overload": overload, "__name__": "types_of_a_model"}
    exec(text.replace("TypeVar, overload\n", "TypeVar\n"), types)
    return types


def parameters(signature: inspect.Signature) -> dict[str, bool]:
    """The names of a call's arguments, and whether they may be left out."""
    found = {name: one.default is not inspect.Parameter.empty for name, one in signature.parameters.items()}
    return {name: optional for name, optional in found.items() if name != "self"}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_types_have_the_signatures_of_the_store(folder: Path, file: Path) -> None:
    model = example(file.stem)
    forms: dict[str, list[Any]] = {}
    types = imported(folder / f"{file.stem}_types.py", forms)
    name = camel(model.name)
    core = Core(model, designed(file.stem, "sqlite"), get_engine("sqlite"))
    for store, protocol in ((Store(core, NO_PORT), types[name]), (AsyncStore(core, NO_PORT), types[f"Async{name}"])):
        is_async = isinstance(store, AsyncStore)
        for call in model.calls:
            real = getattr(store, call)
            typed = vars(protocol)[call]
            if isinstance(typed, property):
                kind = types[typed.fget.__annotations__["return"]]
                everything = {**parameters(inspect.signature(kind.all)), "explain": True}
                assert everything == parameters(real.__signature__), call
                typed = kind.__call__
            plain, explained = forms[typed.__qualname__]
            assert inspect.iscoroutinefunction(plain) == is_async
            assert parameters(inspect.signature(plain)) == parameters(real.__signature__), call
            required = {**parameters(real.__signature__), "explain": False}
            assert parameters(inspect.signature(explained)) == required, call
        own = {each for each in vars(protocol) if each not in model.calls and callable(vars(protocol)[each])}
        for each in own - {"__init__", "__subclasshook__"}:
            typed, real = vars(protocol)[each], vars(type(store))[each]
            assert parameters(inspect.signature(typed)) == parameters(inspect.signature(real)), each
            assert inspect.iscoroutinefunction(typed) == inspect.iscoroutinefunction(real), each
        public = {each for each in vars(type(store)) if not each.startswith("_")}
        assert public <= own, "the store has more than the types"


@pytest.mark.thorough
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_types_can_be_imported(folder: Path, file: Path) -> None:
    done = subprocess.run([sys.executable, f"{file.stem}_types.py"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


TYPED = (
    *(
        "int",
        "str",
        "bytes",
        "float",
        "bool",
        "list",
        "tuple",
        "frozenset",
        "date",
        "datetime",
        "Decimal",
        "UUID",
        "Any",
    ),
    *(
        "Literal",
        "overload",
        "property",
        "object",
        "none",
        "true",
        "false",
        "Sequence",
        "Page",
        "Row",
        "Executed",
        "Self",
    ),
    *("Get", "Thing", "type", "Protocol", "NotRequired", "Iterator", "Names", "names_call", "Design", "Consistency"),
)
"""Names of calls that the types have for something else."""
MODELS = ("none", "row", "page", "any", "executed", "design", "overload", "property", "iterator", "names", "things")


def strange(name: str, calls: Sequence[str]) -> str:
    """A model with values of all types, and patterns of these names with one row and with many."""
    found = "".join(
        f"  {call}: {{ find: T, where: '{'day = :day and text = :text' if number % 2 else 'id = :id'}', rate: 1/s }}\n"
        for number, call in enumerate(calls)
    )
    return f"""
keyplan: 1
name: {name}
entities:
  T:
    count: 1k
    fields:
      id: uuid, key
      text: string(4)
      day: date
      date: date
      at: timestamp
      data: bytes(4)
      sum: decimal(2)
      share: float
      tags: set(int, avg 2)
      steps: "list(int, avg 2)"
      kind: enum(a, b)
      free: bool
patterns:
{found}
writes:
  add: {{ create: T, rate: 1/s }}
  things: {{ update: T, set: [day, steps, kind], where: "id = :id", return: [date, day], rate: 1/s }}
transactions:
  both: [add, things x1 max 3]
"""


@pytest.mark.thorough
def test_names_that_mean_something_else_in_the_types(tmp_path: Path) -> None:
    for name in ("depot", *MODELS):
        calls = TYPED if name == "depot" else [name] if name not in ("design", "things") else []
        for file, text in write(parse_model(strange(name, calls)), NO_DESIGN).items():
            (tmp_path / file).write_text(text)
            exec(text, {"__name__": "types_of_a_model"})
    assert mypy(tmp_path, ".") == []
