"""The types for Python say what the store does: what it takes checks, what it refuses does not, answers are so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import keyplan
from keyplan.emit.python import write
from keyplan.model.load import parse_model
from tests.unit.emit.test_python import NO_DESIGN, mypy

MODEL = """
keyplan: 1
name: depot
entities:
  Shelf:
    count: 100
    key: [hall, number]
    fields:
      hall: string(4)
      number: int
  Box:
    count: 1k
    key: [shelf, place]
    fields:
      shelf: Shelf, as boxes, max 50
      place: int
  Thing:
    count: 1k
    fields:
      thing_id: int, key
      box: Box, as things, optional
      shelf: Shelf, optional
      kind: enum(a, b), default a
      name: string(10), optional
      data: bytes(8), optional
      tags: set(string(4), avg 2, max 9)
      days: set(date, avg 2, max 9)
      steps: list(int, avg 2, max 9)
      words: list(string(4), avg 2, max 9)
      made: date, now
  Label:
    count: 1k
    fields:
      thing: Thing, key, as label, max 1
      text: string(10)
  Note:
    count: 1k
    key: [thing, line]
    fields:
      thing: Thing, as notes, max 20
      line: int
      text: string(10), default none
patterns:
  thing: { find: Thing, where: "thing_id = :id", with: [label, notes, box.place], rate: 5/s }
  newest: { find: Thing, order: made desc, limit: 5, rate: 5/s }
  some: { find: Thing, where: "thing_id in :ids", page: 5, rate: 5/s }
  named: { find: Thing, where: "name in :names", limit: 7, rate: 5/s }
  made_on: { find: Thing, where: "day(made) = :day", page: 5, rate: 5/s }
  how_many: { count: Thing, rate: 1/s }
  last: { max: Thing.made, where: "kind = :kind", rate: 1/s }
  kinds: { count: Thing, group: [kind], rate: 1/s }
  figures: { from: Thing, compute: { n: count(), most: max(thing_id) }, rate: 1/s }
  place_of: { rank: Thing, of: [thing_id], order: made desc, rate: 1/s }
writes:
  add: { create: Thing, with: [label, notes], rate: 1/s }
  put: { upsert: Thing, rate: 1/s }
  move: { update: Thing, set: [box], where: "thing_id = :id", rate: 1/s }
  call: { update: Thing, set: { name: ":to" }, where: "thing_id = :id", return: [name], rate: 1/s }
  fill: { update: Thing, set: [tags, steps], where: "thing_id = :id", rate: 1/s }
  name: { upsert: Thing, set: [name], return: [name], rate: 1/s }
  drop: { delete: Thing, where: "kind = :kind", rows: 2, rate: 1/s }
  shelve: { upsert: Box, rate: 1/s }
transactions:
  both: [add, move x1 max 3]
"""

TAKEN = """
depot.add(thing_id=1)
depot.add(thing_id=2, box=("h", 1, 2), shelf=("h", 1))
depot.add(thing_id=3, box=(("h", 1), 2), shelf={"hall": "h", "number": 1})
depot.add(thing_id=4, box={"shelf": ("h", 1), "place": 2})
depot.add(thing_id=5, box={"shelf": {"hall": "h", "number": 1}, "place": 2})
depot.add(thing_id=6, box=None, shelf=None, name=None)
depot.add(thing_id=7, label={"text": "x"}, notes=[{"line": 1}, {"line": 2, "text": "y"}])
depot.add(thing_id=8, label=None, notes=())
depot.add(thing_id=9, tags={"a"}, days={date(2026, 1, 1), "2026-01-02"}, steps=[1, 1], words=("a", "b"))
depot.add(thing_id=10, tags=frozenset("ab"), days=[date(2026, 1, 1)], steps=(1, 2), words=["a"])
depot.add(thing_id=11, tags=["a"], data=bytearray(b"x"))
depot.put(thing_id=12, kind="b", made="2026-01-01", data=b"x")
depot.move(id=1, box=None)
depot.move(id=1, box=("h", 1, 2))
depot.move(id=1, box={"shelf": ("h", 1), "place": 2})
depot.call(id=1, to=None)
depot.call(id=1, to="x")
depot.fill(id=1, tags={"a"}, steps=[1])
depot.shelve(shelf=("h", 1), place=2)
depot.shelve(shelf={"hall": "h", "number": 1}, place=2)
depot.both(add={"thing_id": 13, "label": None, "box": {"shelf": ("h", 1), "place": 2}}, move=[{"id": 1, "box": None}])
depot.some(ids=[1]), depot.some(ids={1}), depot.some(ids=(1, 2))
depot.named(names={"a"}), depot.named(names=["a"]), depot.named(names=("a",))
depot.made_on(day=datetime.now(UTC)), depot.made_on(day="2026-01-01"), depot.made_on(day=date(2026, 1, 1))
"""

REFUSED = """
depot.add(thing_id=None)
depot.add(thing_id=21, kind=None)
depot.add(thing_id=21, made=None)
depot.add(thing_id=21, kind="c")
depot.add(thing_id=21, notes=None)
depot.add(thing_id=21, box=("h", 1))
depot.add(thing_id=21, box={"shelf": ("h", 1)})
depot.add(thing_id=21, box=(None, None, None))
depot.add(thing_id=21, shelf=(None, None))
depot.add(thing_id=21, tags=None)
depot.add(thing_id=21, tags="ab")
depot.add(thing_id=21, steps={1})
depot.add(thing_id=21, steps=frozenset([1]))
depot.add(thing_id=21, words="ab")
depot.move(id=1, box=(None, None, None))
depot.move(id=None, box=None)
depot.fill(id=1, tags=None, steps=[1])
depot.fill(id=1, tags=["a"], steps={1})
depot.shelve(shelf=None, place=2)
depot.some(ids=1)
depot.named(names="ab")
depot.newest(cursor="x")
depot.newest.all(cursor="x")
"""

ANSWERS = """
thing: Thing | None
newest: list[Newest]
some: Page[Some]
named: list[Named]
made_on: Page[MadeOn]
how_many: int
last: date | None
kinds: list[Kinds]
figures: Figures
place_of: int | None
add: AddDone
move: None
call: Call | None
name: Name
drop: int
"""
ASKED = {
    "thing": "thing(id=1)",
    "newest": "newest()",
    "some": "some(ids=[1])",
    "named": "named(names=['x'])",
    "made_on": "made_on(day='2026-01-01')",
    "how_many": "how_many()",
    "last": "last(kind='a')",
    "kinds": "kinds()",
    "figures": "figures()",
    "place_of": "place_of(thing_id=1)",
    "add": "add(thing_id=31)",
    "move": "move(id=1, box=None)",
    "call": "call(id=1, to='x')",
    "name": "name(thing_id=32, name=None)",
    "drop": "drop(kind='b')",
}
HEAD = """
from datetime import UTC, date, datetime
from typing import assert_type
from depot_types import (
    AddDone, AsyncDepot, Call, Depot, Figures, Kinds, MadeOn, Name, Named, Newest, Page, Some, Thing
)
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("types")
    for name, text in write(parse_model(MODEL), NO_DESIGN).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def opened() -> Any:
    with keyplan.open(parse_model(MODEL), "sqlite::memory:") as store:
        yield store


def run(store: Any, line: str) -> Any:
    return eval(line, {"depot": store, **vars(__import__("datetime"))})


@pytest.mark.thorough
def test_what_is_taken_checks_and_what_is_refused_does_not(folder: Path) -> None:
    program = [*lines(HEAD), "def use(depot: Depot) -> None:", *(f"    {line}" for line in lines(TAKEN))]
    program += [f"    assert_type(depot.{ASKED[name]}, {type})" for name, type in answers()]
    many = [name for name, type in answers() if type.startswith(("list[", "Page[")) and name != "kinds"]
    program += [f"    assert_type(next(depot.{ASKED[name].replace('(', '.all(', 1)}), {row(name)})" for name in many]
    program += ["async def wait(depot: AsyncDepot) -> None:"]
    program += [f"    assert_type(await depot.{ASKED[name]}, {type})" for name, type in answers()]
    for name in many:
        program += [f"    async for {name} in depot.{ASKED[name].replace('(', '.all(', 1)}:"]
        program += [f"        assert_type({name}, {row(name)})"]
    # Of a call that returns None, mypy says that there is nothing to be looked at.
    (folder / "taken.py").write_text("# mypy: disable-error-code=func-returns-value\n" + "\n".join(program))
    assert mypy(folder, "taken.py") == []
    wrong = [*lines(HEAD), "def use(depot: Depot) -> None:", *(f"    {line}" for line in lines(REFUSED))]
    (folder / "wrong.py").write_text("\n".join(wrong))
    found = {int(line.split(":")[1]) for line in mypy(folder, "wrong.py")}
    missed = [line for number, line in enumerate(wrong, 1) if line.strip() in lines(REFUSED) and number not in found]
    assert missed == []


def answers() -> list[tuple[str, str]]:
    """Every call and the type of its answer."""
    return [(name, type) for name, _, type in (line.partition(": ") for line in lines(ANSWERS))]


def row(name: str) -> str:
    return dict(answers())[name].partition("[")[2][:-1]


@pytest.mark.parametrize("line", lines(TAKEN))
def test_the_store_takes_what_checks(opened: Any, line: str) -> None:
    run(opened, line)


@pytest.mark.parametrize("line", lines(REFUSED))
def test_the_store_refuses_what_does_not_check(opened: Any, line: str) -> None:
    with pytest.raises(keyplan.ArgumentError):
        run(opened, line)


@pytest.mark.parametrize(("name", "type"), answers())
def test_answers_are_of_the_kind_that_is_typed(opened: Any, name: str, type: str) -> None:
    answer = run(opened, f"depot.{ASKED[name]}")
    is_page = hasattr(answer, "cursor") and hasattr(answer, "rows")
    assert is_page == type.startswith("Page[")
    assert isinstance(answer, list) == type.startswith("list[")
    if not is_page and not isinstance(answer, list):
        assert answer is None or isinstance(answer, dict) == type[0].isupper()
    assert answer is not None or type.endswith("None")


def test_signatures_show_what_a_field_is_that_is_left_out(opened: Any) -> None:
    """And nothing that would be refused."""
    assert str(opened.add.__signature__) == (
        "(*, thing_id, box=None, shelf=None, kind='a', name=None, data=None, tags=(), days=(), steps=(), words=(), "
        "made=Ellipsis, label=None, notes=(), explain: 'bool' = False)"
    )
