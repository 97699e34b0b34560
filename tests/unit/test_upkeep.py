"""What open stores have to agree on."""

from __future__ import annotations

import pytest

import keyplan
from keyplan.engines import BUILTIN, get_engine
from keyplan.model.load import parse_model
from keyplan.plan.lockfile import lock_text, read_lock
from tests.examples_data.designs import EXAMPLES, designed, example

MODEL = """
keyplan: 1
name: shop
entities:
  Order:
    count: {count}
    fields: {{ oid: "int, key", user: int, at: timestamp, note: "string(9), optional{more}" }}
patterns:
  by_id: {{ find: Order, where: "oid = :oid", rate: 1/s }}
{patterns}
writes:
  make: {{ create: Order, rate: 1/s }}
{writes}
"""
NEWEST = '  newest: { find: Order, where: "user = :user", order: at desc, page: 5, rate: 900/s }'


def upkeep(engine: str, count: str = "1M", patterns: str = "", writes: str = "", more: str = "") -> str:
    model = parse_model(MODEL.format(count=count, patterns=patterns, writes=writes, more=more))
    return get_engine(engine).upkeep(model, keyplan.design(model, engine, advise=False))


def test_indexes_of_the_server_patterns_and_figures_may_change() -> None:
    assert upkeep("sqlite") == upkeep("sqlite", patterns=NEWEST) == upkeep("sqlite", count="2M")
    assert upkeep("mongodb") == upkeep("mongodb", patterns=NEWEST)


def test_keys_that_we_compose_writes_and_rows_may_not() -> None:
    assert upkeep("dynamodb") != upkeep("dynamodb", patterns=NEWEST)
    drop = '  drop: { delete: Order, where: "oid = :oid", rate: 1/s }'
    assert len({upkeep("sqlite"), upkeep("sqlite", writes=drop), upkeep("sqlite", more=", unique")}) == 3


@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_design_that_was_recorded_has_the_same(engine: str, name: str) -> None:
    """Whoever applies a design has made it, and whoever opens it has read it."""
    model, made = example(name), designed(name, engine)
    read = read_lock(lock_text(model, made), model)
    assert get_engine(engine).upkeep(model, made) == get_engine(engine).upkeep(model, read)
