"""Stores over the memory double, compared with `reference`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyplan.model.model import Model
from keyplan.store.core import Core
from keyplan.store.store import Store
from tests.naive import Extras, naive_design
from tests.strategies.programs import Clock, Outcome, Program, play
from tests.unit.store.memory import MemoryEngine, MemoryPort


def memory_store(model: Model, extras: Extras | None = None, clock: Clock | None = None) -> Store:
    """A store in memory, with a naive design."""
    return store_over(MemoryPort(model, naive_design(model, extras)), clock)


def store_over(port: MemoryPort, clock: Clock | None = None, most: int | None = None) -> Store:
    """A store over entries in memory; its requests may have so many edits."""
    engine: Any = MemoryEngine(most=most)  # what a store needs of an engine, and no more
    new_id = None if clock is None else clock.new_id
    return Store(Core(port.model, port.design, engine, clock or Clock(), new_id), port)


def on_store(program: Program, extras: Extras) -> tuple[list[Outcome], Store]:
    """The outcomes of a program on a store in memory."""
    clock = Clock()
    store = memory_store(program.model, extras, clock)

    def call(name: str, arguments: Mapping[str, Any], cursor: Any) -> Any:
        given = dict(arguments) if cursor is None else {**arguments, "cursor": cursor}
        return getattr(store, name)(**given)

    return play(program, call, store.load, clock), store
