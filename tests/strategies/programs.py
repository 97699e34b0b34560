"""Programs: a model, rows, and calls whose arguments mostly hit what is there at that moment.

While a program is drawn, `reference` runs it, so that later arguments can be taken from rows that earlier calls made.
"""

from __future__ import annotations

import pprint
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from keyplan.errors import ArgumentError, ConflictError
from keyplan.model.identifiers import ulid_text
from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.model.types import Type
from keyplan.reference import Database
from tests.strategies.arguments import Scene, call_arguments, keep_promises, row_arguments
from tests.strategies.behind import behind_models
from tests.strategies.domains import START, among, chance
from tests.strategies.models import models
from tests.strategies.refused import refused_models
from tests.strategies.states import state_models

DOCUMENTED = (ArgumentError, ConflictError)
"""What a call of a program may raise; RangeError is an ArgumentError."""
MOST_PAGES = 50


class Clock:
    """A clock that only a program moves, and that makes the same new keys in every run of it."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now
        self.calls = 0
        self.made = 0

    def begin(self) -> None:
        """Another call: how many keys were made for those before it does not matter."""
        self.calls += 1
        self.made = 0

    def new_id(self, type: Type, now: datetime) -> Any:
        """A key that no row has yet."""
        self.made += 1
        number = 2**100 + self.calls * 1000 + self.made
        return UUID(int=number) if type.kind == "uuid" else ulid_text(number)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Call:
    """A pattern, write or transaction called once; of a paged pattern, the first page."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Next(Call):
    """The page after the last one that the same call gave, whatever has been written since; else the first one."""


@dataclass(frozen=True)
class Walk:
    """A paged pattern called until its pages end."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Advance:
    """The clock goes on."""

    seconds: int


Operation = Call | Walk | Advance


def few_or_many(most: int) -> list[int]:
    """How many there may be: not just a few, because few rows are found by nothing, and few calls meet nothing."""
    return [most // 2, most * 3 // 4, most]


@lru_cache(maxsize=8)
def _parsed(text: str) -> Model:
    """A program's model is wanted where it is drawn and wherever it is played."""
    return parse_model(text)


@dataclass(frozen=True)
class Program:
    """Everything a run needs; the same program does the same on every engine."""

    model_text: str
    rows: Sequence[tuple[str, Mapping[str, Any]]]
    operations: Sequence[Operation]

    @property
    def model(self) -> Model:
        return _parsed(self.model_text)

    def describe(self) -> str:
        """The program as a script that runs it on `reference` and prints every answer."""
        lines = [
            "import datetime",
            "from decimal import Decimal",
            "from uuid import UUID",
            "",
            "from keyplan.model.load import parse_model",
            "from tests.strategies.programs import Advance, Call, Next, Program, Walk, on_reference",
            "",
            f'MODEL = """\\\n{_escaped(self.model_text)}"""',
            f"ROWS = {pprint.pformat(list(self.rows), width=118, sort_dicts=False)}",
            "OPERATIONS = [",
            *(f"    {operation!r}," for operation in self.operations),
            "]",
            "for operation, outcome in zip(OPERATIONS, on_reference(Program(MODEL, ROWS, OPERATIONS))):",
            "    print(operation, '->', outcome)",
        ]
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        return f"\n{self.describe()}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


Outcome = tuple[str, Any]
"""('answer', what a call gave) or ('error', the name of the class it raised); ('clock', now) for an Advance."""


def play(
    program: Program,
    call: Callable[[str, Mapping[str, Any], Any], Any],
    load: Callable[[Sequence[tuple[str, Mapping[str, Any]]]], Any],
    clock: Clock,
) -> list[Outcome]:
    """Runs a program and says how each operation came out; the walk over pages is a list of all their rows.

    `call` takes a name, arguments and a cursor (None at first), and gives pages with `rows` and `cursor`.
    """
    load(program.rows)
    outcomes: list[Outcome] = []
    cursors: dict[str, Any] = {}
    for operation in program.operations:
        if isinstance(operation, Advance):
            clock.advance(operation.seconds)
            outcomes.append(("clock", clock.now))
            continue
        clock.begin()
        try:
            if isinstance(operation, Call):
                same = f"{operation.name} {operation.arguments!r}"
                found = call(
                    operation.name, operation.arguments, cursors.get(same) if type(operation) is Next else None
                )
                cursors[same] = getattr(found, "cursor", None)
            else:
                found = _walk(operation, call)
        except DOCUMENTED as error:
            outcomes.append(("error", type(error).__name__))
        else:
            outcomes.append(("answer", found))
    return outcomes


def _walk(operation: Walk, call: Callable[[str, Mapping[str, Any], Any], Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor: Any = None
    for _ in range(MOST_PAGES):
        page = call(operation.name, operation.arguments, cursor)
        rows += page.rows
        cursor = page.cursor
        if cursor is None:
            return rows
    raise AssertionError(f"{operation.name}: more than {MOST_PAGES} pages")


def on_reference(program: Program) -> list[Outcome]:
    """The outcomes that every engine has to match."""
    clock = Clock()
    database = Database(program.model, clock, clock.new_id)
    return play(program, lambda name, arguments, cursor: _call(database, name, arguments, cursor), database.load, clock)


def _call(database: Database, name: str, arguments: Mapping[str, Any], cursor: Any) -> Any:
    if cursor is not None:
        return database.read(name, cursor=cursor, **arguments)
    return database.call(name, **arguments)


@st.composite
def rows(draw: st.DrawFn, model: Model, most: int = 14, passing: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """Rows that load without a conflict, those of referenced entities mostly first."""
    clock = Clock()
    database = Scene(model, clock, clock.new_id, passing=passing)
    given = {name: row_arguments(database, name) for name in model.entities}
    kept: list[tuple[str, dict[str, Any]]] = []
    for _ in range(draw(among(*few_or_many(most)))):
        name = draw(among(*model.entities))
        arguments = keep_promises(database, name, draw(given[name]))
        try:
            database.load([(name, arguments)])
        except DOCUMENTED:
            continue  # a conflict with a row before it
        kept.append((name, arguments))
    return kept


@st.composite
def other_versions(
    draw: st.DrawFn, model: Model, loaded: Sequence[tuple[str, Mapping[str, Any]]], most: int = 4
) -> list[tuple[str, dict[str, Any]]]:
    """Some of the rows under the same keys with other values: a load that gives rows twice keeps the later ones."""
    clock = Clock()
    database = Scene(model, clock, clock.new_id)
    database.load(loaded)
    found = []
    for name, fields in draw(st.lists(st.sampled_from(loaded), max_size=most)) if loaded else ():
        about = model.entities[name]
        key = {about.columns[column].field for column in about.key}
        found.append((name, {**draw(row_arguments(database, name)), **{one: fields[one] for one in key}}))
    return found


@st.composite
def operations(
    draw: st.DrawFn,
    model: Model,
    loaded: Sequence[tuple[str, Mapping[str, Any]]] = (),
    most: int = 16,
    passing: bool = False,
) -> list[Operation]:
    """Calls one after another, each drawn with the rows before its eyes."""
    clock = Clock()
    database = Scene(model, clock, clock.new_id, passing=passing)
    database.load(loaded)
    paged = {pattern.name for pattern in model.patterns.values() if pattern.kind == "find" and pattern.page is not None}
    reads, changes = list(model.patterns), [*model.writes, *model.transactions]
    changes += [name for name in changes if name not in model.writes or model.writes[name].kind != "create"]
    kinds = ["read", "write", "read", "write", "write", "read", "write", "advance"]
    kinds += ["advance"] if any(entity.ttl is not None for entity in model.entities.values()) else []
    given = {name: call_arguments(database, name) for name in (*reads, *changes)}
    called = {"read": st.sampled_from(reads), "write": st.sampled_from(changes)}
    found: list[Operation] = []
    paging: list[Next] = []
    for _ in range(draw(among(*few_or_many(most)))):
        kind = draw(among(*kinds))
        if kind == "read" and paging and draw(st.booleans()):
            found.append(draw(st.sampled_from(paging)))
            continue
        if kind == "advance":
            step = Advance(draw(among(1, 1800, 3600, 86_400, 2_700_000)))
            clock.advance(step.seconds)
            found.append(step)
            continue
        name = draw(called[kind])
        clock.begin()
        arguments = draw(given[name])
        # the first page of a set of rows can be any; only all pages together can be compared
        if name in paged and (not model.patterns[name].order or chance(draw, 3)):
            found.append(Walk(name, arguments))
            continue
        found.append(Call(name, arguments))
        with suppress(*DOCUMENTED):
            answer = database.call(name, **arguments)
            if getattr(answer, "cursor", None) is not None:
                paging.append(Next(name, arguments))
    for name in reads:  # once more, so that what the last writes have done is seen
        arguments = draw(given[name])
        found.append(Walk(name, arguments) if name in paged else Call(name, arguments))
    return found


@st.composite
def programs(
    draw: st.DrawFn,
    most_entities: int = 4,
    most_rows: int = 14,
    most_operations: int = 16,
) -> Program:
    """A model with rows and operations; in every third, rows copy from others that have expired."""
    passing = chance(draw, 2)
    text = draw(models(most_entities, passing=passing))
    model = _parsed(text)
    loaded = draw(rows(model, most_rows, passing))
    return Program(text, loaded, draw(operations(model, loaded, most_operations, passing)))


@st.composite
def behind_programs(draw: st.DrawFn, owned: bool = False) -> Program:
    """A model about what is computed behind references, or is asked for by them, with rows and operations."""
    text = draw(behind_models(owned))
    loaded = draw(rows(_parsed(text)))
    return Program(text, loaded, draw(operations(_parsed(text), loaded)))


@st.composite
def state_programs(draw: st.DrawFn) -> Program:
    """A model about the states of rows, with rows and operations."""
    text = draw(state_models())
    loaded = draw(rows(_parsed(text)))
    return Program(text, loaded, draw(operations(_parsed(text), loaded)))


@st.composite
def refused_programs(draw: st.DrawFn) -> Program:
    """A model about writes of many rows, some of which are refused, with rows and operations."""
    text = draw(refused_models())
    loaded = draw(rows(_parsed(text)))
    return Program(text, loaded, draw(operations(_parsed(text), loaded)))
