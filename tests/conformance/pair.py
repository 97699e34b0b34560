"""A store and the reference side by side: the same model, rows, clock and generated keys, every call made on both."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from textwrap import dedent
from typing import Any
from uuid import UUID

import pytest

import keyplan
from keyplan.engines import engine_for_url
from keyplan.errors import ArgumentError, ConflictError, RangeError, UnsupportedError
from keyplan.model.identifiers import ulid_text
from keyplan.model.model import Model
from keyplan.model.pattern import Traffic
from keyplan.model.types import Type
from keyplan.plan.design import Design
from keyplan.reference import Database
from keyplan.store.store import Store
from tests.examples_data.compare import difference, first_difference, walk
from tests.naive import Extras, packed_design

NOON = datetime(2052, 5, 15, 12, 0, tzinfo=UTC)
"""When every test begins: in the future, because servers delete by their own clocks what has expired."""
"""A Wednesday."""

Rows = Iterable[tuple[str, Mapping[str, Any]]]


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **by: float) -> None:
        self.now += timedelta(**by)


def ids() -> Callable[[Type, datetime], Any]:
    """Generated keys that are the same in every run."""
    source = random.Random(7)

    def new_id(type: Type, now: datetime) -> Any:
        number = source.getrandbits(127)
        return UUID(int=number) if type.kind == "uuid" else ulid_text(number)

    return new_id


def at(text: str) -> datetime:
    """`2052-05-01 10:00` as a timestamp in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


SIZES = {"small": (100.0, 0.1, 0.1), "read": (10e6, 500.0, 0.01), "written": (10e6, 0.01, 100.0)}
"""Rows, reads and writes per second of models that say nothing else: each leads to another design."""


SMALL = 10_000
"""Rows that can be scanned: no pattern over so few of them may be unserved."""


PACKED = "packed"
"""Small figures, and a naive design in which everything is packed, on engines that can."""
EVERYTHING_PACKED = Extras(
    copies=True, counters=True, computed=True, elements=True, buckets="month", packed=True, packed_homes=True
)


def sized(model: Model, size: str) -> Model:
    """The model with other figures, and so with another design that has to mean the same."""
    count, reads, writes = SIZES["small" if size == PACKED else size]
    return replace(
        model,
        entities={name: replace(one, count=count) for name, one in model.entities.items()},
        patterns={name: replace(one, traffic=Traffic(reads), rows=None) for name, one in model.patterns.items()},
        writes={name: replace(one, traffic=Traffic(writes)) for name, one in model.writes.items()},
    )


@cache
def parsed(text: str, size: str | None = None) -> Model:
    """A model from its sections."""
    model = keyplan.parse_model(f"keyplan: 1\nname: test\n{dedent(text)}")
    return model if size is None else sized(model, size)


@dataclass
class Pair:
    """A store and the reference; `same` calls both."""

    store: Store
    database: Database
    clock: Clock
    url: str = ""

    @property
    def model(self) -> Model:
        return self.store.model

    def load(self, rows: Rows) -> None:
        rows = list(rows)
        assert self.store.load(rows) == self.database.load(rows)

    def same(self, name: str, /, **arguments: Any) -> Any:
        """Calls a pattern (all pages), write or transaction on both; the common answer, or the common error raised.

        What the design says it cannot serve has to be refused with its reason; the answer is that of the reference, so
        that the rest of a test runs.
        """
        pattern = self.model.patterns.get(name)
        ask = getattr(self.store, name)
        expected = outcome(pattern, partial(self.database.call, name), arguments)
        if self.serves(name) or isinstance(expected, Exception):
            found = outcome(pattern, ask, arguments)
        else:
            self.unserved(name, **arguments)
            found = expected
        if isinstance(expected, Exception):
            assert type(found) is type(expected), f"{name}({arguments}): expected {expected!r}, found {found!r}"
            if isinstance(expected, ConflictError | RangeError):  # their words are the engine's own
                assert str(found).startswith(f"{name}: ")
            else:
                assert str(found) == str(expected)
            raise found
        if isinstance(found, Exception):
            raise AssertionError(f"{name}({arguments}): expected {expected!r}") from found
        differs = first_difference(expected, found) if pattern is None else difference(pattern, expected, found)
        assert differs is None, f"{name}({arguments}): {differs}"
        if isinstance(expected, list) and pattern is not None and expected and isinstance(expected[0], list):
            return [row for page in expected for row in page]
        return expected

    def serves(self, name: str) -> bool:
        """Whether the design has a plan for a pattern; many rows make some of them too dear."""
        return name not in self.store.design.unserved

    def unserved(self, name: str, /, **arguments: Any) -> None:
        """The design has no plan for a pattern of a large entity: the call says so, and why."""
        reason = self.store.design.unserved[name].reason
        assert reason
        entity = self.model.entities[self.model.calls[name].entity]
        assert entity.count > SMALL, f"{name}: of {entity.count} rows, everything is to be served: {reason}"
        with pytest.raises(UnsupportedError) as caught:
            getattr(self.store, name)(**arguments)
        assert str(caught.value) == f"{name}: this design does not serve it: {reason}"

    def refused(self, name: str, /, **arguments: Any) -> str:
        """Calls both; both refuse with the same class of error, and of wrong arguments say the same."""
        with pytest.raises((ArgumentError, ConflictError)) as caught:
            self.same(name, **arguments)
        return str(caught.value)

    def conflict(self, name: str, /, **arguments: Any) -> None:
        """Calls both; both raise ConflictError."""
        with pytest.raises(ConflictError):
            self.same(name, **arguments)

    def agrees(self, reads: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Every read that the design serves answers as the reference does."""
        for name, arguments in reads:
            if self.serves(name):
                self.same(name, **arguments)

    def stays_right(
        self, writes: Iterable[tuple[str, Mapping[str, Any]]], reads: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> None:
        """The reads agree before and after each of the writes, and so do the views."""
        self.agrees(reads)
        for name, arguments in writes:
            self.same(name, **arguments)
            self.agrees(reads)
            self.verified()

    def verified(self) -> None:
        """Every view is what its rows imply."""
        self.store.settle()
        found = self.store.verify()
        assert found.ok, found.problems


def outcome(pattern: Any, ask: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """What a call answers, or the error it raises."""
    try:
        return ask(**arguments) if pattern is None else walk(pattern, ask, dict(arguments))
    except (ArgumentError, ConflictError) as error:
        return error


@cache
def designed(model: Model, engine: str, size: str = "") -> Design:
    """The design of a model; many tests share one."""
    if size == PACKED:
        return packed_design(model, EVERYTHING_PACKED, engine)
    return keyplan.design(model, engine, advise=False)


APPLIED: dict[str, tuple[Model, Design]] = {}
"""What was last applied here to a database: one that is lent to another test has it still, or opening it says so."""


@contextmanager
def opened(model: Model, url: str, rows: Rows = (), design: Design | None = None) -> Iterator[Pair]:
    """A pair on a database without rows, with these."""
    design = design or designed(model, engine_for_url(url).name)
    if APPLIED.get(url) != (model, design):
        keyplan.apply(model, url, design=design)
        APPLIED[url] = model, design
    clock = Clock()
    database = Database(model, clock, ids())
    with keyplan.open(model, url, design=design, clock=clock, new_id=ids()) as store:
        pair = Pair(store, database, clock, url)
        pair.load(rows)
        yield pair
