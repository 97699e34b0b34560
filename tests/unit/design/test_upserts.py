"""Upserts with `set` or `add`: the row is read first only where something depends on what it was."""

from __future__ import annotations

import pytest

from keyplan.design import design
from keyplan.engines import BUILTIN, get_engine
from keyplan.plan.design import Design
from tests.unit.design.nouns import model_of

ONE = 'one: { find: Counter, where: "id = :id", rate: 10/s }\n'
HIT = "hit: { upsert: Counter, add: [n], rate: 1000/s }"


def designed(engine: str, fields: str = "n: int, default 0", patterns: str = "", write: str = HIT) -> Design:
    """A counter with these fields."""
    entities = f"Counter:\n  count: 1M\n  fields:\n    id: string(12), key\n    {fields}"
    return design(model_of(entities, ONE + patterns, write), get_engine(engine))


@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize(
    ("fields", "write"),
    [
        ("n: int, default 0", HIT),
        ("n: int, optional 50%", HIT),
        ("n: int, default 100\n    made: timestamp, now\n    tags: set(string(4), avg 2)", HIT),
        (
            "n: int\n    last: timestamp",
            "hit: { upsert: Counter, set: { last: now }, add: [n], return: [n], rate: 1k/s }",
        ),
    ],
)
def test_the_engine_adds_by_itself(engine: str, fields: str, write: str) -> None:
    found = designed(engine, fields, write=write)
    assert not found.writes["hit"].reads_row
    assert found.writes["hit"].figures.requests == 1
    assert found.writes["hit"].figures.trips == 1


@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize(
    ("fields", "patterns"),
    [
        ("n: float", ""),  # worked out here, so that all engines add alike
        ("n: int, default 5, optional 50%", ""),  # a row that is there may lack it
        ("n: int\n    kind: string(4), default 'a', optional 50%", ""),
        ("n: int\n    slug: string(4), default 'a', unique", ""),
    ],
)
def test_the_row_is_read_where_one_that_is_made_would_differ(engine: str, fields: str, patterns: str) -> None:
    found = designed(engine, fields, patterns)
    assert found.writes["hit"].reads_row
    assert found.writes["hit"].figures.requests == 2


@pytest.mark.parametrize("engine", BUILTIN)
def test_the_row_is_read_where_a_sum_is_kept_of_it(engine: str) -> None:
    """The count by kind stays, but the sum by kind changes with the row."""
    fields = "n: int, default 0\n    kind: string(4), default 'a', distinct 4"
    found = designed(engine, fields, 'summed: { sum: Counter.n, where: "kind = :kind", rate: 5k/s }')
    assert any(view.measures for view in found.views.values())
    assert found.writes["hit"].reads_row


def test_an_index_whose_key_is_given_does_not_need_the_row() -> None:
    fields = "n: int, default 0\n    day: date"
    pattern = 'of_day: { find: Counter, where: "day = :day", order: id, page: 20, rate: 10/s }'
    given = "hit: { upsert: Counter, set: [day], add: [n], rate: 1000/s }"
    assert not designed("dynamodb", fields, pattern, given).writes["hit"].reads_row
    kept = "n: int, default 0\n    day: date, now"
    assert designed("dynamodb", kept, pattern).writes["hit"].reads_row


@pytest.mark.parametrize("engine", BUILTIN)
def test_what_is_not_read_is_not_paid_for(engine: str) -> None:
    """The same as an update of a row that is known to be there."""
    update = 'hit: { update: Counter, add: [n], where: "id = :id", rate: 1000/s }'
    made, updated = designed(engine).objective, designed(engine, write=update).objective
    assert made.value - made.carrying == pytest.approx(updated.value - updated.carrying)
