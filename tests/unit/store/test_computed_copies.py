"""Values that are computed behind a reference, copied into views and into their keys: true after any writes."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from itertools import islice

import pytest

import keyplan
from keyplan.errors import ConflictError
from keyplan.reference import Database
from keyplan.store.store import Store
from tests.examples_data.compare import difference, walk
from tests.faults import chat
from tests.faults.interleaved import interleave
from tests.naive import EVERYTHING, Extras, naive_design
from tests.strategies.programs import Clock
from tests.unit.store.memory import MemoryPort
from tests.unit.store.support import memory_store, store_over

ORDERS = int(os.environ.get("KEYPLAN_ORDERS", "15"))
MODEL = chat.model()
EXTRAS = {
    "copied": Extras(copies=True, computed_copies=True),
    "in keys": Extras(copies=True, copied_keys=True, computed_copies=True),
    "with counters": Extras(copied_keys=True, counters=True, computed=True, computed_copies=True, dangling=True),
}
LIMITS = [None, 100, 60]


def chat_store(extras: str, most: int | None) -> Store:
    port = MemoryPort(MODEL, naive_design(MODEL, EXTRAS[extras]))
    store = store_over(port, Clock(), most)
    store.load(chat.rows())
    return store


@pytest.mark.thorough
@pytest.mark.parametrize("most", LIMITS)
@pytest.mark.parametrize("extras", EXTRAS)
def test_answers_are_those_of_the_reference(extras: str, most: int | None) -> None:
    for seed in range(ORDERS):
        store, reference = chat_store(extras, most), Database(MODEL, clock=Clock())
        reference.load(chat.rows())
        for name, arguments in islice(chat.steps(seed), 40):
            with suppress(ConflictError):
                reference.call(name, **arguments)
            with suppress(ConflictError):
                getattr(store, name)(**arguments)
        for name, arguments in chat.reads():
            pattern = MODEL.patterns[name]
            expected = walk(pattern, partial(reference.call, name), arguments)
            differs = difference(pattern, expected, walk(pattern, getattr(store, name), arguments))
            assert differs is None, (seed, name, arguments, differs)
        checked = store.verify()
        assert checked.ok, (seed, checked.problems)


@pytest.mark.thorough
@pytest.mark.parametrize("most", LIMITS)
@pytest.mark.parametrize("extras", EXTRAS)
def test_every_view_ends_true_in_any_order(extras: str, most: int | None) -> None:
    for seed in range(ORDERS):
        store = chat_store(extras, most)
        interleave(store, [chat.steps(100 * seed + number) for number in range(3)], 10, seed)
        found = store.verify()
        assert found.ok, (seed, found.problems)


@pytest.mark.thorough
@pytest.mark.parametrize("most", LIMITS)
@pytest.mark.parametrize("extras", EXTRAS)
def test_writers_that_are_cut_off_leave_what_can_be_mended(extras: str, most: int | None) -> None:
    for seed in range(ORDERS):
        store = chat_store(extras, most)
        interleave(store, [chat.steps(100 * seed + number) for number in range(4)], 10, seed, kills=0.01)
        store.settle()
        store.verify(repair=True)
        found = store.verify()
        assert found.ok, (seed, found.problems)


GONE_OWNERS = """
keyplan: 1
name: gone
entities:
  Ant: { count: 100, fields: { k: "int, key", m: count(bees) } }
  Bee: { count: 100, key: [k, l], fields: { k: "Ant, as bees, max 50", l: int, n: count(cats) } }
  Cat: { count: 100, fields: { c: "int, key", bee: "Bee, as cats", ant: Ant } }
patterns:
  one: { find: Cat, where: "c = :c", with: [ant.m, bee.n], rate: 1/s }
writes:
  make_cat: { create: Cat, rate: 1/s }
"""


def test_a_row_that_is_not_there_is_none_of_those_that_are_counted() -> None:
    """It has a count of its own, which is copied, and a reference in its key: whoever counts what refers to that row
    counted it as well, and took it for a change by somebody else, again and again."""
    model = keyplan.parse_model(GONE_OWNERS)
    store = memory_store(model, EVERYTHING["computed behind references"])
    reference = Database(model, clock=Clock())
    for number in (1, 2):
        for made in (store.make_cat, partial(reference.call, "make_cat")):
            made(c=number, bee=(7, 0), ant=7)
        assert store.one(c=number) == reference.call("one", c=number)
    assert store.verify().ok
