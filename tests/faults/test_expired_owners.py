"""The expired owner of a unique value goes, whoever removes it, while somebody else takes the value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

import keyplan
from keyplan.model.load import parse_model
from keyplan.store.store import Store
from tests.conformance.pair import NOON
from tests.conftest import Lend
from tests.engines.harness import Harness
from tests.faults.test_dangling import hold_up

MODEL = """
keyplan: 1
name: desks
entities:
  Desk:
    count: 1k
    ttl: 30m since taken
    fields:
      desk: int, key
      by: string(8), unique
      taken: timestamp
patterns:
  desk: { find: Desk, where: "desk = :desk", rate: 1/s, consistency: strong }
  of: { find: Desk, where: "by = :by", rate: 1/s, consistency: strong }
writes:
  take: { create: Desk, rate: 1/s }
  put: { upsert: Desk, rate: 1/s }
transactions:
  both: { writes: [take, put] }
"""


@pytest.fixture
def stores(harness: Harness, lend: Lend) -> Iterator[tuple[Store, Store]]:
    model = replace(parse_model(MODEL), targets=harness.targets)
    url = lend(MODEL)
    keyplan.apply(model, url)
    with keyplan.open(model, url, clock=lambda: NOON) as one, keyplan.open(model, url, clock=lambda: NOON) as other:
        yield one, other


@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
def test_a_value_is_free_once_its_owner_has_expired(stores: tuple[Store, Store], together: bool) -> None:
    one, other = stores
    long_ago = NOON - timedelta(hours=2)
    port = one._port
    for at in range(7):
        old, new, gone, freed = 10 * at, 10 * at + 1, f"ann{at}", f"bob{at}"
        other.put(desk=old, by=gone, taken=long_ago)
        hold_up(one, port, {at: lambda old=old, freed=freed: other.put(desk=old, by=freed, taken=long_ago)})
        row = {"desk": new, "by": gone, "taken": NOON}
        if together:
            one.both(take=row, put={"desk": old + 2, "by": f"eve{at}", "taken": NOON})
        else:
            one.take(**row)
        assert one.of(by=gone)["desk"] == new, at
    hold_up(one, port, {})
    with pytest.raises(keyplan.ConflictError):
        one.take(desk=-1, by="ann0", taken=NOON)
    checked = other.verify()
    assert checked.ok, checked.problems
